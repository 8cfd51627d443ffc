//! Splits the cells of a network into operations, with a new cell for each distinct operation.

use std::collections::HashMap;

use edbatch_graph::{
    self as graph, Arity, Cell, CellError, Instruction, Kind, Network, Op, RecordId, Reduction,
    Shape, Trace,
};

/// The operations of a cell, in order.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    pub(super) steps: Vec<Step>,
    pub(super) outputs: Vec<Operand>,
    pub(super) fields: usize,
}

/// One operation: a call of the vanilla network.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Lookup { kind: Kind, table: u16 },
    Reduce { kind: Kind, port: u16, field: u16 },
    Apply { kind: Kind, operands: Vec<Operand> },
}

/// The source of an operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Input { port: u16, field: u16 },
    Step(usize),
}

/// Returns the shapes of the fields of a record.
pub(super) fn shapes(network: &Network, record: RecordId) -> impl Iterator<Item = Shape> + '_ {
    network.fields(record).fields.iter().map(|field| field.shape)
}

/// The vanilla network under construction.
pub(super) struct Explosion<'a> {
    original: &'a Network,
    pub(super) network: Network,
    records: HashMap<Shape, RecordId>,
    kinds: HashMap<String, Kind>,
}

/// The replacement of a variable of the original cell.
#[derive(Clone, Copy)]
enum Var<'a> {
    Value(Operand),
    /// A parameter or a constant, which belongs to the operations that read it.
    Part(&'a Instruction),
}

impl<'a> Explosion<'a> {
    /// A network with all parameters in the same order.
    pub(super) fn new(original: &'a Network) -> Result<Self, CellError> {
        let mut network = Network::new();
        for parameter in original.parameters() {
            network.add_parameter(&parameter.name, &parameter.dims)?;
        }
        Ok(Self { original, network, records: HashMap::new(), kinds: HashMap::new() })
    }

    /// Returns the record whose only field has this shape.
    pub(super) fn record(&mut self, shape: Shape) -> Result<RecordId, CellError> {
        if let Some(&record) = self.records.get(&shape) {
            return Ok(record);
        }
        let record = self.network.record(&shape.to_string(), [("x", shape)])?;
        self.records.insert(shape, record);
        Ok(record)
    }

    pub(super) fn recipe(&mut self, cell: &Cell) -> Result<Recipe, CellError> {
        let mut steps = Vec::new();
        let mut vars: Vec<Var<'_>> = Vec::with_capacity(cell.instructions().len());
        for instruction in cell.instructions() {
            let step = match instruction.op {
                Op::Input { port, field } => {
                    vars.push(Var::Value(Operand::Input { port, field }));
                    continue;
                }
                Op::Parameter(_) | Op::Constant(_) => {
                    vars.push(Var::Part(instruction));
                    continue;
                }
                Op::Lookup { table } => {
                    Step::Lookup { kind: self.lookup(cell, table, instruction.shape)?, table }
                }
                Op::Reduce { port, field, by } => {
                    Step::Reduce { kind: self.reduction(by, instruction.shape)?, port, field }
                }
                _ => {
                    let operands: Vec<_> =
                        instruction.operands.iter().map(|var| vars[var.index()]).collect();
                    self.application(cell, instruction, &operands)?
                }
            };
            vars.push(Var::Value(Operand::Step(steps.len())));
            steps.push(step);
        }
        let mut outputs = Vec::new();
        for output in cell.outputs() {
            outputs.push(match vars[output.index()] {
                Var::Value(operand) => operand,
                part @ Var::Part(instruction) => {
                    // A parameter is not a node; scaled by one, it is the result of an operation.
                    let op = Op::Scale(1.0);
                    let itself =
                        Instruction { op, operands: vec![*output], shape: instruction.shape };
                    steps.push(self.application(cell, &itself, &[part])?);
                    Operand::Step(steps.len() - 1)
                }
            });
        }
        Ok(Recipe { steps, fields: outputs.len(), outputs })
    }

    fn lookup(&mut self, cell: &Cell, table: u16, shape: Shape) -> Result<Kind, CellError> {
        let id = cell.tables()[usize::from(table)].parameter.expect("not an index port");
        let parameter = self.original.parameter(id);
        self.kind(format!("lookup {}", parameter.name), shape, |cell, _| {
            cell.lookup("row", &parameter.name, &parameter.dims)
        })
    }

    fn reduction(&mut self, by: Reduction, shape: Shape) -> Result<Kind, CellError> {
        let record = self.record(shape)?;
        self.kind(format!("{by} {shape}"), shape, |cell, _| {
            let port = cell.port("values", record, Arity::Many)?;
            Ok(cell.fields(port, Some(by))?[0])
        })
    }

    fn application(
        &mut self,
        cell: &Cell,
        instruction: &Instruction,
        vars: &[Var<'_>],
    ) -> Result<Step, CellError> {
        let shape_of = |i: usize| cell.instruction(instruction.operands[i]).shape;
        // Operations of equal names batch together, so the name contains the operation, the shapes
        // and the parameters.
        let mut name = instruction.op.to_string();
        let mut records = Vec::with_capacity(vars.len());
        for (i, var) in vars.iter().enumerate() {
            name += &match var {
                Var::Value(_) => format!(" {}", shape_of(i)),
                Var::Part(Instruction { op: Op::Parameter(id), .. }) => {
                    format!(" {}", self.original.parameter(*id).name)
                }
                Var::Part(Instruction { op, shape, .. }) => format!(" {op} {shape}"),
            };
            records.push(self.record(shape_of(i))?);
        }
        let kind = self.kind(name, instruction.shape, |cell, original| {
            let operands = vars.iter().enumerate().map(|(i, var)| match var {
                Var::Value(_) => {
                    let port = cell.port(&format!("x{i}"), records[i], Arity::One)?;
                    Ok(cell.fields(port, None)?[0])
                }
                Var::Part(Instruction { op: Op::Parameter(id), .. }) => {
                    let parameter = original.parameter(*id);
                    cell.parameter(&parameter.name, &parameter.dims)
                }
                Var::Part(Instruction { op: Op::Constant(value), shape, .. }) => {
                    cell.constant(*value, *shape)
                }
                Var::Part(_) => unreachable!("only parameters and constants are parts"),
            });
            let operands = operands.collect::<Result<Vec<_>, _>>()?;
            cell.push(instruction.op, &operands)
        })?;
        let operands = vars.iter().filter_map(|var| match var {
            Var::Value(operand) => Some(*operand),
            Var::Part(_) => None,
        });
        Ok(Step::Apply { kind, operands: operands.collect() })
    }

    /// Returns the cell with a name, and declares it on first use.
    fn kind(
        &mut self,
        name: String,
        shape: Shape,
        build: impl FnOnce(&mut Trace, &Network) -> Result<graph::Var, CellError>,
    ) -> Result<Kind, CellError> {
        if let Some(&kind) = self.kinds.get(&name) {
            return Ok(kind);
        }
        let record = self.record(shape)?;
        let mut trace = self.network.trace(&name, record);
        let result = build(&mut trace, self.original)?;
        let kind = self.network.add_traced(trace, vec![result])?;
        self.kinds.insert(name, kind);
        Ok(kind)
    }
}
