//! Data sets to measure on: real ones from a folder, or generated ones with their statistics.
//!
//! A set has a part to train policies on and a part to measure on, and sizes for models. As in
//! most papers about speed, vocabularies are those of the part to measure on.

mod lattices;
mod sentences;

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use edbatch_datasets::{Error, Tree, Vocabulary, generate, read_binary_trees};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

pub use lattices::{newswire, weibo};
pub use sentences::{sentences, short_translations, spelled_sentences, translations};

/// Where inputs come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Generators with a fixed seed.
    Generated,
    /// A folder with a folder for each set, its files plain or compressed.
    Folder(PathBuf),
}

/// Inputs of one kind.
#[derive(Clone, Debug)]
pub struct Set<I> {
    /// What tables and records call it: `sst/test`.
    pub name: &'static str,
    /// To learn policies on.
    pub train: Rc<Vec<I>>,
    /// To measure on.
    pub test: Rc<Vec<I>>,
    /// Numbers in its vocabularies; a lattice has one of characters and one of words.
    pub vocabularies: Vec<usize>,
    /// Different labels: sentiments, tags or classes.
    pub labels: usize,
}

impl<I> Set<I> {
    /// The same set with other inputs, made of each and its number in its part.
    #[must_use]
    pub fn map<J>(&self, map: impl Fn(u32, &I) -> J) -> Set<J> {
        let part = |part: &[I]| Rc::new((0..).zip(part).map(|(i, input)| map(i, input)).collect());
        Set {
            name: self.name,
            train: part(&self.train),
            test: part(&self.test),
            vocabularies: self.vocabularies.clone(),
            labels: self.labels,
        }
    }
}

/// Binary trees: SST.
///
/// # Errors
/// If a file cannot be read.
pub fn trees(source: &Source) -> Result<Set<Tree<u32>>, SetError> {
    let (name, train, test) = match source {
        Source::Generated => generated("generated/trees", generate::binary_trees),
        Source::Folder(dir) => (
            "sst/test",
            read_binary_trees(file(dir, "sst/train.txt")?)?,
            read_binary_trees(file(dir, "sst/test.txt")?)?,
        ),
    };
    let tokens = Vocabulary::from_tokens(test.iter().flat_map(Tree::tokens));
    let number = |trees: Vec<Tree>| {
        Rc::new(trees.iter().map(|tree| tree.map(|_| 0, |token| tokens.id(token))).collect())
    };
    let (train, test) = (number(train), number(test));
    Ok(Set { name, train, test, vocabularies: vec![tokens.len()], labels: 5 })
}

/// A part to learn on, and one of five mini-batches of 256 to measure on.
fn generated<I>(
    name: &'static str,
    mut generate: impl FnMut(&mut Xoshiro256PlusPlus, usize) -> Vec<I>,
) -> (&'static str, Vec<I>, Vec<I>) {
    // One generator for both parts: they have no instance in common.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    (name, generate(&mut rng, 1536), generate(&mut rng, 1280))
}

/// A file of the folder, plain or compressed.
fn file(dir: &Path, name: &str) -> Result<PathBuf, SetError> {
    let plain = dir.join(name);
    let compressed = dir.join(format!("{name}.gz"));
    let found = [plain, compressed].into_iter().find(|path| path.exists());
    found.ok_or_else(|| SetError::Missing { dir: dir.into(), name: name.into() })
}

/// Why a set cannot be had.
#[derive(Debug)]
pub enum SetError {
    /// The folder has no such file.
    Missing {
        /// The folder.
        dir: PathBuf,
        /// The file's path in it.
        name: String,
    },
    /// A file is not what it should be.
    Wrong(Error),
}

impl From<Error> for SetError {
    fn from(error: Error) -> Self {
        Self::Wrong(error)
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { dir, name } => {
                write!(f, "{} has neither {name} nor {name}.gz", dir.display())
            }
            Self::Wrong(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetError {}
