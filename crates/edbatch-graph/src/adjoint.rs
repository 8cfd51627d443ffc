//! Derives the adjoint of a cell by reverse-mode differentiation (Griewank and Walther, *Evaluating
//! Derivatives*, chapter 3). `training.rs` describes the result.
//!
//! The forward cell's operations are visited from last to first. Each adds a *term* to the gradient
//! of each of its operands, by the rules in `rules.rs`; a variable's gradient is the sum of its
//! terms. Values of forward variables that the rules read are computed again if that is cheap, else
//! the forward call saves them.

mod fields;
mod pair;
mod row_part;
mod rules;
mod values;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::network::{Field, MAX_ITEMS};
use crate::training::Needed;
use crate::{
    Adjoint, Arity, Binary, Cell, CellError, Instruction, Kind, Network, Op, ParameterId, Port,
    RecordId, Reduction, RowAdjoint, Shape, TrainingNetwork, Var,
};
use fields::{Additions, Fields};
use pair::Pair;
use row_part::RowParts;
use values::{Values, cheap};

/// Adds adjoint cells to a network. They ignore dropout; for gradients with dropout, use the
/// network of [`Network::masked`]. `trained` selects the parameters whose gradients are needed, and
/// `given` the records of given values whose gradients are needed.
///
/// ```
/// use edbatch_graph::{Network, Shape, training_network};
///
/// let mut network = Network::new();
/// let state = network.record("state", [("h", Shape::Vector(4))])?;
/// let step = network.cell("step", state, |cell| {
///     let [h] = cell.one("previous", state);
///     vec![cell.parameter("w", &[4, 4]).matmul(h).tanh()]
/// })?;
/// let training = training_network(&network, |_| true, |_| false)?;
/// let adjoint = training.adjoints[step.index()].as_ref().unwrap();
/// assert_eq!(
///     training.network[adjoint.cell].display(&training.network).to_string(),
///     "step (adjoint):\n  \
///        v0 = sum h gradient.h : [4]\n  \
///        v1 = own.h : [4]\n  \
///        v2 = slope of tanh v0 v1 : [4]\n  \
///        v3 = previous.h : [4]\n  \
///        v4 = w : [4, 4]\n  \
///        v5 = transpose v4 : [4, 4]\n  \
///        v6 = matmul v5 v2 : [4]\n  \
///        return v6 v2 v3\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the network has adjoint cells already, or becomes too large.
pub fn training_network(
    network: &Network,
    trained: impl Fn(ParameterId) -> bool,
    given: impl Fn(RecordId) -> bool,
) -> Result<TrainingNetwork, CellError> {
    let needed = Needed::new(network, trained, given);
    let (mut extended, mut records) = (network.clone(), GradientRecords::new());
    extended.has_adjoints = true;
    extended.cells.iter_mut().for_each(|cell| cell.declared = None);
    let adjoints = (0..network.cells().len())
        .map(|kind| derive(&mut extended, Kind::new(kind), &needed, &mut records))
        .collect::<Result<_, _>>()?;
    Ok(TrainingNetwork { network: Arc::new(extended), adjoints, trained: needed.parameters })
}

