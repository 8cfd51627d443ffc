//! The readers read all instances of every full data set, where available. The expected counts are
//! taken from the published descriptions.

use std::path::PathBuf;

use edbatch_datasets::{
    Error, Tree, Vocabulary, parse_nary_trees, read_arcs, read_binary_trees, read_lattices,
    read_nary_trees, read_pairs, read_sentences, write_trees,
};
use edbatch_testing::shared;

/// Reads files of the full sets and checks their numbers of instances. Returns all instances, or
/// `None` if a file is missing; then the test is skipped.
#[track_caller]
fn full<T>(
    read: impl Fn(PathBuf) -> Result<Vec<T>, Error>,
    files: &[(&str, usize)],
) -> Option<Vec<T>> {
    let mut all = Vec::new();
    for &(file, count) in files {
        let instances = read(shared(PathBuf::from("datasets").join(file))?).unwrap();
        assert_eq!(instances.len(), count, "{file}");
        all.extend(instances);
    }
    Some(all)
}

#[test]
fn sst_is_read_completely() {
    let files = [("sst/dev.txt.gz", 1101), ("sst/test.txt.gz", 2210)];
    let Some(others) = full(read_binary_trees, &files) else { return };
    let Some(train) = full(read_binary_trees, &[("sst/train.txt.gz", 8544)]) else { return };
    let depth = train.iter().chain(&others).map(Tree::depth).max();
    assert!(depth <= Some(30), "{depth:?}");
    let held = |tree: &&Tree| tree.tokens().any(|token| token.contains('\u{a0}'));
    assert_eq!(train.iter().filter(held).count(), 3, "trees with a no-break space in a token");
}

#[test]
fn gum_trees_may_be_split_over_lines() {
    let files = [("gum/gum-const-ccby-2000.ptb.gz", 2000)];
    let Some(trees) = full(read_nary_trees, &files) else { return };
    let mut text = Vec::new();
    write_trees(&trees, &mut text).unwrap();
    let broken = String::from_utf8(text).unwrap().replace(" (", "\n  (");
    let again: Result<Vec<_>, _> = parse_nary_trees(broken.as_bytes(), "gum").collect();
    assert!(again.unwrap() == trees);
}

#[test]
fn python_ast_is_read_completely() {
    let files = [
        ("python-ast/python-ast-train-2000.sexp.gz", 2000),
        ("python-ast/python-ast-test-839.sexp.gz", 839),
    ];
    let Some(trees) = full(read_nary_trees, &files) else { return };
    assert!(trees.iter().all(|tree| tree.tokens().next().is_none()));
}

#[test]
fn tagged_sets_are_read_completely() {
    let files = [("wikiner/train.txt.gz", 10_000), ("wikigold/wikigold.txt.gz", 1696)];
    let Some(sentences) = full(read_sentences, &files) else { return };
    assert!(sentences.iter().flat_map(|sentence| &sentence.tags).all(Option::is_some));
}

#[test]
fn iwslt_is_read_completely() {
    let read = |source: PathBuf| {
        let target = source.to_str().unwrap().replace(".en.", ".vi.");
        read_pairs(source, target)
    };
    full(read, &[("iwslt15/tst2012.en.gz", 1553), ("iwslt15/tst2013.en.gz", 1268)]);
    for (file, count) in [("iwslt15/vocab.en.gz", 17_191), ("iwslt15/vocab.vi.gz", 7_709)] {
        let read = |path| Vocabulary::read(path).map(|words| words.tokens().to_vec());
        let Some(words) = full(read, &[(file, count)]) else { return };
        assert_eq!(words[1..3], ["<s>", "</s>"]);
    }
}

#[test]
fn weibo_is_read_completely() {
    let files =
        [("weibo/train.jsonl.gz", 1350), ("weibo/dev.jsonl.gz", 270), ("weibo/test.jsonl.gz", 270)];
    let Some(lattices) = full(read_lattices, &files) else { return };
    assert!(lattices.iter().all(|lattice| lattice.tags.len() == lattice.len()));
}

#[test]
fn newswire_is_read_completely() {
    let files = [
        ("newswire/train.arcs.txt.gz", 1147),
        ("newswire/dev.arcs.txt.gz", 113),
        ("newswire/test.arcs.txt.gz", 316),
    ];
    let Some(lattices) = full(read_arcs, &files) else { return };
    let characters = lattices.iter().flat_map(|lattice| &lattice.chars).max();
    let words = lattices.iter().flat_map(|lattice| &lattice.words).map(|arc| arc.word).max();
    assert_eq!((characters, words), (Some(&2_576), Some(13_651)), "over the three files");
}
