//! Call lists: the calls of one input as data, and the model that runs them.

#[cfg(test)]
mod broken;
mod error;
#[cfg(test)]
mod graph_lines;
mod line;
mod slots;
#[cfg(test)]
mod tests;
mod text;

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use edbatch_graph::{
    Appended, CallError, CallErrorReason, Dag, Graph, Kind, Network, RecordId, Shape, Value,
};

use crate::build::check_given;
use crate::{Build, BuildError, GiveError, JsonFault, Mailbox, Model, Targets};
use line::LineReader;

pub use error::CallListError;
pub use slots::Slots;

/// The calls of one input of any network, with the values that it gives and emits.
///
/// A list is checked while it is made. It can be run again and again: by the model [`CallLists`],
/// or as a part of an input by [`append_to`](Self::append_to).
///
/// ```
/// use std::sync::Arc;
/// use edbatch_graph::{Network, Shape};
/// use edbatch_models::CallList;
///
/// let mut network = Network::new();
/// let state = network.record("state", [("h", Shape::Vector(2))])?;
/// let leaf = network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[9, 2])])?;
/// let node = network.cell("node", state, |cell| {
///     let [sum] = cell.many("children", state).sum();
///     vec![sum.tanh()]
/// })?;
/// let network = Arc::new(network);
///
/// let mut list = CallList::new(network.clone());
/// let given = list.give(state, &[0.5, 1.0])?;
/// let word = list.call(leaf, &[4], &[])?;
/// let root = list.call(node, &[], &[word, given])?;
/// list.emit(root)?;
///
/// let line = list.to_json()?;
/// assert!(line.ends_with(r#""calls": [["leaf", 4], ["node", [1, 0]]], "emit": [2]}"#));
/// assert_eq!(CallList::from_json(&network, &line)?, list);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CallList {
    graph: Graph,
    /// The number of carried values: the first given values after the initial ones.
    carried: usize,
    /// The elements of all other given values, without slots.
    given: Vec<f32>,
    /// The given values whose elements come with each run, in order.
    slots: Vec<Slots>,
    emitted: Vec<Value>,
    targets: Option<Targets>,
}

