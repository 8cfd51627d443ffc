//! Chunks of tags, counted as `conlleval` of the CoNLL-2000 shared task does.
//!
//! A tag is a prefix and a type, such as `B-PER`. A chunk begins at `B` or `S`, at a tag after `O`
//! or after the end of a chunk (`E`, `S`), and where the type changes. So tags without `B`
//! (IOB1) describe chunks as well. Prefixes of other notations (BILOU, BMES, BMEWO) are read as
//! IOBES: `L` as `E`, `U` and `W` as `S`, `M` and any other prefix as `I`.

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

    /// Returns 2 · both ÷ (expected + found); NaN without chunks.
    pub(super) fn f1(self) -> f64 {
        2.0 * self.both as f64 / (self.expected + self.found) as f64
    }
}

/// Returns the first word, the end and the type of each chunk, in order.
fn chunks<'t>(tags: impl Iterator<Item = &'t str>) -> Vec<(usize, usize, &'t str)> {
    let mut chunks: Vec<(usize, usize, &str)> = Vec::new();
    let mut before = None;
    for (index, tag) in tags.enumerate() {
        let tag = parse(tag);
        if let Some((prefix, kind)) = tag {
            // The chunk goes on if nothing ends the one before or begins a new one here.
            let goes_on = matches!(prefix, Prefix::Inside | Prefix::End)
                && matches!(before, Some((Prefix::Begin | Prefix::Inside, same)) if same == kind);
            match chunks.last_mut() {
                Some((_, end, _)) if goes_on => *end = index + 1,
                _ => chunks.push((index, index + 1, kind)),
            }
        }
        before = tag;
    }
    chunks
}

/// The place of a word in its chunk, as the tag says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Begin,
    Inside,
    End,
    Single,
}

/// Returns the prefix and the type of a tag, or `None` for a tag outside of chunks.
fn parse(tag: &str) -> Option<(Prefix, &str)> {
    let (prefix, kind) = tag.split_once('-').unwrap_or((tag, ""));
    let prefix = match prefix {
        "O" => return None,
        "B" => Prefix::Begin,
        "E" | "L" => Prefix::End,
        "S" | "U" | "W" => Prefix::Single,
        "I" | "M" => Prefix::Inside,
        // A word such as NOUN is no prefix.
        _ if kind.is_empty() => return None,
        _ => Prefix::Inside,
    };
    Some((prefix, kind))
}

/// Returns true for a tag of a word in a chunk.
pub(super) fn is_in_chunk(tag: &str) -> bool {
    parse(tag).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

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
            ("U-X U-X", vec![(0, 1, "X"), (1, 2, "X")]),
            ("B-X M-X M-X E-X B-X I-X L-X", vec![(0, 4, "X"), (4, 7, "X")]),
            ("M-X M-X S-X W-X", vec![(0, 2, "X"), (2, 3, "X"), (3, 4, "X")]),
            ("NOUN VERB - O-X", vec![]),
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
        assert_eq!(counts.f1(), 0.6);
    }

    /// The chunks of `conlleval`, written as there: `ends` and `begins` look at a tag and the one
    /// before. Prefixes are B, I, E, S and O.
    fn conlleval(tags: &[(char, String)]) -> Vec<(usize, usize, String)> {
        let outside = ('O', String::new());
        let ends = |before: &(char, String), tag: &(char, String)| match (before.0, tag.0) {
            ('E' | 'S', _) | ('B' | 'I', 'B' | 'S' | 'O') => true,
            (last, _) => last != 'O' && before.1 != tag.1,
        };
        let begins = |before: &(char, String), tag: &(char, String)| match (before.0, tag.0) {
            (_, 'B' | 'S') | ('E' | 'S' | 'O', 'E' | 'I') => true,
            (_, this) => this != 'O' && before.1 != tag.1,
        };
        let (mut found, mut open) = (Vec::new(), None);
        for index in 0..=tags.len() {
            let before = if index == 0 { &outside } else { &tags[index - 1] };
            let tag = tags.get(index).unwrap_or(&outside);
            if let Some(start) = open.filter(|_| ends(before, tag)) {
                found.push((start, index, before.1.clone()));
                open = None;
            }
            if begins(before, tag) {
                open = Some(index);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn chunks_are_those_of_conlleval(
            tags in vec((0..PREFIXES.len(), 0..TYPES.len()), 0..12),
        ) {
            let text = |&(prefix, kind): &(usize, usize)| {
                format!("{}{}", PREFIXES[prefix].0, TYPES[kind])
            };
            let texts: Vec<String> = tags.iter().map(text).collect();
            let as_there = |&(prefix, kind): &(usize, usize)| {
                let kind = TYPES[kind].strip_prefix('-').unwrap_or("").to_string();
                match PREFIXES[prefix] {
                    (_, 'O') => ('O', String::new()),
                    // Names of other things, such as NOUN.
                    ("NOUN" | "", _) if kind.is_empty() => ('O', kind),
                    (_, letter) => (letter, kind),
                }
            };
            let expected = conlleval(&tags.iter().map(as_there).collect::<Vec<_>>());
            let got = chunks(texts.iter().map(String::as_str));
            let got: Vec<_> = got.into_iter().map(|(a, b, kind)| (a, b, kind.into())).collect();
            prop_assert_eq!(got, expected, "{:?}", texts);
        }
    }

    /// Each prefix, and the prefix of conlleval that it counts as.
    const PREFIXES: [(&str, char); 11] = [
        ("B", 'B'),
        ("I", 'I'),
        ("E", 'E'),
        ("S", 'S'),
        ("O", 'O'),
        ("M", 'I'),
        ("L", 'E'),
        ("U", 'S'),
        ("W", 'S'),
        ("NOUN", 'I'),
        ("", 'I'),
    ];
    const TYPES: [&str; 5] = ["-A", "-B", "-A-B", "-", ""];
}
