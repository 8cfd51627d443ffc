//! Checks the lookups of rows of argmaxes.

use std::ops::Range;

use edbatch_graph::Source;

use super::arena::Owner;
use super::{Checked, Replay};
use crate::plan::Lookup;

impl Replay<'_> {
    /// Replays the lookups of a step. Returns their range in [`Plan::lookups`](crate::Plan).
    pub(super) fn look_up(&mut self, step: usize) -> Checked<Range<usize>> {
        let first = self.lookups;
        while let Some(&lookup) = self.plan.lookups.get(self.lookups)
            && lookup.step as usize == step
        {
            let Lookup { value, entry, base, width, .. } = lookup;
            let graph = self.mini_batch.graph;
            let owner = self.arena.owner(value.start);
            let (record, source) = match owner {
                Owner::Value(Source::Given(index)) => (graph.given()[index], Source::Given(index)),
                Owner::Value(Source::Node(node)) => {
                    let record = graph.record_of(node.into()).ok_or("a node of another graph")?;
                    (record, Source::Node(node))
                }
                owner => return Err(format!("looks up the argmax of {owner} at {}", value.start)),
            };
            if record != value.record {
                return Err(format!("looks up the argmax of {owner}, which has another record"));
            }
            self.arena.holds(value.start, self.mini_batch.program.record(record).stride, owner)?;
            if self.claimed.get(entry as usize) != Some(&false) {
                return Err(format!("entry {entry} of rows is looked up too late, or is not one"));
            }
            if self.looked_up.insert(entry, (source, base, width)).is_some() {
                return Err(format!("entry {entry} of rows is looked up twice"));
            }
            self.lookups += 1;
        }
        Ok(first..self.lookups)
    }

    /// Checks that the step after these lookups reads all of them.
    pub(super) fn all_are_read(&self, lookups: Range<usize>) -> Checked {
        match self.plan.lookups[lookups].iter().find(|own| !self.claimed[own.entry as usize]) {
            Some(own) => Err(format!("does not read entry {} of rows, a lookup", own.entry)),
            None => Ok(()),
        }
    }
}
