//! One small matrix product per instance of a batch: of two values, or of a weight and a value.
//! MV-RNN needs them.
//!
//! Each row of a batch holds a row-major matrix. It is not packed, since it is used only once.

use std::ptr;

use smallvec::SmallVec;

use super::{
    format::Floats,
    isa::Level,
    micro_kernel::{Access, BLOCK, Pointers, Right, even_parts, micro_tiles},
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, MAX_LANES, Simd},
};

/// The left factor of a batch of small products.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a> {
    /// One matrix per instance: row b holds (M, K).
    Each(RowsRef<'a>),
    /// One matrix (M, K) for all instances: a weight.
    Same(&'a [f32]),
}

/// Consecutive rows of the right factor of a batch of small products.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The number of rows of the right matrix in this piece, at most K.
    pub depth: usize,
    /// Row b holds this piece of the right matrix of instance b: (`depth`, N).
    pub values: RowsRef<'a>,
}

/// The shape of each product of a batch: (M, K) by (K, N).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmShape {
    /// M: rows of the left matrix and of the result.
    pub rows: usize,
    /// K: columns of the left matrix and rows of the right matrix.
    pub depth: usize,
    /// N: columns of the right matrix and of the result, 1 for a matrix-vector product.
    pub columns: usize,
}

/// `out[b, m, n] = bias[b, m] + (left[b] · right[b])[m, n]`.
///
/// In each row of the batch, `left` holds (M, K), `bias` (M) and `out` (M, N); the pieces of
/// `right`, stacked vertically, hold (K, N). All are row-major `f32`, contiguous within their rows,
/// and read in place. Each element is a chain of fused multiply-adds over k, starting at zero, as
/// in [`product`](super::product()). The bias is added last.
///
/// # Panics
///
/// If the numbers of rows differ, a row is shorter than its matrix, the depths of the pieces do not
/// add up to K, or the width of `out` is not M·N.
pub fn batched_gemm(
    level: Level,
    shape: GemmShape,
    left: Left<'_>,
    right: &[Piece<'_>],
    bias: Option<RowsRef<'_>>,
    out: RowsMut<'_>,
) {
    for piece in right {
        assert_eq!(piece.values.len(), out.len(), "right matrices and results");
    }
    let depth: usize = right.iter().map(|piece| piece.depth).sum();
    assert_eq!(shape.depth, depth, "K and the depths of the pieces");
    if let Some(bias) = bias {
        assert_eq!(bias.len(), out.len(), "biases and results");
    }
    assert_eq!(shape.rows * shape.columns, out.width(), "elements of a result");
    match left {
        Left::Each(rows) => assert_eq!(rows.len(), out.len(), "left matrices and results"),
        Left::Same(matrix) => {
            assert_eq!(shape.rows * shape.depth, matrix.len(), "elements of the left matrix")
        }
    }
    simd::run(level, Batched { shape, left, right, bias, out });
}

/// *Invariant*, checked by [`batched_gemm`]: all fields have the same number of rows, and the
/// depths of the pieces add up to K.
struct Batched<'a> {
    shape: GemmShape,
    left: Left<'a>,
    right: &'a [Piece<'a>],
    bias: Option<RowsRef<'a>>,
    out: RowsMut<'a>,
}

/// The right matrix of one instance, piece by piece.
type Pieces<'a> = SmallVec<[&'a [f32]; 4]>;

impl<'a> Kernel for Batched<'a> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let GemmShape { rows, depth, columns } = self.shape;
        let mut pointers = Pointers::new(false);
        for b in 0..self.out.len() {
            let left = match self.left {
                Left::Each(each) => each.row(b, rows * depth),
                Left::Same(matrix) => matrix,
            };
            let piece = |piece: &Piece<'a>| piece.values.row(b, piece.depth * columns);
            let right: Pieces<'_> = self.right.iter().map(piece).collect();
            let out = self.out.row(b);
            if columns == 1 {
                matrix_vector::<S>(simd, depth, left, &right, out);
            } else {
                matrix_matrix::<S>(simd, self.shape, left, &right, out, &mut pointers);
            }
            if let Some(bias) = self.bias {
                for (out, &bias) in out.chunks_exact_mut(columns).zip(bias.row(b, rows)) {
                    out.iter_mut().for_each(|out| *out += bias);
                }
            }
        }
    }
}

/// `out[m] = Σ_k left[m, k] · right[k]`. Each lane computes one row m, so columns are transposed as
/// they are loaded.
#[inline(always)]
fn matrix_vector<S: Simd>(simd: S, depth: usize, left: &[f32], right: &[&[f32]], out: &mut [f32]) {
    /// Number of vectors computed together, to hide the latency of the multiply-adds. With more,
    /// too many cache lines map to the same sets.
    const VECTORS: usize = 2;
    let mut first = 0;
    while first + VECTORS * S::LANES <= out.len() {
        transposed::<S, VECTORS>(simd, depth, &left[first * depth..], right, &mut out[first..]);
        first += VECTORS * S::LANES;
    }
    while first + S::LANES <= out.len() {
        transposed::<S, 1>(simd, depth, &left[first * depth..], right, &mut out[first..]);
        first += S::LANES;
    }
    for m in first..out.len() {
        chain(simd, &left[m * depth..][..depth], right, &mut out[m]);
    }
}

