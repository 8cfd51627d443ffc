//! Data sets: real ones from a folder, or generated ones with similar statistics.
//!
//! A set has a part for learning policies, a part for measuring, and sizes for models. As in most
//! papers about speed, vocabularies come from the part for measuring.

pub mod lattices;
pub mod sentences;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch_datasets::{Error, Tree, Vocabulary, read_binary_trees};
use edbatch_testing::generate;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The source of inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// Generators with a fixed seed.
    Generated,
    /// A folder with a subfolder for each set; files may be compressed.
    Folder(PathBuf),
}

/// Inputs of one kind.
#[derive(Clone, Debug)]
pub struct Set<I> {
    /// Name in records, such as `sst/test`.
    pub name: &'static str,
    /// Instances for learning policies.
    pub train: Arc<Vec<I>>,
    /// Instances for measuring.
    pub test: Arc<Vec<I>>,
    /// Sizes of the vocabularies. Lattices have one of characters and one of words.
    pub vocabularies: Vec<usize>,
    /// Number of labels: sentiments, tags or classes.
    pub labels: usize,
}

impl<I> Set<I> {
    /// Maps each input, given its number in its part.
    pub fn map<J>(&self, map: impl Fn(u32, &I) -> J) -> Set<J> {
        let part = |part: &[I]| Arc::new((0..).zip(part).map(|(i, input)| map(i, input)).collect());
        Set {
            name: self.name,
            train: part(&self.train),
            test: part(&self.test),
            vocabularies: self.vocabularies.clone(),
            labels: self.labels,
        }
    }
}

/// Binary trees from SST.
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
        Arc::new(trees.iter().map(|tree| tree.map(|_| 0, |token| tokens.id(token))).collect())
    };
    let (train, test) = (number(train), number(test));
    Ok(Set { name, train, test, vocabularies: vec![tokens.len()], labels: 5 })
}

/// Generates a set: 1536 inputs for learning, and five mini-batches of 256 for measuring.
fn generated<I>(
    name: &'static str,
    mut generate: impl FnMut(&mut Xoshiro256PlusPlus, usize) -> Vec<I>,
) -> (&'static str, Vec<I>, Vec<I>) {
    // One generator for both parts, so that they have no instance in common.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    (name, generate(&mut rng, 1536), generate(&mut rng, 1280))
}

/// Finds a file of the folder, plain or compressed.
fn file(dir: &Path, name: &str) -> Result<PathBuf, SetError> {
    let plain = dir.join(name);
    let compressed = dir.join(format!("{name}.gz"));
    let found = [plain, compressed].into_iter().find(|path| path.exists());
    found.ok_or_else(|| SetError::Missing { dir: dir.into(), name: name.into() })
}

/// A set that cannot be read.
#[derive(Debug)]
pub enum SetError {
    /// The folder has no such file.
    Missing {
        /// The folder.
        dir: PathBuf,
        /// The file's path in it.
        name: String,
    },
    /// A file is malformed.
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
