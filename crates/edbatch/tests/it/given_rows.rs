//! Rows that the caller gives are used like computed values, with every policy and backend.

use std::sync::Arc;

use edbatch::models::{Build, BuildError, Model};
use edbatch::{Engine, EngineOptions, RunOptions, interpret};
use edbatch_graph::{Kind, Network, RecordId, Shape};
use edbatch_runtime::{Parameters, Precision};
use edbatch_testing::policies;

use crate::fn_model::random;

const WIDTH: usize = 5;

/// A chain over vectors given by the caller. It awaits its state at every second step, and carries
/// the state and the next vector across the await.
#[derive(Clone)]
struct Chain {
    network: Arc<Network>,
    features: RecordId,
    first: Kind,
    step: Kind,
    both: Kind,
}

impl Chain {
    fn new() -> Self {
        let mut network = Network::new();
        let features = network
            .record("features", [("x", Shape::Vector(WIDTH as u32)), ("scale", Shape::Vector(1))])
            .unwrap();
        let state = network.record("state", [("h", Shape::Vector(3))]).unwrap();
        let first = network
            .cell("first", state, |cell| {
                let [x, scale] = cell.one("input", features);
                vec![(cell.parameter("w", &[3, WIDTH]).matmul(x) * scale).tanh()]
            })
            .unwrap();
        let step = network
            .cell("step", state, |cell| {
                let [x, scale] = cell.one("input", features);
                let [h] = cell.one("previous", state);
                let input = cell.parameter("w", &[3, WIDTH]).matmul(x) * scale;
                vec![(input + cell.parameter("u", &[3, 3]).matmul(h)).tanh()]
            })
            .unwrap();
        let both = network
            .cell("both", features, |cell| {
                let [x, scale] = cell.one("left", features);
                let [y, other] = cell.one("right", features);
                vec![x * y.sigmoid(), scale + other]
            })
            .unwrap();
        Self { network: Arc::new(network), features, first, step, both }
    }
}

impl Model for Chain {
    type Input = Vec<Vec<f32>>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, input: &Vec<Vec<f32>>) -> Result<(), BuildError> {
        let mut rows = input.iter();
        let Some(first) = rows.next() else { return Ok(()) };
        let given = build.give(self.features, first)?;
        build.emit(given);
        let mut state = build.call(self.first, &[], &[given])?;
        for (index, row) in rows.enumerate() {
            let mut given = build.give(self.features, row)?;
            if index % 2 == 1 {
                let elements;
                (elements, [state, given]) = build.fetch(state, [state, given]).await;
                // Uses a value given before the await together with one given after it.
                let again = build.give(self.features, row)?;
                given = build.call(self.both, &[], &[given, again])?;
                assert_eq!(elements.len(), 3);
            }
            state = build.call(self.step, &[], &[given, state])?;
        }
        build.emit(state);
        Ok(())
    }
}

fn input(length: usize, seed: usize) -> Vec<Vec<f32>> {
    let element = |i: usize| ((seed * 31 + i * 17) % 23) as f32 / 7.0 - 1.5;
    (0..length).map(|row| (0..=WIDTH).map(|i| element(row * 6 + i)).collect()).collect()
}

fn parameters(model: &Chain) -> Parameters {
    random(model.network(), 2)
}

#[test]
fn given_rows_are_values_with_every_policy_and_backend() {
    let model = Chain::new();
    let inputs: Vec<_> = (0..13).map(|i| input(i % 7, i)).collect();
    let expected = interpret(&model, &parameters(&model), &inputs, Precision::F32).unwrap().outputs;
    assert_eq!(expected[1].row(0), inputs[1][0], "given values may be emitted");
    let mut bits = None;
    let policies = policies().map(|(_, policy)| Some(policy));
    for (index, policy) in [None].into_iter().chain(policies).enumerate() {
        let mut options = EngineOptions::new().threads(1 + index % 2);
        if let Some(policy) = policy {
            options = options.policy(policy);
        }
        let mut engine = Engine::with_options(model.clone(), parameters(&model), options).unwrap();
        for size in [1, 3, 13] {
            let outputs: Vec<_> =
                inputs.chunks(size).flat_map(|part| engine.run(part).unwrap()).collect();
            for (rows, expected) in outputs.iter().zip(&expected) {
                assert_eq!(rows.len(), expected.len());
                for (got, expected) in rows.iter().flatten().zip(expected.iter().flatten()) {
                    assert!((got - expected).abs() <= 1e-5, "{got}, expected {expected}");
                }
            }
            assert_eq!(*bits.get_or_insert_with(|| outputs.clone()), outputs, "different bits");
        }
    }
}

#[test]
fn a_row_of_the_wrong_length_is_an_error_of_its_input() {
    let model = Chain::new();
    let mut engine = Engine::new(model.clone(), parameters(&model)).unwrap();
    let good = [input(4, 1), input(3, 2)];
    let expected = engine.run(&good).unwrap();
    let mut bad = input(4, 1);
    // Detected in the first round, and in the second.
    for row in [1, 3] {
        bad[row].pop();
        let inputs = [good[0].clone(), bad.clone(), good[1].clone()];
        let results = engine.run_each(&inputs, &RunOptions::new()).unwrap();
        let error = results[1].as_ref().unwrap_err().to_string();
        assert_eq!(error, "a given value of record features: expected 6 elements, got 5");
        assert_eq!(results[0].as_ref(), Ok(&expected[0]));
        assert_eq!(results[2].as_ref(), Ok(&expected[1]));
        bad[row].push(0.0);
    }
}
