//! A cell that is being declared, operation by operation.

use crate::check::{Check, expected_parameter, expected_size, expected_table, is_index_size};
use crate::network::{Declarations, MAX_ITEMS};
use crate::{
    Arity, At, CellError, CellParts, Instruction, Kind, Network, Op, ParameterId, Port, RecordId,
    Reduction, Shape, Table, Var,
};

/// A cell that is being declared. Each operation is checked when it is added, and its shape is
/// inferred, so an error is raised at the line that causes it.
///
/// [`CellBuilder`](crate::CellBuilder) writes equations with operators on top of it, and so does
/// the Python package. After an error the cell is as before the call.
///
/// ```
/// use edbatch_graph::{Arity, Function, Network, Shape};
///
/// let mut network = Network::new();
/// let state = network.record("state", [("h", Shape::Vector(4))])?;
/// let mut trace = network.trace("step", state);
/// let previous = trace.port("previous", state, Arity::One)?;
/// let h = trace.fields(previous, None)?[0];
/// let w = trace.parameter("w", &[4, 4])?;
/// assert!(trace.push(Function::Tanh, &[h, w]).is_err());
/// let y = trace.push(edbatch_graph::Op::MatMul, &[w, h])?;
/// let step = network.add_traced(trace, vec![y])?;
/// assert_eq!(network[step].name(), "step");
/// # Ok::<(), edbatch_graph::CellError>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    /// The network's, which it lends.
    declarations: Declarations,
    /// The number of parameters that the network had before.
    known: usize,
    parts: CellParts,
}

impl Network {
    /// Begins to declare a cell. The network has no records and no parameters until
    /// [`add_traced`](Self::add_traced) or [`drop_traced`](Self::drop_traced) ends it.
    pub fn trace(&mut self, name: &str, record: RecordId) -> Trace {
        let declarations = std::mem::take(&mut self.declarations);
        let known = declarations.parameters.len();
        Trace { declarations, known, parts: CellParts::new(name, record) }
    }

    /// Adds the cell, which returns these variables.
    ///
    /// # Errors
    /// Like [`add_cell`](Self::add_cell). The network is then as before the declaration.
    pub fn add_traced(&mut self, trace: Trace, outputs: Vec<Var>) -> Result<Kind, CellError> {
        let Trace { declarations, known, parts } = trace;
        self.declarations = declarations;
        let added = self.add_cell(CellParts { outputs, ..parts });
        if added.is_err() {
            self.declarations.forget_parameters(known);
        }
        added
    }

    /// Ends a declaration without adding the cell.
    pub fn drop_traced(&mut self, trace: Trace) {
        self.declarations = trace.declarations;
        self.declarations.forget_parameters(trace.known);
    }
}

impl Trace {
    /// Returns the name of the cell.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Returns the shape of a variable.
    ///
    /// # Panics
    /// If the cell does not have the variable.
    #[must_use]
    pub fn shape(&self, var: Var) -> Shape {
        self.parts.instructions[var.index()].shape
    }

    /// Returns an error of this cell.
    pub fn error(&self, at: impl Into<At>, shapes: &[Shape], expected: &str) -> CellError {
        CellError::new(&self.parts.name, at, shapes, expected)
    }

    /// Adds an operation. A constant gets one element; see [`constant`](Self::constant).
    ///
    /// # Errors
    /// If the operands do not fit, or the cell has 65,536 operations.
    pub fn push(&mut self, op: impl Into<Op>, operands: &[Var]) -> Result<Var, CellError> {
        self.push_shaped(op.into(), operands, Shape::Vector(1))
    }

