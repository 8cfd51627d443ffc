//! A mini-batch node by node: the reference that an engine is compared with.

use std::cell::RefCell;
use std::time::Instant;

use edbatch_graph::{Graph, Source, Value};
use edbatch_layout::Want;
use edbatch_models::{Model, arg_max};
use edbatch_runtime::{BackendError, Parameters, ReferenceTensor, initial_values, span};

use crate::emitted::Results;
use crate::finite::Calls;
use crate::wiring::{Round, Wiring};
use crate::{InputError, Rows, RunError, Statistics};

/// What a mini-batch comes to, node by node.
#[derive(Clone, Debug)]
pub struct Interpreted {
    /// For each input the rows that it emits, in order.
    pub outputs: Vec<Rows>,
    /// What it took; a batch for each node.
    pub statistics: Statistics,
}

/// Runs one mini-batch node by node, by [`edbatch_runtime::interpret`], without batches, plans or
/// backends: slow, short, and independent of what an [`Engine`](crate::Engine) does.
///
/// # Errors
/// If the parameters or an input do not fit the model.
pub fn interpret<M: Model>(
    model: &M,
    parameters: &Parameters,
    inputs: &[M::Input],
) -> Result<Interpreted, RunError> {
    node_by_node(model, parameters, inputs, Look::Away)
}

/// As [`interpret`], but an input fails of which a call makes something that is not finite, as it
/// does where an engine [checks](crate::EngineOptions::check_finite) it.
///
/// # Errors
/// If the parameters or an input do not fit the model, or a record has an element that is not
/// finite.
pub fn interpret_finite<M: Model>(
    model: &M,
    parameters: &Parameters,
    inputs: &[M::Input],
) -> Result<Interpreted, RunError> {
    node_by_node(model, parameters, inputs, Look::AtCalls)
}

/// Whether what calls make is looked at.
#[derive(PartialEq, Eq)]
enum Look {
    Away,
    AtCalls,
}

fn node_by_node<M: Model>(
    model: &M,
    parameters: &Parameters,
    inputs: &[M::Input],
    look: Look,
) -> Result<Interpreted, RunError> {
    let mut outputs = vec![Rows::new(); inputs.len()];
    let mut statistics = Statistics { instances: inputs.len() as u64, ..Statistics::default() };
    let network = model.network();
    let parameters = &parameters.for_network(network).map_err(BackendError::from)?;
    let mut given = initial_values(network, parameters);
    let initial = given.len();
    let graph = RefCell::new(Graph::new(network.clone()));
    let round = Round::new::<Rows>(&graph, inputs.len(), inputs, &|_| true);
    let mut wiring = Wiring::new(&round, |wirer| round.wire(model, wirer));
    let started = Instant::now();
    let _mini_batch = span!(INFO, "mini-batch", inputs = inputs.len() as u64);
    loop {
        let _round = span!(DEBUG, "round");
        let wired = {
            let _stage = span!(DEBUG, "construct");
            wiring.advance()
        };
        if !wired {
            break;
        }
        if let Some((instance, error)) = wiring.failed() {
            return Err(RunError::Input { instance, error });
        }
        host_tensors(&graph.borrow(), &round.given(), &mut given);
        let nodes = {
            let _stage = span!(DEBUG, "execute");
            edbatch_runtime::interpret(&graph.borrow(), parameters, &given)
        };
        let _stage = span!(DEBUG, "read");
        if look == Look::AtCalls {
            let (graph, host) = (&*graph.borrow(), &*round.given());
            let calls = Calls { graph, weights: parameters, host };
            wiring.fail_where(|called, before| {
                calls.not_finite(called, before, |node| {
                    nodes[node].iter().map(|tensor| tensor.iter().copied())
                })
            });
            if let Some((instance, error)) = wiring.failed() {
                return Err(RunError::Input { instance, error });
            }
        }
        statistics.graphs += 1;
        statistics.nodes += nodes.len() as u64;
        statistics.batches += nodes.len() as u64;
        let wanted = round.wanted();
        let value = |&(value, want): &(Value, Want)| match value.source() {
            Source::Node(node) => (nodes[node.index()].clone(), want),
            Source::Given(index) => (given[index].clone(), want),
        };
        let values: Vec<(Vec<ReferenceTensor>, Want)> = wanted.iter().map(value).collect();
        drop(wanted);
        let mut put = |input: usize, rows: Result<&mut Rows, InputError>| {
            outputs[input].clone_from(rows.expect("failures are returned above"));
        };
        wiring.read(&Wanted(&values), &mut put)?;
        given.truncate(initial);
        let stays = values.into_iter().filter(|&(_, want)| want == Want::Stay);
        given.extend(stays.map(|(value, _)| value));
    }
    statistics.execute = started.elapsed();
    Ok(Interpreted { outputs, statistics })
}

/// Appends the values that the caller gives, the last of a graph's given ones: a tensor for each
/// field.
fn host_tensors(graph: &Graph, mut elements: &[f32], given: &mut Vec<Vec<ReferenceTensor>>) {
    for &record in &graph.given()[given.len()..] {
        let fields = graph.network().fields(record).fields.iter();
        let tensors = fields.map(|field| {
            let (field_elements, behind) = elements.split_at(field.shape.elements());
            elements = behind;
            ReferenceTensor::from_shape_vec(field.shape.rows_and_columns(), field_elements.to_vec())
                .expect("as many elements as the shape has")
        });
        given.push(tensors.collect());
    }
}

/// The wanted values of a graph, each a tensor a field.
struct Wanted<'a>(&'a [(Vec<ReferenceTensor>, Want)]);

impl Results for Wanted<'_> {
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError> {
        elements.extend(self.0[wanted].0.iter().flatten());
        Ok(())
    }

    fn arg_max(&self, wanted: usize) -> u32 {
        let elements: Vec<f32> = self.0[wanted].0.iter().flatten().copied().collect();
        arg_max(&elements)
    }
}
