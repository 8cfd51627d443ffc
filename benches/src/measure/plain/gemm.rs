//! The fastest third-party matrix product for each shape.
//!
//! There are two libraries ([`Library`]), each with the weight as it is or transposed. When a
//! weight of a new shape is loaded, all four combinations are timed for several numbers of rows.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use edbatch_runtime::kernels::Aligned;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};

use super::reserve;

/// A third-party matrix product on one core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Library {
    /// The crate `matrixmultiply`, by way of ndarray, with its kernels for AVX-512.
    MatrixMultiply,
    /// The crate `faer`.
    Faer,
}

/// A row-major matrix with rows `stride` apart, or its transpose.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// All elements, from the first to the last.
    pub data: &'a [f32],
    /// Rows in memory.
    pub rows: usize,
    /// Columns in memory.
    pub columns: usize,
    /// Elements between starts of rows.
    pub stride: usize,
    /// True for the transpose.
    pub transposed: bool,
}

/// `out = a · b`, or `out = out + a · b` if `adds`; out is (M, N), row-major, rows `stride` apart.
pub fn multiply(
    library: Library,
    a: Matrix<'_>,
    b: Matrix<'_>,
    (out, stride): (&mut [f32], usize),
    adds: bool,
) {
    let ((m, _), (_, n)) = (a.shape(), b.shape());
    let out = &mut out[..end(m, n, stride)];
    match library {
        Library::MatrixMultiply => {
            let mut out = ArrayViewMut2::from_shape((m, n).strides((stride, 1)), out)
                .expect("rows do not overlap");
            let beta = if adds { 1.0 } else { 0.0 };
            general_mat_mul(1.0, &a.of_ndarray(), &b.of_ndarray(), beta, &mut out);
        }
        Library::Faer => {
            // Column-major and transposed, because the row-major constructor confuses its strides.
            let out = MatMut::from_column_major_slice_with_stride_mut(out, n, m, stride);
            let out = out.transpose_mut();
            let accum = if adds { Accum::Add } else { Accum::Replace };
            matmul(out, accum, a.of_faer(), b.of_faer(), 1.0, Par::Seq);
        }
    }
}

fn end(rows: usize, columns: usize, stride: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1) * stride + columns }
}

impl<'a> Matrix<'a> {
    /// A matrix without gaps between rows.
    pub fn dense(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self { data, rows, columns, stride: columns, transposed: false }
    }

    fn shape(&self) -> (usize, usize) {
        if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) }
    }

    fn elements(&self) -> &'a [f32] {
        &self.data[..end(self.rows, self.columns, self.stride)]
    }

    fn of_ndarray(&self) -> ArrayView2<'a, f32> {
        let shape = (self.rows, self.columns).strides((self.stride, 1));
        let view = ArrayView2::from_shape(shape, self.elements()).expect("a whole matrix");
        if self.transposed { view.reversed_axes() } else { view }
    }

    fn of_faer(&self) -> MatRef<'a, f32> {
        let Self { rows, columns, stride, .. } = *self;
        let view = MatRef::from_row_major_slice_with_stride(self.elements(), rows, columns, stride);
        if self.transposed { view.transpose() } else { view }
    }
}

/// A weight (N, K), stored as it is, transposed, or both, depending on the fastest products.
#[derive(Debug)]
pub struct Weight {
    /// N, its rows.
    pub outputs: usize,
    /// K, its columns.
    pub depth: usize,
    as_is: Aligned,
    turned: Aligned,
    choice: Choice,
}

/// By number of rows, in powers of two: the fastest library, and true if it reads the transpose.
type Choice = [(Library, bool); BUCKETS];

/// 1, 2, 4, and so on up to 256 rows.
const BUCKETS: usize = 9;

impl Weight {
    /// Loads a stack of weights of `depth` columns each.
    pub fn new(stack: &[&[f32]], depth: usize) -> Self {
        let elements = stack.concat();
        let outputs = elements.len() / depth;
        let (mut as_is, mut turned) = (Aligned::default(), Aligned::default());
        reserve(&mut as_is, elements.len());
        reserve(&mut turned, elements.len());
        as_is.copy_from_slice(&elements);
        for (n, row) in as_is.chunks_exact(depth).enumerate() {
            row.iter().enumerate().for_each(|(k, &element)| turned[k * outputs + n] = element);
        }
        let choice = [(Library::Faer, false); BUCKETS];
        let mut weight = Self { outputs, depth, as_is, turned, choice };
        weight.choice = fastest(&weight);
        // Frees a copy that no choice reads.
        if weight.choice.iter().all(|&(_, turned)| turned) {
            weight.as_is = Aligned::default();
        } else if weight.choice.iter().all(|&(_, turned)| !turned) {
            weight.turned = Aligned::default();
        }
        weight
    }

    /// Returns the weight as it is, and transposed. One of them may be empty.
    pub fn copies(&self) -> [&Aligned; 2] {
        [&self.as_is, &self.turned]
    }

    /// Computes `out[b, :] = w · x[b, :]`, or adds it to `out` if `adds`. x is (B, K).
    pub fn multiply(&self, x: Matrix<'_>, out: (&mut [f32], usize), adds: bool) {
        let bucket = (x.rows * 3 / 2).max(1).ilog2() as usize;
        self.multiply_by(self.choice[bucket.min(BUCKETS - 1)], x, out, adds);
    }