    fn push_shaped(&mut self, op: Op, operands: &[Var], shape: Shape) -> Result<Var, CellError> {
        let last = self.parts.instructions.len();
        if last == MAX_ITEMS {
            let at = At::Operation { var: None, op: op.to_string() };
            return Err(self.error(at, &[], "at most 65536 operations in a cell"));
        }
        self.parts.instructions.push(Instruction { op, operands: operands.into(), shape });
        match self.check().inferred(last) {
            Ok(shape) => self.parts.instructions[last].shape = shape,
            Err(error) => {
                self.parts.instructions.pop();
                return Err(error);
            }
        }
        Ok(Var(last as u32))
    }

    fn check(&self) -> Check<'_> {
        Check { declarations: &self.declarations, parts: &self.parts }
    }

    /// Adds a tensor filled with one number.
    ///
    /// # Errors
    /// If the shape is not valid.
    pub fn constant(&mut self, value: f32, shape: Shape) -> Result<Var, CellError> {
        self.push_shaped(Op::Constant(value), &[], shape)
    }

    /// Adds a parameter, which is declared if it is new.
    ///
    /// # Errors
    /// If it was declared with other dimensions, or is neither a vector nor a matrix.
    pub fn parameter(&mut self, name: &str, dims: &[usize]) -> Result<Var, CellError> {
        let id = self.declare(name, dims)?;
        match Shape::new(dims) {
            Some(_) => self.push(Op::Parameter(id), &[]),
            None => Err(self.error(format!("parameter {name}"), &[], &expected_parameter(dims))),
        }
    }

    fn declare(&mut self, name: &str, dims: &[usize]) -> Result<ParameterId, CellError> {
        let declared = self.declarations.parameter(name, dims);
        declared.map_err(|expected| self.error(format!("parameter {name}"), &[], &expected))
    }

    /// Adds a table port, and returns the row that a call names. `dims` are the table's dimensions:
    /// the number of rows, then the shape of a row.
    ///
    /// # Errors
    /// If the dimensions are not valid, or the parameter was declared with others.
    pub fn lookup(
        &mut self,
        name: &str,
        parameter: &str,
        dims: &[usize],
    ) -> Result<Var, CellError> {
        if dims.get(1..).and_then(Shape::new).is_none() {
            return Err(self.error(format!("table {name}"), &[], &expected_table(dims)));
        }
        let parameter = Some(self.declare(parameter, dims)?);
        let table = self.table(Table { name: name.into(), parameter, rows: dims[0] as u32 })?;
        self.push(Op::Lookup { table }, &[])
    }

    /// Adds an index port: a call names a number below `size`, for [`Op::Select`].
    ///
    /// # Errors
    /// If the size is 0 or at least 2³¹.
    pub fn index(&mut self, name: &str, size: usize) -> Result<u16, CellError> {
        match u32::try_from(size).ok().filter(|&size| is_index_size(size)) {
            Some(rows) => self.table(Table { name: name.into(), parameter: None, rows }),
            None => Err(self.error(format!("index {name}"), &[], &expected_size(size))),
        }
    }

    fn table(&mut self, table: Table) -> Result<u16, CellError> {
        let count = self.parts.tables.len();
        if count == MAX_ITEMS {
            let at = format!("table {}", table.name);
            return Err(self.error(at, &[], "at most 65536 tables in a cell"));
        }
        self.parts.tables.push(table);
        Ok(count as u16)
    }

    /// Adds a port. Only the last may take any number of values.
    ///
    /// # Errors
    /// If the last port takes any number of values, if the record is of another network, or if the
    /// cell has 65,536 ports.
    pub fn port(&mut self, name: &str, record: RecordId, arity: Arity) -> Result<u16, CellError> {
        let count = self.parts.ports.len();
        if count == MAX_ITEMS {
            return Err(self.error(format!("port {name}"), &[], "at most 65536 ports in a cell"));
        }
        self.parts.ports.push(Port { name: name.into(), record, arity });
        if let Err(error) = self.check().port(count) {
            self.parts.ports.pop();
            return Err(error);
        }
        Ok(count as u16)
    }

    /// Reads all fields of the value at a port, or of all values, reduced.
    ///
    /// # Errors
    /// If the port takes any number of values and there is no reduction, or the other way round.
    ///
    /// # Panics
    /// If the cell does not have the port.
    pub fn fields(&mut self, port: u16, by: Option<Reduction>) -> Result<Vec<Var>, CellError> {
        let fields = 0..self.names(port).len() as u16;
        let op = |field| match by {
            None => Op::Input { port, field },
            Some(by) => Op::Reduce { port, field, by },
        };
        fields.map(|field| self.push(op(field), &[])).collect()
    }

    /// Returns the index of the field with this name of the record at a port.
    ///
    /// # Errors
    /// If the record has no such field. The error lists its fields.
    ///
    /// # Panics
    /// If the cell does not have the port.
    pub fn field(&self, port: u16, name: &str) -> Result<u16, CellError> {
        let names = self.names(port);
        let found = names.iter().position(|&field| field == name);
        found.map(|index| index as u16).ok_or_else(|| {
            let port = &self.parts.ports[usize::from(port)].name;
            let at = format!("field {name} of the values at {port}");
            self.error(at, &[], &format!("one of the fields {}", names.join(", ")))
        })
    }

    /// The error of reading `count` fields at a port.
    pub(crate) fn other_fields(&self, port: u16, count: usize) -> CellError {
        let Port { name, record, .. } = &self.parts.ports[usize::from(port)];
        let record = &self.declarations.records[usize::from(record.0)];
        let expected = format!("the {} fields of the record {}", record.fields.len(), record.name);
        self.error(format!("port {name} with {count} fields"), &[], &expected)
    }

    fn names(&self, port: u16) -> Vec<&str> {
        let record = self.parts.ports[usize::from(port)].record;
        let fields = &self.declarations.records[usize::from(record.0)].fields;
        fields.iter().map(|field| &*field.name).collect()
    }

    /// Attention of a query, multiplied by `scale`, over all values at a port; see
    /// [`Op::Attention`]. Keys and values are fields, given by name.
    ///
    /// # Errors
    /// If there are no such fields, or the heads do not divide their widths.
    ///
    /// # Panics
    /// If the cell does not have the port.
    pub fn attention(
        &mut self,
        port: u16,
        query: Var,
        (keys, values): (&str, &str),
        (heads, scale): (u32, f32),
    ) -> Result<Var, CellError> {
        let (keys, values) = (self.field(port, keys)?, self.field(port, values)?);
        let op = Op::Attention { port, keys, values, heads };
        // Checked with the query itself, before it is scaled.
        self.push(op, &[query])?;
        self.parts.instructions.pop();
        let query = self.push(Op::Scale(scale), &[query])?;
        self.push(op, &[query])
    }

    /// The sum of a field over all values at a port, weighted by the softmax of their scores; see
    /// [`Op::SoftmaxSum`]. Both are fields, given by name.
    ///
    /// # Errors
    /// If there are no such fields, or the number of scores does not divide the width.
    ///
    /// # Panics
    /// If the cell does not have the port.
    pub fn softmax_sum(&mut self, port: u16, scores: &str, values: &str) -> Result<Var, CellError> {
        let (scores, values) = (self.field(port, scores)?, self.field(port, values)?);
        self.push(Op::SoftmaxSum { port, scores, values }, &[])
    }

    /// Dropout of a vector: the vector itself if the rate is 0.
    ///
    /// # Errors
    /// If the rate is not a probability below 1.
    pub fn dropout(&mut self, x: Var, rate: f32) -> Result<Var, CellError> {
        if rate == 0.0 { Ok(x) } else { self.push(Op::Dropout(rate), &[x]) }
    }

    /// A variable for the result of an invalid operation, so that the next ones can be traced.
    pub(crate) fn placeholder(&mut self) -> Var {
        self.constant(0.0, Shape::Vector(1)).unwrap_or(Var(0))
    }
}
