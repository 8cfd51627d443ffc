//! The main results: our speed on every workload, relative to the core's peak and to rivals.

use crate::measure::peers::program::Program;
use crate::measure::systems::System;
use crate::record::sorted::{Sorted, on_cpu};
use crate::record::{Case, Peer, Throughput};
use crate::render::table::Table;
use crate::spread::quantile;
use crate::text::{percent, range, whole};

/// A competitor of our system. Of several variants of a method, the fastest counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// One node at a time.
    Unbatched,
    /// Single operations batched by depth or mean depth: DyNet's method.
    Vanilla,
    /// Cells batched by depth or mean depth: Cavs's method.
    Cells,
    /// The paper's system.
    Paper,
    /// Another program, at its best size of mini-batches.
    Peer(Program),
}

impl Rival {
    /// All rivals, the slowest first.
    pub const ALL: [Self; 6] = [
        Self::Unbatched,
        Self::Vanilla,
        Self::Cells,
        Self::Paper,
        Self::Peer(Program::DyNet),
        Self::Peer(Program::PyTorch),
    ];

    /// Returns the texts and the systems of a rival. The texts are its name in table columns, its
    /// name in plot legends, and a phrase for sentences.
    fn texts(self) -> ([&'static str; 3], &'static [System]) {
        match self {
            Self::Unbatched => (
                ["unbatched", "not batched", "as fast as the same cells without batching"],
                &[System::Unbatched],
            ),
            Self::Vanilla => (
                [
                    "op by op",
                    "operations batched, DyNet's method",
                    "as fast as operations batched one by one (DyNet's method)",
                ],
                &[System::VanillaDepth, System::VanillaAgenda],
            ),
            Self::Cells => (
                [
                    "cells",
                    "cells batched, Cavs's method",
                    "as fast as cells batched by depth or agenda (Cavs's method)",
                ],
                &[System::CellsDepth, System::CellsAgenda],
            ),
            Self::Paper => (
                ["paper", "the paper's system", "the speed of the paper's system"],
                &[System::Paper],
            ),
            Self::Peer(Program::DyNet) => {
                (["DyNet", "DyNet", "as fast as DyNet, autobatched"], &[])
            }
            Self::Peer(program) => {
                ([program.name(), program.name(), "as fast as PyTorch level by level"], &[])
            }
        }
    }

    /// Returns the name in table columns.
    pub fn name(self) -> &'static str {
        self.texts().0[0]
    }

    /// Returns the name in plot legends.
    pub fn explained(self) -> &'static str {
        self.texts().0[1]
    }

    /// Returns the phrase for sentences.
    pub fn described(self) -> &'static str {
        self.texts().0[2]
    }

    /// Returns the rival that a system in records belongs to.
    pub fn of_system(system: &str) -> Option<Self> {
        let peer = Program::of_system(system).map(Self::Peer);
        let has = |rival: &Self| rival.texts().1.iter().any(|known| known.name() == system);
        peer.or(Self::ALL.into_iter().find(has))
    }
}

/// The main results of a workload.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Our record.
    pub ours: &'a Throughput,
    /// Speeds of rivals relative to ours.
    pub others: Vec<(Rival, f64)>,
}

impl Row<'_> {
    /// Returns our speed relative to a rival's.
    pub fn over(&self, rival: Rival) -> Option<f64> {
        self.others.iter().find(|(other, _)| *other == rival).map(|(_, speed)| 1.0 / speed)
    }

    /// Returns the cell of that speed, a dash if it is not known.
    fn ratio(&self, rival: Rival) -> String {
        self.over(rival).map_or("-".into(), |ratio| format!("{ratio:.1}"))
    }
}

