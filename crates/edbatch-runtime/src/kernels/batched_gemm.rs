//! Products whose two sides are values, or whose weight meets a matrix: what MV-RNN needs.
//!
//! Matrices lie row-major inside the rows of a batch. Nothing is packed, since each is used once.

use std::ptr;

use smallvec::SmallVec;

use super::{
    isa::Level,
    micro_kernel::{Access, BLOCK, Pointers, Right, blocks, even_parts},
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, MOST_LANES, Simd},
};

/// The left side of a batch of small products.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a> {
    /// A matrix per instance: row b holds (M, K).
    Each(RowsRef<'a>),
    /// One matrix (M, K) for all, a weight.
    Same(&'a [f32]),
}

/// Some rows of the right side of a batch of small products.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// How many rows of the right matrix there are, at most K.
    pub depth: usize,
    /// Row b holds them: (`depth`, N).
    pub values: RowsRef<'a>,
}

/// The shape of each product of a batch: (M, K) by (K, N).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemmShape {
    /// M, rows of the left matrix and of the result.
    pub rows: usize,
    /// K, columns of the left and rows of the right matrix.
    pub depth: usize,
    /// N, columns of the right matrix and of the result. 1 for a matrix by a vector.
    pub columns: usize,
}

/// `out[b, m, n] = bias[b, m] + (left[b] · right[b])[m, n]`.
///
/// The pieces of `right`, one under the other, are (K, N); they are read where they lie. `bias`, if
/// there is one, holds (M) in each row, `out` (M, N); all row-major and contiguous inside their
/// rows. Each element is one chain of fused multiply-adds over k from zero, as in
/// [`product`](super::product()), and is then added to its bias.
///
/// # Panics
///
/// If numbers of rows differ, a row is shorter than its matrix, the pieces together have not K
/// rows, or `out` is not as wide as M·N.
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
    assert_eq!(shape.depth, depth, "rows of the right matrix in pieces");
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

/// Checked by [`batched_gemm`]: as many rows in each of the fields, and pieces of K rows together.
struct Batched<'a> {
    shape: GemmShape,
    left: Left<'a>,
    right: &'a [Piece<'a>],
    bias: Option<RowsRef<'a>>,
    out: RowsMut<'a>,
}

/// The right matrix of one product: the rows of each of its pieces.
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

/// `out[m] = Σ_k left[m, k] · right[k]`: a row in each lane, whose columns are transposed on the
/// way in.
#[inline(always)]
fn matrix_vector<S: Simd>(simd: S, depth: usize, left: &[f32], right: &[&[f32]], out: &mut [f32]) {
    /// Vectors of rows at once, to hide the latency of their chains. More touch too many lines of
    /// the same cache sets.
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

/// Floats of a cache line.
const LINE: usize = 16;

/// The first V vectors of elements of [`matrix_vector`].
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
        assert!(k + piece.len() <= depth, "pieces of {depth} rows together");
        let mut fours = piece.chunks_exact(4);
        for x in fours.by_ref() {
            // A core by itself fetches one stream ahead, but not one a row: so we ask, line by
            // line, for the rows that come after these, which are contiguous; behind the last ones,
            // for what is there.
            for line in (rows * k..rows * (k + 4)).step_by(LINE) {
                simd.prefetch(left.as_ptr().wrapping_add(left.len() + line));
            }
            for (v, sum) in sums.iter_mut().enumerate() {
                // SAFETY: k + 4 <= depth, and rows v·LANES.. of `left`, LANES of them, are below
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
                let mut column = [0.0; MOST_LANES];
                for (i, lane) in column.iter_mut().enumerate().take(S::LANES) {
                    *lane = left[(v * S::LANES + i) * depth + k];
                }
                // SAFETY: `column` has room for a vector of every level.
                let column = unsafe { simd.load(column.as_ptr()) };
                *sum = simd.mul_add(column, simd.splat(x), *sum);
            }
            k += 1;
        }
    }
    for (out, &sum) in out.chunks_exact_mut(S::LANES).zip(&sums) {
        // SAFETY: the chunk is a vector.
        unsafe { simd.store(out.as_mut_ptr(), sum) };
    }
}

/// An element of [`matrix_vector`], the same in all lanes.
#[inline(always)]
fn chain<S: Simd>(simd: S, left: &[f32], right: &[&[f32]], out: &mut f32) {
    let mut sum = simd.splat(0.0);
    for (&a, &x) in left.iter().zip(right.iter().copied().flatten()) {
        sum = simd.mul_add(simd.splat(a), simd.splat(x), sum);
    }
    // SAFETY: one float is written, to a place of one float.
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
                ahead: 0,
            };
            let pieces: SmallVec<[Right; 4]> = right.iter().map(piece).collect();
            let width = if vectors >= 4 && S::REGISTERS >= 32 {
                4 * S::LANES
            } else if vectors >= 2 {
                2 * S::LANES
            } else {
                S::LANES.min(columns - at)
            };
            // SAFETY: the pointers are of rows of `depth` and `columns` floats; the pieces have
            // `depth` rows together. at + width <= columns, so that each of these rows has `width`
            // floats from `at`. `out` is exclusively borrowed.
            unsafe {
                if width == 4 * S::LANES {
                    blocks::<S, 4>(simd, &pieces, Access::Whole, pointers, at, width);
                } else if width == 2 * S::LANES {
                    blocks::<S, 2>(simd, &pieces, Access::Whole, pointers, at, width);
                } else {
                    blocks::<S, 1>(simd, &pieces, Access::Cut, pointers, at, width);
                }
            }
            at += width;
        }
    }
}
