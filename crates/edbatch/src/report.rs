//! A report on how well each kind of node batched.

use std::fmt;

use edbatch_graph::{Dag, Graph, Schedule};
use edbatch_policy::{Chains, Frontier};

/// The batches of each kind, counted with
/// [`EngineOptions::counts`](crate::EngineOptions::counts).
///
/// `Display` prints a table, followed by [advice](KindReport::advice) on kinds that batched badly.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The kinds, in the order of the network's cells.
    pub kinds: Vec<KindReport>,
}

/// The batches of one kind, over all graphs so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KindReport {
    /// The cell's name.
    pub name: String,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of batches.
    pub batches: u64,
    /// Size of the largest batch.
    pub largest: u64,
    /// Number of batches by size: of 1 node, of 2 or 3, of 4 to 7, and so on by powers of two.
    pub sizes: Vec<u64>,
    /// Length of the longest chain of the kind's nodes in each graph, summed over the graphs. No
    /// schedule has fewer batches of the kind.
    pub chain: u64,
}

impl Report {
    /// Returns the kind with the largest number of batches that a better schedule might save, and
    /// this number. `None` if it is 0 for every kind.
    #[must_use]
    pub fn missed(&self) -> Option<(&KindReport, u64)> {
        let missed = self.kinds.iter().map(|kind| (kind, kind.batches.saturating_sub(kind.chain)));
        missed.max_by_key(|&(_, missed)| missed).filter(|&(_, missed)| missed > 0)
    }

    /// Adds the report of another engine with the same network.
    pub fn merge(&mut self, other: &Self) {
        if self.kinds.is_empty() {
            self.kinds.clone_from(&other.kinds);
            return;
        }
        for (kind, other) in self.kinds.iter_mut().zip(&other.kinds) {
            kind.nodes += other.nodes;
            kind.batches += other.batches;
            kind.largest = kind.largest.max(other.largest);
            kind.chain += other.chain;
            kind.sizes.resize(kind.sizes.len().max(other.sizes.len()), 0);
            kind.sizes.iter_mut().zip(&other.sizes).for_each(|(sizes, other)| *sizes += other);
        }
    }

    pub(crate) fn add(&mut self, graph: &Graph, schedule: &Schedule) {
        let names = graph.network().cells().iter().map(|cell| cell.name());
        if self.kinds.is_empty() {
            let kind = |name: &str| KindReport { name: name.into(), ..KindReport::default() };
            self.kinds = names.map(kind).collect();
        }
        for batch in schedule.batches() {
            let kind = &mut self.kinds[batch.kind.index()];
            let nodes = batch.nodes.len() as u64;
            kind.nodes += nodes;
            kind.batches += 1;
            kind.largest = kind.largest.max(nodes);
            let size = nodes.max(1).ilog2() as usize;
            kind.sizes.resize(kind.sizes.len().max(size + 1), 0);
            kind.sizes[size] += 1;
        }
        let chains = Chains::new(&Frontier::new(graph));
        for (index, kind) in self.kinds.iter_mut().enumerate().take(graph.kinds()) {
            kind.chain += u64::from(chains.longest(edbatch_graph::Kind::new(index)));
        }
    }
}

impl KindReport {
    /// Returns the mean number of nodes per batch.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.nodes as f64 / self.batches.max(1) as f64
    }

    /// Returns the reason why the kind batches badly and what to try, or `None` if it batches well.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        let missed = self.batches.saturating_sub(self.chain);
        if self.batches > 1 && self.mean() < 2.0 && self.chain * 2 > self.nodes {
            Some(
                "runs nearly one by one, as each of its nodes waits for the one before: only \
                 more inputs per mini-batch make its batches larger"
                    .into(),
            )
        } else if self.batches > 1 && self.mean() < 2.0 {
            Some(format!(
                "runs nearly one by one, although {} batches might be enough: try another policy, \
                 or learn one; if parameters differ from node to node, they are different kinds",
                self.chain
            ))
        } else if missed * 4 > self.batches {
            Some(format!(
                "{missed} of its batches might be saved by a better schedule: try `beam:32`, or \
                 learn a policy"
            ))
        } else {
            None
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:16} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "kind", "nodes", "batches", "at least", "mean", "largest"
        )?;
        for kind in &self.kinds {
            let KindReport { name, nodes, batches, largest, chain, .. } = kind;
            let mean = kind.mean();
            writeln!(f, "{name:16} {nodes:>9} {batches:>9} {chain:>9} {mean:>9.1} {largest:>9}")?;
        }
        for kind in &self.kinds {
            if let Some(advice) = kind.advice() {
                writeln!(f, "{}: {advice}", kind.name)?;
            }
        }
        if let Some((kind, missed)) = self.missed() {
            writeln!(f, "largest missed opportunity: {missed} batches of {}", kind.name)?;
        }
        Ok(())
    }
}
