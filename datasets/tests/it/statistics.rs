//! The generators have the statistics of the real sets. With `EDBATCH_SHARED` set, the same checks
//! run on the real sets.

use std::collections::HashSet;
use std::path::PathBuf;

use edbatch_datasets::{Lattice, Pair, Sentence, Tree};
use edbatch_datasets::{
    read_arcs, read_binary_trees, read_lattices, read_nary_trees, read_pairs, read_sentences,
};
use edbatch_testing::generate::{self, Style};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The number of generated instances.
const COUNT: usize = 2048;
/// The size of a mini-batch.
const BATCH: usize = 64;

#[test]
fn binary_trees_have_the_statistics_of_real_ones() {
    check("binary trees", &tree_statistics(&generate::binary_trees(&mut rng(), COUNT)), &SST);
    real("sst/train.txt.gz", &SST, |path| tree_statistics(&read_binary_trees(path).unwrap()));
}

#[test]
fn nary_trees_have_the_statistics_of_real_ones() {
    check("n-ary trees", &tree_statistics(&generate::nary_trees(&mut rng(), COUNT)), &GUM);
    real("gum/gum-const-ccby-2000.ptb.gz", &GUM, |path| {
        tree_statistics(&read_nary_trees(path).unwrap())
    });
}

#[test]
fn tagged_sentences_have_the_statistics_of_real_ones() {
    check("sentences", &sentence_statistics(&generate::tagged_sentences(&mut rng(), COUNT)), &WIKI);
    real("wikiner/train.txt.gz", &WIKI, |path| sentence_statistics(&read_sentences(path).unwrap()));
    real("wikigold/wikigold.txt.gz", &WIKI, |path| {
        sentence_statistics(&read_sentences(path).unwrap())
    });
}

#[test]
fn pairs_have_the_statistics_of_real_ones() {
    check("pairs", &pair_statistics(&generate::pairs(&mut rng(), COUNT)), &IWSLT);
    real("iwslt15/tst2013.en.gz", &IWSLT, |path| {
        pair_statistics(&read_pairs(&path, path.with_file_name("tst2013.vi.gz")).unwrap())
    });
}

#[test]
fn lattices_have_the_statistics_of_real_ones() {
    let newswire = generate::lattices(&mut rng(), COUNT, Style::Newswire);
    check("newswire", &lattice_statistics(&newswire), &NEWSWIRE);
    let weibo = generate::lattices(&mut rng(), COUNT, Style::Weibo);
    check("weibo", &lattice_statistics(&weibo), &WEIBO);
    real("newswire/train.arcs.txt.gz", &NEWSWIRE, |path| {
        let named = |lattice: &Lattice<u32>| lattice.map(u32::to_string, u32::to_string);
        lattice_statistics(&read_arcs(path).unwrap().iter().map(named).collect::<Vec<_>>())
    });
    real("weibo/train.jsonl.gz", &WEIBO, |path| lattice_statistics(&read_lattices(path).unwrap()));
}

/// Name, value measured on the real set, and relative tolerance of a generated set.
type Target = (&'static str, f64, f64);

const SST: [Target; 3] =
    [("leaves", 19.14, 0.05), ("depth", 10.83, 0.05), ("distinct", 0.508, 0.05)];
const GUM: [Target; 3] =
    [("leaves", 23.4, 0.06), ("depth", 10.29, 0.06), ("distinct", 0.382, 0.06)];
const WIKI: [Target; 3] =
    [("words", 24.3, 0.07), ("distinct", 0.43, 0.05), ("in names", 0.15, 0.12)];
const IWSLT: [Target; 4] = [
    ("source", 21.08, 0.05),
    ("target", 26.56, 0.05),
    ("source distinct", 0.351, 0.05),
    ("target distinct", 0.317, 0.05),
];
const NEWSWIRE: [Target; 6] = [
    ("characters", 43.13, 0.05),
    ("words a character", 0.541, 0.05),
    ("distinct characters", 0.239, 0.05),
    ("distinct words", 0.609, 0.08),
    ("nested", 0.229, 0.25),
    ("crossing", 0.383, 0.25),
];
const WEIBO: [Target; 6] = [
    ("characters", 54.65, 0.05),
    ("words a character", 0.307, 0.05),
    ("distinct characters", 0.274, 0.05),
    ("distinct words", 0.736, 0.08),
    ("nested", 0.143, 0.25),
    ("crossing", 0.131, 0.25),
];

fn rng() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(7)
}

