//! The reference interpreter: computes a graph node by node, with ndarray. Slow and short; every
//! backend is compared with it.

use edbatch_graph::{Cell, Dag, Graph, Instruction, NodeId, Op, Reduction, Shape, Source};
use ndarray::{Array2, ArrayView2, Axis, concatenate, s};

use crate::Parameters;

/// A tensor: a matrix, or a vector as a single column.
pub type ReferenceTensor = Array2<f32>;

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
    assert_eq!(given.len(), graph.given().len(), "records and given values of the graph");
    assert!(parameters.are_of(graph.network()), "the parameters belong to another network");
    let mut results: Vec<Vec<ReferenceTensor>> = Vec::with_capacity(graph.nodes());
    for node in (0..graph.nodes()).map(NodeId::new) {
        let values: Vec<&[ReferenceTensor]> = graph
            .values(node)
            .map(|value| match value.source() {
                Source::Node(node) => results[node.index()].as_slice(),
                Source::Given(index) => given[index].as_slice(),
            })
            .collect();
        let cell = &graph.network()[graph.kind(node)];
        results.push(call(cell, parameters, graph.rows(node), &values));
    }
    results
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

fn call(
    cell: &Cell,
    parameters: &Parameters,
    rows: &[u32],
    values: &[&[ReferenceTensor]],
) -> Vec<ReferenceTensor> {
    let mut vars: Vec<ReferenceTensor> = Vec::with_capacity(cell.instructions().len());
    for instruction in cell.instructions() {
        let operands: Vec<ArrayView2<'_, f32>> =
            instruction.operands.iter().map(|operand| vars[operand.index()].view()).collect();
        let result = match instruction.op {
            Op::Input { port, field } => values[usize::from(port)][usize::from(field)].clone(),
            Op::Reduce { port, field, by } => {
                let fields = values[usize::from(port)..].iter().map(|v| &v[usize::from(field)]);
                reduce(fields, by)
            }
            Op::Lookup { table } => {
                let shape = instruction.shape.rows_and_columns();
                let elements = instruction.shape.elements();
                let start = rows[usize::from(table)] as usize * elements;
                let data = parameters.get(cell.tables()[usize::from(table)].parameter);
                from_slice(shape, &data[start..start + elements])
            }
            Op::Parameter(id) => {
                from_slice(instruction.shape.rows_and_columns(), parameters.get(id))
            }
            Op::Constant(value) => {
                ReferenceTensor::from_elem(instruction.shape.rows_and_columns(), value)
            }
            _ => operate(instruction, &operands),
        };
        vars.push(result);
    }
    cell.outputs().iter().map(|output| vars[output.index()].clone()).collect()
}

fn operate(instruction: &Instruction, operands: &[ArrayView2<'_, f32>]) -> ReferenceTensor {
    let a = operands[0];
    // Broadcasts an operand of an element-wise operation to the shape of the result.
    let shape = instruction.shape.rows_and_columns();
    let wide = |i: usize| operands[i].broadcast(shape).expect("shapes were inferred").to_owned();
    match instruction.op {
        Op::MatMul => a.dot(&operands[1]),
        Op::Add => wide(0) + wide(1),
        Op::Sub => wide(0) - wide(1),
        Op::Mul => wide(0) * wide(1),
        Op::Div => wide(0) / wide(1),
        Op::Neg => a.mapv(|x| -x),
        Op::Scale(factor) => a.mapv(|x| factor * x),
        Op::Sigmoid => a.mapv(|x| 1.0 / (1.0 + (-x).exp())),
        Op::Tanh => a.mapv(f32::tanh),
        Op::Relu => a.mapv(|x| if x.is_nan() { x } else { x.max(0.0) }),
        Op::Exp => a.mapv(f32::exp),
        Op::Log => a.mapv(f32::ln),
        Op::Softmax => {
            let exp = shifted(a).mapv(f32::exp);
            let sum = exp.sum();
            exp / sum
        }
        Op::LogSoftmax => {
            let shifted = shifted(a);
            let log = shifted.mapv(f32::exp).sum().ln();
            shifted - log
        }
        Op::Concat => concatenate(Axis(0), operands).expect("shapes were inferred"),
        Op::Slice { start, rows } => {
            let (start, end) = (start as usize, (start + rows) as usize);
            a.slice(s![start..end, ..]).to_owned()
        }
        Op::Transpose => a.t().as_standard_layout().into_owned(),
        op => unreachable!("{op} has no operands"),
    }
}

fn shifted(a: ArrayView2<'_, f32>) -> ReferenceTensor {
    let max = a.fold(f32::NEG_INFINITY, |max, &x| if x.is_nan() { x } else { max.max(x) });
    a.mapv(|x| x - max)
}

fn reduce<'a>(
    mut values: impl ExactSizeIterator<Item = &'a ReferenceTensor>,
    by: Reduction,
) -> ReferenceTensor {
    let count = values.len();
    let mut result = values.next().expect("a call has at least one value at every port").clone();
    for value in values {
        match by {
            Reduction::Sum | Reduction::Mean => result += value,
            Reduction::Max => result.zip_mut_with(value, |a, &b| {
                *a = if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) };
            }),
        }
    }
    if by == Reduction::Mean {
        result /= count as f32;
    }
    result
}

fn from_slice(shape: (usize, usize), values: &[f32]) -> ReferenceTensor {
    ArrayView2::from_shape(shape, values).expect("declared with this shape").to_owned()
}
