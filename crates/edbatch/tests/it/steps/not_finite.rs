//! Losses and gradients that are not finite: the error names the call, the weight or the parameter.

use std::sync::Arc;

use edbatch::models::{CallList, CallLists, Targets};
use edbatch::{NotFiniteCause, TrainError, Trainer, TrainerOptions, interpret_gradients};
use edbatch_graph::{Network, Shape};
use edbatch_runtime::Parameters;

/// A network with a table, dropout and a given value, whose parameters are 0.5.
struct Case {
    network: Arc<Network>,
    values: Vec<Vec<f32>>,
}

impl Case {
    fn new() -> Self {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
        let leaf = network
            .cell("leaf", state, |cell| vec![cell.lookup("word", "embed", &[4, 2]).dropout(0.25)]);
        let node = network.cell("node", state, |cell| {
            let [h] = cell.one("child", state);
            vec![cell.parameter("w", &[2, 2]).matmul(h)]
        });
        let root = network.cell("root", state, |cell| {
            let [h] = cell.one("child", state);
            vec![cell.parameter("root", &[2]).sqrt() * h]
        });
        assert_eq!([leaf, node, root].map(|kind| kind.unwrap().index()), [0, 1, 2]);
        let elements = network.parameters().iter().map(|parameter| parameter.elements());
        let values = elements.map(|elements| vec![0.5; elements]).collect();
        Self { network: Arc::new(network), values }
    }

    fn set(mut self, parameter: &str, at: usize, value: f32) -> Self {
        let names = self.network.parameters().iter();
        let index = names.map(|it| &it.name).position(|name| name == parameter).unwrap();
        self.values[index][at] = value;
        self
    }

    /// Returns inputs: a leaf with each word, a node and a root. `given` replaces the leaf.
    fn inputs(&self, words: &[u32], given: Option<f32>) -> (Vec<CallList>, Vec<Targets>) {
        let kind = edbatch_graph::Kind::new;
        let input = |&word: &u32| {
            let mut list = CallList::new(self.network.clone());
            let state = self.network[kind(0)].record();
            let leaf = match given {
                Some(value) => list.give(state, &[1.0, value]).unwrap(),
                None => list.call(kind(0), &[word], &[]).unwrap(),
            };
            let node = list.call(kind(1), &[], &[leaf]).unwrap();
            let root = list.call(kind(2), &[], &[node]).unwrap();
            list.emit(root).unwrap();
            list
        };
        let inputs: Vec<_> = words.iter().map(input).collect();
        let targets = vec![vec![Some(1)]; inputs.len()];
        (inputs, targets)
    }

    fn trainer(&self, options: TrainerOptions) -> Trainer<CallLists> {
        let parameters = Parameters::from_values(&self.network, self.values.clone()).unwrap();
        Trainer::with_options(CallLists::new(self.network.clone()), parameters, options).unwrap()
    }

    /// Returns the errors of trainers and of the reference.
    fn errors(&self, (inputs, targets): &(Vec<CallList>, Vec<Targets>)) -> Vec<TrainError> {
        let parameters = Parameters::from_values(&self.network, self.values.clone()).unwrap();
        let pairs = inputs.iter().zip(targets.iter().map(Vec::as_slice));
        let model = CallLists::new(self.network.clone());
        let reference = interpret_gradients(&model, &parameters, pairs).unwrap_err();
        let all = [1, 2].map(|threads| {
            let options = || TrainerOptions::new().threads(threads);
            [options(), options().without_dropout()].map(|options| {
                let mut trainer = self.trainer(options);
                let before = trainer.state().unwrap();
                let error = trainer.train(inputs, targets).unwrap_err();
                assert!(trainer.state().unwrap() == before, "a failed step changes nothing");
                error
            })
        });
        all.into_iter().flatten().chain([reference]).collect()
    }
}

/// Checks that each error names this input, call and cell.
fn check(errors: Vec<TrainError>, expected: (usize, usize, &str), text: &str) {
    for error in errors {
        let message = error.to_string();
        let TrainError::NotFiniteLoss { input, call: Some(call) } = error else {
            panic!("{message}")
        };
        assert_eq!((input, call.call, &*call.cell), expected, "{message}");
        assert!(message.starts_with(&format!("the loss of input {input} is not finite: ")));
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn a_loss_that_is_not_finite_names_the_call_and_the_weight() {
    let case = Case::new().set("embed", 5, f32::NAN);
    let inputs = case.inputs(&[0, 3, 2, 1, 2, 3, 0, 1, 1], None);
    check(case.errors(&inputs), (2, 0, "leaf"), "it reads tensor embed, which is NaN at [2, 1]");
    let case = Case::new().set("w", 2, f32::INFINITY);
    let inputs = case.inputs(&[0], Some(2.0));
    check(case.errors(&inputs), (0, 0, "node"), "it reads tensor w, which is inf at [1, 0]");
}

#[test]
fn a_loss_that_is_not_finite_names_what_was_given_or_overflows() {
    let case = Case::new();
    let inputs = case.inputs(&[0, 1], Some(f32::NAN));
    check(case.errors(&inputs), (0, 0, "node"), "it reads a given value that is not finite");
    let (inputs, targets) = Case::new().inputs(&[1, 0], None);
    let mut trainer = Case::new()
        .set("embed", 0, 3e38)
        .set("w", 0, 3e38)
        .trainer(TrainerOptions::new().without_dropout());
    let error = trainer.accumulate(&inputs, &targets, 1.0).unwrap_err();
    let TrainError::NotFiniteLoss { input: 1, call: Some(call) } = error else { panic!("{error}") };
    assert_eq!((call.call, &*call.cell, call.cause), (1, "node", NotFiniteCause::Operations));
}

#[test]
fn a_gradient_that_is_not_finite_names_the_parameter() {
    // The slope of the square root is infinite at 0.
    let case = Case::new().set("root", 1, 0.0);
    let inputs = case.inputs(&[1, 2], None);
    for error in case.errors(&inputs) {
        let message = error.to_string();
        assert!(message.starts_with("the gradient of root is not finite: "), "{message}");
    }
}

#[test]
fn a_weight_of_the_loss_that_is_not_finite_is_an_error() {
    let case = Case::new();
    let (inputs, targets) = case.inputs(&[1], None);
    let mut trainer = case.trainer(TrainerOptions::new());
    for weight in [f32::NAN, f32::INFINITY] {
        let error = trainer.accumulate(&inputs, &targets, weight).unwrap_err().to_string();
        assert_eq!(error, format!("weight: expected a finite number, got {weight}"));
    }
}
