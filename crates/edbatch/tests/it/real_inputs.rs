//! Samples of real data sets: every model agrees with the reference interpreter, and has the same
//! bits from call lists.
//!
//! Real inputs have properties that generated ones lack: frequent words, sentences of one word and
//! of a hundred, trees of depth thirty, arcs over most of a lattice. A sample has the first inputs
//! of a set and the largest of the following ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::models::{
    CallList, CallLists, Model, ModelConfig, ModelName, Zoo, ZooInput, build_vocabularies, inputs,
    network_from_json, network_to_json,
};
use edbatch::{Engine, Rows, interpret};
use edbatch_runtime::Precision;
use edbatch_testing::shared;

use crate::fn_model::random;

/// Number of inputs from the beginning of a set.
const FIRST: usize = 24;
/// Number of largest inputs among the following ones.
const LARGEST: usize = 2;
/// Number of inputs that are read.
const READ: usize = 300;

fn compare(name: ModelName, files: &[&str]) {
    let paths = files.iter().map(|file| shared(Path::new("datasets").join(file)));
    let Some(paths) = paths.collect::<Option<Vec<PathBuf>>>() else { return };
    let gathered = build_vocabularies(name.family(), &paths, None).unwrap();
    let config = ModelConfig::new(name, 12, None, gathered.outputs);
    let lexicon = Arc::new(gathered.lexicon);
    let model = Zoo::new(&config, &lexicon).unwrap();
    let all = inputs(&lexicon, &paths[0]).unwrap().take(READ);
    let inputs = sample(all.map(Result::unwrap).collect());
    let parameters = random(model.network(), 5);
    let expected = interpret(&model, &parameters, &inputs, Precision::F32).unwrap().outputs;
    let mut engine = Engine::new(model, parameters.clone()).unwrap();
    let mut first: Option<Vec<Rows>> = None;
    for size in [1, 5, inputs.len()] {
        let mini_batches = inputs.chunks(size);
        let got: Vec<Rows> = mini_batches.flat_map(|inputs| engine.run(inputs).unwrap()).collect();
        assert_near(name, &expected, &got);
        assert!(*first.get_or_insert_with(|| got.clone()) == got, "{name:?}: bits at {size}");
    }
    let model = engine.model();
    if !model.awaits() {
        // The same bits from the network and the calls as text.
        let network = network_from_json(&network_to_json(model.network()).unwrap()).unwrap();
        let lists = CallLists::new(Arc::new(network));
        let line = |input| CallList::record(model, input).unwrap().to_json().unwrap();
        let read: Vec<CallList> =
            inputs.iter().map(|input| lists.read(&line(input)).unwrap()).collect();
        let got = Engine::new(lists, parameters).unwrap().run(&read).unwrap();
        assert!(Some(got) == first, "{name:?}: bits of call lists");
    }
}

/// Returns the first inputs and the largest of the others.
fn sample(mut all: Vec<ZooInput>) -> Vec<ZooInput> {
    let mut others = all.split_off(FIRST);
    // The length of the debug text is a good estimate of the size.
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
            assert!(same, "{name:?}: row {row} of {input}: {got:?}, expected {expected:?}");
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
