//! A model without cells: every operation is a node of its own, as in frameworks that batch
//! operation by operation.
//!
//! [`Vanilla`] wraps any model. Its network has a cell for each distinct operation (with its
//! shapes, and with its parameters, if it reads any); its wiring runs the wrapped model's and makes
//! a call for every operation of every call. A field of an input is the value itself, no copy; so
//! is a reduction of a single value. Parameters and constants are part of the operation that reads
//! them.
//!
//! Parameters keep their numbers, so a wrapped model takes the weights of the original as they are.
//! Construction includes wiring the original; it is little beside an operation at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use edbatch_graph::{
    Cell, CellBuilder, CellError, Dag, Graph, Instruction, Kind, Network, NodeId, Op, RecordId,
    Reduction, Shape, Source, Tensor, Value,
};
use edbatch_models::{Build, BuildError, Exchange, Model};

/// A model whose nodes are operations; see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct Vanilla<M> {
    model: M,
    network: Arc<Network>,
    /// What a call of each cell of the original becomes.
    recipes: Vec<Recipe>,
    /// The initial values of the original, field after field.
    initial: Vec<Value>,
}

/// The operations of a cell.
#[derive(Clone, Debug)]
struct Recipe {
    steps: Vec<Step>,
    outputs: Vec<Operand>,
    fields: usize,
}

/// One operation: a call of the vanilla network.
#[derive(Clone, Debug)]
enum Step {
    Lookup { kind: Kind, table: u16 },
    Reduce { kind: Kind, port: u16, field: u16 },
    Apply { kind: Kind, operands: Vec<Operand> },
}

/// Where an operation's operand comes from.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Input { port: u16, field: u16 },
    Step(usize),
}

impl<M: Model> Vanilla<M> {
    /// Takes a model apart.
    ///
    /// # Errors
    /// If there would be more than 65,536 different operations.
    pub fn new(model: M) -> Result<Self, CellError> {
        let original = model.network().clone();
        let mut explosion = Explosion::new(&original)?;
        let mut initial = Vec::new();
        for value in original.initial_values() {
            for (&parameter, field) in value.parameters.iter().zip(shapes(&original, value.record))
            {
                let record = explosion.record(field)?;
                let name = &original.parameter(parameter).name;
                initial.push(explosion.network.initial(record, &[name])?);
            }
        }
        let recipes = original.cells().iter().map(|cell| explosion.recipe(cell));
        let recipes = recipes.collect::<Result<_, _>>()?;
        Ok(Self { model, recipes, initial, network: Arc::new(explosion.network) })
    }
}

/// The fields of a record.
fn shapes(network: &Network, record: RecordId) -> impl Iterator<Item = Shape> + '_ {
    network.fields(record).fields.iter().map(|field| field.shape)
}

/// The vanilla network while it is made.
struct Explosion<'a> {
    original: &'a Network,
    network: Network,
    records: HashMap<Shape, RecordId>,
    kinds: HashMap<String, Kind>,
}

/// What a variable of a cell is outside of it.
#[derive(Clone, Copy)]
enum Var<'a> {
    Value(Operand),
    /// A parameter or a constant: part of the operations that read it.
    Part(&'a Instruction),
}

impl<'a> Explosion<'a> {
    /// With all parameters, in the same order.
    fn new(original: &'a Network) -> Result<Self, CellError> {
        let mut network = Network::new();
        for parameter in original.parameters() {
            network.add_parameter(&parameter.name, &parameter.dims)?;
        }
        Ok(Self { original, network, records: HashMap::new(), kinds: HashMap::new() })
    }

    /// The record of one value of this shape.
    fn record(&mut self, shape: Shape) -> Result<RecordId, CellError> {
        if let Some(&record) = self.records.get(&shape) {
            return Ok(record);
        }
        let record = self.network.record(&shape.to_string(), [("x", shape)])?;
        self.records.insert(shape, record);
        Ok(record)
    }

    fn recipe(&mut self, cell: &Cell) -> Result<Recipe, CellError> {
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
                    // Scaled by one, so that there is an operation that makes it.
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
        let parameter = self.original.parameter(cell.tables()[usize::from(table)].parameter);
        self.kind(format!("lookup {}", parameter.name), shape, |cell, _| {
            cell.lookup("row", &parameter.name, &parameter.dims)
        })
    }

