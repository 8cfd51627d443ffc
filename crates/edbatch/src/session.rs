//! Sessions: values that outlive a run.
//!
//! A session has a table of values, the graph of the calls since the last run, and the rows of
//! stored values in the backend's store. An operand that is stored becomes a given value of the
//! graph. A run computes the graph as one mini-batch, copies its values to rows of the store, and
//! clears the graph.

mod calls;
mod entries;
mod error;
mod handle;
mod options;
mod release;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use edbatch_graph::{Graph, Network, RecordId, Value};
use edbatch_layout::{Plan, Program, Want};
use edbatch_runtime::{Backend, GivenPlace, Rows, StoredRow};

use crate::EngineError;
use crate::decide::Decision;
use crate::store::Store;
use calls::try_reserve;
use entries::{Entries, Entry, State};
use handle::Named;

pub use calls::SessionCalls;
pub use error::{ArraysError, SessionError};
pub use handle::Handle;
pub use options::{SessionOptions, SessionStatistics};

/// Values that outlive a run.
///
/// Calls and given values are *pending* until the next [`run`](Self::run), which computes all of
/// them as one mini-batch. After that they are *stored* until they are released. For programs that
/// extend a graph again and again, such as provers: a call may read any value of an earlier run,
/// and nothing is computed twice.
///
/// No bit of a value depends on how calls are divided between runs. A request that fails changes
/// nothing.
///
/// ```
/// use std::sync::Arc;
/// use edbatch::graph::{Network, Shape};
/// use edbatch::models::CallLists;
/// use edbatch::runtime::Parameters;
/// use edbatch::{Engine, Handle, SessionOptions};
/// use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
///
/// // A clause of a proof, from its rule and the clauses that it follows from; and its score.
/// let mut network = Network::new();
/// let clause = network.record("clause", [("h", Shape::Vector(8))])?;
/// let scored = network.record("score", [("y", Shape::Vector(1))])?;
/// network.initial(clause, &["axiom"])?;
/// let infer = network.cell("infer", clause, |cell| {
///     let x = cell.lookup("rule", "rules", &[20, 8]);
///     let [parents] = cell.many("parents", clause).sum();
///     vec![(x + cell.parameter("w", &[8, 8]).matmul(parents)).tanh()]
/// })?;
/// let score = network.cell("score", scored, |cell| {
///     let [h] = cell.one("clause", clause);
///     vec![cell.parameter("out", &[1, 8]).matmul(h)]
/// })?;
/// let network = Arc::new(network);
/// let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
/// let engine = Engine::new(CallLists::new(network), parameters)?;
///
/// let mut session = engine.session(SessionOptions::default())?;
/// let a = session.call(infer, &[3], &[Handle::initial(0)])?;
/// let b = session.call(infer, &[5], &[Handle::initial(0)])?;
/// session.run()?;
/// // Both clauses are stored. A later clause reads them.
/// let c = session.call(infer, &[7], &[a, b])?;
/// let weight = session.call(score, &[], &[c])?;
/// // No call added from now on reads `b`: its memory is free after the run.
/// session.release(&[b])?;
/// session.run()?;
/// let mut elements = Vec::new();
/// session.fetch(&[weight], &mut elements)?;
/// assert_eq!((elements.len(), session.statistics().stored), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    initial: Rows,
    decision: Decision,
    memory_limit: Option<u64>,
    plan: Plan,
    /// The calls and given values since the last run. Stored values that they read are given too.
    graph: Graph,
    entries: Entries,
    store: Store,
    pending: Vec<Pending>,
    /// The stored values that the graph reads: a sparse set, indexed by [`Entry::read`].
    reads: Vec<Read>,
    /// The places of the graph's given values after the initial ones, and the elements of those in
    /// host memory.
    places: Vec<GivenPlace>,
    host: Vec<f32>,
    /// The rows of released values that the graph reads. They are freed after it has run.
    deferred: Vec<StoredRow>,
    /// The values of the graph that are stored after the run. Kept for its memory, as the next
    /// three lists are: rows and values of a call, and values of several calls.
    wanted: Vec<(Value, Want)>,
    rows: Vec<u32>,
    values: Vec<Value>,
    made: Vec<Value>,
    /// The largest trial allocation for the lists of a run, in bytes.
    listed: usize,
    counts: Counts,
}

/// A call or a given value since the last run.
#[derive(Clone, Copy, Debug)]
struct Pending {
    value: Value,
    /// The index of its entry, or [`NONE`](entries::NONE) if it is released.
    entry: u32,
}

/// A stored value that a pending call reads.
#[derive(Clone, Copy, Debug)]
struct Read {
    /// The index that its entry had when a call first read it.
    entry: u32,
    /// The given value of the graph.
    value: Value,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    stored: u64,
    stored_bytes: u64,
    calls: u64,
    runs: u64,
    batches: u64,
}