/// Returns a row for every workload and size of our system, on the smallest number of threads.
pub fn rows<'a>(sorted: &Sorted<'a>) -> Vec<Row<'a>> {
    let own = System::Edbatch.name();
    let measured = &sorted.throughputs;
    let on_cpu = || measured.iter().filter(|record| record.system == own && on_cpu(record));
    let threads = on_cpu().map(|record| record.case.threads).min();
    let ours = on_cpu().filter(|record| Some(record.case.threads) == threads);
    ours.map(|&ours| Row { ours, others: others(ours, sorted) }).collect()
}

fn others(ours: &Throughput, sorted: &Sorted<'_>) -> Vec<(Rival, f64)> {
    let key = |record: &Throughput| Case { backend: String::new(), ..record.case.clone() };
    let beside: Vec<_> =
        sorted.throughputs.iter().filter(|record| key(record) == key(ours)).collect();
    let fastest = |rival: Rival| {
        let found = beside.iter().filter(|r| Rival::of_system(&r.system) == Some(rival));
        let speeds = found.map(|record| record.instances_per_second / ours.instances_per_second);
        speeds.reduce(f64::max)
    };
    Rival::ALL
        .into_iter()
        .filter_map(|rival| {
            let speed = match rival {
                Rival::Peer(program) => best_peer(ours, program, &sorted.peers),
                rival => fastest(rival),
            };
            Some((rival, speed?))
        })
        .collect()
}

/// Returns a peer's best speed over sizes of mini-batches, relative to ours in the same run.
fn best_peer(ours: &Throughput, program: Program, peers: &[&Peer]) -> Option<f64> {
    let same = |peer: &&&Peer| {
        let program_of_peer = Program::of_system(&peer.system);
        peer.case.workload() == ours.case.workload() && program_of_peer == Some(program)
    };
    let speeds = peers
        .iter()
        .filter(same)
        .map(|peer| (peer.instances_per_second, peer.edbatch_instances_per_second));
    let (theirs, own) = speeds.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))?;
    Some(theirs / own)
}

/// Returns each workload's row with the sizes nearest to vectors of 128 and mini-batches of 64.
pub fn main_rows<'a>(rows: &[Row<'a>]) -> Vec<Row<'a>> {
    let mut chosen: Vec<Row<'a>> = Vec::new();
    for row in rows {
        let far = |size: usize, from: f64| (size as f64 / from).ln().abs();
        let rank =
            |row: &Row<'_>| far(row.ours.case.hidden, 128.0) + far(row.ours.case.batch, 64.0);
        let same = |known: &&mut Row<'_>| {
            (&known.ours.case.model, &known.ours.case.input)
                == (&row.ours.case.model, &row.ours.case.input)
        };
        match chosen.iter_mut().find(same) {
            Some(known) if rank(known) <= rank(row) => {}
            Some(known) => *known = row.clone(),
            None => chosen.push(row.clone()),
        }
    }
    chosen
}

