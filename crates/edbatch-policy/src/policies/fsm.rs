//! A finite state machine: encodes the frontier as a state, and looks up the kind to run.
//!
//! *Source*: §2.2 of the paper. In a state that did not occur in training [`Critical`] decides; the
//! authors' program takes an arbitrary kind.
//!
//! *Cost*: O(ready kinds) per batch; nothing at the start. The first unseen state of a run starts
//! `Critical`, whose memory is allocated when it is first needed.

use edbatch_graph::Kind;

use super::states::States;
use crate::{AnyPolicy, Critical, Encoding, Frontier, Policy, Symbol};

/// The kind to run in each state: a machine as plain data.
pub type FsmTable = Vec<(Vec<Symbol>, Kind)>;

/// Looks up the next kind in a table of states.
#[derive(Clone, Debug)]
pub struct Fsm {
    encoding: Encoding,
    states: States,
    /// The kind to run in each state, by row; `None` in rows of prefixes of states.
    run: Vec<Option<Kind>>,
    fallback: Critical,
    /// The number of this run's batches in unseen states. If it is not 0, `fallback` was started.
    unseen: usize,
    state: Vec<Symbol>,
    /// The row of `state`, if the table has it.
    row: Option<usize>,
}

impl Fsm {
    /// A machine without states, for graphs with this number of kinds.
    #[must_use]
    pub fn new(encoding: Encoding, kinds: usize) -> Self {
        Self {
            states: States::new(encoding.features(), kinds),
            encoding,
            run: Vec::new(),
            fallback: Critical::new(),
            unseen: 0,
            state: Vec::new(),
            row: Some(0),
        }
    }

    /// The machine with this table.
    #[must_use]
    pub fn of(table: &FsmTable, encoding: Encoding, kinds: usize) -> Self {
        let mut fsm = Self::new(encoding, kinds);
        for (state, kind) in table {
            fsm.insert(state, *kind);
        }
        fsm
    }

    /// Sets the kind to run in `state`.
    pub fn insert(&mut self, state: &[Symbol], kind: Kind) {
        let row = self.states.intern(state);
        self.run.resize(self.states.rows(), None);
        self.run[row] = Some(kind);
        if self.state == state {
            self.row = Some(row);
        }
    }

    /// The number of batches since the last start whose state is not in the table.
    #[must_use]
    pub fn unseen(&self) -> usize {
        self.unseen
    }

    fn look_up(&mut self, frontier: &Frontier) -> Option<Kind> {
        let before = self.state.len();
        self.encoding.encode(frontier, &mut self.state);
        let (old, new) = self.state.split_at(before);
        // Often the state has not changed. A predicted branch then avoids the chain of dependent
        // loads that finds the row of the state.
        if old == new {
            self.state.truncate(before);
        } else {
            self.row = self.states.find(new);
            self.state.drain(..before);
        }
        let kind = (*self.run.get(self.row?)?)?;
        Some(kind).filter(|&kind| !frontier.ready(kind).is_empty())
    }
}

impl Policy for Fsm {
    fn start(&mut self, _: &Frontier) {
        self.unseen = 0;
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        if let Some(kind) = self.look_up(frontier) {
            return kind;
        }
        if self.unseen == 0 {
            self.fallback.start(frontier);
        }
        self.unseen += 1;
        self.fallback.next(frontier)
    }

    fn unseen(&self) -> Option<usize> {
        Some(self.unseen)
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
