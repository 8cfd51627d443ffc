//! Adds pending values: calls, one or many, and given values.

use edbatch_graph::{CallError, CallErrorReason, Kind, Mark, RecordId, Value};
use edbatch_models::{GiveError, check_given};
use edbatch_runtime::{BackendError, GivenPlace};

use super::entries::State;
use super::handle::{Handle, Named};
use super::{ArraysError, Pending, Read, Session, SessionError};

/// The number of operands from the one that is read to the one whose entry is prefetched. With
/// many live values in random order, each operand would be a cache miss.
const AHEAD: usize = 16;

/// Calls as arrays, for [`Session::calls`].
#[derive(Clone, Copy, Debug)]
pub struct SessionCalls<'a> {
    /// The cell of each call.
    pub cells: &'a [Kind],
    /// The operands of all calls: for each call a row for each table and index of its cell, then a
    /// value for each port, and last the values of a port of any number. A value is
    /// [`Handle::to_bits`], or the number, from 0, of an earlier call of these arrays.
    pub operands: &'a [i64],
    /// The start of each call's operands, and the end of the last one's.
    pub offsets: &'a [u32],
}

/// The lengths to which a failed addition takes the session back.
struct Before {
    graph: Mark,
    reads: usize,
    places: usize,
}

impl Session {
    /// Adds a call of a cell, with a row for each table and a value for each port, and returns its
    /// value, which is computed by the next [`run`](Self::run). Values may be pending.
    ///
    /// # Errors
    /// If the rows or values do not fit the cell, if a value does not exist, or if memory cannot be
    /// allocated.
    #[inline]
    pub fn call(
        &mut self,
        cell: Kind,
        rows: &[u32],
        values: &[Handle],
    ) -> Result<Handle, SessionError> {
        let before = self.before();
        self.values.clear();
        let called = self.try_call(cell, rows, values);
        if called.is_err() {
            self.take_back(before);
        }
        called
    }

    fn try_call(
        &mut self,
        cell: Kind,
        rows: &[u32],
        values: &[Handle],
    ) -> Result<Handle, SessionError> {
        self.reserve_pending(1)?;
        try_reserve(&mut self.values, values.len())?;
        for &value in values {
            let value = self.value(value, cell)?;
            self.values.push(value);
        }
        let value = self.graph.call(cell, rows, &self.values).map_err(SessionError::Call)?;
        Ok(self.add(value))
    }

    /// Adds calls as arrays, all of them or none, and appends their values to `results`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use edbatch::graph::{Network, Shape};
    /// # use edbatch::models::CallLists;
    /// # use edbatch::runtime::Parameters;
    /// # use edbatch::{Engine, Handle, SessionCalls, SessionOptions};
    /// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    /// # let mut network = Network::new();
    /// # let state = network.record("state", [("h", Shape::Vector(4))])?;
    /// # network.initial(state, &["h0"])?;
    /// # let step = network.cell("step", state, |cell| {
    /// #     let x = cell.lookup("word", "embed", &[9, 4]);
    /// #     let [h] = cell.one("previous", state);
    /// #     vec![(x + h).tanh()]
    /// # })?;
    /// # let network = Arc::new(network);
    /// # let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    /// # let engine = Engine::new(CallLists::new(network), parameters)?;
    /// let mut session = engine.session(SessionOptions::default())?;
    /// // Two calls of `step`: word 3 after the initial value, then word 5 after the first call.
    /// let cells = &[step, step];
    /// let operands = &[3, Handle::initial(0).to_bits(), 5, 0];
    /// let mut states = Vec::new();
    /// session.calls(SessionCalls { cells, operands, offsets: &[0, 2, 4] }, &mut states)?;
    /// session.run()?;
    /// assert_eq!((states.len(), session.statistics().calls), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a call does not fit its cell, if a value does not exist, if the arrays do not fit each
    /// other, or if memory cannot be allocated. `results` is then unchanged.
    pub fn calls(
        &mut self,
        calls: SessionCalls<'_>,
        results: &mut Vec<Handle>,
    ) -> Result<(), SessionError> {
        calls.check().map_err(SessionError::Arrays)?;
        let before = self.before();
        self.made.clear();
        let added = self.add_to_graph(calls, results);
        if added.is_err() {
            self.take_back(before);
            return added;
        }
        for index in 0..self.made.len() {
            results.push(self.add(self.made[index]));
        }
        Ok(())
    }

