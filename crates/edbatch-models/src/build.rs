//! The interface by which a model wires an input: it calls cells, emits outputs and awaits values.

use std::cell::RefCell;
use std::future::poll_fn;
use std::slice;
use std::task::Poll;

use edbatch_graph::{Appended, CallError, Graph, Kind, RecordId, Row, Value};

/// The interface through which a model calls cells, emits outputs and awaits values of one input.
///
/// The inputs of a mini-batch share a graph, but have separate mailboxes.
#[derive(Clone, Copy, Debug)]
pub struct Build<'g> {
    graph: &'g RefCell<Graph>,
    mailbox: &'g RefCell<Mailbox>,
    chain: usize,
}

/// Messages between the future that wires an input and the engine that polls it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Mailbox {
    /// Values emitted since the engine last looked, in order.
    pub emitted: Vec<Value>,
    /// Elements of the values given since the engine last looked, row after row.
    pub given: Vec<f32>,
    /// The request that the future awaits.
    pub request: Option<Request>,
    /// The values that the future still uses after its request. The engine replaces them by the
    /// same values in the next graph.
    pub carried: Vec<Value>,
    /// The answer to the request.
    pub answer: Option<Answer>,
}

/// A request for computed values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// The elements of a value, field after field.
    Elements(Value),
    /// The elements of each value.
    EachElements(Vec<Value>),
    /// The index of the largest element of a value, as [`arg_max`] defines it.
    ArgMax(Value),
    /// The index of the largest element of the last of these values, or of the first one whose
    /// index is `end`. The values up to this one are emitted.
    Chain {
        /// The values, in order.
        values: Vec<Value>,
        /// The index of the last value, if one has it.
        end: Option<u32>,
    },
    /// The future awaits two requests at the same time, which is an error.
    Two,
}

impl Request {
    /// Returns the requested values.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        match self {
            Self::Elements(value) | Self::ArgMax(value) => slice::from_ref(value),
            Self::EachElements(values) | Self::Chain { values, .. } => values,
            Self::Two => &[],
        }
    }
}

/// The answer to a [`Request`] of the same variant; to a chain, an index.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The elements of the value, field after field.
    Elements(Vec<f32>),
    /// The elements of each value.
    EachElements(Vec<Vec<f32>>),
    /// The index of the value's largest element.
    ArgMax(u32),
}

impl<'g> Build<'g> {
    /// Wires one input into `graph`; the engine reads and answers its messages in `mailbox`.
    #[must_use]
    pub fn new(graph: &'g RefCell<Graph>, mailbox: &'g RefCell<Mailbox>) -> Self {
        Self { graph, mailbox, chain: 1 }
    }

    /// Sets the number of steps that [`chain`](Self::chain) returns, at least 1.
    #[must_use]
    pub fn with_chain(self, steps: usize) -> Self {
        Self { chain: steps.max(1), ..self }
    }

    /// Returns the number of steps of a decoder to call before their words are awaited by
    /// [`arg_max_chain`](Self::arg_max_chain): 1 on a CPU, 8 on a device.
    #[must_use]
    pub fn chain(&self) -> usize {
        self.chain
    }

    /// Calls a cell with a row for each table and a value for each port. See [`Graph::call`].
    ///
    /// # Errors
    /// If the rows or values do not fit the cell, or the graph is full.
    // Inlined for the same reason as `Graph::call`.
    #[inline(always)]
    pub fn call(&self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        self.graph.borrow_mut().call(cell, rows, values)
    }

    /// Calls a cell like [`call`](Self::call), but a row may be the argmax of a value of the same
    /// graph. See [`Graph::call_by`].
    ///
    /// # Errors
    /// Like [`call`](Self::call), or if the value of an argmax does not fit the table.
    pub fn call_by(&self, cell: Kind, rows: &[Row], values: &[Value]) -> Result<Value, CallError> {
        self.graph.borrow_mut().call_by(cell, rows, values)
    }

    /// Adds a value of the caller: features, audio, vectors of another model. `elements` holds its
    /// fields in order, matrices row by row.
    ///
    /// Like a computed value, it is usable until the next request, or longer if it is carried.
    ///
    /// # Errors
    /// If the network has no such record, if the number of elements is wrong, or if the graph has
    /// the [maximum number](Graph::MAX_ENTRIES) of given values. The graph is then unchanged.
    pub fn give(&self, record: RecordId, elements: &[f32]) -> Result<Value, GiveError> {
        let mut graph = self.graph.borrow_mut();
        check_given(&graph, record, Some(elements.len()))?;
        self.mailbox.borrow_mut().given.extend_from_slice(elements);
        Ok(graph.give(record))
    }

