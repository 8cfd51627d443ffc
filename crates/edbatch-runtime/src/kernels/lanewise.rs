//! The functions of element-wise programs, computed lane by lane and written once for every level.
//!
//! *Invariant*: the result in a lane depends only on the operands in this lane, so an element has
//! the same bits at every position in a row.

use super::simd::{ROUND_AND_BIAS, Simd};

/// A function of N floats, computed for all lanes of N vectors. Implementations must be
/// `#[inline(always)]`.
pub(super) trait Lanewise<const N: usize>: Copy {
    /// Returns the function's value in each lane.
    fn of<S: Simd>(self, simd: S, x: [S::Vector; N]) -> S::Vector;
}

/// Declares functions whose body is one expression.
macro_rules! lanewise {
    ($($(#[$doc:meta])* $name:ident($($x:ident),*) = $simd:ident => $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name;

        impl Lanewise<{ [$(stringify!($x)),*].len() }> for $name {
            #[inline(always)]
            fn of<S: Simd>(
                self,
                $simd: S,
                [$($x),*]: [S::Vector; { [$(stringify!($x)),*].len() }],
            ) -> S::Vector {
                $value
            }
        }
    )*};
}

lanewise! {
    /// `x`
    Identity(x) = _simd => x;
    /// `a + b`
    Add(a, b) = simd => simd.add(a, b);
    /// `a - b`
    Sub(a, b) = simd => simd.sub(a, b);
    /// `a · b`
    Mul(a, b) = simd => simd.mul(a, b);
    /// `a / b`
    Div(a, b) = simd => simd.div(a, b);
    /// `a · b + c`, rounded after each operation.
    AddProduct(a, b, c) = simd => simd.add(simd.mul(a, b), c);
    /// `a · b + c · d`, rounded after each operation.
    SumOfProducts(a, b, c, d) = simd => simd.add(simd.mul(a, b), simd.mul(c, d));
    /// The larger of `a` and `b`: NaN if one is NaN, `a` if they are equal.
    Max(a, b) = simd =>
        simd.select(simd.is_nan(b), b, simd.select(simd.less(a, b), b, a));
    /// The smaller of `a` and `b`: NaN if one is NaN, `a` if they are equal.
    Min(a, b) = simd =>
        simd.select(simd.is_nan(b), b, simd.select(simd.less(b, a), b, a));
    /// 1 if `a > b`, 0 if `a < b`, else ½.
    Larger(a, b) = simd => simd.select(
        simd.less(b, a),
        simd.splat(1.0),
        simd.select(simd.less(a, b), simd.splat(0.0), simd.splat(0.5)),
    );
    /// `-x`
    Neg(x) = simd => simd.mul(simd.splat(-1.0), x);
    /// `g` times the slope of the sigmoid whose value is `y`.
    SlopeOfSigmoid(g, y) = simd => simd.mul(g, simd.mul(simd.sub(simd.splat(1.0), y), y));
    /// `g` times the slope of the tanh whose value is `y`.
    SlopeOfTanh(g, y) = simd => simd.mul(g, simd.sub(simd.splat(1.0), simd.mul(y, y)));
    /// `g` where `y` is positive, else 0.
    SlopeOfRelu(g, y) = simd => simd.select(simd.less(simd.splat(0.0), y), g, simd.splat(0.0));
    /// The larger of `x` and 0, or NaN if `x` is NaN.
    Relu(x) = simd => simd.max(simd.splat(0.0), x);
    /// eˣ within 2 ulp.
    Exp(x) = simd => exp(simd, x);
    /// ln x within 2 ulp; NaN below zero.
    Log(x) = simd => ln(simd, x);
    /// √x, correctly rounded.
    Sqrt(x) = simd => simd.sqrt(x);
    /// erf x within 2 ulp.
    Erf(x) = simd => erf(simd, x);
    /// 1 / (1 + e⁻ˣ) within 2e-7, and within 4 ulp if the result is a normal float.
    Sigmoid(x) = simd => sigmoid(simd, x);
    /// tanh x within 5 ulp.
    Tanh(x) = simd => tanh(simd, x);
}

/// `f(a + b)`
#[derive(Clone, Copy)]
pub(super) struct OfSum<F>(pub(super) F);

impl<F: Lanewise<1>> Lanewise<2> for OfSum<F> {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [a, b]: [S::Vector; 2]) -> S::Vector {
        self.0.of(simd, [simd.add(a, b)])
    }
}

