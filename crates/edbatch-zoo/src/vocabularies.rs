//! Builds the vocabularies of a model from files of inputs, and counts its classes or tags.
//!
//! Tokens are numbered in the order of their first occurrence, so the same files give the same
//! numbers. *Cost*: one pass over the files, and memory for the distinct tokens.

mod labels;

use std::fmt;
use std::path::{Path, PathBuf};

use edbatch_datasets::{
    ArcNumber, Error, Label, Position, SENTENCE_FORMAT, Vocabulary, open, parse_checked_arcs,
    parse_checked_binary_trees, parse_checked_lattices, parse_pairs, parse_sentences,
};

use crate::input::not_columns;
use crate::lexicon::{PAD_TOKEN, SENTENCE_TOKENS};
use crate::targets::{CLASS_OR_NONE, NO_LABEL};
use crate::{Family, Lexicon, is_arc_file};
use labels::{Labels, MAX_CLASSES};

/// The vocabularies and the number of outputs for files of inputs.
#[derive(Clone, PartialEq, Debug)]
pub struct Vocabularies {
    /// The vocabularies; each begins with `<unk>`.
    pub lexicon: Lexicon,
    /// The number of scores: classes, tags or target words.
    pub outputs: usize,
    /// The number of labels -1 that mean no class.
    pub unlabelled: usize,
    /// The words and characters that stay unknown, because no line of a vocabulary file can hold
    /// them.
    pub unwritable: Vec<String>,
}

/// Reads files of inputs and numbers their words, characters and labels.
///
/// If all labels are numbers below 65,536, they are class numbers, and the number of classes is the
/// largest label plus one; -1 means no class, and other negative numbers are errors. Otherwise each
/// distinct label is a class, and the lexicon has its name; class numbers in a lattice's `labels`
/// are positions among these names. The label `_` of a node means no class. The characters and
/// words of arc files keep their numbers, which must be below 65,536 or four times the number of
/// arcs. For other files, a vocabulary contains the words and characters that occur at least
/// `min_count` times; by default all, and for taggers with characters the words that occur more
/// than five times. Words and characters of lattices that are empty or contain a line end stay
/// unknown, because a vocabulary file cannot represent them; such tags are errors.
///
/// # Errors
/// If a file cannot be read, there are no labels, or a label is not a class.
pub fn build_vocabularies(
    family: Family,
    files: &[PathBuf],
    min_count: Option<usize>,
) -> Result<Vocabularies, VocabularyError> {
    let mut labels = Labels::default();
    let min_count =
        min_count.unwrap_or(if family == Family::Spelled { MIN_COUNT_SPELLED } else { 1 });
    let read = |labels: &mut Labels| match family {
        Family::Trees => Ok(trees(files, labels, min_count)?),
        Family::Tagged => Ok(tagged(files, labels, min_count)?),
        Family::Spelled => Ok(spelled(files, labels, min_count)?),
        Family::Translation => translation(files, min_count),
        Family::Lattices => lattices(files, labels, min_count),
    };
    let mut lexicon = read(&mut labels)?;
    let tagger = matches!(family, Family::Tagged | Family::Spelled);
    if !tagger && let Some(negative) = labels.negative() {
        again(files, CLASS_OR_NONE, negative, || read(&mut Labels::only_classes()).map(drop))?;
    }
    let unlabelled = if tagger { 0 } else { labels.unlabelled() };
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
    Ok(Vocabularies { lexicon, outputs, unlabelled, unwritable: labels.unwritable })
}

/// Reads files a second time, with a check that refuses `got`, for the error at its place.
fn again(
    files: &[PathBuf],
    expected: &str,
    got: impl fmt::Display,
    read: impl FnOnce() -> Result<(), VocabularyError>,
) -> Result<(), VocabularyError> {
    // A pipe is empty the second time, or blocks.
    if files.iter().all(|file| file.is_file()) {
        read()?;
    }
    let at = Position { file: name(&files[0]), line: 1, column: 1 };
    Err(Error::Format { at, expected: expected.into(), got: got.to_string() }.into())
}

