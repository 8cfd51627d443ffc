//! Vectors of `f32` lanes, with the same operations at every instruction level.
//!
//! A value of a type that implements [`Simd`] proves that the CPU has the level's instructions: it
//! is created only after they were detected, so its arithmetic is safe to call. Kernels are written
//! once, over the trait:
//!
//! ```text
//! impl Kernel for Sum { fn run<S: Simd>(self, simd: S) -> … }     all of it #[inline(always)]
//! run(level, Sum { … })           a #[target_feature] function per level, the kernel inlined
//! ```
//!
//! *Invariant*: everything between [`run`] and an intrinsic is `#[inline(always)]`. A call that is
//! not inlined is compiled without the level's instructions: still correct, but ten times slower.

/// Implements safe methods of [`Simd`] by intrinsics. The type must prove that the CPU has them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! by_intrinsics {
    ($($name:ident($($x:ident: $type:ty),*) -> $result:ty = $value:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($x: $type),*) -> $result {
            // SAFETY: `self` proves that the CPU has the instructions, which access no memory.
            unsafe { $value }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use super::isa::Level;

/// A computation that is compiled for every instruction level.
pub(super) trait Kernel {
    /// The result, `()` if the kernel writes through a reference.
    type Output;

    /// Runs the computation. Implementations must be `#[inline(always)]`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs a kernel with the instructions of `level`.
///
/// # Panics
///
/// If this machine lacks these instructions.
#[inline]
pub(super) fn run<K: Kernel>(level: Level, kernel: K) -> K::Output {
    assert!(
        level.is_available(),
        "this machine does not support {level}: choose one of {:?}",
        Level::available()
    );
    match level {
        // SAFETY: `is_available` has just detected the features that `avx512::run` enables.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx512Bf16 => unsafe { avx512::run(kernel) },
        // SAFETY: the same for `avx2::run`.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::run(kernel) },
        // SAFETY: the same for `neon::run`.
        #[cfg(target_arch = "aarch64")]
        Level::Neon => unsafe { neon::run(kernel) },
        _ => kernel.run(portable::Portable),
    }
}

/// Like [`run`], for kernels of pairs of bf16: with the level's instruction for them, if any.
///
/// # Panics
///
/// If this machine lacks the instructions of `level`.
#[inline]
pub(super) fn run_pairs<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level {
        // SAFETY: `is_available` has just detected the features that `run_bf16` enables.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Bf16 if level.is_available() => unsafe { avx512::run_bf16(kernel) },
        _ => run(level, kernel),
    }
}

/// Returns the number of lanes of a vector at `level`.
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

/// The number of lanes of the widest vector.
pub(super) const MAX_LANES: usize = 16;

/// 1.5 · 2²³ + 127. Adding it to a small float rounds the float to an integer `n`; the low bits of
/// the sum are then `n + 127`, the biased exponent of 2ⁿ.
pub(super) const ROUND_AND_BIAS: f32 = 12_583_039.0;

/// Operations on vectors of [`LANES`](Simd::LANES) `f32` lanes, all of them lane by lane.
pub(super) trait Simd: Copy {
    /// The number of lanes of a vector.
    const LANES: usize;
    /// The number of vector registers, 16 or 32: decides the size of the micro-tiles of a product.
    const REGISTERS: usize;
    /// True if [`load_first`](Simd::load_first) and [`store_first`](Simd::store_first) are one
    /// instruction each. Otherwise they branch, and loops over them are too long to unroll.
    const MASKS: bool;
    /// True if the level has instructions for pairs of bf16. A pair is a lane; its first element is
    /// in the lower half.
    const PAIRS: bool = false;
    /// A vector.
    type Vector: Copy;
    /// A boolean per lane.
    type Mask: Copy;

    /// Runs a kernel in a function that is not inlined, so that its constants stay in registers. In
    /// a large function with many loops the compiler reloads them in every loop.
    fn outlined<K: Kernel>(self, kernel: K) -> K::Output;

    /// Returns `x` in every lane.
    fn splat(self, x: f32) -> Self::Vector;

    /// Reads a vector, from any alignment.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `LANES` floats.
    unsafe fn load(self, from: *const f32) -> Self::Vector;

    /// Reads the first `count <= LANES` lanes and sets the others to zero.
    ///
    /// # Safety
    ///
    /// `from` must be readable for `count` floats. Nothing after them is read.
    unsafe fn load_first(self, from: *const f32, count: usize) -> Self::Vector;

    /// Reads four columns of `LANES` rows: lane i of vector j is `from[i * stride + j]`.
    ///
    /// # Safety
    ///
    /// `from + i * stride` must be readable for four floats, for every i in `0..LANES`.
    unsafe fn load_columns(self, from: *const f32, stride: usize) -> [Self::Vector; 4];

    /// Prefetches the cache line at `from`, which may be any address. Does nothing if the level has
    /// no instruction for it.
    #[inline(always)]
    fn prefetch(self, from: *const f32) {
        let _ = from;
    }

    /// Writes a vector, to any alignment.
    ///
    /// # Safety
    ///
    /// `to` must be writable for `LANES` floats.
    unsafe fn store(self, to: *mut f32, x: Self::Vector);

    /// Writes the first `count <= LANES` lanes.
    ///
    /// # Safety
    ///
    /// `to` must be writable for `count` floats. Nothing after them is written.
    unsafe fn store_first(self, to: *mut f32, x: Self::Vector, count: usize);

    /// `a + b`
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a - b`
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a · b`
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a / b`
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a · b + c`, rounded once. The portable level rounds twice unless the target guarantees a
    /// fused instruction.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `c - a · b`, rounded like [`mul_add`](Simd::mul_add).
    fn neg_mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// `c + a₁ · b₁ + a₀ · b₀` for pairs of bf16 `(a₀, a₁)` and `(b₀, b₁)` in each lane, rounded
    /// after each of the two additions. Results below 2⁻¹²⁶ become zero. Only if
    /// [`PAIRS`](Simd::PAIRS).
    fn mul_add_pairs(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        let _ = (a, b, c);
        unreachable!("no instruction for pairs of bf16")
    }
    /// Rounds the elements of `a` and `b` to bf16 and packs them as pairs, `a` first. Only if
    /// [`PAIRS`](Simd::PAIRS).
    fn round_pairs(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        let _ = (a, b);
        unreachable!("no instruction for pairs of bf16")
    }
    /// The second element of each pair of bf16, as a float.
    fn upper(self, pairs: Self::Vector) -> Self::Vector;
    /// The first element of each pair of bf16, as a float.
    fn lower(self, pairs: Self::Vector) -> Self::Vector;
    /// The smaller of the two, or NaN if `x` is NaN. `bound` must not be NaN.
    fn min(self, bound: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// The larger of the two, or NaN if `x` is NaN. `bound` must not be NaN.
    fn max(self, bound: Self::Vector, x: Self::Vector) -> Self::Vector;

    /// √x, correctly rounded.
    fn sqrt(self, x: Self::Vector) -> Self::Vector;
    /// |x|
    fn abs(self, x: Self::Vector) -> Self::Vector;
    /// `magnitude`, which must not be negative, with the sign of `x`.
    fn copy_sign(self, magnitude: Self::Vector, x: Self::Vector) -> Self::Vector;
    /// `table[bits(i) mod N]`, where `bits(i)` is the bit pattern of `i` as an integer. N is 8 or
    /// 16.
    fn lookup<const N: usize>(self, table: &[f32; N], i: Self::Vector) -> Self::Vector;
    /// The float with the bits `bits(x) + 2²⁰ · bits(n)` modulo 2³². Since the exponent begins at
    /// bit 23, this is `x · 2^(n/8)` for integers `bits(n)` that are multiples of 8.
    fn add_exponent_eighths(self, x: Self::Vector, n: Self::Vector) -> Self::Vector;

    /// `a < b`, false if either is NaN.
    fn less(self, a: Self::Vector, b: Self::Vector) -> Self::Mask;
    /// True where `x` is NaN.
    fn is_nan(self, x: Self::Vector) -> Self::Mask;
    /// The mask as an integer, with lane i in bit i.
    fn bits(self, mask: Self::Mask) -> u32;
    /// `yes` where the mask is true, `no` elsewhere.
    fn select(self, mask: Self::Mask, yes: Self::Vector, no: Self::Vector) -> Self::Vector;

    /// 2ⁿ, given the float [`ROUND_AND_BIAS`]` + n` for n in -127..=128: 0 at -127, ∞ at 128.
    fn power_of_two(self, shifted: Self::Vector) -> Self::Vector;
    /// The exponent e of a positive normal `x` = m · 2ᵉ, 1 <= m < 2.
    fn exponent(self, x: Self::Vector) -> Self::Vector;
    /// The mantissa m of a positive normal `x` = m · 2ᵉ, 1 <= m < 2.
    fn mantissa(self, x: Self::Vector) -> Self::Vector;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads all of `from` into the first lanes of a vector; writes these lanes to `first`, and the
    /// whole vector to `whole`.
    struct First<'a> {
        from: &'a [f32],
        first: &'a mut [f32],
        whole: &'a mut [f32; MAX_LANES],
    }

    impl Kernel for First<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let count = self.from.len();
            assert!(count <= S::LANES && count <= self.first.len());
            // SAFETY: `from` has `count` floats, `first` at least `count`, `whole` MAX_LANES.
            unsafe {
                let x = simd.load_first(self.from.as_ptr(), count);
                simd.store_first(self.first.as_mut_ptr(), x, count);
                simd.store(self.whole.as_mut_ptr(), x);
            }
        }
    }

    #[test]
    fn partial_loads_and_stores_leave_the_rest_alone() {
        for level in Level::available() {
            let lanes = lanes(level);
            for count in 0..=lanes {
                let from: Vec<f32> = (1..=count).map(|i| i as f32).collect();
                let (mut first, mut whole) = ([-1.0; MAX_LANES], [-1.0; MAX_LANES]);
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
