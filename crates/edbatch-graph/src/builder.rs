//! Declares a cell's equations: [`CellBuilder`] creates [`Tensor`]s, and operators combine them.
//!
//! The shape of each operation is inferred at once. The first error is stored and returned when the
//! cell is finished, so that equations need no `?` after every operator.

mod operators;

use std::cell::RefCell;

use crate::cell_parts::{LAST_PORT, expected_parameter, expected_table};
use crate::network::{CellError, Declarations, MAX_ITEMS, OWN_RECORD, VALID_SIZE};
use crate::{Arity, CellParts, Instruction, Op, Port, RecordId, Reduction, Shape, Table, Var};

/// The cell being declared; see [`Network::cell`](crate::Network::cell).
#[derive(Debug)]
pub struct CellBuilder {
    name: String,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    declarations: Declarations,
    tables: Vec<Table>,
    ports: Vec<Port>,
    instructions: Vec<Instruction>,
    error: Option<CellError>,
}

/// A variable of the cell being declared. Operators add operations to the cell.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'c> {
    cell: &'c CellBuilder,
    var: Var,
}

/// The values at a port that takes any number of them. Reduce them to get tensors.
#[derive(Clone, Copy, Debug)]
pub struct Values<'c> {
    cell: &'c CellBuilder,
    port: u16,
    record: RecordId,
}

impl CellBuilder {
    pub(crate) fn new(name: &str, declarations: Declarations) -> Self {
        let state = State {
            declarations,
            tables: Vec::new(),
            ports: Vec::new(),
            instructions: Vec::new(),
            error: None,
        };
        Self { name: name.into(), state: RefCell::new(state) }
    }

    /// Returns the declarations, and the parts of the cell or the first error.
    pub(crate) fn finish(
        self,
        record: RecordId,
        outputs: Vec<Var>,
    ) -> (Declarations, Result<CellParts, CellError>) {
        let State { declarations, tables, ports, instructions, error } = self.state.into_inner();
        let parts = CellParts { name: self.name, record, tables, ports, instructions, outputs };
        (declarations, error.map_or(Ok(parts), Err))
    }

    /// Adds a port that takes one value, and returns the fields of that value.
    ///
    /// `N` must be the number of fields of the record.
    pub fn one<const N: usize>(&self, name: &str, record: RecordId) -> [Tensor<'_>; N] {
        let port = self.port(name, record, Arity::One);
        self.fields(name, record, |field| Op::Input { port, field })
    }