fn check<const N: usize>(what: &str, measured: &[f64; N], targets: &[Target; N]) {
    for (&measured, &(name, target, tolerance)) in measured.iter().zip(targets) {
        println!("{what}: {name} {measured:.3}, target {target}");
        assert!(
            (measured / target - 1.0).abs() <= tolerance,
            "{what}: {name} is {measured:.3}, target {target}"
        );
    }
}

fn real<const N: usize>(file: &str, targets: &[Target; N], measure: impl Fn(PathBuf) -> [f64; N]) {
    let Some(path) = edbatch_testing::shared(PathBuf::from("datasets").join(file)) else {
        return;
    };
    check(file, &measure(path), targets);
}

fn tree_statistics(trees: &[Tree]) -> [f64; 3] {
    let words: Vec<Vec<&str>> =
        trees.iter().map(|tree| tree.tokens().map(String::as_str).collect()).collect();
    [mean(trees.iter().map(Tree::leaves)), mean(trees.iter().map(Tree::depth)), distinct(&words)]
}

fn sentence_statistics(sentences: &[Sentence]) -> [f64; 3] {
    let words: Vec<_> = sentences.iter().map(|sentence| strs(&sentence.words)).collect();
    let tags = || sentences.iter().flat_map(|sentence| &sentence.tags);
    let outside = tags().filter(|tag| tag.as_deref() == Some("O")).count();
    [
        mean(words.iter().map(Vec::len)),
        distinct(&words),
        1.0 - outside as f64 / tags().count() as f64,
    ]
}

fn pair_statistics(pairs: &[Pair]) -> [f64; 4] {
    let sources: Vec<_> = pairs.iter().map(|pair| strs(&pair.source)).collect();
    let targets: Vec<_> = pairs.iter().map(|pair| strs(&pair.target)).collect();
    let [source, target] = [&sources, &targets].map(|side| mean(side.iter().map(Vec::len)));
    [source, target, distinct(&sources), distinct(&targets)]
}

fn lattice_statistics(lattices: &[Lattice]) -> [f64; 6] {
    let characters: Vec<_> = lattices.iter().map(|lattice| strs(&lattice.chars)).collect();
    let words: Vec<Vec<&str>> = lattices
        .iter()
        .map(|lattice| lattice.words.iter().map(|arc| arc.word.as_str()).collect())
        .collect();
    let all_words = words.iter().map(Vec::len).sum::<usize>() as f64;
    let arcs = |lattice: &Lattice| {
        lattice.words.iter().map(|arc| (arc.start, arc.end)).collect::<Vec<_>>()
    };
    let (mut nested, mut crossing) = (0.0, 0.0);
    for arcs in lattices.iter().map(arcs) {
        for &(s, e) in &arcs {
            nested += f64::from(arcs.iter().any(|&(a, b)| (a, b) != (s, e) && a <= s && e <= b));
            crossing += f64::from(arcs.iter().any(|&(a, b)| a < s && s <= b && b < e));
        }
    }
    [
        mean(characters.iter().map(Vec::len)),
        all_words / characters.iter().map(Vec::len).sum::<usize>() as f64,
        distinct(&characters),
        distinct(&words),
        nested / all_words,
        crossing / all_words,
    ]
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn mean(values: impl ExactSizeIterator<Item = usize>) -> f64 {
    let count = values.len();
    values.sum::<usize>() as f64 / count as f64
}

/// The share of a mini-batch's tokens that are distinct, averaged over whole mini-batches.
fn distinct(sentences: &[Vec<&str>]) -> f64 {
    let share = |batch: &[Vec<&str>]| {
        let tokens: Vec<&str> = batch.iter().flatten().copied().collect();
        tokens.iter().collect::<HashSet<_>>().len() as f64 / tokens.len() as f64
    };
    let batches = sentences.chunks_exact(BATCH);
    let count = batches.len();
    batches.map(share).sum::<f64>() / count as f64
}
