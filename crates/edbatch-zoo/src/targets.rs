//! Targets: the class that each emitted row of an input should have.

use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use edbatch_datasets::{
    ArcNumber, Error, Label, Position, open, parse_checked_arcs, parse_checked_binary_trees,
    parse_checked_lattices, parse_plain,
};
use edbatch_models::Targets;

use crate::input::{call_lists, sentences, word_of_text};
use crate::{END, Lexicon, SourceSentence, Stop, ZooInput, is_arc_file};

/// An iterator over the examples of a file: inputs with their targets. It continues after an error
/// in one example, like [`Inputs`](crate::Inputs).
pub type Examples = Box<dyn Iterator<Item = Result<(ZooInput, Targets), Error>> + Send>;

/// Reads inputs and their targets. `count` is the number of classes of trees and lattices;
/// `targets` is the file of translations.
pub(crate) fn examples(
    lexicon: &Arc<Lexicon>,
    count: usize,
    path: &Path,
    targets: Option<&Path>,
) -> Result<Examples, Error> {
    let (reader, name) = (open(path)?, path.display().to_string());
    let of = lexicon.clone();
    let classes = Arc::new(Classes::new(lexicon, count));
    let checked = classes.clone();
    let check = move |label: &str| checked.class(label).map(drop);
    let class = move |label: &str| classes.class(label).ok().flatten();
    let examples: Examples = match **lexicon {
        Lexicon::Trees { .. } => {
            let check = move |label: &str| if label == NO_LABEL { Ok(()) } else { check(label) };
            let trees = parse_checked_binary_trees(reader, &name, check).zip(0u32..);
            Box::new(trees.map(move |(tree, index)| {
                let tree = tree?;
                let target = |label: &String| class(label).filter(|_| label != NO_LABEL);
                let targets = (0..tree.len()).map(|node| target(tree.label(node))).collect();
                Ok((of.tree(index, &tree), targets))
            }))
        }
        Lexicon::Tagged { .. } | Lexicon::Spelled { .. } => {
            Box::new(sentences(of.clone(), reader, name, check).map(move |sentence| {
                let sentence = sentence?;
                let target = |tag: &Option<String>| tag.as_deref().and_then(&class);
                let targets = sentence.tags.iter().map(target).collect();
                Ok((of.tagged(&sentence), targets))
            }))
        }
        Lexicon::Translation { .. } => translations(of, reader, name, targets)?,
        Lexicon::CallLists(ref lists) => {
            Box::new(call_lists(lists.clone(), reader, name).map(|list| {
                let list = list?;
                let none = || vec![None; list.emitted().len()];
                let targets = list.targets().cloned().unwrap_or_else(none);
                Ok((ZooInput::CallList(list), targets))
            }))
        }
        Lexicon::Lattices { .. } if is_arc_file(path) => {
            let check = move |number: ArcNumber<'_>| match number {
                ArcNumber::Label(label) => check(label),
                _ => Ok(()),
            };
            Box::new(parse_checked_arcs(reader, &name, check).map(move |lattice| {
                let lattice = lattice?;
                let targets = lattice.tags.iter().map(|label| class(label)).collect();
                Ok((of.numbered(&lattice), targets))
            }))
        }
        Lexicon::Lattices { .. } => {
            let check = move |label: Label<'_>| match label {
                Label::Number(number) => class_below(count, &number.to_string()).map(drop),
                Label::Name(name) => check(name),
            };
            Box::new(parse_checked_lattices(reader, &name, check).map(move |lattice| {
                let lattice = lattice?;
                let target = |label| match label {
                    Label::Number(number) => u32::try_from(number).ok(),
                    Label::Name(name) => class(name),
                };
                let labels = lattice.class_labels().map(|label| label.and_then(target));
                let mut targets: Targets = labels.collect();
                targets.resize(lattice.len(), None);
                Ok((of.lattice(&lattice), targets))
            }))
        }
    };
    Ok(Box::new(examples.map(|example| example.map_err(advised))))
}

