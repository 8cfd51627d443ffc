//! Cells from their parts: the only way into a [`Network`], with all checks of declarations,
//! operations and outputs.

use crate::cell::Declared;
use crate::dropout::{expected_rate, is_rate};
use crate::network::{Declarations, MAX_ITEMS, OWN_RECORD, VALID_SIZE};
use crate::op::{attention_shape, softmax_sum_shape};
use crate::{
    Arity, At, Cell, CellError, CellParts, Instruction, Kind, Network, Op, Port, Shape, Table, Var,
};

/// A cell that is checked.
pub(crate) struct Check<'a> {
    pub(crate) declarations: &'a Declarations,
    pub(crate) parts: &'a CellParts,
}

impl Network {
    /// Adds a cell from its parts, which are checked in full. [`Network::cell`] is the way to
    /// write a cell as equations.
    ///
    /// # Errors
    /// If another cell has the same name, if there are more than 65,536 cells, if a part refers to
    /// something that does not exist, if an operand does not precede its reader, if a shape differs
    /// from the inferred one, if the outputs do not match the fields of the record, if an operation
    /// is one of adjoint cells, or if the cell has more than 65,536 operations, ports or tables.
    /// The error names the cell and the operation. The network is then unchanged.
    pub fn add_cell(&mut self, parts: CellParts) -> Result<Kind, CellError> {
        if self.cells.iter().any(|cell| cell.name == parts.name) {
            let expected = "a unique name, got the name of another cell";
            return Err(CellError::new(&parts.name, "cell", &[], expected));
        }
        let kind = u16::try_from(self.cells.len()).map_err(|_| {
            CellError::new(&parts.name, "cell", &[], "at most 65536 cells in a network")
        })?;
        self.check(&parts).all()?;
        let CellParts { name, record, tables, ports, instructions, outputs } = parts;
        let declared = Declared { instructions, outputs };
        let Declared { instructions, outputs } = declared.without_dropout();
        let (row, declared) = (record, declared.has_dropout().then(|| Box::new(declared)));
        self.cells.push(Cell { name, record, row, tables, ports, instructions, outputs, declared });
        Ok(Kind(kind))
    }

    /// Sets the shapes of all operations of a cell to the inferred ones. Constants keep theirs.
    ///
    /// # Errors
    /// Like [`add_cell`](Self::add_cell), for the first part that is invalid. The shapes of later
    /// operations are then unchanged.
    pub fn infer_shapes(&self, parts: &mut CellParts) -> Result<(), CellError> {
        self.check(parts).declarations()?;
        for var in 0..parts.instructions.len() {
            parts.instructions[var].shape = self.check(parts).inferred(var)?;
        }
        Ok(())
    }

    fn check<'a>(&'a self, parts: &'a CellParts) -> Check<'a> {
        Check { declarations: &self.declarations, parts }
    }
}

