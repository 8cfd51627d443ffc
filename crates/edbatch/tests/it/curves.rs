//! Losses of 200 mini-batches under SGD, from the same weights and in the same order as PyTorch.
//!
//! `fixtures/curves.py` created the file with torch 2.15.0.

use std::fs;
use std::path::Path;

use edbatch::models::build_vocabularies;
use edbatch::models::{Folder, Model, ModelConfig, ModelName, Targets, ZooInput};
use edbatch::{Optimizer, Trainer, TrainerOptions, shuffled};

use crate::fn_model::random;

/// Returns the loss of each mini-batch, as the twin prints it.
fn losses(name: ModelName, file: &str, rate: f64) -> Vec<f64> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/fixtures").join(file);
    let counted = build_vocabularies(name.family(), std::slice::from_ref(&file), None).unwrap();
    let mut config = ModelConfig::new(name, 24, Some(16), counted.outputs);
    config.input = file.to_str().unwrap().into();
    let dir = tempfile::tempdir().unwrap();
    Folder::write(&config, &counted.lexicon, dir.path()).unwrap();
    let folder = Folder::read(dir.path()).unwrap();
    let examples: Vec<(ZooInput, Targets)> =
        folder.examples(&file, None).unwrap().collect::<Result<_, _>>().unwrap();
    let model = folder.model().unwrap();
    let parameters = random(model.network(), 1);
    let options = TrainerOptions::new().optimizer(Optimizer::sgd(rate));
    let mut trainer = Trainer::with_options(model, parameters, options).unwrap();
    let mini_batches = (0..50).flat_map(|epoch| shuffled(examples.len(), 2, 1, epoch));
    let losses = mini_batches.map(|indices| {
        let mini_batch = indices.into_iter().map(|index| examples[index].clone());
        let (inputs, targets): (Vec<_>, Vec<_>) = mini_batch.unzip();
        trainer.train(&inputs, &targets).unwrap().loss
    });
    losses.collect()
}

#[test]
fn losses_of_200_updates_equal_those_of_pytorch() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/curves.json");
    let curves: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    for (name, file, rate) in
        [(ModelName::TreeLstm, "binary.txt", 0.05), (ModelName::BiLstmTagger, "tagged.txt", 0.01)]
    {
        let got = losses(name, file, rate);
        assert_eq!(got.len(), 200);
        for precision in ["float32", "float64"] {
            let expected = curves[name.name()][precision].as_array().unwrap();
            let expected: Vec<f64> = expected.iter().map(|it| it.as_f64().unwrap()).collect();
            assert_eq!(expected.len(), 200);
            let distances =
                expected.iter().zip(&got).map(|(expected, got)| (expected - got).abs() / expected);
            let distances: Vec<f64> = distances.collect();
            let greatest = |to| distances[..to].iter().copied().fold(0.0, f64::max);
            println!("{name}, {precision}: {:.1e} and {:.1e}", greatest(20), greatest(200));
            assert!(
                greatest(20) <= 1e-5 && greatest(200) <= 1e-3,
                "{name}, {precision}: {distances:?}"
            );
        }
        // An epoch has four mini-batches.
        let [first, last] = [&got[..4], &got[196..]].map(|losses| losses.iter().sum::<f64>());
        assert!(last < 0.8 * first, "{name}: the loss falls from {first} to {last}");
    }
}
