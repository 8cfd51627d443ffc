//! Random distributions that the generators share: lengths by quantiles, ranks by Zipf's law.
//!
//! They use only `next_u64`, so that results do not depend on the algorithms of `rand`.

use rand::Rng;

/// Draws a number in [0, 1) with 53 random bits.
pub(super) fn unit(rng: &mut impl Rng) -> f64 {
    unit_of(rng.next_u64())
}

/// Converts the upper 53 bits of `bits` to a number in [0, 1).
pub(super) fn unit_of(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws an integer in `low..=high`.
pub(super) fn between(rng: &mut impl Rng, low: usize, high: usize) -> usize {
    low + (unit(rng) * (high - low + 1) as f64) as usize
}

/// Returns the first entry of `weighted` whose cumulative weight exceeds `unit`. Weights sum to 1.
pub(super) fn pick<T: Copy>(weighted: &[(T, f64)], unit: f64) -> T {
    let mut below = 0.0;
    let drawn = weighted.iter().find(|&&(_, weight)| {
        below += weight;
        unit < below
    });
    drawn.or(weighted.last()).expect("at least one entry").0
}

/// A distribution given by its values at the cumulative probabilities [`SHARES`], with linear
/// interpolation between them.
///
/// With linear interpolation alone, long instances would be more frequent than in real sets. So the
/// values above the median are up to 8 % less than measured, which gives the measured mean.
pub(super) struct Quantiles(pub(super) [f64; 10]);

/// The cumulative probabilities at which the quantiles were measured.
const SHARES: [f64; 10] = [0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

impl Quantiles {
    pub(super) fn draw(&self, rng: &mut impl Rng) -> f64 {
        let share = unit(rng);
        let above = SHARES.partition_point(|&knot| knot <= share);
        let (low, high) = (SHARES[above - 1], SHARES[above]);
        self.0[above - 1] + (self.0[above] - self.0[above - 1]) * (share - low) / (high - low)
    }

    pub(super) fn draw_length(&self, rng: &mut impl Rng) -> usize {
        (self.draw(rng) + 0.5) as usize
    }
}

/// The Zipf–Mandelbrot distribution: rank r of 0 … size-1 has the weight (r + shift)^-exponent.
pub(super) struct Zipf {
    /// The cumulative probability of each rank.
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(size: usize, exponent: f64, shift: f64) -> Self {
        let mut total = 0.0;
        let sums = (0..size).map(|rank| {
            total += (rank as f64 + shift).powf(-exponent);
            total
        });
        let mut cumulative: Vec<f64> = sums.collect();
        cumulative.iter_mut().for_each(|sum| *sum /= total);
        Zipf { cumulative }
    }

    /// Returns the rank at the cumulative probability `unit`.
    pub(super) fn rank(&self, unit: f64) -> usize {
        self.cumulative.partition_point(|&sum| sum <= unit).min(self.cumulative.len() - 1)
    }

    pub(super) fn draw(&self, rng: &mut impl Rng) -> usize {
        self.rank(unit(rng))
    }

    pub(super) fn draw_word(&self, rng: &mut impl Rng) -> String {
        word(self.draw(rng))
    }
}

/// Returns the word of a rank, made of two-letter syllables. Frequent words are short, and every
/// rank has a different word.
pub(super) fn word(rank: usize) -> String {
    const CONSONANTS: &[u8; 18] = b"nstrlmkpdbgvfhzjwc";
    const VOWELS: &[u8; 5] = b"aeiou";
    let base = CONSONANTS.len() * VOWELS.len();
    let mut rest = rank + 1;
    let mut word = String::new();
    while rest > 0 {
        let syllable = (rest - 1) % base;
        word.push(char::from(CONSONANTS[syllable % CONSONANTS.len()]));
        word.push(char::from(VOWELS[syllable / CONSONANTS.len()]));
        rest = (rest - 1) / base;
    }
    word
}

/// Hashes a number by the finaliser of SplitMix64.
pub(super) fn mix(number: u64) -> u64 {
    let x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_a_different_word() {
        let words: std::collections::HashSet<String> = (0..30_000).map(word).collect();
        assert_eq!(words.len(), 30_000);
        assert_eq!(
            (word(0), word(89), word(90)),
            ("na".to_string(), "cu".to_string(), "nana".to_string())
        );
    }

    #[test]
    fn picks_follow_the_weights() {
        let weighted = [('a', 0.25), ('b', 0.75)];
        assert_eq!([0.0, 0.24, 0.25, 1.0].map(|unit| pick(&weighted, unit)), ['a', 'a', 'b', 'b']);
    }

    #[test]
    fn zipf_ranks_cover_the_unit_interval() {
        let zipf = Zipf::new(10, 1.0, 1.0);
        assert_eq!((zipf.rank(0.0), zipf.rank(0.999_999), zipf.rank(1.0)), (0, 9, 9));
    }
}