impl CallList {
    /// Creates an empty list.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        let (given, slots, emitted) = (vec![], vec![], vec![]);
        Self { graph: Graph::new(network), carried: 0, given, slots, emitted, targets: None }
    }

    /// Appends a call with a row for each table and a value for each port. See [`Graph::call`].
    ///
    /// # Errors
    /// If the rows or values do not fit the cell, or the list is full.
    #[inline]
    pub fn call(&mut self, cell: Kind, rows: &[u32], values: &[Value]) -> Result<Value, CallError> {
        self.graph.call(cell, rows, values)
    }

    /// Like [`call`](Self::call) without rows. See [`Graph::call_with`].
    #[inline(always)]
    pub(crate) fn call_with<T>(
        &mut self,
        cell: Kind,
        items: &[T],
        value: impl Fn(&T) -> Value,
    ) -> Result<Value, CallError> {
        self.graph.call_with(cell, items, value)
    }

    /// Adds a value of the caller. `elements` holds its fields in order, matrices row by row.
    ///
    /// # Errors
    /// If the network has no such record, if the number of elements is wrong, or if the list has
    /// the [maximum number](Graph::MAX_ENTRIES) of given values.
    pub fn give(&mut self, record: RecordId, elements: &[f32]) -> Result<Value, GiveError> {
        check_given(&self.graph, record, Some(elements.len()))?;
        self.given.extend_from_slice(elements);
        Ok(self.graph.give(record))
    }

    /// Adds `count` values like [`give`](Self::give). `elements` has the elements of all of them.
    pub(crate) fn give_rows(
        &mut self,
        record: RecordId,
        elements: &[f32],
        count: usize,
    ) -> Result<(), GiveError> {
        check_given(&self.graph, record, None)?;
        if count > Graph::MAX_ENTRIES - self.graph.given().len() {
            return Err(GiveError::TooMany);
        }
        self.given.extend_from_slice(elements);
        for _ in 0..count {
            self.graph.give(record);
        }
        Ok(())
    }

    /// Adds a value that [`append_to`](Self::append_to) replaces by a value of the input, for
    /// example by one that was carried across an await.
    ///
    /// # Errors
    /// Like [`give`](Self::give), and if a value was given before: carried values come first.
    pub fn carried(&mut self, record: RecordId) -> Result<Value, CallListError> {
        check_given(&self.graph, record, None)?;
        if self.graph.given().len() > self.network().initial_values().len() + self.carried {
            return Err(CallListError::CarriedAfterGiven);
        }
        self.carried += 1;
        Ok(self.graph.give(record))
    }

    /// Appends a value to the outputs of the input. A value may be emitted more than once.
    ///
    /// # Errors
    /// If the value is not in the list.
    pub fn emit(&mut self, value: Value) -> Result<(), CallListError> {
        if self.graph.record_of(value).is_none() {
            return Err(CallListError::NotInList { value: value.source() });
        }
        self.emitted.push(value);
        Ok(())
    }

    /// Sets the class that each emitted value should have, or `None` for values without one. Only
    /// training reads them.
    ///
    /// # Errors
    /// If the number of targets differs from the number of emitted values, or if a value with a
    /// target is not one vector with this class.
    pub fn set_targets(&mut self, targets: Option<Targets>) -> Result<(), CallListError> {
        let Some(classes) = &targets else {
            self.targets = None;
            return Ok(());
        };
        let (emitted, got) = (self.emitted.len(), classes.len());
        if got != emitted {
            return Err(CallListError::Targets { emitted, got });
        }
        for (index, (&target, &value)) in classes.iter().zip(&self.emitted).enumerate() {
            let record = self.graph.record_of(value).expect("checked when it was emitted");
            let classes = match self.network().fields(record).fields.as_slice() {
                [field] if matches!(field.shape, Shape::Vector(_)) => field.shape.elements(),
                _ => 0,
            };
            if let Some(target) = target.filter(|&target| target as usize >= classes) {
                return Err(CallListError::Target { index, target, classes });
            }
        }
        self.targets = targets;
        Ok(())
    }

    /// Removes all calls, values and targets. Keeps the memory.
    pub fn clear(&mut self) {
        self.graph.clear();
        self.carried = 0;
        self.given.clear();
        self.slots.clear();
        self.emitted.clear();
        self.targets = None;
    }

    /// Returns the network whose cells are called.
    #[must_use]
    pub fn network(&self) -> &Arc<Network> {
        self.graph.network()
    }

    /// Returns the calls and the records of the given values.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the emitted values, in order.
    #[must_use]
    pub fn emitted(&self) -> &[Value] {
        &self.emitted
    }

    /// Returns the targets of the emitted values, if the list has targets.
    #[must_use]
    pub fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    /// Reads a list from a line of JSON. [`CallLists::read`] is faster for many lines.
    ///
    /// # Errors
    /// If the line is not a list of valid calls. The error says where, and what was expected.
    pub fn from_json(network: &Arc<Network>, line: &str) -> Result<Self, JsonFault> {
        CallLists::new(network.clone()).read(line)
    }

    /// Writes the list as a line of JSON, without a line end.
    ///
    /// # Errors
    /// If the list has carried values or slots, or a given element that is NaN or infinite.
    pub fn to_json(&self) -> Result<String, CallListError> {
        text::write(self)
    }

    /// Records the calls of an input of a model that awaits nothing.
    ///
    /// # Errors
    /// If the input does not fit the model, or if the model awaits a value: later calls then depend
    /// on that value, and no list can contain them.
    pub fn record<M: Model>(model: &M, input: &M::Input) -> Result<Self, BuildError> {
        let graph = Graph::new(model.network().clone()).into();
        let mailbox = Mailbox::default().into();
        {
            let build = Build::new(&graph, &mailbox);
            let wired = std::pin::pin!(model.build(&build, input));
            match wired.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result?,
                Poll::Pending => return Err(BuildError::Input(AWAITS.into())),
            }
        }
        let (graph, Mailbox { emitted, given, .. }) = (graph.into_inner(), mailbox.into_inner());
        if let Some(&value) = emitted.iter().find(|&&value| graph.record_of(value).is_none()) {
            let error = CallListError::NotInList { value: value.source() };
            return Err(BuildError::Input(error.to_string()));
        }
        Ok(Self { graph, carried: 0, given, slots: Vec::new(), emitted, targets: None })
    }

    /// Makes room for a number of calls, with a number of rows and of values in all.
    ///
    /// # Errors
    /// Like [`Graph::reserve`].
    pub fn reserve(&mut self, calls: usize, rows: usize, values: usize) -> Result<(), CallError> {
        self.graph.reserve(calls, rows, values)
    }

    /// Makes the calls of the list in an input, gives its values and emits those that it emits.
    /// `carried` replaces its carried values, one for one. The result maps values of the list to
    /// values of the graph.
    ///
    /// The list is copied without new checks, which is faster than calls one by one.
    ///
    /// # Errors
    /// If the input has another network, if the carried values have other records or another
    /// number, if the list has slots, or if the graph is full. The graph is then unchanged.
    pub fn append_to<'v>(
        &self,
        build: &Build<'_>,
        carried: &'v [Value],
    ) -> Result<Appended<'v>, CallError> {
        let (expected, got) = (self.carried, carried.len());
        if got != expected {
            let reason = CallErrorReason::Values { expected, variadic: false, got };
            return Err(CallError { cell: "an appended call list".into(), reason });
        }
        self.without_slots()?;
        build.append(&self.graph, [self.given.as_slice()], &self.emitted, carried)
    }

    /// Returns the elements of the given values that are neither carried nor slots, value after
    /// value.
    #[must_use]
    pub fn given(&self) -> &[f32] {
        &self.given
    }
}