/// `f((a + b) + c)`
#[derive(Clone, Copy)]
pub(super) struct OfSums<F>(pub(super) F);

impl<F: Lanewise<1>> Lanewise<3> for OfSums<F> {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [a, b, c]: [S::Vector; 3]) -> S::Vector {
        self.0.of(simd, [simd.add(simd.add(a, b), c)])
    }
}

/// `f(a · b, c)`
#[derive(Clone, Copy)]
pub(super) struct OfProduct<F>(pub(super) F);

impl<F: Lanewise<2>> Lanewise<3> for OfProduct<F> {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [a, b, c]: [S::Vector; 3]) -> S::Vector {
        self.0.of(simd, [simd.mul(a, b), c])
    }
}

/// `f(…) · a`. The operands of `f` come before `a`.
#[derive(Clone, Copy)]
pub(super) struct Times<F>(pub(super) F);

impl<F: Lanewise<1>> Lanewise<2> for Times<F> {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [x, a]: [S::Vector; 2]) -> S::Vector {
        simd.mul(a, self.0.of(simd, [x]))
    }
}

impl<F: Lanewise<2>> Lanewise<3> for Times<F> {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [x, y, a]: [S::Vector; 3]) -> S::Vector {
        simd.mul(a, self.0.of(simd, [x, y]))
    }
}

/// `b + f(…) · (a - b)`. The operands of `f` come before `a` and `b`.
#[derive(Clone, Copy)]
pub(super) struct Between<F>(pub(super) F);

impl<F: Lanewise<1>> Lanewise<3> for Between<F> {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [x, a, b]: [S::Vector; 3]) -> S::Vector {
        simd.add(b, simd.mul(self.0.of(simd, [x]), simd.sub(a, b)))
    }
}

impl<F: Lanewise<2>> Lanewise<4> for Between<F> {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [x, y, a, b]: [S::Vector; 4]) -> S::Vector {
        simd.add(b, simd.mul(self.0.of(simd, [x, y]), simd.sub(a, b)))
    }
}

/// `x · factor`
#[derive(Clone, Copy)]
pub(super) struct Scale(pub(super) f32);

impl Lanewise<1> for Scale {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, [x]: [S::Vector; 1]) -> S::Vector {
        simd.mul(simd.splat(self.0), x)
    }
}

/// Range reduction: for x = n·ln 2 + r with |r| <= ½ ln 2, returns (r, [`ROUND_AND_BIAS`] + n).
#[inline(always)]
fn reduce_range<S: Simd>(simd: S, x: S::Vector) -> (S::Vector, S::Vector) {
    let shifted = simd.mul_add(x, simd.splat(std::f32::consts::LOG2_E), simd.splat(ROUND_AND_BIAS));
    let n = simd.sub(shifted, simd.splat(ROUND_AND_BIAS));
    // ln 2 in two parts. The first has few mantissa bits, so its product with n is exact.
    let r = simd.neg_mul_add(n, simd.splat(LN_2[0]), x);
    (simd.neg_mul_add(n, simd.splat(LN_2[1]), r), shifted)
}

const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

