//! Trains with a loss of one's own: a TreeLSTM learns which of two trees has the larger sum of
//! leaves, without being told any sum. The loss is RankNet's (Burges et al., 2005).
//!
//! `cargo run --release -p edbatch --example 5_own_loss`

use std::error::Error;

use edbatch::datasets::{Tree, TreeBuilder};
use edbatch::models::{Model, TreeLstm, TreeSizes};
use edbatch::runtime::{Parameters, Rows};
use edbatch::{Engine, Optimizer, Trainer, TrainerOptions};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const DIGITS: u32 = 10;
const PAIRS: usize = 32;

/// Returns a random tree of digits. Labels do not matter here.
fn random_tree(rng: &mut Xoshiro256PlusPlus) -> Tree<u32> {
    fn grow(tree: &mut TreeBuilder<u32>, leaves: u32, rng: &mut Xoshiro256PlusPlus) {
        if leaves == 1 {
            tree.push(0, Some(rng.random_range(0..DIGITS)), 0);
            return;
        }
        let left = rng.random_range(1..leaves);
        grow(tree, left, rng);
        grow(tree, leaves - left, rng);
        tree.push(0, None, 2);
    }
    let (mut tree, leaves) = (TreeBuilder::new(), rng.random_range(4..12));
    grow(&mut tree, leaves, rng);
    tree.finish()
}

/// Returns pairs of trees, the one with the larger sum first.
fn random_pairs(rng: &mut Xoshiro256PlusPlus) -> Vec<Tree<u32>> {
    let mut trees = Vec::new();
    while trees.len() < 2 * PAIRS {
        let mut pair = [random_tree(rng), random_tree(rng)];
        pair.sort_by_key(|tree| u32::MAX - tree.tokens().sum::<u32>());
        if pair[0].tokens().sum::<u32>() > pair[1].tokens().sum::<u32>() {
            trees.extend(pair);
        }
    }
    trees
}

/// Returns the score of the root, which is the last row.
fn score(rows: &Rows) -> f32 {
    rows.row(rows.len() - 1)[0]
}

/// Returns the gradients of a tree's rows. The loss depends on the root alone: an empty row means
/// zeros.
fn of_root(rows: &Rows, gradient: f32) -> Rows {
    let mut gradients = Rows::new();
    (1..rows.len()).for_each(|_| gradients.push(&[]));
    gradients.push(&[gradient]);
    gradients
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let sizes = TreeSizes { vocabulary: DIGITS as usize, embed: 16, hidden: 32, classes: 1 };
    let model = TreeLstm::new(sizes)?;
    let parameters = Parameters::random(model.network(), &mut rng);
    let options = TrainerOptions::new().optimizer(Optimizer::adam(5e-3));
    let mut trainer = Trainer::with_options(model.clone(), parameters, options)?;
    let mut sum = 0.0;
    for step in 1..=300 {
        let scored = trainer.forward(&random_pairs(&mut rng))?;
        let mut gradients = Vec::new();
        for pair in scored.chunks_exact(2) {
            // The loss of a pair is ln(1 + exp(−difference)).
            let difference = score(&pair[0]) - score(&pair[1]);
            let slope = -1.0 / (1.0 + difference.exp()) / PAIRS as f32;
            gradients.push(of_root(&pair[0], slope));
            gradients.push(of_root(&pair[1], -slope));
            sum += (-difference).exp().ln_1p() / PAIRS as f32;
        }
        trainer.backward(&gradients)?;
        trainer.update()?;
        if step % 50 == 0 {
            println!("step {step}: mean loss {:.2}", sum / 50.0);
            sum = 0.0;
        }
    }
    let scores = Engine::new(model, trainer.parameters()?)?.run(&random_pairs(&mut rng))?;
    let right = scores.chunks_exact(2).filter(|pair| score(&pair[0]) > score(&pair[1])).count();
    println!("{right} of {PAIRS} new pairs in the right order");
    Ok(())
}
