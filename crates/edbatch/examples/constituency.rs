//! Constituency trees in Penn Treebank brackets, with any number of children and unary chains.
//!
//! A preterminal reads its word, a phrase its children. A phrase with one child, which only renames
//! it (NP over NN, say), has its own cell. Other phrases read the mean and the maximum of their
//! children.
//!
//! `cargo run --release -p edbatch --example constituency`:
//!
//! ```text
//! 68 nodes, 12 deep: h = [-0.0721, -0.2147, -0.0240] …
//! 15 nodes, 6 deep: h = [-0.0341, -0.1341, 0.0883] …
//! 64 nodes, 15 deep: h = [0.0355, -0.0839, -0.0103] …
//! 280 calls, 20 batches
//! ```

use std::sync::Arc;

use edbatch::Engine;
use edbatch_datasets::{Tree, Vocabulary, fixtures};
use edbatch_graph::{CellError, Kind, Network, Shape, Value};
use edbatch_models::{Build, BuildError, Model};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const HIDDEN: usize = 32;

struct Constituency {
    network: Arc<Network>,
    word: Kind,
    unary: Kind,
    phrase: Kind,
}

impl Constituency {
    fn new(labels: usize, words: usize) -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(HIDDEN as u32))])?;
        let word = network.cell("word", state, |cell| {
            let tag = cell.lookup("tag", "label.embed", &[labels, HIDDEN]);
            let word = cell.lookup("word", "word.embed", &[words, HIDDEN]);
            vec![(tag + word).tanh()]
        })?;
        let unary = network.cell("unary", state, |cell| {
            let label = cell.lookup("label", "label.embed", &[labels, HIDDEN]);
            let [h] = cell.one("child", state);
            vec![(cell.parameter("unary.w", &[HIDDEN, HIDDEN]).matmul(h) + label).tanh()]
        })?;
        let phrase = network.cell("phrase", state, |cell| {
            let label = cell.lookup("label", "label.embed", &[labels, HIDDEN]);
            let children = cell.many("children", state);
            let ([mean], [max]) = (children.mean(), children.max());
            let w = |name| cell.parameter(name, &[HIDDEN, HIDDEN]);
            vec![(w("phrase.mean").matmul(mean) + w("phrase.max").matmul(max) + label).tanh()]
        })?;
        Ok(Self { network: Arc::new(network), word, unary, phrase })
    }
}

impl Model for Constituency {
    type Input = Tree<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, tree: &Tree<u32>) -> Result<(), BuildError> {
        let mut states: Vec<Value> = Vec::with_capacity(tree.len());
        for i in 0..tree.len() {
            let label = *tree.label(i);
            let children: Vec<Value> =
                tree.children(i).iter().map(|&child| states[child as usize]).collect();
            states.push(match (children.as_slice(), tree.token(i)) {
                ([], token) => build.call(self.word, &[label, token.copied().unwrap_or(0)], &[])?,
                ([_], _) => build.call(self.unary, &[label], &children)?,
                _ => build.call(self.phrase, &[label], &children)?,
            });
        }
        build.emit(states[tree.root()]);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let trees = fixtures::nary_trees();
    let (mut labels, mut words) = (Vocabulary::new(), Vocabulary::new());
    let number = |tree: &Tree| tree.map(|label| labels.insert(label), |word| words.insert(word));
    let ids: Vec<_> = trees.iter().map(number).collect();
    let model = Constituency::new(labels.len(), words.len())?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut engine = Engine::new(model, parameters)?;
    let roots = engine.run(&ids)?;
    for (tree, root) in trees.iter().zip(&roots).take(3) {
        let (nodes, depth) = (tree.len(), tree.depth());
        println!("{nodes} nodes, {depth} deep: h = {:.4?} …", &root.row(0)[..3]);
    }
    println!("{} calls, {} batches", engine.statistics().nodes, engine.statistics().batches);
    Ok(())
}