    /// Adds calls to the graph, and their values to [`Session::made`].
    fn add_to_graph(
        &mut self,
        SessionCalls { cells, operands, offsets }: SessionCalls<'_>,
        results: &mut Vec<Handle>,
    ) -> Result<(), SessionError> {
        self.reserve_pending(cells.len())?;
        try_reserve(&mut self.made, cells.len())?;
        try_reserve(results, cells.len())?;
        for (call, (&cell, ends)) in cells.iter().zip(offsets.windows(2)).enumerate() {
            let (first, end) = (ends[0] as usize, ends[1] as usize);
            let tables = self.graph.network().cells().get(cell.index());
            let tables = tables.map_or(0, |cell| cell.tables().len());
            let (rows, values) = operands[first..end].split_at(tables.min(end - first));
            self.rows.clear();
            try_reserve(&mut self.rows, rows.len())?;
            for &row in rows {
                let number = u32::try_from(row).map_err(|_| {
                    let cell = self.graph.network()[cell].name().to_string();
                    SessionError::NoRow { call, cell, row }
                });
                self.rows.push(number?);
            }
            self.values.clear();
            try_reserve(&mut self.values, values.len())?;
            for (index, &bits) in (first + rows.len()..).zip(values) {
                if let Some(&ahead) = operands.get(index + AHEAD) {
                    self.entries.prefetch(Handle::from_bits(ahead));
                }
                let value = match u32::try_from(bits) {
                    Ok(number) => self.made.get(number as usize).copied(),
                    Err(_) => Some(self.value(Handle::from_bits(bits), cell).map_err(of(call))?),
                };
                let number = bits as u32;
                self.values.push(value.ok_or(SessionError::Earlier { call, number })?);
            }
            let made = self.graph.call(cell, &self.rows, &self.values);
            self.made.push(made.map_err(|error| SessionError::CallOf { call, error })?);
        }
        Ok(())
    }

    /// Adds a value of the caller, which is stored by the next [`run`](Self::run). `elements` has
    /// its fields in order, matrices row by row.
    ///
    /// # Errors
    /// If the network has no such record, if the number of elements is wrong, or if memory cannot
    /// be allocated.
    pub fn give(&mut self, record: RecordId, elements: &[f32]) -> Result<Handle, SessionError> {
        let checked = check_given(&self.graph, record, Some(elements.len()));
        checked.map_err(SessionError::Give)?;
        self.reserve_pending(1)?;
        try_reserve(&mut self.places, 1)?;
        try_reserve(&mut self.host, elements.len())?;
        let value = self.give_to_graph(record)?;
        self.places.push(GivenPlace::Host);
        self.host.extend_from_slice(elements);
        Ok(self.add(value))
    }

    /// Adds values of the caller, all of them or none, and appends them to `results`. `elements`
    /// has the elements of all values, each as [`give`](Self::give) takes them.
    ///
    /// # Errors
    /// Like [`give`](Self::give), and if the elements are no whole number of values. `results` is
    /// then unchanged.
    pub fn give_many(
        &mut self,
        record: RecordId,
        elements: &[f32],
        results: &mut Vec<Handle>,
    ) -> Result<(), SessionError> {
        check_given(&self.graph, record, None).map_err(SessionError::Give)?;
        let fields = &self.network().fields(record).fields;
        let width = fields.iter().map(|field| field.shape.elements()).sum::<usize>();
        let (count, rest) = (elements.len() / width, elements.len() % width);
        if rest != 0 {
            let checked = check_given(&self.graph, record, Some(rest));
            return checked.map_err(SessionError::Give);
        }
        self.reserve_pending(count)?;
        try_reserve(&mut self.places, count)?;
        try_reserve(&mut self.host, elements.len())?;
        self.made.clear();
        try_reserve(&mut self.made, count)?;
        try_reserve(results, count)?;
        let before = self.before();
        for _ in 0..count {
            match self.give_to_graph(record) {
                Ok(value) => self.made.push(value),
                Err(error) => {
                    self.take_back(before);
                    return Err(error);
                }
            }
        }
        self.places.extend(std::iter::repeat_n(GivenPlace::Host, count));
        self.host.extend_from_slice(elements);
        for index in 0..count {
            results.push(self.add(self.made[index]));
        }
        Ok(())
    }

    /// Makes a given value of the graph.
    fn give_to_graph(&mut self, record: RecordId) -> Result<Value, SessionError> {
        self.graph.try_give(record).map_err(|reason| match reason {
            CallErrorReason::Full => SessionError::Give(GiveError::TooMany),
            _ => out_of_memory(size_of::<RecordId>() * (self.graph.given().len() + 1)),
        })
    }

