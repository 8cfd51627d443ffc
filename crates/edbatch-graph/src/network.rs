//! Everything a model declares once: records, parameters, cells, initial values.

use std::collections::HashMap;
use std::fmt;

use crate::builder::CellBuilder;
use crate::id::Contents;
use crate::{Cell, Kind, ParameterId, RecordId, Shape, Tensor, Value};

/// What a model declares once, before it sees an input.
///
/// ```
/// use edbatch_graph::{Network, Shape};
///
/// let mut network = Network::new();
/// let state = network.record("state", [("h", Shape::Vector(4))])?;
/// let cell = network.cell("step", state, |cell| {
///     let [h] = cell.one("previous", state);
///     let w = cell.parameter("w", &[4, 4]);
///     vec![w.matmul(h).tanh()]
/// })?;
/// assert_eq!(network[cell].name(), "step");
/// # Ok::<(), edbatch_graph::CellError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Network {
    pub(crate) declarations: Declarations,
    cells: Vec<Cell>,
    initial: Vec<Initial>,
}

/// How many of anything with a 16-bit number there may be: fields, tables, ports, operations.
pub(crate) const FEW: usize = 1 << 16;

/// What is expected of a shape.
pub(crate) const POSSIBLE: &str = "at least one element and fewer than 2^31";

/// What is expected of a record's id.
pub(crate) const FOREIGN_RECORD: &str = "a record of this network";

/// What cells refer to.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Declarations {
    pub(crate) records: Vec<Record>,
    pub(crate) parameters: Vec<Parameter>,
    parameter_ids: HashMap<String, ParameterId>,
}

/// A record type: the tensors that one node produces together, like an LSTM's `h` and `c`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// What messages call it.
    pub name: String,
    /// Its tensors.
    pub fields: Vec<Field>,
}

/// One tensor of a [`Record`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// What messages call it.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
}

/// A trained tensor, by the name that a file of weights gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The name in the file.
    pub name: String,
    /// Its dimensions, slowest first: one, two, or three for a table of matrices.
    pub dims: Vec<usize>,
}

/// A value that exists before any node has run: a learned start, its fields parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Initial {
    /// What it is.
    pub record: RecordId,
    /// A parameter per field of the record.
    pub parameters: Vec<ParameterId>,
}

impl Network {
    /// A network that declares nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a record type.
    ///
    /// # Errors
    /// If it has no field, a field has no element or 2³¹ of them, or there are 65,536 records.
    pub fn record<'f>(
        &mut self,
        name: &str,
        fields: impl IntoIterator<Item = (&'f str, Shape)>,
    ) -> Result<RecordId, CellError> {
        let error = |message: &str| Err(CellError::new(name, "record", &[], message));
        // One more than there may be is enough to see that there are too many.
        let fields: Vec<(&str, Shape)> = fields.into_iter().take(FEW + 1).collect();
        if fields.is_empty() {
            return error("at least one field");
        }
        if fields.len() > FEW {
            return error("at most 65536 fields in a record");
        }
        if let Some((field, shape)) = fields.iter().find(|(_, shape)| !shape.is_possible()) {
            let operation = format!("field {field}");
            return Err(CellError::new(name, &operation, &[*shape], POSSIBLE));
        }
        let id = RecordId(match u16::try_from(self.declarations.records.len()) {
            Ok(id) => id,
            Err(_) => return error("at most 65536 records in a network"),
        });
        let fields =
            fields.into_iter().map(|(name, shape)| Field { name: name.into(), shape }).collect();
        self.declarations.records.push(Record { name: name.into(), fields });
        Ok(id)
    }

