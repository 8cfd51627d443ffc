//! From inputs to outputs: an engine divides mini-batches between its threads, whose sessions do
//! the rest.

mod arg_max;

use std::borrow::Borrow;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::{Dag, Graph};
use edbatch_layout::{CellStyle, Program};
use edbatch_models::Model;
use edbatch_policy::{
    AnyPolicy, CostModel, LearningConfig, NamedEncoding, Outcome, TrainingSet, hold_out,
};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, BackendError, Cpu, Parameters, Rows, ThreadPool, initial_rows, span,
};
use rand::Rng;

use crate::emitted::{Emitted, Sink};
use crate::session::Session;
use crate::statistics::Tally;
use crate::workers::Workers;
use crate::{EngineError, EngineOptions, InputError, Report, RunError, RunOptions, Statistics};

/// A model with its parameters, ready to run mini-batches.
///
/// It owns all memory that a mini-batch needs and keeps it for the next.
pub struct Engine<M> {
    model: M,
    options: EngineOptions,
    workers: Workers,
    /// What all runs so far took.
    tally: Tally,
    /// What became of the inputs of a mini-batch, for its memory.
    results: Vec<Result<Rows, InputError>>,
}

impl<M: Model> Engine<M> {
    /// An engine on the CPU with the default [`EngineOptions`].
    ///
    /// # Errors
    /// If a cell or a table is too large to be addressed, the parameters are of another network, or
    /// memory for the weights cannot be had.
    pub fn new(model: M, parameters: Parameters) -> Result<Self, EngineError> {
        Self::with_options(model, parameters, EngineOptions::new())
    }

    /// An engine on the CPU with our own kernels, planned cells, and products of looked-up rows
    /// done once per distinct row.
    ///
    /// # Errors
    /// As [`new`](Self::new), or if the options cannot be had together.
    pub fn with_options(
        model: M,
        parameters: Parameters,
        mut options: EngineOptions,
    ) -> Result<Self, EngineError> {
        options.check()?;
        let fold = options.fold_tables.take().unwrap_or(0);
        let program = Program::new(model.network().clone(), CellStyle::default())?;
        let program = Arc::new(program.fold_tables(fold));
        let pool = options.pool.clone().unwrap_or_else(|| ThreadPool::new(options.threads));
        let cpu = Cpu::new(program.clone(), &parameters, Level::detect())?;
        let cpu = Box::new(cpu.with_pool(pool.clone()));
        Self::with_backend(model, &parameters, program, cpu, options.pool(pool))
    }