    /// Like [`one`](Self::one), for a record whose number of fields is only known at run time.
    pub fn one_vec(&self, name: &str, record: RecordId) -> Vec<Tensor<'_>> {
        let port = self.port(name, record, Arity::One);
        self.all_fields(name, record, |field| Op::Input { port, field })
    }

    /// Adds a port that takes one or more values. It must be the cell's last port.
    pub fn many(&self, name: &str, record: RecordId) -> Values<'_> {
        Values { cell: self, port: self.port(name, record, Arity::Many), record }
    }

    /// Adds a table port: a call names a row of the table. `dims` are the table's dimensions: the
    /// number of rows, then the shape of a row.
    pub fn lookup(&self, name: &str, parameter: &str, dims: &[usize]) -> Tensor<'_> {
        let row = dims.get(1..).and_then(Shape::new);
        let Some(shape) = row else {
            return self.invalid(&format!("lookup {name}"), &[], &expected_table(dims));
        };
        let parameter = self.parameter_id(parameter, dims);
        if self.state.borrow().tables.len() == MAX_ITEMS {
            return self.invalid(&format!("lookup {name}"), &[], "at most 65536 tables in a cell");
        }
        let table = {
            let tables = &mut self.state.borrow_mut().tables;
            tables.push(Table { name: name.into(), parameter, rows: dims[0] as u32 });
            (tables.len() - 1) as u16
        };
        self.push(Op::Lookup { table }, &[], shape)
    }

    /// Returns the parameter with this name in the weights file. Declares it if it is new.
    pub fn parameter(&self, name: &str, dims: &[usize]) -> Tensor<'_> {
        let id = self.parameter_id(name, dims);
        match Shape::new(dims) {
            Some(shape) => self.push(Op::Parameter(id), &[], shape),
            None => self.invalid(&format!("parameter {name}"), &[], &expected_parameter(dims)),
        }
    }

    /// Returns a tensor filled with one number.
    pub fn constant(&self, value: f32, shape: Shape) -> Tensor<'_> {
        if !shape.is_valid() {
            return self.invalid("constant", &[shape], VALID_SIZE);
        }
        self.push(Op::Constant(value), &[], shape)
    }

    /// Concatenates tensors along the rows: `[a ; b]`.
    pub fn concat<'c>(&'c self, parts: &[Tensor<'c>]) -> Tensor<'c> {
        self.apply(Op::Concat, parts)
    }

    fn port(&self, name: &str, record: RecordId, arity: Arity) -> u16 {
        if self.state.borrow().ports.last().is_some_and(|port| port.arity == Arity::Many) {
            self.fail(&format!("port {name}"), &[], LAST_PORT);
        }
        if self.state.borrow().ports.len() == MAX_ITEMS {
            self.fail(&format!("port {name}"), &[], "at most 65536 ports in a cell");
            return 0;
        }
        let ports = &mut self.state.borrow_mut().ports;
        ports.push(Port { name: name.into(), record, arity });
        (ports.len() - 1) as u16
    }

    fn fields<const N: usize>(
        &self,
        port: &str,
        record: RecordId,
        op: impl Fn(u16) -> Op,
    ) -> [Tensor<'_>; N] {
        let fields = self.all_fields(port, record, op);
        if !fields.is_empty() && fields.len() != N {
            let (fields, name) = (fields.len(), self.record_name(record));
            let expected = format!("the {fields} fields of the record {name}");
            self.fail(&format!("port {port} with {N} fields"), &[], &expected);
        }
        std::array::from_fn(|field| fields.get(field).copied().unwrap_or_else(|| self.poison()))
    }

    fn all_fields(&self, port: &str, record: RecordId, op: impl Fn(u16) -> Op) -> Vec<Tensor<'_>> {
        let shapes = self.shapes(record);
        if shapes.is_empty() {
            self.fail(&format!("port {port}"), &[], OWN_RECORD);
        }
        (0..).zip(shapes).map(|(field, shape)| self.push(op(field), &[], shape)).collect()
    }

    /// Returns the shapes of a record's fields, or no shapes for a record of another network.
    fn shapes(&self, record: RecordId) -> Vec<Shape> {
        let state = self.state.borrow();
        let record = state.declarations.records.get(usize::from(record.0));
        let fields = record.map_or(&[][..], |record| &record.fields);
        fields.iter().map(|field| field.shape).collect()
    }

    fn record_name(&self, record: RecordId) -> String {
        self.state.borrow().declarations.records[usize::from(record.0)].name.clone()
    }

    fn parameter_id(&self, name: &str, dims: &[usize]) -> crate::ParameterId {
        let declared = self.state.borrow_mut().declarations.parameter(name, dims);
        declared.unwrap_or_else(|expected| {
            self.fail(&format!("parameter {name}"), &[], &expected);
            crate::ParameterId(0)
        })
    }

    fn apply<'c>(&'c self, op: Op, operands: &[Tensor<'c>]) -> Tensor<'c> {
        if operands.iter().any(|tensor| !std::ptr::eq(tensor.cell, self)) {
            return self.invalid(&op.to_string(), &[], "tensors of this cell");
        }
        let vars: Vec<Var> = operands.iter().map(Tensor::var).collect();
        let shapes: Vec<Shape> = vars.iter().map(|&var| self.shape(var)).collect();
        match op.infer(&shapes) {
            Ok(shape) => self.push(op, &vars, shape),
            Err(expected) => self.invalid(&op.to_string(), &shapes, &expected),
        }
    }

    fn push(&self, op: Op, operands: &[Var], shape: Shape) -> Tensor<'_> {
        if self.state.borrow().instructions.len() == MAX_ITEMS {
            self.fail(&op.to_string(), &[], "at most 65536 operations in a cell");
        }
        let instructions = &mut self.state.borrow_mut().instructions;
        instructions.push(Instruction { op, operands: operands.into(), shape });
        Tensor { cell: self, var: Var((instructions.len() - 1) as u32) }
    }

    fn shape(&self, var: Var) -> Shape {
        self.state.borrow().instructions[var.index()].shape
    }

    /// Stores the error, unless there is an earlier one.
    fn fail(&self, operation: &str, shapes: &[Shape], expected: &str) {
        let error = CellError::new(&self.name, operation, shapes, expected);
        self.state.borrow_mut().error.get_or_insert(error);
    }

    /// Stores the error of an operation, and returns a placeholder for its result.
    fn invalid(&self, operation: &str, shapes: &[Shape], expected: &str) -> Tensor<'_> {
        self.fail(operation, shapes, expected);
        self.poison()
    }

    /// A placeholder for the result of an invalid operation.
    fn poison(&self) -> Tensor<'_> {
        self.push(Op::Constant(0.0), &[], Shape::Vector(1))
    }
}

