//! The trainer: computes the loss of mini-batches and its gradients on a backend.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use edbatch_graph::{Network, ParameterId, training_network};
use edbatch_layout::Program;
use edbatch_models::{Model, Targets};
use edbatch_policy::Scheduler;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    BackPart, Backend, Bytes, Cpu, Gradient, Gradients, OutputGradients, Outputs, Parameters, Part,
    Rows, ThreadPool, Training, initial_rows,
};

use super::TrainerOptions;
use super::pass::Pass;
use crate::statistics::Tally;
use crate::workers::parts_for;
use crate::{EngineError, Report, RunError, Statistics, TrainError};

/// A model with its parameters, ready to compute gradients of mini-batches.
///
/// Gradients are batched as outputs are: the way back runs the batches of the way forward in
/// reverse order. [`accumulate`](Self::accumulate) computes a cross-entropy and its gradients.
/// [`forward`](Self::forward) and [`backward`](Self::backward) leave the loss to the caller. Both
/// add to the gradients of parameters, until [`clear_gradients`](Self::clear_gradients).
///
/// The bits of gradients do not depend on the policy, on threads, or on how inputs are divided
/// between calls of `accumulate`.
///
/// ```
/// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
/// use edbatch::Trainer;
/// use edbatch::datasets::Sentence;
/// use edbatch::models::{BiLstmTagger, Model, TaggerSizes};
/// use edbatch::runtime::Parameters;
///
/// # let (embed, hidden, mlp) = (4, 4, 4);
/// # let sizes = TaggerSizes { vocabulary: 9, embed, hidden, layers: 1, mlp, tags: 3 };
/// let model = BiLstmTagger::new(sizes)?;
/// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// let parameters = Parameters::random(model.network(), &mut rng);
/// let mut trainer = Trainer::new(model, parameters)?;
///
/// let sentence = Sentence { words: vec![1, 2], tags: vec![None; 2] };
/// // The second word has no target.
/// let loss = trainer.accumulate(&[sentence], &[vec![Some(2), None]], 1.0)?;
/// assert_eq!(loss.terms, 1);
/// let gradients = trainer.gradients()?;
/// assert!(gradients.squared_norm() > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer<M> {
    model: M,
    parameters: Parameters,
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    initial: Rows,
    pool: ThreadPool,
    memory_limit: Option<u64>,
    counts: bool,
    given_gradients: bool,
    scheduler: Scheduler,
    passes: Vec<Mutex<Pass>>,
    /// The number of passes whose values are in the backend, after [`forward`](Self::forward).
    forward: usize,
    /// Gradients that the caller has set.
    set: Option<Gradients>,
    tally: Tally,
    times: Times,
}

/// The loss of a mini-batch.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Loss {
    /// The sum of the cross-entropies of all rows with a target, times the weight.
    pub loss: f64,
    /// The number of rows with a target.
    pub terms: u64,
}

/// The time of a trainer's work so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Building graphs, scheduling and planning.
    pub decide: Duration,
    /// Running batches forward.
    pub forward: Duration,
    /// Running batches back.
    pub back: Duration,
    /// Summing the gradients of parameters.
    pub sums: Duration,
}

impl<M: Model> Trainer<M> {
    /// Creates a trainer on the CPU with the default [`TrainerOptions`].
    ///
    /// # Errors
    /// If a cell, its adjoint or a table is too large, if the parameters belong to another network,
    /// or if memory cannot be allocated.
    pub fn new(model: M, parameters: Parameters) -> Result<Self, TrainError> {
        Self::with_options(model, parameters, TrainerOptions::new())
    }

    /// Creates a trainer on the CPU.
    ///
    /// # Errors
    /// Like [`new`](Self::new), or if the options are incompatible.
    pub fn with_options(
        model: M,
        parameters: Parameters,
        mut options: TrainerOptions,
    ) -> Result<Self, TrainError> {
        options.engine.check()?;
        let program = Self::program(model.network(), &options)?;
        let pool = options.engine.take_pool()?;
        let cpu = Cpu::new(program.clone(), &parameters, Level::detect());
        let cpu = cpu.map_err(EngineError::from)?;
        let cpu = Box::new(cpu.with_pool(pool.clone()));
        Self::with_backend(model, parameters, program, cpu, options.pool(pool))
    }