impl Session {
    /// Creates an empty session on a backend, which has no other user.
    pub(crate) fn new(
        program: Arc<Program>,
        backend: Box<dyn Backend>,
        initial: Rows,
        decision: Decision,
        options: SessionOptions,
    ) -> Self {
        Self {
            graph: Graph::new(program.network().clone()),
            store: Store::new(&program),
            program,
            backend,
            initial,
            decision,
            memory_limit: options.memory_limit,
            plan: Plan::default(),
            entries: Entries::default(),
            pending: Vec::new(),
            reads: Vec::new(),
            places: Vec::new(),
            host: Vec::new(),
            deferred: Vec::new(),
            wanted: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            made: Vec::new(),
            listed: 0,
            counts: Counts::default(),
        }
    }

    /// Creates an empty session for another thread, on the same weights, with the same memory limit
    /// and one thread. If there are several devices, forks use them in turn.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn fork(&self) -> Result<Self, EngineError> {
        let (program, initial) = (self.program.clone(), self.initial.clone());
        let options = SessionOptions { memory_limit: self.memory_limit };
        Ok(Self::new(program, self.backend.fork(), initial, self.decision.fork(), options))
    }

    /// Returns the network whose cells are called.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        self.program.network()
    }

    /// Appends the elements of values to a vector, value after value, each with its fields in
    /// order.
    ///
    /// # Errors
    /// If a value does not exist, if it is pending, if memory cannot be allocated, or if a device
    /// fails. The vector is then unchanged.
    pub fn fetch(&self, values: &[Handle], elements: &mut Vec<f32>) -> Result<(), SessionError> {
        for &value in values {
            if let Some(Entry { state: State::Pending, .. }) = self.find(value)? {
                return Err(SessionError::Pending { value });
            }
        }
        let before = elements.len();
        let read = self.read_values(values, elements);
        if read.is_err() {
            elements.truncate(before);
        }
        read
    }

    /// Appends the elements of values that exist and are not pending.
    fn read_values(&self, values: &[Handle], elements: &mut Vec<f32>) -> Result<(), SessionError> {
        // A few rows at a time, so that the list of rows needs no allocation.
        let mut rows = [StoredRow { record: RecordId(0), line: 0 }; 64];
        let mut count = 0;
        for &value in values {
            match (self.find(value)?, value.named()) {
                (Some(&Entry { record, at: line, .. }), _) => {
                    rows[count] = StoredRow { record, line };
                    count += 1;
                }
                (None, Named::Initial(index)) => {
                    self.read_stored(&rows[..count], elements)?;
                    count = 0;
                    let row = self.initial.row(index);
                    try_reserve(elements, row.len())?;
                    elements.extend_from_slice(row);
                }
                (None, Named::Entry { .. }) => unreachable!("the value exists"),
            }
            if count == rows.len() {
                self.read_stored(&rows, elements)?;
                count = 0;
            }
        }
        self.read_stored(&rows[..count], elements)
    }

    fn read_stored(&self, rows: &[StoredRow], elements: &mut Vec<f32>) -> Result<(), SessionError> {
        match rows {
            // The slot may not exist yet.
            [] => Ok(()),
            rows => Ok(self.backend.read_stored(0, rows, elements)?),
        }
    }

    /// Returns the record of a value, which may be pending.
    ///
    /// # Errors
    /// If the value does not exist.
    pub fn record_of(&self, value: Handle) -> Result<RecordId, SessionError> {
        match (self.find(value)?, value.named()) {
            (Some(entry), _) => Ok(entry.record),
            (None, Named::Initial(index)) => Ok(self.network().initial_values()[index].record),
            (None, Named::Entry { .. }) => unreachable!("the value exists"),
        }
    }

    /// Returns the entry of a value, or `None` for an initial value. Fails if the value does not
    /// exist.
    #[inline]
    fn find(&self, value: Handle) -> Result<Option<&Entry>, SessionError> {
        let found = match value.named() {
            Named::Entry { index, generation } => self.entries.find(index, generation).map(Some),
            Named::Initial(index) => {
                (index < self.network().initial_values().len()).then_some(None)
            }
        };
        found.ok_or_else(|| SessionError::NoValue { value })
    }

    /// Returns counts of values, memory and runs.
    #[must_use]
    pub fn statistics(&self) -> SessionStatistics {
        let Counts { stored, stored_bytes, calls, runs, batches } = self.counts;
        let bytes = self.backend.bytes();
        SessionStatistics {
            stored,
            pending: self.pending.len() as u64,
            stored_bytes,
            held_bytes: (bytes.arena + bytes.store) as u64,
            weight_bytes: bytes.weights as u64,
            calls,
            runs,
            batches,
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