impl<'c> Tensor<'c> {
    /// Returns the variable of the cell.
    #[must_use]
    pub fn var(&self) -> Var {
        self.var
    }

    /// Returns the shape.
    #[must_use]
    pub fn shape(self) -> Shape {
        self.cell.shape(self.var)
    }

    /// Returns `self · other`: matrix times vector, or matrix times matrix.
    #[must_use]
    pub fn matmul(self, other: Self) -> Self {
        self.cell.apply(Op::MatMul, &[self, other])
    }

    /// Multiplies every element by `factor`.
    #[must_use]
    pub fn scale(self, factor: f32) -> Self {
        self.cell.apply(Op::Scale(factor), &[self])
    }

    /// Applies the logistic function.
    #[must_use]
    pub fn sigmoid(self) -> Self {
        self.cell.apply(Op::Sigmoid, &[self])
    }

    /// Applies the hyperbolic tangent.
    #[must_use]
    pub fn tanh(self) -> Self {
        self.cell.apply(Op::Tanh, &[self])
    }

    /// Applies `max(x, 0)`.
    #[must_use]
    pub fn relu(self) -> Self {
        self.cell.apply(Op::Relu, &[self])
    }

    /// Applies the exponential.
    #[must_use]
    pub fn exp(self) -> Self {
        self.cell.apply(Op::Exp, &[self])
    }

    /// Applies the natural logarithm.
    #[must_use]
    pub fn log(self) -> Self {
        self.cell.apply(Op::Log, &[self])
    }

    /// Applies softmax over all elements of a vector.
    #[must_use]
    pub fn softmax(self) -> Self {
        self.cell.apply(Op::Softmax, &[self])
    }

    /// Applies the logarithm of softmax over all elements of a vector.
    #[must_use]
    pub fn log_softmax(self) -> Self {
        self.cell.apply(Op::LogSoftmax, &[self])
    }

    /// Returns the rows `start..start + rows`.
    #[must_use]
    pub fn slice(self, start: usize, rows: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.cell.apply(Op::Slice { start: clamp(start), rows: clamp(rows) }, &[self])
    }

    /// Transposes a matrix.
    #[must_use]
    pub fn transpose(self) -> Self {
        self.cell.apply(Op::Transpose, &[self])
    }
}

impl<'c> Values<'c> {
    /// Returns the sum of all values at the port, one tensor for each field.
    #[must_use]
    pub fn sum<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::Sum)
    }

    /// Returns the mean of all values at the port, one tensor for each field.
    #[must_use]
    pub fn mean<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::Mean)
    }

    /// Returns the element-wise maximum of all values at the port, one tensor for each field.
    #[must_use]
    pub fn max<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::Max)
    }

    /// Reduces all values at the port to one tensor for each field, for a record whose number of
    /// fields is only known at run time.
    #[must_use]
    pub fn reduce_vec(self, by: Reduction) -> Vec<Tensor<'c>> {
        let port = self.port;
        self.cell.all_fields(&self.name(), self.record, |field| Op::Reduce { port, field, by })
    }

    fn name(self) -> String {
        let ports = &self.cell.state.borrow().ports;
        ports[usize::from(self.port)].name.clone()
    }

    fn reduce<const N: usize>(self, by: Reduction) -> [Tensor<'c>; N] {
        let port = self.port;
        self.cell.fields(&self.name(), self.record, |field| Op::Reduce { port, field, by })
    }
}
