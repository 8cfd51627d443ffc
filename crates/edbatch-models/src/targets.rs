//! Targets: the class that each emitted row of an input should have.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use edbatch_datasets::{
    Error, Position, Sentence, open, parse_arcs, parse_binary_trees, parse_lattices, parse_plain,
    parse_sentences,
};

use crate::input::call_lists;
use crate::{END, Lexicon, Stop, ZooInput, is_arc_file};

/// The class of each row that an input emits, or `None` for rows without a target.
pub type Targets = Vec<Option<u32>>;

/// An iterator over the examples of a file: inputs with their targets. It continues after an error
/// in one example, like [`Inputs`](crate::Inputs).
pub type Examples = Box<dyn Iterator<Item = Result<(ZooInput, Targets), Error>> + Send>;

/// Reads inputs and their targets. `classes` is the number of classes of trees and lattices;
/// `targets` is the file of translations.
pub(crate) fn examples(
    lexicon: &Arc<Lexicon>,
    classes: usize,
    path: &Path,
    targets: Option<&Path>,
) -> Result<Examples, Error> {
    let (reader, name) = (open(path)?, path.display().to_string());
    let (of, at) = (lexicon.clone(), Places { file: name.clone(), classes });
    Ok(match **lexicon {
        Lexicon::Trees { .. } => {
            let trees = parse_binary_trees(reader, &name).zip(0u32..);
            Box::new(trees.map(move |(tree, index)| {
                let tree = tree?;
                let class = |node| at.class(index, tree.label(node));
                let targets = (0..tree.len()).map(class).collect::<Result<_, _>>()?;
                Ok((of.tree(index, &tree), targets))
            }))
        }
        Lexicon::Tagged { ref tags, .. } | Lexicon::Spelled { ref tags, .. } => {
            let numbers = tags.iter().cloned().zip(0..).collect::<HashMap<String, u32>>();
            let sentences = parse_sentences(reader, &name).zip(0u32..);
            Box::new(sentences.map(move |(sentence, index)| {
                let sentence: Sentence = sentence?;
                let tag = |tag: &Option<String>| {
                    let Some(tag) = tag else { return Ok(None) };
                    let expected = || "a tag of tags.txt".to_string();
                    numbers
                        .get(tag)
                        .copied()
                        .map(Some)
                        .ok_or_else(|| at.error(index, expected(), tag))
                };
                let targets = sentence.tags.iter().map(tag).collect::<Result<_, _>>()?;
                Ok((of.tagged(&sentence), targets))
            }))
        }
        Lexicon::Translation { .. } => {
            let Some(targets) = targets else {
                let expected = "a file of translations: name it with --targets, or as \"target\" \
                                in config.json";
                return Err(at.error(0, expected.into(), "none"));
            };
            let target_name = targets.display().to_string();
            let mut translations = parse_plain(open(targets)?, &target_name);
            let mut sentences = parse_plain(reader, &name).zip(0u32..);
            let translated = Places { file: target_name, classes };
            Box::new(std::iter::from_fn(move || {
                let (sentence, translation) = match (sentences.next(), translations.next()) {
                    (None, None) => return None,
                    (Some((sentence, _)), Some(translation)) => (sentence, translation),
                    (Some((_, index)), None) => {
                        let expected = format!("a translation of line {} of {name}", index + 1);
                        return Some(Err(translated.error(index, expected, "the end of the file")));
                    }
                    (None, Some(_)) => {
                        let expected = format!("as many lines as {name}");
                        return Some(Err(translated.error(0, expected, "more")));
                    }
                };
                Some(sentence.and_then(|sentence| {
                    let translation = translation?;
                    Ok(of.translated(&sentence, &translation))
                }))
            }))
        }
        Lexicon::CallLists(ref lists) => {
            Box::new(call_lists(lists.clone(), reader, name).map(|list| {
                let list = list?;
                let none = || vec![None; list.emitted().len()];
                let targets = list.targets().cloned().unwrap_or_else(none);
                Ok((ZooInput::CallList(list), targets))
            }))
        }
        Lexicon::Lattices { .. } if is_arc_file(path) => {
            let lattices = parse_arcs(reader, &name).zip(0u32..);
            Box::new(lattices.map(move |(lattice, index)| {
                let lattice = lattice?;
                let class = |label: &String| at.class(index, label);
                let targets = lattice.tags.iter().map(class).collect::<Result<_, _>>()?;
                Ok((of.numbered(&lattice), targets))
            }))
        }
        Lexicon::Lattices { .. } => {
            let lattices = parse_lattices(reader, &name).zip(0u32..);
            Box::new(lattices.map(move |(lattice, index)| {
                let lattice = lattice?;
                let class = |label: &Option<u32>| match *label {
                    Some(label) => at.class(index, &label.to_string()),
                    None => Ok(None),
                };
                let mut targets: Targets =
                    lattice.labels.iter().map(class).collect::<Result<_, _>>()?;
                targets.resize(lattice.len(), None);
                Ok((of.lattice(&lattice), targets))
            }))
        }
    })
}

/// Where targets are read from.
struct Places {
    file: String,
    classes: usize,
}

impl Places {
    fn class(&self, index: u32, label: &str) -> Result<Option<u32>, Error> {
        match label.parse::<u32>() {
            Ok(class) if (class as usize) < self.classes => Ok(Some(class)),
            _ => {
                let expected = format!("a class below {}", self.classes);
                Err(self.error(index, expected, label))
            }
        }
    }

    /// The error at the example with this index, which is on a line of its own.
    fn error(&self, index: u32, expected: String, got: &str) -> Error {
        let at = Position { file: self.file.clone(), line: u64::from(index) + 1, column: 1 };
        Error::Format { at, expected, got: got.into() }
    }
}

impl Lexicon {
    fn tagged(&self, sentence: &Sentence) -> ZooInput {
        match self {
            Self::Spelled { .. } => self.spelled(sentence),
            _ => self.sentence(sentence),
        }
    }

    /// Returns a sentence to translate, with the words of its translation given: the words are the
    /// inputs of the steps and, followed by the end of the sentence, the targets.
    fn translated(&self, sentence: &[String], translation: &[String]) -> (ZooInput, Targets) {
        let Self::Translation { target, .. } = self else { unreachable!("a translator's lexicon") };
        let ZooInput::Source(mut source) = self.source(sentence) else {
            unreachable!("a sentence to translate")
        };
        let words: Box<[u32]> = translation.iter().map(|word| target.id(word)).collect();
        let targets = words.iter().copied().chain([END]).map(Some).collect();
        source.stop = Stop::Forced(words);
        (ZooInput::Source(source), targets)
    }
}
