//! The readers read all instances of every full data set, where available. The expected counts are
//! taken from the published descriptions.

use std::path::PathBuf;

use edbatch_datasets::{
    Vocabulary, read_arcs, read_binary_trees, read_lattices, read_nary_trees, read_pairs,
    read_sentences, write_trees,
};
use edbatch_testing::shared;

/// Returns a file of the full sets. Without it, the test is skipped.
#[track_caller]
fn full(file: &str) -> Option<PathBuf> {
    shared(PathBuf::from("datasets").join(file))
}

#[test]
fn sst_is_read_completely() {
    for (file, count) in
        [("sst/train.txt.gz", 8544), ("sst/dev.txt.gz", 1101), ("sst/test.txt.gz", 2210)]
    {
        let Some(path) = full(file) else { return };
        let trees = read_binary_trees(path).unwrap();
        assert_eq!(trees.len(), count, "{file}");
        let depth = trees.iter().map(|tree| tree.depth()).max();
        assert!(depth <= Some(30), "{depth:?}");
        if file.contains("train") {
            let held = trees
                .iter()
                .filter(|tree| tree.tokens().any(|token| token.contains('\u{a0}')))
                .count();
            assert_eq!(held, 3, "trees with a no-break space in a token");
        }
    }
}

#[test]
fn gum_trees_may_be_split_over_lines() {
    let Some(path) = full("gum/gum-const-ccby-2000.ptb.gz") else {
        return;
    };
    let trees = read_nary_trees(path).unwrap();
    assert_eq!(trees.len(), 2000);
    let mut text = Vec::new();
    write_trees(&trees, &mut text).unwrap();
    let broken = String::from_utf8(text).unwrap().replace(" (", "\n  (");
    let again: Vec<_> = edbatch_datasets::parse_nary_trees(broken.as_bytes(), "gum")
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(again == trees);
}

#[test]
fn python_ast_is_read_completely() {
    for (file, count) in [
        ("python-ast/python-ast-train-2000.sexp.gz", 2000),
        ("python-ast/python-ast-test-839.sexp.gz", 839),
    ] {
        let Some(path) = full(file) else { return };
        let trees = read_nary_trees(path).unwrap();
        assert_eq!(trees.len(), count, "{file}");
        assert!(trees.iter().all(|tree| tree.tokens().next().is_none()));
    }
}

#[test]
fn tagged_sets_are_read_completely() {
    for (file, count) in [("wikiner/train.txt.gz", 10_000), ("wikigold/wikigold.txt.gz", 1696)] {
        let Some(path) = full(file) else { return };
        let sentences = read_sentences(path).unwrap();
        assert_eq!(sentences.len(), count, "{file}");
        assert!(
            sentences.iter().all(|sentence| sentence.tags.iter().all(Option::is_some)),
            "{file}"
        );
    }
}

#[test]
fn iwslt_is_read_completely() {
    for (name, count) in [("tst2012", 1553), ("tst2013", 1268)] {
        let Some(source) = full(&format!("iwslt15/{name}.en.gz")) else {
            return;
        };
        let target = source.with_file_name(format!("{name}.vi.gz"));
        assert_eq!(read_pairs(source, target).unwrap().len(), count);
    }
    for (language, count) in [("en", 17_191), ("vi", 7_709)] {
        let Some(path) = full(&format!("iwslt15/vocab.{language}.gz")) else {
            return;
        };
        let words = Vocabulary::read(path).unwrap();
        assert_eq!((words.len(), words.id("<s>"), words.id("</s>")), (count, 1, 2));
    }
}

#[test]
fn weibo_is_read_completely() {
    for (name, count) in [("train", 1350), ("dev", 270), ("test", 270)] {
        let Some(path) = full(&format!("weibo/{name}.jsonl.gz")) else {
            return;
        };
        let lattices = read_lattices(path).unwrap();
        assert_eq!(lattices.len(), count, "{name}");
        assert!(lattices.iter().all(|lattice| lattice.tags.len() == lattice.len()));
    }
}

#[test]
fn newswire_is_read_completely() {
    let (mut characters, mut words) = (0, 0);
    for (name, count) in [("train", 1147), ("dev", 113), ("test", 316)] {
        let Some(path) = full(&format!("newswire/{name}.arcs.txt.gz")) else {
            return;
        };
        let lattices = read_arcs(path).unwrap();
        assert_eq!(lattices.len(), count, "{name}");
        characters =
            lattices.iter().flat_map(|l| &l.chars).copied().max().max(Some(characters)).unwrap();
        words = lattices
            .iter()
            .flat_map(|l| &l.words)
            .map(|arc| arc.word)
            .max()
            .max(Some(words))
            .unwrap();
    }
    assert_eq!(
        (characters + 1, words + 1),
        (2_577, 13_652),
        "characters and words over the three files"
    );
}