    fn reduction(&mut self, by: Reduction, shape: Shape) -> Result<Kind, CellError> {
        let record = self.record(shape)?;
        self.kind(format!("{by} {shape}"), shape, |cell, _| {
            let values = cell.many("values", record);
            let [reduced] = match by {
                Reduction::Sum => values.sum(),
                Reduction::Mean => values.mean(),
                Reduction::Max => values.max(),
            };
            reduced
        })
    }

    fn application(
        &mut self,
        cell: &Cell,
        instruction: &Instruction,
        vars: &[Var<'_>],
    ) -> Result<Step, CellError> {
        let shape_of = |i: usize| cell.instruction(instruction.operands[i]).shape;
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
                    let [x] = cell.one(&format!("x{i}"), records[i]);
                    x
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
            apply(cell, instruction.op, &operands.collect::<Vec<_>>())
        })?;
        let operands = vars.iter().filter_map(|var| match var {
            Var::Value(operand) => Some(*operand),
            Var::Part(_) => None,
        });
        Ok(Step::Apply { kind, operands: operands.collect() })
    }

    /// The cell of this name; declared when it is first needed.
    fn kind(
        &mut self,
        name: String,
        shape: Shape,
        build: impl for<'c> FnOnce(&'c CellBuilder, &Network) -> Tensor<'c>,
    ) -> Result<Kind, CellError> {
        if let Some(&kind) = self.kinds.get(&name) {
            return Ok(kind);
        }
        let record = self.record(shape)?;
        let original = self.original;
        let kind = self.network.cell(&name, record, |cell| vec![build(cell, original)])?;
        self.kinds.insert(name, kind);
        Ok(kind)
    }
}

fn apply<'c>(cell: &'c CellBuilder, op: Op, x: &[Tensor<'c>]) -> Tensor<'c> {
    match op {
        Op::MatMul => x[0].matmul(x[1]),
        Op::Add => x[0] + x[1],
        Op::Sub => x[0] - x[1],
        Op::Mul => x[0] * x[1],
        Op::Div => x[0] / x[1],
        Op::Neg => -x[0],
        Op::Scale(factor) => x[0].scale(factor),
        Op::Sigmoid => x[0].sigmoid(),
        Op::Tanh => x[0].tanh(),
        Op::Relu => x[0].relu(),
        Op::Exp => x[0].exp(),
        Op::Log => x[0].log(),
        Op::Softmax => x[0].softmax(),
        Op::LogSoftmax => x[0].log_softmax(),
        Op::Concat => cell.concat(x),
        Op::Slice { start, rows } => x[0].slice(start as usize, rows as usize),
        Op::Transpose => x[0].transpose(),
        Op::Input { .. }
        | Op::Reduce { .. }
        | Op::Lookup { .. }
        | Op::Parameter(_)
        | Op::Constant(_) => unreachable!("{op} is no operation on variables"),
    }
}

impl<M: Model> Model for Vanilla<M> {
    type Input = M::Input;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, input: &M::Input) -> Result<(), BuildError> {
        let graph = RefCell::new(Graph::new(self.model.network().clone()));
        let exchange = RefCell::new(Exchange::default());
        let inner = Build::new(&graph, &exchange);
        let mut wiring = pin!(self.model.build(&inner, input));
        let mut given = self.initial.clone();
        loop {
            let poll = wiring.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let calls = Calls::new(self, build, &graph.borrow(), &given)?;
            for value in exchange.borrow_mut().emitted.drain(..) {
                calls.fields(value).iter().for_each(|&field| build.emit(field));
            }
            if let Poll::Ready(result) = poll {
                return result;
            }
            let awaited = exchange.borrow_mut().awaited.take().expect("or it would have ended");
            let &[awaited] = calls.fields(awaited) else {
                return Err(BuildError::Input("awaited values have one field each here".into()));
            };
            let carried = exchange.borrow().carried.clone();
            let fields = carried.iter().flat_map(|&value| calls.fields(value)).copied().collect();
            let (answer, fields) = fetch(build, awaited, fields).await?;
            given.truncate(self.initial.len());
            given.extend(fields);
            hand_over(&mut graph.borrow_mut(), &mut exchange.borrow_mut(), answer);
        }
    }
}

