//! How fast: every system on every workload, at every size; and other people's programs.

use super::first::systems;
use super::section::Section;
use crate::chart::{Axis, Dot, Dots, Lane, Spacing};
use crate::headline::{main_rows, rows};
use crate::palette::{OURS, of_program, of_system};
use crate::peers::Program;
use crate::record::{Peer, Throughput};
use crate::rounds::LAPS;
use crate::sorted::{Sorted, groups, on_cpu};
use crate::text::{percent, range, whole};
use crate::workload::Failure;

const RATE: Axis = Axis { label: "instances a second", spacing: Spacing::Log, format: whole };

pub(super) fn speed(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    if sorted.throughputs.is_empty() {
        return Ok(None);
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
            says: format!("Instances a second: {caption}"),
            axis: RATE,
            limit: Some((group[0].peak_gflops * 1e9 / group[0].flops_per_instance, "the peak")),
            rows: group.iter().map(|record| lane(record)).collect(),
        };
        if is_main(group[0]) { &mut plots } else { &mut more }.push((caption, plot.svg()?));
    }
    let spreads: Vec<f64> = rows.iter().map(|row| row.ours.spread).collect();
    let counted: Vec<f64> = rows.iter().map(|row| row.ours.mini_batches as f64).collect();
    let answer = match rows.is_empty() {
        true => "Instances a second of the systems that were chosen.".into(),
        false => format!(
            "Each figure is the median of {LAPS} laps over the whole run, with engines made anew, \
             on {} different mini-batches; the farthest lap of ours is {} from it.",
            range(&counted, whole),
            range(&spreads, percent),
        ),
    };
    Ok(Some(Section {
        id: "fast",
        title: "How fast is it?",
        answer,
        key: systems(&main),
        plots,
        more,
        method: "From parsed inputs to results on the host: building graphs, scheduling and \
                 planning included, nothing kept from the last mini-batch but memory. All systems \
                 take a turn in every round, to the last one, on the same mini-batches and the \
                 same weights, after their results were compared. The limit is the peak of this \
                 core, measured between rounds, over the FLOPs of the equations.",
        bias: "Baselines are our own versions of the published methods, not their authors' \
               programs. Products of looked-up rows are done once per distinct row, so a workload \
               with few words can pass the peak. Whatever else the machine does shows in the \
               spread.",
        command: "cargo xtask bench --only throughput --hidden 128,256,512",
    }))
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
        dots: vec![Dot { at: rate, to: None, colour: of_system(&record.system) }],
    }
}

pub(super) fn peers(sorted: &Sorted<'_>) -> Result<Option<Section>, Failure> {
    let named = Program::ALL.into_iter().map(|program| {
        let of = |peer: &&&Peer| Program::of_system(&peer.system) == Some(program);
        (program, sorted.peers.iter().filter(of).copied().collect::<Vec<&Peer>>())
    });
    let programs: Vec<(Program, Vec<&Peer>)> =
        named.filter(|(_, records)| !records.is_empty()).collect();
    if programs.is_empty() {
        return Ok(None);
    }
    let mut plots = Vec::new();
    for group in groups(&sorted.peers, |r| (r.model.clone(), r.input.clone(), r.hidden)) {
        let rows = groups(group, |r| r.batch).map(|group| {
            let colour = |peer: &Peer| of_system(&peer.system);
            let dot = |at, colour| Dot { at, to: None, colour };
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
        let says = format!("Instances a second: {caption}");
        let plot = Dots { says, axis: RATE, limit: None, rows: rows.collect() };
        plots.push((caption, plot.svg()?));
    }
    let faster = programs.iter().map(|(program, records)| {
        let ratios: Vec<f64> = records.iter().map(|peer| ratio(peer)).collect();
        let times = range(&ratios, |ratio| format!("{ratio:.1} ×"));
        format!("{times} as fast as {} {}", program.name(), records[0].version)
    });
    let faster: Vec<String> = faster.collect();
    let key = programs.iter().map(|&(program, _)| (program.name(), of_program(program)));
    Ok(Some(Section {
        id: "peers",
        title: "Against other programs?",
        answer: format!("At equal mini-batches ours is {}.", faster.join("; and ")),
        key: key.chain([("edbatch", OURS)]).collect(),
        plots,
        more: Vec::new(),
        method: "All take turns in the same rounds: the same inputs, the same weights from one \
                 safetensors file, results compared before, one thread. PyTorch runs level by \
                 level, gates stacked, under torch.inference_mode; sentences go to nn.LSTM, sorted \
                 by length and packed. DyNet batches by itself, as its users run it: a node at a \
                 time, its own operations for LSTMs.",
        bias: "In the others' favour: what Python prepares (levels and index tensors, the \
               description of DyNet's graph) is done before the clock runs, ours within; the \
               records have their speeds with it too. Against them: PyTorch's compiler was not \
               tried, and how a program was built matters: its version says what is known.",
        command: "cargo xtask bench --peers --only throughput",
    }))
}

fn ratio(peer: &Peer) -> f64 {
    peer.edbatch_instances_per_second / peer.instances_per_second
}
