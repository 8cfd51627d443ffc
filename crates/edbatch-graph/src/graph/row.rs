//! Rows of tables that calls name: by an index, or by the argmax of a value of the same graph.

use std::fmt;

use smallvec::SmallVec;

use super::Graph;
use crate::{CallError, CallErrorReason, Kind, NodeId, Value};

/// A row of a table, as an argument of a [call](Graph::call_by).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// The row with this index.
    Index(u32),
    /// The row whose index is that of the largest element of a value of the same graph, with the
    /// fields of its record one after another. The backend looks it up. NaN is never the largest;
    /// of equal elements the first is.
    ArgMax(Value),
}

/// `7` or `argmax n2`.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => index.fmt(f),
            Self::ArgMax(value) => write!(f, "argmax {}", value.source()),
        }
    }
}

impl From<u32> for Row {
    fn from(index: u32) -> Self {
        Self::Index(index)
    }
}

/// Replaces the index of a row that a backend looks up. No table has this row.
const LOOKED_UP: u32 = u32::MAX;

/// Marks the calls with such rows, in `Node::rows`. The values follow those of the call's ports.
pub(super) const LOOKS_UP: u32 = 1 << 31;

impl Graph {
    /// Like [`call`](Self::call), but a row may be the argmax of a value. The call then depends on
    /// this value, and a decoder reads the word of its last step in the same graph.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use edbatch_graph::{Graph, Network, Row, Shape};
    ///
    /// let mut network = Network::new();
    /// let scores = network.record("scores", [("y", Shape::Vector(9))])?;
    /// let step = network.cell("step", scores, |cell| vec![cell.lookup("word", "next", &[9, 9])])?;
    /// let mut graph = Graph::new(Arc::new(network));
    /// let first = graph.call(step, &[4], &[])?;
    /// graph.call_by(step, &[Row::ArgMax(first)], &[])?;
    /// assert_eq!(graph.to_string(), "n0 = step(#4)\nn1 = step(#argmax n0)\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`call`](Self::call); or if the value of an argmax is not in the graph, or has more
    /// elements than the table has rows. The graph is then unchanged.
    pub fn call_by(
        &mut self,
        cell: Kind,
        rows: &[Row],
        values: &[Value],
    ) -> Result<Value, CallError> {
        let index = |&row: &Row| match row {
            Row::Index(index) => index,
            Row::ArgMax(_) => 0,
        };
        let indices: SmallVec<[u32; 4]> = rows.iter().map(index).collect();
        let looked_up = rows.iter().filter_map(|&row| match row {
            Row::Index(_) => None,
            Row::ArgMax(value) => Some(value.of_any_generation()),
        });
        let count = looked_up.clone().count();
        let checked = self.check_looked_up(cell, rows);
        let reserved = checked.and_then(|()| self.make_room(1, rows.len(), values.len() + count));
        let name = || self.network.cells().get(cell.index()).map_or("", |cell| cell.name());
        reserved.map_err(|reason| CallError { cell: name().into(), reason })?;
        let made = self.call(cell, &indices, values)?;
        if count > 0 {
            self.looks_up = true;
            self.values.extend(looked_up);
            let node = self.nodes.last_mut().expect("the call");
            let own = &mut self.rows[node.rows as usize..];
            own.iter_mut().zip(rows).for_each(|(index, row)| {
                if let Row::ArgMax(_) = row {
                    *index = LOOKED_UP;
                }
            });
            (node.rows, node.values.1) = (node.rows | LOOKS_UP, node.values.1 + count as u32);
        }
        Ok(made)
    }

    /// Checks the values whose argmax is a row. Other errors of a call are left to `call`.
    fn check_looked_up(&self, cell: Kind, rows: &[Row]) -> Result<(), CallErrorReason> {
        let tables = self.network.cells().get(cell.index()).map_or(&[][..], |cell| cell.tables());
        for (table, &row) in tables.iter().zip(rows) {
            let Row::ArgMax(value) = row else { continue };
            let name = || table.name.clone();
            let Some(record) = self.record_of(value) else {
                return Err(CallErrorReason::NotInGraph { port: name(), value: value.source() });
            };
            let fields = self.network.fields(record).fields.iter();
            let elements = fields.map(|field| field.shape.elements()).sum();
            if elements > table.rows as usize {
                let (table, rows) = (name(), table.rows);
                return Err(CallErrorReason::ArgMax { table, rows, elements });
            }
        }
        Ok(())
    }

    /// Returns true if a call may name the row of an argmax. Calls that were taken back count.
    #[must_use]
    pub fn looks_up(&self) -> bool {
        self.looks_up
    }

    /// Returns true if one of these calls names a row of a table by an argmax.
    #[must_use]
    pub fn look_up(&self, calls: &[NodeId], table: usize) -> bool {
        let names = |&node| matches!(self.row(node, table), Row::ArgMax(_));
        self.looks_up && calls.iter().any(names)
    }

    /// Returns the row of a table that a call names.
    ///
    /// # Panics
    /// If the cell has fewer tables.
    #[must_use]
    pub fn row(&self, node: NodeId, table: usize) -> Row {
        let rows = self.rows(node);
        match rows[table] {
            LOOKED_UP => {
                let before = looked_up(&rows[..table]);
                Row::ArgMax(self.looked_up(node)[before])
            }
            index => Row::Index(index),
        }
    }

    /// Returns the values whose argmax is a row that a call names, table by table.
    #[must_use]
    pub fn looked_up(&self, node: NodeId) -> &[Value] {
        let (first, end) = self.nodes[node.index()].values;
        &self.values[first as usize..end as usize][self.values_of(node).len()..]
    }

    /// Returns the number of values whose argmax is a row that a call names.
    #[inline]
    pub(super) fn count_looked_up(&self, node: NodeId) -> usize {
        match self.nodes[node.index()].rows & LOOKS_UP {
            0 => 0,
            _ => looked_up(self.rows(node)),
        }
    }
}

fn looked_up(rows: &[u32]) -> usize {
    rows.iter().filter(|&&row| row == LOOKED_UP).count()
}
