//! The trainer: computes the loss of mini-batches and its gradients on a backend, and updates the
//! parameters.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use edbatch_graph::{Network, ParameterId, training_network};
use edbatch_layout::Program;
use edbatch_models::{Model, Targets};
use edbatch_policy::Scheduler;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    BackPart, Backend, Bytes, Cpu, Gradient, Gradients, OutputGradients, Outputs, Parameters, Part,
    Rows, ThreadPool, Training, TrainingState, Update, initial_rows,
};

use super::dropout::Dropout;
use super::optimizer::{Clip, Epochs};
use super::pass::Pass;
use super::{Optimizer, Rate, TrainerOptions};
use crate::statistics::Tally;
use crate::workers::Division;
use crate::{EngineError, Report, RunError, Statistics, TrainError};

/// A model with its parameters, which it trains on mini-batches.
///
/// [`train`](Self::train) is a step of training: it [accumulates](Self::accumulate) gradients and
/// [updates](Self::update) the parameters. Gradients are batched as outputs are: the way back runs
/// the batches of the way forward in reverse order. [`accumulate`](Self::accumulate) computes a
/// cross-entropy and its gradients. [`forward`](Self::forward) and [`backward`](Self::backward)
/// leave the loss to the caller. Both add to the gradients of parameters, until
/// [`update`](Self::update) or [`clear_gradients`](Self::clear_gradients).
///
/// The bits of gradients and of updated parameters do not depend on the policy, on threads, or on
/// how inputs are divided between calls of `accumulate`.
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
/// let (inputs, targets) = ([sentence], [vec![Some(2), None]]);
/// let first = trainer.train(&inputs, &targets)?;
/// let second = trainer.train(&inputs, &targets)?;
/// assert!(first.terms == 1 && second.loss < first.loss);
///
/// trainer.accumulate(&inputs, &targets, 1.0)?;
/// assert!(trainer.gradients()?.squared_norm() > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer<M> {
    model: M,
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    /// The backend's [`largest_cell`](Backend::largest_cell).
    largest_cell: Option<usize>,
    initial: Rows,
    pool: ThreadPool,
    memory_limit: Option<u64>,
    counts: bool,
    given_gradients: bool,
    scheduler: Scheduler,
    dropout: Dropout,
    /// The number of inputs whose gradients were accumulated since they were cleared.
    accumulated: u64,
    passes: Vec<Mutex<Pass>>,
    /// The number of passes whose values are in the backend, after [`forward`](Self::forward).
    forward: usize,
    /// Gradients that the caller has set.
    set: Option<Gradients>,
    optimizer: Optimizer,
    rate: Rate,
    warm_up: u64,
    clip: Option<Clip>,
    /// By parameter: the factor of its learning rate, and its decay.
    factors: Vec<f64>,
    decays: Vec<f64>,
    /// By parameter: the learning rate of the last update.
    rates: Vec<f64>,
    /// The number of updates so far.
    steps: u64,
    epochs: Epochs,
    tally: Tally,
    times: Times,
}

/// Separates a state's text from the caller's note.
const NOTE: &str = "\nnote=\n";