/// Reads sentences, and their translations from the same lines of another file.
fn translations(
    of: Arc<Lexicon>,
    reader: Box<dyn BufRead + Send>,
    name: String,
    targets: Option<&Path>,
) -> Result<Examples, Error> {
    let Some(targets) = targets else {
        let expected = "a file of translations: name it with --targets, or as \"target\" \
                        in config.json";
        return Err(error(&name, 0, expected.into(), "none"));
    };
    let target_name = targets.display().to_string();
    let mut translations = parse_plain(open(targets)?, &target_name);
    let mut sentences = parse_plain(reader, &name).zip(0u32..);
    Ok(Box::new(std::iter::from_fn(move || {
        let (sentence, translation) = match (sentences.next(), translations.next()) {
            (None, None) => return None,
            (Some((sentence, _)), Some(translation)) => (sentence, translation),
            (Some((_, index)), None) => {
                let expected = format!("a translation of line {} of {name}", index + 1);
                let end = "the end of the file";
                return Some(Err(error(&target_name, index, expected, end)));
            }
            (None, Some(_)) => {
                let expected = format!("as many lines as {name}");
                return Some(Err(error(&target_name, 0, expected, "more")));
            }
        };
        Some(sentence.and_then(|sentence| {
            let translation = translation?;
            Ok(of.translated(&sentence, &translation))
        }))
    })))
}

/// Adds to the error of a label that the model does not know how to go on.
fn advised(mut error: Error) -> Error {
    if let Error::Format { expected, got, .. } = &mut error
        && [TAG, CLASS, BELOW].iter().any(|label| expected.starts_with(label))
    {
        got.push_str(": create a model that has it by giving all files to `edbatch init --input`");
    }
    error
}

/// The label of a tree's node without a target.
pub(crate) const NO_LABEL: &str = "_";

/// The classes that labels name.
enum Classes {
    /// Labels are class numbers below this number.
    Numbers(usize),
    /// Labels are names. `expected` describes them in errors.
    Names { expected: &'static str, numbers: HashMap<String, u32> },
}

impl Classes {
    fn new(lexicon: &Lexicon, classes: usize) -> Self {
        let (expected, names) = match (lexicon, lexicon.classes()) {
            (Lexicon::Tagged { tags, .. } | Lexicon::Spelled { tags, .. }, _) => {
                (TAG, tags.as_slice())
            }
            (_, Some(names)) => (CLASS, names),
            (_, None) => return Self::Numbers(classes),
        };
        Self::Names { expected, numbers: names.iter().cloned().zip(0..).collect() }
    }

    /// Returns the class of a label, or the text that was expected.
    fn class(&self, label: &str) -> Result<Option<u32>, String> {
        match self {
            Self::Numbers(classes) => class_below(*classes, label),
            Self::Names { expected, numbers } => {
                numbers.get(label).copied().map(Some).ok_or_else(|| (*expected).into())
            }
        }
    }
}

/// The beginnings of texts that errors of labels expected.
const TAG: &str = "a tag of tags.txt";
const CLASS: &str = "a class of classes.txt";
const BELOW: &str = "a class below ";

/// The text that an error of a negative label expected.
pub(crate) const CLASS_OR_NONE: &str = "a class number, or -1 for no class";

/// Returns the class that a label names by its number, or `None` for -1.
fn class_below(classes: usize, label: &str) -> Result<Option<u32>, String> {
    match label.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(..0) => Err(CLASS_OR_NONE.into()),
        Ok(class) if (class as usize) < classes => Ok(Some(class as u32)),
        _ => Err(format!("{BELOW}{classes}")),
    }
}

/// The error of a translation on line `index` + 1.
fn error(file: &str, index: u32, expected: String, got: &str) -> Error {
    let at = Position { file: file.into(), line: u64::from(index) + 1, column: 1 };
    Error::Format { at, expected, got: got.into() }
}

impl Lexicon {
    /// Returns a sentence to translate, with the words of its translation given: the words are the
    /// inputs of the steps and, followed by the end of the sentence, the targets.
    fn translated(&self, sentence: &[String], translation: &[String]) -> (ZooInput, Targets) {
        let Self::Translation { target, .. } = self else { unreachable!("a translator's lexicon") };
        let words: Box<[u32]> = translation.iter().map(|word| word_of_text(target, word)).collect();
        let targets = words.iter().copied().chain([END]).map(Some).collect();
        let source = SourceSentence { stop: Stop::Forced(words), ..self.source(sentence) };
        (ZooInput::Source(source), targets)
    }
}
