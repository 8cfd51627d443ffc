//! Networks: the declarations of a model.

use std::collections::HashMap;

use crate::id::Generation;
use crate::{Cell, CellError, Kind, ParameterId, RecordId, Shape, Value};

/// The records, parameters, cells and initial values of a model. Declared once, before any input.
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
    pub(crate) cells: Vec<Cell>,
    initial: Vec<Initial>,
    pub(crate) has_adjoints: bool,
}

/// The maximum number of items with a 16-bit index: fields, tables, ports and operations.
pub(crate) const MAX_ITEMS: usize = 1 << 16;

/// The name that safetensors files reserve for their metadata.
const RESERVED: &str = "__metadata__";

/// The expected size of a shape, in error messages.
pub(crate) const VALID_SIZE: &str = "at least one element and fewer than 2^31";

/// The expected record, in error messages.
pub(crate) const OWN_RECORD: &str = "a record of this network";

/// The declarations that cells refer to.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Declarations {
    pub(crate) records: Vec<Record>,
    pub(crate) parameters: Vec<Parameter>,
    record_ids: HashMap<String, RecordId>,
    pub(crate) parameter_ids: HashMap<String, ParameterId>,
}

/// A record type: the tensors that a node produces together, such as `h` and `c` of an LSTM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The name, unique in the network.
    pub name: String,
    /// Its tensors.
    pub fields: Vec<Field>,
}

/// One tensor of a [`Record`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The name, for messages.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
}

/// A trained tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The name in the file of weights.
    pub name: String,
    /// Its dimensions, outermost first: one or two, or three for a table of matrices.
    pub dims: Vec<usize>,
}

/// An initial value, whose fields are parameters: for example, a learned initial state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Initial {
    /// Its record type.
    pub record: RecordId,
    /// A parameter for each field of the record.
    pub parameters: Vec<ParameterId>,
}

impl Network {
    /// Creates a network without declarations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a record type.
    ///
    /// # Errors
    /// If there are no fields, if a field has no elements or at least 2³¹, if there are more than
    /// 65,536 fields, if another record has the same name, or if the network has 65,536 records.
    pub fn record<'f>(
        &mut self,
        name: &str,
        fields: impl IntoIterator<Item = (&'f str, Shape)>,
    ) -> Result<RecordId, CellError> {
        let record = format!("record {name}");
        let error = |message: &str| Err(CellError::new("", record.clone(), &[], message));
        // Bounds the work for an iterator that is too long.
        let fields: Vec<(&str, Shape)> = fields.into_iter().take(MAX_ITEMS + 1).collect();
        if fields.is_empty() {
            return error("at least one field");
        }
        if fields.len() > MAX_ITEMS {
            return error("at most 65536 fields in a record");
        }
        if self.declarations.record_ids.contains_key(name) {
            return error("a unique name, got the name of another record");
        }
        if let Some((field, shape)) = fields.iter().find(|(_, shape)| !shape.is_valid()) {
            let operation = format!("{record}: field {field}");
            return Err(CellError::new("", operation, &[*shape], VALID_SIZE));
        }
        let id = RecordId(match u16::try_from(self.declarations.records.len()) {
            Ok(id) => id,
            Err(_) => return error("at most 65536 records in a network"),
        });
        let fields =
            fields.into_iter().map(|(name, shape)| Field { name: name.into(), shape }).collect();
        self.declarations.records.push(Record { name: name.into(), fields });
        self.declarations.record_ids.insert(name.into(), id);
        Ok(id)
    }

    /// Declares a parameter, or returns the known parameter with this name.
    ///
    /// # Errors
    /// If it was declared with other dimensions, if the dimensions are invalid, or if the name is
    /// `__metadata__`, which files of weights reserve.
    pub fn add_parameter(&mut self, name: &str, dims: &[usize]) -> Result<ParameterId, CellError> {
        self.declarations
            .parameter(name, dims)
            .map_err(|expected| CellError::new("", format!("parameter {name}"), &[], &expected))
    }