fn trees(files: &[PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let mut words = Counted::default();
    for file in files {
        let check = labels.check();
        for tree in parse_checked_binary_trees(open(file)?, &name(file), check) {
            let tree = tree?;
            let all = (0..tree.len()).map(|node| tree.label(node));
            all.filter(|&label| label != NO_LABEL).for_each(|label| labels.insert(label));
            tree.tokens().for_each(|token| words.insert(token));
        }
    }
    Ok(Lexicon::Trees { words: words.frequent(min, Vocabulary::new()), classes: None })
}

/// Reads sentences with tags, and calls `f` with each word.
fn each_word(files: &[PathBuf], labels: &mut Labels, mut f: impl FnMut(&str)) -> Result<(), Error> {
    for file in files {
        for (sentence, line) in parse_sentences(open(file)?, &name(file)).zip(1..) {
            let is_tag = |tag: &str| labels.contains(tag);
            let sentence = not_columns(sentence?, is_tag, &name(file), line)?;
            sentence.words.iter().for_each(|word| f(word));
            sentence.tags.iter().flatten().for_each(|tag| labels.insert(tag));
        }
    }
    Ok(())
}

fn tagged(files: &[PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let mut words = Counted::default();
    each_word(files, labels, |word| words.insert(word))?;
    let words = words.frequent(min, Vocabulary::new());
    Ok(Lexicon::Tagged { words, tags: std::mem::take(&mut labels.names) })
}

/// Words that occur less often are left out of the vocabulary, so that the model spells them.
const MIN_COUNT_SPELLED: usize = 6;

fn spelled(files: &[PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let (mut words, mut chars) = (Counted::default(), Vocabulary::from_tokens([PAD_TOKEN]));
    each_word(files, labels, |word| {
        words.insert(word);
        word.chars().for_each(|c| _ = chars.insert(c.encode_utf8(&mut [0; 4])));
    })?;
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
        (arcs, []) => numbered_lattices(arcs, labels, u32::MAX),
        ([arcs, ..], [named, ..]) => {
            Err(VocabularyError::Mixed { arcs: arcs.to_path_buf(), named: named.to_path_buf() })
        }
    }
}

fn named_lattices(files: &[&PathBuf], labels: &mut Labels, min: usize) -> Result<Lexicon, Error> {
    let (mut chars, mut words) = (Counted::default(), Counted::default());
    for file in files {
        let check_name = labels.check();
        let check = move |label: Label<'_>| match label {
            Label::Number(..-1) => Err(CLASS_OR_NONE.into()),
            Label::Number(number) if number >= MAX_CLASSES as i64 => {
                Err(format!("a class below {MAX_CLASSES}"))
            }
            Label::Number(_) => Ok(()),
            Label::Name(name) if fits_a_line(name) => check_name(name),
            Label::Name(_) => Err("a tag without line ends that is not empty".into()),
        };
        for lattice in parse_checked_lattices(open(file)?, &name(file), check) {
            let lattice = lattice?;
            lattice.chars.iter().for_each(|char| chars.insert(char));
            lattice.words.iter().for_each(|arc| words.insert(&arc.word));
            for label in lattice.class_labels().flatten() {
                match label {
                    Label::Number(-1) => labels.minus_ones += 1,
                    Label::Number(class) => labels.end = labels.end.max(class as usize + 1),
                    Label::Name(name) => labels.insert(name),
                }
            }
        }
    }
    let tokens = chars.tokens.tokens().iter().chain(words.tokens.tokens());
    labels.unwritable = tokens.filter(|token| !fits_a_line(token)).cloned().collect();
    let [chars, words] = [chars, words].map(|tokens| tokens.frequent(min, Vocabulary::new()));
    Ok(Lexicon::Lattices { chars, words, classes: None })
}

fn numbered_lattices(
    files: &[&PathBuf],
    labels: &mut Labels,
    limit: u32,
) -> Result<Lexicon, VocabularyError> {
    let (mut arcs, mut max_char, mut max_word) = (0_u32, 0, 0);
    for file in files {
        let check_label = labels.check();
        let check = |number: ArcNumber<'_>| match number {
            ArcNumber::Label(label) => check_label(label),
            ArcNumber::Char(number) | ArcNumber::Word(number) if number > limit => {
                Err(format!("a number up to {limit}, the limit for files of this size"))
            }
            _ => Ok(()),
        };
        for lattice in parse_checked_arcs(open(file)?, &name(file), check) {
            let lattice = lattice?;
            arcs = arcs.saturating_add((lattice.chars.len() + lattice.words.len()) as u32);
            max_char = lattice.chars.iter().copied().fold(max_char, u32::max);
            max_word = lattice.words.iter().map(|arc| arc.word).fold(max_word, u32::max);
            lattice.tags.iter().for_each(|tag| labels.insert(tag));
        }
    }
    // An arc has at least four bytes, so there are at most as many tokens as bytes.
    let allowed = arcs.saturating_mul(4).clamp(MAX_GAP, MAX_NUMBER);
    let max = max_char.max(max_word);
    if max > allowed {
        let files: Vec<PathBuf> = files.iter().map(|&file| file.clone()).collect();
        again(&files, "smaller numbers of characters and words", max, || {
            numbered_lattices(&files.iter().collect::<Vec<_>>(), &mut Labels::default(), allowed)
                .map(drop)
        })?;
    }
    // A token for each number up to the largest, so that numbers stay the same.
    let numbers = |max: u32| Vocabulary::from_tokens((1..=max).map(|id| id.to_string()));
    let (chars, words) = (numbers(max_char), numbers(max_word));
    Ok(Lexicon::Lattices { chars, words, classes: None })
}

/// Every arc file may have numbers up to this one.
const MAX_GAP: u32 = (1 << 16) - 1;

/// No arc file may have larger numbers, which limits the size of tables.
const MAX_NUMBER: u32 = (1 << 22) - 1;

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
        let frequent = counted.filter(|&(token, &times)| times >= min && fits_a_line(token));
        frequent.for_each(|(token, _)| _ = vocabulary.insert(token));
        vocabulary
    }
}

fn fits_a_line(token: &str) -> bool {
    !token.is_empty() && !token.contains(['\n', '\r'])
}

fn name(file: &Path) -> String {
    file.display().to_string()
}

/// An error while building vocabularies.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// A file could not be read.
    #[error(transparent)]
    Input(#[from] Error),
    /// The files contain no labels.
    #[error(
        "{}: expected labels, got none",
        files.iter().map(|file| name(file)).collect::<Vec<_>>().join(", ")
    )]
    NoLabels {
        /// The files.
        files: Vec<PathBuf>,
    },
    /// Translation needs two files, sources and targets.
    #[error("expected two files, line by line source and target, got {files}")]
    NotTwoFiles {
        /// The number of files.
        files: usize,
    },
    /// Some lattices have `labels`, others `tags`, and a number is not of a named class.
    #[error("expected \"labels\" below {names}, the number of distinct \"tags\", got {number}")]
    NumberAndNames {
        /// The largest number.
        number: usize,
        /// The number of distinct tags.
        names: usize,
    },
    /// Some files have lattices as numbers, others as text. They cannot share a vocabulary.
    #[error("expected only arc files or no arc files, got {arcs} and {named}")]
    Mixed {
        /// An arc file.
        arcs: PathBuf,
        /// A file with text.
        named: PathBuf,
    },
}
