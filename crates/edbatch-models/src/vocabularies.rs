//! Builds the vocabularies of a model from files of inputs, and counts its classes or tags.
//!
//! Tokens are numbered in the order of their first occurrence, so the same files give the same
//! numbers. *Cost*: one pass over the files, and memory for the distinct tokens.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use edbatch_datasets::{
    Error, Label, Lattice, Position, SENTENCE_FORMAT, Vocabulary, open, parse_arcs,
    parse_binary_trees, parse_checked_lattices, parse_pairs, parse_sentences,
};

use crate::input::not_columns;
use crate::lexicon::{PAD_TOKEN, SENTENCE_TOKENS};
use crate::targets::NO_LABEL;
use crate::{Family, Lexicon, is_arc_file};

/// The vocabularies and the number of outputs for files of inputs.
#[derive(Clone, PartialEq, Debug)]
pub struct Vocabularies {
    /// The vocabularies; each begins with `<unk>`.
    pub lexicon: Lexicon,
    /// The number of scores: classes, tags or target words.
    pub outputs: usize,
}

/// Reads files of inputs and numbers their words, characters and labels.
///
/// If all labels are numbers below 65,536, they are class numbers, and the number of classes is the
/// largest label plus one. Otherwise each distinct label is a class, and the lexicon has its name;
/// class numbers in a lattice's `labels` are positions among these names. The label `_` of a node
/// means no class. The characters and words of arc files keep their numbers. For other files, a
/// vocabulary contains the words and characters that occur at least `min_count` times; by default
/// all, and for taggers with characters the words that occur more than five times. Tokens that are
/// empty or contain a line end stay unknown, because a vocabulary file cannot represent them.
///
/// # Errors
/// If a file cannot be read, there are no labels, or a lattice's number is not of a named class.
pub fn build_vocabularies(
    family: Family,
    files: &[PathBuf],
    min_count: Option<usize>,
) -> Result<Vocabularies, VocabularyError> {
    let mut labels = Labels::default();
    let min_count =
        min_count.unwrap_or(if family == Family::Spelled { MIN_COUNT_SPELLED } else { 1 });
    let mut lexicon = match family {
        Family::Trees => trees(files, &mut labels, min_count)?,
        Family::Tagged => tagged(files, &mut labels, min_count)?,
        Family::Spelled => spelled(files, &mut labels, min_count)?,
        Family::Translation => translation(files, min_count)?,
        Family::Lattices => lattices(files, &mut labels, min_count)?,
    };
    let tagger = matches!(family, Family::Tagged | Family::Spelled);
    let outputs = match &mut lexicon {
        Lexicon::Tagged { tags, .. } | Lexicon::Spelled { tags, .. } => tags.len(),
        Lexicon::Translation { target, .. } => target.len(),
        Lexicon::Trees { classes, .. } | Lexicon::Lattices { classes, .. } => {
            let outputs = labels.classes();
            *classes = (!labels.are_numbers()).then(|| std::mem::take(&mut labels.names));
            outputs
        }
        Lexicon::CallLists(_) => unreachable!("no family has call lists"),
    };
    if labels.end > outputs {
        return Err(VocabularyError::NumberAndNames { number: labels.end - 1, names: outputs });
    }
    match files {
        [file, ..] if outputs == 0 && tagger => {
            let at = Position { file: name(file), line: 1, column: 1 };
            let (expected, got) = (SENTENCE_FORMAT.into(), "a file without tags".into());
            return Err(Error::Format { at, expected, got }.into());
        }
        _ if outputs == 0 => return Err(VocabularyError::NoLabels { files: files.to_vec() }),
        _ => {}
    }
    Ok(Vocabularies { lexicon, outputs })
}