    /// An engine on a backend of the caller's choice, loaded with the same program and parameters.
    /// Threads divide mini-batches as they do on the CPU, each with [another](Backend::another)
    /// backend. What is not divided runs on the given one, which may claim the
    /// [pool](EngineOptions::pool).
    ///
    /// # Errors
    /// If the parameters are of another network, or the options cannot be had together.
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
        let pool = options.pool.take().unwrap_or_else(|| ThreadPool::new(options.threads));
        let policy = options.policy.take();
        let parameters = parameters.for_network(program.network()).map_err(BackendError::from)?;
        let initial = initial_rows(program.network(), &parameters);
        let mut first = Session::new(program, backend, initial, &options);
        if options.check_finite {
            first.check_finite(parameters);
        }
        let others: Vec<_> = (1..options.threads).map(|_| first.another(&options)).collect();
        let workers = Workers::new(std::iter::once(first).chain(others), pool);
        let tally = Tally::new(options.counts);
        let mut engine = Self { model, options, workers, tally, results: Vec::new() };
        if let Some(policy) = policy {
            engine.set_policy(policy);
        }
        Ok(engine)
    }

    /// Another engine on the same weights, for another thread: on that thread alone, with memory of
    /// its own, the same policy, and nothing counted yet.
    #[must_use]
    pub fn another(&mut self) -> Self
    where
        M: Clone,
    {
        let options = self.options.another();
        let session = self.workers.first().of_another_engine(&options);
        let workers = Workers::new(std::iter::once(session), ThreadPool::new(1));
        let tally = Tally::new(options.counts);
        Self { model: self.model.clone(), options, workers, tally, results: Vec::new() }
    }

    /// Batches by another policy from now on, for what is known only now: one that was learned, or
    /// that goes by [measured costs](Self::measure_costs). Plans by the one before are forgotten.
    pub fn set_policy(&mut self, policy: AnyPolicy) {
        self.workers.sessions().for_each(|session| session.set_policy(policy.another()));
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// What all runs so far took together. What failed is not counted.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.tally.statistics
    }

    /// How each kind batched, if [`EngineOptions::counts`] asked for it.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.tally.report.as_ref()
    }

    /// How a mini-batch of these inputs is divided: a single range, if it is not. Where an input
    /// holds so many [bytes](Model::bytes) that those of all leave the cache, a single thread runs
    /// parts too.
    #[must_use]
    pub fn parts(&self, inputs: &[M::Input]) -> Vec<Range<usize>> {
        self.workers.parts(&self.model, inputs)
    }

    /// Runs one mini-batch: for each input the rows that it emits, in order.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    pub fn run(&mut self, inputs: &[M::Input]) -> Result<Vec<Rows>, RunError> {
        let mut outputs = Vec::new();
        self.run_into(inputs, &mut outputs)?;
        Ok(outputs)
    }

    /// As [`run`](Self::run), into outputs of an earlier mini-batch, whose memory is used again.
    ///
    /// # Errors
    /// As [`run`](Self::run); what is in `outputs` then has no meaning.
    pub fn run_into(
        &mut self,
        inputs: &[M::Input],
        outputs: &mut Vec<Rows>,
    ) -> Result<(), RunError> {
        outputs.resize_with(inputs.len(), Rows::new);
        self.results.clear();
        self.results.extend(outputs.iter_mut().map(|rows| Ok(mem::take(rows))));
        let took = self.workers.run(&self.model, inputs, &mut self.results, &|_| true)?;
        for (instance, (rows, result)) in outputs.iter_mut().zip(self.results.drain(..)).enumerate()
        {
            *rows = result.map_err(|error| RunError::Input { instance, error })?;
        }
        self.count(&took);
        Ok(())
    }

    /// Runs one mini-batch as [`run`](Self::run) does, but an input that fails takes nothing with
    /// it: the others have their rows, bit by bit as they would have been.
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
    /// If the mini-batch as a whole cannot be run: it is too large.
    pub fn run_each(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
    ) -> Result<Vec<Result<Rows, InputError>>, RunError> {
        let mut results = Vec::new();
        self.run_each_into(inputs, options, &mut results)?;
        Ok(results)
    }

    /// As [`run_each`](Self::run_each), into results of an earlier mini-batch, whose memory is used
    /// again.
    ///
    /// # Errors
    /// As [`run_each`](Self::run_each); what is in `results` then has no meaning.
    pub fn run_each_into(
        &mut self,
        inputs: &[M::Input],
        options: &RunOptions<'_>,
        results: &mut Vec<Result<Rows, InputError>>,
    ) -> Result<(), RunError> {
        results.resize_with(inputs.len(), || Ok(Rows::new()));
        let took = self.workers.run(&self.model, inputs, results, options.still_wanted)?;
        self.count(&took);
        Ok(())
    }

    /// Runs any number of inputs, `width` of them at a time: as soon as one ends, the next joins
    /// those that are under way. `done` takes the number of each input that ended and its rows, to
    /// read or to keep, or why it failed, which changes nothing for the others.
    ///
    /// For models whose instances end at different steps, as decoders do: the mini-batch stays
    /// full. Results are those of [`run`](Self::run), bit by bit.
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
    /// If a graph of those under way as a whole cannot be run: it is too large.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn stream(
        &mut self,
        width: usize,
        inputs: impl IntoIterator<Item: Borrow<M::Input>>,
        mut done: impl FnMut(usize, Result<&mut Rows, InputError>),
    ) -> Result<(), RunError> {
        self.stream_into(width, inputs, &mut done)
    }

    fn stream_into<E: Emitted>(
        &mut self,
        width: usize,
        inputs: impl IntoIterator<Item: Borrow<M::Input>>,
        sink: &mut impl Sink<E>,
    ) -> Result<(), RunError> {
        assert!(width > 0, "at least one input at a time");
        let _stream = span!(INFO, "stream", width = width as u64);
        let first = self.workers.first();
        first.run(&self.model, width, inputs, sink, &|_| true)?;
        let took = first.tally().clone();
        self.count(&took);
        Ok(())
    }

    /// The graphs of a mini-batch: one, and another one for each time that instances await values.
    ///
    /// Only graphs whose values are awaited are run.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    pub fn graphs(&mut self, inputs: &[M::Input]) -> Result<Vec<Graph>, RunError> {
        self.workers.first().graphs(&self.model, inputs)
    }

    /// Learns a finite state machine on the graphs of mini-batches, and batches by it from now on
    /// if it beats [`Critical`](edbatch_policy::Critical) on those [held out](hold_out).
    ///
    /// The outcome's table can be kept in a file by [`Learned`](edbatch_policy::Learned). *Cost*: a
    /// run of those mini-batches whose instances await values, and `config.episodes` schedules.
    ///
    /// # Errors
    /// If an input does not fit the model, a mini-batch is too large, or no input makes a node.
    pub fn learn(
        &mut self,
        mini_batches: &[&[M::Input]],
        encoding: &NamedEncoding,
        config: &LearningConfig,
        rng: &mut impl Rng,
    ) -> Result<Outcome, RunError> {
        let mut graphs = Vec::new();
        for inputs in mini_batches {
            graphs.extend(self.graphs(inputs)?);
        }
        graphs.retain(|graph| graph.nodes() > 0);
        let (train, held_out) = hold_out(graphs);
        let set = TrainingSet::new(&train, &held_out)?;
        let outcome = edbatch_policy::learn(&set, encoding, config, rng, |_| {});
        if outcome.after < outcome.before {
            let kinds = self.model.network().cells().len();
            self.set_policy(Box::new(outcome.fsm(encoding.clone(), kinds)));
        }
        Ok(outcome)
    }

    /// Measures what a batch of each kind costs: runs mini-batches, several times, and fits a line
    /// per kind to the times of their batches. Mini-batches of several sizes tell bases from
    /// slopes.
    ///
    /// [`Critical`](edbatch_policy::Critical), [`Portfolio`](edbatch_policy::Portfolio) and the
    /// searches take [`batch_costs`](CostModel::batch_costs) as their objective instead of the
    /// number of batches. It pays where kinds differ much; the example `costs` shows such a
    /// network.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn measure_costs(&mut self, mini_batches: &[&[M::Input]]) -> Result<CostModel, RunError> {
        const REPETITIONS: usize = 5;
        let mut samples = Vec::new();
        let first = self.workers.first();
        for repetition in 0..=REPETITIONS {
            first.measure(true);
            let ran = mini_batches.iter().try_for_each(|inputs| {
                let mut failed = None;
                let mut note = |instance: usize, rows: Result<&mut Rows, InputError>| {
                    failed = failed.take().or(rows.err().map(|error| (instance, error)));
                };
                first.run(&self.model, inputs.len(), *inputs, &mut note, &|_| true)?;
                match failed {
                    Some((instance, error)) => Err(RunError::Input { instance, error }),
                    None => Ok(()),
                }
            });
            let measured = first.measure(false);
            ran?;
            // The first time, memory is new and caches are cold.
            if repetition > 0 {
                samples.extend(measured);
            }
        }
        Ok(CostModel::fit(self.model.network().cells().len(), &samples))
    }

    /// Counts what ran, and notes the memory that is held now.
    fn count(&mut self, took: &Tally) {
        self.tally.add(took);
        let bytes = self.workers.sessions().map(|session| session.backend().bytes());
        let (mut weights, mut held) = (0, 0);
        bytes.for_each(|bytes| (weights, held) = (bytes.weights as u64, held + bytes.arena as u64));
        let Statistics { arena_bytes, weight_bytes, .. } = &mut self.tally.statistics;
        (*weight_bytes, *arena_bytes) = (weights, held.max(*arena_bytes));
    }
}
