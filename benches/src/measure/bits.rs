//! Comparison of results bit by bit.

use edbatch::Rows;

/// Returns true if results have the same rows with the same bits.
pub fn same_bits(a: &[Rows], b: &[Rows]) -> bool {
    same(a, b, |x| x.to_bits())
}

/// Like [`same_bits`], but all NaNs are equal: their bits differ between processors and devices.
pub fn same_bits_or_nan(a: &[Rows], b: &[Rows]) -> bool {
    same(a, b, |x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() })
}

fn same(a: &[Rows], b: &[Rows], bits: fn(f32) -> u32) -> bool {
    let same_row =
        |(a, b): (&[f32], &[f32])| a.iter().map(|&x| bits(x)).eq(b.iter().map(|&x| bits(x)));
    let same = |(a, b): (&Rows, &Rows)| a.len() == b.len() && a.iter().zip(b.iter()).all(same_row);
    a.len() == b.len() && a.iter().zip(b).all(same)
}

/// Returns the largest difference between results; infinite for different lengths or a NaN.
pub fn difference(a: &[Rows], b: &[Rows]) -> f64 {
    let elements = |rows: &[Rows]| -> Vec<f32> {
        rows.iter().flat_map(Rows::iter).flatten().copied().collect()
    };
    let (a, b) = (elements(a), elements(b));
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    let differences = a.iter().zip(&b).map(|(&a, &b)| {
        let difference = f64::from((a - b).abs());
        if difference.is_nan() { f64::INFINITY } else { difference }
    });
    differences.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(elements: &[f32]) -> Vec<Rows> {
        let mut rows = Rows::new();
        rows.push(elements);
        vec![rows]
    }

    #[test]
    fn bits_are_compared_instead_of_numbers() {
        assert!(same_bits(&rows(&[1.0, f32::NAN]), &rows(&[1.0, f32::NAN])));
        let other_nan = rows(&[1.0, f32::from_bits(f32::NAN.to_bits() + 1)]);
        assert!(!same_bits(&rows(&[1.0, f32::NAN]), &other_nan));
        assert!(same_bits_or_nan(&rows(&[1.0, f32::NAN]), &other_nan));
        assert!(!same_bits_or_nan(&rows(&[0.0]), &rows(&[-0.0])));
        assert!(!same_bits(&rows(&[0.0]), &rows(&[-0.0])));
        assert!(!same_bits(&rows(&[0.0]), &rows(&[0.0, 0.0])));
        assert!(!same_bits(&rows(&[0.0]), &[]));
    }

    #[test]
    fn different_lengths_and_nans_are_infinitely_far_apart() {
        assert_eq!(difference(&rows(&[1.0, 2.0]), &rows(&[1.0, 2.5])), 0.5);
        assert_eq!(difference(&rows(&[1.0]), &rows(&[f32::NAN])), f64::INFINITY);
        assert_eq!(difference(&rows(&[1.0]), &[]), f64::INFINITY);
    }
}
