//! Chunks of tags, counted as `conlleval` of the CoNLL-2000 shared task does.
//!
//! A tag is a prefix and a type, such as `B-PER`. A chunk begins at `B` or `S`, at a tag after `O`
//! or after the end of a chunk (`E`, `S`), and where the type changes. So tags without `B`
//! (IOB1) describe chunks as well.

/// The numbers of chunks so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Chunks {
    /// The number of chunks in the targets.
    expected: u64,
    /// The number of chunks in the output.
    found: u64,
    /// The number of chunks in both, with the same words and type.
    both: u64,
}

impl Chunks {
    /// Adds a sentence: for each word the expected and the found tag, or `None` if it has no
    /// target. Such a word is part of no chunk.
    pub(super) fn add(&mut self, tags: &[Option<(&str, &str)>]) {
        let expected = chunks(tags.iter().map(|pair| pair.map_or("O", |(expected, _)| expected)));
        let found = chunks(tags.iter().map(|pair| pair.map_or("O", |(_, found)| found)));
        self.expected += expected.len() as u64;
        self.found += found.len() as u64;
        let both = expected.iter().filter(|chunk| found.binary_search(chunk).is_ok());
        self.both += both.count() as u64;
    }

    /// Returns 2 · both ÷ (expected + found), or `None` without chunks.
    pub(super) fn f1(self) -> Option<f64> {
        let all = self.expected + self.found;
        (all > 0).then(|| 2.0 * self.both as f64 / all as f64)
    }
}

/// Returns the first word, the end and the type of each chunk, in order.
fn chunks<'t>(tags: impl Iterator<Item = &'t str>) -> Vec<(usize, usize, &'t str)> {
    let mut chunks: Vec<(usize, usize, &str)> = Vec::new();
    let mut before = ("O", "");
    for (index, tag) in tags.enumerate() {
        let tag = tag.split_once('-').unwrap_or((tag, ""));
        let (prefix, kind) = tag;
        if matches!(prefix, "B" | "I" | "E" | "S") {
            let begins =
                matches!(prefix, "B" | "S") || !matches!(before.0, "B" | "I") || before.1 != kind;
            match chunks.last_mut() {
                Some((_, end, _)) if !begins => *end = index + 1,
                _ => chunks.push((index, index + 1, kind)),
            }
        }
        before = tag;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_begin_where_conlleval_begins_them() {
        for (tags, expected) in [
            ("B-X I-X O", vec![(0, 2, "X")]),
            ("I-X I-X B-X I-Y", vec![(0, 2, "X"), (2, 3, "X"), (3, 4, "Y")]),
            ("O I-X O I-X", vec![(1, 2, "X"), (3, 4, "X")]),
            ("B-X E-X I-X", vec![(0, 2, "X"), (2, 3, "X")]),
            ("S-X I-X S-Y", vec![(0, 1, "X"), (1, 2, "X"), (2, 3, "Y")]),
            ("E-X E-X", vec![(0, 1, "X"), (1, 2, "X")]),
            ("B-A-B I-A-B I-A", vec![(0, 2, "A-B"), (2, 3, "A")]),
            ("B B I", vec![(0, 1, ""), (1, 3, "")]),
            ("NOUN VERB", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(chunks(tags.split_whitespace()), expected, "{tags}");
        }
    }

    #[test]
    fn equal_chunks_have_the_same_words_and_type() {
        let mut counts = Chunks::default();
        let expected = ["B-X", "I-X", "O", "B-Y", "B-Z"];
        let found = ["B-X", "I-X", "I-Y", "I-Y", "B-X"];
        counts.add(&expected.into_iter().zip(found).map(Some).collect::<Vec<_>>());
        // A word without a target divides a chunk.
        counts.add(&[Some(("B-X", "B-X")), None, Some(("I-X", "I-X"))]);
        assert_eq!(counts, Chunks { expected: 5, found: 5, both: 3 });
        assert_eq!(counts.f1(), Some(0.6));
    }
}
