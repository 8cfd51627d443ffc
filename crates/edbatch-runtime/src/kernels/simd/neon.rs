//! NEON: 4 lanes, 32 registers. Every 64-bit Arm CPU has it.

use std::arch::aarch64::*;

use super::{Kernel, Simd};

/// Proof that the CPU has the features listed at [`run`].
#[derive(Clone, Copy)]
pub(super) struct Neon(());

/// Runs a kernel, which is compiled into this function with NEON instructions.
#[target_feature(enable = "neon")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Neon(()))
}

// A `Neon` is created only in `run`, whose caller has detected the features. So `self` proves that
// the CPU has the instructions.
impl Simd for Neon {
    const LANES: usize = 4;
    const REGISTERS: usize = 32;
    const MASKS: bool = false;
    type Vector = float32x4_t;
    type Mask = uint32x4_t;

    #[inline(always)]
    fn outlined<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "neon")]
        #[inline(never)]
        fn run<K: Kernel>(simd: Neon, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` proves NEON.
        unsafe { run(self, kernel) }
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> float32x4_t {
        // SAFETY: `self` proves NEON; the caller guarantees 4 floats.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> float32x4_t {
        // SAFETY: `self` proves NEON; each arm reads `count` floats, which the caller guarantees.
        unsafe {
            let zero = vdup_n_f32(0.0);
            match count {
                0 => vcombine_f32(zero, zero),
                1 => vcombine_f32(vld1_lane_f32::<0>(from, zero), zero),
                2 => vcombine_f32(vld1_f32(from), zero),
                3 => vcombine_f32(vld1_f32(from), vld1_lane_f32::<0>(from.add(2), zero)),
                _ => vld1q_f32(from),
            }
        }
    }

    #[inline(always)]
    unsafe fn load_columns(self, from: *const f32, stride: usize) -> [float32x4_t; 4] {
        // SAFETY: `self` proves NEON; the caller guarantees four floats in each of four rows.
        unsafe {
            let row = |i: usize| vld1q_f32(from.add(i * stride));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (even_ab, even_cd) = (vtrn1q_f32(a, b), vtrn1q_f32(c, d));
            let (odd_ab, odd_cd) = (vtrn2q_f32(a, b), vtrn2q_f32(c, d));
            let low = |x, y| vcombine_f32(vget_low_f32(x), vget_low_f32(y));
            let high = |x, y| vcombine_f32(vget_high_f32(x), vget_high_f32(y));
            [
                low(even_ab, even_cd),
                low(odd_ab, odd_cd),
                high(even_ab, even_cd),
                high(odd_ab, odd_cd),
            ]
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: float32x4_t) {
        // SAFETY: `self` proves NEON; the caller guarantees 4 floats.
        unsafe { vst1q_f32(to, x) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, x: float32x4_t, count: usize) {
        // SAFETY: `self` proves NEON; each arm writes `count` floats, which the caller guarantees.
        unsafe {
            match count {
                0 => {}
                1 => vst1q_lane_f32::<0>(to, x),
                2 => vst1_f32(to, vget_low_f32(x)),
                3 => {
                    vst1_f32(to, vget_low_f32(x));
                    vst1q_lane_f32::<2>(to.add(2), x);
                }
                _ => vst1q_f32(to, x),
            }
        }
    }

    #[inline(always)]
    fn lookup<const N: usize>(self, table: &[f32; N], i: float32x4_t) -> float32x4_t {
        const { assert!(N == 8 || N == 16) };
        // SAFETY: `self` proves NEON; `table` has the 8 or 16 floats that are read.
        unsafe {
            let part = |at: usize| vreinterpretq_u8_f32(vld1q_f32(table[at..][..4].as_ptr()));
            // Float i consists of the bytes 4i, 4i + 1, 4i + 2 and 4i + 3.
            let i = vandq_u32(vreinterpretq_u32_f32(i), vdupq_n_u32(N as u32 - 1));
            let bytes = vmlaq_n_u32(vdupq_n_u32(0x0302_0100), i, 0x0404_0404);
            let bytes = vreinterpretq_u8_u32(bytes);
            vreinterpretq_f32_u8(match N {
                8 => vqtbl2q_u8(uint8x16x2_t(part(0), part(4)), bytes),
                _ => vqtbl4q_u8(uint8x16x4_t(part(0), part(4), part(8), part(12)), bytes),
            })
        }
    }

    #[inline(always)]
    fn bits(self, mask: uint32x4_t) -> u32 {
        const PLACES: [u32; 4] = [1, 2, 4, 8];
        // SAFETY: `self` proves NEON; `PLACES` has four lanes.
        unsafe { vaddvq_u32(vandq_u32(mask, vld1q_u32(PLACES.as_ptr()))) }
    }

    by_intrinsics! {
        splat(x: f32) -> float32x4_t = vdupq_n_f32(x);
        add(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
        sub(a: float32x4_t, b: float32x4_t) -> float32x4_t = vsubq_f32(a, b);
        mul(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
        div(a: float32x4_t, b: float32x4_t) -> float32x4_t = vdivq_f32(a, b);
        mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
        neg_mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t =
            vfmsq_f32(c, a, b);
        upper(pairs: float32x4_t) -> float32x4_t =
            vreinterpretq_f32_u32(
                vandq_u32(vreinterpretq_u32_f32(pairs), vdupq_n_u32(0xffff_0000)));
        lower(pairs: float32x4_t) -> float32x4_t =
            vreinterpretq_f32_u32(vshlq_n_u32::<16>(vreinterpretq_u32_f32(pairs)));
        min(bound: float32x4_t, x: float32x4_t) -> float32x4_t = vminq_f32(bound, x);
        max(bound: float32x4_t, x: float32x4_t) -> float32x4_t = vmaxq_f32(bound, x);
        sqrt(x: float32x4_t) -> float32x4_t = vsqrtq_f32(x);
        abs(x: float32x4_t) -> float32x4_t = vabsq_f32(x);
        copy_sign(magnitude: float32x4_t, x: float32x4_t) -> float32x4_t =
            vbslq_f32(vdupq_n_u32(1 << 31), x, magnitude);
        less(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcltq_f32(a, b);
        is_nan(x: float32x4_t) -> uint32x4_t = vmvnq_u32(vceqq_f32(x, x));
        select(mask: uint32x4_t, yes: float32x4_t, no: float32x4_t) -> float32x4_t =
            vbslq_f32(mask, yes, no);
        power_of_two(shifted: float32x4_t) -> float32x4_t =
            vreinterpretq_f32_u32(vshlq_n_u32::<23>(vreinterpretq_u32_f32(shifted)));
        add_exponent_eighths(x: float32x4_t, n: float32x4_t) -> float32x4_t = {
            let n = vshlq_n_u32::<20>(vreinterpretq_u32_f32(n));
            vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(x), n))
        };
        exponent(x: float32x4_t) -> float32x4_t = {
            let biased = vshrq_n_s32::<23>(vreinterpretq_s32_f32(x));
            vcvtq_f32_s32(vsubq_s32(biased, vdupq_n_s32(127)))
        };
        mantissa(x: float32x4_t) -> float32x4_t = {
            let fraction = vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x007f_ffff));
            vreinterpretq_f32_u32(vorrq_u32(fraction, vdupq_n_u32(127 << 23)))
        };
    }
}
