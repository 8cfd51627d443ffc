//! Products with TF32 operands: their error, and the dependence of their bits.

use super::{Kernel, Random};

/// The command list: rows, depth, width, columns, first column, start of the output; the start of
/// each row. Weights are resident or streamed.
fn wave(resident: bool) -> String {
    // Resident weights contain only the columns of the block.
    let weights = match resident {
        false => {
            "auto of = [&](u32 q) {
            return Column{a.weights + 4 * (first + q), 4 * width, 0};
        };"
        }
        true => {
            "static float own[1 << 16];
        for (u32 k = 0; k < (depth + 3) / 4 * 4; ++k)
            for (u32 q = 0; q < columns; ++q)
                own[(k / 4 * columns + q) * 4 + k % 4] =
                    a.weights[(k / 4 * width + first + q) * 4 + k % 4];
        auto of = [&](u32 q) { return Column{own + 4 * q, 4 * columns, 0}; };"
        }
    };
    format!(
        "const u32* list = a.commands;
        u32 count = list[0], depth = list[1], width = list[2], columns = list[3];
        u32 first = list[4];
        {weights}
        auto row = [&](u32 r) -> const float* {{ return a.arena + list[6 + r]; }};
        product_tf32<{}>(block, count, depth,
            [&](u32 from, u32 length) {{ load_tile(block, count, from, length, rows(row, 0)); }},
            stack<0>(columns, of, [&](u32 q, auto results) {{
                results.set(a.arena + list[5] + first + q, width);
            }}));",
        !resident
    )
}

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

    /// Returns the sums of the chosen rows for the columns from `first` on, and NaN for the others.
    fn sums(&self, kernel: &Kernel<super::Emulated>, chosen: &[usize], first: usize) -> Vec<f32> {
        let Self { depth, width, weights, rows } = self;
        let mut packed = vec![0.0; depth.div_ceil(4) * width * 4];
        for (column, weights) in weights.chunks_exact(*depth).enumerate() {
            for (k, &w) in weights.iter().enumerate() {
                packed[(k / 4 * width + column) * 4 + k % 4] = w;
            }
        }
        let head = [chosen.len(), *depth, *width, width - first, first, rows.len()];
        let starts = chosen.iter().map(|row| row * depth);
        let commands: Vec<u32> = head.into_iter().chain(starts).map(|n| n as u32).collect();
        let left = kernel.run((1, &commands, &packed, rows, chosen.len() * width));
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
    let Some(streamed) = Kernel::emulated(1, "", &wave(false)) else { return };
    let resident = Kernel::emulated(2, "", &wave(true)).expect("there is a compiler");
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
        let sums = product.sums(&streamed, &all, 0);
        for (i, &sum) in sums.iter().enumerate() {
            let (exact, sizes) = product.exact(i / width, i % width);
            let unit = 2_f64.powi(-22);
            let bound = (2_f64.powi(-10) + unit + depth as f64 * unit) * sizes;
            let error = (f64::from(sum) - exact).abs();
            assert!(error <= bound, "{count} rows, {depth} by {width}: {error} of {bound}");
            worst = worst.max(error / bound);
            rounded += usize::from(error > 2_f64.powi(-20) * sizes);
        }
        // The same rows at other positions of the tile, with other rows, and with resident weights.
        let backwards: Vec<usize> = all.iter().rev().copied().collect();
        let first = width / 3;
        for (kernel, chosen, first) in [
            (&streamed, &backwards[..], 0),
            (&streamed, &all[count / 2..], first),
            (&resident, &all, first),
        ] {
            let other = product.sums(kernel, chosen, first);
            for (index, &row) in chosen.iter().enumerate() {
                for column in 0..width {
                    let (got, expected) =
                        (other[index * width + column], sums[row * width + column]);
                    let same = got.to_bits() == expected.to_bits();
                    assert!(if column < first { got.is_nan() } else { same }, "{row}, {column}");
                }
            }
        }
    }
    // The bound is tight, and operands are rounded.
    assert!((0.05..1.0).contains(&worst) && rounded > 1000, "{worst}, {rounded}");
}
