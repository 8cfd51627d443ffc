//! Groups batches of one kind whose prologues run as one step. If the prologue reads table rows,
//! the group is all batches of the kind, but a batch that names a row by an argmax is a group of
//! its own. If it reads values, the group is a batch and the next ones of its kind whose values are
//! computed before that first batch runs.

use std::ops::Range;

use edbatch_graph::{Kind, NodeId, Source};

use super::MiniBatch;
use crate::cell_plan::Base;

/// A batch with at least this number of calls never joins a group whose prologue reads values.
const MIN_CALLS_ALONE: usize = 16;

/// A group with at least this number of calls takes no further batch.
const MAX_CALLS_TO_JOIN: usize = 64;

/// Batches of one kind that share a prologue step.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: Kind,
    /// The range of its batches in [`Groups::batches`].
    batches: Range<usize>,
    /// The number of rows that the prologue computes.
    pub(super) rows: u32,
    /// True if the batch names a row by an argmax. The prologue runs for each of its calls.
    pub(super) looks_up: bool,
}

/// A batch's part of a group's prologue results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) group: u32,
    /// The index of its first row among the group's rows, if the prologue reads values.
    pub(super) first_row: u32,
}

/// The groups of batches in a mini-batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// All batches, sorted by kind.
    batches: Vec<u32>,
    /// By kind: the end of its batches in `batches`.
    ends: Vec<usize>,
    /// By batch: its part of a group's results, if it is in a group.
    shares: Vec<Option<Share>>,
}

impl Groups {
    /// Finds the groups. `rows` returns the number of distinct rows of a cell's table; `batch_of`
    /// is the batch of each node. If `for_values` is false, prologues that read values form no
    /// groups.
    ///
    /// *Cost*: O(batches + calls of grouped batches).
    pub(super) fn find(
        &mut self,
        mini_batch: &MiniBatch<'_>,
        rows: impl Fn(Kind) -> usize,
        batch_of: &[u32],
        for_values: bool,
    ) {
        let &MiniBatch { program, schedule, .. } = mini_batch;
        self.groups.clear();
        self.shares.clear();
        self.shares.resize(schedule.len(), None);
        let kinds = || (0..program.cells().len()).map(Kind::new);
        if kinds().all(|kind| program.signature(kind).hoisted.is_none()) {
            return;
        }
        self.sort_batches(mini_batch);
        for kind in kinds() {
            let first = if kind.index() == 0 { 0 } else { self.ends[kind.index() - 1] };
            let batches = first..self.ends[kind.index()];
            match program.signature(kind).hoisted {
                Some((Base::Port(_), _)) if !for_values => {}
                Some((Base::Port(port), _)) => {
                    self.join(mini_batch, kind, usize::from(port), batches, batch_of);
                }
                Some((Base::Table(table), _)) => {
                    let rows = (usize::from(table), rows(kind) as u32);
                    self.share_rows(mini_batch, kind, batches, rows);
                }
                _ => {}
            }
        }
    }

    /// Makes a group of the batches of a kind whose prologue reads table rows, and one of each
    /// batch that names a row by an argmax.
    fn share_rows(
        &mut self,
        &MiniBatch { graph, schedule, .. }: &MiniBatch<'_>,
        kind: Kind,
        batches: Range<usize>,
        (table, rows): (usize, u32),
    ) {
        let mut shared = None;
        for index in batches.clone() {
            let batch = schedule.batch(self.batches[index] as usize);
            let looks_up = graph.look_up(batch.nodes, table);
            let mut group = |batches, rows| {
                self.groups.push(Group { kind, batches, rows, looks_up });
                self.groups.len() as u32 - 1
            };
            let group = match looks_up {
                true => group(index..index + 1, batch.nodes.len() as u32),
                false => *shared.get_or_insert_with(|| group(index..batches.end, rows)),
            };
            self.shares[self.batches[index] as usize] = Some(Share { group, first_row: 0 });
        }
    }

    /// Sorts batches by kind.
    fn sort_batches(&mut self, &MiniBatch { program, schedule, .. }: &MiniBatch<'_>) {
        self.ends.clear();
        self.ends.resize(program.cells().len() + 1, 0);
        schedule.batches().for_each(|batch| self.ends[batch.kind.index() + 1] += 1);
        for kind in 1..self.ends.len() {
            self.ends[kind] += self.ends[kind - 1];
        }
        self.batches.clear();
        self.batches.resize(schedule.len(), 0);
        for (index, batch) in (0..).zip(schedule.batches()) {
            // The kind's next index: from the end of the previous kind to its own end.
            let next = &mut self.ends[batch.kind.index()];
            self.batches[*next] = index;
            *next += 1;
        }
    }

    /// Groups small batches of a kind: a batch, and the next ones of the kind whose values are
    /// computed before that first batch runs.
    fn join(
        &mut self,
        &MiniBatch { graph, schedule, .. }: &MiniBatch<'_>,
        kind: Kind,
        port: usize,
        mut batches: Range<usize>,
        batch_of: &[u32],
    ) {
        let calls = |index: u32| schedule.batch(index as usize).nodes.len();
        while let Some(first) = batches.next() {
            let before = self.batches[first];
            let mut sum = calls(before);
            if sum >= MIN_CALLS_ALONE {
                continue;
            }
            let exists = |&node: &NodeId| match graph.value(node, port).source() {
                Source::Node(argument) => batch_of[argument.index()] < before,
                Source::Given(_) => true,
            };
            let joins = |index: u32| {
                let nodes = schedule.batch(index as usize).nodes;
                nodes.len() < MIN_CALLS_ALONE && nodes.iter().all(exists)
            };
            while sum < MAX_CALLS_TO_JOIN
                && let Some(&next) = self.batches.get(batches.start).filter(|_| !batches.is_empty())
                && joins(next)
            {
                sum += calls(next);
                batches.next();
            }
            if batches.start == first + 1 {
                // Stop: later batches of the kind are unlikely to form a group either.
                return;
            }
            let (group, mut first_row) = (self.groups.len() as u32, 0);
            for &batch in &self.batches[first..batches.start] {
                self.shares[batch as usize] = Some(Share { group, first_row });
                first_row += calls(batch) as u32;
            }
            let (batches, rows) = (first..batches.start, first_row);
            self.groups.push(Group { kind, batches, rows, looks_up: false });
        }
    }

