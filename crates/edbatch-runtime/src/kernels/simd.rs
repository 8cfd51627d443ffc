//! Vectors of `f32` lanes, the same operations at every instruction level.
//!
//! A value of a type that implements [`Simd`] is a proof: it is made only where the level's
//! instructions are known to be there, so its arithmetic is safe to call. Kernels are written once
//! over the trait:
//!
//! ```text
//! impl Kernel for Sum { fn run<S: Simd>(self, simd: S) -> … }     all of it #[inline(always)]
//! run(level, Sum { … })           a #[target_feature] function per level, the kernel inlined
//! ```
//!
//! *Invariant*: everything between [`run`] and an intrinsic is `#[inline(always)]`. A call that is
//! not inlined would be compiled without the level's instructions: still correct, but an order of
//! magnitude slower.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use super::isa::Level;

/// A computation that is compiled for every level.
pub(super) trait Kernel {
    /// What it computes, `()` if it writes through a reference.
    type Output;

    /// Computes it; implementors say `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs a kernel with the instructions of `level`.
///
/// # Panics
///
/// If this machine lacks them.
#[inline]
pub(super) fn run<K: Kernel>(level: Level, kernel: K) -> K::Output {
    assert!(
        level.is_available(),
        "this machine has no {level}: choose one of {:?}",
        Level::available()
    );
    match level {
        // SAFETY: the features that `avx512::run` enables were just found, by `is_available`.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512::run(kernel) },
        // SAFETY: likewise.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::run(kernel) },
        // SAFETY: likewise.
        #[cfg(target_arch = "aarch64")]
        Level::Neon => unsafe { neon::run(kernel) },
        _ => kernel.run(portable::Portable),
    }
}

/// The lanes of a vector at `level`.
pub(super) fn lanes(level: Level) -> usize {
    struct Lanes;
    impl Kernel for Lanes {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::LANES
        }
    }
    run(level, Lanes)
}

/// The lanes of the widest level.
pub(super) const MOST_LANES: usize = 16;

/// Added to a small float, it leaves the nearest integer in the low bits, and the exponent's bias:
/// 1.5 · 2²³ + 127.
pub(super) const ROUNDING: f32 = 12_583_039.0;

/// Operations on vectors of [`LANES`](Simd::LANES) lanes of `f32`, each lane on its own.
pub(super) trait Simd: Copy {
    /// Lanes of a vector.
    const LANES: usize;
    /// Vector registers, 16 or 32: decides how large the micro-tiles of a product are.
    const REGISTERS: usize;
    /// Whether [`load_first`](Simd::load_first) and [`store_first`](Simd::store_first) are an
    /// instruction each. Else they branch, and loops over them are too long to unroll.
    const MASKS: bool;
    /// A vector.
    type Vector: Copy;
    /// A truth value per lane.
    type Mask: Copy;

    /// Runs a kernel as a function of its own, which is not inlined: its constants stay in
    /// registers. In a large function with many loops they are read again and again.
    fn apart<K: Kernel>(self, kernel: K) -> K::Output;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::Vector;

    /// Reads a vector; any alignment.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `LANES` floats.
    unsafe fn load(self, from: *const f32) -> Self::Vector;

    /// Reads the first `count <= LANES` lanes; the others are zero.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `count` floats; nothing behind them is touched.
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::Vector;

    /// Reads four columns of as many rows as there are lanes: lane i of vector j is `from[i ·
    /// stride + j]`.
    ///
    /// # Safety
    ///
    /// From each of the rows, four floats must be readable.
    unsafe fn load_columns(self, from: *const f32, stride: usize) -> [Self::Vector; 4];

    /// Asks for the cache line at `from`, which need not be memory of ours: nothing is read. No
    /// request where the level has no instruction for it.
    #[inline(always)]
    fn prefetch(self, from: *const f32) {
        let _ = from;
    }

    /// Writes a vector; any alignment.
    ///
    /// # Safety
    ///
    /// `to` must be writable for `LANES` floats.
    unsafe fn store(self, to: *mut f32, x: Self::Vector);

