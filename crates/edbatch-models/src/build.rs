//! How a model wires one instance: it calls cells, emits outputs and awaits computed values.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::task::Poll;

use edbatch_graph::{CallError, Graph, Kind, RecordId, Value};
use smallvec::SmallVec;

/// One instance's view of the mini-batch being built.
///
/// Instances of a mini-batch share a graph, and none of them can see the others.
#[derive(Clone, Copy, Debug)]
pub struct Build<'g> {
    graph: &'g RefCell<Graph>,
    exchange: &'g RefCell<Exchange>,
}

/// What passes between an instance and the engine that runs it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Exchange {
    /// Outputs since the engine last looked, in order.
    pub emitted: Vec<Value>,
    /// How many of the outputs before these are not taken back.
    pub earlier: usize,
    /// What the instance waits for: this of the values in `asked`.
    pub awaited: Option<Awaited>,
    /// What values it asks about.
    pub asked: SmallVec<[Value; 1]>,
    /// While it waits: the values that it will still use. Afterwards: the same values in the next
    /// graph.
    pub carried: Vec<Value>,
    /// What it waited for, once it has been computed.
    pub answer: Option<Answer>,
    /// Where that is [`Answer::ArgMax`]: an index for each value.
    pub greatest: SmallVec<[u32; 1]>,
    /// The elements of the values that were given since the engine last looked, row after row.
    pub given: Vec<f32>,
}

/// What an instance waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// The elements of a value, field after field.
    Elements,
    /// The index of the greatest element of each of some values, as [`arg_max`] defines it.
    ArgMax,
}

/// What an instance waited for; of the same variant as what it asked.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The elements of the awaited value, field after field.
    Elements(Vec<f32>),
    /// The indices of the greatest elements: [`Exchange::greatest`].
    ArgMax,
}

impl<'g> Build<'g> {
    /// A view for one instance.
    #[must_use]
    pub fn new(graph: &'g RefCell<Graph>, exchange: &'g RefCell<Exchange>) -> Self {
        Self { graph, exchange }
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
    /// or the graph has [too many](Graph::MOST) given values. The graph is then as before.
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
        if graph.given().len() >= Graph::MOST {
            return Err(GiveError::TooMany);
        }
        self.exchange.borrow_mut().given.extend_from_slice(elements);
        Ok(graph.give(record))
    }

    /// Makes a value the instance's next output.
    #[inline]
    pub fn emit(&self, value: Value) {
        self.exchange.borrow_mut().emitted.push(value);
    }

    /// Takes the instance's last outputs back, so many of them: of steps that were called before it
    /// was known that they are not needed.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take_back(&self, outputs: usize) {
        let exchange = &mut *self.exchange.borrow_mut();
        let all = exchange.earlier + exchange.emitted.len();
        let kept = all.checked_sub(outputs);
        let kept = kept.unwrap_or_else(|| panic!("{outputs} outputs taken back, of {all}"));
        exchange.emitted.truncate(kept.saturating_sub(exchange.earlier));
        exchange.earlier = exchange.earlier.min(kept);
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
        let (mut graph, mut exchange) = (self.graph.borrow_mut(), self.exchange.borrow_mut());
        for values in lists {
            exchange.emitted.push(graph.call(cell, &[], values.as_ref())?);
        }
        Ok(())
    }

    /// Waits until `value` is computed and returns its elements, field after field.
    ///
    /// The engine first runs all calls that the instances of the mini-batch have made. Afterwards
    /// only the values in `carried` can still be used, as the values returned here; the memory of
    /// all others is freed.
    pub async fn fetch<const N: usize>(
        &self,
        value: Value,
        carried: [Value; N],
    ) -> (Vec<f32>, [Value; N]) {
        match self.wait(Awaited::Elements, &[value], carried).await {
            (Answer::Elements(elements), carried) => (elements, carried),
            (Answer::ArgMax, _) => unreachable!("an index for elements"),
        }
    }

    /// Waits as [`fetch`](Self::fetch) does, and returns the index of the greatest element, the
    /// lowest of equal ones. For greedy decoding: the scores stay on the backend.
    pub async fn arg_max<const N: usize>(
        &self,
        value: Value,
        carried: [Value; N],
    ) -> (u32, [Value; N]) {
        let (_, carried) = self.wait(Awaited::ArgMax, &[value], carried).await;
        (self.exchange.borrow().greatest[0], carried)
    }

    /// As [`arg_max`](Self::arg_max), of several values at once: writes an index for each of them
    /// to `greatest`, whatever stands there, and returns the carried values. For decoders that call
    /// several steps before they look at what these have chosen.
    pub async fn arg_max_each<const N: usize>(
        &self,
        values: &[Value],
        carried: [Value; N],
        greatest: &mut Vec<u32>,
    ) -> [Value; N] {
        let (_, carried) = self.wait(Awaited::ArgMax, values, carried).await;
        greatest.clear();
        greatest.extend_from_slice(&self.exchange.borrow().greatest);
        carried
    }

    async fn wait<const N: usize>(
        &self,
        awaited: Awaited,
        asked: &[Value],
        carried: [Value; N],
    ) -> (Answer, [Value; N]) {
        {
            let mut exchange = self.exchange.borrow_mut();
            exchange.awaited = Some(awaited);
            exchange.asked.clear();
            exchange.asked.extend_from_slice(asked);
            exchange.carried.clear();
            exchange.carried.extend(carried);
        }
        // Without a waker: the engine polls again exactly when the answer is there.
        poll_fn(|_| {
            let mut exchange = self.exchange.borrow_mut();
            match exchange.answer.take() {
                None => Poll::Pending,
                Some(answer) => {
                    let carried = exchange.carried.as_slice();
                    Poll::Ready((answer, carried.try_into().expect("as many as were given")))
                }
            }
        })
        .await
    }
}

/// Why a row of the caller's own is no value of the network.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GiveError {
    /// The record is not one of the network.
    NoRecord {
        /// What was named.
        record: RecordId,
        /// How many records the network has.
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
    /// The graph has as many given values as [can be numbered](Graph::MOST).
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
                Graph::MOST
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
