//! The logarithm of losses, against a logarithm with twice the precision.

use std::f64::consts::{LN_2, LN_10, SQRT_2};

use edbatch_runtime::kernels::math::ln;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// An unevaluated sum of two numbers, the second at most half an ulp of the first.
#[derive(Clone, Copy)]
struct Double(f64, f64);

impl Double {
    /// The exact sum of two numbers.
    fn sum(a: f64, b: f64) -> Self {
        let sum = a + b;
        let of_b = sum - a;
        Self(sum, (a - (sum - of_b)) + (b - of_b))
    }

    fn add(self, other: Self) -> Self {
        let Self(high, low) = Self::sum(self.0, other.0);
        Self::sum(high, low + (self.1 + other.1))
    }

    fn mul(self, other: Self) -> Self {
        let high = self.0 * other.0;
        let low = self.0.mul_add(other.0, -high);
        Self::sum(high, low + (self.0 * other.1 + self.1 * other.0))
    }

    fn div(self, other: Self) -> Self {
        let first = self.0 / other.0;
        let rest = self.add(other.mul(Self(-first, 0.0)));
        let second = rest.0 / other.0;
        let rest = rest.add(other.mul(Self(-second, 0.0)));
        Self::sum(first, second).add(Self(rest.0 / other.0, 0.0))
    }
}

/// Returns the logarithm of a positive normal number, correctly rounded unless it is within 2^-95
/// or so of the middle between two numbers. `terms` are 2, 2/3, 2/5, ….
fn reference(x: f64, terms: &[Double]) -> f64 {
    let mut k = (x.to_bits() >> 52) as i32 - 1023;
    let mut significand = f64::from_bits((x.to_bits() & ((1 << 52) - 1)) | (1023 << 52));
    if significand > SQRT_2 {
        significand /= 2.0;
        k += 1;
    }
    let s = Double::sum(significand, -1.0).div(Double::sum(significand, 1.0));
    let square = s.mul(s);
    let series = terms.iter().rev().fold(Double(0.0, 0.0), |sum, &term| sum.mul(square).add(term));
    let ln_2 = Double(LN_2, 2.319_046_813_846_299_6e-17);
    ln_2.mul(Double(f64::from(k), 0.0)).add(s.mul(series)).0
}

/// Returns the number of representable numbers from one number to another, if they are not of
/// different signs.
fn ulps(a: f64, b: f64) -> u64 {
    a.to_bits().abs_diff(b.to_bits())
}

#[test]
fn a_million_logarithms_are_within_one_ulp_of_the_correctly_rounded_ones() {
    let terms: Vec<Double> =
        (0..36).map(|i| Double(2.0, 0.0).div(Double(f64::from(2 * i + 1), 0.0))).collect();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut rounded_otherwise = 0;
    for case in 0..1_000_000 {
        let x = match case % 4 {
            // All normal numbers, sums of exponentials, and numbers near 1 and near powers of √2.
            0 => f64::from_bits(rng.random_range(1 << 52..0x7ff << 52)),
            1 => f64::from(rng.random_range(1.0..50_000.0f32)),
            2 => 1.0 + rng.random_range(-1.0..1.0) * 2f64.powi(-rng.random_range(1..52)),
            _ => SQRT_2.powi(rng.random_range(-9..9)) * rng.random_range(0.999..1.001),
        };
        let (got, expected) = (ln(x), reference(x, &terms));
        let error = ulps(got, expected);
        assert!(error <= 1, "ln {x:e} is {got:e}, expected {expected:e}");
        rounded_otherwise += error;
        // The library's logarithm shows that the reference itself is right.
        assert!(ulps(x.ln(), expected) <= 1, "the reference of {x:e} is {expected:e}");
    }
    println!("{rounded_otherwise} of 1000000 logarithms are not correctly rounded");
    assert!(rounded_otherwise < 100_000);
}

#[test]
fn logarithms_of_special_numbers() {
    let same = |x: f64, expected: f64| assert_eq!(ln(x).to_bits(), expected.to_bits(), "{x}");
    same(1.0, 0.0);
    same(2.0, LN_2);
    same(10.0, LN_10);
    same(0.5, -LN_2);
    same(0.0, f64::NEG_INFINITY);
    same(-0.0, f64::NEG_INFINITY);
    same(f64::INFINITY, f64::INFINITY);
    for x in [f64::NAN, -f64::NAN, -1.0, -1e-320, f64::MIN, f64::NEG_INFINITY] {
        assert!(ln(x).is_nan(), "{x}");
    }
    // Subnormal numbers: 2^-1074 is the smallest one.
    for (x, power) in [(f64::from_bits(1), -1074.0), (f64::MIN_POSITIVE / 4.0, -1024.0)] {
        assert!(ulps(ln(x), power * LN_2) <= 1, "{x:e}");
    }
    assert!(ulps(ln(f64::MAX), 1024.0 * LN_2) <= 1);
}
