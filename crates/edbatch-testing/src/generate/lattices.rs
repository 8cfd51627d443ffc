//! Random lattices: a text of words of one to four characters, with an arc for every word that a
//! dictionary finds in it.
//!
//! The text is drawn word by word from a lexicon. Arcs are: each word of two or more characters;
//! the halves of longer words, which nest; and any two or three adjacent characters that the
//! dictionary happens to contain, which usually cross a word boundary. Hash functions define
//! lexicon and dictionary, so the same characters are a word wherever they occur, and words repeat
//! in a mini-batch as often as in real sets.

use std::collections::BTreeSet;

use edbatch_datasets::{Lattice, WordArc};
use rand::Rng;

use super::draw::{Quantiles, Zipf, mix, pick, unit_of};

/// The real set whose statistics [`lattices`] imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// The newswire lattices of the ED-Batch authors: dense, 0.54 words per character.
    Newswire,
    /// Weibo NER with the words of a dictionary: sparse, 0.31 words per character.
    Weibo,
}

/// Generates `count` lattices. Every character has one of 17 tags.
pub fn lattices(rng: &mut impl Rng, count: usize, style: Style) -> Vec<Lattice> {
    let language = Language::new(style);
    (0..count).map(|_| language.lattice(rng)).collect()
}

struct Language {
    lengths: Quantiles,
    lexicon: Zipf,
    characters: Zipf,
    word_lengths: [(usize, f64); 4],
    /// For two word lengths: the share of all such character sequences that are words by chance.
    chance_words: [(usize, f64); 2],
}

impl Language {
    fn new(style: Style) -> Self {
        match style {
            Style::Newswire => Language {
                lengths: Quantiles([2.0, 10.0, 13.0, 22.0, 38.0, 57.0, 79.0, 93.0, 120.0, 198.0]),
                lexicon: Zipf::new(20_000, 1.2, 15.0),
                characters: Zipf::new(2_500, 1.1, 20.0),
                word_lengths: [(1, 0.44), (2, 0.42), (3, 0.1), (4, 0.04)],
                chance_words: [(2, 0.21), (3, 0.012)],
            },
            Style::Weibo => Language {
                lengths: Quantiles([
                    10.0, 14.0, 17.0, 25.0, 44.0, 74.0, 110.0, 128.0, 142.0, 167.0,
                ]),
                lexicon: Zipf::new(30_000, 1.0, 40.0),
                characters: Zipf::new(3_500, 1.2, 25.0),
                word_lengths: [(1, 0.69), (2, 0.26), (3, 0.033), (4, 0.017)],
                chance_words: [(2, 0.065), (3, 0.002)],
            },
        }
    }

    fn lattice(&self, rng: &mut impl Rng) -> Lattice {
        let length = self.lengths.draw_length(rng);
        let mut characters = Vec::with_capacity(length);
        let mut tags = Vec::with_capacity(length);
        let mut spans = BTreeSet::new();
        while characters.len() < length {
            let rank = self.lexicon.draw(rng);
            let start = characters.len();
            characters.extend(self.word(rank));
            tags.extend((start..characters.len()).map(|position| tag(rank, position == start)));
            spans.extend(parts(start, characters.len() - start));
        }
        characters.truncate(length);
        tags.truncate(length);
        spans.extend(self.chance_spans(&characters));
        let text = |start, end| characters[start..=end].iter().copied().map(character).collect();
        let inside = spans.into_iter().filter(|&(_, end)| end < length);
        let words = inside.map(|(start, end)| WordArc {
            start: start as u32,
            end: end as u32,
            word: text(start, end),
        });
        let words = words.collect();
        let chars = characters.into_iter().map(|rank| character(rank).to_string()).collect();
        Lattice { chars, words, tags, labels: Vec::new() }
    }

    /// Returns the ranks of the characters of the word with this rank.
    fn word(&self, rank: usize) -> impl Iterator<Item = usize> {
        // Multiples of the golden ratio distribute the lengths evenly over frequent and rare words.
        let golden = (rank as u32 + 1).wrapping_mul(0x9E37_79B9);
        let length = pick(&self.word_lengths, f64::from(golden) / 4_294_967_296.0);
        let hash = move |position| mix((rank * 8 + position) as u64);
        (0..length).map(move |position| self.characters.rank(unit_of(hash(position))))
    }

    /// Returns the spans of two or three adjacent characters that are words by chance.
    fn chance_spans(&self, characters: &[usize]) -> impl Iterator<Item = (usize, usize)> {
        self.chance_words.iter().flat_map(move |&(length, share)| {
            let windows = characters.windows(length).enumerate();
            let held = windows.filter(move |(_, window)| {
                let hash = window.iter().fold(7, |hash, &character| mix(hash ^ character as u64));
                unit_of(hash) < share
            });
            held.map(move |(start, _)| (start, start + length - 1))
        })
    }
}

/// Returns the arcs of a word of `length` characters: the word, and the halves of a long word.
fn parts(start: usize, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let whole = (length > 1).then(|| (start, start + length - 1));
    let front = (length > 2).then_some((start, start + 1));
    let back = (length > 3).then_some((start + 2, start + 3));
    [whole, front, back].into_iter().flatten()
}

/// Returns the tag of a character. One word in 24 is a name, of one of eight sorts.
fn tag(rank: usize, first: bool) -> String {
    const SORTS: [&str; 8] =
        ["PER.NOM", "PER.NAM", "ORG.NAM", "GPE.NAM", "LOC.NAM", "LOC.NOM", "ORG.NOM", "GPE.NOM"];
    let hash = mix(!(rank as u64));
    match (hash % 24, first) {
        (0, true) => format!("B-{}", SORTS[(hash >> 32) as usize % SORTS.len()]),
        (0, false) => format!("I-{}", SORTS[(hash >> 32) as usize % SORTS.len()]),
        _ => "O".to_string(),
    }
}

/// Returns the character of a rank: a common ideograph, by code point.
fn character(rank: usize) -> char {
    char::from_u32(0x4E00 + rank as u32).expect("fewer ranks than common ideographs")
}
