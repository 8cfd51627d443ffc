//! The reference interpreter: computes a graph node by node, with ndarray. Slow and short; every
//! backend is compared with it.

mod gradients;

use edbatch_graph::{
    Arity, Cell, Dag, Graph, Instruction, Network, NodeId, Op, Port, Reduction, Shape, Slope,
    Source,
};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, NdFloat, Zip, concatenate, s, stack};

pub use gradients::{ReferenceGradients, interpret_gradients};

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
            Op::OneHot { table } => {
                let mut one_hot = ReferenceTensor::zeros(shape);
                one_hot[(rows[usize::from(table)] as usize, 0)] = T::one();
                one_hot
            }
            Op::Ties { port, field } => {
                let values = ports[usize::from(port)].iter().map(|v| &v[usize::from(field)]);
                values.fold(ReferenceTensor::zeros(shape), |ties, value| {
                    let equal = Zip::from(value)
                        .and(operands[0])
                        .map_collect(|a, b| if a == b { T::one() } else { T::zero() });
                    ties + equal
                })
            }
            Op::AttentionBack { port, keys, values, heads } => {
                let fields = [usize::from(keys), usize::from(values)];
                attention_back(&ports[usize::from(port)], fields, heads, &operands)
            }
            Op::Share { port } => &operands[0] / number::<T>(ports[usize::from(port)].len() as f32),
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
        Op::Sqrt => a.mapv(T::sqrt),
        Op::Erf => a.mapv(|x| T::from(libm::erf(x.to_f64().expect("a float"))).expect("a float")),
        Op::Maximum => Zip::from(&wide(0)).and(&wide(1)).map_collect(|&a, &b| match () {
            () if b.is_nan() || a < b => b,
            () => a,
        }),
        Op::Minimum => Zip::from(&wide(0)).and(&wide(1)).map_collect(|&a, &b| match () {
            () if b.is_nan() || b < a => b,
            () => a,
        }),
        Op::Larger => Zip::from(&wide(0)).and(&wide(1)).map_collect(|&a, &b| match () {
            () if a > b => one,
            () if a < b => zero,
            () => number(0.5),
        }),
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
        Op::Softmax => by_rows(a, instruction.shape, |row| {
            let exp = shifted(row).mapv(T::exp);
            let sum = exp.sum();
            exp / sum
        }),
        Op::LogSoftmax => by_rows(a, instruction.shape, |row| {
            let shifted = shifted(row);
            let log = shifted.mapv(T::exp).sum().ln();
            shifted - log
        }),
        Op::LayerNorm(epsilon) => by_rows(a, instruction.shape, |row| {
            let mean = row.sum() / number(row.len() as f32);
            rms_norm(row.mapv(|x| x - mean), epsilon)
        }),
        Op::RmsNorm(epsilon) => {
            by_rows(a, instruction.shape, |row| rms_norm(row.to_owned(), epsilon))
        }
        Op::Dot => {
            let products = &a * &operands[1];
            let rows = products.into_shape_with_order((shape.0, a.len() / shape.0));
            rows.expect("row-major").sum_axis(Axis(1)).insert_axis(Axis(1))
        }
        Op::Reshape(_) => {
            let elements = a.iter().copied().collect();
            ReferenceTensor::from_shape_vec(shape, elements).expect("as many elements")
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

/// Applies `f` to a vector, or to each row of a matrix, as an array of one dimension.
fn by_rows<T: NdFloat>(
    a: ArrayView2<'_, T>,
    shape: Shape,
    f: impl Fn(ArrayView1<'_, T>) -> Array1<T>,
) -> ReferenceTensor<T> {
    match shape {
        Shape::Vector(_) => f(a.column(0)).insert_axis(Axis(1)),
        Shape::Matrix(..) => {
            let rows: Vec<Array1<T>> = a.rows().into_iter().map(f).collect();
            let rows: Vec<ArrayView1<'_, T>> = rows.iter().map(|row| row.view()).collect();
            stack(Axis(0), &rows).expect("rows of equal lengths")
        }
    }
}

/// Returns a row divided by √(mean of the squares + epsilon).
fn rms_norm<T: NdFloat>(row: Array1<T>, epsilon: f32) -> Array1<T> {
    let mean = row.mapv(|x| x * x).sum() / number(row.len() as f32);
    let root = (mean + number(epsilon)).sqrt();
    row.mapv(|x| x / root)
}

/// Returns a vector as a matrix with a row for each head.
fn heads_of<T: NdFloat>(vector: ArrayView2<'_, T>, heads: u32) -> ReferenceTensor<T> {
    let rows = (heads as usize, vector.len() / heads as usize);
    let elements = vector.iter().copied().collect();
    ReferenceTensor::from_shape_vec(rows, elements).expect("heads divide the width")
}

/// Returns the sum of a field over the values at a port, weighted by the softmax of their scores.
fn weighted<T: NdFloat>(
    port: &PortValues<'_, T>,
    scores: &[Array1<T>],
    field: usize,
    heads: u32,
) -> ReferenceTensor<T> {
    let values = port.iter().map(|value| heads_of(value[field].view(), heads));
    let values: Vec<ReferenceTensor<T>> = values.collect();
    let mut sum = ReferenceTensor::zeros(values[0].dim());
    for (head, mut sum) in sum.rows_mut().into_iter().enumerate() {
        let of_head: Array1<T> = scores.iter().map(|scores| scores[head]).collect();
        let exp = shifted(of_head.view()).mapv(T::exp);
        for (value, &weight) in values.iter().zip(&exp) {
            sum.scaled_add(weight, &value.row(head));
        }
        sum /= exp.sum();
    }
    let elements = sum.into_iter().collect::<Vec<T>>();
    ReferenceTensor::from_shape_vec((elements.len(), 1), elements).expect("a column")
}

/// Returns the gradient of attention's query, the log-sum-exp of each head's scores, and the inner
/// product of each head's result and its gradient.
fn attention_back<T: NdFloat>(
    port: &PortValues<'_, T>,
    [keys, values]: [usize; 2],
    heads: u32,
    operands: &[ArrayView2<'_, T>],
) -> ReferenceTensor<T> {
    let [query, gradient] = [0, 1].map(|operand| heads_of(operands[operand], heads));
    let field = |field: usize| -> Vec<ReferenceTensor<T>> {
        port.iter().map(|value| heads_of(value[field].view(), heads)).collect()
    };
    let (keys, values) = (field(keys), field(values));
    let mut result = Vec::new();
    let (mut logs, mut products) = (Vec::new(), Vec::new());
    for head in 0..heads as usize {
        let scores: Array1<T> =
            keys.iter().map(|key| key.row(head).dot(&query.row(head))).collect();
        let max = scores.fold(T::neg_infinity(), |max, &x| max.max(x));
        let exp = scores.mapv(|score| (score - max).exp());
        logs.push(max + exp.sum().ln());
        let p = &exp / exp.sum();
        let of_values: Array1<T> =
            values.iter().map(|value| value.row(head).dot(&gradient.row(head))).collect();
        let product = p.dot(&of_values);
        products.push(product);
        let mut sum = Array1::zeros(keys[0].ncols());
        for ((key, &p), &of_value) in keys.iter().zip(&p).zip(&of_values) {
            sum.scaled_add(p * (of_value - product), &key.row(head));
        }
        result.extend(sum);
    }
    result.extend(logs.into_iter().chain(products));
    ReferenceTensor::from_shape_vec((result.len(), 1), result).expect("a column")
}

fn shifted<T: NdFloat>(a: ArrayView1<'_, T>) -> Array1<T> {
    let max = a.fold(T::neg_infinity(), |max, &x| if x.is_nan() { x } else { max.max(x) });
    a.mapv(|x| x - max)
}

/// Reduces values of this shape. There may be none in a gradient; a forward call has at least one.
fn reduce<'a, T: NdFloat>(
    mut values: impl ExactSizeIterator<Item = &'a ReferenceTensor<T>>,
    by: Reduction,
    shape: (usize, usize),
) -> ReferenceTensor<T> {
    let count = values.len();
    if by == Reduction::LogSumExp {
        return log_sum_exp(values, shape);
    }
    let Some(mut result) = values.next().cloned() else { return ReferenceTensor::zeros(shape) };
    for value in values {
        match by {
            Reduction::Sum | Reduction::Mean => result += value,
            Reduction::Max => result.zip_mut_with(value, |a, &b| {
                *a = if a.is_nan() || b.is_nan() { T::nan() } else { a.max(b) };
            }),
            Reduction::LogSumExp => unreachable!("computed above"),
        }
    }
    if by == Reduction::Mean {
        result /= number::<T>(count as f32);
    }
    result
}

/// Returns ln Σ exp v, element by element. Where the maximum is infinite, nothing is subtracted.
fn log_sum_exp<'a, T: NdFloat>(
    values: impl ExactSizeIterator<Item = &'a ReferenceTensor<T>>,
    shape: (usize, usize),
) -> ReferenceTensor<T> {
    let values: Vec<&ReferenceTensor<T>> = values.collect();
    ReferenceTensor::from_shape_fn(shape, |at| {
        if let [alone] = values[..] {
            return alone[at];
        }
        let column: Array1<T> = values.iter().map(|value| value[at]).collect();
        let max = column.fold(T::neg_infinity(), |max, &x| if x <= max { max } else { x });
        let shift = if max.is_infinite() { T::zero() } else { max };
        shift + column.mapv(|x| (x - shift).exp()).sum().ln()
    })
}

fn from_slice<T: NdFloat>(shape: (usize, usize), values: &[T]) -> ReferenceTensor<T> {
    ArrayView2::from_shape(shape, values).expect("declared with this shape").to_owned()
}

fn number<T: NdFloat>(value: f32) -> T {
    T::from(value).expect("f32 and f64 hold every f32")
}
