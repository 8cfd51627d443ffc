//! The reference interpreter: computes a graph node by node, with ndarray. Slow and short; every
//! backend is compared with it.

mod gradients;

use edbatch_graph::{
    Arity, Cell, Dag, Graph, Instruction, Network, NodeId, Op, Port, Reduction, Shape, Slope,
    Source,
};
use ndarray::{Array2, ArrayView2, Axis, NdFloat, Zip, concatenate, s};

pub use gradients::{ReferenceGradients, interpret_gradients};

use crate::Parameters;

/// A tensor: a matrix, or a vector as a single column.
pub type ReferenceTensor<T = f32> = Array2<T>;

/// Computes all nodes of a graph in the order of their ids. Returns the record of each node, one
/// tensor per field.
///
/// `given` contains the records of the graph's given values, starting with the network's initial
/// values.
///
/// # Panics
/// If `given` does not match the graph, or the parameters belong to
/// [another network](Parameters::for_network).
#[must_use]
pub fn interpret(
    graph: &Graph,
    parameters: &Parameters,
    given: &[Vec<ReferenceTensor>],
) -> Vec<Vec<ReferenceTensor>> {
    assert!(parameters.are_of(graph.network()), "the parameters belong to another network");
    interpret_as(graph.network(), graph, &parameters.slices(), given)
}

/// Like [`interpret()`], in `f32` or `f64`, and with the cells of a network that may be larger than
/// the graph's: with those of a [`TrainingNetwork`](edbatch_graph::TrainingNetwork), the records
/// include what calls save.
///
/// `parameters` are the elements of the network's parameters, row-major.
///
/// # Panics
/// If `given` does not match the graph, or parameters are missing.
#[must_use]
pub fn interpret_as<T: NdFloat>(
    network: &Network,
    graph: &Graph,
    parameters: &[&[T]],
    given: &[Vec<ReferenceTensor<T>>],
) -> Vec<Vec<ReferenceTensor<T>>> {
    assert_eq!(given.len(), graph.given().len(), "records and given values of the graph");
    let mut results: Vec<Vec<ReferenceTensor<T>>> = Vec::with_capacity(graph.nodes());
    for node in (0..graph.nodes()).map(NodeId::new) {
        let cell = &network[graph.kind(node)];
        let result = {
            let ports = ports(cell, graph, node, &results, given);
            call(cell, parameters, graph.rows(node), &ports)
        };
        results.push(result);
    }
    results
}

/// The values at a port: for each, the tensors of its record.
type PortValues<'a, T> = Vec<&'a [ReferenceTensor<T>]>;

/// Returns the values of a call, by port.
fn ports<'a, T>(
    cell: &Cell,
    graph: &Graph,
    node: NodeId,
    results: &'a [Vec<ReferenceTensor<T>>],
    given: &'a [Vec<ReferenceTensor<T>>],
) -> Vec<PortValues<'a, T>> {
    let mut values = graph.values(node).map(|value| match value.source() {
        Source::Node(node) => results[node.index()].as_slice(),
        Source::Given(index) => given[index].as_slice(),
    });
    let port = |port: &Port| match port.arity {
        Arity::One => values.next().into_iter().collect(),
        Arity::Many => values.by_ref().collect(),
    };
    cell.ports().iter().map(port).collect()
}

/// Returns the records of the network's initial values, for [`interpret`].
///
/// # Panics
/// If the parameters belong to [another network](Parameters::for_network).
#[must_use]
pub fn initial_values(
    network: &edbatch_graph::Network,
    parameters: &Parameters,
) -> Vec<Vec<ReferenceTensor>> {
    let tensor = |(id, shape): (_, Shape)| {
        let values = parameters.get(id).to_vec();
        ReferenceTensor::from_shape_vec(shape.rows_and_columns(), values)
            .expect("declared with this shape")
    };
    let initial = network.initial_values().iter().map(|initial| {
        let shapes = network.fields(initial.record).fields.iter().map(|field| field.shape);
        initial.parameters.iter().copied().zip(shapes).map(tensor).collect()
    });
    initial.collect()
}

