//! Computes the gradients of mini-batches on a backend, and sums them there.

mod ahead;
mod own_loss;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use edbatch_layout::Program;
use edbatch_models::{Model, Targets};
use edbatch_runtime::{
    BackPart, Backend, Given, Gradients, NotFiniteIn, OutputGradients, Parameters, Part, Rows,
    StepResult, StillWanted, ThreadPool, Training, TrainingPart, TrainingState, TrainingStep,
    Update, initial_rows,
};

use super::Times;
use super::dropout::Dropout;
use super::optimizer::in_range;
use super::pass::{LIST_BYTES, Pass};
use crate::decide::Decision;
use crate::statistics::Tally;
use crate::workers::{Division, ExpectedNodes};
use crate::{EngineError, NotFiniteCall, TrainError, TrainerOptions};

/// A model, its backend, and the gradients that are summed in the backend.
///
/// The masks of dropout depend on the number of updates so far, which is called `step`.
pub(super) struct Differentiator<M> {
    pub(super) model: M,
    program: Arc<Program>,
    /// It computes gradients, see [`training`].
    pub(super) backend: Box<dyn Backend>,
    initial: Rows,
    pool: ThreadPool,
    division: Division,
    /// The nodes of the last mini-batch.
    nodes: Option<ExpectedNodes>,
    given_gradients: bool,
    pub(super) dropout: Dropout,
    /// The number of inputs whose gradients were accumulated since they were cleared.
    accumulated: u64,
    /// The first pass always exists. The others fork its decision.
    passes: Vec<Pass>,
    /// The number of passes whose values are in the backend, after [`forward`](Self::forward).
    forward: usize,
    still_wanted: Option<StillWanted>,
    /// Gradients that the caller has set.
    pub(super) set: Option<Gradients>,
    pub(super) tally: Tally,
    pub(super) times: Times,
}

/// Returns a differentiator's backend as one that computes gradients.
pub(super) fn training(backend: &mut Box<dyn Backend>) -> &mut dyn Training {
    backend.training().expect("checked when the differentiator was made")
}

impl<M: Model> Differentiator<M> {
    /// Takes the policy and the pool of the options, which the caller has checked.
    pub(super) fn new(
        model: M,
        parameters: &Parameters,
        program: Arc<Program>,
        mut backend: Box<dyn Backend>,
        options: &mut TrainerOptions,
        dropout: Dropout,
    ) -> Result<Self, TrainError> {
        let training = program.training().ok_or(TrainError::Backend)?;
        let network = model.network();
        let same = dropout.network.parameters() == training.network.parameters()
            && network.cells().len() == training.adjoints.len();
        if !same {
            return Err(EngineError::NetworkOfProgram.into());
        }
        if backend.program().is_some_and(|loaded| !Arc::ptr_eq(loaded, &program)) {
            return Err(EngineError::ProgramOfBackend.into());
        }
        if backend.training().is_none() {
            return Err(TrainError::Backend);
        }
        let initial = initial_rows(network, &parameters.for_network(network)?);
        let pool = options.engine.take_pool()?;
        let decision = Decision::new(&mut options.engine, backend.lifetimes(), LIST_BYTES);
        let by_default = decision.scheduler.is_default();
        Ok(Self {
            division: Division::new(pool.threads(), backend.largest_cell(), by_default),
            nodes: None,
            model,
            program,
            backend,
            initial,
            pool,
            given_gradients: options.given_gradients,
            dropout,
            accumulated: 0,
            tally: decision.tally.clone(),
            times: Times::default(),
            passes: vec![Pass::new(decision)],
            forward: 0,
            still_wanted: None,
            set: None,
        })
    }

