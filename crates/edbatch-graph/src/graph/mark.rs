//! Takes back what was added to a graph, and adds given values without a panic.

use super::Graph;
use crate::id::Generation;
use crate::{CallErrorReason, RecordId, Value};

/// The contents of a graph at some time, to which it can be [rewound](Graph::rewind).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    given: usize,
    nodes: usize,
    rows: usize,
    values: usize,
    generation: Generation,
}

impl Graph {
    /// Returns a mark of the current contents.
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            given: self.given.len(),
            nodes: self.nodes.len(),
            rows: self.rows.len(),
            values: self.values.len(),
            generation: self.generation,
        }
    }

    /// Removes all calls and given values that were added since a mark of this graph. Keeps the
    /// memory.
    ///
    /// Do not use the removed values: values that are added later cannot be told from them.
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
    /// let mut graph = Graph::new(Arc::new(network));
    /// let given = graph.give(state);
    /// let first = graph.call(step, &[], &[given])?;
    /// let mark = graph.mark();
    /// graph.call(step, &[], &[first])?;
    /// graph.rewind(mark);
    /// assert_eq!(graph.to_string(), "n0 = step(g0)\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the graph was cleared since, or rewound to an earlier mark.
    #[inline]
    pub fn rewind(&mut self, mark: Mark) {
        let Mark { given, nodes, rows, values, generation } = mark;
        let holds = self.generation == generation
            && self.given.len() >= given
            && self.nodes.len() >= nodes
            && self.rows.len() >= rows
            && self.values.len() >= values;
        assert!(holds, "the graph still has the contents of the mark");
        self.given.truncate(given);
        self.nodes.truncate(nodes);
        self.rows.truncate(rows);
        self.values.truncate(values);
    }

    /// Like [`give`](Self::give), but returns an error instead of a panic if the graph is full or
    /// the memory cannot be allocated.
    ///
    /// # Errors
    /// [`CallErrorReason::Full`] or [`CallErrorReason::Memory`].
    ///
    /// # Panics
    /// If the network does not have the record.
    #[inline]
    pub fn try_give(&mut self, record: RecordId) -> Result<Value, CallErrorReason> {
        if self.given.len() >= Self::MAX_ENTRIES {
            return Err(CallErrorReason::Full);
        }
        let reserved = self.given.try_reserve(1);
        reserved.map_err(|_| CallErrorReason::Memory { nodes: self.nodes.len() })?;
        Ok(self.give(record))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Network, Shape};

    /// A graph with a given value and two calls of a cell that reads a table and any number of
    /// values.
    fn graph() -> Graph {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
        let initial = network.initial(state, &["h0"]).unwrap();
        let cell = network.cell("node", state, |cell| {
            let x = cell.lookup("token", "embed", &[9, 2]);
            let [sum] = cell.many("children", state).sum();
            vec![(x + sum).tanh()]
        });
        let cell = cell.unwrap();
        let mut graph = Graph::new(Arc::new(network));
        let given = graph.give(state);
        let first = graph.call(cell, &[3], &[initial, given]).unwrap();
        graph.call(cell, &[4], &[first]).unwrap();
        graph
    }

    #[test]
    fn a_rewound_graph_is_as_it_was_and_values_made_before_the_mark_are_in_it() {
        let mut graph = graph();
        let (kind, record) = (crate::Kind(0), RecordId(0));
        let before = graph.call(kind, &[5], &[graph.given_value(1).unwrap()]).unwrap();
        let (copy, mark) = (graph.clone(), graph.mark());
        for round in 0..3 {
            let given = graph.try_give(record).unwrap();
            for _ in 0..round {
                graph.call(kind, &[1], &[given, before, before]).unwrap();
            }
            graph.rewind(mark);
            assert_eq!(graph, copy);
            assert_eq!(graph.mark(), mark);
            assert_eq!(graph.record_of(given), None);
        }
        assert_eq!(graph.record_of(before), Some(record));
        graph.rewind(mark);
        assert_eq!(graph, copy);
    }

    #[test]
    #[should_panic(expected = "still has the contents of the mark")]
    fn a_mark_ends_when_the_graph_is_cleared() {
        let mut graph = graph();
        graph.clear();
        let mark = graph.mark();
        graph.clear();
        graph.rewind(mark);
    }

    #[test]
    #[should_panic(expected = "still has the contents of the mark")]
    fn a_mark_ends_when_the_graph_is_rewound_to_an_earlier_one() {
        let mut graph = graph();
        let early = graph.mark();
        graph.try_give(RecordId(0)).unwrap();
        let late = graph.mark();
        graph.rewind(early);
        graph.rewind(late);
    }
}