    fn multiply_by(
        &self,
        (library, turned): (Library, bool),
        x: Matrix<'_>,
        out: (&mut [f32], usize),
        adds: bool,
    ) {
        let weight = if turned {
            Matrix::dense(&self.turned, self.depth, self.outputs)
        } else {
            Matrix { transposed: true, ..Matrix::dense(&self.as_is, self.outputs, self.depth) }
        };
        multiply(library, x, weight, out, adds);
    }
}

/// The fastest choice for each shape of weights, (N, K).
static OF_WEIGHTS: Mutex<BTreeMap<[usize; 2], Choice>> = Mutex::new(BTreeMap::new());
/// The faster library for products of values, by m, k and n.
static OF_VALUES: Mutex<BTreeMap<[usize; 3], Library>> = Mutex::new(BTreeMap::new());

fn locked<T>(measured: &Mutex<T>) -> MutexGuard<'_, T> {
    measured.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fastest(weight: &Weight) -> Choice {
    let shape = [weight.outputs, weight.depth];
    *locked(&OF_WEIGHTS).entry(shape).or_insert_with(|| measure(weight))
}

fn measure(weight: &Weight) -> Choice {
    let most = 1 << (BUCKETS - 1);
    let x = vec![0.5; most * weight.depth];
    let mut out = vec![0.0; most * weight.outputs];
    std::array::from_fn(|bucket| {
        let rows = 1 << bucket;
        let mut time = |way: (Library, bool)| {
            let x = Matrix::dense(&x, rows, weight.depth);
            let mut best = f64::INFINITY;
            let mut spent = 0.0;
            for turn in 0..20 {
                let started = Instant::now();
                weight.multiply_by(way, x, (&mut out, weight.outputs), false);
                black_box(&mut out);
                let seconds = started.elapsed().as_secs_f64();
                // The first turn brings the weight into the cache.
                best = if turn > 0 { seconds.min(best) } else { best };
                spent += seconds;
                if turn > 1 && spent > 5e-4 {
                    break;
                }
            }
            best
        };
        let libraries = [Library::MatrixMultiply, Library::Faer];
        let ways = libraries.map(|library| [(library, false), (library, true)]).concat();
        let times = ways.into_iter().map(|way| (time(way), way));
        times.min_by(|a, b| a.0.total_cmp(&b.0)).expect("four ways").1
    })
}

/// Describes the fastest choices, one line for each shape.
pub fn choices() -> Vec<String> {
    let of_weights = locked(&OF_WEIGHTS);
    let of_weights = of_weights.iter().map(|([outputs, depth], choice)| {
        let by_rows = choice.iter().enumerate().map(|(bucket, (library, turned))| {
            format!("{} {:?}{}", 1 << bucket, library, if *turned { " transposed" } else { "" })
        });
        let by_rows: Vec<String> = by_rows.collect();
        format!("products by {outputs} x {depth}, rows: {}", by_rows.join(", "))
    });
    let of_values = locked(&OF_VALUES);
    let of_values = of_values.iter().map(|([m, k, n], library)| {
        format!("products of values, {m} x {k} by {k} x {n}: {library:?}")
    });
    of_weights.chain(of_values).collect()
}

/// Returns the faster library for products of values (m, k) and (k, n).
pub fn of_values([m, k, n]: [usize; 3]) -> Library {
    *locked(&OF_VALUES).entry([m, k, n]).or_insert_with(|| {
        let (a, b, mut out) = (vec![0.5; m * k], vec![0.5; k * n], vec![0.0; m * n]);
        let mut time = |library: Library| {
            let (a, b) = (Matrix::dense(&a, m, k), Matrix::dense(&b, k, n));
            let turns = (0..20).map(|_| {
                let started = Instant::now();
                multiply(library, a, b, (&mut out, n), false);
                black_box(&mut out);
                started.elapsed().as_secs_f64()
            });
            turns.fold(f64::INFINITY, f64::min)
        };
        let faer = time(Library::Faer) <= time(Library::MatrixMultiply);
        if faer { Library::Faer } else { Library::MatrixMultiply }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_libraries_compute_the_product() {
        let (m, n, k) = (5, 3, 4);
        let w: Vec<f32> = (0..n * k).map(|i| i as f32 - 5.0).collect();
        let mut weight = Weight::new(&[&w], k);
        reserve(&mut weight.as_is, n * k);
        reserve(&mut weight.turned, n * k);
        weight.as_is.copy_from_slice(&w);
        (0..n * k).for_each(|i| weight.turned[i] = w[i % n * k + i / n]);
        // Rows of x are 6 apart, rows of the result 4.
        let x: Vec<f32> = (0..m * 6).map(|i| (i % 7) as f32).collect();
        for library in [Library::MatrixMultiply, Library::Faer] {
            for (turned, adds) in [(false, false), (false, true), (true, false), (true, true)] {
                let mut out = vec![1.0; m * 4];
                let x = Matrix { stride: 6, ..Matrix::dense(&x, m, k) };
                weight.multiply_by((library, turned), x, (&mut out, 4), adds);
                for (b, row) in out.chunks_exact(4).enumerate() {
                    for (i, &got) in row[..n].iter().enumerate() {
                        let product: f32 = (0..k).map(|j| w[i * k + j] * x.data[b * 6 + j]).sum();
                        assert_eq!(got, product + if adds { 1.0 } else { 0.0 }, "{library:?}");
                    }
                    assert_eq!(row[n], 1.0, "gaps between rows are not written");
                }
            }
        }
    }
}
