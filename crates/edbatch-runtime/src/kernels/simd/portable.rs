//! Plain Rust: arrays of 4 lanes, which the compiler vectorises for the target's baseline.
//!
//! A multiply-add is fused only if the target guarantees a fused instruction. Otherwise
//! `f32::mul_add` calls a library function, which is a hundred times slower.

use super::{Kernel, Simd};

const LANES: usize = 4;

/// The portable level. Unlike the others it proves nothing: every machine can run it.
#[derive(Clone, Copy)]
pub(super) struct Portable;

/// Four lanes, aligned like a 128-bit register.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct Lanes([f32; LANES]);

#[inline(always)]
fn map(a: Lanes, f: impl Fn(f32) -> f32) -> Lanes {
    Lanes([f(a.0[0]), f(a.0[1]), f(a.0[2]), f(a.0[3])])
}

#[inline(always)]
fn zip(a: Lanes, b: Lanes, f: impl Fn(f32, f32) -> f32) -> Lanes {
    Lanes([f(a.0[0], b.0[0]), f(a.0[1], b.0[1]), f(a.0[2], b.0[2]), f(a.0[3], b.0[3])])
}

#[inline(always)]
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        a.mul_add(b, c)
    } else {
        a * b + c
    }
}

impl Simd for Portable {
    const LANES: usize = LANES;
    const REGISTERS: usize = 16;
    const MASKS: bool = false;
    type Vector = Lanes;
    type Mask = [bool; LANES];

    #[inline(never)]
    fn outlined<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Lanes {
        Lanes([x; LANES])
    }

    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Lanes {
        // SAFETY: the caller guarantees 4 floats, and `[f32; 4]` has the alignment of `f32`.
        Lanes(unsafe { from.cast::<[f32; LANES]>().read() })
    }

    #[inline(always)]
    unsafe fn load_first(self, from: *const f32, count: usize) -> Lanes {
        let mut lanes = [0.0; LANES];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: i < count, and the caller guarantees `count` floats.
            *lane = unsafe { from.add(i).read() };
        }
        Lanes(lanes)
    }

    #[inline(always)]
    unsafe fn load_columns(self, from: *const f32, stride: usize) -> [Lanes; 4] {
        let column = |j: usize| {
            // SAFETY: i < 4 and j < 4; the caller guarantees four floats in each of four rows.
            let lane = |i: usize| unsafe { from.add(i * stride + j).read() };
            Lanes([lane(0), lane(1), lane(2), lane(3)])
        };
        [column(0), column(1), column(2), column(3)]
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32, x: Lanes) {
        // SAFETY: the caller guarantees 4 floats, and `[f32; 4]` has the alignment of `f32`.
        unsafe { to.cast::<[f32; LANES]>().write(x.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, x: Lanes, count: usize) {
        for (i, lane) in x.0.into_iter().enumerate().take(count) {
            // SAFETY: i < count, and the caller guarantees `count` floats.
            unsafe { to.add(i).write(lane) };
        }
    }

    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Lanes, b: Lanes) -> Lanes {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn mul_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        let (a, b, c) = (a.0, b.0, c.0);
        Lanes([
            mul_add(a[0], b[0], c[0]),
            mul_add(a[1], b[1], c[1]),
            mul_add(a[2], b[2], c[2]),
            mul_add(a[3], b[3], c[3]),
        ])
    }

    #[inline(always)]
    fn neg_mul_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        self.mul_add(map(a, |a| -a), b, c)
    }

    #[inline(always)]
    fn upper(self, pairs: Lanes) -> Lanes {
        map(pairs, |pair| f32::from_bits(pair.to_bits() & 0xffff_0000))
    }

    #[inline(always)]
    fn lower(self, pairs: Lanes) -> Lanes {
        map(pairs, |pair| f32::from_bits(pair.to_bits() << 16))
    }

    #[inline(always)]
    fn min(self, bound: Lanes, x: Lanes) -> Lanes {
        zip(bound, x, |bound, x| if bound < x { bound } else { x })
    }

    #[inline(always)]
    fn max(self, bound: Lanes, x: Lanes) -> Lanes {
        zip(bound, x, |bound, x| if bound > x { bound } else { x })
    }

    #[inline(always)]
    fn sqrt(self, x: Lanes) -> Lanes {
        map(x, f32::sqrt)
    }

    fn abs(self, x: Lanes) -> Lanes {
        map(x, f32::abs)
    }

    #[inline(always)]
    fn copy_sign(self, magnitude: Lanes, x: Lanes) -> Lanes {
        zip(magnitude, x, f32::copysign)
    }

    #[inline(always)]
    fn lookup<const N: usize>(self, table: &[f32; N], i: Lanes) -> Lanes {
        map(i, |i| table[i.to_bits() as usize % N])
    }

    #[inline(always)]
    fn add_exponent_eighths(self, x: Lanes, n: Lanes) -> Lanes {
        zip(x, n, |x, n| f32::from_bits(x.to_bits().wrapping_add(n.to_bits() << 20)))
    }

    #[inline(always)]
    fn less(self, a: Lanes, b: Lanes) -> [bool; LANES] {
        let (a, b) = (a.0, b.0);
        [a[0] < b[0], a[1] < b[1], a[2] < b[2], a[3] < b[3]]
    }

    #[inline(always)]
    fn is_nan(self, x: Lanes) -> [bool; LANES] {
        x.0.map(f32::is_nan)
    }

    #[inline(always)]
    fn bits(self, mask: [bool; LANES]) -> u32 {
        (0..LANES).fold(0, |bits, i| bits | u32::from(mask[i]) << i)
    }

    #[inline(always)]
    fn select(self, mask: [bool; LANES], yes: Lanes, no: Lanes) -> Lanes {
        let pick = |i: usize| if mask[i] { yes.0[i] } else { no.0[i] };
        Lanes([pick(0), pick(1), pick(2), pick(3)])
    }

    #[inline(always)]
    fn power_of_two(self, shifted: Lanes) -> Lanes {
        map(shifted, |x| f32::from_bits(x.to_bits() << 23))
    }

    #[inline(always)]
    fn exponent(self, x: Lanes) -> Lanes {
        map(x, |x| ((x.to_bits() >> 23) as i32 - 127) as f32)
    }

    #[inline(always)]
    fn mantissa(self, x: Lanes) -> Lanes {
        map(x, |x| f32::from_bits((x.to_bits() & 0x007f_ffff) | (127 << 23)))
    }
}
