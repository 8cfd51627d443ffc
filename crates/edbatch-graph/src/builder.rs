//! Declares a cell's equations: [`CellBuilder`] creates [`Tensor`]s, and operators combine them.
//!
//! The shape of each operation is inferred at once. The first error is stored and returned when the
//! cell is finished, so that equations need no `?` after every operator.

mod operators;

use std::cell::RefCell;

use crate::cell_parts::{
    LAST_PORT, expected_epsilon, expected_parameter, expected_rows, expected_size, expected_table,
    is_epsilon, is_index_size,
};
use crate::dropout::{expected_rate, is_rate};
use crate::network::{CellError, Declarations, MAX_ITEMS, OWN_RECORD, VALID_SIZE};
use crate::op::{attention_shape, softmax_sum_shape};
use crate::{
    Arity, Binary, CellParts, Function, Instruction, Normalization, Op, Port, RecordId, Reduction,
    Shape, Table, Var,
};

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

/// An index port of a cell; see [`CellBuilder::index`].
#[derive(Clone, Copy, Debug)]
pub struct Index<'c> {
    cell: &'c CellBuilder,
    table: u16,
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
        let parameter = Some(self.parameter_id(parameter, dims));
        let table = self.table(Table { name: name.into(), parameter, rows: dims[0] as u32 });
        self.push(Op::Lookup { table }, &[], shape)
    }

    /// Adds an index port: a call names a number below `size`, as it names rows of tables. Rows
    /// and indices are given to a call in the order in which the cell declares them. See
    /// [`Tensor::select`].
    pub fn index(&self, name: &str, size: usize) -> Index<'_> {
        let rows = u32::try_from(size).ok().filter(|&size| is_index_size(size));
        if rows.is_none() {
            self.fail(&format!("index {name}"), &[], &expected_size(size));
        }
        let rows = rows.unwrap_or(1);
        Index { cell: self, table: self.table(Table { name: name.into(), parameter: None, rows }) }
    }

    fn table(&self, table: Table) -> u16 {
        if self.state.borrow().tables.len() == MAX_ITEMS {
            let what = format!("table {}", table.name);
            self.fail(&what, &[], "at most 65536 tables in a cell");
            return 0;
        }
        let tables = &mut self.state.borrow_mut().tables;
        tables.push(table);
        (tables.len() - 1) as u16
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

    fn apply<'c>(&'c self, op: impl Into<Op>, operands: &[Tensor<'c>]) -> Tensor<'c> {
        let op = op.into();
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
        self.cell.apply(Function::Sigmoid, &[self])
    }

    /// Applies the hyperbolic tangent.
    #[must_use]
    pub fn tanh(self) -> Self {
        self.cell.apply(Function::Tanh, &[self])
    }

    /// Applies `max(x, 0)`.
    #[must_use]
    pub fn relu(self) -> Self {
        self.cell.apply(Function::Relu, &[self])
    }

    /// Applies the exponential.
    #[must_use]
    pub fn exp(self) -> Self {
        self.cell.apply(Function::Exp, &[self])
    }

    /// Applies the natural logarithm.
    #[must_use]
    pub fn log(self) -> Self {
        self.cell.apply(Function::Log, &[self])
    }

    /// Applies the square root.
    #[must_use]
    pub fn sqrt(self) -> Self {
        self.cell.apply(Function::Sqrt, &[self])
    }

    /// Applies the error function.
    #[must_use]
    pub fn erf(self) -> Self {
        self.cell.apply(Function::Erf, &[self])
    }

    /// Returns the larger of `self` and `other`, element by element: NaN if one is NaN, the element
    /// of `self` if they are equal. Shapes are broadcast as for `+`.
    #[must_use]
    pub fn maximum(self, other: Self) -> Self {
        self.cell.apply(Binary::Maximum, &[self, other])
    }

    /// Returns the smaller of `self` and `other`, element by element: NaN if one is NaN, the
    /// element of `self` if they are equal. Shapes are broadcast as for `+`.
    #[must_use]
    pub fn minimum(self, other: Self) -> Self {
        self.cell.apply(Binary::Minimum, &[self, other])
    }

    /// Applies the absolute value, max(x, -x).
    #[must_use]
    pub fn abs(self) -> Self {
        self.maximum(-self)
    }

    /// Applies x · sigmoid x, also known as swish.
    #[must_use]
    pub fn silu(self) -> Self {
        self * self.sigmoid()
    }

    /// Applies the Gaussian error linear unit, x/2 + x/2 · erf(x/√2).
    #[must_use]
    pub fn gelu(self) -> Self {
        let half = self.scale(0.5);
        half + half * self.scale(std::f32::consts::FRAC_1_SQRT_2).erf()
    }

    /// Applies max(x, slope · x) for a slope from 0 to 1.
    #[must_use]
    pub fn leaky_relu(self, slope: f32) -> Self {
        if !(0.0..=1.0).contains(&slope) {
            let expected = format!("a slope from 0 to 1, got {slope}");
            return self.cell.invalid("leaky_relu", &[self.shape()], &expected);
        }
        self.maximum(self.scale(slope))
    }

    /// Normalises a vector, or each row of a matrix, to mean 0 and variance 1:
    /// `(x - mean) / √(var + epsilon)`, where var is the mean of the squared differences from the
    /// mean. Multiply by a gain and add a bias as parameters.
    #[must_use]
    pub fn layer_norm(self, epsilon: f32) -> Self {
        self.norm(Normalization::LayerNorm(epsilon), epsilon)
    }

    /// Divides a vector, or each row of a matrix, by the root of its mean square:
    /// `x / √(mean x² + epsilon)`.
    #[must_use]
    pub fn rms_norm(self, epsilon: f32) -> Self {
        self.norm(Normalization::RmsNorm(epsilon), epsilon)
    }

    fn norm(self, by: Normalization, epsilon: f32) -> Self {
        if !is_epsilon(epsilon) {
            let expected = expected_epsilon(epsilon);
            return self.cell.invalid(&by.to_string(), &[self.shape()], &expected);
        }
        self.cell.apply(by, &[self])
    }

    /// Returns the inner product of two vectors as a vector of one element; for two matrices, a
    /// vector with the inner product of each pair of rows.
    #[must_use]
    pub fn dot(self, other: Self) -> Self {
        self.cell.apply(Op::Dot, &[self, other])
    }

    /// Returns the same elements, in row-major order, as a tensor of another shape. Costs nothing.
    #[must_use]
    pub fn reshape(self, shape: Shape) -> Self {
        self.cell.apply(Op::Reshape(shape), &[self])
    }

    /// Returns the vector with dropout (Srivastava et al., 2014): training sets each element to 0
    /// with probability `rate`, and multiplies the others by 1 ÷ (1 − `rate`). Inference computes
    /// the vector itself.
    #[must_use]
    pub fn dropout(self, rate: f32) -> Self {
        match is_rate(rate) {
            true if rate == 0.0 => self,
            true => self.cell.apply(Op::Dropout(rate), &[self]),
            false => self.cell.invalid("dropout", &[self.shape()], &expected_rate(rate)),
        }
    }

    /// Returns the element of a vector, or the row of a matrix, that the call names at an
    /// [index port](CellBuilder::index), whose size must be the number of elements or rows.
    #[must_use]
    pub fn select(self, index: Index<'c>) -> Self {
        if !std::ptr::eq(self.cell, index.cell) {
            return self.cell.invalid("select", &[self.shape()], "an index port of this cell");
        }
        let (name, size) = {
            let Table { name, rows, .. } =
                &self.cell.state.borrow().tables[usize::from(index.table)];
            (name.clone(), *rows)
        };
        let rows = self.shape().rows_and_columns().0;
        if rows != size as usize {
            return self.cell.invalid("select", &[self.shape()], &expected_rows(&name, size));
        }
        self.cell.apply(Op::Select { table: index.table }, &[self])
    }

    /// Applies softmax over all elements of a vector, or of each row of a matrix.
    #[must_use]
    pub fn softmax(self) -> Self {
        self.cell.apply(Normalization::Softmax, &[self])
    }

    /// Applies the logarithm of softmax over all elements of a vector, or of each row of a matrix.
    #[must_use]
    pub fn log_softmax(self) -> Self {
        self.cell.apply(Normalization::LogSoftmax, &[self])
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

    /// Returns `ln Σ exp v` over all values v at the port, element by element: one tensor for each
    /// field. Does not overflow. The result is -∞ only if all values are -∞.
    #[must_use]
    pub fn log_sum_exp<const N: usize>(self) -> [Tensor<'c>; N] {
        self.reduce(Reduction::LogSumExp)
    }

    /// Scaled dot-product attention of `query` over all values at the port, whose keys and values
    /// are two fields of the record, given by name. All three are divided into `heads` equal parts.
    /// For each head, the result is the sum of the values, weighted by the softmax of
    /// `scale · query · key`. The usual scale is 1 / √(width of a head).
    ///
    /// *Source*: Vaswani et al., "Attention is all you need", 2017.
    ///
    /// ```
    /// use edbatch_graph::{Network, Shape};
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("k", Shape::Vector(8)), ("v", Shape::Vector(6))])?;
    /// let context = network.record("context", [("y", Shape::Vector(6))])?;
    /// network.cell("attend", context, |cell| {
    ///     let [query, _] = cell.one("from", state);
    ///     let sources = cell.many("sources", state);
    ///     vec![sources.attention(query, "k", "v", 2, 0.5)]
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn attention(
        self,
        query: Tensor<'c>,
        keys: &str,
        values: &str,
        heads: usize,
        scale: f32,
    ) -> Tensor<'c> {
        let (Some(keys), Some(values)) = (self.field(keys), self.field(values)) else {
            return self.cell.poison();
        };
        let shapes = [query.shape(), keys.1, values.1];
        let heads = u32::try_from(heads).unwrap_or(0);
        let op = Op::Attention { port: self.port, keys: keys.0, values: values.0, heads };
        if !std::ptr::eq(query.cell, self.cell) {
            return self.cell.invalid(&op.to_string(), &shapes, "a query of this cell");
        }
        match attention_shape(heads, shapes) {
            Ok(shape) => self.cell.push(op, &[query.scale(scale).var()], shape),
            Err(expected) => self.cell.invalid(&op.to_string(), &shapes, &expected),
        }
    }

    /// The sum of a field over all values at the port, weighted by the softmax of their scores.
    /// Scores and values are two fields of the record, given by name. The number of scores is the
    /// number of heads: each weighs an equal part of the values.
    #[must_use]
    pub fn softmax_sum(self, scores: &str, values: &str) -> Tensor<'c> {
        let (Some(scores), Some(values)) = (self.field(scores), self.field(values)) else {
            return self.cell.poison();
        };
        let op = Op::SoftmaxSum { port: self.port, scores: scores.0, values: values.0 };
        match softmax_sum_shape(scores.1, values.1) {
            Ok(shape) => self.cell.push(op, &[], shape),
            Err(expected) => self.cell.invalid(&op.to_string(), &[scores.1, values.1], &expected),
        }
    }

    /// Returns the index and the shape of a field. If no field has this name, the error lists
    /// the record's fields.
    fn field(self, name: &str) -> Option<(u16, Shape)> {
        let found = {
            let state = self.cell.state.borrow();
            let record = state.declarations.records.get(usize::from(self.record.0));
            let fields = record.map_or(&[][..], |record| &record.fields);
            let found = (0..).zip(fields).find(|(_, field)| field.name == name);
            found.map(|(index, field)| (index, field.shape)).ok_or_else(|| {
                let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
                names.join(", ")
            })
        };
        found
            .map_err(|names| {
                let expected = match &*names {
                    "" => OWN_RECORD.to_string(),
                    names => format!("one of the fields {names}"),
                };
                let operation = format!("field {name} of the values at {}", self.name());
                self.cell.fail(&operation, &[], &expected);
            })
            .ok()
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
