//! Gradients of call lists: by a trainer, by the reference and by central differences.

use std::sync::Arc;

use edbatch::models::{CallList, CallLists, Targets};
use edbatch::{LossGradients, Trainer, TrainerOptions, interpret_gradients};
use edbatch_graph::{Network, ParameterId};
use edbatch_runtime::Parameters;

/// Inputs with their targets.
pub(crate) type Examples = (Vec<CallList>, Vec<Targets>);

/// Returns parameters that are multiples of 1/64, so that a step of 1/256 is exact. Adds `change`,
/// by parameter and element.
fn changed(network: &Network, change: impl Fn(usize, usize) -> f32) -> Parameters {
    let values = network.parameters().iter().enumerate().map(|(index, parameter)| {
        let value = |at: usize| ((at * 37 + index * 11) % 101) as f32 / 64.0 - 0.75;
        (0..parameter.elements()).map(|at| value(at) + change(index, at)).collect()
    });
    Parameters::from_values(network, values.collect()).unwrap()
}

pub(crate) fn parameters(network: &Network) -> Parameters {
    changed(network, |_, _| 0.0)
}

pub(crate) fn trainer(network: &Arc<Network>, options: TrainerOptions) -> Trainer<CallLists> {
    let model = CallLists::new(network.clone());
    Trainer::with_options(model, parameters(network), options).unwrap()
}

fn reference(
    network: &Arc<Network>,
    (inputs, targets): &Examples,
    parameters: &Parameters,
) -> LossGradients {
    let pairs = inputs.iter().zip(targets.iter().map(Vec::as_slice));
    interpret_gradients(&CallLists::new(network.clone()), parameters, pairs).unwrap()
}

/// Checks the reference's gradients against central differences of its loss, and a trainer's
/// gradients, without dropout, against the reference.
pub(crate) fn check(name: &str, network: &Arc<Network>, examples: &Examples) {
    let expected = reference(network, examples, &parameters(network)).parameters;
    for (index, gradients) in expected.iter().enumerate() {
        for (at, got) in gradients.iter().enumerate() {
            let loss = |step: f32| {
                let change = |i, a| if (i, a) == (index, at) { step } else { 0.0 };
                reference(network, examples, &changed(network, change)).loss
            };
            let difference = |step| (loss(step) - loss(-step)) / f64::from(2.0 * step);
            let [wide, narrow] = [1.0 / 128.0, 1.0 / 256.0].map(difference);
            let expected = (4.0 * narrow - wide) / 3.0;
            let parameter = &network.parameter(ParameterId(index as u32)).name;
            assert!(
                (got - expected).abs() < 1e-6,
                "{name}: {parameter}[{at}]: expected {expected}, the reference computes {got}"
            );
        }
    }
    let (inputs, targets) = examples;
    for parts in [1, inputs.len()] {
        let mut trainer = trainer(network, TrainerOptions::new().without_dropout());
        for (inputs, targets) in inputs.chunks(parts).zip(targets.chunks(parts)) {
            trainer.accumulate(inputs, targets, 1.0 / examples.0.len() as f32).unwrap();
        }
        let got = trainer.gradients().unwrap().to_dense(network);
        for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
            let error = (f64::from(*got) - expected).abs();
            assert!(error < 1e-5, "{name}: expected {expected}, the trainer computes {got}");
        }
    }
}
