//! Softmax and norms, attention and reductions of the reference interpreter.

use edbatch_graph::{Normalization, Reduction, Shape};
use ndarray::{Array1, ArrayView1, ArrayView2, Axis, NdFloat, stack};

use super::{PortValues, ReferenceTensor, number};

/// Applies a softmax or a norm to a vector, or to each row of a matrix.
pub(super) fn normalize<T: NdFloat>(
    by: Normalization,
    a: ArrayView2<'_, T>,
    shape: Shape,
) -> ReferenceTensor<T> {
    let normalized = |row: ArrayView1<'_, T>| match by {
        Normalization::Softmax => {
            let exp = shifted(row).mapv(T::exp);
            let sum = exp.sum();
            exp / sum
        }
        Normalization::LogSoftmax => {
            let shifted = shifted(row);
            let log = shifted.mapv(T::exp).sum().ln();
            shifted - log
        }
        Normalization::LayerNorm(epsilon) => {
            let mean = row.sum() / number(row.len() as f32);
            rms_norm(row.mapv(|x| x - mean), epsilon)
        }
        Normalization::RmsNorm(epsilon) => rms_norm(row.to_owned(), epsilon),
    };
    match shape {
        Shape::Vector(_) => normalized(a.column(0)).insert_axis(Axis(1)),
        Shape::Matrix(..) => {
            let rows: Vec<Array1<T>> = a.rows().into_iter().map(normalized).collect();
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
pub(super) fn heads_of<T: NdFloat>(vector: ArrayView2<'_, T>, heads: u32) -> ReferenceTensor<T> {
    let rows = (heads as usize, vector.len() / heads as usize);
    let elements = vector.iter().copied().collect();
    ReferenceTensor::from_shape_vec(rows, elements).expect("heads divide the width")
}

/// Returns the sum of a field over the values at a port, weighted by the softmax of their scores.
pub(super) fn weighted<T: NdFloat>(
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
pub(super) fn attention_back<T: NdFloat>(
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
pub(super) fn reduce<'a, T: NdFloat>(
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
