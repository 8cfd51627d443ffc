//! Declares the parts of a cell again, as equations.

use edbatch_graph::{
    Arity, Binary, CellBuilder, CellError, CellParts, Function, Index, Instruction, Kind, Network,
    Normalization, Op, RecordId, Reduction, Tensor, Values, Var,
};

/// Declares a cell with these parts by a [`CellBuilder`]. Returns `None` if equations cannot have
/// the same fault, such as an operand that does not exist yet.
pub(crate) fn declare(network: &mut Network, parts: &CellParts) -> Option<Result<Kind, CellError>> {
    let declarations = network.clone();
    let mut is_whole = false;
    let declared = network.cell(&parts.name, parts.record, |cell| {
        let outputs = Equations::new(cell, parts, &declarations).and_then(Equations::outputs);
        is_whole = outputs.is_some();
        outputs.unwrap_or_default()
    });
    let has_record = usize::from(parts.record.0) < declarations.records().len();
    match &declared {
        // Parts have this fault first, equations last.
        Err(error) if !has_record && error.at != "cell".into() => None,
        // Equations that end early end at a fault, or for lack of words. Then outputs are missing.
        Err(error) if !is_whole && error.at == "return".into() => None,
        _ => Some(declared),
    }
}

enum Row<'c> {
    Table(Tensor<'c>),
    Index(Index<'c>),
}

enum Port<'c> {
    One(Vec<Tensor<'c>>),
    Many(Values<'c>, RecordId),
}

struct Equations<'c, 'a> {
    cell: &'c CellBuilder,
    parts: &'a CellParts,
    network: &'a Network,
    rows: Vec<Row<'c>>,
    ports: Vec<Port<'c>>,
    tensors: Vec<Tensor<'c>>,
}

impl<'c, 'a> Equations<'c, 'a> {
    /// Declares tables and ports.
    fn new(cell: &'c CellBuilder, parts: &'a CellParts, network: &'a Network) -> Option<Self> {
        let mut rows = Vec::new();
        for table in &parts.tables {
            rows.push(match table.parameter {
                None => Row::Index(cell.index(&table.name, table.rows as usize)),
                Some(id) => {
                    let parameter = network.parameters().get(id.0 as usize)?;
                    let row = cell.lookup(&table.name, &parameter.name, &parameter.dims);
                    // Equations say the number of rows only once.
                    (parameter.dims[0] == table.rows as usize).then_some(Row::Table(row))?
                }
            });
        }
        let mut ports = Vec::new();
        for port in &parts.ports {
            ports.push(match port.arity {
                Arity::One => Port::One(cell.one_vec(&port.name, port.record)),
                Arity::Many => {
                    let values = cell.many(&port.name, port.record);
                    // A record of another network is noticed when the values are reduced.
                    let _ = values.reduce_vec(Reduction::Sum);
                    Port::Many(values, port.record)
                }
            });
        }
        Some(Self { cell, parts, network, rows, ports, tensors: Vec::new() })
    }

    /// Applies all operations, and returns the outputs.
    fn outputs(mut self) -> Option<Vec<Tensor<'c>>> {
        for Instruction { op, operands, shape } in &self.parts.instructions {
            let operand = |var: &Var| self.tensors.get(var.index()).copied();
            let operands = operands.iter().map(operand).collect::<Option<Vec<_>>>()?;
            let tensor = match op {
                Op::Constant(value) if operands.is_empty() => self.cell.constant(*value, *shape),
                _ => self.operation(*op, &operands)?,
            };
            // Equations do not say shapes.
            self.tensors.push((tensor.shape() == *shape).then_some(tensor)?);
        }
        self.parts.outputs.iter().map(|var| self.tensors.get(var.index()).copied()).collect()
    }

    fn operation(&self, op: Op, operands: &[Tensor<'c>]) -> Option<Tensor<'c>> {
        Some(match (op, operands) {
            (Op::Input { port, field }, []) => match self.ports.get(usize::from(port))? {
                Port::One(fields) => *fields.get(usize::from(field))?,
                Port::Many(..) => return None,
            },
            (Op::Reduce { port, field, by }, []) => {
                *self.many(port)?.0.reduce_vec(by).get(usize::from(field))?
            }
            (Op::Attention { port, keys, values, heads }, &[query]) => {
                let (many, record) = self.many(port)?;
                let (keys, values) = (self.field(record, keys)?, self.field(record, values)?);
                many.attention(query, keys, values, heads as usize, 1.0)
            }
            (Op::SoftmaxSum { port, scores, values }, []) => {
                let (many, record) = self.many(port)?;
                many.softmax_sum(self.field(record, scores)?, self.field(record, values)?)
            }
            (Op::Lookup { table }, []) => match self.rows.get(usize::from(table))? {
                Row::Table(row) => *row,
                Row::Index(_) => return None,
            },
            (Op::Select { table }, &[x]) => match self.rows.get(usize::from(table))? {
                Row::Index(index) => x.select(*index),
                Row::Table(_) => return None,
            },
            (Op::Parameter(id), []) => {
                let parameter = self.network.parameters().get(id.0 as usize)?;
                self.cell.parameter(&parameter.name, &parameter.dims)
            }
            (Op::Concat, operands) => self.cell.concat(operands),
            (op, &[a, b]) => binary(op, a, b)?,
            (op, &[x]) => unary(op, x)?,
            _ => return None,
        })
    }

    fn many(&self, port: u16) -> Option<(Values<'c>, RecordId)> {
        match self.ports.get(usize::from(port))? {
            Port::Many(values, record) => Some((*values, *record)),
            Port::One(_) => None,
        }
    }

    fn field(&self, record: RecordId, field: u16) -> Option<&'a str> {
        let record = self.network.records().get(usize::from(record.0))?;
        record.fields.get(usize::from(field)).map(|field| &*field.name)
    }
}

fn binary<'c>(op: Op, a: Tensor<'c>, b: Tensor<'c>) -> Option<Tensor<'c>> {
    Some(match op {
        Op::MatMul => a.matmul(b),
        Op::Binary(Binary::Add) => a + b,
        Op::Binary(Binary::Sub) => a - b,
        Op::Binary(Binary::Mul) => a * b,
        Op::Binary(Binary::Div) => a / b,
        Op::Binary(Binary::Maximum) => a.maximum(b),
        Op::Binary(Binary::Minimum) => a.minimum(b),
        Op::Dot => a.dot(b),
        _ => return None,
    })
}

fn unary(op: Op, x: Tensor<'_>) -> Option<Tensor<'_>> {
    Some(match op {
        Op::Neg => -x,
        Op::Scale(factor) => x.scale(factor),
        Op::Apply(Function::Sigmoid) => x.sigmoid(),
        Op::Apply(Function::Tanh) => x.tanh(),
        Op::Apply(Function::Relu) => x.relu(),
        Op::Apply(Function::Exp) => x.exp(),
        Op::Apply(Function::Log) => x.log(),
        Op::Apply(Function::Sqrt) => x.sqrt(),
        Op::Apply(Function::Erf) => x.erf(),
        Op::Normalize(Normalization::Softmax) => x.softmax(),
        Op::Normalize(Normalization::LogSoftmax) => x.log_softmax(),
        Op::Normalize(Normalization::LayerNorm(epsilon)) => x.layer_norm(epsilon),
        Op::Normalize(Normalization::RmsNorm(epsilon)) => x.rms_norm(epsilon),
        Op::Reshape(shape) => x.reshape(shape),
        Op::Slice { start, rows } => x.slice(start as usize, rows as usize),
        Op::Transpose => x.transpose(),
        Op::Dropout(rate) => x.dropout(rate),
        _ => return None,
    })
}
