//! The part `verify-training`: gradients and updates on the device have the processor's bits, for
//! all goldens.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use edbatch::models::{FolderModel, Model, Stop, Targets, ZooInput};
use edbatch::{Optimizer, TrainError, Trainer, TrainerOptions, load};
use edbatch_cuda::CudaOptions;

use crate::Failure;
use crate::measure::device::Device;
use crate::measure::gpu::verify::of_goldens;
use crate::record::finding::Finding;

/// The number of updates after the first.
const UPDATES: usize = 2;

/// Compares models until a deadline.
pub(super) fn verify_training(
    device: &Device,
    models: &[String],
    until: Instant,
    progress: impl FnMut(&str),
) -> Vec<Finding> {
    match of_goldens("verify-training", models, until, progress, |folder| golden(device, folder)) {
        ControlFlow::Continue(findings) | ControlFlow::Break(findings) => findings,
    }
}

/// Trains a golden model on the processor and on the device, by several rules. Returns a
/// description.
fn golden(device: &Device, folder: &Path) -> Result<String, Failure> {
    let loaded = load(folder)?;
    let mut inputs: Vec<ZooInput> =
        loaded.folder.inputs(&loaded.folder.input())?.collect::<Result<_, _>>()?;
    for input in &mut inputs {
        // Values that are awaited have no gradient.
        if let ZooInput::Source(sentence) = input {
            sentence.stop = Stop::Forced([0; 5].into());
        }
    }
    let (model, parameters) = (loaded.model, loaded.parameters);
    let targets = targets(Trainer::new(model.clone(), parameters.clone())?, &inputs)?;
    let program = Trainer::<FolderModel>::program(model.network(), &TrainerOptions::new())?;
    let mut backend = device.load(&program, &parameters, &CudaOptions::new())?;
    let start = backend.training().expect("the program is for training").state()?;
    let rules = [Optimizer::ada_grad(0.01), Optimizer::adam_w(0.01), Optimizer::rms_prop(0.01)];
    for (rule, name) in rules.into_iter().zip(["AdaGrad", "AdamW", "RMSProp"]) {
        let options = || TrainerOptions::new().optimizer(rule).clip_norm(0.1);
        let mut cpu = Trainer::with_options(model.clone(), parameters.clone(), options())?;
        let expected = numbers(&mut cpu, &inputs, &targets)?;
        let mut fork = backend.fork();
        fork.training().expect("the program is for training").set_state(&start)?;
        let (model, parameters) = (model.clone(), parameters.clone());
        let mut trainer =
            Trainer::with_backend(model, parameters, program.clone(), fork, options())?;
        let got = numbers(&mut trainer, &inputs, &targets)?;
        if let Some(what) = first_difference(&got, &expected) {
            return Err(format!("{name}: {what} has different bits").into());
        }
    }
    Ok("the processor's bits: gradients and three updates by AdaGrad, AdamW and RMSProp".into())
}

/// Returns a class for most of the rows that each input emits.
fn targets(
    mut trainer: Trainer<FolderModel>,
    inputs: &[ZooInput],
) -> Result<Vec<Targets>, TrainError> {
    let outputs = trainer.forward(inputs)?;
    let target = |(index, row): (usize, &[f32])| {
        (index % 5 != 3).then(|| (7 * index as u32) % row.len() as u32)
    };
    Ok(outputs.iter().map(|rows| rows.iter().enumerate().map(target).collect()).collect())
}

/// The bits of a training run, each with what they are.
type Numbers = Vec<(String, Vec<u64>)>;

/// Computes gradients, then updates by them and by further mini-batches.
fn numbers(
    trainer: &mut Trainer<FolderModel>,
    inputs: &[ZooInput],
    targets: &[Targets],
) -> Result<Numbers, TrainError> {
    let network = trainer.model().network().clone();
    let bits = |elements: &[f32]| elements.iter().map(|x| x.to_bits().into()).collect();
    let loss = trainer.accumulate(inputs, targets, 1.0 / inputs.len() as f32)?.loss;
    let mut numbers = vec![("the loss".to_string(), vec![loss.to_bits()])];
    let names = || network.parameters().iter().map(|parameter| &parameter.name);
    for (name, gradient) in names().zip(trainer.gradients()?.to_dense(&network)) {
        numbers.push((format!("the gradient of {name}"), bits(&gradient)));
    }
    let norm = trainer.update()?;
    numbers.push(("the norm of the gradients".into(), vec![norm.to_bits()]));
    for update in 0..=UPDATES {
        if update > 0 {
            let loss = trainer.train(inputs, targets)?.loss;
            numbers.push((format!("the loss after {update} updates"), vec![loss.to_bits()]));
        }
        for (name, values) in names().zip(trainer.parameters()?.slices()) {
            numbers.push((format!("{name} after {} updates", update + 1), bits(values)));
        }
    }
    let state = trainer.state()?.into_iter().map(u64::from).collect();
    numbers.push(("the moments".into(), state));
    Ok(numbers)
}

/// Returns what the first difference is in.
fn first_difference<'a>(got: &Numbers, expected: &'a Numbers) -> Option<&'a str> {
    assert_eq!(got.len(), expected.len(), "the same run");
    let pairs = got.iter().zip(expected);
    pairs.into_iter().find_map(|((_, got), (what, bits))| (got != bits).then_some(&**what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::assets;

    #[test]
    fn a_wrong_gradient_and_a_wrong_moment_are_named() {
        let loaded = load(assets::goldens().join("tree_lstm")).unwrap();
        let inputs = loaded.folder.inputs(&loaded.folder.input()).unwrap();
        let inputs: Vec<_> = inputs.take(2).map(Result::unwrap).collect();
        let new = || Trainer::new(loaded.model.clone(), loaded.parameters.clone()).unwrap();
        let targets = targets(new(), &inputs).unwrap();
        let expected = numbers(&mut new(), &inputs, &targets).unwrap();
        assert_eq!(first_difference(&expected, &expected), None);
        for wrong in ["the gradient of ", "the moments"] {
            let mut got = expected.clone();
            let (what, bits) = got.iter_mut().find(|(what, _)| what.starts_with(wrong)).unwrap();
            *bits.last_mut().unwrap() ^= 1;
            let what = what.clone();
            assert_eq!(first_difference(&got, &expected), Some(&*what));
        }
    }
}