/// Returns our speed relative to each rival by workload, other programs first.
pub fn comparisons(rows: &[Row<'_>]) -> Vec<(Rival, Vec<f64>)> {
    let ratios = |rival| rows.iter().filter_map(|row| row.over(rival)).collect();
    let named = Rival::ALL.into_iter().rev().filter(|&rival| rival != Rival::Unbatched);
    let comparisons = named.map(|rival| (rival, ratios(rival)));
    comparisons.filter(|(_, ratios): &(_, Vec<f64>)| !ratios.is_empty()).collect()
}

/// Summarizes the result in at most three sentences.
pub fn sentences(rows: &[Row<'_>], sorted: &Sorted<'_>) -> Vec<String> {
    let Some(first) = rows.first() else { return Vec::new() };
    let peaks: Vec<f64> = rows.iter().map(|row| row.ours.fraction_of_peak).collect();
    let best: Vec<f64> = rows.iter().map(|row| row.ours.best_fraction_of_peak).collect();
    let workloads = match rows.len() {
        1 => "1 workload".into(),
        many => format!("{many} workloads"),
    };
    let how_fast = format!(
        "How fast: on {workloads}, mini-batches of {}, {} of this machine reaches {} of its peak, \
         end to end (median {}; in the fastest run of each mini-batch {}).",
        first.ours.case.batch,
        computing(rows),
        range(&peaks, percent),
        percent(quantile(&peaks, 0.5)),
        range(&best, percent),
    );
    let faster = comparisons(rows).into_iter().map(|(rival, ratios)| {
        format!("{} {}", range(&ratios, |ratio| format!("{ratio:.1} ×")), rival.described())
    });
    let faster = faster.collect::<Vec<_>>().join("; ");
    let mut sentences = vec![how_fast];
    if !faster.is_empty() {
        sentences.push(format!("Against what, in the same run: {faster}."));
    }
    sentences.push(why(rows, sorted));
    sentences
}

/// Describes the processors used, such as `one core`.
pub fn computing(rows: &[Row<'_>]) -> String {
    match rows.first().map_or(1, |row| row.ours.case.threads) {
        1 => "one core".into(),
        more => format!("{more} threads"),
    }
}

/// Explains our speed in a sentence.
pub fn why(rows: &[Row<'_>], sorted: &Sorted<'_>) -> String {
    let few = |policy: &str| {
        let of_policy = sorted.counts.iter().filter(|record| record.policy == policy);
        let ratios: Vec<f64> = of_policy.map(|r| r.batches / r.bound.max(1.0)).collect();
        (!ratios.is_empty()).then(|| range(&ratios, |ratio| format!("{ratio:.2} ×")))
    };
    let few = match (few("critical"), few("agenda")) {
        (Some(own), Some(agenda)) => {
            format!(
                "its schedules need {own} the lower bound on the number of batches (the common \
                 rule, agenda, {agenda}), "
            )
        }
        _ => String::new(),
    };
    let deciding: Vec<f64> = rows.iter().map(|row| 1.0 - row.ours.execute_share).collect();
    format!(
        "Why: {few}operands are read in place instead of copied, and building, scheduling and \
         planning a graph takes {} of the time.",
        range(&deciding, percent),
    )
}

/// Returns the table of our speed, and of its ratio to other programs and to the paper's system.
pub fn front(rows: &[Row<'_>]) -> Table {
    let rivals = [Rival::Peer(Program::PyTorch), Rival::Peer(Program::DyNet), Rival::Paper];
    let header = ["model, inputs", "inputs/s", "/ PyTorch", "/ DyNet", "/ paper"];
    let mut table = Table::new("", 1, header);
    table.rows.extend(rows.iter().map(|row| {
        let Case { model, input, .. } = &row.ours.case;
        let cells = [format!("`{model}`, {input}"), whole(row.ours.instances_per_second)];
        cells.into_iter().chain(rivals.map(|rival| row.ratio(rival))).collect()
    }));
    table
}

/// Returns the table of our speed, the spread, the fraction of the peak, and ratios to rivals.
pub fn speeds(title: &str, rows: &[Row<'_>]) -> Table {
    let measured = |rival: &Rival| rows.iter().any(|row| row.over(*rival).is_some());
    let rivals: Vec<Rival> = Rival::ALL.into_iter().filter(measured).collect();
    let header = ["model", "set", "H", "batch", "inst/s", "±", "of peak"].map(String::from);
    let names = rivals.iter().map(|rival| format!("/ {}", rival.name()));
    let mut table = Table::new(title, 2, header.into_iter().chain(names));
    for row in rows {
        let Case { model, input, hidden, batch, .. } = &row.ours.case;
        let mut cells = vec![format!("`{model}`"), input.clone()];
        cells.extend([hidden, batch].map(|size| size.to_string()));
        cells.push(whole(row.ours.instances_per_second));
        cells.push(percent(row.ours.spread));
        cells.push(percent(row.ours.fraction_of_peak));
        cells.extend(rivals.iter().map(|&rival| row.ratio(rival)));
        table.rows.push(cells);
    }
    table
}
