//! Derives the adjoint of a cell by reverse-mode differentiation (Griewank and Walther, *Evaluating
//! Derivatives*, chapter 3). `training.rs` describes the result.
//!
//! The forward cell's operations are visited from last to first. Each adds a *term* to the gradient
//! of each of its operands, by the rules in `rules.rs`; a variable's gradient is the sum of its
//! terms. Values of forward variables that the rules read are computed again if that is cheap, else
//! the forward call saves them.

mod pair;
mod row_part;
mod rules;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::network::{Field, MAX_ITEMS, Record};
use crate::training::Needed;
use crate::{
    Adjoint, Arity, Cell, CellError, Instruction, Kind, Network, Op, ParameterId, ParameterSum,
    Port, RecordId, Reduction, RowAdjoint, Shape, Var,
};
use pair::Pair;
use row_part::RowParts;

/// Derives the adjoint of a cell, and adds it to the network together with its records. Extends the
/// forward cell's row by what the adjoint reads. Returns `None` if no gradient is needed.
pub(crate) fn derive(
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
    let own = cell.ports().len() as u16;
    for (field, &output) in (0..).zip(cell.outputs()) {
        if needs[output.index()] {
            let op = Op::Reduce { port: own + 1 + field, field: 0, by: Reduction::Sum };
            let gradient = adjoint.push_source(op, cell.instruction(output).shape);
            adjoint.terms[output.index()].whole.push(gradient);
        }
    }
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
    let mut contributions = Vec::with_capacity(cell.ports().len());
    for (port, Port { name, record, .. }) in (0..).zip(cell.ports()) {
        let mut of_port = Vec::new();
        for (field, declared) in (0..).zip(&add.network.fields(*record).fields) {
            let terms = adjoint.contributions.remove(&(port, field)).unwrap_or_default();
            let name = format!("{name}.{}", declared.name);
            of_port.push(adjoint.sum(terms).map(|sum| fields.push(name, sum)));
        }
        contributions.push(of_port);
    }
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

/// The source of the values of forward variables that an adjoint reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// The forward call's row, which holds the values that are expensive to compute again.
    Saved,
    /// A row of this table, which is table 0 of the adjoint: all values are computed again from it.
    Again { table: u16 },
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
        let mut cheap: Vec<bool> = Vec::with_capacity(count);
        for (Instruction { op, operands, .. }, returned) in
            cell.instructions().iter().zip(&returned)
        {
            cheap.push(
                is_read(*op)
                    || returned.is_some()
                    || !is_expensive(*op) && operands.iter().all(|operand| cheap[operand.index()]),
            );
        }
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
        terms.into_iter().reduce(|sum, term| self.push(Op::Add, &[sum, term]))
    }

    /// Returns the adjoint's variable with the value of a forward variable.
    fn value(&mut self, var: Var) -> Var {
        if let Some(known) = self.known[var.index()] {
            return known;
        }
        // Operands precede their readers, so values are computed in the order of declaration.
        let (mut missing, mut open) = (BTreeSet::from([var]), vec![var]);
        while let Some(next) = open.pop() {
            if self.is_computed_again(next) {
                for &operand in &self.cell.instruction(next).operands {
                    if self.known[operand.index()].is_none() && missing.insert(operand) {
                        open.push(operand);
                    }
                }
            }
        }
        for &var in &missing {
            let value = self.read_or_compute(var);
            self.known[var.index()] = Some(value);
        }
        self.known[var.index()].expect("just computed")
    }

    fn is_computed_again(&self, var: Var) -> bool {
        let op = self.cell.instruction(var).op;
        match self.values {
            _ if is_read(op) => false,
            Values::Again { .. } => true,
            Values::Saved if self.returned[var.index()].is_some() => false,
            // An activation is saved instead of the expensive value that it is computed from.
            Values::Saved => self.cheap[var.index()] || !is_expensive(op) && !is_activation(op),
        }
    }

    fn read_or_compute(&mut self, var: Var) -> Var {
        let Instruction { op, operands, shape } = self.cell.instruction(var);
        if self.is_computed_again(var) {
            let known = |operand: &Var| self.known[operand.index()].expect("computed before");
            let operands: Vec<Var> = operands.iter().map(known).collect();
            return self.push(*op, &operands);
        }
        if is_read(*op) {
            let op = match (self.values, *op) {
                (Values::Again { table }, Op::Lookup { table: of }) if of == table => {
                    Op::Lookup { table: 0 }
                }
                _ => *op,
            };
            return self.push_source(op, *shape);
        }
        let field = self.returned[var.index()].unwrap_or_else(|| {
            self.saved.push(var);
            (self.cell.outputs().len() + self.saved.len() - 1) as u16
        });
        self.push_source(Op::Input { port: self.cell.ports().len() as u16, field }, *shape)
    }

    fn push(&mut self, op: Op, operands: &[Var]) -> Var {
        let shapes: Vec<Shape> = operands.iter().map(|&operand| self.shape(operand)).collect();
        let shape = op.infer(&shapes).expect("derived from a valid operation");
        self.instructions.push(Instruction { op, operands: operands.into(), shape });
        Var((self.instructions.len() - 1) as u32)
    }

    fn push_source(&mut self, op: Op, shape: Shape) -> Var {
        self.instructions.push(Instruction { op, operands: Vec::new(), shape });
        Var((self.instructions.len() - 1) as u32)
    }

    /// Returns the shape of a variable of the adjoint.
    fn shape(&self, var: Var) -> Shape {
        self.instructions[var.index()].shape
    }
}

/// Returns true for operations whose results an adjoint can read although no call saves them.
fn is_read(op: Op) -> bool {
    matches!(op, Op::Input { .. } | Op::Lookup { .. } | Op::Parameter(_) | Op::Constant(_))
}