/// Floats per cache line.
const LINE: usize = 16;

/// Computes the first V vectors of the result of [`matrix_vector`].
#[inline(always)]
fn transposed<S: Simd, const V: usize>(
    simd: S,
    depth: usize,
    left: &[f32],
    right: &[&[f32]],
    out: &mut [f32],
) {
    let rows = V * S::LANES;
    let (left, out) = (&left[..rows * depth], &mut out[..rows]);
    let mut sums = [simd.splat(0.0); V];
    let mut k = 0;
    for piece in right {
        assert!(k + piece.len() <= depth, "the depths of the pieces exceed {depth}");
        let mut fours = piece.chunks_exact(4);
        for x in fours.by_ref() {
            // The hardware prefetches one stream, but not a stream per row. So prefetch the
            // contiguous rows that follow these. After the last rows this is useless, but
            // harmless.
            for line in (rows * k..rows * (k + 4)).step_by(LINE) {
                simd.prefetch(left.as_ptr().wrapping_add(left.len() + line));
            }
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: k + 4 <= depth, and the LANES rows of `left` from v·LANES on are below
                // `rows`.
                let columns = unsafe {
                    let from = left.as_ptr().add(v * S::LANES * depth + k);
                    simd.load_columns(from, depth)
                };
                for (column, &x) in columns.into_iter().zip(x) {
                    *sum = simd.mul_add(column, simd.splat(x), *sum);
                }
            }
            k += 4;
        }
        for &x in fours.remainder() {
            for (v, sum) in sums.iter_mut().enumerate() {
                let mut column = [0.0; MAX_LANES];
                for (i, lane) in column.iter_mut().enumerate().take(S::LANES) {
                    *lane = left[(v * S::LANES + i) * depth + k];
                }
                // SAFETY: `column` has MAX_LANES floats.
                let column = unsafe { simd.load(column.as_ptr()) };
                *sum = simd.mul_add(column, simd.splat(x), *sum);
            }
            k += 1;
        }
    }
    for (out, &sum) in out.chunks_exact_mut(S::LANES).zip(&sums) {
        // SAFETY: the chunk has LANES floats.
        unsafe { simd.store(out.as_mut_ptr(), sum) };
    }
}

/// Computes one element of [`matrix_vector`]. All lanes compute the same number.
#[inline(always)]
fn chain<S: Simd>(simd: S, left: &[f32], right: &[&[f32]], out: &mut f32) {
    let mut sum = simd.splat(0.0);
    for (&a, &x) in left.iter().zip(right.iter().copied().flatten()) {
        sum = simd.mul_add(simd.splat(a), simd.splat(x), sum);
    }
    // SAFETY: `out` is one float, and one float is written.
    unsafe { simd.store_first(out, sum, 1) };
}

/// `out[m, n] = Σ_k left[m, k] · right[k, n]`
#[inline(always)]
fn matrix_matrix<S: Simd>(
    simd: S,
    shape: GemmShape,
    left: &[f32],
    right: &[&[f32]],
    out: &mut [f32],
    pointers: &mut Pointers,
) {
    let GemmShape { rows, depth, columns } = shape;
    for block in even_parts(rows, BLOCK) {
        pointers.clear();
        for m in block {
            let left = left[m * depth..][..depth].as_ptr();
            let out = out[m * columns..][..columns].as_mut_ptr();
            pointers.push(left, ptr::null(), out);
        }
        let mut at = 0;
        while at < columns {
            let vectors = (columns - at) / S::LANES;
            let piece = |piece: &&[f32]| Right {
                depth: piece.len() / columns,
                start: piece.as_ptr().wrapping_add(at),
                step: columns,
                second: 2 * S::LANES,
                prefetch: 0,
            };
            let pieces: SmallVec<[Right; 4]> = right.iter().map(piece).collect();
            let width = if vectors >= 4 && S::REGISTERS >= 32 {
                4 * S::LANES
            } else if vectors >= 2 {
                2 * S::LANES
            } else {
                S::LANES.min(columns - at)
            };
            // SAFETY: the pointers are of rows of `depth` floats (left) and `columns` floats (out).
            // The pieces have `depth` rows together, of `columns` floats each. at + width <=
            // columns, so all these rows have `width` floats from `at` on. `out` is borrowed
            // exclusively.
            unsafe {
                if width == 4 * S::LANES {
                    micro_tiles::<S, Floats, 4>(simd, &pieces, Access::Full, pointers, at, width);
                } else if width == 2 * S::LANES {
                    micro_tiles::<S, Floats, 2>(simd, &pieces, Access::Full, pointers, at, width);
                } else {
                    micro_tiles::<S, Floats, 1>(
                        simd,
                        &pieces,
                        Access::Partial,
                        pointers,
                        at,
                        width,
                    );
                }
            }
            at += width;
        }
    }
}
