//! AVX-512: 16 lanes, 32 registers, and mask registers; with or without instructions for bf16.

use std::{arch::x86_64::*, mem::transmute};

use super::{Kernel, Simd};

/// Proof that the CPU has the features listed at [`run`], or those listed at [`run_bf16`].
#[derive(Clone, Copy)]
pub(super) struct Avx512<const BF16: bool>(());

/// Runs a kernel, which is compiled into this function with AVX-512 instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512::<false>(()))
}

/// Runs a kernel, which is compiled into this function with AVX-512 and bf16 instructions.
#[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
pub(super) fn run_bf16<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512::<true>(()))
}

#[inline(always)]
fn first(count: usize) -> __mmask16 {
    debug_assert!(count <= 16);
    ((1u32 << count) - 1) as __mmask16
}

// An `Avx512` is created only in `run` and `run_bf16`, whose callers have detected the features. So
// `self` proves that the CPU has the instructions.
impl<const BF16: bool> Simd for Avx512<BF16> {
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    const MASKS: bool = true;
    const PAIRS: bool = BF16;
    type Vector = __m512;
    type Mask = __mmask16;

    #[inline(always)]
    fn outlined<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        #[inline(never)]
        fn run<K: Kernel, const BF16: bool>(simd: Avx512<BF16>, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` proves AVX-512.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        // SAFETY: `self` proves AVX-512; the caller guarantees 16 floats.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> __m512 {
        // SAFETY: `self` proves AVX-512; masked lanes are not read, and the caller guarantees
        // the others.
        unsafe { _mm512_maskz_loadu_ps(first(count), from) }
    }

    #[inline(always)]
    unsafe fn load_columns(self, from: *const f32, stride: usize) -> [__m512; 4] {
        // SAFETY: `self` proves AVX-512; the caller guarantees four floats in each of 16 rows.
        unsafe {
            // Load rows q, q + 4, q + 8 and q + 12 into the quarters of a vector, then transpose
            // 4×4 blocks within the quarters.
            let row = |i: usize| _mm_loadu_ps(from.add(i * stride));
            let quarters = |q: usize| {
                let rows = _mm512_broadcast_f32x4(row(q));
                let rows = _mm512_mask_broadcast_f32x4(rows, 0x00f0, row(q + 4));
                let rows = _mm512_mask_broadcast_f32x4(rows, 0x0f00, row(q + 8));
                _mm512_mask_broadcast_f32x4(rows, 0xf000, row(q + 12))
            };
            let (a, b, c, d) = (quarters(0), quarters(1), quarters(2), quarters(3));
            let (ab, cd) = (_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d));
            let (high_ab, high_cd) = (_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d));
            [
                _mm512_shuffle_ps::<0b01_00_01_00>(ab, cd),
                _mm512_shuffle_ps::<0b11_10_11_10>(ab, cd),
                _mm512_shuffle_ps::<0b01_00_01_00>(high_ab, high_cd),
                _mm512_shuffle_ps::<0b11_10_11_10>(high_ab, high_cd),
            ]
        }
    }

    #[inline(always)]
    fn prefetch(self, from: *const f32) {
        // SAFETY: every x86-64 CPU has the instruction, and it never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: __m512) {
        // SAFETY: `self` proves AVX-512; the caller guarantees 16 floats.
        unsafe { _mm512_storeu_ps(to, x) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, x: __m512, count: usize) {
        // SAFETY: `self` proves AVX-512; masked lanes are not written, and the caller guarantees
        // the others.
        unsafe { _mm512_mask_storeu_ps(to, first(count), x) }
    }

    #[inline(always)]
    fn lookup<const N: usize>(self, table: &[f32; N], i: __m512) -> __m512 {
        const { assert!(N == 8 || N == 16) };
        // SAFETY: `self` proves AVX-512; `table` has the 8 or 16 floats that are read.
        unsafe {
            let table = match N {
                8 => _mm512_broadcast_f32x8(_mm256_loadu_ps(table.as_ptr())),
                _ => _mm512_loadu_ps(table.as_ptr()),
            };
            _mm512_permutexvar_ps(_mm512_castps_si512(i), table)
        }
    }

    #[inline(always)]
    fn mul_add_pairs(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        assert!(BF16, "no instruction for pairs of bf16");
        // SAFETY: `self` proves AVX-512 and bf16; the types are bits of vectors of equal size.
        let a = unsafe { transmute::<__m512, __m512bh>(a) };
        // SAFETY: as above.
        let b = unsafe { transmute::<__m512, __m512bh>(b) };
        // SAFETY: as above.
        unsafe { _mm512_dpbf16_ps(c, a, b) }
    }

    #[inline(always)]
    fn round_pairs(self, a: __m512, b: __m512) -> __m512 {
        assert!(BF16, "no instruction for pairs of bf16");
        // SAFETY: `self` proves AVX-512 and bf16; the types are bits of vectors of equal size.
        unsafe { transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(b, a)) }
    }

    #[inline(always)]
    fn bits(self, mask: __mmask16) -> u32 {
        mask.into()
    }

    by_intrinsics! {
        splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        neg_mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fnmadd_ps(a, b, c);
        upper(pairs: __m512) -> __m512 = {
            let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs), upper))
        };
        lower(pairs: __m512) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_castps_si512(pairs)));
        // The instruction returns its second operand if either is NaN.
        min(bound: __m512, x: __m512) -> __m512 = _mm512_min_ps(bound, x);
        max(bound: __m512, x: __m512) -> __m512 = _mm512_max_ps(bound, x);
        sqrt(x: __m512) -> __m512 = _mm512_sqrt_ps(x);
        abs(x: __m512) -> __m512 = _mm512_abs_ps(x);
        copy_sign(magnitude: __m512, x: __m512) -> __m512 =
            _mm512_or_ps(magnitude, _mm512_and_ps(x, _mm512_set1_ps(-0.0)));
        less(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        is_nan(x: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        select(mask: __mmask16, yes: __m512, no: __m512) -> __m512 =
            _mm512_mask_blend_ps(mask, no, yes);
        power_of_two(shifted: __m512) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_castps_si512(shifted)));
        add_exponent_eighths(x: __m512, n: __m512) -> __m512 = {
            let n = _mm512_slli_epi32::<20>(_mm512_castps_si512(n));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), n))
        };
        exponent(x: __m512) -> __m512 = {
            let biased = _mm512_srli_epi32::<23>(_mm512_castps_si512(x));
            _mm512_cvtepi32_ps(_mm512_sub_epi32(biased, _mm512_set1_epi32(127)))
        };
        mantissa(x: __m512) -> __m512 = {
            let fraction = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x007f_ffff));
            _mm512_castsi512_ps(_mm512_or_si512(fraction, _mm512_set1_epi32(127 << 23)))
        };
    }
}
