//! Round trips: readers return what writers wrote.

use edbatch_datasets::{
    Lattice, Pair, Sentence, Tree, TreeBuilder, Vocabulary, WordArc, parse_binary_trees,
    parse_lattices, parse_nary_trees, parse_pairs, parse_sentences, write_lattices, write_pairs,
    write_sentences, write_trees,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Text that is valid in a bracketed tree: no ASCII space, bracket or line end.
const TEXT: &str = "[a-z0-9|\u{a0}é一.]{1,4}";

/// A tree built by shifts and joins: each step adds a leaf, or joins up to `arity` of the last
/// nodes.
fn tree(arities: &'static [usize], leaf_tokens: bool) -> impl Strategy<Value = Tree> {
    vec((TEXT, option::of(TEXT), prop::sample::select(arities)), 1..40).prop_map(move |steps| {
        let mut tree = TreeBuilder::new();
        let mut roots = 0_usize;
        for (label, token, arity) in steps {
            let token = if leaf_tokens { Some(token.unwrap_or(label.clone())) } else { token };
            let arity = if roots >= arity { arity } else { 0 };
            tree.push(label, token.filter(|_| arity == 0), arity);
            roots = roots - arity + 1;
        }
        while roots > 1 {
            tree.push("join".to_string(), None, 2);
            roots -= 1;
        }
        tree.finish()
    })
}

fn sentence() -> impl Strategy<Value = Sentence> {
    vec((TEXT, option::of("[A-Z-]{1,3}")), 0..8).prop_map(|words| {
        let (words, tags) = words.into_iter().unzip();
        Sentence { words, tags }
    })
}

fn lattice() -> impl Strategy<Value = Lattice<u32>> {
    let arcs = vec((0..12_u32, 2..5_u32, any::<u32>()), 0..8);
    (vec((any::<u32>(), any::<u32>()), 0..12), arcs).prop_map(|(chars, arcs)| {
        let (chars, tags): (Vec<u32>, Vec<String>) =
            chars.into_iter().map(|(id, tag)| (id, tag.to_string())).unzip();
        let arcs = arcs.into_iter().map(|(start, length, word)| WordArc {
            start,
            end: start + length - 1,
            word,
        });
        let mut words: Vec<_> = arcs.filter(|arc| (arc.end as usize) < chars.len()).collect();
        words.sort_by_key(|arc| arc.end);
        Lattice { chars, words, tags, labels: Vec::new() }
    })
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    bytes
}

proptest! {
    #[test]
    fn nary_trees_round_trip(trees in vec(tree(&[0, 0, 1, 2, 3, 5], false), 0..4)) {
        let bytes = written(|file| write_trees(&trees, file));
        let read: Vec<Tree> = parse_nary_trees(&bytes[..], "in").collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, trees);
    }

    #[test]
    fn binary_trees_round_trip(trees in vec(tree(&[0, 0, 2], true), 0..4)) {
        let bytes = written(|file| write_trees(&trees, file));
        let read = parse_binary_trees(&bytes[..], "in");
        let read: Vec<Tree> = read.collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, trees);
    }

    #[test]
    fn sentences_round_trip(sentences in vec(sentence(), 0..4)) {
        let bytes = written(|file| write_sentences(&sentences, file));
        let read = parse_sentences(&bytes[..], "in");
        let read: Vec<Sentence> = read.collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, sentences);
    }

    #[test]
    fn pairs_round_trip(pairs in vec((vec(TEXT, 0..5), vec(TEXT, 0..5)), 0..4)) {
        let pairs = pairs.into_iter().map(|(source, target)| Pair { source, target });
        let pairs: Vec<Pair> = pairs.collect();
        let (mut source, mut target) = (Vec::new(), Vec::new());
        write_pairs(&pairs, &mut source, &mut target).unwrap();
        let read = parse_pairs((&source[..], "s"), (&target[..], "t"));
        let read: Vec<Pair> = read.collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, pairs);
    }

    #[test]
    fn lattices_round_trip(lattices in vec(lattice(), 0..4)) {
        let named = lattices.iter().map(|l| l.map(|id| format!("\"{id}\\"), u32::to_string));
        let named: Vec<Lattice> = named.collect();
        let bytes = written(|file| write_lattices(&named, file));
        let read: Vec<_> = parse_lattices(&bytes[..], "in").collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, named);
    }

    #[test]
    fn vocabularies_round_trip(tokens in vec("[^\r\n]{1,5}", 0..9)) {
        let vocabulary = Vocabulary::from_tokens(&tokens);
        let bytes = written(|file| vocabulary.write(file));
        prop_assert_eq!(&Vocabulary::parse(&bytes[..], "in").unwrap(), &vocabulary);
        for token in &tokens {
            prop_assert_eq!(vocabulary.token(vocabulary.id(token)), Some(token.as_str()));
        }
    }
}

#[test]
fn a_tree_of_depth_100_000_round_trips() {
    let mut tree = TreeBuilder::new();
    tree.push("a".to_string(), Some("x".to_string()), 0);
    for _ in 1..100_000 {
        tree.push("a".to_string(), None, 1);
    }
    let trees = [tree.finish()];
    let bytes = written(|file| write_trees(&trees, file));
    assert!(parse_nary_trees(&bytes[..], "deep").next().unwrap().unwrap() == trees[0]);
}

#[test]
fn unrepresentable_text_is_an_error() {
    let leaf = |label: &str, token: Option<&str>| {
        let mut tree = TreeBuilder::new();
        tree.push(label.to_string(), token.map(str::to_string), 0);
        tree.finish()
    };
    for tree in
        [leaf("", None), leaf("a b", None), leaf("a", Some("(")), TreeBuilder::new().finish()]
    {
        assert!(write_trees(&[tree], Vec::new()).is_err());
    }
    let sentence = Sentence { words: vec!["a".to_string()], tags: vec![Some("X|Y".to_string())] };
    assert!(write_sentences(&[sentence], Vec::new()).is_err());
    assert!(Vocabulary::from_tokens(["a\nb"]).write(Vec::new()).is_err());
}