    /// Derives the adjoints of a network's cells and compiles all cells, for
    /// [`with_backend`](Self::with_backend).
    ///
    /// # Errors
    /// If a cell, its adjoint or a table is too large.
    pub fn program(
        network: &Network,
        options: &TrainerOptions,
    ) -> Result<Arc<Program>, TrainError> {
        let is_trained = |id: ParameterId| {
            let name = &network.parameter(id).name;
            !options.frozen.iter().any(|prefix| name.starts_with(prefix.as_str()))
        };
        let training = training_network(network, is_trained, |_| options.given_gradients)?;
        let program = Program::for_training(Arc::new(training)).map_err(EngineError::from)?;
        Ok(Arc::new(program))
    }

    /// Creates a trainer on a backend that is loaded with `parameters` and with `program`, which
    /// [`program`](Self::program) returned for the same options. The backend may use the
    /// [pool](TrainerOptions::pool).
    ///
    /// # Errors
    /// If the backend computes no gradients, if the parameters or the program belong to another
    /// network, or if the options are incompatible.
    pub fn with_backend(
        model: M,
        parameters: Parameters,
        program: Arc<Program>,
        mut backend: Box<dyn Backend>,
        mut options: TrainerOptions,
    ) -> Result<Self, TrainError> {
        options.engine.check()?;
        let training = program.training().ok_or(TrainError::Backend)?;
        let of_model = model.network();
        let same = of_model.parameters() == training.network.parameters()
            && of_model.cells().len() == training.adjoints.len();
        if !same {
            return Err(EngineError::NetworkOfProgram.into());
        }
        if backend.program().is_some_and(|loaded| !Arc::ptr_eq(loaded, &program)) {
            return Err(EngineError::ProgramOfBackend.into());
        }
        if backend.training().is_none() {
            return Err(TrainError::Backend);
        }
        let parameters = parameters.for_network(of_model).map_err(TrainError::Parameters)?;
        let initial = initial_rows(of_model, &parameters);
        let pool = options.engine.take_pool()?;
        let scheduler = options.engine.policy.take().map(Scheduler::by).unwrap_or_default();
        let (memory_limit, counts) = (options.engine.memory_limit, options.engine.counts);
        Ok(Self {
            model,
            parameters,
            program,
            backend,
            initial,
            pool,
            memory_limit,
            counts,
            given_gradients: options.given_gradients,
            scheduler,
            passes: Vec::new(),
            forward: 0,
            set: None,
            tally: Tally::new(counts),
            times: Times::default(),
        })
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Returns the parameters. The clone shares their memory.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        self.parameters.clone()
    }

