//! Random trees: draw the number of leaves, then split spans until every span is one leaf.

use edbatch_datasets::{Tree, TreeBuilder};
use rand::Rng;

use super::draw::{Quantiles, Zipf, between, pick, unit};

/// Generates `count` binary trees similar to the Stanford Sentiment Treebank, with labels `0` to
/// `4`.
///
/// A span splits after its first leaf, before its last leaf, or anywhere. Splits after the first
/// leaf make right-leaning trees, as in English. The probabilities determine the depth.
pub fn binary_trees(rng: &mut impl Rng, count: usize) -> Vec<Tree> {
    let words = Zipf::new(18_280, 1.1, 3.6);
    (0..count).map(|_| binary_tree(rng, &words)).collect()
}

/// Generates `count` constituent trees similar to GUM: preterminals over tokens, unary chains, and
/// nodes with up to six children.
pub fn nary_trees(rng: &mut impl Rng, count: usize) -> Vec<Tree> {
    let words = Zipf::new(12_000, 1.25, 5.8);
    (0..count).map(|_| nary_tree(rng, &words)).collect()
}

const BINARY_LEAVES: Quantiles =
    Quantiles([2.0, 5.0, 7.0, 12.0, 18.0, 25.0, 32.0, 35.0, 43.0, 52.0]);
const NARY_LEAVES: Quantiles =
    Quantiles([1.0, 2.0, 5.0, 12.0, 21.0, 31.0, 42.0, 50.0, 72.0, 125.0]);

const SENTIMENTS: [(&str, f64); 5] =
    [("2", 0.69), ("3", 0.14), ("1", 0.105), ("4", 0.04), ("0", 0.025)];
const PHRASES: [(&str, f64); 8] = [
    ("NP", 0.4),
    ("VP", 0.2),
    ("PP", 0.14),
    ("S", 0.12),
    ("NP-SBJ", 0.08),
    ("SBAR", 0.03),
    ("ADJP", 0.02),
    ("ADVP", 0.01),
];
const PARTS_OF_SPEECH: [(&str, f64); 10] = [
    ("NN", 0.2),
    ("IN", 0.17),
    ("DT", 0.13),
    ("NNP", 0.12),
    ("JJ", 0.09),
    (",", 0.08),
    ("NNS", 0.07),
    ("VBD", 0.06),
    ("RB", 0.05),
    (".", 0.03),
];

/// A pending task. A stack of tasks makes the nodes in post-order without recursion.
enum Task {
    /// Make a tree of `leaves` leaves; `below_unary` is true if its parent has only this child.
    Span { leaves: usize, below_unary: bool },
    /// Add a parent to the last `arity` nodes.
    Join { arity: usize },
}

fn binary_tree(rng: &mut impl Rng, words: &Zipf) -> Tree {
    let mut tree = TreeBuilder::new();
    let mut tasks = vec![span(BINARY_LEAVES.draw_length(rng))];
    while let Some(task) = tasks.pop() {
        let label = pick(&SENTIMENTS, unit(rng)).to_string();
        match task {
            Task::Join { arity } => _ = tree.push(label, None, arity),
            Task::Span { leaves: 1, .. } => _ = tree.push(label, Some(words.draw_word(rng)), 0),
            Task::Span { leaves, .. } => {
                let left = left_leaves(rng, leaves);
                tasks.extend([Task::Join { arity: 2 }, span(leaves - left), span(left)]);
            }
        }
    }
    tree.finish()
}

fn left_leaves(rng: &mut impl Rng, leaves: usize) -> usize {
    match unit(rng) {
        u if u < 0.42 => 1,
        u if u < 0.56 => leaves - 1,
        _ => between(rng, 1, leaves - 1),
    }
}

fn nary_tree(rng: &mut impl Rng, words: &Zipf) -> Tree {
    let mut tree = TreeBuilder::new();
    let mut tasks = vec![span(NARY_LEAVES.draw_length(rng))];
    while let Some(task) = tasks.pop() {
        match task {
            Task::Join { arity } => {
                _ = tree.push(pick(&PHRASES, unit(rng)).to_string(), None, arity)
            }
            Task::Span { leaves, below_unary }
                if !below_unary && unit(rng) < unary_chance(leaves) =>
            {
                tasks.extend([Task::Join { arity: 1 }, Task::Span { leaves, below_unary: true }]);
            }
            Task::Span { leaves: 1, .. } => {
                let label = pick(&PARTS_OF_SPEECH, unit(rng)).to_string();
                tree.push(label, Some(words.draw_word(rng)), 0);
            }
            Task::Span { leaves, .. } => split(rng, leaves, &mut tasks),
        }
    }
    tree.push("ROOT".to_string(), None, 1);
    tree.finish()
}

/// The probability of a unary node above a span.
fn unary_chance(leaves: usize) -> f64 {
    if leaves == 1 { 0.1 } else { 0.2 }
}

/// Splits a span into two to six spans. From the right, each is one leaf or a random share of the
/// remaining leaves; the first gets the rest.
fn split(rng: &mut impl Rng, leaves: usize, tasks: &mut Vec<Task>) {
    const ARITIES: [(usize, f64); 5] = [(2, 0.67), (3, 0.21), (4, 0.06), (5, 0.035), (6, 0.025)];
    let arity = pick(&ARITIES, unit(rng)).min(leaves);
    tasks.push(Task::Join { arity });
    let mut rest = leaves;
    for others in (1..arity).rev() {
        let part = if unit(rng) < 0.3 { 1 } else { between(rng, 1, rest - others) };
        tasks.push(span(part));
        rest -= part;
    }
    tasks.push(span(rest));
}

fn span(leaves: usize) -> Task {
    Task::Span { leaves, below_unary: false }
}
