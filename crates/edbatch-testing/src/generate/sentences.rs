//! Random sentences, tagged or in pairs: lengths by quantiles, words by Zipf's law, tags by a
//! Markov chain.

use edbatch_datasets::{Pair, Sentence};
use rand::Rng;

use super::draw::{Quantiles, Zipf, pick, unit};

/// Generates `count` sentences similar to WikiNER. Every word has one of five tags.
pub fn tagged_sentences(rng: &mut impl Rng, count: usize) -> Vec<Sentence> {
    let words = Zipf::new(25_719, 1.2, 5.2);
    (0..count).map(|_| tagged_sentence(rng, &words)).collect()
}

/// Generates `count` pairs similar to the English–Vietnamese pairs of IWSLT. The length of the
/// target grows with the length of the source.
pub fn pairs(rng: &mut impl Rng, count: usize) -> Vec<Pair> {
    let (sources, targets) = (Zipf::new(17_191, 1.3, 4.9), Zipf::new(7_709, 1.3, 5.4));
    let pair = |_| {
        let length = SOURCE_WORDS.draw_length(rng);
        let target_length = (length as f64 * TARGET_PER_SOURCE.draw(rng) + 0.5) as usize;
        let source = (0..length).map(|_| sources.draw_word(rng)).collect();
        let target = (0..target_length.max(1)).map(|_| targets.draw_word(rng)).collect();
        Pair { source, target }
    };
    (0..count).map(pair).collect()
}

const TAGGED_WORDS: Quantiles =
    Quantiles([2.0, 10.0, 12.0, 16.0, 23.0, 30.0, 39.0, 45.0, 59.0, 128.0]);
const SOURCE_WORDS: Quantiles =
    Quantiles([2.0, 6.0, 7.0, 11.0, 18.0, 27.0, 37.0, 47.0, 63.0, 95.0]);
const TARGET_PER_SOURCE: Quantiles =
    Quantiles([0.61, 0.93, 1.0, 1.12, 1.25, 1.41, 1.57, 1.7, 2.0, 2.4]);

/// The probability that a name begins after a word that is not part of a name.
const BEGIN: f64 = 0.104;
/// The probability that a name continues.
const CONTINUE: f64 = 0.447;
const NAMES: [(&str, f64); 4] =
    [("I-ORG", 0.3), ("I-PER", 0.25), ("I-LOC", 0.23), ("I-MISC", 0.22)];

fn tagged_sentence(rng: &mut impl Rng, words: &Zipf) -> Sentence {
    let length = TAGGED_WORDS.draw_length(rng);
    let mut sentence =
        Sentence { words: Vec::with_capacity(length), tags: Vec::with_capacity(length) };
    let mut tag = "O";
    for _ in 0..length {
        tag = match (tag, unit(rng)) {
            ("O", u) if u < BEGIN => pick(&NAMES, u / BEGIN),
            ("O", _) => "O",
            (name, u) if u < CONTINUE => name,
            _ => "O",
        };
        sentence.words.push(words.draw_word(rng));
        sentence.tags.push(Some(tag.to_string()));
    }
    sentence
}
