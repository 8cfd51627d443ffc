//! How a model wires one instance: it calls cells, emits outputs and awaits computed values.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::slice;
use std::task::Poll;

use edbatch_graph::{CallError, Graph, Kind, RecordId, Value};

/// The wiring interface of one input.
///
/// The inputs of a mini-batch share a graph. No input can see another.
#[derive(Clone, Copy, Debug)]
pub struct Build<'g> {
    graph: &'g RefCell<Graph>,
    mailbox: &'g RefCell<Mailbox>,
}

/// Messages between the future that wires an input and the engine that polls it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Mailbox {
    /// Values emitted since the engine last looked, in order.
    pub emitted: Vec<Value>,
    /// Elements of the values given since the engine last looked, row after row.
    pub given: Vec<f32>,
    /// The request that the future waits for.
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
    /// The future awaits two requests at the same time, which is an error.
    Two,
}

impl Request {
    /// Returns the requested values.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        match self {
            Self::Elements(value) | Self::ArgMax(value) => slice::from_ref(value),
            Self::EachElements(values) => values,
            Self::Two => &[],
        }
    }
}

/// The answer to a [`Request`] of the same variant.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The elements of the value, field after field.
    Elements(Vec<f32>),
    /// The elements of each value.
    EachElements(Vec<Vec<f32>>),
    /// The index of its largest element.
    ArgMax(u32),
}

impl<'g> Build<'g> {
    /// Wires one input into `graph`; the engine reads and answers its messages in `mailbox`.
    #[must_use]
    pub fn new(graph: &'g RefCell<Graph>, mailbox: &'g RefCell<Mailbox>) -> Self {
        Self { graph, mailbox }
    }

    /// Calls a cell: a row per table, then a value per port.
    ///
    /// # Errors
    /// If they do not fit the cell.
    // As `Graph::call`, and for its reason.
    #[inline(always)]
    pub fn call(&self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        self.graph.borrow_mut().call(cell, rows, values)
    }

    /// A value of the caller's own: features, audio, vectors of another model. `elements` are those
    /// of a record's fields, one field after the other, matrices row by row.
    ///
    /// It may be used as a computed value may: until the instance next awaits one, unless it is
    /// carried across.
    ///
    /// # Errors
    /// If the network has no such record, or its fields have another number of elements together,
    /// or the graph has [too many](Graph::MAX_ENTRIES) given values. The graph is then as before.
    pub fn give(&self, record: RecordId, elements: &[f32]) -> Result<Value, GiveError> {
        let mut graph = self.graph.borrow_mut();
        let Some(declared) = graph.network().records().get(usize::from(record.0)) else {
            return Err(GiveError::NoRecord { record, records: graph.network().records().len() });
        };
        let expected = declared.fields.iter().map(|field| field.shape.elements()).sum();
        if elements.len() != expected {
            let (record, got) = (declared.name.clone(), elements.len());
            return Err(GiveError::Elements { record, expected, got });
        }
        if graph.given().len() >= Graph::MAX_ENTRIES {
            return Err(GiveError::TooMany);
        }
        self.mailbox.borrow_mut().given.extend_from_slice(elements);
        Ok(graph.give(record))
    }

    /// Makes a value the instance's next output.
    #[inline]
    pub fn emit(&self, value: Value) {
        self.mailbox.borrow_mut().emitted.push(value);
    }

    /// Calls a cell without tables for each of these lists of values, and makes what it yields the
    /// instance's next outputs.
    ///
    /// # Errors
    /// As [`call`](Self::call), for the first list that does not fit.
    ///
    /// # Panics
    /// If the iterator calls or emits something.
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
    /// only the values in `carried` can still be used, under the names returned here. All other
    /// values are freed.
    ///
    /// One request at a time: a model that joins the futures of two requests, or that awaits
    /// anything but the futures of its `Build`, ends with an error of its input. To read several
    /// values, use [`fetch_each`](Self::fetch_each).
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

    /// Waits like [`fetch`](Self::fetch) and returns the index of the largest element, the lowest
    /// one of several equal ones. For greedy decoding: the scores stay on the backend.
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

    /// Waits for the answer to a request. The carried values are in the mailbox then.
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

    /// Returns the values carried across the last request, under their new names.
    fn carried<const N: usize>(&self) -> [Value; N] {
        let mailbox = self.mailbox.borrow();
        mailbox.carried.as_slice().try_into().expect("N values were carried")
    }
}

/// Why a row of the caller's own is no value of the network.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GiveError {
    /// The record is not one of the network.
    NoRecord {
        /// The given record.
        record: RecordId,
        /// The number of records of the network.
        records: usize,
    },
    /// The row is too short or too long.
    Elements {
        /// The record's name.
        record: String,
        /// Elements of all its fields together.
        expected: usize,
        /// Elements that were given.
        got: usize,
    },
    /// The graph has as many given values as [can be numbered](Graph::MAX_ENTRIES).
    TooMany,
}

impl fmt::Display for GiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord { record, records } => {
                write!(f, "{record:?} does not exist: the network has {records} records")
            }
            Self::Elements { record, expected, got } => {
                write!(
                    f,
                    "a given value of record {record}: expected {expected} elements, got {got}"
                )
            }
            Self::TooMany => write!(
                f,
                "the mini-batch has {} given values, and no more can be numbered: make \
                 mini-batches smaller",
                Graph::MAX_ENTRIES
            ),
        }
    }
}

impl std::error::Error for GiveError {}

/// The index of the greatest element; ties go to the lowest, and NaN is never greatest.
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
