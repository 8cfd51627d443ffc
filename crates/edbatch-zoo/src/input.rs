//! Readers of input files: the inputs of the models, with tokens replaced by their numbers.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use edbatch_datasets::{
    Error, Lattice, Lines, Position, SENTENCE_FORMAT, Sentence, Tree, Vocabulary, open, parse_arcs,
    parse_binary_trees, parse_checked_sentences, parse_lattices, parse_plain,
};
use edbatch_graph::Dag;
use edbatch_models::{CallList, CallLists, JsonFault};

use crate::{BEGIN, END, IndexedTree, Lexicon, SourceSentence, Stop, Word};

/// An input of any model of the zoo.
#[derive(Clone, PartialEq, Debug)]
pub enum ZooInput {
    /// A binary tree.
    Tree(IndexedTree),
    /// A sentence.
    Sentence(Sentence<u32>),
    /// A sentence with spelled unknown words.
    Spelled(Sentence<Word>),
    /// A sentence to translate.
    Source(SourceSentence),
    /// A lattice.
    Lattice(Lattice<u32>),
    /// The calls of an input of any network.
    CallList(CallList),
}

impl ZooInput {
    /// The cost of the input, relative to others.
    pub(crate) fn work(&self) -> usize {
        match self {
            Self::Tree(input) => input.tree.len(),
            Self::Sentence(input) => input.len(),
            Self::Spelled(input) => input.len(),
            Self::Source(input) => input.words.len(),
            Self::Lattice(input) => crate::lattice::work(input),
            Self::CallList(list) => list.graph().nodes(),
        }
    }
}

/// An iterator over the inputs of a file. Except in arc files, it continues after a malformed line
/// ([`Error::Format`]); after any other error it ends.
pub type Inputs = Box<dyn Iterator<Item = Result<ZooInput, Error>> + Send>;

/// Opens a file of inputs, plain or `.gz`, and reads it lazily.
///
/// Each line is an input, except in arc files (`*.arcs.txt`), where an input takes several lines.
/// A line that is empty or has only spaces is an empty sentence or lattice; for trees and call
/// lists it is an error.
///
/// # Errors
/// If the file cannot be opened.
pub fn inputs(lexicon: &Arc<Lexicon>, path: &Path) -> Result<Inputs, Error> {
    Ok(inputs_from(lexicon, open(path)?, path))
}

/// Reads inputs from `reader`, in the format of the file at `path`.
pub(crate) fn inputs_from(
    lexicon: &Arc<Lexicon>,
    reader: Box<dyn BufRead + Send>,
    path: &Path,
) -> Inputs {
    let name = path.display().to_string();
    let of = lexicon.clone();
    match **lexicon {
        Lexicon::Trees { .. } => {
            // One model uses the line number, as 32 bits.
            let trees = parse_binary_trees(reader, &name).enumerate();
            let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
            Box::new(trees.map(move |(index, tree)| Ok(of.tree(number(index), &tree?))))
        }
        Lexicon::Tagged { .. } | Lexicon::Spelled { .. } => {
            each(sentences(of.clone(), reader, name, |_| Ok(())), move |s| of.tagged(&s))
        }
        Lexicon::Translation { .. } => {
            each(parse_plain(reader, &name), move |s| ZooInput::Source(of.source(&s)))
        }
        Lexicon::Lattices { .. } if is_arc_file(path) => {
            each(parse_arcs(reader, &name), move |l| of.numbered(&l))
        }
        Lexicon::Lattices { .. } => each(parse_lattices(reader, &name), move |l| of.lattice(&l)),
        Lexicon::CallLists(ref lists) => Box::new(
            call_lists(lists.clone(), reader, name).map(|list| Ok(ZooInput::CallList(list?))),
        ),
    }
}

/// Reads a sentence from each line. `check` is called with each tag.
pub(crate) fn sentences(
    lexicon: Arc<Lexicon>,
    reader: Box<dyn BufRead + Send>,
    name: String,
    check: impl FnMut(&str) -> Result<(), String> + Send,
) -> impl Iterator<Item = Result<Sentence, Error>> + Send {
    let sentences = parse_checked_sentences(reader, &name, check).zip(1..);
    sentences.map(move |(sentence, line)| {
        let is_tag = |tag: &str| lexicon.tags().iter().any(|name| name == tag);
        not_columns(sentence?, is_tag, &name, line)
    })
}

