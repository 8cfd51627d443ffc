//! Lifetimes of spans: the arena frees a span after its last reader, and later batches reuse it.

use std::ops::Range;

use edbatch_graph::{Dag, Source};

use super::free_ranges::FreeRanges;
use super::{Lifetimes, MiniBatch, Planner};

/// A best-fit allocator, which grows if no free range is large enough.
#[derive(Clone, Debug, Default)]
pub(super) struct Arena {
    free: FreeRanges,
    end: u64,
}

impl Arena {
    /// Clears the arena, except `taken` elements at its start.
    pub(super) fn reset(&mut self, taken: u64) {
        self.free.clear();
        self.end = taken;
    }

    /// Returns the size of the arena, in elements.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Allocates `len` elements in the smallest free range that is large enough, or at the end.
    /// Returns their offset.
    pub(super) fn allocate(&mut self, len: u64) -> u64 {
        // The best fit keeps larger ranges for larger batches.
        self.free.take(len).unwrap_or_else(|| {
            // A free range at the end is extended.
            let start = self.free.take_last(self.end).unwrap_or(self.end);
            self.end = start + len;
            start
        })
    }

    /// Frees a range.
    pub(super) fn free(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.free.add(range);
        }
    }
}

/// A part of the arena that is freed as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The offset, once the span is allocated.
    pub(super) start: u64,
    pub(super) len: u64,
    /// The last batch that reads one of its rows, or [`Span::KEPT`] if the span is read after the
    /// plan. Batches of the backward pass are numbered after all forward batches, as they run.
    pub(super) last: u32,
    /// The next span that is freed after the same batch.
    pub(super) next: Option<u32>,
}

impl Span {
    const KEPT: u32 = u32::MAX;
    fn new(len: u64, last: u32) -> Self {
        Self { start: 0, len, last, next: None }
    }
}

impl Planner {
    /// Finds the spans of batches and prologues, and the last batch that reads each of them. No
    /// span is freed yet.
    pub(super) fn find_spans(&mut self, mini_batch: &MiniBatch<'_>) {
        self.distinct.find(mini_batch);
        self.list_values(mini_batch);
        let rows = |kind| self.distinct.count(kind);
        let for_values = self.lifetimes == Lifetimes::Reuse;
        self.groups.find(mini_batch, rows, &self.batch_of, for_values);
        self.spans.extend(self.groups.results(mini_batch).map(|(len, last)| Span::new(len, last)));
    }

    /// Keeps the spans of wanted values.
    pub(super) fn keep_wanted(&mut self, mini_batch: &MiniBatch<'_>) {
        if self.lifetimes == Lifetimes::Distinct {
            return;
        }
        for (value, _) in mini_batch.wanted {
            if let Source::Node(node) = value.source() {
                self.spans[self.batch_of[node.index()] as usize].last = Span::KEPT;
            }
        }
    }

    /// Lists the spans that are freed after each of `batches` batches: none, if rows are distinct.
    pub(super) fn free_spans(&mut self, batches: usize) {
        self.freed_after.clear();
        self.freed_after.resize(batches, None);
        if self.lifetimes == Lifetimes::Distinct {
            return;
        }
        for (index, span) in (0..).zip(&mut self.spans) {
            if span.last != Span::KEPT {
                span.next = self.freed_after[span.last as usize].replace(index);
            }
        }
    }

    /// Lists the values that each batch reads. Unless rows are distinct, sets the last reader of
    /// each batch's span. A span that no batch reads is freed after the batch that writes it.
    fn list_values(&mut self, &MiniBatch { program, graph, schedule, .. }: &MiniBatch<'_>) {
        self.spans.clear();
        self.values.clear();
        // Without readers and writers, if no row is freed.
        let frees = self.lifetimes == Lifetimes::Reuse;
        if frees {
            self.batch_of.clear();
            self.batch_of.resize(graph.nodes(), u32::MAX);
        }
        self.row_of.resize(graph.nodes(), 0);
        for (index, batch) in schedule.batches().enumerate() {
            let signature = program.signature(batch.kind);
            let len = u64::from(signature.stride) * batch.nodes.len() as u64;
            self.spans.push(Span::new(len, index as u32));
            if frees {
                let nodes = batch.nodes.iter();
                nodes.for_each(|node| self.batch_of[node.index()] = index as u32);
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
            if !frees {
                continue;
            }
            let of_nodes = self.values[first..].iter().filter_map(|value| match value.source() {
                Source::Node(argument) => Some(self.batch_of[argument.index()] as usize),
                Source::Given(_) => None,
            });
            // Batches are in the order in which they run, so the last reader wins.
            of_nodes.for_each(|batch| self.spans[batch].last = index as u32);
            if graph.looks_up() {
                for value in batch.nodes.iter().flat_map(|&node| graph.looked_up(node)) {
                    if let Source::Node(argument) = value.source() {
                        let batch = self.batch_of[argument.index()] as usize;
                        self.spans[batch].last = index as u32;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(steps: &str, expected: &str) {
        let mut arena = Arena::default();
        arena.reset(16);
        let mut log = Vec::new();
        for step in steps.split(' ') {
            match step.split_once('-') {
                Some((start, end)) => arena.free(start.parse().unwrap()..end.parse().unwrap()),
                None => log.push(arena.allocate(step.parse().unwrap()).to_string()),
            }
        }
        let free: Vec<String> = arena
            .free
            .list()
            .iter()
            .map(|range| format!("{}-{}", range.start, range.end))
            .collect();
        assert_eq!(format!("{} | {} | {}", log.join(" "), free.join(" "), arena.end()), expected);
    }

    #[test]
    fn free_neighbours_are_merged_and_the_best_fit_is_taken() {
        check("16 16 16 16", "16 32 48 64 |  | 80");
        check("16 16 16 16 16-32 48-64 16", "16 32 48 64 16 | 48-64 | 80");
        check("16 16 16 16 16-32 48-64 32-48", "16 32 48 64 | 16-64 | 80");
        check("32 16 16 16 16-48 64-80 16", "16 48 64 80 64 | 16-48 | 96");
        check("16 16-32 32", "16 16 |  | 48");
    }
}