fn call<T: NdFloat>(
    cell: &Cell,
    parameters: &[&[T]],
    rows: &[u32],
    ports: &[PortValues<'_, T>],
) -> Vec<ReferenceTensor<T>> {
    let mut vars: Vec<ReferenceTensor<T>> = Vec::with_capacity(cell.instructions().len());
    for instruction in cell.instructions() {
        let operands: Vec<ArrayView2<'_, T>> =
            instruction.operands.iter().map(|operand| vars[operand.index()].view()).collect();
        let shape = instruction.shape.rows_and_columns();
        let result = match instruction.op {
            Op::Input { port, field } => ports[usize::from(port)][0][usize::from(field)].clone(),
            Op::Reduce { port, field, by } => {
                let values = ports[usize::from(port)].iter().map(|v| &v[usize::from(field)]);
                reduce(values, by, shape)
            }
            Op::Share { port } => &operands[0] / number::<T>(ports[usize::from(port)].len() as f32),
            Op::Lookup { table } => {
                let elements = instruction.shape.elements();
                let start = rows[usize::from(table)] as usize * elements;
                let id = cell.tables()[usize::from(table)].parameter;
                from_slice(shape, &parameters[id.0 as usize][start..start + elements])
            }
            Op::Parameter(id) => from_slice(shape, parameters[id.0 as usize]),
            Op::Constant(value) => ReferenceTensor::from_elem(shape, number(value)),
            _ => operate(instruction, &operands),
        };
        vars.push(result);
    }
    cell.outputs().iter().map(|output| vars[output.index()].clone()).collect()
}

fn operate<T: NdFloat>(
    instruction: &Instruction,
    operands: &[ArrayView2<'_, T>],
) -> ReferenceTensor<T> {
    let a = operands[0];
    // Broadcasts an operand of an element-wise operation to the shape of the result.
    let shape = instruction.shape.rows_and_columns();
    let wide = |i: usize| operands[i].broadcast(shape).expect("shapes were inferred").to_owned();
    let (zero, one) = (T::zero(), T::one());
    match instruction.op {
        Op::MatMul => a.dot(&operands[1]),
        Op::Outer => a.dot(&operands[1].t()),
        Op::Add => wide(0) + wide(1),
        Op::Sub => wide(0) - wide(1),
        Op::Mul => wide(0) * wide(1),
        Op::Div => wide(0) / wide(1),
        Op::Neg => a.mapv(|x| -x),
        Op::Scale(factor) => a.mapv(|x| number::<T>(factor) * x),
        Op::Sigmoid => a.mapv(|x| one / (one + (-x).exp())),
        Op::Tanh => a.mapv(T::tanh),
        Op::Relu => a.mapv(|x| if x.is_nan() { x } else { x.max(zero) }),
        Op::Exp => a.mapv(T::exp),
        Op::Log => a.mapv(T::ln),
        Op::Slope(slope) => Zip::from(a).and(operands[1]).map_collect(|&g, &y| match slope {
            Slope::Sigmoid => g * ((one - y) * y),
            Slope::Tanh => g * (one - y * y),
            Slope::Relu => {
                if y > zero {
                    g
                } else {
                    zero
                }
            }
        }),
        Op::Softmax => {
            let exp = shifted(a).mapv(T::exp);
            let sum = exp.sum();
            exp / sum
        }
        Op::LogSoftmax => {
            let shifted = shifted(a);
            let log = shifted.mapv(T::exp).sum().ln();
            shifted - log
        }
        Op::Fold(Shape::Vector(1)) => ReferenceTensor::from_elem((1, 1), a.sum()),
        Op::Fold(_) => a.sum_axis(Axis(1)).insert_axis(Axis(1)),
        Op::Concat => concatenate(Axis(0), operands).expect("shapes were inferred"),
        Op::Slice { start, rows } => {
            let (start, end) = (start as usize, (start + rows) as usize);
            a.slice(s![start..end, ..]).to_owned()
        }
        Op::Transpose => a.t().as_standard_layout().into_owned(),
        op => unreachable!("{op} has no operands"),
    }
}

fn shifted<T: NdFloat>(a: ArrayView2<'_, T>) -> ReferenceTensor<T> {
    let max = a.fold(T::neg_infinity(), |max, &x| if x.is_nan() { x } else { max.max(x) });
    a.mapv(|x| x - max)
}

/// Reduces values of this shape. Gradients may have no values; forward calls have at least one.
fn reduce<'a, T: NdFloat>(
    mut values: impl ExactSizeIterator<Item = &'a ReferenceTensor<T>>,
    by: Reduction,
    shape: (usize, usize),
) -> ReferenceTensor<T> {
    let count = values.len();
    let Some(mut result) = values.next().cloned() else { return ReferenceTensor::zeros(shape) };
    for value in values {
        match by {
            Reduction::Sum | Reduction::Mean => result += value,
            Reduction::Max => result.zip_mut_with(value, |a, &b| {
                *a = if a.is_nan() || b.is_nan() { T::nan() } else { a.max(b) };
            }),
        }
    }
    if by == Reduction::Mean {
        result /= number::<T>(count as f32);
    }
    result
}

fn from_slice<T: NdFloat>(shape: (usize, usize), values: &[T]) -> ReferenceTensor<T> {
    ArrayView2::from_shape(shape, values).expect("declared with this shape").to_owned()
}

fn number<T: NdFloat>(value: f32) -> T {
    T::from(value).expect("f32 and f64 hold every f32")
}