    /// Returns the counts and times of the ways forward of all mini-batches so far.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.tally.statistics
    }

    /// Returns the batches of each kind, if [`TrainerOptions::counts`] is set.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.tally.report.as_ref()
    }

    /// Returns the memory that the backend holds.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.backend.bytes()
    }

    /// Returns the time of all work so far.
    #[must_use]
    pub fn times(&self) -> Times {
        self.times
    }

    /// Runs a mini-batch, and keeps its values for [`backward`](Self::backward). Returns for each
    /// input the rows that it emits, in order. A second `forward` forgets the first.
    ///
    /// # Errors
    /// If an input does not fit the model or awaits a computed value, or if the mini-batch is too
    /// large. The trainer stays usable.
    pub fn forward(&mut self, inputs: &[M::Input]) -> Result<Vec<Rows>, TrainError> {
        self.forward = 0;
        let parts = self.parts(inputs);
        self.decide(inputs, None, &parts)?;
        self.check_memory(parts.len())?;
        self.run_forward(parts.len())?;
        self.forward = parts.len();
        let mut all = Vec::with_capacity(inputs.len());
        for slot in 0..parts.len() {
            let pass = pass(&mut self.passes[slot]);
            let outputs = self.backend.outputs(slot, &pass.plan.forward);
            let mut wanted = 0;
            for &(end, _) in &pass.ends {
                all.push(rows(&outputs, wanted..end));
                wanted = end;
            }
        }
        Ok(all)
    }

    /// Adds the gradients of a loss to the gradients of parameters, given its gradients by the rows
    /// that the last [`forward`](Self::forward) returned. The loss does not depend on a row whose
    /// gradient is empty.
    ///
    /// Returns for each input the gradients of its given rows, in the order in which it gave them,
    /// if [`TrainerOptions::given_gradients`] is set; else nothing.
    ///
    /// # Errors
    /// If there was no `forward`, if the gradients do not have the shape of its rows, or if memory
    /// cannot be allocated. The gradients of parameters are cleared then.
    pub fn backward(&mut self, gradients: &[Rows]) -> Result<Vec<Rows>, TrainError> {
        let parts = std::mem::take(&mut self.forward);
        let done = self.try_backward(parts, gradients);
        self.or_clear(done)
    }

    fn try_backward(&mut self, parts: usize, gradients: &[Rows]) -> Result<Vec<Rows>, TrainError> {
        if parts == 0 && !gradients.is_empty() {
            return Err(TrainError::NothingForward);
        }
        let mut flat: Vec<Vec<f32>> = Vec::new();
        let mut of_inputs = gradients.iter();
        for slot in &mut self.passes[..parts] {
            let pass = pass(slot);
            let (mut elements, mut wanted) = (Vec::new(), 0);
            for &(end, _) in &pass.ends {
                let given = of_inputs.next().ok_or(TrainError::GradientsOfInputs)?;
                let emitted = &pass.plan.forward.wanted[wanted..end];
                if emitted.len() != given.len() {
                    return Err(TrainError::GradientsOfInputs);
                }
                for (row, (emitted, _)) in given.iter().zip(emitted) {
                    let widths = &self.program.record(emitted.record).widths;
                    let width = widths.iter().sum::<u32>() as usize;
                    if !row.is_empty() && row.len() != width {
                        return Err(TrainError::GradientsOfInputs);
                    }
                    elements.extend_from_slice(row);
                    elements.resize(elements.len() + width - row.len(), 0.0);
                }
                wanted = end;
            }
            flat.push(elements);
        }
        if of_inputs.next().is_some() {
            return Err(TrainError::GradientsOfInputs);
        }
        self.run_back(parts, &OutputsOf::Rows(&flat), &mut Vec::new())?;
        if !self.given_gradients {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for slot in 0..parts {
            let pass = pass(&mut self.passes[slot]);
            let training = training(&mut *self.backend);
            let given = training.given_gradients(slot, &pass.plan);
            let (mut rows, mut from) = (given.iter(), 0);
            for &(_, end) in &pass.ends {
                let mut of_input = Rows::new();
                while from < end {
                    let row = rows.next().expect("a row for each given value");
                    of_input.push(row);
                    from += row.len();
                }
                all.push(of_input);
            }
        }
        Ok(all)
    }

    /// Adds the gradients of a cross-entropy to the gradients of parameters: `weight` times the sum
    /// over all emitted rows that have a target. Each input has a target or `None` for each row
    /// that it emits.
    ///
    /// For the mean over a mini-batch of N inputs, the weight is 1 / N, also if they are divided
    /// between several calls.
    ///
    /// # Errors
    /// If an input or its targets do not fit the model, if it awaits a computed value, if the loss
    /// is not finite, or if the mini-batch is too large. All gradients are cleared then, and the
    /// trainer stays usable.
    pub fn accumulate(
        &mut self,
        inputs: &[M::Input],
        targets: &[Targets],
        weight: f32,
    ) -> Result<Loss, TrainError> {
        self.forward = 0;
        let done = self.try_accumulate(inputs, targets, weight);
        self.or_clear(done)
    }

    fn try_accumulate(
        &mut self,
        inputs: &[M::Input],
        targets: &[Targets],
        weight: f32,
    ) -> Result<Loss, TrainError> {
        if inputs.len() != targets.len() {
            let (inputs, targets) = (inputs.len(), targets.len());
            return Err(TrainError::TargetsOfInputs { inputs, targets });
        }
        self.set = None;
        let mut parts = VecDeque::from(self.parts(inputs));
        let (mut loss, mut losses) = (Loss::default(), Vec::new());
        while !parts.is_empty() {
            let count = self.pool.threads().min(parts.len());
            let group: Vec<Range<usize>> = parts.drain(..count).collect();
            self.decide(inputs, Some(targets), &group)?;
            if let Err(error) = self.check_memory(count) {
                // A limit allows a single thread, so the group is one part.
                let Range { start, end } = group[0];
                if end - start < 2 {
                    return Err(error);
                }
                let middle = start + (end - start) / 2;
                parts.push_front(middle..end);
                parts.push_front(start..middle);
                continue;
            }
            self.run_forward(count)?;
            losses.clear();
            self.run_back(count, &OutputsOf::CrossEntropy { weight }, &mut losses)?;
            let mut first = 0;
            for (slot, part) in group.into_iter().enumerate() {
                let pass = pass(&mut self.passes[slot]);
                let mut from = 0;
                for (input, &(end, _)) in part.zip(&pass.ends) {
                    let of_input = &losses[first + from..first + end];
                    let sum: f64 = of_input.iter().sum();
                    if !sum.is_finite() {
                        return Err(TrainError::NotFiniteLoss { input });
                    }
                    loss.loss += sum;
                    from = end;
                }
                loss.terms += pass.plan.gradient_of.iter().flatten().count() as u64;
                first += from;
            }
        }
        Ok(loss)
    }

    /// Returns the gradients of parameters: the sums over all mini-batches since
    /// [`clear_gradients`](Self::clear_gradients), or what the caller has
    /// [set](Self::set_gradients).
    ///
    /// # Errors
    /// If a gradient is not finite, or memory cannot be allocated.
    pub fn gradients(&mut self) -> Result<Gradients, TrainError> {
        self.squared_norm()?;
        let gradients = match &self.set {
            Some(set) => set.clone(),
            None => training(&mut *self.backend).gradients(),
        };
        let parameters = self.model.network().parameters().iter();
        for (parameter, gradient) in parameters.zip(&gradients.parameters) {
            if !gradient.elements().iter().all(|element| element.is_finite()) {
                return Err(TrainError::NotFiniteGradient { parameter: parameter.name.clone() });
            }
        }
        Ok(gradients)
    }

    /// Returns the sum of the squares of all [gradients](Self::gradients), without copying them.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn squared_norm(&mut self) -> Result<f64, TrainError> {
        if let Some(set) = &self.set {
            return Ok(set.squared_norm());
        }
        let summing = Instant::now();
        let norm = training(&mut *self.backend).finish().map_err(RunError::from)?;
        self.times.sums += summing.elapsed();
        Ok(norm)
    }

    /// Replaces the gradients of parameters, for example by their sums over several processes.
    ///
    /// # Errors
    /// If they do not have the shapes of the parameters.
    pub fn set_gradients(&mut self, gradients: Gradients) -> Result<(), TrainError> {
        let parameters = self.model.network().parameters();
        let fits = |(index, gradient): (usize, &Gradient)| {
            let Some(parameter) = parameters.get(index) else { return false };
            let (rows, elements) = (parameter.dims[0], parameter.elements());
            match gradient {
                Gradient::None => true,
                Gradient::Whole(values) => values.len() == elements,
                Gradient::Rows { rows: named, elements: values } => {
                    values.len() * rows == named.len() * elements
                        && named.iter().all(|&row| (row as usize) < rows)
                }
            }
        };
        let mut all = gradients.parameters.iter().enumerate();
        if gradients.parameters.len() != parameters.len() || !all.all(fits) {
            return Err(TrainError::GradientsOfParameters);
        }
        self.set = Some(gradients);
        Ok(())
    }

    /// Sets the gradients of parameters to zero, for the next mini-batch.
    pub fn clear_gradients(&mut self) {
        self.set = None;
        training(&mut *self.backend).forget();
    }

    /// Clears the gradients if a mini-batch failed: a part of it may have been added.
    fn or_clear<T>(&mut self, done: Result<T, TrainError>) -> Result<T, TrainError> {
        if done.is_err() {
            self.clear_gradients();
        }
        done
    }

    fn parts(&self, inputs: &[M::Input]) -> Vec<Range<usize>> {
        parts_for(&self.model, inputs, self.pool.threads())
    }

    /// Wires, schedules and plans these parts, on all threads.
    fn decide(
        &mut self,
        inputs: &[M::Input],
        targets: Option<&[Targets]>,
        parts: &[Range<usize>],
    ) -> Result<(), TrainError> {
        let deciding = Instant::now();
        while self.passes.len() < parts.len() {
            self.passes.push(Mutex::new(Pass::new(self.scheduler.fork(), self.counts)));
        }
        let (model, program, passes) = (&self.model, &*self.program, &self.passes);
        let failed = Mutex::new(None);
        let decide = |_: usize, slot: usize| {
            let mut pass = passes[slot].lock().unwrap_or_else(PoisonError::into_inner);
            let decided = pass.decide(program, model, inputs, (parts[slot].clone(), targets));
            let Err(error) = decided else { return };
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            // If several parts fail, the first part's error is returned.
            if failed.as_ref().is_none_or(|&(other, _)| slot < other) {
                *failed = Some((slot, error));
            }
        };
        match self.pool.claim() {
            Some(mut pool) if parts.len() > 1 => pool.share(0..parts.len(), decide),
            _ => (0..parts.len()).for_each(|slot| decide(0, slot)),
        }
        self.times.decide += deciding.elapsed();
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Rejects parts that need more memory than the limit.
    fn check_memory(&mut self, parts: usize) -> Result<(), TrainError> {
        let Some(limit) = self.memory_limit else { return Ok(()) };
        let weights = self.backend.bytes().weights as u64;
        let passes = self.passes[..parts].iter_mut().map(pass);
        let values = passes.map(|pass| 4 * pass.plan.forward.arena as u64).sum::<u64>();
        match values + weights > limit {
            true => Err(RunError::Memory { values, weights, limit }.into()),
            false => Ok(()),
        }
    }

    fn run_forward(&mut self, parts: usize) -> Result<(), TrainError> {
        let running = Instant::now();
        let passes: Vec<&Pass> = self.passes[..parts].iter_mut().map(|slot| &*pass(slot)).collect();
        let parts = passes.iter().enumerate().map(|(slot, pass)| Part {
            slot,
            plan: &pass.plan.forward,
            given: pass.given(&self.initial),
        });
        let parts: Vec<Part<'_>> = parts.collect();
        self.backend.run(&parts).map_err(RunError::from)?;
        passes.iter().for_each(|pass| self.tally.add(&pass.tally));
        self.times.forward += running.elapsed();
        Ok(())
    }

    /// Runs parts back, and adds the gradients of parameters in the order of their inputs.
    fn run_back(
        &mut self,
        parts: usize,
        of: &OutputsOf<'_>,
        losses: &mut Vec<f64>,
    ) -> Result<(), TrainError> {
        let running = Instant::now();
        let passes: Vec<&Pass> = self.passes[..parts].iter_mut().map(|slot| &*pass(slot)).collect();
        let passes = || passes.iter().enumerate();
        let back: Vec<BackPart<'_>> = passes()
            .map(|(slot, pass)| BackPart {
                slot,
                plan: &pass.plan,
                outputs: match of {
                    OutputsOf::Rows(rows) => OutputGradients::Rows(&rows[slot]),
                    OutputsOf::CrossEntropy { weight } => {
                        OutputGradients::CrossEntropy { targets: &pass.targets, weight: *weight }
                    }
                },
            })
            .collect();
        let training = training(&mut *self.backend);
        training.run_back(&back, losses).map_err(RunError::from)?;
        self.times.back += running.elapsed();
        let summing = Instant::now();
        let plans: Vec<_> = passes().map(|(slot, pass)| (slot, &pass.plan)).collect();
        training.add_sums(&plans).map_err(RunError::from)?;
        self.times.sums += summing.elapsed();
        Ok(())
    }
}

/// The gradients of outputs, from which the way back begins.
enum OutputsOf<'a> {
    /// For each part, the elements of the gradients of all emitted rows.
    Rows(&'a [Vec<f32>]),
    /// The loss is a weighted sum of cross-entropies.
    CrossEntropy { weight: f32 },
}

/// Returns a pass, even after a panic: each mini-batch decides it again.
fn pass(slot: &mut Mutex<Pass>) -> &mut Pass {
    slot.get_mut().unwrap_or_else(PoisonError::into_inner)
}

fn training(backend: &mut dyn Backend) -> &mut dyn Training {
    backend.training().expect("checked when the trainer was built")
}

/// Returns the rows of some wanted values.
fn rows(outputs: &Outputs<'_>, wanted: Range<usize>) -> Rows {
    let mut rows = Rows::new();
    for value in wanted {
        rows.push_with(|row| outputs.fields(value).for_each(|field| row.extend_from_slice(field)));
    }
    rows
}
