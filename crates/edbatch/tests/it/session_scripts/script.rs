//! Random scripts: what to add, release and fetch, without runs.

use std::sync::Arc;

use edbatch_graph::{Kind, Network, RecordId};
use edbatch_testing::networks::Random;
use rand::RngExt;
use rand::seq::IndexedRandom;

/// A value that a call reads: an initial one, or the one with this number among those made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Term {
    Initial(usize),
    Made(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) cell: Kind,
    pub(crate) rows: Vec<u32>,
    pub(crate) values: Vec<Term>,
}

/// A value of the model, which keeps all of them.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    Call(Call),
    Given(RecordId, Vec<f32>),
}

/// A step of a script.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Calls(Vec<Call>),
    Give(RecordId, Vec<f32>),
    Release(Vec<usize>),
    Fetch(Vec<Term>),
    /// Calls. The test spoils one of them.
    Fail(Vec<Call>),
    /// Runs, carries out steps without a run between them, and discards what they made.
    Discarded(Vec<Op>),
    Clear,
}

/// A script, and all values that it makes.
pub(crate) struct Script {
    network: Arc<Network>,
    pub(crate) ops: Vec<Op>,
    pub(crate) made: Vec<Made>,
    /// The numbers of the values that exist.
    live: Vec<usize>,
}

impl Script {
    pub(crate) fn random(network: &Arc<Network>, rng: &mut Random) -> Self {
        let (ops, made, live) = (Vec::new(), Vec::new(), Vec::new());
        let mut script = Self { network: network.clone(), ops, made, live };
        for _ in 0..60 {
            let op = match rng.random_range(0..40) {
                0 => script.discarded(rng),
                1 if rng.random_bool(0.3) => {
                    script.live.clear();
                    Op::Clear
                }
                _ => script.step(rng),
            };
            script.ops.push(op);
        }
        script
    }

    /// The number of elements of a value.
    pub(crate) fn width(&self, record: RecordId) -> usize {
        self.network.fields(record).fields.iter().map(|field| field.shape.elements()).sum()
    }

    fn step(&mut self, rng: &mut Random) -> Op {
        match rng.random_range(0..20) {
            0..3 => {
                let record = RecordId(rng.random_range(0..2));
                self.give(record, rng)
            }
            3..6 if self.live.len() > 3 => {
                let count = rng.random_range(1..=self.live.len().min(6));
                let release = |live: &mut Vec<usize>, rng: &mut Random| {
                    live.swap_remove(rng.random_range(0..live.len()))
                };
                Op::Release((0..count).map(|_| release(&mut self.live, rng)).collect())
            }
            6 | 7 => {
                let value = |rng: &mut Random| match self.live.choose(rng) {
                    Some(&value) if rng.random_bool(0.9) => Term::Made(value),
                    _ => Term::Initial(0),
                };
                // More than are read at a time.
                let count = if rng.random_bool(0.2) { 150 } else { rng.random_range(0..4) };
                Op::Fetch((0..count).map(|_| value(rng)).collect())
            }
            8 | 9 => {
                let (made, live) = (self.made.len(), self.live.clone());
                let calls = self.calls(rng);
                self.made.truncate(made);
                self.live = live;
                match calls.is_empty() {
                    true => self.give(RecordId(1), rng),
                    false => Op::Fail(calls),
                }
            }
            _ => {
                let calls = self.calls(rng);
                match calls.is_empty() {
                    true => self.give(RecordId(1), rng),
                    false => Op::Calls(calls),
                }
            }
        }
    }

    /// Steps whose values are discarded, and so exist no longer. The model keeps them.
    fn discarded(&mut self, rng: &mut Random) -> Op {
        let first = self.made.len();
        let mut ops = Vec::new();
        while ops.len() < 5 {
            match self.step(rng) {
                Op::Fetch(_) => {}
                op => ops.push(op),
            }
        }
        self.live.retain(|&value| value < first);
        Op::Discarded(ops)
    }

    fn give(&mut self, record: RecordId, rng: &mut Random) -> Op {
        let elements: Vec<f32> =
            (0..self.width(record)).map(|_| rng.random_range(-1.0..1.0)).collect();
        self.live.push(self.made.len());
        self.made.push(Made::Given(record, elements.clone()));
        Op::Give(record, elements)
    }

    /// Several calls, which may read each other; none if no value fits.
    fn calls(&mut self, rng: &mut Random) -> Vec<Call> {
        let count = if rng.random_bool(0.5) { 1 } else { rng.random_range(2..12) };
        let mut calls = Vec::new();
        for _ in 0..count {
            let Some(call) = self.call(rng) else { continue };
            self.live.push(self.made.len());
            self.made.push(Made::Call(call.clone()));
            calls.push(call);
        }
        calls
    }

    /// A call of a cell that reads values; none if no value fits.
    fn call(&self, rng: &mut Random) -> Option<Call> {
        let cell = Kind(rng.random_range(0..6));
        let called = &self.network[cell];
        let rows = called.tables().iter().map(|table| rng.random_range(0..table.rows)).collect();
        let mut values = Vec::new();
        for (position, port) in called.ports().iter().enumerate() {
            let mut fitting: Vec<Term> = self.live.iter().copied().map(Term::Made).collect();
            fitting.push(Term::Initial(0));
            fitting.retain(|&value| self.record_of(value) == port.record);
            let many = called.is_variadic() && position + 1 == called.ports().len();
            for _ in 0..if many { rng.random_range(1..4) } else { 1 } {
                values.push(*fitting.choose(rng)?);
            }
        }
        Some(Call { cell, rows, values })
    }

    fn record_of(&self, value: Term) -> RecordId {
        match value {
            Term::Initial(index) => self.network.initial_values()[index].record,
            Term::Made(index) => match &self.made[index] {
                Made::Call(call) => self.network[call.cell].record(),
                Made::Given(record, _) => *record,
            },
        }
    }
}