impl Check<'_> {
    pub(crate) fn all(&self) -> Result<(), CellError> {
        self.declarations()?;
        (0..self.parts.instructions.len()).try_for_each(|var| self.instruction(var))?;
        self.outputs()
    }

    /// Checks everything but operations and outputs.
    pub(crate) fn declarations(&self) -> Result<(), CellError> {
        let parts = self.parts;
        if usize::from(parts.record.0) >= self.declarations.records.len() {
            return self.error("cell", &[], OWN_RECORD);
        }
        let dropout = |instruction: &&Instruction| matches!(instruction.op, Op::Dropout(_));
        let dropouts = parts.instructions.iter().filter(dropout).count();
        for (items, what) in [
            (parts.tables.len(), "tables"),
            // Each dropout takes a table in training.
            (parts.tables.len() + dropouts, "tables and dropouts"),
            (parts.ports.len(), "ports"),
            (parts.instructions.len(), "operations"),
        ] {
            if items > MAX_ITEMS {
                return self.error("cell", &[], &format!("at most 65536 {what} in a cell"));
            }
        }
        parts.tables.iter().try_for_each(|table| self.table(table))?;
        (0..parts.ports.len()).try_for_each(|port| self.port(port))
    }

    fn table(&self, table: &Table) -> Result<(), CellError> {
        let Some(id) = table.parameter else {
            if !is_index_size(table.rows) {
                let what = format!("index {}", table.name);
                return self.error(what, &[], &expected_size(table.rows as usize));
            }
            return Ok(());
        };
        let what = format!("table {}", table.name);
        let Some(parameter) = self.declarations.parameters.get(id.0 as usize) else {
            return self.error(what, &[], OWN_PARAMETER);
        };
        let dims = &parameter.dims;
        if dims.get(1..).and_then(Shape::new).is_none() {
            return self.error(what, &[], &expected_table(dims));
        }
        if dims[0] != table.rows as usize {
            let expected = format!("the {} rows of {}", dims[0], parameter.name);
            return self.error(what, &[], &format!("{expected}, got {}", table.rows));
        }
        Ok(())
    }

    pub(crate) fn port(&self, index: usize) -> Result<(), CellError> {
        let Port { name, record, .. } = &self.parts.ports[index];
        let what = format!("port {name}");
        if index > 0 && self.parts.ports[index - 1].arity == Arity::Many {
            return self.error(what, &[], LAST_PORT);
        }
        if usize::from(record.0) >= self.declarations.records.len() {
            return self.error(what, &[], OWN_RECORD);
        }
        Ok(())
    }

    fn instruction(&self, var: usize) -> Result<(), CellError> {
        let Instruction { op, operands, shape } = &self.parts.instructions[var];
        let inferred = self.inferred(var)?;
        if inferred != *shape {
            let shapes = self.shapes(operands);
            let expected = format!("a result of shape {inferred}, got {shape}");
            let at = At::Operation { var: Some(Var(var as u32)), op: op.to_string() };
            return self.error(at, &shapes, &expected);
        }
        Ok(())
    }

    /// Checks an operation, except for its shape, which it infers.
    pub(crate) fn inferred(&self, var: usize) -> Result<Shape, CellError> {
        let Instruction { op, operands, shape } = &self.parts.instructions[var];
        let what = || At::Operation { var: Some(Var(var as u32)), op: op.to_string() };
        if let Some(&later) = operands.iter().find(|operand| operand.index() >= var) {
            return self.error(what(), &[], &format!("operands before v{var}, got {later}"));
        }
        if op.is_source() && !operands.is_empty() {
            return self.error(what(), &[], &format!("no operands, got {}", operands.len()));
        }
        let inferred = self.infer(*op, *shape, &self.shapes(operands));
        inferred.or_else(|Misfit { shapes, expected }| self.error(what(), &shapes, &expected))
    }

    fn shapes(&self, vars: &[Var]) -> Vec<Shape> {
        vars.iter().map(|var| self.parts.instructions[var.index()].shape).collect()
    }

    /// Infers the shape of a result. `said` is the shape that the parts state.
    fn infer(&self, op: Op, said: Shape, operands: &[Shape]) -> Result<Shape, Misfit> {
        match op {
            Op::Input { port, field } => self.field(port, field, Arity::One),
            Op::Reduce { port, field, by: _ } => self.field(port, field, Arity::Many),
            Op::Attention { port, keys, values, heads } => {
                let [keys, values] =
                    [keys, values].map(|field| self.field(port, field, Arity::Many));
                let (keys, values) = (keys?, values?);
                let [query] = operands else {
                    return misfit(format!("one operand, the query, got {}", operands.len()));
                };
                let shapes = [*query, keys, values];
                attention_shape(heads, shapes)
                    .map_err(|expected| Misfit { shapes: shapes.into(), expected })
            }
            Op::SoftmaxSum { port, scores, values } => {
                let scores = self.field(port, scores, Arity::Many)?;
                let values = self.field(port, values, Arity::Many)?;
                softmax_sum_shape(scores, values)
                    .map_err(|expected| Misfit { shapes: vec![scores, values], expected })
            }
            Op::Lookup { table } => {
                let Some(parameter) = self.declared(table)?.parameter else {
                    return misfit("a table, got an index port".into());
                };
                let dims = &self.declarations.parameters[parameter.0 as usize].dims;
                Ok(Shape::new(&dims[1..]).expect("tables were checked"))
            }
            Op::Select { table } => {
                let Table { name, parameter, rows } = self.declared(table)?;
                if parameter.is_some() {
                    return misfit("an index port, got a table with a parameter".into());
                }
                match operands {
                    [shape] if shape.rows_and_columns().0 != *rows as usize => {
                        let shapes = vec![*shape];
                        Err(Misfit { shapes, expected: expected_rows(name, *rows) })
                    }
                    _ => self.plain(op, operands),
                }
            }
            Op::Normalize(by) if by.epsilon().is_some_and(|epsilon| !is_epsilon(epsilon)) => {
                let epsilon = by.epsilon().unwrap_or_default();
                Err(Misfit { shapes: operands.into(), expected: expected_epsilon(epsilon) })
            }
            Op::Dropout(rate) if !is_rate(rate) => {
                Err(Misfit { shapes: operands.into(), expected: expected_rate(rate) })
            }
            Op::Parameter(id) => {
                let Some(parameter) = self.declarations.parameters.get(id.0 as usize) else {
                    return misfit(OWN_PARAMETER.into());
                };
                let dims = &parameter.dims;
                Shape::new(dims).map_or_else(|| misfit(expected_parameter(dims)), Ok)
            }
            Op::Constant(_) if said.is_valid() => Ok(said),
            Op::Constant(_) => Err(Misfit { shapes: vec![said], expected: VALID_SIZE.into() }),
            Op::Adjoint(_) => misfit("an operation that is not only for adjoint cells".into()),
            Op::MatMul
            | Op::Dot
            | Op::Neg
            | Op::Scale(_)
            | Op::Apply(_)
            | Op::Binary(_)
            | Op::Normalize(_)
            | Op::Reshape(_)
            | Op::Concat
            | Op::Slice { .. }
            | Op::Transpose
            | Op::Dropout(_) => self.plain(op, operands),
        }
    }

    /// Infers the shape of an operation that reads its operands alone.
    fn plain(&self, op: Op, operands: &[Shape]) -> Result<Shape, Misfit> {
        op.infer(operands).map_err(|expected| Misfit { shapes: operands.into(), expected })
    }

    fn declared(&self, table: u16) -> Result<&Table, Misfit> {
        self.parts.tables.get(usize::from(table)).ok_or_else(|| {
            let tables = self.parts.tables.len();
            let expected = format!("one of the cell's tables, which has {tables}");
            Misfit { shapes: Vec::new(), expected }
        })
    }

    /// Returns the shape of a field at a port of this arity.
    fn field(&self, port: u16, field: u16, arity: Arity) -> Result<Shape, Misfit> {
        let Some(declared) = self.parts.ports.get(usize::from(port)) else {
            let ports = self.parts.ports.len();
            return misfit(format!("one of the cell's ports, which has {ports}"));
        };
        if declared.arity != arity {
            return misfit(match arity {
                Arity::One => "a port that takes one value".into(),
                Arity::Many => "a port that takes any number of values".into(),
            });
        }
        let record = &self.declarations.records[usize::from(declared.record.0)];
        match record.fields.get(usize::from(field)) {
            Some(field) => Ok(field.shape),
            None => {
                let (fields, name) = (record.fields.len(), &record.name);
                misfit(format!("one of the {fields} fields of the record {name}"))
            }
        }
    }

    fn outputs(&self) -> Result<(), CellError> {
        let instructions = &self.parts.instructions;
        let missing = |var: &&Var| var.index() >= instructions.len();
        if let Some(var) = self.parts.outputs.iter().find(missing) {
            let expected = format!("one of the {} operations, got {var}", instructions.len());
            return self.error("return", &[], &expected);
        }
        let shapes = self.shapes(&self.parts.outputs);
        let record = &self.declarations.records[usize::from(self.parts.record.0)];
        if !shapes.iter().eq(record.fields.iter().map(|field| &field.shape)) {
            let fields: Vec<String> =
                record.fields.iter().map(|field| field.shape.to_string()).collect();
            let (name, fields) = (&record.name, fields.join(" and "));
            let expected = format!("the fields of the record {name}: {fields}");
            return self.error("return", &shapes, &expected);
        }
        Ok(())
    }

    fn error<T>(
        &self,
        at: impl Into<At>,
        shapes: &[Shape],
        expected: &str,
    ) -> Result<T, CellError> {
        Err(CellError::new(&self.parts.name, at, shapes, expected))
    }
}

