//! The part `verify-training`: gradients and updates on the device have the processor's bits, for
//! all goldens and for random networks.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use edbatch::models::{CallList, CallLists, FolderModel, Model, Stop, Targets, ZooInput};
use edbatch::{Optimizer, Rows, TrainError, Trainer, TrainerOptions, load};
use edbatch_cuda::CudaOptions;
use edbatch_graph::{Dag, NodeId, Value};
use edbatch_layout::Program;
use edbatch_runtime::{Backend, Parameters};
use edbatch_testing::Subject;

use crate::Failure;
use crate::measure::device::Device;
use crate::measure::gpu::verify::{of_goldens, of_random_networks};
use crate::record::finding::Finding;

/// The number of updates after the first.
const UPDATES: usize = 2;

/// Compares models, and `networks` random networks, until a deadline.
pub(super) fn verify_training(
    device: &Device,
    models: &[String],
    networks: u64,
    until: Instant,
    mut progress: impl FnMut(&str),
) -> Vec<Finding> {
    let part = "verify-training";
    let mut findings =
        match of_goldens(part, models, until, &mut progress, |folder| golden(device, folder)) {
            ControlFlow::Continue(findings) => findings,
            ControlFlow::Break(findings) => return findings,
        };
    let random = |seed| random_network(device, seed);
    findings.extend(of_random_networks(part, networks, until, progress, random));
    findings
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
    let step = |trainer: &mut Trainer<FolderModel>, update| {
        let loss = match update {
            0 => trainer.accumulate(&inputs, &targets, 1.0 / inputs.len() as f32)?.loss,
            _ => trainer.train(&inputs, &targets)?.loss,
        };
        Ok(vec![loss.to_bits()])
    };
    let rules = [Optimizer::ada_grad(0.01), Optimizer::adam_w(0.01), Optimizer::rms_prop(0.01)];
    for (rule, name) in rules.into_iter().zip(["AdaGrad", "AdamW", "RMSProp"]) {
        let mut fork = backend.fork();
        fork.training().expect("the program is for training").set_state(&start)?;
        let on_device = (program.clone(), fork);
        if let Some(what) = differs(&model, &parameters, on_device, rule, &step)? {
            return Err(format!("{name}: {what} has different bits").into());
        }
    }
    Ok("the processor's bits: gradients and three updates by AdaGrad, AdamW and RMSProp".into())
}

/// Returns true if a random network has the processor's bits, in three updates by AdamW. The loss
/// depends on every third value.
fn random_network(device: &Device, seed: u64) -> Result<bool, Failure> {
    let Subject { network, parameters, graph, .. } = Subject::random(seed);
    let mut list = CallList::new(network.clone());
    for node in (0..graph.nodes()).map(NodeId::new) {
        let values: Vec<Value> = graph.values(node).collect();
        let value = list.call(graph.kind(node), graph.rows(node), &values)?;
        if (graph.nodes() - node.index()) % 3 == 1 {
            list.emit(value)?;
        }
    }
    let program = Trainer::<CallLists>::program(&network, &TrainerOptions::new())?;
    let backend = device.load(&program, &parameters, &CudaOptions::new())?;
    let step = |trainer: &mut Trainer<CallLists>, update| {
        let outputs = trainer.forward(std::slice::from_ref(&list))?;
        let mut gradients = Rows::new();
        for row in outputs[0].iter() {
            // The loss is the sum of (x - 0.5)² / 2.
            gradients.push(&row.iter().map(|x| x - 0.5).collect::<Vec<f32>>());
        }
        trainer.backward(&[gradients])?;
        if update > 0 {
            trainer.update()?;
        }
        Ok(outputs[0].iter().flat_map(bits).collect())
    };
    let (rule, model) = (Optimizer::adam_w(0.01), CallLists::new(network));
    Ok(differs(&model, &parameters, (program, backend), rule, &step)?.is_none())
}

/// A step of training, given the number of updates before it. The first one only accumulates
/// gradients, and later ones also update. Returns the bits of the step's results.
type Step<'a, M> = dyn Fn(&mut Trainer<M>, usize) -> Result<Vec<u64>, TrainError> + 'a;

/// Trains a model on the processor, and on a device by a program and its backend. Returns what has
/// different bits first, if anything.
fn differs<M: Model + Clone>(
    model: &M,
    parameters: &Parameters,
    (program, backend): (Arc<Program>, Box<dyn Backend>),
    rule: Optimizer,
    step: &Step<'_, M>,
) -> Result<Option<String>, TrainError> {
    let options = || TrainerOptions::new().optimizer(rule).clip_norm(0.1);
    let (of_cpu, of_device) = (model.clone(), model.clone());
    let mut cpu = Trainer::with_options(of_cpu, parameters.clone(), options())?;
    let mut device =
        Trainer::with_backend(of_device, parameters.clone(), program, backend, options())?;
    let (expected, got) = (numbers(&mut cpu, step)?, numbers(&mut device, step)?);
    Ok(first_difference(&got, &expected).map(String::from))
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

fn bits(elements: &[f32]) -> Vec<u64> {
    elements.iter().map(|x| x.to_bits().into()).collect()
}

/// Computes gradients, then updates by them and by further steps.
fn numbers<M: Model>(trainer: &mut Trainer<M>, step: &Step<'_, M>) -> Result<Numbers, TrainError> {
    let network = trainer.model().network().clone();
    let names = || network.parameters().iter().map(|parameter| &parameter.name);
    let mut numbers = Numbers::new();
    for update in 0..=UPDATES {
        numbers.push((format!("the result after {update} updates"), step(trainer, update)?));
        if update == 0 {
            for (name, gradient) in names().zip(trainer.gradients()?.to_dense(&network)) {
                numbers.push((format!("the gradient of {name}"), bits(&gradient)));
            }
            let norm = trainer.update()?;
            numbers.push(("the norm of the gradients".into(), vec![norm.to_bits()]));
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
        let expected = numbers(&mut new(), &|trainer, _| {
            Ok(vec![trainer.accumulate(&inputs, &targets, 0.5)?.loss.to_bits()])
        });
        let expected = expected.unwrap();
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
