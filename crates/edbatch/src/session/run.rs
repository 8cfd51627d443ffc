//! Computes the pending values of a session.

use edbatch_graph::Dag;
use edbatch_layout::{Plan, Want};
use edbatch_runtime::{Given, Part, span, try_memory};

use super::calls::try_reserve;
use super::entries::{NONE, State};
use super::{Pending, Session, SessionError};
use crate::RunError;

/// An upper bound on the memory for the given and the wanted values of a plan, in bytes for each.
const VALUE_BYTES: usize = 32;

impl Session {
    /// Computes all pending values as one mini-batch, and stores those that are not released. Does
    /// nothing if nothing is pending.
    ///
    /// # Errors
    /// If the values need more memory than the [limit](super::SessionOptions::memory_limit), if
    /// memory cannot be allocated, if the mini-batch is too large for 32-bit addresses, or if the
    /// backend fails. The pending values stay pending, and stored values are as they were: release
    /// some and run again, or [discard](Self::discard) the pending ones.
    pub fn run(&mut self) -> Result<(), SessionError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let _run = span!(INFO, "session run", pending = self.pending.len() as u64);
        let end = self.store.end();
        self.wanted.clear();
        let ran = self.take_rows().and_then(|()| Ok(self.execute()?));
        match ran {
            Ok(()) => self.keep(),
            Err(_) => self.give_rows_back(end),
        }
        ran
    }

    /// Takes a row of the store for each pending value that is not released.
    fn take_rows(&mut self) -> Result<(), SessionError> {
        let Self { graph, store, pending, wanted, .. } = self;
        let values = || pending.iter().filter(|pending| pending.entry != NONE);
        let record = |pending: &Pending| graph.record_of(pending.value).expect("in the graph");
        try_reserve(wanted, pending.len())?;
        store.reserve(values().map(record))?;
        wanted.extend(
            values().map(|pending| (pending.value, Want::Store(store.take(record(pending))))),
        );
        Ok(())
    }

    /// Frees the rows that were taken for a run that failed. The store ended at line `end` before.
    fn give_rows_back(&mut self, end: usize) {
        for (value, want) in self.wanted.drain(..) {
            if let Want::Store(line) = want {
                let record = self.graph.record_of(value).expect("in the graph");
                self.store.free(record, line);
            }
        }
        self.store.shrink(end);
    }

    /// Schedules, plans and runs the graph.
    fn execute(&mut self) -> Result<(), RunError> {
        let Self { program, graph, wanted, plan, decision, .. } = self;
        let bytes = VALUE_BYTES * (graph.given().len() + wanted.len());
        if bytes > self.listed {
            try_memory(bytes, "the given and wanted values of a mini-batch")?;
            self.listed = bytes;
        }
        decision.decide(program, graph, wanted, |planner, mini_batch| {
            planner.plan(mini_batch, plan)?;
            #[cfg(test)]
            super::tests::check_plan(plan, mini_batch, &self.places);
            Ok(())
        })?;
        let (values, weights) = (self.bytes_with(&self.plan), self.backend.bytes().weights as u64);
        match self.memory_limit {
            Some(limit) if values.saturating_add(weights) > limit => {
                return Err(RunError::Memory { values, weights, limit });
            }
            _ => {}
        }
        self.backend.reserve_store(0, self.store.end())?;
        let given = Given { initial: &self.initial, places: &self.places, host: &self.host };
        self.backend.run(&[Part { slot: 0, plan: &self.plan, given }])?;
        Ok(())
    }

    /// Returns the bytes of all rows in use and of a plan's values.
    fn bytes_with(&self, plan: &Plan) -> u64 {
        self.store.bytes() + self.backend.bytes_of(plan)
    }

    /// The pending values have been computed: makes them stored ones.
    fn keep(&mut self) {
        let mut wanted = self.wanted.iter();
        for &Pending { entry, .. } in self.pending.iter().filter(|pending| pending.entry != NONE) {
            let Some(&(_, Want::Store(line))) = wanted.next() else {
                unreachable!("a row was taken for each")
            };
            let entry = self.entries.get(entry);
            (entry.state, entry.at) = (State::Stored, line);
            self.counts.stored_bytes += self.store.bytes_of(entry.record);
        }
        self.counts.stored += self.wanted.len() as u64;
        let calls = self.graph.nodes() as u64;
        self.counts.calls += calls;
        self.counts.runs += u64::from(calls > 0);
        self.counts.batches += self.decision.batches() as u64;
        self.clear_graph();
    }
}