/// The reason why an operation is invalid.
struct Misfit {
    shapes: Vec<Shape>,
    expected: String,
}

fn misfit(expected: String) -> Result<Shape, Misfit> {
    Err(Misfit { shapes: Vec::new(), expected })
}

/// The expected parameter, in error messages.
const OWN_PARAMETER: &str = "a parameter of this network";

/// The expected place of a port, in error messages.
pub(crate) const LAST_PORT: &str = "no port after the one that takes any number of values";

/// Returns true for the size of an index port.
pub(crate) fn is_index_size(size: u32) -> bool {
    (1..1 << 31).contains(&size)
}

/// Describes the expected size of an index port.
pub(crate) fn expected_size(got: usize) -> String {
    format!("a size from 1 to 2^31 - 1, got {got}")
}

/// Describes the expected operand of a selection by an index.
pub(crate) fn expected_rows(index: &str, size: u32) -> String {
    format!("{size} elements or rows, the size of the index port {index}")
}

/// Returns true for the ε of a norm.
pub(crate) fn is_epsilon(epsilon: f32) -> bool {
    epsilon.is_finite() && epsilon >= 0.0
}

/// Describes the expected ε of a norm.
pub(crate) fn expected_epsilon(got: f32) -> String {
    format!("a finite epsilon of at least 0, got {got}")
}

/// Describes the expected dimensions of a table.
pub(crate) fn expected_table(dims: &[usize]) -> String {
    format!("a table of vectors or matrices of fewer than 2^31 elements, got {dims:?}")
}

/// Describes the expected dimensions of a parameter that is read as a whole.
pub(crate) fn expected_parameter(dims: &[usize]) -> String {
    format!("a vector or a matrix of fewer than 2^31 elements, got {dims:?}")
}