/// A step of training.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrainReport {
    /// The sum of the cross-entropies of all rows with a target, divided by the number of inputs,
    /// before the update.
    pub loss: f64,
    /// The number of rows with a target.
    pub terms: u64,
    /// The norm of the gradients of all parameters, before clipping.
    pub gradient_norm: f64,
    /// The time of the step.
    pub times: Times,
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
    /// Updating and packing the parameters.
    pub update: Duration,
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
        options.check(model.network())?;
        let program = Self::program(model.network(), &options)?;
        let pool = options.engine.take_pool()?;
        let parameters = parameters.for_network(model.network()).map_err(TrainError::Parameters)?;
        let dropout = Dropout::new(model.network(), options.seed);
        let with_masks = dropout.with_masks(&parameters).map_err(TrainError::Parameters)?;
        let cpu = Cpu::new(program.clone(), &with_masks, Level::detect());
        let cpu = cpu.map_err(EngineError::from)?;
        let cpu = Box::new(cpu.with_pool(pool.clone()));
        Self::with_dropout(model, parameters, program, cpu, options.pool(pool), dropout)
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
        let masked = network.masked().network;
        let own = network.parameters().len();
        let is_trained = |id: ParameterId| {
            (id.0 as usize) < own && !options.group_of(&network.parameter(id).name).frozen
        };
        let training = training_network(&masked, is_trained, |_| options.given_gradients)?;
        let program = Program::for_training(Arc::new(training)).map_err(EngineError::from)?;
        Ok(Arc::new(program))
    }

    /// Creates a trainer on a backend that is loaded with `parameters` and with `program`, which
    /// [`program`](Self::program) returned for the same options. The backend may use the
    /// [pool](TrainerOptions::pool). If the model has dropout, it is loaded with
    /// [`masked_parameters`](Self::masked_parameters).
    ///
    /// # Errors
    /// If the backend computes no gradients, if the parameters or the program belong to another
    /// network, or if the options are incompatible.
    pub fn with_backend(
        model: M,
        parameters: Parameters,
        program: Arc<Program>,
        backend: Box<dyn Backend>,
        options: TrainerOptions,
    ) -> Result<Self, TrainError> {
        let dropout = Dropout::new(model.network(), options.seed);
        Self::with_dropout(model, parameters, program, backend, options, dropout)
    }

    /// Returns the parameters of a model with the masks of its dropout, which depend on the
    /// [seed](TrainerOptions::seed).
    ///
    /// # Errors
    /// If the parameters belong to another network.
    pub fn masked_parameters(
        network: &Network,
        parameters: &Parameters,
        options: &TrainerOptions,
    ) -> Result<Parameters, TrainError> {
        let parameters = parameters.for_network(network).map_err(TrainError::Parameters)?;
        let dropout = Dropout::new(network, options.seed);
        dropout.with_masks(&parameters).map_err(TrainError::Parameters)
    }

    fn with_dropout(
        model: M,
        parameters: Parameters,
        program: Arc<Program>,
        mut backend: Box<dyn Backend>,
        mut options: TrainerOptions,
        dropout: Dropout,
    ) -> Result<Self, TrainError> {
        options.check(model.network())?;
        let training = program.training().ok_or(TrainError::Backend)?;
        let of_model = model.network();
        let same = dropout.network.parameters() == training.network.parameters()
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
        let largest_cell = backend.largest_cell();
        let pool = options.engine.take_pool()?;
        let scheduler = options.engine.policy.take().map(Scheduler::by).unwrap_or_default();
        let (memory_limit, counts) = (options.engine.memory_limit, options.engine.counts);
        let groups = of_model.parameters().iter().map(|it| options.group_of(&it.name));
        let decay = options.optimizer.decay;
        let (mut factors, mut decays): (Vec<_>, Vec<_>) =
            groups.map(|group| (group.factor, group.decay.unwrap_or(decay))).unzip();
        // Masks are not trained.
        factors.resize(dropout.network.parameters().len(), 0.0);
        decays.resize(dropout.network.parameters().len(), 0.0);
        Ok(Self {
            model,
            program,
            backend,
            largest_cell,
            initial,
            pool,
            memory_limit,
            counts,
            given_gradients: options.given_gradients,
            scheduler,
            dropout,
            accumulated: 0,
            passes: Vec::new(),
            forward: 0,
            set: None,
            optimizer: options.optimizer,
            rate: options.rate,
            warm_up: options.warm_up,
            clip: options.clip,
            factors,
            decays,
            rates: Vec::new(),
            steps: 0,
            epochs: Epochs::NONE,
            tally: Tally::new(counts),
            times: Times::default(),
        })
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Returns the parameters. The next update copies them if they still exist.
    #[must_use]
    pub fn parameters(&mut self) -> Parameters {
        self.training_state().parameters
    }

    /// Returns the state without masks.
    fn training_state(&mut self) -> TrainingState {
        let TrainingState { parameters, mut moments } = training(&mut *self.backend).state();
        let network = self.model.network();
        moments.truncate(network.parameters().len());
        let parameters = self.dropout.without_masks(&parameters, network);
        TrainingState { parameters, moments }
    }

    /// Replaces the backend's state by one without masks.
    fn set_training_state(&mut self, state: TrainingState) -> Result<(), TrainError> {
        let TrainingState { parameters, mut moments } = state;
        moments.resize(self.dropout.network.parameters().len(), Vec::new());
        let parameters = self.dropout.with_masks(&parameters).map_err(TrainError::Parameters)?;
        let state = TrainingState { parameters, moments };
        training(&mut *self.backend).set_state(&state).map_err(RunError::from)?;
        self.forget_old_values();
        Ok(())
    }

    /// Replaces the parameters. Moments and the number of updates stay.
    ///
    /// # Errors
    /// If they belong to another network. Then nothing has changed.
    pub fn set_parameters(&mut self, parameters: &Parameters) -> Result<(), TrainError> {
        let parameters = parameters.for_network(self.model.network());
        let parameters = parameters.map_err(TrainError::Parameters)?;
        let state = TrainingState { parameters, ..self.training_state() };
        self.set_training_state(state)
    }

    /// Returns what later steps depend on, as the bytes of a safetensors file: the parameters, the
    /// moments of the optimizer, the number of updates, and the learning rate's epochs. Gradients
    /// are not part of it.
    ///
    /// # Errors
    /// If serialization fails.
    pub fn state(&mut self) -> Result<Vec<u8>, TrainError> {
        self.state_with_note("")
    }

    /// Returns the [`state`](Self::state) with any text of the caller, such as the position in an
    /// epoch, for [`note_of`](Self::note_of).
    ///
    /// # Errors
    /// If serialization fails.
    pub fn state_with_note(&mut self, note: &str) -> Result<Vec<u8>, TrainError> {
        let Epochs { ended, best, bad, factor } = self.epochs;
        let (rule, updates) = (self.rule(), self.steps);
        let text = format!(
            "optimizer={rule}\nupdates={updates}\nepochs={ended}\nbest={best:?}\nbad_epochs={bad}\n\
             plateau={factor:?}{NOTE}{note}"
        );
        let state = self.training_state();
        let (network, rule) = (self.model.network(), &self.optimizer.rule);
        state.to_safetensors(network, rule, text).map_err(TrainError::Parameters)
    }

    /// Returns the text that was passed to [`state_with_note`](Self::state_with_note).
    ///
    /// # Errors
    /// If the bytes are not a state.
    pub fn note_of(state: &[u8]) -> Result<String, TrainError> {
        let text = TrainingState::text(state).map_err(TrainError::Parameters)?;
        let note = text.split_once(NOTE).map(|(_, note)| note.to_string());
        note.ok_or_else(|| TrainError::State { why: "it has no note".into() })
    }

    /// Continues from a state that [`state`](Self::state) returned, of a trainer with the same
    /// model and rule. Rates, groups and clipping are those of this trainer's options.
    ///
    /// # Errors
    /// If the bytes are not such a state. Then nothing has changed.
    pub fn set_state(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let text = TrainingState::text(bytes).map_err(TrainError::Parameters)?;
        let of = |key: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once('='));
            let found = pairs.find(|&(name, _)| name == key).map(|(_, value)| value);
            found.ok_or_else(|| TrainError::State { why: format!("it does not say `{key}`") })
        };
        fn number<T: FromStr>(key: &str, text: &str) -> Result<T, TrainError> {
            let why = || format!("`{key}`: expected a number, got `{text}`");
            text.parse().map_err(|_| TrainError::State { why: why() })
        }
        let (expected, got) = (self.rule(), of("optimizer")?);
        if got != expected {
            let why = format!("its optimizer is {got}, the trainer's is {expected}");
            return Err(TrainError::State { why });
        }
        // 32 bits, so that no count overflows.
        let count = |key: &str| Ok::<_, TrainError>(u64::from(number::<u32>(key, of(key)?)?));
        let steps = count("updates")?;
        let (ended, bad) = (count("epochs")?, count("bad_epochs")?);
        let (best, factor) = (number("best", of("best")?)?, number("plateau", of("plateau")?)?);
        if !(0.0..=1.0).contains(&factor) {
            let why = format!("`plateau`: expected a number from 0 to 1, got {factor}");
            return Err(TrainError::State { why });
        }
        let epochs = Epochs { ended, best, bad, factor };
        let (network, rule) = (self.model.network(), &self.optimizer.rule);
        let state = TrainingState::from_safetensors(network, rule, bytes);
        let state = state.map_err(TrainError::Parameters)?;
        self.set_training_state(state)?;
        (self.steps, self.epochs) = (steps, epochs);
        Ok(())
    }

    /// Returns the rule as text, with its options.
    fn rule(&self) -> String {
        format!("{:?}", self.optimizer.rule)
    }

    /// Forgets what was computed from old parameters, and reads the initial values again.
    fn forget_old_values(&mut self) {
        self.forward = 0;
        self.clear_gradients();
        if !self.initial.is_empty() {
            let parameters = self.parameters();
            self.initial = initial_rows(self.model.network(), &parameters);
        }
    }

    /// Returns the number of updates so far.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.steps
    }

    /// Returns the learning rate of the next update, for parameters without a group.
    #[must_use]
    pub fn learning_rate(&self) -> f64 {
        let step = self.steps + 1;
        let warm_up = if step < self.warm_up { step as f64 / self.warm_up as f64 } else { 1.0 };
        self.optimizer.rate * self.epochs.factor(self.rate) * warm_up
    }

    /// Ends an epoch, so that the learning rate follows its [`Rate`]. Only [`Rate::Plateau`] reads
    /// the loss, or any other number that falls as the model gets better.
    pub fn end_epoch(&mut self, loss: f64) {
        self.epochs.end_epoch(self.rate, loss);
    }

    /// Computes the mean loss of a mini-batch and its gradients, and updates the parameters:
    /// [`accumulate`](Self::accumulate) with a weight of 1 ÷ inputs, then
    /// [`update`](Self::update).
    ///
    /// # Errors
    /// Those of both. Then no parameter, no moment and no number of updates has changed.
    pub fn train(
        &mut self,
        inputs: &[M::Input],
        targets: &[Targets],
    ) -> Result<TrainReport, TrainError> {
        let before = self.times;
        let weight = 1.0 / inputs.len().max(1) as f32;
        let Loss { loss, terms } = self.accumulate(inputs, targets, weight)?;
        let gradient_norm = self.update()?;
        let times = Times {
            decide: self.times.decide - before.decide,
            forward: self.times.forward - before.forward,
            back: self.times.back - before.back,
            sums: self.times.sums - before.sums,
            update: self.times.update - before.update,
        };
        Ok(TrainReport { loss, terms, gradient_norm, times })
    }

    /// Updates the parameters by their [gradients](Self::gradients), and clears these. Returns the
    /// norm of the gradients of all parameters, before clipping.
    ///
    /// # Errors
    /// If a gradient is not finite, or memory for moments cannot be allocated. Then the gradients
    /// are cleared, and no parameter, no moment and no number of updates has changed.
    pub fn update(&mut self) -> Result<f64, TrainError> {
        let done = self.try_update();
        self.or_clear(done)
    }

    fn try_update(&mut self) -> Result<f64, TrainError> {
        let norm = self.squared_norm()?.sqrt();
        if !norm.is_finite() {
            self.gradients()?;
        }
        let updating = Instant::now();
        let rate = self.learning_rate();
        self.rates.clear();
        self.rates.extend(self.factors.iter().map(|factor| factor * rate));
        let (scale, clip) = Clip::scale_and_limit(self.clip, norm);
        let update = Update {
            rule: self.optimizer.rule,
            step: self.steps + 1,
            rates: &self.rates,
            decays: &self.decays,
            scale,
            clip,
            gradients: self.set.as_ref(),
        };
        training(&mut *self.backend).update(&update).map_err(RunError::from)?;
        self.steps += 1;
        self.forget_old_values();
        self.times.update += updating.elapsed();
        Ok(norm)
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
        self.accumulated += gradients.len() as u64;
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
        self.accumulated += inputs.len() as u64;
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
        let mut gradients = match &self.set {
            Some(set) => set.clone(),
            None => training(&mut *self.backend).gradients(),
        };
        gradients.parameters.truncate(self.model.network().parameters().len());
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
    /// If they do not have the shapes of the parameters, or name a row twice.
    pub fn set_gradients(&mut self, mut gradients: Gradients) -> Result<(), TrainError> {
        let parameters = self.model.network().parameters();
        let fits = |(index, gradient): (usize, &Gradient)| {
            let Some(parameter) = parameters.get(index) else { return false };
            let (rows, elements) = (parameter.dims[0], parameter.elements());
            match gradient {
                Gradient::None => true,
                Gradient::Whole(values) => values.len() == elements,
                Gradient::Rows { rows: named, elements: values } => {
                    let mut distinct = HashSet::new();
                    values.len() * rows == named.len() * elements
                        && named.iter().all(|&row| (row as usize) < rows && distinct.insert(row))
                }
            }
        };
        let mut all = gradients.parameters.iter().enumerate();
        if gradients.parameters.len() != parameters.len() || !all.all(fits) {
            return Err(TrainError::GradientsOfParameters);
        }
        // Masks have no gradients.
        let all = self.dropout.network.parameters().len();
        gradients.parameters.resize(all, Gradient::None);
        self.set = Some(gradients);
        Ok(())
    }

    /// Sets the gradients of parameters to zero, for the next mini-batch.
    pub fn clear_gradients(&mut self) {
        self.set = None;
        self.accumulated = 0;
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
        let (largest_cell, by_default) = (self.largest_cell, self.scheduler.is_default());
        Division::new(self.pool.threads(), largest_cell, by_default).parts(&self.model, inputs)
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
        let dropout = (&self.dropout, self.steps, self.accumulated);
        let failed = Mutex::new(None);
        let decide = |_: usize, slot: usize| {
            let mut pass = passes[slot].lock().unwrap_or_else(PoisonError::into_inner);
            let part = (parts[slot].clone(), targets);
            let decided = pass.decide(program, model, inputs, part, dropout);
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