/// Returns true for operations whose result is saved rather than computed again.
fn is_expensive(op: Op) -> bool {
    matches!(
        op,
        Op::MatMul
            | Op::Dot
            | Op::Reduce { .. }
            | Op::Attention { .. }
            | Op::SoftmaxSum { .. }
            | Op::Softmax
            | Op::LogSoftmax
            | Op::LayerNorm(_)
            | Op::RmsNorm(_)
    )
}

fn is_activation(op: Op) -> bool {
    matches!(op, Op::Sigmoid | Op::Tanh | Op::Relu | Op::Exp | Op::Log | Op::Sqrt)
}

fn rows(shape: Shape) -> u32 {
    shape.rows_and_columns().0 as u32
}

/// The fields of an adjoint's record, and their variables.
#[derive(Default)]
struct Fields {
    names: Vec<String>,
    vars: Vec<Var>,
}

impl Fields {
    fn push(&mut self, name: String, var: Var) -> u16 {
        self.names.push(name);
        self.vars.push(var);
        (self.vars.len() - 1) as u16
    }

    fn len(&self) -> u16 {
        self.vars.len() as u16
    }

    /// Adds the variables that a gradient of values at a port reads.
    fn pair(&mut self, pair: &Pair<Var>) -> Pair<u16> {
        pair.map(|var| match self.vars.iter().position(|&other| other == var) {
            Some(known) => known as u16,
            None => self.push(format!("pair {var}"), var),
        })
    }

    /// Adds the variables of sums, each once.
    fn sums(&mut self, sums: &[Sum]) -> Vec<ParameterSum> {
        let known = self.vars.iter().copied().zip(0..);
        // A variable that is a field already is not added again.
        let mut known: HashMap<Var, u16> = known.collect();
        let mut field =
            |var: Var| *known.entry(var).or_insert_with(|| self.push(format!("sum {var}"), var));
        let sum = |sum: &Sum| match *sum {
            Sum::Products { parameter, delta, x, pairs } => {
                let (delta, x) = (field(delta), field(x));
                ParameterSum::Products { parameter, delta, x, pairs }
            }
            Sum::Elements { parameter, from } => {
                ParameterSum::Elements { parameter, from: field(from) }
            }
        };
        sums.iter().map(sum).collect()
    }
}

/// The records and cells that adjoints add to a network.
struct Additions<'a> {
    network: &'a mut Network,
    /// The forward cell, and its number.
    cell: &'a Cell,
    kind: Kind,
    gradients: &'a mut GradientRecords,
}

impl Additions<'_> {
    fn error(&self, limit: &str) -> CellError {
        CellError::new(self.cell.name(), "adjoint", &[], limit)
    }

    fn record(&mut self, name: &str, fields: Vec<Field>) -> Result<RecordId, CellError> {
        let records = &self.network.declarations.records;
        if fields.len() > MAX_ITEMS {
            return Err(self.error("at most 65536 fields"));
        }
        let Ok(id) = u16::try_from(records.len()) else {
            return Err(self.error("at most 65536 records in the network"));
        };
        self.network.declarations.records.push(Record { name: name.into(), fields });
        Ok(RecordId(id))
    }

    /// Extends the forward cell's row by the variables that its calls save.
    fn row(&mut self, saved: &[Var]) -> Result<RecordId, CellError> {
        let record = self.cell.record();
        if saved.is_empty() {
            return Ok(record);
        }
        let Record { name, mut fields } = self.network.fields(record).clone();
        let shape = |var: Var| self.cell.instruction(var).shape;
        fields.extend(saved.iter().map(|&var| Field { name: var.to_string(), shape: shape(var) }));
        let row = self.record(&format!("{name}, saved by {}", self.cell.name()), fields)?;
        let forward = &mut self.network.cells[self.kind.index()];
        forward.row = row;
        forward.outputs.extend(saved);
        Ok(row)
    }

    /// Returns the port that takes the gradients of a field of the forward cell's record.
    fn gradient_port(&mut self, field: usize) -> Result<Port, CellError> {
        let Record { name, fields } = self.network.fields(self.cell.record());
        let (name, taken) = (format!("gradient of {name}"), fields[field].clone());
        let port = format!("{} gradient", taken.name);
        let key = (self.cell.record(), field);
        let record = match self.gradients.get(&key) {
            Some(&known) => known,
            None => self.record(&name, vec![taken])?,
        };
        self.gradients.insert(key, record);
        Ok(Port { name: port, record, arity: Arity::Many })
    }

    fn cell(
        &mut self,
        what: &str,
        tables: Vec<crate::Table>,
        ports: Vec<Port>,
        instructions: Vec<Instruction>,
        Fields { names, vars }: Fields,
    ) -> Result<Kind, CellError> {
        let name = format!("{} ({what})", self.cell.name());
        let shape = |var: &Var| instructions[var.index()].shape;
        let fields = names.into_iter().zip(vars.iter().map(shape));
        let fields = fields.map(|(name, shape)| Field { name, shape }).collect();
        let record = self.record(&name, fields)?;
        if ports.len() > MAX_ITEMS || instructions.len() > MAX_ITEMS {
            return Err(self.error("at most 65536 ports and operations"));
        }
        let Ok(kind) = u16::try_from(self.network.cells.len()) else {
            return Err(self.error("at most 65536 cells in the network"));
        };
        let outputs = vars;
        let row = record;
        let declared = None;
        self.network.cells.push(Cell {
            name,
            tables,
            ports,
            instructions,
            outputs,
            record,
            row,
            declared,
        });
        Ok(Kind(kind))
    }
}