/// The calls of operations that stand for the calls of a graph.
struct Calls {
    /// Fields of all given values, then of all nodes: those of value `v` from `first[v]` on.
    fields: Vec<Value>,
    first: Vec<usize>,
    given: usize,
}

impl Calls {
    fn new<M: Model>(
        vanilla: &Vanilla<M>,
        build: &Build<'_>,
        graph: &Graph,
        given: &[Value],
    ) -> Result<Self, BuildError> {
        let mut calls = Self { fields: given.into(), first: vec![0], given: graph.given().len() };
        for &record in graph.given() {
            let fields = graph.network().fields(record).fields.len();
            calls.first.push(calls.first[calls.first.len() - 1] + fields);
        }
        let (mut results, mut many) = (Vec::new(), Vec::new());
        for node in (0..graph.nodes()).map(NodeId::new) {
            let recipe = &vanilla.recipes[graph.kind(node).index()];
            results.clear();
            for step in &recipe.steps {
                let operand = |operand: &Operand| calls.operand(*operand, &results, graph, node);
                let result = match step {
                    Step::Lookup { kind, table } => {
                        build.call(*kind, &[graph.rows(node)[usize::from(*table)]], &[])?
                    }
                    Step::Reduce { kind, port, field } => {
                        many.clear();
                        let values = graph.values(node).skip(usize::from(*port));
                        many.extend(values.map(|v| calls.fields(v)[usize::from(*field)]));
                        match many[..] {
                            [single] => single,
                            _ => build.call(*kind, &[], &many)?,
                        }
                    }
                    Step::Apply { kind, operands } => {
                        many.clear();
                        many.extend(operands.iter().map(operand));
                        build.call(*kind, &[], &many)?
                    }
                };
                results.push(result);
            }
            for &output in &recipe.outputs {
                let value = calls.operand(output, &results, graph, node);
                calls.fields.push(value);
            }
            calls.first.push(calls.fields.len());
            debug_assert_eq!(calls.fields(node.into()).len(), recipe.fields);
        }
        Ok(calls)
    }

    fn operand(&self, operand: Operand, results: &[Value], graph: &Graph, node: NodeId) -> Value {
        match operand {
            Operand::Step(step) => results[step],
            Operand::Input { port, field } => {
                self.fields(graph.value(node, usize::from(port)))[usize::from(field)]
            }
        }
    }

    /// What stands for a value of the graph, field by field.
    fn fields(&self, value: Value) -> &[Value] {
        let index = match value.source() {
            Source::Given(index) => index,
            Source::Node(node) => self.given + node.index(),
        };
        &self.fields[self.first[index]..self.first[index + 1]]
    }
}

/// As [`Build::fetch`], for a number of values that is known when it is called.
async fn fetch(
    build: &Build<'_>,
    value: Value,
    carried: Vec<Value>,
) -> Result<(Vec<f32>, Vec<Value>), BuildError> {
    macro_rules! by_count {
        ($($count:literal)*) => {
            match carried.len() {
                $($count => {
                    let carried = carried.try_into().expect("matched");
                    let (answer, carried) = build.fetch::<$count>(value, carried).await;
                    Ok((answer, carried.into()))
                })*
                more => Err(BuildError::Input(format!("{more} values carried, at most 8 here"))),
            }
        };
    }
    by_count!(0 1 2 3 4 5 6 7 8)
}

/// Tells the wrapped model's wiring what it awaited, and what its carried values are called now.
fn hand_over(graph: &mut Graph, exchange: &mut Exchange, answer: Vec<f32>) {
    exchange.answer = Some(answer);
    let record = |value| graph.record_of(value).expect("carried values are of the graph");
    let records: Vec<RecordId> = exchange.carried.iter().map(|&value| record(value)).collect();
    graph.clear();
    exchange.carried = records.into_iter().map(|record| graph.give(record)).collect();
}