/// Derives the adjoint of a cell, and adds it to the network together with its records. Extends the
/// forward cell's row by what the adjoint reads. Returns `None` if no gradient is needed.
fn derive(
    network: &mut Network,
    kind: Kind,
    needed: &Needed,
    gradients: &mut GradientRecords,
) -> Result<Option<Adjoint>, CellError> {
    let cell = with_single_lookups(network[kind].clone());
    let needs = needs(&cell, needed);
    let ports = cell.ports().iter().map(|port| needed.record(port.record)).collect();
    let mut add = Additions { network, cell: &cell, kind, gradients };
    if cell.ports().len() + 1 + cell.outputs().len() > MAX_ITEMS {
        return Err(add.error("at most 65536 ports"));
    }
    let parts = RowParts::new(&cell);
    let mut adjoint = Derivation::new(&cell, &needs, Values::Saved);
    adjoint.ports = ports;
    if let Some(last) = cell.ports().last() {
        let fields = &add.network.fields(last.record).fields;
        adjoint.last_port = fields.iter().map(|field| field.shape).collect();
    }
    adjoint.read_gradients();
    let mut frontiers = vec![Vec::new(); cell.tables().len()];
    adjoint.visit(|adjoint, var, gradient| {
        // Row parts are differentiated by their own cells.
        if let Some(table) = parts.of(var) {
            frontiers[usize::from(table)].push((var, gradient));
            return Ok(());
        }
        adjoint.differentiate(var, gradient)
    })?;

    let mut fields = Fields::default();
    let mut contributions = adjoint.contributions(add.network, &mut fields);
    let pairs = std::mem::take(&mut adjoint.pairs);
    let pairs: Vec<_> = pairs.iter().map(|pair| fields.pair(pair)).collect();
    let mut ranges = Vec::new();
    for (table, frontier) in cell.tables().iter().zip(&mut frontiers) {
        // They were found from last to first.
        frontier.reverse();
        let start = fields.len();
        for (var, gradient) in frontier {
            fields.push(format!("{}.{var}", table.name), *gradient);
        }
        ranges.push(start..fields.len());
    }
    let sums = fields.sums(&adjoint.sums);
    if fields.vars.is_empty() {
        return Ok(None);
    }

    let row = add.row(&adjoint.saved)?;
    let mut ports = cell.ports().to_vec();
    ports.push(Port { name: "own".into(), record: row, arity: Arity::One });
    for field in 0..cell.outputs().len() {
        ports.push(add.gradient_port(field)?);
    }
    let tables = cell.tables().to_vec();
    let instructions = std::mem::take(&mut adjoint.instructions);
    let kind = add.cell("adjoint", tables, ports, instructions, fields)?;
    let pair = match contributions.last_mut() {
        Some(contributions) if !pairs.is_empty() => {
            Some(pair::derive(&mut add, kind, &pairs, contributions)?)
        }
        _ => None,
    };
    let mut result = Adjoint { cell: kind, contributions, pair, sums, tables: Vec::new() };
    for (table, (fields, frontier)) in (0..).zip(ranges.into_iter().zip(frontiers)) {
        let row_adjoint = (!fields.is_empty())
            .then(|| row_adjoint(&mut add, &needs, &parts, table, fields, &frontier))
            .transpose()?;
        result.tables.push(row_adjoint);
    }
    Ok(Some(result))
}

/// Replaces each variable that looks up the row of a table once more by the first one, so that its
/// gradient is the sum over all lookups. The numbers of variables stay.
fn with_single_lookups(mut cell: Cell) -> Cell {
    let mut first = vec![None; cell.tables.len()];
    let mut same: Vec<Var> = Vec::with_capacity(cell.instructions.len());
    for (var, Instruction { op, operands, .. }) in (0..).map(Var).zip(&mut cell.instructions) {
        operands.iter_mut().for_each(|operand| *operand = same[operand.index()]);
        same.push(match *op {
            Op::Lookup { table } => *first[usize::from(table)].get_or_insert(var),
            _ => var,
        });
    }
    cell.outputs.iter_mut().for_each(|output| *output = same[output.index()]);
    cell
}

/// Derives the adjoint of a table's row part.
fn row_adjoint(
    add: &mut Additions<'_>,
    needs: &[bool],
    parts: &RowParts,
    table: u16,
    fields: std::ops::Range<u16>,
    frontier: &[(Var, Var)],
) -> Result<RowAdjoint, CellError> {
    let cell = add.cell;
    if !parts.has_products(table) {
        return Ok(RowAdjoint { fields, cell: None, row: Some(0), sums: Vec::new() });
    }
    let mut adjoint = Derivation::new(cell, needs, Values::Again { table });
    for (field, (var, _)) in (0..).zip(frontier) {
        let sum = adjoint.push_source(Op::Input { port: 0, field }, cell.instruction(*var).shape);
        adjoint.terms[var.index()].whole.push(sum);
    }
    adjoint.visit(Derivation::differentiate)?;
    let declared = &cell.tables()[usize::from(table)];
    let mut returned = Fields::default();
    let row = adjoint.rows.get(&table).map(|&row| returned.push("row".into(), row));
    let sums = returned.sums(&adjoint.sums);
    let named = frontier.iter().map(|(var, _)| Field {
        name: format!("{}.{var}", declared.name),
        shape: cell.instruction(*var).shape,
    });
    let what = format!("row adjoint of {}", declared.name);
    let record = add.record(&format!("{} ({what}: sums)", cell.name()), named.collect())?;
    let ports = vec![Port { name: "sum".into(), record, arity: Arity::One }];
    let instructions = std::mem::take(&mut adjoint.instructions);
    let kind = add.cell(&what, vec![declared.clone()], ports, instructions, returned)?;
    Ok(RowAdjoint { fields, cell: Some(kind), row, sums })
}

