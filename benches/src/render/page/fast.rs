//! Sections of throughput and of other programs.

use super::first::systems;
use super::section::Section;
use crate::measure::peers::program::Program;
use crate::measure::rounds::LAPS;
use crate::record::sorted::{Sorted, groups, on_cpu};
use crate::record::{Peer, Throughput};
use crate::render::chart::{Axis, Dot, Dots, Lane};
use crate::render::headline::{main_rows, rows};
use crate::render::palette::{OURS, of_system};
use crate::text::{percent, range, whole};

const RATE: Axis = Axis::log("instances a second", whole);

pub(super) fn speed(sorted: &Sorted<'_>) -> Option<Section> {
    if sorted.throughputs.is_empty() {
        return None;
    }
    let rows = rows(sorted);
    let main = main_rows(&rows);
    let is_main = |record: &Throughput| {
        main.iter().any(|row| {
            (&row.ours.model, &row.ours.input, row.ours.hidden, row.ours.batch)
                == (&record.model, &record.input, record.hidden, record.batch)
        })
    };
    let (mut plots, mut more) = (Vec::new(), Vec::new());
    let key = |r: &Throughput| (r.model.clone(), r.input.clone(), r.hidden, r.batch);
    for group in groups(&sorted.throughputs, key) {
        let Throughput { model, input, hidden, batch, .. } = group[0];
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
        method: "Time from parsed inputs to results on the host, including construction, \
                 scheduling and planning. Nothing but memory is kept between mini-batches. In \
                 every round each system has one turn, with the same mini-batches and the same \
                 weights, after a comparison of results. The limit is the peak of this core, \
                 measured between rounds, divided by the FLOPs of the equations.",
        bias: "The baselines are our own versions of the published methods, not their authors' \
               programs. Products of looked-up rows are computed once per distinct row, so a \
               workload with few words can exceed the peak. Other work of the machine increases \
               the spread.",
        command: "cargo xtask bench --only throughput --hidden 128,256,512",
        ..Section::default()
    })
}

fn lane(record: &Throughput) -> Lane {
    let threads = match record.threads {
        1 if on_cpu(record) => String::new(),
        1 => format!(", {}", record.backend),
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
    let mut plots = Vec::new();
    for group in groups(&sorted.peers, |r| (r.model.clone(), r.input.clone(), r.hidden)) {
        let rows = groups(group, |r| r.batch).map(|group| {
            let colour = |peer: &Peer| of_system(&peer.system);
            let dot = Dot::new;
            let theirs = group.iter().map(|peer| dot(peer.instances_per_second, colour(peer)));
            let ratios = group.iter().map(|peer| format!("{:.1} ×", ratio(peer)));
            Lane {
                name: format!("batch {}", group[0].batch),
                note: ratios.collect::<Vec<_>>().join(", "),
                dots: theirs.chain([dot(group[0].edbatch_instances_per_second, OURS)]).collect(),
            }
        });
        let first = group[0];
        let caption = format!("{} on {}, H {}", first.model, first.input, first.hidden);
        let label = format!("Instances a second: {caption}");
        let plot = Dots { label, axis: RATE, limit: None, rows: rows.collect() };
        plots.push((caption, plot.svg()));
    }
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
        answer: format!("With mini-batches of equal size, ours is {}.", faster.join("; and ")),
        key: key.chain([("edbatch", OURS)]).collect(),
        plots,
        method: "All programs take turns in the same rounds, with the same inputs and the same \
                 weights, on one thread, after a comparison of results. PyTorch runs level by \
                 level with stacked gates under torch.inference_mode; sentences are sorted by \
                 length and packed for nn.LSTM. DyNet batches automatically; the graph is \
                 described node by node, with DyNet's own operations for LSTMs.",
        bias: "In favour of the others: preparation in Python (levels, index tensors, the \
               description of DyNet's graph) is not timed, while ours is. The records also have \
               speeds that include it. Against them: PyTorch's compiler was not tried. Compiler \
               switches matter; the version shows them if they are known.",
        command: "cargo xtask bench --peers --only throughput",
        ..Section::default()
    })
}

fn ratio(peer: &Peer) -> f64 {
    peer.edbatch_instances_per_second / peer.instances_per_second
}