    /// Adds the gradients of a cross-entropy, of parts that fit the memory limit. The update, if
    /// any, follows the last part.
    pub(super) fn accumulate(
        &mut self,
        inputs: &[M::Input],
        targets: &[Targets],
        (weight, step): (f32, u64),
        update: Option<Update<'_>>,
    ) -> Result<StepResult, TrainError> {
        self.forward = 0;
        if inputs.len() != targets.len() {
            let (inputs, targets) = (inputs.len(), targets.len());
            return Err(TrainError::TargetsOfInputs { inputs, targets });
        }
        in_range(weight.is_finite(), "weight", "a finite number", weight.into())?;
        self.set = None;
        let mut parts = VecDeque::from(self.parts(inputs));
        let mut sum = StepResult::default();
        // Without inputs, there may be an update alone.
        let mut rest = !parts.is_empty() || update.is_some();
        while rest {
            let count = self.pool.threads().min(parts.len());
            let group: Vec<Range<usize>> = parts.drain(..count).collect();
            self.decide(inputs, Some(targets), &group, step)?;
            match (self.check_memory(count), &group[..]) {
                // A limit allows a single thread, so the group is one part.
                (Err(_), [Range { start, end }]) if end - start > 1 => {
                    let middle = start + (end - start) / 2;
                    parts.push_front(middle..*end);
                    parts.push_front(*start..middle);
                    continue;
                }
                (Err(error), [_, ..]) => return Err(error),
                _ => {}
            }
            rest = !parts.is_empty();
            let done = self.step(count, (weight, sum.loss), update.filter(|_| !rest))?;
            match done.not_finite {
                None => {}
                Some(NotFiniteIn::Input(input)) => {
                    let input = group[0].start + input as usize;
                    let call = self.not_finite_call(inputs, input, step);
                    return Err(TrainError::NotFiniteLoss { input, call });
                }
                Some(NotFiniteIn::Parameter(id)) => {
                    let parameter = self.program.network().parameter(id).name.clone();
                    return Err(TrainError::NotFiniteGradient { parameter });
                }
            }
            sum = StepResult { terms: sum.terms + done.terms, ..done };
        }
        self.accumulated += inputs.len() as u64;
        Ok(sum)
    }

    /// Divides inputs into parts.
    fn parts(&self, inputs: &[M::Input]) -> Vec<Range<usize>> {
        let (model, limits) = (&self.model, self.backend.division());
        // Before the first mini-batch, inputs are taken to be large.
        let large = || ExpectedNodes::of_inputs(model, &inputs[..1], usize::MAX);
        let expected = || self.nodes.unwrap_or_else(large);
        self.division.on_device(limits, model, inputs, expected).parts(model, inputs)
    }

    /// Runs parts forward and back, adds the gradients of parameters in the order of their inputs,
    /// and updates the parameters. The losses are added to `loss`.
    fn step(
        &mut self,
        parts: usize,
        (weight, loss): (f32, f64),
        update: Option<Update<'_>>,
    ) -> Result<StepResult, TrainError> {
        let Self { passes, initial, backend, tally, times, .. } = self;
        let passes = &passes[..parts];
        let ends = passes.iter().map(|pass| pass.ends.iter().map(|&(end, ..)| end as u32));
        let ends: Vec<Vec<u32>> = ends.map(Iterator::collect).collect();
        let mut parts = Vec::with_capacity(parts);
        for (slot, (pass, ends)) in passes.iter().zip(&ends).enumerate() {
            let Pass { plan, targets, given, .. } = pass;
            let given = Given { initial, places: &[], host: given };
            let outputs = OutputGradients::CrossEntropy { targets, weight };
            parts.push(TrainingPart {
                forward: Part { slot, plan: &plan.forward, given },
                back: BackPart { slot, plan, outputs },
                ends,
            });
        }
        let result = training(backend).step(&TrainingStep { parts: &parts, loss, update })?;
        passes.iter().for_each(|pass| tally.add(&pass.decision.tally));
        times.add(result.times);
        Ok(result)
    }

    /// Wires, schedules and plans these parts, on all threads. If several parts fail, the first
    /// part's error is returned.
    fn decide(
        &mut self,
        inputs: &[M::Input],
        targets: Option<&[Targets]>,
        parts: &[Range<usize>],
        step: u64,
    ) -> Result<(), TrainError> {
        let deciding = Instant::now();
        while self.passes.len() < parts.len() {
            self.passes.push(Pass::new(self.passes[0].decision.fork()));
        }
        let (model, program) = (&self.model, &*self.program);
        let dropout = (&self.dropout, step, self.accumulated);
        let wanted = self.still_wanted.as_ref();
        let mut decided: Vec<Result<(), TrainError>> = parts.iter().map(|_| Ok(())).collect();
        let pieces = parts.iter().zip(&mut self.passes[..parts.len()]).zip(&mut decided);
        let decide = |((part, pass), decided): ((&Range<usize>, &mut Pass), &mut _)| {
            let part = (part.clone(), targets);
            *decided = pass.decide((program, wanted), model, inputs, part, dropout);
        };
        match self.pool.claim() {
            Some(mut pool) if parts.len() > 1 => pool.share(pieces, |_, piece| decide(piece)),
            _ => pieces.for_each(decide),
        }
        self.times.decide += deciding.elapsed();
        decided.into_iter().collect::<Result<(), _>>()?;
        if let ([first, ..], [.., last]) = (parts, parts) {
            let nodes = self.passes[..parts.len()].iter().filter_map(|pass| pass.ends.last());
            let nodes = nodes.map(|&(_, _, nodes)| nodes).sum();
            let inputs = &inputs[first.start..last.end];
            self.nodes = Some(ExpectedNodes::of_inputs(&self.model, inputs, nodes));
        }
        Ok(())
    }

