//! The entry point: an engine divides mini-batches between its threads.

mod learn;

use std::borrow::Borrow;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use crate::decide::Decision;
use crate::output::Output;
use crate::rounds::{LIST_BYTES, Rounds};
use crate::statistics::Tally;
use crate::wiring::Admission;
use crate::workers::Workers;
use crate::{
    EngineError, EngineOptions, InputError, Report, RunError, RunOptions, Session, SessionOptions,
    Statistics,
};
use edbatch_layout::{CellStyle, Program};
use edbatch_models::Model;
use edbatch_policy::AnyPolicy;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, BackendError, Bytes, Cpu, Parameters, Rows, ThreadPool, initial_rows, span,
};

/// A model with its parameters, ready to run mini-batches.
///
/// It owns all memory that a mini-batch needs and keeps it for the next one.
pub struct Engine<M> {
    model: M,
    workers: Workers,
    /// The counts and times of all runs so far.
    tally: Tally,
    /// The results of the last mini-batch, kept for their memory.
    results: Vec<Result<Rows, InputError>>,
}

impl<M: Model> Engine<M> {
    /// Creates an engine on the CPU with the default [`EngineOptions`].
    ///
    /// # Errors
    /// If a cell or a table is too large for 32-bit addresses, if the parameters belong to another
    /// network, or if memory for the weights cannot be allocated.
    pub fn new(model: M, parameters: Parameters) -> Result<Self, EngineError> {
        Self::with_options(model, parameters, EngineOptions::new())
    }

    /// Creates an engine on the CPU.
    ///
    /// # Errors
    /// Like [`new`](Self::new), or if the options are incompatible.
    pub fn with_options(
        model: M,
        parameters: Parameters,
        mut options: EngineOptions,
    ) -> Result<Self, EngineError> {
        options.check()?;
        let fold = options.fold_tables.take().unwrap_or(0);
        let program = Program::new(model.network().clone(), CellStyle::default())?;
        let program = Arc::new(program.fold_tables(fold));
        let precision = options.precision.take().unwrap_or_default();
        let pool = options.take_pool()?;
        let cpu = Cpu::new(program.clone(), &parameters, Level::detect(), precision)?;
        let cpu = Box::new(cpu.with_pool(pool.clone()));
        Self::with_backend(model, &parameters, program, cpu, options.pool(pool))
    }

    /// Creates an engine on a backend that is loaded with `program` and `parameters`. The backend
    /// may use the [pool](EngineOptions::pool) for mini-batches that are not divided.
    ///
    /// # Errors
    /// If the parameters or the program belong to another network, if the backend was loaded with
    /// another program, or if the options are incompatible.
    pub fn with_backend(
        model: M,
        parameters: &Parameters,
        program: Arc<Program>,
        backend: Box<dyn Backend>,
        mut options: EngineOptions,
    ) -> Result<Self, EngineError> {
        options.check()?;
        if options.fold_tables.is_some() {
            return Err(EngineError::FoldedTablesOfBackend);
        }
        if options.precision.is_some() {
            return Err(EngineError::PrecisionOfBackend);
        }
        let (of_model, of_program) = (model.network(), program.network());
        if !Arc::ptr_eq(of_model, of_program) && of_model != of_program {
            return Err(EngineError::NetworkOfProgram);
        }
        if backend.program().is_some_and(|loaded| !Arc::ptr_eq(loaded, &program)) {
            return Err(EngineError::ProgramOfBackend);
        }
        let pool = options.take_pool()?;
        let parameters = parameters.for_network(program.network()).map_err(BackendError::from)?;
        let initial = initial_rows(program.network(), &parameters);
        let slots = if backend.prefers_forks() { 1 } else { pool.threads() };
        let decision = Decision::new(&mut options, backend.lifetimes(), LIST_BYTES);
        let tally = decision.tally.clone();
        let mut rounds = Rounds::new(program, backend, initial, &decision, slots);
        rounds.chain = options.chain.unwrap_or(rounds.chain);
        let workers = Workers::new(rounds, pool);
        Ok(Self { model, workers, tally, results: Vec::new() })
    }

    /// Creates an engine for another thread, which shares the weights. It has a single thread, its
    /// own memory, the same policy, and empty statistics. If there are several devices, forks use
    /// them in turn.
    #[must_use]
    pub fn fork(&self) -> Self
    where
        M: Clone,
    {
        let workers = Workers::new(self.workers.first().fork(), ThreadPool::new(1));
        let (model, tally) = (self.model.clone(), self.tally.cleared());
        Self { model, workers, tally, results: Vec::new() }
    }