/// For each field of a record whose gradient is taken: the record with this field alone.
pub(crate) type GradientRecords = HashMap<(RecordId, usize), RecordId>;

/// Returns true for each variable whose gradient is needed.
fn needs(cell: &Cell, needed: &Needed) -> Vec<bool> {
    let mut needs: Vec<bool> = Vec::with_capacity(cell.instructions().len());
    for Instruction { op, operands, .. } in cell.instructions() {
        let reads_needed =
            op.port().is_some_and(|port| needed.record(cell.ports()[usize::from(port)].record));
        needs.push(match *op {
            _ if reads_needed => true,
            Op::Lookup { table } => needed.table(&cell.tables()[usize::from(table)]),
            Op::Parameter(id) => needed.parameter(id),
            _ => operands.iter().any(|operand| needs[operand.index()]),
        });
    }
    needs
}

/// The terms of a variable's gradient.
#[derive(Clone, Default)]
struct Terms {
    whole: Vec<Var>,
    /// Gradients of ranges of the variable's rows, with the first row of each.
    slices: Vec<(u32, Var)>,
}

/// A part of a parameter's gradient, given as variables of the adjoint.
enum Sum {
    Products { parameter: ParameterId, delta: Var, x: Var, pairs: u32 },
    Elements { parameter: ParameterId, from: Var },
}

/// An adjoint cell that is being derived.
struct Derivation<'a> {
    cell: &'a Cell,
    needs: &'a [bool],
    values: Values,
    instructions: Vec<Instruction>,
    /// For each forward variable: the adjoint's variable with its value, if it was read.
    known: Vec<Option<Var>>,
    /// For each forward variable: the field of the forward cell's record with its value.
    returned: Vec<Option<u16>>,
    /// For each forward variable: true if no product, reduction or softmax is needed to compute it
    /// from what the adjoint can read.
    cheap: Vec<bool>,
    /// The adjoint's variable with the transpose of a forward variable's value.
    transposed: HashMap<Var, Var>,
    /// For each forward variable: the terms of its gradient.
    terms: Vec<Terms>,
    /// The forward variables that a call saves.
    saved: Vec<Var>,
    /// By port and field of the forward cell, the terms of the gradient of each value there.
    contributions: BTreeMap<(u16, u16), Vec<Var>>,
    /// By port of the forward cell: true if gradients of its values are needed.
    ports: Vec<bool>,
    /// The shapes of the fields at the last port.
    last_port: Vec<Shape>,
    /// Gradients that differ from value to value at the last port.
    pairs: Vec<Pair<Var>>,
    /// The gradients of rows, by table of the forward cell.
    rows: BTreeMap<u16, Var>,
    sums: Vec<Sum>,
}

impl<'a> Derivation<'a> {
    fn new(cell: &'a Cell, needs: &'a [bool], values: Values) -> Self {
        let count = cell.instructions().len();
        let mut returned = vec![None; count];
        for (field, output) in (0..).zip(cell.outputs()) {
            returned[output.index()].get_or_insert(field);
        }
        let cheap = cheap(cell, &returned);
        Self {
            cell,
            needs,
            values,
            instructions: Vec::new(),
            known: vec![None; count],
            returned,
            cheap,
            transposed: HashMap::new(),
            terms: vec![Terms::default(); count],
            saved: Vec::new(),
            contributions: BTreeMap::new(),
            ports: Vec::new(),
            last_port: Vec::new(),
            pairs: Vec::new(),
            rows: BTreeMap::new(),
            sums: Vec::new(),
        }
    }

