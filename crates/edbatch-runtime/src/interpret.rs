//! The reference interpreter: computes a graph node by node, with ndarray. Slow and short; every
//! backend is compared with it.

mod gradients;
mod rows;

use edbatch_graph::{
    AdjointOp, Arity, Cell, Dag, Graph, Instruction, Network, NodeId, Op, Port, Row, Shape, Slope,
    Source,
};
use ndarray::{Array1, Array2, ArrayView2, Axis, NdFloat, Zip, concatenate, s};

pub use gradients::{ReferenceGradients, interpret_gradients};
use rows::{attention_back, heads_of, normalize, reduce, weighted};

use crate::kernels::bf16;
use crate::{Parameters, Precision};

/// A tensor: a matrix, or a vector as a single column.
pub type ReferenceTensor<T = f32> = Array2<T>;

/// Computes all nodes of a graph in the order of their ids. Returns the record of each node, one
/// tensor per field.
///
/// `given` contains the records of the graph's given values, starting with the network's initial
/// values. Backends of the same precision agree with the results up to rounding: in bf16, the last
/// bit of an `f32` may decide between two neighbours.
///
/// # Panics
/// If `given` does not match the graph, or the parameters belong to
/// [another network](Parameters::for_network).
#[must_use]
pub fn interpret(
    graph: &Graph,
    parameters: &Parameters,
    given: &[Vec<ReferenceTensor>],
    precision: Precision,
) -> Vec<Vec<ReferenceTensor>> {
    assert!(parameters.are_of(graph.network()), "the parameters belong to another network");
    nodes(graph.network(), graph, (&parameters.slices(), precision), given)
}

/// Like [`interpret()`], in `f32` or `f64`, and with the cells of `network`, which may be larger
/// than the graph's network: with the network of a
/// [`TrainingNetwork`](edbatch_graph::TrainingNetwork), the records include the values that calls
/// save for gradients.
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
    nodes(network, graph, (parameters, Precision::F32), given)
}

/// Computes all nodes of a graph, with the cells of a network.
fn nodes<T: NdFloat>(
    network: &Network,
    graph: &Graph,
    parameters: (&[&[T]], Precision),
    given: &[Vec<ReferenceTensor<T>>],
) -> Vec<Vec<ReferenceTensor<T>>> {
    assert_eq!(given.len(), graph.given().len(), "records and given values of the graph");
    let mut results: Vec<Vec<ReferenceTensor<T>>> = Vec::with_capacity(graph.nodes());
    for node in (0..graph.nodes()).map(NodeId::new) {
        let cell = &network[graph.kind(node)];
        let result = {
            let ports = ports(cell, graph, node, &results, given);
            match graph.looked_up(node) {
                [] => call(cell, parameters, graph.rows(node), &ports),
                _ => call(cell, parameters, &rows(graph, node, &results, given), &ports),
            }
        };
        results.push(result);
    }
    results
}

/// Returns the rows that a call names, some by the argmax of a value.
fn rows<T: NdFloat>(
    graph: &Graph,
    node: NodeId,
    results: &[Vec<ReferenceTensor<T>>],
    given: &[Vec<ReferenceTensor<T>>],
) -> Vec<u32> {
    let row = |table| match graph.row(node, table) {
        Row::Index(index) => index,
        Row::ArgMax(value) => {
            let fields = match value.source() {
                Source::Node(node) => &results[node.index()],
                Source::Given(index) => &given[index],
            };
            let elements = fields.iter().flatten().enumerate();
            let largest = elements
                .reduce(|best, next| if next.1 > best.1 || best.1.is_nan() { next } else { best });
            largest.expect("no record is empty").0 as u32
        }
    };
    (0..graph.rows(node).len()).map(row).collect()
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
    (parameters, precision): (&[&[T]], Precision),
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
            Op::Attention { port, keys, values, heads } => {
                let query = heads_of(operands[0], heads);
                let scores = |value: &&[ReferenceTensor<T>]| {
                    let keys = heads_of(value[usize::from(keys)].view(), heads);
                    (&keys * &query).sum_axis(Axis(1))
                };
                let port = &ports[usize::from(port)];
                let scores: Vec<Array1<T>> = port.iter().map(scores).collect();
                weighted(port, &scores, usize::from(values), heads)
            }
            Op::SoftmaxSum { port, scores, values } => {
                let port = &ports[usize::from(port)];
                let scores: Vec<Array1<T>> = port
                    .iter()
                    .map(|value| value[usize::from(scores)].column(0).to_owned())
                    .collect();
                let heads = scores[0].len() as u32;
                weighted(port, &scores, usize::from(values), heads)
            }
            Op::Select { table } => {
                let row = operands[0].row(rows[usize::from(table)] as usize);
                row.insert_axis(Axis(1)).to_owned()
            }
            Op::Adjoint(AdjointOp::OneHot { table }) => {
                let mut one_hot = ReferenceTensor::zeros(shape);
                one_hot[(rows[usize::from(table)] as usize, 0)] = T::one();
                one_hot
            }
            Op::Adjoint(AdjointOp::Ties { port, field }) => {
                let values = ports[usize::from(port)].iter().map(|v| &v[usize::from(field)]);
                values.fold(ReferenceTensor::zeros(shape), |ties, value| {
                    let equal = Zip::from(value)
                        .and(operands[0])
                        .map_collect(|a, b| if a == b { T::one() } else { T::zero() });
                    ties + equal
                })
            }
            Op::Adjoint(AdjointOp::AttentionBack { port, keys, values, heads }) => {
                let fields = [usize::from(keys), usize::from(values)];
                attention_back(&ports[usize::from(port)], fields, heads, &operands)
            }
            Op::Adjoint(AdjointOp::Share { port }) => {
                &operands[0] / number::<T>(ports[usize::from(port)].len() as f32)
            }
            Op::Lookup { table } => {
                let elements = instruction.shape.elements();
                let start = rows[usize::from(table)] as usize * elements;
                let id = cell.tables()[usize::from(table)].parameter.expect("not an index port");
                from_slice(shape, &parameters[id.0 as usize][start..start + elements])
            }
            Op::Parameter(id) => from_slice(shape, parameters[id.0 as usize]),
            Op::Constant(value) => ReferenceTensor::from_elem(shape, number(value)),
            Op::MatMul if precision == Precision::Bf16 && multiplies_weight(cell, instruction) => {
                let [weight, x] = [0, 1].map(|i| operands[i].mapv(round));
                weight.dot(&x)
            }
            _ => operate(instruction, &operands),
        };
        vars.push(result);
    }
    cell.outputs().iter().map(|output| vars[output.index()].clone()).collect()
}

