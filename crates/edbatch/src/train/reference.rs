//! The loss of a mini-batch and its gradients by the reference interpreter, in float64.

use std::cell::RefCell;

use edbatch_graph::{Graph, Source, TrainingNetwork, Value, training_network};
use edbatch_models::{Mailbox, Model};
use edbatch_runtime::{Parameters, ReferenceTensor, initial_values, interpret_as};

use super::targets::check_targets;
use super::wire::wire;
use crate::TrainError;
use crate::interpret::{host_tensors, not_finite_call};

/// The loss of a mini-batch and its gradients.
#[derive(Clone, PartialEq, Debug)]
pub struct LossGradients {
    /// The sum of the cross-entropies of all rows with a target, divided by the number of inputs.
    pub loss: f64,
    /// The number of rows with a target.
    pub terms: u64,
    /// The number of inputs.
    pub instances: u64,
    /// For each parameter of the network, the gradients of its elements, row-major.
    pub parameters: Vec<Vec<f64>>,
}

/// Computes the loss of a mini-batch and its gradients in float64, input by input and node by node,
/// without batches or plans. It is slow, and serves to check other backends.
///
/// Each example is an input and, for each row that it emits, a target or none.
///
/// # Errors
/// If the parameters or an example do not fit the model, if an adjoint is too large, or if an input
/// awaits a computed value.
pub fn interpret_gradients<'a, M: Model>(
    model: &M,
    parameters: &Parameters,
    examples: impl IntoIterator<Item = (&'a M::Input, &'a [Option<u32>])>,
) -> Result<LossGradients, TrainError>
where
    M::Input: 'a,
{
    let network = model.network();
    let parameters = parameters.for_network(network)?;
    let double = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
    let weights: Vec<Vec<f64>> = parameters.slices().into_iter().map(double).collect();
    let weights: Vec<&[f64]> = weights.iter().map(Vec::as_slice).collect();
    let training = training_network(network, |_| true, |_| false)?;
    let mut sum = LossGradients {
        loss: 0.0,
        terms: 0,
        instances: 0,
        parameters: weights.iter().map(|values| vec![0.0; values.len()]).collect(),
    };
    let graph = RefCell::new(Graph::new(network.clone()));
    for (input, (example, targets)) in examples.into_iter().enumerate() {
        graph.borrow_mut().clear();
        let wired = wire(model, example, &graph, input)?;
        let graph = &*graph.borrow();
        sum.add(&training, graph, (&parameters, &weights), &wired, targets, input)?;
        if !sum.loss.is_finite() {
            let call = not_finite_call(graph, &parameters, &wired.given);
            return Err(TrainError::NotFiniteLoss { input, call });
        }
        sum.instances += 1;
    }
    // Without inputs, everything is zero.
    let scale = 1.0 / sum.instances.max(1) as f64;
    sum.loss *= scale;
    sum.parameters.iter_mut().flatten().for_each(|gradient| *gradient *= scale);
    for (parameter, gradients) in network.parameters().iter().zip(&sum.parameters) {
        if !gradients.iter().all(|gradient| gradient.is_finite()) {
            return Err(TrainError::NotFiniteGradient { parameter: parameter.name.clone() });
        }
    }
    Ok(sum)
}

impl LossGradients {
    /// Adds the loss of one input and its gradients.
    fn add(
        &mut self,
        training: &TrainingNetwork,
        graph: &Graph,
        (parameters, weights): (&Parameters, &[&[f64]]),
        wired: &Mailbox,
        targets: &[Option<u32>],
        input: usize,
    ) -> Result<(), TrainError> {
        check_targets(graph, &wired.emitted, targets, input)?;
        let network = graph.network();
        let mut given = initial_values(network, parameters);
        host_tensors(graph, &wired.given, &mut given);
        let double = |fields: &Vec<ReferenceTensor>| -> Vec<_> {
            fields.iter().map(|field| field.mapv(f64::from)).collect()
        };
        let given: Vec<_> = given.iter().map(double).collect();
        let nodes = interpret_as(network, graph, weights, &given);
        let mut outputs: Vec<(Value, Vec<ReferenceTensor<f64>>)> = Vec::new();
        for (&value, target) in wired.emitted.iter().zip(targets) {
            let Some(target) = *target else { continue };
            let scores = match value.source() {
                Source::Node(node) => &nodes[node.index()][0],
                Source::Given(index) => &given[index][0],
            };
            let (loss, gradient) = cross_entropy(scores, target as usize);
            self.loss += loss;
            self.terms += 1;
            outputs.push((value, vec![gradient]));
        }
        let gradients =
            edbatch_runtime::interpret_gradients(training, graph, weights, &given, &outputs);
        for (sum, gradient) in self.parameters.iter_mut().zip(&gradients.parameters) {
            sum.iter_mut().zip(gradient).for_each(|(sum, gradient)| *sum += gradient);
        }
        Ok(())
    }
}

/// Returns the cross-entropy of a vector of scores, and its gradient: softmax less 1 at the target.
fn cross_entropy(scores: &ReferenceTensor<f64>, target: usize) -> (f64, ReferenceTensor<f64>) {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp = scores.mapv(|score| (score - max).exp());
    let sum = exp.sum();
    let loss = sum.ln() - (scores[(target, 0)] - max);
    let mut gradient = exp / sum;
    gradient[(target, 0)] -= 1.0;
    (loss, gradient)
}