    /// Makes the calls of another graph, whose first given values `carried` replaces. `given` holds
    /// the elements of its other given values, in parts; the values in `emitted` are emitted.
    pub(crate) fn append<'v, 'e>(
        &self,
        calls: &Graph,
        given: impl IntoIterator<Item = &'e [f32]>,
        emitted: &[Value],
        carried: &'v [Value],
    ) -> Result<Appended<'v>, CallError> {
        let appended = self.graph.borrow_mut().append(calls, carried)?;
        let mut mailbox = self.mailbox.borrow_mut();
        given.into_iter().for_each(|part| mailbox.given.extend_from_slice(part));
        mailbox.emitted.extend(emitted.iter().map(|&value| appended.value(value)));
        Ok(appended)
    }

    /// Appends a value to the outputs of the input.
    #[inline]
    pub fn emit(&self, value: Value) {
        self.mailbox.borrow_mut().emitted.push(value);
    }

    /// Calls a cell without tables once for each list of values, and appends the results to the
    /// outputs of the input.
    ///
    /// # Errors
    /// Like [`call`](Self::call), for the first list that does not fit.
    ///
    /// # Panics
    /// If the iterator calls a cell or emits a value.
    #[inline]
    pub fn emit_each<V: AsRef<[Value]>>(
        &self,
        cell: Kind,
        lists: impl Iterator<Item = V>,
    ) -> Result<(), CallError> {
        // Borrowed once for all calls: many models make half of their calls here.
        let (mut graph, mut mailbox) = (self.graph.borrow_mut(), self.mailbox.borrow_mut());
        for values in lists {
            mailbox.emitted.push(graph.call(cell, &[], values.as_ref())?);
        }
        Ok(())
    }

    /// Waits until `value` is computed and returns its elements, field after field.
    ///
    /// The engine first runs all calls that the inputs of the mini-batch have made. After that,
    /// only the values in `carried` can still be used, as the new [`Value`]s returned here. All
    /// other values are freed.
    ///
    /// Only one request may be pending. If a model joins the futures of two requests, or awaits
    /// anything but the futures of its `Build`, its input fails. To read several values, use
    /// [`fetch_each`](Self::fetch_each).
    pub async fn fetch<const N: usize>(
        &self,
        value: Value,
        carried: [Value; N],
    ) -> (Vec<f32>, [Value; N]) {
        match self.wait(Request::Elements(value), &carried).await {
            Answer::Elements(elements) => (elements, self.carried()),
            _ => unreachable!("elements were requested"),
        }
    }

    /// Like [`fetch`](Self::fetch), for carried values whose number is only known at run time.
    pub async fn fetch_vec(&self, value: Value, carried: &[Value]) -> (Vec<f32>, Vec<Value>) {
        match self.wait(Request::Elements(value), carried).await {
            Answer::Elements(elements) => (elements, self.carried_vec()),
            _ => unreachable!("elements were requested"),
        }
    }

    /// Waits like [`fetch`](Self::fetch) and returns the elements of each of several values.
    pub async fn fetch_each<const N: usize>(
        &self,
        values: &[Value],
        carried: [Value; N],
    ) -> (Vec<Vec<f32>>, [Value; N]) {
        match self.wait(Request::EachElements(values.into()), &carried).await {
            Answer::EachElements(each) => (each, self.carried()),
            _ => unreachable!("the elements of each value were requested"),
        }
    }

    /// Like [`fetch_each`](Self::fetch_each), for carried values whose number is only known at run
    /// time.
    pub async fn fetch_each_vec(
        &self,
        values: &[Value],
        carried: &[Value],
    ) -> (Vec<Vec<f32>>, Vec<Value>) {
        match self.wait(Request::EachElements(values.into()), carried).await {
            Answer::EachElements(each) => (each, self.carried_vec()),
            _ => unreachable!("the elements of each value were requested"),
        }
    }

    /// Waits like [`fetch`](Self::fetch) and returns the index of the largest element, as
    /// [`arg_max`] defines it. For greedy decoding: the scores stay on the backend.
    pub async fn arg_max<const N: usize>(
        &self,
        value: Value,
        carried: [Value; N],
    ) -> (u32, [Value; N]) {
        match self.wait(Request::ArgMax(value), &carried).await {
            Answer::ArgMax(index) => (index, self.carried()),
            _ => unreachable!("an index was requested"),
        }
    }

    /// Like [`arg_max`](Self::arg_max), for carried values whose number is only known at run time.
    pub async fn arg_max_vec(&self, value: Value, carried: &[Value]) -> (u32, Vec<Value>) {
        match self.wait(Request::ArgMax(value), carried).await {
            Answer::ArgMax(index) => (index, self.carried_vec()),
            _ => unreachable!("an index was requested"),
        }
    }

    /// Waits like [`fetch`](Self::fetch) and returns the index of the largest element of the last
    /// value, or `end` if an earlier one has this index. The values up to this one are appended to
    /// the outputs of the input, as by [`emit`](Self::emit); later ones are dropped.
    ///
    /// For decoders: the values are the scores of [`chain`](Self::chain) steps. Each step names its
    /// word as the argmax of the scores before ([`call_by`](Self::call_by)). After an `end`, the
    /// carried values come from a dropped step.
    ///
    /// # Panics
    /// If there is no value.
    pub async fn arg_max_chain<const N: usize>(
        &self,
        values: &[Value],
        end: Option<u32>,
        carried: [Value; N],
    ) -> (u32, [Value; N]) {
        if let [value] = *values {
            self.emit(value);
            return self.arg_max(value, carried).await;
        }
        assert!(!values.is_empty(), "a chain has at least one value");
        match self.wait(Request::Chain { values: values.into(), end }, &carried).await {
            Answer::ArgMax(index) => (index, self.carried()),
            _ => unreachable!("an index was requested"),
        }
    }

    /// Waits for the answer to a request. After that, the mailbox holds the carried values.
    async fn wait(&self, request: Request, carried: &[Value]) -> Answer {
        {
            let mut mailbox = self.mailbox.borrow_mut();
            // Another request of this input still waits, or its answer was never taken.
            let second = mailbox.request.is_some() || mailbox.answer.take().is_some();
            mailbox.request = Some(if second { Request::Two } else { request });
            mailbox.carried.clear();
            mailbox.carried.extend_from_slice(carried);
        }
        // No waker: the engine polls again exactly when the answer is there.
        poll_fn(|_| self.mailbox.borrow_mut().answer.take().map_or(Poll::Pending, Poll::Ready))
            .await
    }

    /// Returns the values carried across the last request, as values of the current graph.
    fn carried<const N: usize>(&self) -> [Value; N] {
        let mailbox = self.mailbox.borrow();
        mailbox.carried.as_slice().try_into().expect("N values were carried")
    }

    /// Like `carried`, for any number of values.
    fn carried_vec(&self) -> Vec<Value> {
        self.mailbox.borrow().carried.clone()
    }
}

