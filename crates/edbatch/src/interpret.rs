//! The reference interpreter, which runs a mini-batch node by node.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use edbatch_graph::{Graph, Source, Value};
use edbatch_layout::Want;
use edbatch_models::{Build, Mailbox, Model, arg_max};
use edbatch_runtime::kernels::ArgMax;
use edbatch_runtime::{BackendError, Parameters, Precision, ReferenceTensor, initial_values, span};

use crate::finite::Calls;
use crate::output::Results;
use crate::wiring::{Admission, Instances, Round};
use crate::{InputError, NotFiniteCall, Rows, RunError, Statistics};

/// The outputs of a mini-batch that was run node by node.
#[derive(Clone, Debug)]
pub struct Interpreted {
    /// For each input the rows that it emits, in order.
    pub outputs: Vec<Rows>,
    /// The counts and times. Each node counts as a batch.
    pub statistics: Statistics,
}

/// Runs one mini-batch node by node with [`edbatch_runtime::interpret`], without batches, plans or
/// backends. It is slow, and serves to check the results of [`Engine`](crate::Engine).
///
/// # Errors
/// If the parameters or an input do not fit the model.
pub fn interpret<M: Model>(
    model: &M,
    parameters: &Parameters,
    inputs: &[M::Input],
    precision: Precision,
) -> Result<Interpreted, RunError> {
    node_by_node(model, (parameters, precision), inputs, |_, _| Ok(()))
}

/// Like [`interpret`], but rejects an input if any of its calls produces a NaN or an infinity.
///
/// # Errors
/// If the parameters or an input do not fit the model, or with
/// [`InputError::NotFinite`] for the first input with such a call.
pub fn interpret_finite<M: Model>(
    model: &M,
    parameters: &Parameters,
    inputs: &[M::Input],
    precision: Precision,
) -> Result<Interpreted, RunError> {
    // The number of calls of each input in earlier rounds.
    let mut calls = vec![0; inputs.len()];
    node_by_node(model, (parameters, precision), inputs, |checked, round| {
        check_finite(checked, round, &mut calls)
    })
}

/// Runs one mini-batch, and calls `check` on the calls of each round.
fn node_by_node<M: Model>(
    model: &M,
    (parameters, precision): (&Parameters, Precision),
    inputs: &[M::Input],
    mut check: impl FnMut(&Calls<'_>, &Round) -> Result<(), RunError>,
) -> Result<Interpreted, RunError> {
    let mut outputs = vec![Rows::new(); inputs.len()];
    let mut statistics = Statistics { instances: inputs.len() as u64, ..Statistics::default() };
    let network = model.network();
    let parameters = &parameters.for_network(network).map_err(BackendError::from)?;
    let mut given = initial_values(network, parameters);
    let initial = given.len();
    let graph = RefCell::new(Graph::new(network.clone()));
    let (mut inputs, mut instances) = (inputs.iter(), Instances::new(false));
    let admission = Admission::new(inputs.len(), &|_| true);
    let mut start = |mailbox: Rc<RefCell<Mailbox>>| {
        let (input, graph) = (inputs.next()?, &graph);
        Some(async move { model.build(&Build::new(graph, &mailbox), input).await })
    };
    let mut round = Round::default();
    let started = Instant::now();
    let _mini_batch = span!(INFO, "mini-batch", inputs = outputs.len() as u64);
    loop {
        let _round = span!(DEBUG, "round");
        let wired = {
            let _stage = span!(DEBUG, "construct");
            instances.wire(&graph, admission, &mut start, &mut round)
        };
        if !wired {
            break;
        }
        round.first_failure()?;
        host_tensors(&graph.borrow(), &round.given, &mut given);
        let nodes = {
            let _stage = span!(DEBUG, "execute");
            edbatch_runtime::interpret(&graph.borrow(), parameters, &given, precision)
        };
        let _stage = span!(DEBUG, "read");
        let (weights, host) = (parameters, &round.given);
        check(&Calls { graph: &graph.borrow(), weights, host, nodes: &nodes }, &round)?;
        statistics.graphs += 1;
        statistics.nodes += nodes.len() as u64;
        statistics.batches += nodes.len() as u64;
        let value = |&(value, want): &(Value, Want)| match value.source() {
            Source::Node(node) => (nodes[node.index()].clone(), want),
            Source::Given(index) => (given[index].clone(), want),
        };
        let values: Vec<(Vec<ReferenceTensor>, Want)> = round.wanted.iter().map(value).collect();
        let mut put = |input: usize, rows: Result<&mut Rows, InputError>| {
            outputs[input].clone_from(rows.expect("failures are returned above"));
        };
        instances.resume(&graph, &round, &Wanted(&values), &mut put)?;
        given.truncate(initial);
        let stays = values.into_iter().filter(|&(_, want)| matches!(want, Want::Store(_)));
        given.extend(stays.map(|(value, _)| value));
    }
    statistics.execute = started.elapsed();
    Ok(Interpreted { outputs, statistics })
}

/// Rejects the first input with a call of this round that produced a NaN or an infinity. `calls`
/// has the number of calls of each input in earlier rounds, and is updated.
fn check_finite(checked: &Calls<'_>, round: &Round, calls: &mut [usize]) -> Result<(), RunError> {
    RunError::first(round.turns.iter().filter_map(|turn| {
        let before = calls[turn.input];
        calls[turn.input] += turn.nodes.len();
        let call = checked.not_finite(turn.nodes.clone(), before)?;
        Some((turn.input, InputError::NotFinite(call)))
    }))
}

/// Returns the first call of a graph, which has the calls of one input, that produces a NaN or an
/// infinity. `weights` are in the order of the graph's network; `host` are the given elements.
pub(crate) fn not_finite_call(
    graph: &Graph,
    weights: &Parameters,
    host: &[f32],
) -> Option<Box<NotFiniteCall>> {
    let mut given = initial_values(graph.network(), weights);
    host_tensors(graph, host, &mut given);
    let nodes = &edbatch_runtime::interpret(graph, weights, &given, Precision::F32);
    Calls { graph, weights, host, nodes }.not_finite(0..nodes.len(), 0)
}

/// Appends the values that inputs gave in this round, with a tensor for each field. They are the
/// last of the graph's given values.
pub(crate) fn host_tensors(
    graph: &Graph,
    mut elements: &[f32],
    given: &mut Vec<Vec<ReferenceTensor>>,
) {
    for &record in &graph.given()[given.len()..] {
        let fields = graph.network().fields(record).fields.iter();
        let tensors = fields.map(|field| {
            let (field_elements, rest) = elements.split_at(field.shape.elements());
            elements = rest;
            ReferenceTensor::from_shape_vec(field.shape.rows_and_columns(), field_elements.to_vec())
                .expect("the elements of the shape")
        });
        given.push(tensors.collect());
    }
}

/// The wanted values of a graph: a tensor for each field.
struct Wanted<'a>(&'a [(Vec<ReferenceTensor>, Want)]);

impl Results for Wanted<'_> {
    fn append(&self, wanted: usize, elements: &mut Vec<f32>) -> Result<(), BackendError> {
        elements.extend(self.0[wanted].0.iter().flatten());
        Ok(())
    }

    fn arg_max(&self, wanted: usize) -> ArgMax {
        let elements: Vec<f32> = self.0[wanted].0.iter().flatten().copied().collect();
        let is_finite = elements.iter().all(|element| element.is_finite());
        ArgMax { index: arg_max(&elements), is_finite }
    }
}
