//! Products with TF32 operands: their error, and the dependence of their bits.

use super::{Kernel, LIST, Random};

/// Each block computes a slice of the columns. The command list: a job with an operand;
/// depth, width; the start of each row.
const PRODUCT: &str = "
    Share share{0, 0, a.commands[1], block.index, block.slices, 0, TILE};
    Job j(a, a.commands, share, block.ahead());
    u32 width = a.commands[11];
    Stack stack{0, width, a.commands[10], width};
    find_rows(block, j, 1);
    small_tf32(block, j, Rows(j.arena, 0), stack, output(j, width, 0), no_rows());";

/// The arguments of a product.
struct Product {
    depth: usize,
    width: usize,
    weights: Vec<f32>,
    rows: Vec<f32>,
}

impl Product {
    fn random(random: &mut Random, count: usize, depth: usize, width: usize) -> Self {
        let weights = random.floats(width * depth, false);
        let rows = random.floats(count * depth, false);
        Self { depth, width, weights, rows }
    }

    /// Returns the sums of the chosen rows, whose columns are divided between blocks.
    fn sums(&self, kernel: &Kernel<super::Emulated>, chosen: &[usize], blocks: u32) -> Vec<f32> {
        let Self { depth, width, weights, rows } = self;
        let mut packed = vec![0.0; depth.div_ceil(4) * width * 4];
        for (column, weights) in weights.chunks_exact(*depth).enumerate() {
            for (k, &w) in weights.iter().enumerate() {
                packed[(k / 4 * width + column) * 4 + k % 4] = w;
            }
        }
        let (count, out) = (chosen.len(), rows.len());
        let head = [0, count, out, 0, 0, 1, 0, 0, 12, LIST, *depth, *width];
        let starts = chosen.iter().map(|row| row * depth);
        let commands: Vec<u32> = head.into_iter().chain(starts).map(|n| n as u32).collect();
        let left = kernel.run((blocks, &commands, &packed, rows, chosen.len() * width));
        left.arena[rows.len()..].to_vec()
    }

    /// Returns a sum and the sum of the magnitudes of its terms, in f64.
    fn exact(&self, row: usize, column: usize) -> (f64, f64) {
        let row = &self.rows[row * self.depth..][..self.depth];
        let column = &self.weights[column * self.depth..][..self.depth];
        let terms = row.iter().zip(column).map(|(&x, &w)| f64::from(x) * f64::from(w));
        terms.fold((0.0, 0.0), |(sum, sizes), term| (sum + term, sizes + term.abs()))
    }
}

#[test]
fn the_error_is_within_its_bound_and_no_bit_depends_on_other_rows() {
    let Some(kernel) = Kernel::emulated(1, "", PRODUCT) else { return };
    let mut random = Random(7);
    let (mut worst, mut rounded) = (0.0_f64, 0);
    for (count, depth, width) in [
        (1, 1, 1),
        (16, 13, 21),
        (9, 21, 13),
        (16, 256, 129),
        (3, 300, 70),
        (8, 530, 5),
        (5, 8, 64),
    ] {
        let product = Product::random(&mut random, count, depth, width);
        let all: Vec<usize> = (0..count).collect();
        let sums = product.sums(&kernel, &all, 1);
        for (i, &sum) in sums.iter().enumerate() {
            let (exact, sizes) = product.exact(i / width, i % width);
            let unit = 2_f64.powi(-22);
            let bound = (2_f64.powi(-10) + unit + depth as f64 * unit) * sizes;
            let error = (f64::from(sum) - exact).abs();
            assert!(error <= bound, "{count} rows, {depth} by {width}: {error} of {bound}");
            worst = worst.max(error / bound);
            rounded += usize::from(error > 2_f64.powi(-20) * sizes);
        }
        // The same rows at other positions of the tile, with other rows, and on other blocks.
        let backwards: Vec<usize> = all.iter().rev().copied().collect();
        for (chosen, blocks) in [(&backwards[..], 1), (&all[count / 2..], 3), (&all, 5)] {
            let other = product.sums(&kernel, chosen, blocks);
            for (index, &row) in chosen.iter().enumerate() {
                for column in 0..width {
                    let (got, expected) =
                        (other[index * width + column], sums[row * width + column]);
                    assert_eq!(got.to_bits(), expected.to_bits(), "{row}, {column}");
                }
            }
        }
    }
    // The bound is tight, and operands are rounded.
    assert!((0.05..1.0).contains(&worst) && rounded > 1000, "{worst}, {rounded}");
}
