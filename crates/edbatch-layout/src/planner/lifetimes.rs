//! How long each span of the arena lives: until its last reader has run.

use edbatch_graph::{Dag, Source};

use super::{Capacity, MiniBatch, Planner};

/// A part of the arena that is given back as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Where it begins, once it has been taken.
    pub(super) start: u64,
    pub(super) len: u64,
    /// The last batch that reads one of its rows; [`Span::KEPT`] if it is read afterwards.
    last: u32,
    /// The next span that is given back after that batch.
    pub(super) next: Option<u32>,
}

impl Span {
    const KEPT: u32 = u32::MAX;
    fn new(len: u64, last: u32) -> Self {
        Self { start: 0, len, last, next: None }
    }
}

impl Planner {
    /// Finds the last reader of every span: of a batch's rows, and of what is hoisted.
    pub(super) fn find_lifetimes(&mut self, mini_batch: &MiniBatch<'_>, capacity: Capacity) {
        self.list_values(mini_batch);
        for (value, _) in mini_batch.wanted {
            if let Source::Node(node) = value.source() {
                self.spans[self.batch_of[node.index()] as usize].last = Span::KEPT;
            }
        }
        let rows = |kind| self.distinct.rows(mini_batch, kind, capacity);
        self.groups.find(mini_batch, rows, &self.batch_of);
        self.spans.extend(self.groups.results(mini_batch).map(|(len, last)| Span::new(len, last)));
        self.dying.clear();
        self.dying.resize(mini_batch.schedule.len(), None);
        for (index, span) in (0..).zip(&mut self.spans) {
            if span.last != Span::KEPT {
                span.next = self.dying[span.last as usize].replace(index);
            }
        }
    }

    /// Lists what each batch reads, and notes it as the last reader so far. A batch without a reader is
    /// its own.
    fn list_values(&mut self, &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>) {
        self.spans.clear();
        self.values.clear();
        self.batch_of.clear();
        self.batch_of.resize(graph.nodes(), u32::MAX);
        self.row_of.resize(graph.nodes(), 0);
        for (index, batch) in schedule.batches().enumerate() {
            let signature = program.signature(batch.kind);
            let len = u64::from(signature.stride) * batch.nodes.len() as u64;
            self.spans.push(Span::new(len, index as u32));
            for node in batch.nodes {
                self.batch_of[node.index()] = index as u32;
            }
            let (first, single) = (self.values.len(), signature.ports.len());
            for port in 0..single {
                self.values.extend(batch.nodes.iter().map(|&node| graph.value(node, port)));
            }
            if signature.is_variadic {
                for &node in batch.nodes {
                    self.values.extend(graph.values(node).skip(single));
                }
            }
            for value in &self.values[first..] {
                if let Source::Node(argument) = value.source() {
                    let span = self.batch_of[argument.index()];
                    self.spans[span as usize].last = index as u32;
                }
            }
        }
    }
}
