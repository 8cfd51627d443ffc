//! From inputs to outputs: construct, schedule, plan, execute; again while instances await values.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use edbatch_graph::{Graph, Value};
use edbatch_layout::{ArenaTooLarge, CellStyle, Program, TooLarge};
use edbatch_models::{Build, BuildError, Exchange, Model};
use edbatch_policy::{Critical, Policy};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Parameters, Products};

use crate::executor::{Executor, Interpreted, Planned};
use crate::{Counts, Report, Rows, Statistics};

/// A model with its parameters, ready to run mini-batches.
///
/// It owns all memory that a mini-batch needs and keeps it for the next.
pub struct Engine<M> {
    model: M,
    executor: Executor,
    statistics: Statistics,
}

impl<M: Model> Engine<M> {
    /// An engine on the CPU with our own kernels, planned cells, products of
    /// looked-up rows done once per distinct row, and the policy [`Critical`],
    /// which needs no learning.
    ///
    /// # Errors
    /// If a cell is too large to be addressed.
    pub fn new(model: M, parameters: Parameters) -> Result<Self, TooLarge> {
        let program = Arc::new(Program::new(model.network().clone(), CellStyle::default())?);
        let cpu = Cpu::new(program.clone(), parameters.clone(), Products::Packed, Level::detect());
        Ok(Self::with_backend(model, &parameters, program, Box::new(cpu)))
    }

    /// An engine on a backend of the caller's choice, loaded with the same program.
    #[must_use]
    pub fn with_backend(
        model: M,
        parameters: &Parameters,
        program: Arc<Program>,
        backend: Box<dyn Backend>,
    ) -> Self {
        let planned = Planned::new(program, parameters, backend, Box::new(Critical::new()));
        let executor = Executor::Planned(Box::new(planned));
        Self { model, executor, statistics: Statistics::default() }
    }

    /// An engine that computes node by node: the reference that others are compared with.
    #[must_use]
    pub fn interpreted(model: M, parameters: Parameters) -> Self {
        let executor = Executor::Interpreted(Interpreted::new(model.network(), parameters));
        Self { model, executor, statistics: Statistics::default() }
    }

    /// Batches by another policy. The interpreter batches nothing.
    #[must_use]
    pub fn with_policy(mut self, policy: Box<dyn Policy>) -> Self {
        self.executor.set_policy(policy);
        self
    }

    /// Counts lower bounds, gathered bytes and the batches of each kind too, which costs about as much as scheduling.
    #[must_use]
    pub fn with_counts(mut self) -> Self {
        self.statistics.counts = Some(Counts::default());
        self
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// What all runs so far took together.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// How each kind batched, if [`with_counts`](Self::with_counts) asked for it; nothing for the
    /// interpreter.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.statistics.counts.and(self.executor.report())
    }

    /// The graph of a mini-batch, up to where instances await a value.
    ///
    /// # Errors
    /// If an input does not fit the model.
    pub fn graph(&self, inputs: &[M::Input]) -> Result<Graph, RunError> {
        let graph = RefCell::new(Graph::new(self.model.network().clone()));
        let exchanges: Vec<RefCell<Exchange>> = inputs.iter().map(|_| RefCell::default()).collect();
        let builds: Vec<Build<'_>> = exchanges.iter().map(|e| Build::new(&graph, e)).collect();
        let wirings = inputs.iter().zip(&builds).map(|(i, b)| self.model.build(b, i));
        advance(&mut wirings.map(|wiring| Some(Box::pin(wiring))).collect::<Vec<_>>())?;
        drop(builds);
        Ok(graph.into_inner())
    }