    /// Makes room for more pending values.
    #[inline]
    fn reserve_pending(&mut self, additional: usize) -> Result<(), SessionError> {
        self.entries.reserve(additional)?;
        try_reserve(&mut self.pending, additional)
    }

    /// Adds a value of the graph to the pending values. There must be room.
    #[inline]
    fn add(&mut self, value: Value) -> Handle {
        let record = self.graph.record_of(value).expect("the graph has just made it");
        let handle = self.entries.add(record, self.pending.len() as u32);
        let Named::Entry { index: entry, .. } = handle.named() else {
            unreachable!("the handle of an entry")
        };
        self.pending.push(Pending { value, entry });
        handle
    }

    /// Returns the value of the graph for an operand of a call. A stored value becomes a given
    /// value of the graph, once.
    #[inline]
    fn value(&mut self, value: Handle, cell: Kind) -> Result<Value, SessionError> {
        let (index, generation) = match value.named() {
            Named::Initial(index) => {
                let initial = self.graph.network().initial_value(index);
                return initial.ok_or_else(|| SessionError::NoValue { value });
            }
            Named::Entry { index, generation } => (index, generation),
        };
        let Some(&entry) = self.entries.find(index, generation) else {
            return Err(SessionError::NoValue { value });
        };
        if entry.state == State::Pending {
            return Ok(self.pending[entry.at as usize].value);
        }
        match self.reads.get(entry.read as usize) {
            Some(read) if read.entry == index => Ok(read.value),
            _ => self.read(index, cell),
        }
    }

    /// Makes a stored value a given value of the graph.
    fn read(&mut self, index: u32, cell: Kind) -> Result<Value, SessionError> {
        let entry = *self.entries.get(index);
        try_reserve(&mut self.reads, 1)?;
        try_reserve(&mut self.places, 1)?;
        // Each of these values may be released while it is read.
        let deferred = self.reads.len() + 1 - self.deferred.len();
        try_reserve(&mut self.deferred, deferred)?;
        let value = self.graph.try_give(entry.record).map_err(|reason| {
            let cells = self.graph.network().cells();
            let cell = cells.get(cell.index()).map_or(cell.to_string(), |cell| cell.name().into());
            SessionError::Call(CallError { cell, reason })
        })?;
        self.entries.get(index).read = self.reads.len() as u32;
        self.reads.push(Read { entry: index, value });
        self.places.push(GivenPlace::Stored(entry.at));
        Ok(value)
    }

    #[inline]
    fn before(&self) -> Before {
        let (reads, places) = (self.reads.len(), self.places.len());
        Before { graph: self.graph.mark(), reads, places }
    }

    /// Takes back what was added to the graph since, and forgets the stored values that were read
    /// first since. Entries whose reads are forgotten are recognized by the length of the list.
    #[cold]
    fn take_back(&mut self, before: Before) {
        self.graph.rewind(before.graph);
        self.reads.truncate(before.reads);
        self.places.truncate(before.places);
    }
}

impl SessionCalls<'_> {
    /// Fails if the arrays do not fit each other.
    fn check(&self) -> Result<(), ArraysError> {
        let (expected, got) = (self.cells.len() + 1, self.offsets.len());
        let (Some(&first), Some(&last), true) =
            (self.offsets.first(), self.offsets.last(), expected == got)
        else {
            return Err(ArraysError::Offsets { expected, got });
        };
        if let Some(index) = self.offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(ArraysError::Descending { index: index + 1 });
        }
        match (first, last as usize) == (0, self.operands.len()) {
            true => Ok(()),
            false => Err(ArraysError::Ends { operands: self.operands.len(), first, last }),
        }
    }
}

/// Adds the number of the call to an error.
fn of(call: usize) -> impl Fn(SessionError) -> SessionError {
    move |error| match error {
        SessionError::Call(error) => SessionError::CallOf { call, error },
        error => error,
    }
}

/// Reserves memory for more elements of a list.
#[inline]
pub(super) fn try_reserve<T>(list: &mut Vec<T>, additional: usize) -> Result<(), SessionError> {
    let bytes = size_of::<T>().saturating_mul(list.len().saturating_add(additional));
    list.try_reserve(additional).map_err(|_| out_of_memory(bytes))
}

#[cold]
fn out_of_memory(bytes: usize) -> SessionError {
    BackendError::Memory { what: "the values of a session", bytes: bytes as u64 }.into()
}