    /// Writes the first `count <= LANES` lanes.
    ///
    /// # Safety
    ///
    /// `to` must be writable for `count` floats; nothing behind them is touched.
    unsafe fn store_first(self, to: *mut f32, x: Self::Vector, count: usize);

    /// `a + b`
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a · b`
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b`
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a · b + c`, rounded once where the level fuses; the portable one fuses where the target
    /// guarantees it.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `c - a · b`, likewise.
    fn neg_mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// The smaller; `x` where it is NaN. `bound` is not NaN.
    fn min(self, bound: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// The larger; `x` where it is NaN. `bound` is not NaN.
    fn max(self, bound: Self::Vector, x: Self::Vector) -> Self::Vector;

    /// |x|
    fn abs(self, x: Self::Vector) -> Self::Vector;
    /// `size`, which is not negative, with the sign of `x`.
    fn with_sign_of(self, size: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// `table[i mod N]` for the bits i of a float; N is 8 or 16.
    fn look_up<const N: usize>(self, table: &[f32; N], i: Self::Vector) -> Self::Vector;
    /// The float whose bits are those of `x` plus 2²⁰ times those of `n`, modulo 2³²: x · 2^(n/8)
    /// for a multiple n of 8.
    fn raised(self, x: Self::Vector, n: Self::Vector) -> Self::Vector;

    /// `a < b`, false where one is NaN.
    fn less(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    /// Whether `x` is NaN.
    fn is_nan(self, x: Self::Vector) -> Self::Mask;
    /// The mask as a number: bit i is the truth of lane i.
    fn bits(self, mask: Self::Mask) -> u32;
    /// `yes` where the mask is true, else `no`.
    fn select(self, mask: Self::Mask, yes: Self::Vector, no: Self::Vector) -> Self::Vector;

    /// 2ⁿ from the float [`ROUNDING`]` + n`, n in -127..=128: zero at -127, infinite at 128.
    fn power_of_two(self, shifted: Self::Vector) -> Self::Vector;
    /// The exponent e of x = m · 2ᵉ, 1 <= m < 2, of a positive normal `x`.
    fn exponent(self, x: Self::Vector) -> Self::Vector;
    /// The m of x = m · 2ᵉ, 1 <= m < 2, of a positive normal `x`.
    fn mantissa(self, x: Self::Vector) -> Self::Vector;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the first lanes from `from`, as many as there are, and writes them to `first` and all
    /// lanes to `whole`.
    struct First<'a> {
        from: &'a [f32],
        first: &'a mut [f32],
        whole: &'a mut [f32; MOST_LANES],
    }

    impl Kernel for First<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let count = self.from.len();
            assert!(count <= S::LANES && count <= self.first.len());
            // SAFETY: `from` has `count` floats, `first` no fewer, `whole` as many as any vector.
            unsafe {
                let x = simd.load_first(self.from.as_ptr(), count);
                simd.store_first(self.first.as_mut_ptr(), x, count);
                simd.store(self.whole.as_mut_ptr(), x);
            }
        }
    }

    #[test]
    fn first_lanes_leave_what_is_behind_them() {
        for level in Level::available() {
            let lanes = lanes(level);
            for count in 0..=lanes {
                let from: Vec<f32> = (1..=count).map(|i| i as f32).collect();
                let (mut first, mut whole) = ([-1.0; MOST_LANES], [-1.0; MOST_LANES]);
                run(level, First { from: &from, first: &mut first, whole: &mut whole });
                assert_eq!(first[..count], from, "{level}: {count}");
                assert!(first[count..].iter().all(|&x| x == -1.0), "{level}: {count}: {first:?}");
                assert_eq!(whole[..count], from, "{level}: {count}");
                assert!(
                    whole[count..lanes].iter().all(|&x| x == 0.0),
                    "{level}: {count}: {whole:?}"
                );
            }
        }
    }
}