    /// Runs one mini-batch: for each input the rows that it emits, in order.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    pub fn run(&mut self, inputs: &[M::Input]) -> Result<Vec<Rows>, RunError> {
        let Self { model, executor, statistics } = self;
        let started = Instant::now();
        let graph = RefCell::new(Graph::new(model.network().clone()));
        let exchanges: Vec<RefCell<Exchange>> = inputs.iter().map(|_| RefCell::default()).collect();
        let builds: Vec<Build<'_>> = exchanges.iter().map(|e| Build::new(&graph, e)).collect();
        let wirings = inputs.iter().zip(&builds).map(|(i, b)| model.build(b, i));
        let mut wirings: Vec<_> = wirings.map(|wiring| Some(Box::pin(wiring))).collect();
        let mut outputs = vec![Rows::new(); inputs.len()];
        let mut carried = Rows::new();
        statistics.instances += inputs.len() as u64;
        statistics.construct += started.elapsed();
        loop {
            let constructing = Instant::now();
            let waiting = advance(&mut wirings)?;
            let wanted = wanted(&graph.borrow(), &exchanges)?;
            statistics.construct += constructing.elapsed();
            let results = executor.run(&graph.borrow(), &carried, &wanted, statistics)?;
            carried = distribute(&mut graph.borrow_mut(), &exchanges, &results, &mut outputs);
            if !waiting {
                return Ok(outputs);
            }
        }
    }
}

/// Lets every instance go on until it ends or awaits a value; whether any awaits one.
fn advance<W: Future<Output = Result<(), BuildError>>>(
    wirings: &mut [Option<Pin<Box<W>>>],
) -> Result<bool, RunError> {
    let mut waiting = false;
    for (instance, slot) in wirings.iter_mut().enumerate() {
        let Some(wiring) = slot else { continue };
        match wiring.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => waiting = true,
            Poll::Ready(Ok(())) => *slot = None,
            Poll::Ready(Err(error)) => return Err(RunError::Build { instance, error }),
        }
    }
    Ok(waiting)
}

/// The values that instances want read: emitted, awaited and carried ones, instance by instance.
fn wanted(graph: &Graph, exchanges: &[RefCell<Exchange>]) -> Result<Vec<Value>, RunError> {
    let mut wanted = Vec::new();
    for (instance, exchange) in exchanges.iter().enumerate() {
        let Exchange { emitted, awaited, carried, .. } = &*exchange.borrow();
        let first = wanted.len();
        wanted.extend(emitted.iter().chain(awaited).chain(carried));
        if wanted[first..].iter().any(|&value| graph.record_of(value).is_none()) {
            return Err(RunError::NotCarried { instance });
        }
    }
    Ok(wanted)
}

/// Hands every instance what it wanted, and empties the graph. Returns the carried values, which
/// the graph then has as given ones.
fn distribute(
    graph: &mut Graph,
    exchanges: &[RefCell<Exchange>],
    results: &Rows,
    outputs: &mut [Rows],
) -> Rows {
    let mut results = results.iter();
    let mut next = || results.next().expect("a result for every wanted value");
    let mut carried = Rows::new();
    let mut records = Vec::new();
    for (exchange, output) in exchanges.iter().zip(outputs) {
        let exchange = &mut *exchange.borrow_mut();
        for _ in exchange.emitted.drain(..) {
            output.push(next());
        }
        exchange.answer = exchange.awaited.take().map(|_| next().to_vec());
        for &value in &exchange.carried {
            carried.push(next());
            records.push(graph.record_of(value).expect("checked when it was wanted"));
        }
    }
    graph.clear();
    let mut records = records.into_iter();
    for exchange in exchanges {
        for value in &mut exchange.borrow_mut().carried {
            *value = graph.give(records.next().expect("collected above"));
        }
    }
    carried
}

/// Why a mini-batch could not be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// An input could not be wired.
    Build {
        /// Its index in the mini-batch.
        instance: usize,
        /// Why.
        error: BuildError,
    },
    /// An instance emits or awaits a value from before an await that it did not carry across.
    NotCarried {
        /// Its index in the mini-batch.
        instance: usize,
    },
    /// The mini-batch is too large to be addressed.
    Arena(ArenaTooLarge),
}

impl From<ArenaTooLarge> for RunError {
    fn from(error: ArenaTooLarge) -> Self {
        Self::Arena(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build { instance, error } => write!(f, "input {instance}: {error}"),
            Self::NotCarried { instance } => write!(
                f,
                "input {instance}: a value from before an await is used after it; carry it across"
            ),
            Self::Arena(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}
