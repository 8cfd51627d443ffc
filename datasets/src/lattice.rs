//! A lattice: the characters of a sentence, and the dictionary words that occur in it.

/// The characters of a sentence, and the dictionary words that occur in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lattice<T = String> {
    /// The characters, or their numbers in a vocabulary.
    pub chars: Vec<T>,
    /// The words. *Invariant* of every reader: `start < end < chars.len()`.
    pub words: Vec<WordArc<T>>,
    /// The tag of each character. Empty if there are no tags.
    pub tags: Vec<String>,
    /// The class of each character, or `None` or -1 if it has none. Empty if there are no classes.
    pub labels: Vec<Option<i64>>,
}

/// A word that spans the characters `start..=end`, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordArc<T = String> {
    /// Its first character.
    pub start: u32,
    /// Its last character.
    pub end: u32,
    /// The word, or its number in a vocabulary.
    pub word: T,
}

/// The label of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    /// The number of a class, or -1 for none.
    Number(i64),
    /// A tag.
    Name(&'a str),
}

impl<T> Lattice<T> {
    /// Iterates over the label of each character, from `labels`, or from `tags` if that is empty.
    pub fn class_labels(&self) -> impl Iterator<Item = Option<Label<'_>>> {
        let tags = if self.labels.is_empty() { &self.tags[..] } else { &[] };
        let numbers = self.labels.iter().map(|label| label.map(Label::Number));
        numbers.chain(tags.iter().map(|tag| Some(Label::Name(tag))))
    }

    /// Returns the number of characters.
    pub fn len(&self) -> usize {
        self.chars.len()
    }

    /// Returns true if there are no characters.
    pub fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    /// Maps characters and words, for example to their numbers in two vocabularies.
    pub fn map<U>(&self, char: impl FnMut(&T) -> U, word: impl FnMut(&T) -> U) -> Lattice<U> {
        let mut word = word;
        let arc =
            |arc: &WordArc<T>| WordArc { start: arc.start, end: arc.end, word: word(&arc.word) };
        Lattice {
            chars: self.chars.iter().map(char).collect(),
            words: self.words.iter().map(arc).collect(),
            tags: self.tags.clone(),
            labels: self.labels.clone(),
        }
    }
}
