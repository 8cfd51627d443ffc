//! log₂ of numbers and factorials, without floating-point functions of the standard library.
//!
//! log₂(m · 2^e) = e + 2/ln 2 · artanh((m − 1)/(m + 1)), by the series for m in [√½, √2).
//! Stirling's series gives ln d! for d ≥ 21; for smaller d, d! is an exact integer. Both are
//! accurate to within a few units in the last place.

/// Returns log₂ of a positive, normal number.
pub(crate) fn log2(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | 1023 << 52);
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    // |t| < 0.172, so t^24 is below the precision.
    let series = (0..12).rev().fold(0.0, |sum, k| sum * t * t + 1.0 / f64::from(2 * k + 1));
    f64::from(exponent) + 2.0 * t * series / core::f64::consts::LN_2
}

/// Returns log₂ of d!.
pub(crate) fn log2_factorial(d: u32) -> f64 {
    if d <= 20 {
        let product: u64 = (1..=u64::from(d)).product();
        return log2(product as f64);
    }
    let x = f64::from(d);
    let tail = 1.0 / (12.0 * x) - 1.0 / (360.0 * x * x * x) + 1.0 / (1260.0 * x * x * x * x * x);
    (x + 0.5) * log2(x) + 0.5 * log2(core::f64::consts::TAU) + (tail - x) / core::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library() {
        for x in [1.0, 1.5, 2.0, 3.0, 1e-9, 0.7, 0.707, 1.4143, 12_345.678, 1e300] {
            assert!((log2(x) - f64::log2(x)).abs() <= 4e-16 * f64::log2(x).abs().max(1.0), "{x}");
        }
        let mut sum = 0.0;
        for d in 1..3000 {
            sum += f64::from(d).log2();
            assert!((log2_factorial(d) - sum).abs() < 1e-12 * sum + 1e-12, "{d}");
        }
    }
}
