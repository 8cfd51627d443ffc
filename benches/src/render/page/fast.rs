//! Page sections: throughput, and other programs.

use super::first::systems;
use super::section::Section;
use crate::measure::peers::program::Program;
use crate::measure::rounds::LAPS;
use crate::record::sorted::{Sorted, groups, on_cpu};
use crate::record::{Case, Peer, Throughput};
use crate::render::chart::{Axis, Dot, Dots, Lane};
use crate::render::headline::{main_rows, rows};
use crate::render::palette::{OURS, of_system};
use crate::text::{percent, range, set, whole};

const RATE: Axis = Axis::log("instances a second", whole);

pub(super) fn speed(sorted: &Sorted<'_>) -> Option<Section> {
    if sorted.throughputs.is_empty() {
        return None;
    }
    let rows = rows(sorted);
    let main = main_rows(&rows);
    let is_main = |record: &Throughput| {
        main.iter().any(|row| {
            (row.ours.case.workload(), row.ours.case.batch)
                == (record.case.workload(), record.case.batch)
        })
    };
    let (mut plots, mut more) = (Vec::new(), Vec::new());
    let key = |r: &Throughput| (r.case.workload(), r.case.batch);
    for group in groups(&sorted.throughputs, key) {
        let Case { model, input, hidden, batch, .. } = &group[0].case;
        let caption = format!("{model} on {input}, H {hidden}, mini-batches of {batch}");
        let plot = Dots {
            label: format!("Instances a second: {caption}"),
            axis: RATE,
            limit: Some((group[0].peak_gflops * 1e9 / group[0].flops_per_instance, "the peak")),
            rows: group.iter().map(|record| lane(record)).collect(),
        };
        if is_main(group[0]) { &mut plots } else { &mut more }.push((caption, plot.svg()));
    }
    let spreads: Vec<f64> = rows.iter().map(|row| row.ours.spread).collect();
    let counted: Vec<f64> = rows.iter().map(|row| row.ours.mini_batches as f64).collect();
    let answer = match rows.is_empty() {
        true => "Instances a second of the chosen systems.".into(),
        false => format!(
            "Each figure is the median of {LAPS} laps over the whole run, each lap with new \
             engines, on {} mini-batches. Our farthest lap differs from it by {}.",
            range(&counted, whole),
            range(&spreads, percent),
        ),
    };
    Some(Section {
        id: "fast",
        title: "How fast is it?",
        answer,
        key: systems(&main),
        plots,
        more,
        method: "Time from parsed inputs to results on the host. In every round each system has \
                 one turn, with the same mini-batches and weights, after a comparison of results. \
                 The limit is the peak of this core, measured between rounds, divided by the FLOPs \
                 of the equations.",
        bias: "The baselines are our own versions of the published methods. Products of looked-up \
               rows are computed once per distinct row, so few words can exceed the peak.",
        command: "cargo xtask bench --only throughput --hidden 128,256,512",
    })
}

fn lane(record: &Throughput) -> Lane {
    let threads = match record.case.threads {
        1 if on_cpu(record) => String::new(),
        1 => format!(", {}", record.case.backend),
        more => format!(", {more} threads"),
    };
    let (rate, share) = (record.instances_per_second, record.fraction_of_peak);
    Lane {
        name: format!("{}{threads}", record.system),
        note: format!("{}/s · {}", whole(rate), percent(share)),
        dots: vec![Dot::new(rate, of_system(&record.system))],
    }
}

pub(super) fn peers(sorted: &Sorted<'_>) -> Option<Section> {
    let named = Program::ALL.into_iter().map(|program| {
        let of = |peer: &&&Peer| Program::of_system(&peer.system) == Some(program);
        (program, sorted.peers.iter().filter(of).copied().collect::<Vec<&Peer>>())
    });
    let programs: Vec<(Program, Vec<&Peer>)> =
        named.filter(|(_, records)| !records.is_empty()).collect();
    if programs.is_empty() {
        return None;
    }
    let rows =
        groups(&sorted.peers, |r| (r.case.workload(), r.case.backend.clone())).map(|group| {
            let Case { model, input, hidden, .. } = &group[0].case;
            let dot = |peer: &&Peer| Dot::new(peer.instances_per_second, of_system(&peer.system));
            let ratios: Vec<String> =
                group.iter().map(|peer| format!("{:.1} ×", ratio(peer))).collect();
            let ours = Dot::new(group[0].edbatch_instances_per_second, OURS);
            Lane {
                name: format!("{model} · {}, H {hidden}", set(input)),
                note: ratios.join(", "),
                dots: group.iter().map(dot).chain([ours]).collect(),
            }
        });
    let rows: Vec<Lane> = rows.collect();
    let plots = rows.chunks(12).map(|rows| {
        let caption = "Each with its best size of mini-batches".to_string();
        let label = format!("Instances a second of other programs: {caption}");
        (caption, Dots { label, axis: RATE, limit: None, rows: rows.to_vec() }.svg())
    });
    let faster = programs.iter().map(|(program, records)| {
        let ratios: Vec<f64> = records.iter().map(|peer| ratio(peer)).collect();
        let times = range(&ratios, |ratio| format!("{ratio:.1} ×"));
        format!("{times} as fast as {} {}", program.name(), records[0].version)
    });
    let faster: Vec<String> = faster.collect();
    let key = programs.iter().map(|&(program, _)| (program.name(), of_system(program.system(""))));
    Some(Section {
        id: "peers",
        title: "Compared with other programs?",
        answer: format!("Ours is {}.", faster.join("; and ")),
        key: key.chain([("edbatch", OURS)]).collect(),
        plots: plots.collect(),
        method: "All programs take turns in the same rounds, on one thread, with the same inputs \
                 and weights, each with the mini-batch that suits it best: sizes are doubled until \
                 the speed falls. PyTorch runs level by level with stacked gates, or nn.LSTM on \
                 packed sentences. DyNet batches a graph that is described node by node, with the \
                 best of its strategies.",
        bias: "Preparation in Python (levels, index tensors, the description of DyNet's graph) is \
               not timed, while ours is. PyTorch's compiler was not tried.",
        command: "cargo xtask bench --peers --only throughput",
        ..Section::default()
    })
}

fn ratio(peer: &Peer) -> f64 {
    peer.edbatch_instances_per_second / peer.instances_per_second
}
