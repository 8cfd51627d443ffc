//! The sum of the squares of gradients, in an order that a device can follow.

use std::mem::take;

/// The number of elements, or of sums, that are added to one sum.
const BLOCK: usize = 1024;

/// The number of partial sums of a block.
const PARTIAL: usize = 16;

/// The sums of 1,024 elements, of 1,024 of these sums, and so on: enough for 2^40 elements.
const LEVELS: usize = 4;

/// Returns the sum of the squares of all elements of all parameters, in float64.
///
/// Each parameter is divided into blocks of 1,024 elements, the last one shorter. The square of
/// element i of a block is added to partial sum i mod 16, and the 16 partial sums are added up in
/// order. The sums of all blocks, parameter after parameter, are added in the same way, 1,024 at a
/// time, until one is left.
pub(super) fn squared_norm<'a>(parameters: impl Iterator<Item = &'a [f32]>) -> f64 {
    let mut levels: [Block; LEVELS] = Default::default();
    for block in parameters.flat_map(|elements| elements.chunks(BLOCK)) {
        let mut partial = [0.0; PARTIAL];
        let mut add_squares = |elements: &[f32]| {
            let squares = elements.iter().map(|&x| f64::from(x) * f64::from(x));
            partial.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
        };
        // The compiler uses vectors for whole chunks.
        let (chunks, rest) = block.as_chunks::<PARTIAL>();
        chunks.iter().for_each(|chunk| add_squares(chunk));
        add_squares(rest);
        add(&mut levels, added_up(partial));
    }
    for level in 1..LEVELS {
        let (below, above) = levels.split_at_mut(level);
        let last = take(&mut below[level - 1]);
        if last.count > 0 {
            add(above, added_up(last.partial));
        }
    }
    added_up(levels[LEVELS - 1].partial)
}

/// The partial sums of up to 1,024 sums.
#[derive(Default)]
struct Block {
    partial: [f64; PARTIAL],
    count: usize,
}

/// Adds a sum to the first of some levels, and the sum of a complete block to the next one.
fn add(levels: &mut [Block], sum: f64) {
    let [first, above @ ..] = levels else { return };
    first.partial[first.count % PARTIAL] += sum;
    first.count += 1;
    if first.count == BLOCK && !above.is_empty() {
        add(above, added_up(take(first).partial));
    }
}

fn added_up(partial: [f64; PARTIAL]) -> f64 {
    partial.into_iter().fold(0.0, |sum, partial| sum + partial)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same order, level by level.
    fn by_level(parameters: &[Vec<f32>]) -> f64 {
        let block = |block: &[f64]| {
            let mut partial = [0.0; 16];
            block.iter().enumerate().for_each(|(i, x)| partial[i % 16] += x);
            partial.iter().fold(0.0, |sum, x| sum + x)
        };
        let square = |&x: &f32| f64::from(x).powi(2);
        let squares = parameters.iter().map(|it| it.iter().map(square).collect::<Vec<f64>>());
        let mut sums: Vec<f64> =
            squares.flat_map(|it| it.chunks(1024).map(block).collect::<Vec<_>>()).collect();
        while sums.len() > 1 {
            sums = sums.chunks(1024).map(block).collect();
        }
        sums.pop().unwrap_or(0.0)
    }

    #[test]
    fn squares_are_added_in_the_documented_order_and_close_to_the_naive_sum() {
        let element = |i: usize| ((i * 2_654_435_761) % 4096) as f32 / 2048.0 - 1.0;
        for sizes in [
            vec![],
            vec![0, 1],
            vec![15, 16, 17],
            vec![1023, 1024, 1025, 0, 5],
            vec![1024 * 1024],
            vec![1024 * 1024 - 1, 1024, 1],
            vec![3_000_000, 700_001],
        ] {
            let parameters: Vec<Vec<f32>> =
                sizes.iter().map(|&len| (0..len).map(|i| element(i + len)).collect()).collect();
            let got = squared_norm(parameters.iter().map(Vec::as_slice));
            assert_eq!(got.to_bits(), by_level(&parameters).to_bits(), "{sizes:?}");
            // Squares are exact, and no sum cancels: each addition adds a relative error of at most
            // 2^-53. A block takes at most 80 additions, and there are up to three levels here.
            let naive: f64 = parameters.iter().flatten().map(|&x| f64::from(x).powi(2)).sum();
            let count = sizes.iter().sum::<usize>();
            let bound = (count + 3 * 80) as f64 * (0.5 * f64::EPSILON) * naive;
            assert!((got - naive).abs() <= bound, "{sizes:?}: {got}, naive {naive}");
        }
    }

    #[test]
    fn an_element_that_is_not_finite_makes_the_sum_not_finite() {
        for element in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 15, 1024, 2999] {
                let mut elements = vec![1.0; 3000];
                elements[at] = element;
                assert!(!squared_norm([elements.as_slice()].into_iter()).is_finite());
            }
        }
    }
}