/// eˣ, with the coefficients of Cephes `expf`.
#[inline(always)]
fn exp<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const TAIL: [f32; 6] =
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    // Outside these bounds the result is infinite or zero. They keep n in -150..=128.
    let (r, shifted) = reduce_range(simd, clamp(simd, -104.0, x, 89.0));
    let tail = simd.mul_add(simd.mul(r, r), horner(simd, r, TAIL), r);
    let e = simd.add(tail, simd.splat(1.0));
    // Multiply by 2ⁿ in two halves: neither overflows, and a subnormal result is rounded once.
    let n = simd.sub(shifted, simd.splat(ROUND_AND_BIAS));
    let half = simd.mul_add(n, simd.splat(0.5), simd.splat(ROUND_AND_BIAS));
    let rest = simd
        .add(simd.sub(n, simd.sub(half, simd.splat(ROUND_AND_BIAS))), simd.splat(ROUND_AND_BIAS));
    simd.mul(simd.mul(e, simd.power_of_two(half)), simd.power_of_two(rest))
}

/// σ(x) = (β + r) / ((β + r) + 2^(n/8)·½(r² + a·r + 2β)), where -x = n·⅛ ln 2 - r.
///
/// This approximates e⁻ʳ by ½(r² + a·r + 2β) / (β + r), within 9e-9 for |r| <= 1/16 ln 2. The Padé
/// approximant has a = -4 and β = 3; these constants are adjusted to spread the error over the
/// range.
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const A: f32 = -4.000_259;
    const BETA: f32 = 3.000_129_5;
    // 2^(k/8) / 2, minus the bits that `add_exponent_eighths` adds for k.
    const POWERS: [f32; 8] = without_eighths([
        0.5,
        0.545_253_9,
        0.594_603_54,
        0.648_419_8,
        0.707_106_77,
        0.771_105_4,
        0.840_896_4,
        0.917_004,
    ]);
    // Within these bounds the power is normal, or large enough to make the quotient zero.
    let x = clamp(simd, -89.0, x, 80.0);
    let eighths = simd.splat(8.0 * std::f32::consts::LOG2_E);
    let shifted = simd.neg_mul_add(x, eighths, simd.splat(ROUND));
    let n = simd.sub(shifted, simd.splat(ROUND));
    let r = simd.mul_add(n, simd.splat(LN_2[0] / 8.0), x);
    let r = simd.mul_add(n, simd.splat(LN_2[1] / 8.0), r);
    let power = simd.add_exponent_eighths(simd.lookup(&POWERS, shifted), shifted);
    let below = simd.add(r, simd.splat(BETA));
    let above = simd.mul_add(simd.add(r, simd.splat(A)), r, simd.splat(2.0 * BETA));
    simd.div(below, simd.mul_add(power, above, below))
}

/// 1.5 · 2²³. Adding it to a small float rounds the float to an integer, which is then in the low
/// bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// Subtracts k · 2²⁰ from the bits of element k.
const fn without_eighths(mut powers: [f32; 8]) -> [f32; 8] {
    let mut k = 0;
    while k < 8 {
        powers[k] = f32::from_bits(powers[k].to_bits() - ((k as u32) << 20));
        k += 1;
    }
    powers
}

/// tanh |x| = (t·d + b) / (d + t·b), where |x| = k·9/16 + b, t = tanh(k·9/16) and tanh b = b / d:
/// the addition theorem.
///
/// For |b| <= 9/32, d = b / tanh b is approximated by a polynomial of degree 4, which interpolates
/// it at the Chebyshev nodes and at 0, with a relative error of 4e-8. The table ends with k = 15:
/// from |x| = 8.16 on, t and the quotient are 1. Below, the quotient is at most 1, since b < d.
#[inline(always)]
fn tanh<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const STEP: f32 = 9.0 / 16.0;
    const T: [f32; 16] = [
        0.0,
        0.509_83,
        0.809_301_1,
        0.933_828_06,
        0.978_026_1,
        0.992_812_8,
        0.997_661,
        0.999_240_04,
        0.999_753_24,
        0.999_919_9,
        0.999_974,
        0.999_991_54,
        0.999_997_26,
        0.999_999_1,
        0.999_999_7,
        1.0,
    ];
    const D: [f32; 3] = [-2.199_111_7e-2, 0.333_327_68, 1.0];
    let magnitude = simd.min(simd.splat(15.0 * STEP), simd.abs(x));
    let shifted = simd.mul_add(magnitude, simd.splat(1.0 / STEP), simd.splat(ROUND));
    let t = simd.lookup(&T, shifted);
    let k = simd.sub(shifted, simd.splat(ROUND));
    let b = simd.neg_mul_add(k, simd.splat(STEP), magnitude);
    let d = horner(simd, simd.mul(b, b), D);
    let quotient = simd.div(simd.mul_add(t, d, b), simd.mul_add(t, b, d));
    simd.copy_sign(quotient, x)
}