fn trees(files: &[PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let mut words = Counted::default();
    for file in files {
        for tree in parse_binary_trees(open(file)?, &name(file)) {
            let tree = tree?;
            let all = (0..tree.len()).map(|node| tree.label(node));
            all.filter(|&label| label != NO_LABEL).for_each(|label| labels.insert(label));
            tree.tokens().for_each(|token| words.insert(token));
        }
    }
    Ok(Lexicon::Trees { words: words.frequent(min, Vocabulary::new()), classes: None })
}

fn tagged(files: &[PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let mut words = Counted::default();
    for file in files {
        for (sentence, line) in parse_sentences(open(file)?, &name(file)).zip(1..) {
            let is_tag = |tag: &str| labels.known.contains(tag);
            let sentence = not_columns(sentence?, is_tag, &name(file), line)?;
            sentence.words.iter().for_each(|word| words.insert(word));
            sentence.tags.iter().flatten().for_each(|tag| labels.insert(tag));
        }
    }
    let words = words.frequent(min, Vocabulary::new());
    Ok(Lexicon::Tagged { words, tags: std::mem::take(&mut labels.names) })
}

/// Words that occur less often are left out of the vocabulary, so that the model spells them.
const MIN_COUNT_SPELLED: usize = 6;

fn spelled(files: &[PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let mut words = Counted::default();
    let mut chars = Vocabulary::from_tokens([PAD_TOKEN]);
    for file in files {
        for (sentence, line) in parse_sentences(open(file)?, &name(file)).zip(1..) {
            let is_tag = |tag: &str| labels.known.contains(tag);
            let sentence = not_columns(sentence?, is_tag, &name(file), line)?;
            for word in &sentence.words {
                words.insert(word);
                word.chars().for_each(|c| insert(&mut chars, c.encode_utf8(&mut [0; 4])));
            }
            sentence.tags.iter().flatten().for_each(|tag| labels.insert(tag));
        }
    }
    let words = words.frequent(min, Vocabulary::new());
    Ok(Lexicon::Spelled { words, chars, tags: std::mem::take(&mut labels.names) })
}

fn translation(files: &[PathBuf], min: usize) -> Result<Lexicon, VocabularyError> {
    let [from, to] = files else { return Err(VocabularyError::NotTwoFiles { files: files.len() }) };
    let (mut source, mut target) = (Counted::default(), Counted::default());
    for pair in parse_pairs((open(from)?, &name(from)), (open(to)?, &name(to))) {
        let pair = pair?;
        pair.source.iter().for_each(|word| source.insert(word));
        pair.target.iter().for_each(|word| target.insert(word));
    }
    let [source, target] =
        [source, target].map(|words| words.frequent(min, Vocabulary::from_tokens(SENTENCE_TOKENS)));
    Ok(Lexicon::Translation { source, target })
}

fn lattices(
    files: &[PathBuf],
    labels: &mut Labels,
    min: usize,
) -> Result<Lexicon, VocabularyError> {
    let (arcs, named): (Vec<&PathBuf>, Vec<&PathBuf>) =
        files.iter().partition(|file| is_arc_file(file));
    match (arcs.as_slice(), named.as_slice()) {
        ([], named) => Ok(named_lattices(named, labels, min)?),
        (arcs, []) => Ok(numbered_lattices(arcs, labels)?),
        ([arcs, ..], [named, ..]) => {
            Err(VocabularyError::Mixed { arcs: arcs.to_path_buf(), named: named.to_path_buf() })
        }
    }
}

fn named_lattices(files: &[&PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let (mut chars, mut words) = (Counted::default(), Counted::default());
    for file in files {
        let check = |label: Label<'_>| match label {
            Label::Number(number) if number as usize >= MAX_CLASSES => {
                Err(format!("a class below {MAX_CLASSES}"))
            }
            _ => Ok(()),
        };
        for lattice in parse_checked_lattices(open(file)?, &name(file), check) {
            let lattice = lattice?;
            lattice.chars.iter().for_each(|char| chars.insert(char));
            lattice.words.iter().for_each(|arc| words.insert(&arc.word));
            for label in lattice.class_labels().flatten() {
                match label {
                    Label::Number(class) => labels.end = labels.end.max(class as usize + 1),
                    Label::Name(name) => labels.insert(name),
                }
            }
        }
    }
    let [chars, words] = [chars, words].map(|tokens| tokens.frequent(min, Vocabulary::new()));
    Ok(Lexicon::Lattices { chars, words, classes: None })
}

fn numbered_lattices(files: &[&PathBuf], labels: &mut Labels) -> Result<Lexicon, Error> {
    let (mut max_char, mut max_word) = (0, 0);
    for file in files {
        for lattice in parse_arcs(open(file)?, &name(file)) {
            let Lattice { chars, words, tags, .. } = lattice?;
            max_char = chars.iter().copied().fold(max_char, u32::max).min(MAX_NUMBER);
            max_word = words.iter().map(|arc| arc.word).fold(max_word, u32::max).min(MAX_NUMBER);
            tags.iter().for_each(|tag| labels.insert(tag));
        }
    }
    // A token for each number up to the largest, so that numbers stay the same.
    let numbers = |max: u32| Vocabulary::from_tokens((1..=max).map(|id| id.to_string()));
    let (chars, words) = (numbers(max_char), numbers(max_word));
    Ok(Lexicon::Lattices { chars, words, classes: None })
}

/// Larger numbers in an arc file get no table row of their own, which limits the size of tables.
const MAX_NUMBER: u32 = (1 << 22) - 1;

/// If a numeric label reaches this limit, all labels are names of classes.
const MAX_CLASSES: usize = 1 << 16;

/// Distinct labels, in the order of their first occurrence.
#[derive(Default)]
struct Labels {
    names: Vec<String>,
    known: HashSet<String>,
    /// The largest class number in `labels` of lattices plus one.
    end: usize,
}

impl Labels {
    fn insert(&mut self, label: &str) {
        if !self.known.contains(label) && fits_a_line(label) {
            self.names.push(label.into());
            self.known.insert(label.into());
        }
    }

    fn numbers(&self) -> impl Iterator<Item = Option<usize>> {
        self.names.iter().map(|name| name.parse().ok().filter(|&number| number < MAX_CLASSES))
    }

    fn are_numbers(&self) -> bool {
        self.numbers().all(|number| number.is_some())
    }

    fn classes(&self) -> usize {
        match self.are_numbers() {
            true => self.numbers().flatten().map(|number| number + 1).fold(self.end, usize::max),
            false => self.names.len(),
        }
    }
}

/// Tokens and how often they occur, in the order of their first occurrence.
struct Counted {
    tokens: Vocabulary,
    /// By the number of a token; `<unk>` is 0.
    times: Vec<usize>,
}

impl Default for Counted {
    fn default() -> Self {
        Self { tokens: Vocabulary::new(), times: vec![0] }
    }
}

impl Counted {
    fn insert(&mut self, token: &str) {
        let id = self.tokens.insert(token) as usize;
        self.times.resize(self.tokens.len(), 0);
        self.times[id] += 1;
    }

    /// Adds the tokens that occur at least `min` times to a vocabulary.
    fn frequent(&self, min: usize, mut vocabulary: Vocabulary) -> Vocabulary {
        let counted = self.tokens.tokens().iter().zip(&self.times);
        let frequent = counted.filter(|&(_, &times)| times >= min);
        frequent.for_each(|(token, _)| insert(&mut vocabulary, token));
        vocabulary
    }
}

fn insert(vocabulary: &mut Vocabulary, token: &str) {
    if fits_a_line(token) {
        vocabulary.insert(token);
    }
}

fn fits_a_line(token: &str) -> bool {
    !token.is_empty() && !token.contains(['\n', '\r'])
}

fn name(file: &Path) -> String {
    file.display().to_string()
}

/// An error while building vocabularies.
#[derive(Debug)]
#[non_exhaustive]
pub enum VocabularyError {
    /// A file could not be read.
    Input(Error),
    /// The files contain no labels.
    NoLabels {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Translation needs two files, sources and targets.
    NotTwoFiles {
        /// The number of files.
        files: usize,
    },
    /// Some lattices have `labels`, others `tags`, and a number is not of a named class.
    NumberAndNames {
        /// The largest number.
        number: usize,
        /// The number of distinct tags.
        names: usize,
    },
    /// Some files have lattices as numbers, others as text. They cannot share a vocabulary.
    Mixed {
        /// An arc file.
        arcs: PathBuf,
        /// A file with text.
        named: PathBuf,
    },
}

impl From<Error> for VocabularyError {
    fn from(error: Error) -> Self {
        Self::Input(error)
    }
}

impl fmt::Display for VocabularyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => error.fmt(f),
            Self::NoLabels { files } => {
                let files: Vec<String> = files.iter().map(|file| name(file)).collect();
                write!(f, "{}: expected labels, got none", files.join(", "))
            }
            Self::NotTwoFiles { files } => {
                write!(f, "expected two files, line by line source and target, got {files}")
            }
            Self::NumberAndNames { number, names } => write!(
                f,
                "expected \"labels\" below {names}, the number of distinct \"tags\", got {number}"
            ),
            Self::Mixed { arcs, named } => write!(
                f,
                "expected only arc files or no arc files, got {} and {}",
                arcs.display(),
                named.display()
            ),
        }
    }
}

impl std::error::Error for VocabularyError {}