    /// Declares a cell that produces `record`; `build` states its equations and returns the
    /// record's fields in order. The returned kind is what [`Graph::call`](crate::Graph::call)
    /// takes.
    ///
    /// # Errors
    /// The first operation whose operands do not fit, with the cell, the operation and the
    /// shapes; a cell's name that is taken; more than 65,536 cells, or operations, ports or tables
    /// in one. A cell that is refused leaves nothing behind.
    pub fn cell(
        &mut self,
        name: &str,
        record: RecordId,
        build: impl for<'c> FnOnce(&'c CellBuilder) -> Vec<Tensor<'c>>,
    ) -> Result<Kind, CellError> {
        if self.cells.iter().any(|cell| cell.name == name) {
            return Err(CellError::new(name, "cell", &[], "a name that no other cell has"));
        }
        let kind = u16::try_from(self.cells.len())
            .map_err(|_| CellError::new(name, "cell", &[], "at most 65536 cells in a network"))?;
        if usize::from(record.0) >= self.declarations.records.len() {
            return Err(CellError::new(name, "cell", &[], FOREIGN_RECORD));
        }
        let known = self.declarations.parameters.len();
        let builder = CellBuilder::new(name, std::mem::take(&mut self.declarations));
        let outputs = build(&builder).iter().map(Tensor::var).collect();
        let (declarations, cell) = builder.finish(record, outputs);
        self.declarations = declarations;
        match cell {
            Ok(cell) => self.cells.push(cell),
            Err(error) => {
                self.declarations.forget_parameters(known);
                return Err(error);
            }
        }
        Ok(Kind(kind))
    }

    /// Declares a parameter, or finds it again by its name.
    ///
    /// # Errors
    /// If it is known with other dimensions, or the dimensions are none that a parameter can have.
    pub fn add_parameter(&mut self, name: &str, dims: &[usize]) -> Result<ParameterId, CellError> {
        self.declarations
            .parameter(name, dims)
            .map_err(|expected| CellError::new("", &format!("parameter {name}"), &[], &expected))
    }

    /// Declares a value that exists before any node has run, a parameter of its shape per field.
    ///
    /// # Errors
    /// If the record is none of this network, there are not as many names as fields, or a
    /// parameter is known with other dimensions.
    pub fn initial(&mut self, record: RecordId, names: &[&str]) -> Result<Value, CellError> {
        let Some(Record { fields, .. }) = self.declarations.records.get(usize::from(record.0))
        else {
            return Err(CellError::new("", "initial value", &[], FOREIGN_RECORD));
        };
        let fields = fields.clone();
        if fields.len() != names.len() {
            let (expected, got) = (fields.len(), names.len());
            let expected = format!("{expected} parameters, one a field, got {got}");
            return Err(CellError::new("", "initial value", &[], &expected));
        }
        let mut parameters = Vec::with_capacity(names.len());
        for (field, name) in fields.iter().zip(names) {
            let (rows, columns) = field.shape.rows_and_columns();
            let dims = [rows, columns];
            let rank = if matches!(field.shape, Shape::Vector(_)) { 1 } else { 2 };
            parameters.push(self.add_parameter(name, &dims[..rank])?);
        }
        self.initial.push(Initial { record, parameters });
        Ok(Value::given(self.initial.len() - 1, Contents::ANY))
    }

    /// The cells; a cell's index is its kind.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The names of the cells, which are the names of the kinds.
    #[must_use]
    pub fn kind_names(&self) -> Vec<String> {
        self.cells.iter().map(|cell| cell.name.clone()).collect()
    }

    /// All parameters, in the order of their declaration.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.declarations.parameters
    }

    /// A parameter.
    ///
    /// # Panics
    /// If the network has none with this id.
    #[must_use]
    pub fn parameter(&self, id: ParameterId) -> &Parameter {
        &self.declarations.parameters[id.0 as usize]
    }

    /// All records, in the order of their declaration.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.declarations.records
    }

    /// What a record consists of.
    ///
    /// # Panics
    /// If the network has none with this id.
    #[must_use]
    pub fn fields(&self, record: RecordId) -> &Record {
        &self.declarations.records[usize::from(record.0)]
    }

    /// The values that exist before any node has run.
    #[must_use]
    pub fn initial_values(&self) -> &[Initial] {
        &self.initial
    }
}

impl std::ops::Index<Kind> for Network {
    type Output = Cell;

    fn index(&self, kind: Kind) -> &Cell {
        &self.cells[kind.index()]
    }
}

impl Parameter {
    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }
}

impl Declarations {
    pub(crate) fn parameter(&mut self, name: &str, dims: &[usize]) -> Result<ParameterId, String> {
        if let Some(&id) = self.parameter_ids.get(name) {
            let known = &self.parameters[id.0 as usize].dims;
            return if known == dims {
                Ok(id)
            } else {
                Err(format!("the dimensions {known:?} that it was declared with, got {dims:?}"))
            };
        }
        if dims.is_empty() || dims.len() > 3 || dims.contains(&0) {
            return Err(format!("one to three dimensions, none of them zero, got {dims:?}"));
        }
        let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
        let fits = elements.is_some_and(|n| n <= isize::MAX as usize / 4);
        if !fits || dims.iter().any(|&dim| dim >= 1 << 31) {
            return Err(format!(
                "dimensions below 2^31 whose product memory can hold, got {dims:?}"
            ));
        }
        let id = ParameterId(u32::try_from(self.parameters.len()).expect("fewer than 2^32"));
        self.parameters.push(Parameter { name: name.into(), dims: dims.into() });
        self.parameter_ids.insert(name.into(), id);
        Ok(id)
    }

    /// Forgets all parameters but the first `known`.
    fn forget_parameters(&mut self, known: usize) {
        self.parameters.truncate(known);
        self.parameter_ids.retain(|_, id| (id.0 as usize) < known);
    }
}

/// Why a cell could not be declared: which operation, on which shapes, and what it expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellError {
    /// The cell; empty if the error is outside of any.
    pub cell: String,
    /// The operation.
    pub operation: String,
    /// The shapes of its operands.
    pub shapes: Vec<Shape>,
    /// What it expected, in words.
    pub expected: String,
}

impl CellError {
    pub(crate) fn new(cell: &str, operation: &str, shapes: &[Shape], expected: &str) -> Self {
        Self {
            cell: cell.into(),
            operation: operation.into(),
            shapes: shapes.into(),
            expected: expected.into(),
        }
    }
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.cell.is_empty() {
            write!(f, "cell {}: ", self.cell)?;
        }
        write!(f, "{}", self.operation)?;
        for (i, shape) in self.shapes.iter().enumerate() {
            write!(f, "{}{shape}", if i == 0 { " of " } else { " and " })?;
        }
        write!(f, ": expected {}", self.expected)
    }
}

impl std::error::Error for CellError {}