    /// Returns, for each group, the size of its prologue results in elements, and the last batch
    /// that reads them.
    pub(super) fn results(
        &self,
        &MiniBatch { program, .. }: &MiniBatch<'_>,
    ) -> impl Iterator<Item = (u64, u32)> {
        self.groups.iter().map(move |group| {
            let (_, stride) = program.signature(group.kind).hoisted.expect("it is divided");
            let last = self.batches[group.batches.end - 1];
            (u64::from(stride) * u64::from(group.rows), last)
        })
    }

    /// Returns true if a batch is the first one of its group.
    pub(super) fn begins(&self, batch: usize) -> bool {
        self.shares[batch].is_some_and(|share| {
            let group = self.of(share.group);
            self.batches[group.batches.start] as usize == batch
        })
    }

    /// Returns a group.
    pub(super) fn of(&self, group: u32) -> &Group {
        &self.groups[group as usize]
    }

    /// Returns the batches of a group, in order.
    pub(super) fn batches_of(&self, group: &Group) -> &[u32] {
        &self.batches[group.batches.clone()]
    }

    /// Returns a batch's part of a group's prologue results, if it is in a group.
    pub(super) fn share(&self, batch: usize) -> Option<Share> {
        self.shares[batch]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use edbatch_graph::{Graph, Network, Schedule, Shape, Value};

    use super::*;
    use crate::{CellStyle, Program};

    /// A recurrent cell that reads words, and another one above it that reads its results.
    fn network() -> (Network, Value) {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(4))]).unwrap();
        let start = network.initial(state, &["start"]).unwrap();
        for name in ["words", "above"] {
            let cell = network.cell(name, state, |cell| {
                let x = match name {
                    "words" => cell.lookup("word", "words", &[9, 4]),
                    _ => cell.one::<1>("below", state)[0],
                };
                let [h] = cell.one("previous", state);
                let [w, u] = ["w", "u"].map(|w| cell.parameter(&format!("{name}_{w}"), &[4, 4]));
                vec![(w.matmul(x) + u.matmul(h)).tanh()]
            });
            cell.unwrap();
        }
        (network, start)
    }

    /// Compares the groups for `sentences` sentences of `words` words, which run word by word.
    fn check(sentences: usize, words: usize, expected: &str) {
        let (network, start) = network();
        let network = Arc::new(network);
        let program = Program::new(network.clone(), CellStyle::Hoisted).unwrap();
        let (mut graph, mut schedule) = (Graph::new(network), Schedule::new());
        let (mut layers, mut batch_of) = (Vec::new(), Vec::new());
        for (kind, word) in [0, 1].into_iter().flat_map(|kind| (0..words).map(move |i| (kind, i))) {
            let call = |sentence: usize| -> Value {
                let previous = match word {
                    0 => start,
                    _ => layers[(kind * words + word - 1) * sentences + sentence],
                };
                let (rows, values) = match kind {
                    0 => (vec![0], vec![previous]),
                    _ => (vec![], vec![layers[word * sentences + sentence], previous]),
                };
                graph.call(Kind::new(kind), &rows, &values).unwrap()
            };
            let values: Vec<Value> = (0..sentences).map(call).collect();
            let node = |value: &Value| match value.source() {
                Source::Node(node) => node,
                Source::Given(_) => unreachable!("a call"),
            };
            let nodes: Vec<NodeId> = values.iter().map(node).collect();
            batch_of.extend(nodes.iter().map(|_| schedule.len() as u32));
            schedule.push(Kind::new(kind), &nodes);
            layers.extend(values);
        }
        let (graph, schedule) = (&graph, &schedule);
        let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &[] };
        let mut groups = Groups::default();
        groups.find(&mini_batch, |_| 1, &batch_of, true);
        let group = |group: &Group| {
            let batches = &groups.batches[group.batches.clone()];
            format!("{} for {batches:?}: {} rows", group.kind, group.rows)
        };
        let text: Vec<String> = groups.groups.iter().map(group).collect();
        assert_eq!(text.join("; "), expected);
    }

    #[test]
    fn batches_share_a_table_prologue_and_a_layer_groups_batches_whose_values_exist() {
        check(1, 3, "k0 for [0, 1, 2]: 1 rows; k1 for [3, 4, 5]: 3 rows");
    }

    #[test]
    fn batches_are_joined_until_they_have_enough_calls() {
        check(15, 6, "k0 for [0, 1, 2, 3, 4, 5]: 1 rows; k1 for [6, 7, 8, 9, 10]: 75 rows");
    }

    #[test]
    fn batches_of_many_calls_are_not_joined() {
        check(16, 3, "k0 for [0, 1, 2]: 1 rows");
    }

    #[test]
    fn a_single_batch_gets_no_prologue_step() {
        check(1, 1, "k0 for [0]: 1 rows");
    }
}