/// ln x, where x = m · 2ᵉ with ½√2 <= m < √2, with the coefficients of Cephes `logf`.
#[inline(always)]
fn ln<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    let tiny = simd.less(x, simd.splat(f32::MIN_POSITIVE));
    let normal = simd.select(tiny, simd.mul(x, simd.splat(8_388_608.0)), x);
    let e = simd.sub(simd.exponent(normal), simd.select(tiny, simd.splat(23.0), zero));
    let m = simd.mantissa(normal);
    let large = simd.less(simd.splat(std::f32::consts::SQRT_2), m);
    let m = simd.select(large, simd.mul(m, simd.splat(0.5)), m);
    let e = simd.add(e, simd.select(large, one, zero));

    let f = simd.sub(m, one);
    let square = simd.mul(f, f);
    let p = horner(
        simd,
        f,
        [
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let y = simd.mul(simd.mul(f, square), p);
    let y = simd.mul_add(e, simd.splat(-2.121_944_4e-4), y);
    let y = simd.neg_mul_add(square, simd.splat(0.5), y);
    let y = simd.mul_add(e, simd.splat(0.693_359_4), simd.add(f, y));

    // ∞ and NaN give themselves, 0 gives -∞, negative numbers give NaN.
    let negative =
        simd.select(simd.less(x, zero), simd.splat(f32::NAN), simd.splat(f32::NEG_INFINITY));
    let y = simd.select(simd.less(zero, x), y, negative);
    let stays = simd.select(simd.is_nan(x), x, y);
    simd.select(simd.less(simd.splat(f32::MAX), x), x, stays)
}

/// erf x. Up to |x| = 0.9277, it is x + x · p(x²); from there on, 1 - exp q(|x|), where q is close
/// to ln erfc. The polynomials are minimax fits, in relative error of the result. From 3.95 on, the
/// result is ±1.
#[inline(always)]
fn erf<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    const P: [f32; 7] = [
        8.360_12e-5,
        -8.140_964e-4,
        5.200_945e-3,
        -2.685_939_5e-2,
        0.112_836_964,
        -0.376_126_35,
        0.128_379_17,
    ];
    const Q: [f32; 9] = [
        -4.430_902e-7,
        -1.541_538_2e-5,
        4.033_266_2e-4,
        -4.075_687e-3,
        2.494_079_5e-2,
        -0.108_070_51,
        -0.633_497_4,
        -1.129_454_4,
        1.642_370_2e-4,
    ];
    let magnitude = simd.min(simd.splat(3.95), simd.abs(x));
    let near = simd.mul_add(horner(simd, simd.mul(x, x), P), x, x);
    let far = simd.sub(simd.splat(1.0), exp(simd, horner(simd, magnitude, Q)));
    let is_far = simd.less(simd.splat(0.9277), magnitude);
    simd.select(is_far, simd.copy_sign(far, x), near)
}

/// `x` limited to `low..=high`, or NaN if `x` is NaN.
#[inline(always)]
fn clamp<S: Simd>(simd: S, low: f32, x: S::Vector, high: f32) -> S::Vector {
    simd.max(simd.splat(low), simd.min(simd.splat(high), x))
}

/// c₀·xⁿ + … + cₙ
#[inline(always)]
fn horner<S: Simd, const N: usize>(simd: S, x: S::Vector, coefficients: [f32; N]) -> S::Vector {
    let mut sum = simd.splat(coefficients[0]);
    for &c in &coefficients[1..] {
        sum = simd.mul_add(sum, x, simd.splat(c));
    }
    sum
}
