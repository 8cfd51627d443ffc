//! Functions of slices: σ, tanh, exp, ln, and softmax of a row.
//!
//! | function | error | limits |
//! |---|---|---|
//! | σ | at most 2e-7; at most 4 ulp while normal, zero or nearly so below | 0 at -∞, 1 at ∞ |
//! | tanh | at most 5 ulp | ±1 at ±∞ |
//! | exp | at most 2 ulp, subnormal results included | 0 at -∞ |
//! | ln | at most 2 ulp | -∞ at 0, NaN below |

use super::{
    isa::Level,
    lanewise::{self, Lanewise},
    simd::{self, Kernel, MOST_LANES, Simd},
};

/// `row[i] = exp(row[i] - max) / Σ_j exp(row[j] - max)`. Term j adds to partial sum j mod 16, and
/// these are added up in their order, so that all levels that fuse give the same bits.
pub fn softmax(level: Level, row: &mut [f32]) {
    simd::run(level, Softmax { row, log: false });
}

/// `row[i] = row[i] - max - ln Σ_j exp(row[j] - max)`, the sum as in [`softmax`].
pub fn log_softmax(level: Level, row: &mut [f32]) {
    simd::run(level, Softmax { row, log: true });
}

struct Softmax<'a> {
    row: &'a mut [f32],
    log: bool,
}

impl Kernel for Softmax<'_> {
    type Output = ();

    /// ```text
    /// max = the largest of row         (NaN if one is)
    /// sum = Σ exp(row[i] - max)        16 partial sums, added up in order
    /// row = exp(row[i] - max) / sum    or  row[i] - max - ln sum
    /// ```
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let largest =
            self.row.iter().fold(f32::NEG_INFINITY, |max, &x| if x <= max { max } else { x });
        let max = simd.splat(largest);
        let len = self.row.len();
        let row = self.row.as_mut_ptr();
        let mut partial = [0.0; MOST_LANES];
        const { assert!(MOST_LANES.is_multiple_of(S::LANES)) };
        for i in (0..len).step_by(S::LANES) {
            let lanes = S::LANES.min(len - i);
            // SAFETY: i + lanes <= len.
            let x = simd.sub(unsafe { simd.load_first(row.add(i), lanes) }, max);
            let e = lanewise::Exp.of(simd, [x]);
            // Lanes behind the row hold exp(-max): cut them off on the way through memory.
            let mut kept = [0.0; MOST_LANES];
            // SAFETY: lanes <= LANES <= MOST_LANES; i + lanes <= len. `i` is a multiple of LANES,
            // and so is MOST_LANES, hence LANES partial sums begin at i mod MOST_LANES.
            unsafe {
                simd.store_first(kept.as_mut_ptr(), e, lanes);
                let sums = partial.as_mut_ptr().add(i % MOST_LANES);
                simd.store(sums, simd.add(simd.load(sums), simd.load(kept.as_ptr())));
                simd.store_first(row.add(i), if self.log { x } else { e }, lanes);
            }
        }
        let sum = simd.splat(partial.iter().sum());
        let ln = lanewise::Log.of(simd, [sum]);
        for i in (0..len).step_by(S::LANES) {
            let lanes = S::LANES.min(len - i);
            // SAFETY: i + lanes <= len.
            unsafe {
                let x = simd.load_first(row.add(i), lanes);
                simd.store_first(
                    row.add(i),
                    if self.log { simd.sub(x, ln) } else { simd.div(x, sum) },
                    lanes,
                );
            }
        }
    }
}
