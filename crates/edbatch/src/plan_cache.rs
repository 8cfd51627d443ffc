//! Schedules and plans of graphs that came before.

use std::collections::HashMap;

use edbatch_graph::{Dag, Graph, NodeId, Schedule, Source, Value};
use edbatch_layout::{Plan, Want};

/// Plans by the topology of their graphs, in bounded memory; the least recently used goes first.
///
/// *Cost*: a look-up reads the graph once, about a nanosecond for every argument.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    entries: HashMap<u64, Entry>,
    bytes: usize,
    most_bytes: usize,
    /// Look-ups so far.
    now: u64,
}

/// A graph that came before, and what was decided for it.
#[derive(Debug)]
pub(crate) struct Entry {
    graph: Graph,
    wanted: Vec<(Value, Want)>,
    pub(crate) schedule: Schedule,
    pub(crate) plan: Plan,
    used: u64,
}

impl PlanCache {
    /// An empty one that takes at most so many bytes.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, ..Self::default() }
    }

    /// Forgets all plans.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// What was decided for a graph that differs from this one at most in the rows of tables that
    /// its calls name.
    pub(crate) fn get(&mut self, graph: &Graph, wanted: &[(Value, Want)]) -> Option<&mut Entry> {
        self.now += 1;
        let entry = self.entries.get_mut(&hash(graph, wanted))?;
        if entry.wanted != wanted || !entry.graph.same_topology(graph) {
            return None;
        }
        entry.used = self.now;
        Some(entry)
    }

    /// Remembers what was decided, if it fits at all.
    pub(crate) fn insert(
        &mut self,
        graph: &Graph,
        wanted: &[(Value, Want)],
        schedule: &Schedule,
        plan: &Plan,
    ) {
        let entry = Entry {
            graph: graph.clone(),
            wanted: wanted.to_vec(),
            schedule: schedule.clone(),
            plan: plan.clone(),
            used: self.now,
        };
        let bytes = entry.bytes();
        if bytes > self.most_bytes {
            return;
        }
        if let Some(replaced) = self.entries.insert(hash(graph, wanted), entry) {
            self.bytes -= replaced.bytes();
        }
        self.bytes += bytes;
        while self.bytes > self.most_bytes {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let oldest = oldest.map(|(&hash, _)| hash);
            let oldest = oldest.expect("one that is remembered takes the bytes");
            let gone = self.entries.remove(&oldest).expect("found above");
            self.bytes -= gone.bytes();
        }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        let Plan { steps, operands, lists, rows, given, wanted, .. } = &self.plan;
        let numbers = lists.len() + rows.len();
        let nodes = self.graph.nodes() + self.schedule.nodes().len();
        size_of_val(steps.as_slice())
            + size_of_val(operands.as_slice())
            + 4 * (numbers + nodes)
            + size_of_val(given.as_slice())
            + size_of_val(wanted.as_slice())
            + size_of_val(self.wanted.as_slice())
            + self.graph.bytes()
            + size_of::<Self>()
    }
}

/// A hash of everything but rows of tables. Equal hashes are compared before they count.
fn hash(graph: &Graph, wanted: &[(Value, Want)]) -> u64 {
    let mut hash = graph.nodes() as u64;
    let mut mix = |word: u64| {
        hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        hash ^= hash >> 29;
    };
    let word = |value: Value| match value.source() {
        Source::Node(node) => u64::from(node.0),
        Source::Given(index) => !(index as u64),
    };
    graph.given().iter().for_each(|record| mix(u64::from(record.0)));
    for node in (0..graph.nodes()).map(NodeId::new) {
        let values = graph.values(node);
        mix(u64::from(graph.kind(node).0) << 32 | values.len() as u64);
        values.for_each(|value| mix(word(value)));
    }
    wanted.iter().for_each(|&(value, want)| mix(word(value) << 2 | want as u64));
    hash
}