/// Rejects a line of a file in columns, such as CoNLL-2003, with a word and its tags on each line.
/// Its last word is the tag of a chunk, or its first word begins a document.
pub(crate) fn not_columns(
    sentence: Sentence,
    is_tag: impl Fn(&str) -> bool,
    name: &str,
    line: u64,
) -> Result<Sentence, Error> {
    let [first, .., last] = sentence.words.as_slice() else { return Ok(sentence) };
    let is_chunk = last.as_bytes().get(1) == Some(&b'-') && is_tag(last);
    let is_tagged = sentence.tags.iter().any(Option::is_some);
    if is_tagged || !(is_chunk || first == "-DOCSTART-") {
        return Ok(sentence);
    }
    let at = Position { file: name.into(), line, column: 1 };
    let got = format!("columns, from {first:?} to {last:?}");
    Err(Error::Format { at, expected: SENTENCE_FORMAT.into(), got })
}

/// Reads a call list from each line.
pub(crate) fn call_lists(
    lists: CallLists,
    reader: Box<dyn BufRead + Send>,
    name: String,
) -> impl Iterator<Item = Result<CallList, Error>> + Send {
    let mut lines = Lines::new(reader, &name);
    std::iter::from_fn(move || {
        let read = match lines.next_line() {
            Ok(line) => lists.read(line?),
            Err(error) => return Some(Err(error)),
        };
        let line = lines.number();
        Some(read.map_err(|JsonFault { column, expected, got, .. }| {
            let at = Position { file: name.clone(), line, column };
            Error::Format { at, expected, got }
        }))
    })
}

/// Returns true if `path` names an arc file: lattices as numbers.
#[must_use]
pub fn is_arc_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".arcs.txt") || name.ends_with(".arcs.txt.gz")
}

fn each<T>(
    items: impl Iterator<Item = Result<T, Error>> + Send + 'static,
    mut input: impl FnMut(T) -> ZooInput + Send + 'static,
) -> Inputs {
    Box::new(items.map(move |item| item.map(&mut input)))
}

const FAMILY: &str = "the lexicon determines the reader";

impl Lexicon {
    pub(crate) fn tree(&self, index: u32, tree: &Tree) -> ZooInput {
        let Self::Trees { words, .. } = self else { unreachable!("{FAMILY}") };
        let tree = tree.map(|_label| 0, |token| words.id(token));
        ZooInput::Tree(IndexedTree { index, tree })
    }

    pub(crate) fn tagged(&self, sentence: &Sentence) -> ZooInput {
        let (words, chars) = match self {
            Self::Tagged { words, .. } => {
                return ZooInput::Sentence(sentence.map(|word| words.id(word)));
            }
            Self::Spelled { words, chars, .. } => (words, chars),
            _ => unreachable!("{FAMILY}"),
        };
        let id = |c: char| chars.id(c.encode_utf8(&mut [0; 4]));
        ZooInput::Spelled(sentence.map(|word| match words.contains(word) {
            true => Word::Known(words.id(word)),
            false => Word::Spelled(word.chars().map(id).collect()),
        }))
    }

    pub(crate) fn source(&self, sentence: &[String]) -> SourceSentence {
        let Self::Translation { source, .. } = self else { unreachable!("{FAMILY}") };
        let words = sentence.iter().map(|word| word_of_text(source, word)).collect();
        SourceSentence { words, stop: Stop::AtEnd }
    }

    pub(crate) fn lattice(&self, lattice: &Lattice) -> ZooInput {
        let Self::Lattices { chars, words, .. } = self else { unreachable!("{FAMILY}") };
        ZooInput::Lattice(lattice.map(|char| chars.id(char), |word| words.id(word)))
    }

    /// Converts a numbered lattice. Numbers outside the vocabulary become 0, the unknown token.
    pub(crate) fn numbered(&self, lattice: &Lattice<u32>) -> ZooInput {
        let Self::Lattices { chars, words, .. } = self else { unreachable!("{FAMILY}") };
        let known = |id: u32, vocabulary: &Vocabulary| {
            if (id as usize) < vocabulary.len() { id } else { 0 }
        };
        ZooInput::Lattice(lattice.map(|&char| known(char, chars), |&word| known(word, words)))
    }
}

/// Returns the number of a word in a text, which cannot begin or end its sentence: `</s>` in a text
/// is an unknown word.
pub(crate) fn word_of_text(vocabulary: &Vocabulary, word: &str) -> u32 {
    match vocabulary.id(word) {
        BEGIN | END => 0,
        id => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arc_files_are_recognised_by_name() {
        for (name, expected) in
            [("a/test.arcs.txt", true), ("test.arcs.txt.gz", true), ("arcs.txt.jsonl", false)]
        {
            assert_eq!(is_arc_file(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn numbers_outside_the_vocabulary_are_unknown() {
        let chars = Vocabulary::from_tokens(["a", "b"]);
        let lexicon = Lexicon::Lattices { words: chars.clone(), chars, classes: None };
        let lattice = Lattice { chars: vec![2, 3, 1], ..Lattice::default() };
        let ZooInput::Lattice(lattice) = lexicon.numbered(&lattice) else { panic!("a lattice") };
        assert_eq!(lattice.chars, [2, 0, 1]);
    }
}