    /// Returns the first call of an input that produces a NaN or an infinity.
    fn not_finite_call(
        &mut self,
        inputs: &[M::Input],
        input: usize,
        step: u64,
    ) -> Option<Box<NotFiniteCall>> {
        let weights = training(&mut self.backend).state().ok()?.parameters;
        let mut pass = Pass::new(self.passes[0].decision.fork());
        let dropout = (&self.dropout, step, self.accumulated);
        pass.wire(None, &self.model, inputs, (input..input + 1, None), dropout).ok()?;
        pass.not_finite_call(&weights)
    }

    /// Rejects parts that together need more memory than the limit.
    fn check_memory(&mut self, parts: usize) -> Result<(), TrainError> {
        if !self.passes[0].decision.has_memory_limit() {
            return Ok(());
        }
        let training = training(&mut self.backend);
        let values = self.passes[..parts].iter().map(|pass| training.bytes_of_passes(&pass.plan));
        Ok(self.passes[0].decision.check_memory(values.sum(), &*self.backend)?)
    }

    fn run_forward(&mut self, parts: usize) -> Result<(), TrainError> {
        let running = Instant::now();
        let passes = &self.passes[..parts];
        let parts = passes.iter().enumerate().map(|(slot, pass)| Part {
            slot,
            plan: &pass.plan.forward,
            given: Given { initial: &self.initial, places: &[], host: &pass.given },
        });
        let parts: Vec<Part<'_>> = parts.collect();
        self.backend.run(&parts)?;
        passes.iter().for_each(|pass| self.tally.add(&pass.decision.tally));
        self.times.forward += running.elapsed();
        Ok(())
    }

    /// Runs parts back, and adds the gradients of parameters in the order of their inputs.
    /// `outputs` returns the gradients of a part's outputs, from which the backward pass begins.
    fn run_back<'a>(
        &'a mut self,
        parts: usize,
        outputs: impl Fn(usize, &'a Pass) -> OutputGradients<'a>,
        losses: &mut Vec<f64>,
    ) -> Result<(), TrainError> {
        let running = Instant::now();
        let (passes, training) = (self.passes[..parts].iter(), training(&mut self.backend));
        let part = |(slot, pass): (usize, &'a Pass)| BackPart {
            slot,
            plan: &pass.plan,
            outputs: outputs(slot, pass),
        };
        let parts: Vec<BackPart<'_>> = passes.enumerate().map(part).collect();
        training.run_back(&parts, losses)?;
        self.times.back += running.elapsed();
        let summing = Instant::now();
        let plans: Vec<_> = parts.iter().map(|part| (part.slot, part.plan)).collect();
        training.add_sums(&plans)?;
        self.times.sums += summing.elapsed();
        Ok(())
    }

    pub(super) fn set_still_wanted(&mut self, still_wanted: Option<StillWanted>) {
        training(&mut self.backend).set_still_wanted(still_wanted.clone());
        self.still_wanted = still_wanted;
    }

    /// Sets the gradients to zero.
    pub(super) fn clear_gradients(&mut self) {
        self.set = None;
        self.accumulated = 0;
        training(&mut self.backend).forget();
    }

    /// Clears the gradients if a mini-batch failed: a part of it may have been added.
    pub(super) fn or_clear<T>(&mut self, done: Result<T, TrainError>) -> Result<T, TrainError> {
        if done.is_err() {
            self.clear_gradients();
        }
        done
    }

    /// Returns the parameters and moments, without masks.
    pub(super) fn state(&mut self) -> Result<TrainingState, TrainError> {
        let TrainingState { parameters, mut moments } = training(&mut self.backend).state()?;
        let network = self.model.network();
        moments.truncate(network.parameters().len());
        let parameters = self.dropout.without_masks(&parameters, network);
        Ok(TrainingState { parameters, moments })
    }

    /// Replaces the parameters and moments. `state` has no masks.
    pub(super) fn set_state(&mut self, state: TrainingState) -> Result<(), TrainError> {
        let TrainingState { parameters, mut moments } = state;
        moments.resize(self.dropout.network.parameters().len(), Vec::new());
        let parameters = self.dropout.with_masks(&parameters)?;
        training(&mut self.backend).set_state(&TrainingState { parameters, moments })?;
        self.forget_old_values()
    }

    /// Forgets what was computed from old parameters, and reads the initial values again.
    pub(super) fn forget_old_values(&mut self) -> Result<(), TrainError> {
        self.forward = 0;
        self.clear_gradients();
        if !self.initial.is_empty() && !training(&mut self.backend).has_initial_values() {
            let parameters = self.state()?.parameters;
            self.initial = initial_rows(self.model.network(), &parameters);
        }
        Ok(())
    }
}
