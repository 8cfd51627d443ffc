//! What people want to know first: our speed on every workload, against the core's peak and the
//! others.

use crate::peers::Program;
use crate::record::{Peer, Throughput};
use crate::sorted::{Sorted, on_cpu};
use crate::spread::quantile;
use crate::systems::System;
use crate::text::{percent, range};

/// Others that ours is compared with: of several variants of one method the fastest counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// A node at a time.
    Unbatched,
    /// Operation by operation, batched by depth or by mean depth, as DyNet does.
    Vanilla,
    /// Cells batched by depth or by mean depth, as Cavs does.
    Cells,
    /// The system of the paper.
    Paper,
    /// Another program, at the mini-batch that suits it best.
    Peer(Program),
}

impl Rival {
    /// All, the slowest first.
    pub const ALL: [Self; 6] = [
        Self::Unbatched,
        Self::Vanilla,
        Self::Cells,
        Self::Paper,
        Self::Peer(Program::DyNet),
        Self::Peer(Program::PyTorch),
    ];

    /// As columns call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unbatched => "unbatched",
            Self::Vanilla => "op by op",
            Self::Cells => "cells",
            Self::Paper => "paper",
            Self::Peer(program) => program.name(),
        }
    }

    /// As keys of plots call it.
    #[must_use]
    pub fn explained(self) -> &'static str {
        match self {
            Self::Unbatched => "not batched",
            Self::Vanilla => "operations batched, DyNet's method",
            Self::Cells => "cells batched, Cavs's method",
            Self::Paper => "the paper's system",
            Self::Peer(program) => program.name(),
        }
    }

    /// As sentences call it.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::Unbatched => "as fast as the same cells without batching",
            Self::Vanilla => "as fast as operations batched one by one (DyNet's method)",
            Self::Cells => "as fast as cells batched by depth or agenda (Cavs's method)",
            Self::Paper => "the speed of the paper's system",
            Self::Peer(Program::PyTorch) => "as fast as PyTorch level by level",
            Self::Peer(Program::DyNet) => "as fast as DyNet, autobatched",
        }
    }

    fn systems(self) -> &'static [System] {
        match self {
            Self::Unbatched => &[System::Unbatched],
            Self::Vanilla => &[System::VanillaDepth, System::VanillaAgenda],
            Self::Cells => &[System::CellsDepth, System::CellsAgenda],
            Self::Paper => &[System::Paper],
            Self::Peer(_) => &[],
        }
    }
}

/// A workload.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Ours.
    pub ours: &'a Throughput,
    /// Others' speed over ours, where they were measured.
    pub others: Vec<(Rival, f64)>,
}

impl Row<'_> {
    /// How many times as fast as a rival ours is.
    #[must_use]
    pub fn over(&self, rival: Rival) -> Option<f64> {
        self.others.iter().find(|(other, _)| *other == rival).map(|(_, speed)| 1.0 / speed)
    }
}

/// A row for every workload and size at which our own system was measured on the fewest threads.
#[must_use]
pub fn rows<'a>(sorted: &Sorted<'a>) -> Vec<Row<'a>> {
    let own = System::Edbatch.name();
    let measured = &sorted.throughputs;
    let on_cpu = || measured.iter().filter(|record| record.system == own && on_cpu(record));
    let threads = on_cpu().map(|record| record.threads).min();
    let ours = on_cpu().filter(|record| Some(record.threads) == threads);
    ours.map(|&ours| Row { ours, others: others(ours, sorted) }).collect()
}