    /// Declares an initial value. `names` are its parameters, one for each field of the record.
    ///
    /// # Errors
    /// If the record is not of this network, if the number of names differs from the number of
    /// fields, or if a parameter was declared with other dimensions.
    pub fn initial(&mut self, record: RecordId, names: &[&str]) -> Result<Value, CellError> {
        let Some(Record { name, fields }) =
            self.declarations.records.get(usize::from(record.0)).cloned()
        else {
            return Err(CellError::new("", "initial value", &[], OWN_RECORD));
        };
        let error =
            |expected: &str| CellError::new("", format!("initial value of {name}"), &[], expected);
        if fields.len() != names.len() {
            let (expected, got) = (fields.len(), names.len());
            let expected = format!("a parameter for each field, {expected} in total, got {got}");
            return Err(error(&expected));
        }
        let mut parameters = Vec::with_capacity(names.len());
        for (field, name) in fields.iter().zip(names) {
            let (rows, columns) = field.shape.rows_and_columns();
            let dims = [rows, columns];
            let rank = if matches!(field.shape, Shape::Vector(_)) { 1 } else { 2 };
            let id = self.declarations.parameter(name, &dims[..rank]).map_err(|expected| {
                let Some(&known) = self.declarations.parameter_ids.get(*name) else {
                    return error(&expected);
                };
                let got = &self.parameter(known).dims;
                let (field, shape) = (&field.name, field.shape);
                error(&format!(
                    "a parameter of shape {shape} for field {field}, got {name} of shape {got:?}"
                ))
            })?;
            parameters.push(id);
        }
        self.initial.push(Initial { record, parameters });
        Ok(Value::given(self.initial.len() - 1, Generation::ANY))
    }

    /// Returns the cells, indexed by kind.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the names of the cells, indexed by kind.
    #[must_use]
    pub fn kind_names(&self) -> Vec<String> {
        self.cells.iter().map(|cell| cell.name.clone()).collect()
    }

    /// Returns all parameters, in the order of their declaration.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.declarations.parameters
    }

    /// Returns a parameter.
    ///
    /// # Panics
    /// If the network does not have it.
    #[must_use]
    pub fn parameter(&self, id: ParameterId) -> &Parameter {
        &self.declarations.parameters[id.0 as usize]
    }

    /// Returns all record types, in the order of their declaration.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.declarations.records
    }

    /// Returns a record type, with its fields.
    ///
    /// # Panics
    /// If the network does not have it.
    #[must_use]
    pub fn fields(&self, record: RecordId) -> &Record {
        &self.declarations.records[usize::from(record.0)]
    }

    /// Returns true for the network of a [`TrainingNetwork`](crate::TrainingNetwork).
    #[must_use]
    pub fn has_adjoints(&self) -> bool {
        self.has_adjoints
    }

    /// Returns the value that [`initial`](Self::initial) returned for the initial value with this
    /// index, or `None` if there are fewer.
    #[must_use]
    pub fn initial_value(&self, index: usize) -> Option<Value> {
        (index < self.initial.len()).then(|| Value::given(index, Generation::ANY))
    }

    /// Returns the initial values.
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
    /// Returns the number of elements.
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
                Err(format!("dimensions {known:?} as declared before, got {dims:?}"))
            };
        }
        if name == RESERVED {
            return Err(format!("a name other than {RESERVED}, which files of weights reserve"));
        }
        if dims.is_empty() || dims.len() > 3 || dims.contains(&0) {
            return Err(format!("one to three nonzero dimensions, got {dims:?}"));
        }
        let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim));
        let fits = elements.is_some_and(|n| n <= isize::MAX as usize / 4);
        if !fits || dims.iter().any(|&dim| dim >= 1 << 31) {
            return Err(format!(
                "dimensions below 2^31 and a tensor that fits into memory, got {dims:?}"
            ));
        }
        let id = ParameterId(u32::try_from(self.parameters.len()).expect("fewer than 2^32"));
        self.parameters.push(Parameter { name: name.into(), dims: dims.into() });
        self.parameter_ids.insert(name.into(), id);
        Ok(id)
    }

    /// Removes all parameters except the first `known`.
    pub(crate) fn forget_parameters(&mut self, known: usize) {
        self.parameters.truncate(known);
        self.parameter_ids.retain(|_, id| (id.0 as usize) < known);
    }
}
