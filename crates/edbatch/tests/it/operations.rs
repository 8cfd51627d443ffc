//! The examples with attention, norms and log-sum-exp, against the same models in PyTorch.
//! `fixtures/operations.py` made the weights, inputs and outputs.

use edbatch::models::Model;
use edbatch::{Engine, EngineOptions};
use edbatch_datasets::{Tree, TreeBuilder};
use edbatch_runtime::Parameters;
use serde_json::Value;

use crate::examples::{attention_decoder, crf, dagnn, tree_transformer};

const HIDDEN: usize = 8;
const WORDS: usize = 11;

/// Runs an example's model on the inputs of its fixture, and compares all outputs.
fn check<M: Model>(name: &str, model: impl Fn() -> M, input: impl Fn(&Value) -> M::Input) {
    let fixtures: Value =
        serde_json::from_str(include_str!("../fixtures/operations.json")).unwrap();
    let fixture = &fixtures[name];
    let numbers = |list: &Value| -> Vec<f64> { serde_json::from_value(list.clone()).unwrap() };
    let network = model().network().clone();
    let values = network.parameters().iter().map(|parameter| {
        let values = numbers(&fixture["weights"][&parameter.name]);
        values.into_iter().map(|value| value as f32).collect()
    });
    let parameters = Parameters::from_values(&network, values.collect()).unwrap();
    let inputs: Vec<M::Input> = fixture["inputs"].as_array().unwrap().iter().map(input).collect();
    let mut first = None;
    for (batch, threads) in [(64, 1), (1, 1), (2, 2)] {
        let options = EngineOptions::new().threads(threads);
        let mut engine = Engine::with_options(model(), parameters.clone(), options).unwrap();
        let outputs: Vec<_> =
            inputs.chunks(batch).flat_map(|inputs| engine.run(inputs).unwrap()).collect();
        assert!(*first.get_or_insert_with(|| outputs.clone()) == outputs, "{name}: bits");
    }
    let expected = fixture["outputs"].as_array().unwrap();
    for (rows, expected) in first.unwrap().iter().zip(expected) {
        let expected = expected.as_array().unwrap();
        assert_eq!(rows.len(), expected.len(), "{name}");
        for (row, expected) in rows.iter().zip(expected.iter().map(numbers)) {
            let largest = expected.iter().fold(0.0f64, |max, x| max.max(x.abs()));
            for (&got, expected) in row.iter().zip(&expected) {
                let error = (f64::from(got) - expected).abs();
                assert!(error <= 1e-5 * largest, "{name}: {got}, expected {expected}");
            }
        }
    }
}

fn list(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn the_attention_decoder_equals_pytorch() {
    let model = || attention_decoder::Decoder::new(WORDS, HIDDEN).unwrap();
    check("attention_decoder", model, list);
}

#[test]
fn dagnn_equals_pytorch() {
    let model = || dagnn::Dagnn::new(5, HIDDEN).unwrap();
    check("dagnn", model, |dag| serde_json::from_value(dag.clone()).unwrap());
}

#[test]
fn the_tree_transformer_equals_pytorch() {
    fn push(tree: &mut TreeBuilder<u32>, node: &Value) {
        let children = node[1].as_array().unwrap();
        children.iter().for_each(|child| push(tree, child));
        tree.push(node[0].as_u64().unwrap() as u32, None, children.len());
    }
    let model = || tree_transformer::TreeTransformer::new(WORDS, HIDDEN).unwrap();
    check("tree_transformer", model, |node| -> Tree<u32> {
        let mut tree = TreeBuilder::new();
        push(&mut tree, node);
        tree.finish()
    });
}

#[test]
fn the_crf_equals_pytorch() {
    let model = || crf::Crf::new(WORDS, 4).unwrap();
    check("crf", model, |sentence| (list(&sentence[0]), list(&sentence[1])));
}