/// Checks that a value with this record can be given to a graph. `elements` is its number of
/// elements, or `None` for a carried value.
///
/// # Errors
/// If the network has no such record, if the number of elements is wrong, or if the graph has the
/// [maximum number](Graph::MAX_ENTRIES) of given values.
pub fn check_given(
    graph: &Graph,
    record: RecordId,
    elements: Option<usize>,
) -> Result<(), GiveError> {
    let Some(declared) = graph.network().records().get(usize::from(record.0)) else {
        return Err(GiveError::NoRecord { record, records: graph.network().records().len() });
    };
    let expected = declared.fields.iter().map(|field| field.shape.elements()).sum();
    if let Some(got) = elements.filter(|&elements| elements != expected) {
        return Err(GiveError::Elements { record: declared.name.clone(), expected, got });
    }
    match graph.given().len() < Graph::MAX_ENTRIES {
        true => Ok(()),
        false => Err(GiveError::TooMany),
    }
}

/// The error of [`Build::give`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveError {
    /// The network does not have the record.
    #[error("record {} does not exist: the network has {records} records", record.0)]
    NoRecord {
        /// The given record.
        record: RecordId,
        /// The number of records of the network.
        records: usize,
    },
    /// The number of elements differs from the record's.
    #[error("a given value of record {record}: expected {expected} elements, got {got}")]
    Elements {
        /// The record's name.
        record: String,
        /// Number of elements of all fields of the record.
        expected: usize,
        /// Number of elements that the caller gave.
        got: usize,
    },
    /// The graph has the [maximum number](Graph::MAX_ENTRIES) of given values.
    #[error(
        "the mini-batch has {} given values, and no more can be numbered: make mini-batches \
         smaller",
        Graph::MAX_ENTRIES
    )]
    TooMany,
}

/// Returns the index of the largest element that is not NaN; of equal ones, the lowest index.
#[must_use]
pub fn arg_max(elements: &[f32]) -> u32 {
    let mut best = 0;
    for (index, &element) in elements.iter().enumerate() {
        if element > elements[best] || elements[best].is_nan() {
            best = index;
        }
    }
    best as u32
}