    /// Begins with the gradients of the cell's results, which are the sums over their readers.
    fn read_gradients(&mut self) {
        let own = self.cell.ports().len() as u16;
        for (field, &output) in (0..).zip(self.cell.outputs()) {
            if self.needs[output.index()] {
                let op = Op::Reduce { port: own + 1 + field, field: 0, by: Reduction::Sum };
                let gradient = self.push_source(op, self.cell.instruction(output).shape);
                self.terms[output.index()].whole.push(gradient);
            }
        }
    }

    /// Returns the gradients of values at ports. By port and field: the field of the adjoint's
    /// record with the gradient, if there is one.
    fn contributions(&mut self, network: &Network, fields: &mut Fields) -> Vec<Vec<Option<u16>>> {
        let mut contributions = Vec::with_capacity(self.cell.ports().len());
        for (port, Port { name, record, .. }) in (0..).zip(self.cell.ports()) {
            let mut of_port = Vec::new();
            for (field, declared) in (0..).zip(&network.fields(*record).fields) {
                let terms = self.contributions.remove(&(port, field)).unwrap_or_default();
                let name = format!("{name}.{}", declared.name);
                of_port.push(self.sum(terms).map(|sum| fields.push(name, sum)));
            }
            contributions.push(of_port);
        }
        contributions
    }

    /// Calls `visit` for each variable that has a gradient, from last to first.
    fn visit(
        &mut self,
        mut visit: impl FnMut(&mut Self, Var, Var) -> Result<(), CellError>,
    ) -> Result<(), CellError> {
        for index in (0..self.cell.instructions().len()).rev() {
            if let Some(gradient) = self.gradient(index) {
                visit(self, Var(index as u32), gradient)?;
            }
        }
        Ok(())
    }

    /// Returns the sum of a variable's terms, or `None` if it has none.
    fn gradient(&mut self, index: usize) -> Option<Var> {
        let Terms { mut whole, mut slices } = std::mem::take(&mut self.terms[index]);
        let shape = self.cell.instructions()[index].shape;
        slices.sort_by_key(|&(start, _)| start);
        // Ranges that do not overlap are concatenated, with zeros in the gaps.
        while !slices.is_empty() {
            let (mut parts, mut overlapping, mut end) = (Vec::new(), Vec::new(), 0);
            for (start, gradient) in slices {
                if start < end {
                    overlapping.push((start, gradient));
                    continue;
                }
                parts.extend(self.zeros(shape, end..start));
                parts.push(gradient);
                end = start + rows(self.shape(gradient));
            }
            parts.extend(self.zeros(shape, end..rows(shape)));
            whole.push(if parts.len() == 1 { parts[0] } else { self.push(Op::Concat, &parts) });
            slices = overlapping;
        }
        self.sum(whole)
    }

    /// Returns a tensor of zeros for a range of the rows of a tensor, or `None` for no rows.
    fn zeros(&mut self, shape: Shape, range: std::ops::Range<u32>) -> Option<Var> {
        let shape = match shape {
            Shape::Vector(_) => Shape::Vector(range.len() as u32),
            Shape::Matrix(_, columns) => Shape::Matrix(range.len() as u32, columns),
        };
        (!range.is_empty()).then(|| self.push_source(Op::Constant(0.0), shape))
    }

    fn sum(&mut self, terms: impl IntoIterator<Item = Var>) -> Option<Var> {
        terms.into_iter().reduce(|sum, term| self.push(Binary::Add, &[sum, term]))
    }

    fn push(&mut self, op: impl Into<Op>, operands: &[Var]) -> Var {
        let op = op.into();
        let shapes: Vec<Shape> = operands.iter().map(|&operand| self.shape(operand)).collect();
        let shape = op.infer(&shapes).expect("derived from a valid operation");
        self.instructions.push(Instruction { op, operands: operands.into(), shape });
        Var((self.instructions.len() - 1) as u32)
    }

    fn push_source(&mut self, op: impl Into<Op>, shape: Shape) -> Var {
        self.instructions.push(Instruction { op: op.into(), operands: Vec::new(), shape });
        Var((self.instructions.len() - 1) as u32)
    }

    /// Returns the shape of a variable of the adjoint.
    fn shape(&self, var: Var) -> Shape {
        self.instructions[var.index()].shape
    }
}

fn rows(shape: Shape) -> u32 {
    shape.rows_and_columns().0 as u32
}
