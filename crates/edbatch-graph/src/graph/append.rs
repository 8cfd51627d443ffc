//! Appends a graph to another graph of the same network.

use std::sync::Arc;

use super::Graph;
use crate::call::Node;
use crate::id::Generation;
use crate::{CallError, CallErrorReason, Source, Value};

impl Graph {
    /// Appends the calls and the given values of another graph of the same network, as they are.
    ///
    /// `first` replaces the other graph's first given values after the initial ones, one for one.
    /// The other graph's remaining given values become given values of this graph, in order.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use edbatch_graph::{Graph, Network, Shape};
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("h", Shape::Vector(2))])?;
    /// let step = network.cell("step", state, |cell| {
    ///     let [h] = cell.one("previous", state);
    ///     vec![h.tanh()]
    /// })?;
    /// let mut steps = Graph::new(Arc::new(network));
    /// let before = steps.give(state);
    /// let after = steps.call(step, &[], &[before])?;
    ///
    /// let mut graph = Graph::new(steps.network().clone());
    /// let mut value = graph.give(state);
    /// for _ in 0..2 {
    ///     let first = [value];
    ///     value = graph.append(&steps, &first)?.value(after);
    /// }
    /// assert_eq!(graph.to_string(), "n0 = step(g0)\nn1 = step(n0)\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the networks differ, if `first` has too many values or values of other records, or if the
    /// graph would have more than [`MAX_ENTRIES`](Self::MAX_ENTRIES) nodes or arguments. The graph
    /// is then unchanged.
    pub fn append<'v>(
        &mut self,
        other: &Self,
        first: &'v [Value],
    ) -> Result<Appended<'v>, CallError> {
        let initial = self.network.initial_values().len();
        self.check_first(other, first)
            .and_then(|()| self.reserve_for(other))
            .map_err(|reason| CallError { cell: "an appended graph".into(), reason })?;
        let appended = Appended {
            first,
            initial,
            nodes: self.nodes.len(),
            // Wraps if the graph has fewer given values than `first`.
            given: self.given.len().wrapping_sub(initial + first.len()),
            generation: self.generation,
        };
        let (rows, values) = (self.rows.len() as u32, self.values.len() as u32);
        self.nodes.extend(other.nodes.iter().map(|node| Node {
            rows: node.rows + rows,
            values: (node.values.0 + values, node.values.1 + values),
            ..*node
        }));
        self.rows.extend_from_slice(&other.rows);
        let moved = |&value: &Value| appended.value(value).of_any_generation();
        self.values.extend(other.values.iter().map(moved));
        self.given.extend_from_slice(&other.given[initial + first.len()..]);
        self.looks_up |= other.looks_up;
        Ok(appended)
    }

    fn check_first(&self, other: &Self, first: &[Value]) -> Result<(), CallErrorReason> {
        if !Arc::ptr_eq(&self.network, &other.network) && self.network != other.network {
            return Err(CallErrorReason::OtherNetwork);
        }
        let records = &other.given[self.network.initial_values().len()..];
        if first.len() > records.len() {
            let (expected, got) = (records.len(), first.len());
            return Err(CallErrorReason::Values { expected, variadic: false, got });
        }
        for (index, (&value, &expected)) in first.iter().zip(records).enumerate() {
            let (port, name) =
                (format!("value {index}"), |record| self.network.fields(record).name.clone());
            match self.record_of(value) {
                Some(got) if got == expected => {}
                Some(got) => {
                    let (expected, got) = (name(expected), name(got));
                    return Err(CallErrorReason::Record { port, expected, got });
                }
                None => return Err(CallErrorReason::NotInGraph { port, value: value.source() }),
            }
        }
        Ok(())
    }

    /// Makes room for all calls and given values of another graph.
    fn reserve_for(&mut self, other: &Self) -> Result<(), CallErrorReason> {
        if self.given.len() + other.given.len() > Self::MAX_ENTRIES {
            return Err(CallErrorReason::Full);
        }
        self.make_room(other.nodes.len(), other.rows.len(), other.values.len())?;
        let reserved = self.given.try_reserve(other.given.len());
        reserved.map_err(|_| CallErrorReason::Memory { nodes: self.nodes.len() })
    }
}

/// The place of a graph that was [appended](Graph::append) to another one.
#[derive(Clone, Copy, Debug)]
pub struct Appended<'v> {
    first: &'v [Value],
    /// The number of initial values.
    initial: usize,
    /// The number of nodes before it.
    nodes: usize,
    /// The difference between the indices of given values.
    given: usize,
    generation: Generation,
}

impl Appended<'_> {
    /// Returns the value that a value of the appended graph has become.
    #[inline]
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        match value.source() {
            Source::Node(node) => Value::of_node(self.nodes + node.index(), self.generation),
            Source::Given(index) if index < self.initial => value,
            Source::Given(index) => match self.first.get(index - self.initial) {
                Some(&first) => first,
                None => Value::given(index.wrapping_add(self.given), self.generation),
            },
        }
    }
}
