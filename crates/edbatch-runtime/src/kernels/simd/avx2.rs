//! AVX2 and FMA: 8 lanes, 16 registers. In a mask, the bits of each lane are all ones or all zeros.

use std::arch::x86_64::*;

use super::{Kernel, Simd};

/// Proof that the CPU has the features listed at [`run`].
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Runs a kernel, which is compiled into this function with AVX2 instructions.
#[target_feature(enable = "avx2,fma")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// Returns a mask of the first `count <= 8` lanes, for masked loads and stores.
#[inline(always)]
fn first(_: Avx2, count: usize) -> __m256i {
    const WINDOW: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    let window: &[i32; 8] = WINDOW[8 - count..][..8].try_into().expect("a slice of eight");
    // SAFETY: the argument proves AVX2; `window` has the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(window.as_ptr().cast()) }
}

// An `Avx2` is created only in `run`, whose caller has detected the features. So `self` proves that
// the CPU has the instructions.
impl Simd for Avx2 {
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    const MASKS: bool = true;
    type Vector = __m256;
    type Mask = __m256;

    #[inline(always)]
    fn outlined<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma")]
        #[inline(never)]
        fn run<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` proves AVX2.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m256 {
        // SAFETY: `self` proves AVX2; the caller guarantees 8 floats.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> __m256 {
        // SAFETY: `self` proves AVX2; masked lanes are not read, and the caller guarantees
        // the others.
        unsafe { _mm256_maskload_ps(from, first(self, count)) }
    }

    #[inline(always)]
    unsafe fn load_columns(self, from: *const f32, stride: usize) -> [__m256; 4] {
        // SAFETY: `self` proves AVX2; the caller guarantees four floats in each of 8 rows.
        unsafe {
            // Load rows q and q + 4 into the halves of a vector, then transpose 4×4 blocks within
            // the halves.
            let row = |i: usize| _mm_loadu_ps(from.add(i * stride));
            let halves = |q: usize| _mm256_set_m128(row(q + 4), row(q));
            let (a, b, c, d) = (halves(0), halves(1), halves(2), halves(3));
            let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (high_ab, high_cd) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            [
                _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
                _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
                _mm256_shuffle_ps::<0b01_00_01_00>(high_ab, high_cd),
                _mm256_shuffle_ps::<0b11_10_11_10>(high_ab, high_cd),
            ]
        }
    }

    #[inline(always)]
    fn prefetch(self, from: *const f32) {
        // SAFETY: every x86-64 CPU has the instruction, and it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m256) {
        // SAFETY: `self` proves AVX2; the caller guarantees 8 floats.
        unsafe { _mm256_storeu_ps(to, x) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, x: __m256, count: usize) {
        // A masked store takes 12 cycles on AMD's processors, and loads wait for it.
        if count == 8 {
            // SAFETY: the caller guarantees 8 floats.
            return unsafe { self.store(to, x) };
        }
        // SAFETY: `self` proves AVX2; masked lanes are not written, and the caller guarantees
        // the others.
        unsafe { _mm256_maskstore_ps(to, first(self, count), x) }
    }

    #[inline(always)]
    fn lookup<const N: usize>(self, table: &[f32; N], i: __m256) -> __m256 {
        const { assert!(N == 8 || N == 16) };
        // SAFETY: `self` proves AVX2; `table` has the 8 or 16 floats that are read.
        unsafe {
            let i = _mm256_castps_si256(i);
            let low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table.as_ptr()), i);
            if N == 8 {
                return low;
            }
            let high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table[N - 8..].as_ptr()), i);
            // Move bit 3 of the index to the sign bit, which selects the lane in a blend.
            _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(i)))
        }
    }

    by_intrinsics! {
        splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        neg_mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fnmadd_ps(a, b, c);
        upper(pairs: __m256) -> __m256 = {
            let upper = _mm256_set1_epi32(0xffff_0000_u32 as i32);
            _mm256_and_ps(pairs, _mm256_castsi256_ps(upper))
        };
        lower(pairs: __m256) -> __m256 =
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_castps_si256(pairs)));
        // The instruction returns its second operand if either is NaN.
        min(bound: __m256, x: __m256) -> __m256 = _mm256_min_ps(bound, x);
        max(bound: __m256, x: __m256) -> __m256 = _mm256_max_ps(bound, x);
        sqrt(x: __m256) -> __m256 = _mm256_sqrt_ps(x);
        abs(x: __m256) -> __m256 = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
        copy_sign(magnitude: __m256, x: __m256) -> __m256 =
            _mm256_or_ps(magnitude, _mm256_and_ps(x, _mm256_set1_ps(-0.0)));
        less(a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
        is_nan(x: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x);
        bits(mask: __m256) -> u32 = _mm256_movemask_ps(mask) as u32;
        select(mask: __m256, yes: __m256, no: __m256) -> __m256 = _mm256_blendv_ps(no, yes, mask);
        power_of_two(shifted: __m256) -> __m256 =
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(shifted)));
        add_exponent_eighths(x: __m256, n: __m256) -> __m256 = {
            let n = _mm256_slli_epi32::<20>(_mm256_castps_si256(n));
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), n))
        };
        exponent(x: __m256) -> __m256 = {
            let biased = _mm256_srli_epi32::<23>(_mm256_castps_si256(x));
            _mm256_cvtepi32_ps(_mm256_sub_epi32(biased, _mm256_set1_epi32(127)))
        };
        mantissa(x: __m256) -> __m256 = {
            let fraction = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x007f_ffff));
            _mm256_castsi256_ps(_mm256_or_si256(fraction, _mm256_set1_epi32(127 << 23)))
        };
    }
}
