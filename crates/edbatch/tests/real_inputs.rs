//! Cuts of the real sets: every model computes what the reference computes node by node.
//!
//! Real inputs have what generated ones lack: words that come again and again, sentences of one
//! word and of a hundred, trees thirty deep, arcs over most of a lattice. The cuts take the first
//! inputs of a set and the largest of those behind them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::{Engine, Rows, interpret};
use edbatch_models::{Model, ModelConfig, ModelName, Zoo, ZooInput, inputs, vocabularies};
use edbatch_runtime::Parameters;
use edbatch_testing::shared;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

/// Inputs from the beginning of a set.
const FIRST: usize = 24;
/// The largest inputs of those that follow.
const LARGEST: usize = 2;
/// How many inputs are looked at for that.
const LOOKED_AT: usize = 300;

fn compare(name: ModelName, files: &[&str]) {
    let paths = files.iter().map(|file| shared(Path::new("datasets").join(file)));
    let Some(paths) = paths.collect::<Option<Vec<PathBuf>>>() else { return };
    let gathered = vocabularies(name.family(), &paths).unwrap();
    let config = ModelConfig::of_size(name, 12, None, gathered.outputs);
    let lexicon = Arc::new(gathered.lexicon);
    let model = Zoo::new(&config, &lexicon).unwrap();
    let all = inputs(&lexicon, &paths[0]).unwrap().take(LOOKED_AT);
    let inputs = cut(all.map(Result::unwrap).collect());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let parameters = Parameters::random(model.network(), &mut rng);
    let expected = interpret(&model, &parameters, &inputs).unwrap().outputs;
    let mut engine = Engine::new(model, parameters).unwrap();
    let mut first: Option<Vec<Rows>> = None;
    for size in [1, 5, inputs.len()] {
        let mini_batches = inputs.chunks(size);
        let got: Vec<Rows> = mini_batches.flat_map(|inputs| engine.run(inputs).unwrap()).collect();
        assert_near(name, &expected, &got);
        assert!(*first.get_or_insert_with(|| got.clone()) == got, "{name:?}: bits at {size}");
    }
}

/// The first inputs, and the largest of the others.
fn cut(mut all: Vec<ZooInput>) -> Vec<ZooInput> {
    let mut others = all.split_off(FIRST);
    // What an input holds is as long as its debug text, nearly.
    others.sort_by_cached_key(|input| std::cmp::Reverse(format!("{input:?}").len()));
    others.truncate(LARGEST);
    all.extend(others);
    assert_eq!(all.len(), FIRST + LARGEST);
    all
}

fn assert_near(name: ModelName, expected: &[Rows], got: &[Rows]) {
    assert_eq!(expected.len(), got.len());
    for (input, (expected, got)) in expected.iter().zip(got).enumerate() {
        assert_eq!(expected.len(), got.len(), "{name:?}: rows of input {input}");
        for (row, (expected, got)) in expected.iter().zip(got.iter()).enumerate() {
            let near = expected.iter().zip(got).all(|(e, g)| (e - g).abs() <= 1e-5);
            let same = near && expected.len() == got.len();
            assert!(same, "{name:?}: row {row} of {input}: {got:?}, not {expected:?}");
        }
    }
}

#[test]
fn trees_of_sst() {
    for name in
        [ModelName::TreeLstm, ModelName::TreeLstm2Type, ModelName::TreeGru, ModelName::MvRnn]
    {
        compare(name, &["sst/test.txt.gz"]);
    }
}

#[test]
fn sentences_of_wikigold() {
    compare(ModelName::BiLstmTagger, &["wikigold/wikigold.txt.gz"]);
    compare(ModelName::BiLstmTaggerChar, &["wikigold/wikigold.txt.gz"]);
}

#[test]
fn translations_of_iwslt() {
    compare(ModelName::LstmNmt, &["iwslt15/tst2013.en.gz", "iwslt15/tst2013.vi.gz"]);
}

#[test]
fn lattices_of_weibo_and_newswire() {
    for name in [ModelName::LatticeLstm, ModelName::LatticeGru] {
        compare(name, &["weibo/test.jsonl.gz"]);
        compare(name, &["newswire/test.arcs.txt.gz"]);
    }
}