/// Returns true for a product of a parameter, or of the transpose of one, and a vector.
fn multiplies_weight(cell: &Cell, product: &Instruction) -> bool {
    let [mut left, right] = [0, 1].map(|operand| cell.instruction(product.operands[operand]));
    if left.op == Op::Transpose {
        left = cell.instruction(left.operands[0]);
    }
    matches!((left.op, right.shape), (Op::Parameter(_), Shape::Vector(_)))
}

/// Rounds an element to bf16.
fn round<T: NdFloat>(element: T) -> T {
    number(bf16::round(element.to_f32().expect("a float")))
}

fn operate<T: NdFloat>(
    instruction: &Instruction,
    operands: &[ArrayView2<'_, T>],
) -> ReferenceTensor<T> {
    let a = operands[0];
    let shape = instruction.shape.rows_and_columns();
    // Both operands are broadcast to the shape of the result.
    let by_pairs = |f: &dyn Fn(T, T) -> T| {
        let [a, b] = [0, 1].map(|i| operands[i].broadcast(shape).expect("shapes were inferred"));
        Zip::from(a).and(b).map_collect(|&a, &b| f(a, b))
    };
    let (zero, one) = (T::zero(), T::one());
    match instruction.op {
        Op::MatMul => a.dot(&operands[1]),
        Op::Adjoint(AdjointOp::Outer) => a.dot(&operands[1].t()),
        Op::Neg => a.mapv(|x| -x),
        Op::Scale(factor) => a.mapv(|x| number::<T>(factor) * x),
        Op::Apply(function) => a.mapv(|x| from_double(function.of(double(x)))),
        Op::Binary(binary) => by_pairs(&|a, b| from_double(binary.of(double(a), double(b)))),
        Op::Adjoint(AdjointOp::Larger) => by_pairs(&|a, b| match () {
            () if a > b => one,
            () if a < b => zero,
            () => number(0.5),
        }),
        Op::Adjoint(AdjointOp::Slope(slope)) => by_pairs(&|g, y| match slope {
            Slope::Sigmoid => g * ((one - y) * y),
            Slope::Tanh => g * (one - y * y),
            Slope::Relu if y > zero => g,
            Slope::Relu => zero,
        }),
        Op::Normalize(by) => normalize(by, a, instruction.shape),
        Op::Dot => {
            let products = &a * &operands[1];
            let rows = products.into_shape_with_order((shape.0, a.len() / shape.0));
            rows.expect("row-major").sum_axis(Axis(1)).insert_axis(Axis(1))
        }
        Op::Reshape(_) => {
            let elements = a.iter().copied().collect();
            ReferenceTensor::from_shape_vec(shape, elements).expect("as many elements")
        }
        Op::Adjoint(AdjointOp::Fold(Shape::Vector(1))) => {
            ReferenceTensor::from_elem((1, 1), a.sum())
        }
        Op::Adjoint(AdjointOp::Fold(_)) => a.sum_axis(Axis(1)).insert_axis(Axis(1)),
        Op::Concat => concatenate(Axis(0), operands).expect("shapes were inferred"),
        Op::Slice { start, rows } => {
            let (start, end) = (start as usize, (start + rows) as usize);
            a.slice(s![start..end, ..]).to_owned()
        }
        Op::Transpose => a.t().as_standard_layout().into_owned(),
        op => unreachable!("{op} has no operands"),
    }
}

fn number<T: NdFloat>(value: f32) -> T {
    T::from(value).expect("f32 and f64 hold every f32")
}

fn double<T: NdFloat>(element: T) -> f64 {
    element.to_f64().expect("a float")
}

fn from_double<T: NdFloat>(x: f64) -> T {
    T::from(x).expect("a float")
}

fn from_slice<T: NdFloat>(shape: (usize, usize), values: &[T]) -> ReferenceTensor<T> {
    ArrayView2::from_shape(shape, values).expect("declared with this shape").to_owned()
}
