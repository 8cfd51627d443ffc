//! Reads input files: each line, tokens replaced by their numbers, as the models take it.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use edbatch_datasets::{
    Error, Lattice, Sentence, Tree, Vocabulary, open, parse_arcs, parse_binary_trees,
    parse_lattices, parse_plain, parse_sentences,
};

use crate::{IndexedTree, Lexicon, SourceSentence, Stop, Word};

/// An input of any model of the zoo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ZooInput {
    /// A binary tree.
    Tree(IndexedTree),
    /// A sentence.
    Sentence(Sentence<u32>),
    /// A sentence whose unknown words are spelled.
    Spelled(Sentence<Word>),
    /// A sentence to translate.
    Source(SourceSentence),
    /// A lattice.
    Lattice(Lattice<u32>),
}

/// Inputs one after the other; the index is the instance's number. After a malformed line
/// ([`Error::Format`]) it goes on with the next, but in arc files; after any other error it ends.
pub type Inputs = Box<dyn Iterator<Item = Result<ZooInput, Error>> + Send>;

/// The inputs in a file, plain or `.gz`, read as they are asked for.
///
/// A line is an instance; in an arc file, `*.arcs.txt`, an instance takes several. An empty line is
/// an empty sentence or lattice, and an error where a tree should be.
///
/// # Errors
/// If the file cannot be opened.
pub fn inputs(lexicon: &Arc<Lexicon>, path: &Path) -> Result<Inputs, Error> {
    Ok(inputs_from(lexicon, open(path)?, path))
}

/// The inputs of a reader, in the format of the file that `path` names.
pub(crate) fn inputs_from(
    lexicon: &Arc<Lexicon>,
    reader: Box<dyn BufRead + Send>,
    path: &Path,
) -> Inputs {
    let name = path.display().to_string();
    let of = lexicon.clone();
    match **lexicon {
        Lexicon::Trees { .. } => {
            // Only one model asks for the number of the line, and not for more than 32 bits of it.
            let trees = parse_binary_trees(reader, &name).enumerate();
            let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
            Box::new(trees.map(move |(index, tree)| Ok(of.tree(number(index), &tree?))))
        }
        Lexicon::Tagged { .. } => each(parse_sentences(reader, &name), move |s| of.sentence(&s)),
        Lexicon::Spelled { .. } => each(parse_sentences(reader, &name), move |s| of.spelled(&s)),
        Lexicon::Translation { .. } => each(parse_plain(reader, &name), move |s| of.source(&s)),
        Lexicon::Lattices { .. } if is_arc_file(path) => {
            each(parse_arcs(reader, &name), move |l| of.numbered(&l))
        }
        Lexicon::Lattices { .. } => each(parse_lattices(reader, &name), move |l| of.lattice(&l)),
    }
}

/// Whether a name is that of an arc file: lattices as numbers.
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

const FAMILY: &str = "the reader was chosen by the lexicon";

impl Lexicon {
    fn tree(&self, index: u32, tree: &Tree) -> ZooInput {
        let Self::Trees { words } = self else { unreachable!("{FAMILY}") };
        let tree = tree.map(|_label| 0, |token| words.id(token));
        ZooInput::Tree(IndexedTree { index, tree })
    }

    fn sentence(&self, sentence: &Sentence) -> ZooInput {
        let Self::Tagged { words, .. } = self else { unreachable!("{FAMILY}") };
        ZooInput::Sentence(sentence.map(|word| words.id(word)))
    }

    fn spelled(&self, sentence: &Sentence) -> ZooInput {
        let Self::Spelled { words, chars, .. } = self else { unreachable!("{FAMILY}") };
        let id = |c: char| chars.id(c.encode_utf8(&mut [0; 4]));
        ZooInput::Spelled(sentence.map(|word| match words.contains(word) {
            true => Word::Known(words.id(word)),
            false => Word::Spelled(word.chars().map(id).collect()),
        }))
    }

    fn source(&self, sentence: &[String]) -> ZooInput {
        let Self::Translation { source, .. } = self else { unreachable!("{FAMILY}") };
        let words = sentence.iter().map(|word| source.id(word)).collect();
        ZooInput::Source(SourceSentence { words, stop: Stop::AtEnd })
    }

    fn lattice(&self, lattice: &Lattice) -> ZooInput {
        let Self::Lattices { chars, words } = self else { unreachable!("{FAMILY}") };
        ZooInput::Lattice(lattice.map(|char| chars.id(char), |word| words.id(word)))
    }

    /// Numbers that a vocabulary does not have are unknown.
    fn numbered(&self, lattice: &Lattice<u32>) -> ZooInput {
        let Self::Lattices { chars, words } = self else { unreachable!("{FAMILY}") };
        let known = |id: u32, vocabulary: &Vocabulary| {
            if (id as usize) < vocabulary.len() { id } else { 0 }
        };
        ZooInput::Lattice(lattice.map(|&char| known(char, chars), |&word| known(word, words)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arc_files_are_known_by_name() {
        for (name, expected) in
            [("a/test.arcs.txt", true), ("test.arcs.txt.gz", true), ("arcs.txt.jsonl", false)]
        {
            assert_eq!(is_arc_file(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn numbers_beyond_the_vocabulary_are_unknown() {
        let chars = Vocabulary::from_tokens(["a", "b"]);
        let lexicon = Lexicon::Lattices { words: chars.clone(), chars };
        let lattice = Lattice { chars: vec![2, 3, 1], words: vec![], tags: vec![] };
        let ZooInput::Lattice(lattice) = lexicon.numbered(&lattice) else { panic!("a lattice") };
        assert_eq!(lattice.chars, [2, 0, 1]);
    }
}
