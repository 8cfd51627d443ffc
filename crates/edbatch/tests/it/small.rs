//! Small models, inputs, policies and plans that several tests use.

use std::path::{Path, PathBuf};

use edbatch::models::{
    BiLstmTagger, LstmNmt, Model, ModelName, NmtSizes, SourceSentence, Stop, TaggerSizes, Targets,
    TreeSizes, ZooInput, arg_max,
};
use edbatch::{Loaded, Rows, load};
use edbatch_datasets::{Sentence, Tree, TreeBuilder};
use edbatch_graph::Network;
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::fn_model::random;

pub(crate) const TREES: TreeSizes = TreeSizes { vocabulary: 9, embed: 4, hidden: 4, classes: 3 };
pub(crate) const TAGGER: TaggerSizes =
    TaggerSizes { vocabulary: 9, embed: 4, hidden: 4, layers: 2, mlp: 4, tags: 3 };

pub(crate) fn tagger(layers: usize) -> BiLstmTagger {
    BiLstmTagger::new(TaggerSizes { layers, ..TAGGER }).unwrap()
}

pub(crate) fn nmt() -> LstmNmt {
    LstmNmt::new(NmtSizes { source: 9, target: 11, embed: 4, hidden: 4 }).unwrap()
}

/// A translator with nine words in both languages, and weights.
pub(crate) fn translator() -> (LstmNmt, Parameters) {
    let model = LstmNmt::new(NmtSizes { source: 9, target: 9, embed: 3, hidden: 3 }).unwrap();
    let parameters = random(model.network(), 1);
    (model, parameters)
}

pub(crate) fn sentence<T>(words: impl Into<Vec<T>>) -> Sentence<T> {
    let words = words.into();
    Sentence { tags: vec![None; words.len()], words }
}

/// A tree of maximum depth, whose leaves have consecutive words from `word` on.
pub(crate) fn chain(leaves: u32, word: u32) -> Tree<u32> {
    let mut tree = TreeBuilder::new();
    tree.push(0, Some(word), 0);
    for leaf in 1..leaves {
        tree.push(0, Some((word + leaf) % 9), 0);
        tree.push(0, None, 2);
    }
    tree.finish()
}

/// Random trees, with words below `words`.
pub(crate) fn random_trees(count: usize, words: u32, seed: u64) -> Vec<Tree<u32>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let trees = edbatch_testing::generate::binary_trees(&mut rng, count);
    let mut word = || rng.random_range(0..words);
    trees.iter().map(|tree| tree.map(|_| 0, |_| word())).collect()
}

pub(crate) fn source(words: u32, steps: usize) -> SourceSentence {
    SourceSentence { words: (0..words).map(|i| i % 9).collect(), stop: Stop::After(steps) }
}

/// A sentence of one word, and its translation.
pub(crate) fn forced<const N: usize>(words: [u32; N]) -> SourceSentence {
    SourceSentence { words: vec![4], stop: Stop::Forced(words.into()) }
}

/// The folder of the small goldens.
pub(crate) fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens-small")
}

/// The model and the examples of a folder in `gradients/`.
pub(crate) fn examples(name: ModelName) -> (Loaded, (Vec<ZooInput>, Vec<Targets>)) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gradients").join(name.name());
    let loaded = load(dir).unwrap();
    let examples = loaded.folder.examples(&loaded.folder.input(), None).unwrap();
    let examples = examples.map(Result::unwrap).unzip();
    (loaded, examples)
}

/// Returns a copy of weights after a change.
pub(crate) fn changed(
    network: &Network,
    weights: &Parameters,
    change: impl FnOnce(&mut [Vec<f32>]),
) -> Parameters {
    let mut values: Vec<Vec<f32>> = weights.slices().into_iter().map(<[f32]>::to_vec).collect();
    change(&mut values);
    Parameters::from_values(network, values).unwrap()
}

/// Returns the index of the largest element of each row.
pub(crate) fn indices(outputs: &[Rows]) -> Vec<Vec<u32>> {
    outputs.iter().map(|rows| rows.iter().map(arg_max).collect()).collect()
}
