//! A finite state machine: encode the frontier, look up what to run.
//!
//! *Source*: §2.2 of the paper. A state that was never met in training falls to
//! [`Critical`], where the authors' program takes an arbitrary kind.
//!
//! *Cost*: O(ready kinds) a batch; nothing at the start. The first unseen state of a run starts
//! `Critical` on it, with memory of its own that grows when it is first needed.

use edbatch_graph::Kind;

use crate::states::States;
use crate::{AnyPolicy, Critical, Frontier, NamedEncoding, Policy, Symbol};

/// What to run, state by state: a machine as plain data.
pub type FsmTable = Vec<(Vec<Symbol>, Kind)>;

/// A table from states to kinds, as a policy.
#[derive(Clone, Debug)]
pub struct Fsm {
    encoding: NamedEncoding,
    states: States,
    /// What to run, by state; none for prefixes of states.
    run: Vec<Option<Kind>>,
    fallback: Critical,
    /// How many states of this run were unseen: if any, the fallback has been started.
    unseen: usize,
    state: Vec<Symbol>,
    /// The row of `state`, if there is one.
    row: Option<usize>,
}

impl Fsm {
    /// A machine that knows no state yet, for graphs of so many kinds.
    #[must_use]
    pub fn new(encoding: NamedEncoding, kinds: usize) -> Self {
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

    /// The machine that a table describes.
    #[must_use]
    pub fn of(table: &FsmTable, encoding: NamedEncoding, kinds: usize) -> Self {
        let mut fsm = Self::new(encoding, kinds);
        for (state, kind) in table {
            fsm.insert(state, *kind);
        }
        fsm
    }

    /// From now on, runs `kind` in `state`.
    pub fn insert(&mut self, state: &[Symbol], kind: Kind) {
        let row = self.states.intern(state);
        self.run.resize(self.states.rows(), None);
        self.run[row] = Some(kind);
        if self.state == state {
            self.row = Some(row);
        }
    }

    /// Number of states for which it knows what to run.
    #[must_use]
    pub fn states(&self) -> usize {
        self.run.iter().flatten().count()
    }

    /// In how many batches since the last start it met a state it did not know.
    #[must_use]
    pub fn unseen(&self) -> usize {
        self.unseen
    }

    fn look_up(&mut self, frontier: &Frontier) -> Option<Kind> {
        let before = self.state.len();
        self.encoding.encode(frontier, &mut self.state);
        let (old, new) = self.state.split_at(before);
        // Often it is the same state again: a predicted branch lets the batch begin, where the
        // look-up of the state's row is a chain of dependent loads.
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

    fn another(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