fn others(ours: &Throughput, sorted: &Sorted<'_>) -> Vec<(Rival, f64)> {
    let key = |record: &Throughput| {
        let Throughput { model, input, hidden, batch, threads, .. } = record;
        (model.clone(), input.clone(), *hidden, *batch, *threads)
    };
    let beside: Vec<_> =
        sorted.throughputs.iter().filter(|record| key(record) == key(ours)).collect();
    let fastest = |rival: Rival| {
        let names: Vec<String> = rival.systems().iter().map(|system| system.name()).collect();
        let found = beside.iter().filter(|record| names.contains(&record.system));
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

/// A peer at the mini-batch that suits it best, over ours at the one that suits us best: both took
/// turns in the same run.
fn best_peer(ours: &Throughput, program: Program, peers: &[&Peer]) -> Option<f64> {
    let same = |peer: &&&Peer| {
        (&peer.model, &peer.input, peer.hidden) == (&ours.model, &ours.input, ours.hidden)
            && Program::of_system(&peer.system) == Some(program)
    };
    let speeds = peers
        .iter()
        .filter(same)
        .map(|peer| (peer.instances_per_second, peer.edbatch_instances_per_second));
    let (theirs, own) = speeds.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))?;
    Some(theirs / own)
}

/// Of every workload the row that stands for it: vectors nearest to 128, mini-batches nearest to
/// 64.
#[must_use]
pub fn main_rows<'a>(rows: &[Row<'a>]) -> Vec<Row<'a>> {
    let mut chosen: Vec<Row<'a>> = Vec::new();
    for row in rows {
        let far = |size: usize, from: f64| (size as f64 / from).ln().abs();
        let rank = |row: &Row<'_>| far(row.ours.hidden, 128.0) + far(row.ours.batch, 64.0);
        let same = |known: &&mut Row<'_>| {
            (&known.ours.model, &known.ours.input) == (&row.ours.model, &row.ours.input)
        };
        match chosen.iter_mut().find(same) {
            Some(known) if rank(known) <= rank(row) => {}
            Some(known) => *known = row.clone(),
            None => chosen.push(row.clone()),
        }
    }
    chosen
}

/// How many times as fast as a rival ours is, on each workload that it was measured on; the rivals
/// that people ask for first come first.
#[must_use]
pub fn comparisons(rows: &[Row<'_>]) -> Vec<(Rival, Vec<f64>)> {
    let ratios = |rival| rows.iter().filter_map(|row| row.over(rival)).collect();
    let named = Rival::ALL.into_iter().rev().filter(|&rival| rival != Rival::Unbatched);
    let comparisons = named.map(|rival| (rival, ratios(rival)));
    comparisons.filter(|(_, ratios): &(_, Vec<f64>)| !ratios.is_empty()).collect()
}

/// The result in three sentences at most, from the rows that stand for workloads and all figures.
#[must_use]
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
         end to end (median {}; in the fastest run of every mini-batch {}).",
        first.ours.batch,
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

/// What ours was measured on: `one core`.
#[must_use]
pub fn computing(rows: &[Row<'_>]) -> String {
    match rows.first().map_or(1, |row| row.ours.threads) {
        1 => "one core".into(),
        more => format!("{more} threads"),
    }
}

/// Why ours is as fast as it is, in a sentence.
#[must_use]
pub fn why(rows: &[Row<'_>], sorted: &Sorted<'_>) -> String {
    let few = |policy: &str| {
        let of_policy = sorted.counts.iter().filter(|record| record.policy == policy);
        let ratios: Vec<f64> = of_policy.map(|r| r.batches / r.bound.max(1.0)).collect();
        (!ratios.is_empty()).then(|| range(&ratios, |ratio| format!("{ratio:.2} ×")))
    };
    let few = match (few("critical"), few("agenda")) {
        (Some(own), Some(agenda)) => {
            format!(
                "its order needs {own} the least possible number of batches (the common rule, \
                 agenda, {agenda}), "
            )
        }
        _ => String::new(),
    };
    let deciding: Vec<f64> = rows.iter().map(|row| 1.0 - row.ours.execute_share).collect();
    format!(
        "Why: {few}operands are read where they lie instead of being copied, and building, \
         ordering and placing a graph takes {} of the time.",
        range(&deciding, percent),
    )
}