    /// Creates an empty [`Session`] on the weights of this engine, with its threads, precision,
    /// policy and device. The engine may run, or be dropped, while the session is used. If there
    /// are several devices, sessions and forks use them in turn.
    ///
    /// The threads of a session share the batches of a run. If another thread is using them, the
    /// run takes its own thread alone.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn session(&self, options: SessionOptions) -> Result<Session, EngineError> {
        Ok(self.workers.session(options))
    }

    /// Sets the policy that picks batches from now on, such as a learned one.
    pub fn set_policy(&mut self, policy: AnyPolicy) {
        self.workers.set_policy(&policy);
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Returns the counts and times of all runs so far. Runs that failed are not counted.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.tally.statistics
    }

    /// Returns the batches of each kind, if [`EngineOptions::counts`] is set.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.tally.report.as_ref()
    }

    /// Returns the ranges of inputs that become the parts of a mini-batch: a single range if it is
    /// not divided. A part has at most 64 inputs on average, on one thread too, since the values of
    /// more would leave the cache before they are read. This limit does not apply if a cell
    /// multiplies by more than 4 MiB of weights, which each part reads again, nor on one thread if
    /// the caller set the policy. Values that exceed the cache ([`Model::bytes`]) are always
    /// divided. Other limits apply to a backend that [has them](Backend::division); then the parts
    /// also depend on the rounds of the last mini-batch. No bit of a result depends on the parts.
    #[must_use]
    pub fn parts(&self, inputs: &[M::Input]) -> Vec<Range<usize>> {
        self.workers.parts(&self.model, inputs)
    }

    /// Runs one mini-batch. Returns for each input the rows that it emits, in order.
    ///
    /// The results are in new memory, which the system maps page by page while they are written.
    /// If they are large, [`run_into`](Self::run_into) is faster, because it reuses memory, and so
    /// is [`stream`](Self::stream), which also keeps the mini-batch full. For a translator with
    /// 7,709 words at a mini-batch of 64, `run_into` has 1.8 to 2.6 times the speed of `run` (H =
    /// 256, 128), and `stream` 1.3 to 1.5 times; for trees and taggers all are equal within 2 %.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    pub fn run(&mut self, inputs: &[M::Input]) -> Result<Vec<Rows>, RunError> {
        let mut outputs = Vec::new();
        self.run_into(inputs, &mut outputs)?;
        Ok(outputs)
    }

    /// Like [`run`](Self::run), but reuses the memory of an earlier mini-batch's outputs.
    ///
    /// # Errors
    /// Like [`run`](Self::run); the content of `outputs` is unspecified then.
    pub fn run_into(
        &mut self,
        inputs: &[M::Input],
        outputs: &mut Vec<Rows>,
    ) -> Result<(), RunError> {
        outputs.resize_with(inputs.len(), Rows::new);
        self.results.clear();
        self.results.extend(outputs.iter_mut().map(|rows| Ok(mem::take(rows))));
        let took = self.workers.run(&self.model, inputs, &mut self.results, &RunOptions::new())?;
        for (instance, (rows, result)) in outputs.iter_mut().zip(self.results.drain(..)).enumerate()
        {
            *rows = result.map_err(|error| RunError::Input { instance, error })?;
        }
        self.count(&took);
        Ok(())
    }

    /// Like [`run`](Self::run), but an input that fails does not affect the others: their rows have
    /// the same bits as without it.
    ///
    /// ```
    /// # use edbatch::{Engine, RunOptions};
    /// # use edbatch::models::{BiLstmTagger, Model, TaggerSizes};
    /// # use edbatch::datasets::Sentence;
    /// # use edbatch::runtime::Parameters;
    /// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    /// # let (embed, hidden, mlp) = (4, 4, 4);
    /// # let sizes = TaggerSizes { vocabulary: 9, embed, hidden, layers: 1, mlp, tags: 3 };
    /// # let model = BiLstmTagger::new(sizes)?;
    /// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// # let parameters = Parameters::random(model.network(), &mut rng);
    /// # let mut engine = Engine::new(model, parameters)?;
    /// # let sentence = |words: &[u32]| {
    /// #     Sentence { words: words.to_vec(), tags: vec![None; words.len()] }
    /// # };
    /// // The vocabulary has nine words.
    /// let inputs = [sentence(&[1, 2]), sentence(&[3, 99]), sentence(&[4])];
    /// let results = engine.run_each(&inputs, &RunOptions::new())?;
    /// assert_eq!(results[0].as_ref().unwrap().len(), 2);
    /// assert!(results[1].as_ref().unwrap_err().to_string().contains("row 99 does not exist"));
    /// assert_eq!(results[2].as_ref().unwrap().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the mini-batch as a whole is too large.
    pub fn run_each(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Result<Rows, InputError>>, RunError> {
        let mut results = Vec::new();
        self.run_each_into(inputs, options, &mut results)?;
        Ok(results)
    }

    /// Like [`run_each`](Self::run_each), but reuses the memory of an earlier mini-batch's results.
    ///
    /// # Errors
    /// Like [`run_each`](Self::run_each); the content of `results` is unspecified then.
    pub fn run_each_into(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
        results: &mut Vec<Result<Rows, InputError>>,
    ) -> Result<(), RunError> {
        self.run_outputs(inputs, options, results)
    }

    /// Like [`run_each`](Self::run_each), but returns for each row only the index of its largest
    /// element: classes, tags, words. On a device, the scores are not copied to the host.
    ///
    /// An index is the [`arg_max`](edbatch_models::arg_max()) of a row as [`run`](Self::run)
    /// returns it, with all fields and all elements of a matrix. Of several equal elements, the
    /// first one counts. A NaN is never the largest element.
    ///
    /// ```
    /// # use edbatch::{Engine, RunOptions};
    /// # use edbatch::models::{BiLstmTagger, Model, TaggerSizes, arg_max};
    /// # use edbatch::datasets::Sentence;
    /// # use edbatch::runtime::Parameters;
    /// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    /// # let (embed, hidden, mlp) = (4, 4, 4);
    /// # let sizes = TaggerSizes { vocabulary: 9, embed, hidden, layers: 1, mlp, tags: 3 };
    /// # let model = BiLstmTagger::new(sizes)?;
    /// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// # let parameters = Parameters::random(model.network(), &mut rng);
    /// # let mut engine = Engine::new(model, parameters)?;
    /// # let sentence = |words: &[u32]| {
    /// #     Sentence { words: words.to_vec(), tags: vec![None; words.len()] }
    /// # };
    /// let sentences = [sentence(&[1, 2, 5]), sentence(&[4])];
    /// let tags = engine.run_each_arg_max(&sentences, &RunOptions::new())?;
    ///
    /// let scores = engine.run(&sentences)?;
    /// assert_eq!(tags[0], Ok(scores[0].iter().map(arg_max).collect::<Vec<u32>>()));
    /// assert_eq!(tags[1].as_ref().unwrap().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`run_each`](Self::run_each).
    pub fn run_each_arg_max(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Result<Vec<u32>, InputError>>, RunError> {
        let mut results = Vec::new();
        self.run_each_arg_max_into(inputs, options, &mut results)?;
        Ok(results)
    }

    /// Like [`run_each_arg_max`](Self::run_each_arg_max), but reuses the memory of an earlier
    /// mini-batch's results.
    ///
    /// # Errors
    /// Like [`run_each`](Self::run_each); the content of `results` is unspecified then.
    pub fn run_each_arg_max_into(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
        results: &mut Vec<Result<Vec<u32>, InputError>>,
    ) -> Result<(), RunError> {
        self.run_outputs(inputs, options, results)
    }

    fn run_outputs<O: Output>(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
        results: &mut Vec<Result<O, InputError>>,
    ) -> Result<(), RunError> {
        results.resize_with(inputs.len(), || Ok(O::default()));
        let took = self.workers.run(&self.model, inputs, results, options)?;
        self.count(&took);
        Ok(())
    }

    /// Runs any number of inputs, `width` of them at a time: when one ends, the next one joins the
    /// others. `done` is called with the number of each input that ended, and its rows or its
    /// error. It may take the rows. An input that fails does not affect the others.
    ///
    /// For models whose inputs end at different steps, such as decoders: the mini-batch stays full.
    /// The results have the same bits as the results of [`run`](Self::run).
    ///
    /// ```
    /// # use edbatch::Engine;
    /// use edbatch::models::{LstmNmt, Model, NmtSizes, SourceSentence, Stop};
    /// # use edbatch::runtime::Parameters;
    /// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    ///
    /// let model = LstmNmt::new(NmtSizes { source: 9, target: 9, embed: 4, hidden: 4 })?;
    /// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// # let parameters = Parameters::random(model.network(), &mut rng);
    /// let mut engine = Engine::new(model, parameters)?;
    /// let steps = [2, 9, 3, 1];
    /// let sources = steps.map(|n| SourceSentence { words: vec![4, 5], stop: Stop::After(n) });
    /// let mut ended = Vec::new();
    /// engine.stream(2, sources, |number, rows| ended.push((number, rows.unwrap().len())))?;
    /// // The third joins when the first has ended, and the fourth when the third has.
    /// assert_eq!(ended, [(0, 2), (2, 3), (3, 1), (1, 9)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a graph of the running inputs is too large.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn stream(
        &mut self,
        width: usize,
        inputs: impl IntoIterator<Item: Borrow<M::Input>>,
        mut done: impl FnMut(usize, Result<&mut Rows, InputError>),
    ) -> Result<(), RunError> {
        assert!(width > 0, "at least one input at a time");
        let _stream = span!(INFO, "stream", width = width as u64);
        let admission = Admission::new(width, &|_| true);
        let took = self.workers.first().run(0, &self.model, inputs, admission, &mut done)?;
        self.count(&took);
        Ok(())
    }

    /// Adds the counts and times of a run, and records the memory that the backends hold now.
    fn count(&mut self, took: &Tally) {
        self.tally.add(took);
        let Bytes { weights, arena, store } = self.workers.bytes();
        let Statistics { arena_bytes, weight_bytes, .. } = &mut self.tally.statistics;
        (*weight_bytes, *arena_bytes) =
            (weights as u64, (arena as u64 + store as u64).max(*arena_bytes));
    }
}