/// The reason why a model that awaits has no call lists.
const AWAITS: &str = "the model awaits computed values, and its later calls depend on them: a call \
                      list cannot describe them";

/// Two lists are equal if they have equal networks, calls, values, slots and targets. Elements are
/// compared by their bits.
impl PartialEq for CallList {
    fn eq(&self, other: &Self) -> bool {
        let bits = |given: &[f32]| given.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        self.carried == other.carried
            && self.slots == other.slots
            && self.emitted == other.emitted
            && self.targets == other.targets
            && bits(&self.given) == bits(&other.given)
            && self.graph == other.graph
    }
}

/// The model whose inputs are [`CallList`]s. It runs any network.
#[derive(Clone, Debug)]
pub struct CallLists {
    reader: Arc<LineReader>,
}

impl CallLists {
    /// Creates the model of a network.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        Self { reader: Arc::new(LineReader::new(network)) }
    }

    /// Reads a call list from a line of JSON: at most 2²⁰ calls, 2²⁴ operands and 2²² emitted
    /// values.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use edbatch_graph::{Network, Shape};
    /// use edbatch_models::CallLists;
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("h", Shape::Vector(2))])?;
    /// network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[9, 2])])?;
    /// let lists = CallLists::new(Arc::new(network));
    /// let list = lists.read(r#"{"calls": [["leaf", 4], ["leaf", 7]], "emit": [1]}"#)?;
    /// assert_eq!(list.graph().to_string(), "n0 = leaf(#4)\nn1 = leaf(#7)\n");
    /// let error = lists.read(r#"{"calls": [["leaf", 4], ["leaf"]]}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "1:32: expected a row of table token of cell leaf, got the end of the call"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the line is not a list of valid calls. The error says where, and what was expected.
    pub fn read(&self, line: &str) -> Result<CallList, JsonFault> {
        self.reader.read(line)
    }
}

impl PartialEq for CallLists {
    fn eq(&self, other: &Self) -> bool {
        self.network() == other.network()
    }
}

impl Model for CallLists {
    type Input = CallList;

    fn network(&self) -> &Arc<Network> {
        self.reader.empty.network()
    }

    fn work(&self, list: &CallList) -> usize {
        list.graph.nodes()
    }

    async fn build(&self, build: &Build<'_>, list: &CallList) -> Result<(), BuildError> {
        list.append_to(build, &[])?;
        Ok(())
    }
}
