//! From inputs to outputs: construct, schedule, plan, execute; again while instances await values.

use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::{Dag, Graph};
use edbatch_layout::{CellStyle, Order, Program, TooLarge};
use edbatch_models::Model;
use edbatch_policy::{Config, CostModel, Named, Outcome, Policy, hold_out};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Parameters, Products};
use rand::Rng;

use crate::executor::{Executor, Planned};
use crate::interpreted::Interpreted;
use crate::lanes::{Lane, Lanes};
use crate::{Counts, Report, Rows, RunError, Statistics};

/// A model with its parameters, ready to run mini-batches.
///
/// It owns all memory that a mini-batch needs and keeps it for the next.
pub struct Engine<M> {
    pub(crate) model: M,
    pub(crate) lane: Lane,
    /// How mini-batches are divided, if they are.
    lanes: Option<Lanes>,
    /// The most bytes of plans that are kept.
    kept_plans: usize,
}

impl<M: Model> Engine<M> {
    /// An engine on the CPU with our own kernels, planned cells, products of
    /// looked-up rows done once per distinct row, [parts](Self::in_parts) for a single thread, and the policy [`Critical`](edbatch_policy::Critical),
    /// which needs no learning.
    ///
    /// # Errors
    /// If a cell is too large to be addressed.
    pub fn new(model: M, parameters: Parameters) -> Result<Self, TooLarge> {
        Self::on_threads(model, parameters, 1)
    }

    /// As [`new`](Self::new), with so many threads for each mini-batch, the caller's among them. They
    /// change no bit of a result: a mini-batch of [many inputs](Self::in_parts) is divided between
    /// them, of fewer inputs they share each batch.
    ///
    /// For mini-batches whose results are wanted soon. Where they come faster than they are run, an
    /// engine per thread, each of which runs whole mini-batches, is best: see [`another`](Self::another).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn on_threads(model: M, parameters: Parameters, threads: usize) -> Result<Self, TooLarge> {
        let program = Arc::new(Program::new(model.network().clone(), CellStyle::default())?);
        let cpu = Cpu::new(program.clone(), &parameters, Products::Packed, Level::detect());
        let cpu = Box::new(cpu.with_threads(threads));
        Ok(Self::with_backend(model, &parameters, program, cpu).in_parts(threads))
    }

    /// Divides mini-batches of at least 4 inputs a thread between so many threads, the caller's among
    /// them: each wires, schedules, plans and runs whole inputs, in memory of its own, on
    /// [another](Backend::another) backend. Others run as they were; but mini-batches that hold more
    /// [bytes](Model::bytes) than a cache are divided for a single thread too, which runs part after part.
    ///
    /// What [streams](Self::stream), [overlaps](Self::run_overlapped) or [measures](Self::measure_costs) divides
    /// nothing, nor is anything divided together with a [memory limit](Self::with_memory_limit), which is
    /// one for all memory.
    #[must_use]
    pub fn in_parts(mut self, threads: usize) -> Self {
        let lane = || self.lane.another(self.model.network());
        let divides = !self.lane.executor.has_memory_limit();
        self.lanes = divides.then(|| Lanes::new(threads.clamp(1, 1000), lane));
        self.share_kept_plans();
        self
    }

    /// How a mini-batch of these inputs is divided: a single range, if it is not.
    #[must_use]
    pub fn parts(&self, inputs: &[M::Input]) -> Vec<Range<usize>> {
        match &self.lanes {
            Some(lanes) => lanes.parts(&self.model, inputs),
            None => std::iter::once(0..inputs.len()).collect(),
        }
    }

    /// Another engine on the same weights, for another thread: with memory of its own, the same policy,
    /// and nothing counted yet.
    #[must_use]
    pub fn another(&self) -> Self
    where
        M: Clone,
    {
        let lane = self.lane.another(self.model.network());
        let kept_plans = self.kept_plans;
        let mut another = Self { model: self.model.clone(), lane, lanes: None, kept_plans };
        another.share_kept_plans();
        if self.lanes.is_some() { another.in_parts(1) } else { another }
    }

    /// An engine on a backend of the caller's choice, loaded with the same program.
    #[must_use]
    pub fn with_backend(
        model: M,
        parameters: &Parameters,
        program: Arc<Program>,
        backend: Box<dyn Backend>,
    ) -> Self {
        let planned = Planned::new(program, parameters, backend);
        let executor = Executor::Planned(Box::new(planned));
        Self::of(model, executor)
    }

    /// An engine that computes node by node: the reference that others are compared with.
    #[must_use]
    pub fn interpreted(model: M, parameters: Parameters) -> Self {
        let executor = Executor::Interpreted(Interpreted::new(model.network(), parameters));
        Self::of(model, executor)
    }

    fn of(model: M, executor: Executor) -> Self {
        let lane = Lane::new(model.network(), executor);
        Self { model, lane, lanes: None, kept_plans: 0 }
    }

    /// Everything that runs graphs.
    fn executors(&mut self) -> impl Iterator<Item = &mut Executor> {
        let lanes = self.lanes.iter_mut().flat_map(Lanes::each);
        std::iter::once(&mut self.lane).chain(lanes).map(|lane| &mut lane.executor)
    }

    /// Batches by another policy. The interpreter batches nothing.
    #[must_use]
    pub fn with_policy(mut self, policy: Box<dyn Policy + Send>) -> Self {
        self.executors().skip(1).for_each(|executor| executor.set_policy(policy.another()));
        self.lane.executor.set_policy(policy);
        self
    }

    /// Lists the nodes of each batch in another order than the schedule's.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> Self {
        self.executors().for_each(|executor| executor.set_order(order));
        self
    }

    /// Keeps schedules and plans, in at most so many bytes, for graphs of the same topology: calls
    /// that differ only in the rows of tables that they name. The least recently used go first.
    ///
    /// For inputs that come again in the same mini-batches, and for decoders, whose steps are all
    /// alike: [`Statistics::plans_reused`] tells whether it pays. Threads that divide mini-batches keep
    /// a share each.
    #[must_use]
    pub fn with_plan_cache(mut self, most_bytes: usize) -> Self {
        self.kept_plans = most_bytes;
        self.share_kept_plans();
        self
    }

    /// Gives all executors the same share, and forgets what they kept.
    fn share_kept_plans(&mut self) {
        let each = self.kept_plans / self.executors().count();
        self.executors().for_each(|executor| executor.keep_plans(each));
    }

    /// Takes note of all memory that is held now.
    pub(crate) fn note_memory(&mut self) {
        let held: usize = self.executors().map(|executor| executor.bytes().arena).sum();
        let Statistics { arena_bytes, .. } = &mut self.lane.statistics;
        *arena_bytes = (*arena_bytes).max(held as u64);
    }

    /// Refuses, before it runs, a mini-batch whose values and weights together would take more bytes
    /// than this. Several threads then share the batches of each mini-batch, whatever its size.
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.lane.executor.limit_memory(bytes);
        self.lanes = None;
        self.share_kept_plans();
        self
    }

    /// Counts lower bounds, gathered bytes and the batches of each kind too, which costs about as much as scheduling.
    #[must_use]
    pub fn with_counts(mut self) -> Self {
        let lanes = self.lanes.iter_mut().flat_map(Lanes::each);
        for lane in std::iter::once(&mut self.lane).chain(lanes) {
            lane.statistics.counts = Some(Counts::default());
        }
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
        &self.lane.statistics
    }

    /// How each kind batched, if [`with_counts`](Self::with_counts) asked for it; nothing for the
    /// interpreter.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.lane.statistics.counts.and(self.lane.executor.report())
    }

    /// The graphs of a mini-batch: one, and another one for each time that instances await values.
    ///
    /// Only graphs whose values are awaited are run.
    ///
    /// # Errors
    /// If an input does not fit the model, or the mini-batch is too large.
    pub fn graphs(&mut self, inputs: &[M::Input]) -> Result<Vec<Graph>, RunError> {
        let mut graphs = Vec::new();
        let keep = |graph: &Graph, awaited| {
            graphs.push(graph.clone());
            awaited
        };
        let seats = vec![Rows::new(); inputs.len()];
        self.lane.in_flight(&self.model).run(seats, inputs, keep, |_, _| {})?;
        Ok(graphs)
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
        let result = match &mut self.lanes {
            Some(lanes) => lanes.run(&mut self.lane, &self.model, inputs, outputs),
            None => self.lane.run(&self.model, inputs, outputs),
        };
        self.note_memory();
        result
    }

    /// Learns a finite state machine on the graphs of mini-batches, and batches by it from now on
    /// if it beats [`Critical`](edbatch_policy::Critical) on those [held out](hold_out).
    ///
    /// The outcome's table can be kept in a file by [`Learned`](edbatch_policy::Learned). *Cost*: a
    /// run of those mini-batches whose instances await values, and `config.episodes` schedules.
    ///
    /// # Errors
    /// If an input does not fit the model, or a mini-batch is too large.
    ///
    /// # Panics
    /// If no input makes a node.
    pub fn learn(
        &mut self,
        mini_batches: &[&[M::Input]],
        encoding: &Named,
        config: &Config,
        rng: &mut impl Rng,
    ) -> Result<Outcome, RunError> {
        let mut graphs = Vec::new();
        for inputs in mini_batches {
            graphs.extend(self.graphs(inputs)?);
        }
        graphs.retain(|graph| graph.nodes() > 0);
        assert!(!graphs.is_empty(), "inputs that make nodes");
        let (train, held_out) = hold_out(graphs);
        let exam = if held_out.is_empty() { &train } else { &held_out };
        let outcome = edbatch_policy::learn(&train, exam, encoding, config, rng, |_| {});
        if outcome.after < outcome.before {
            let kinds = self.model.network().cells().len();
            for executor in self.executors() {
                executor.set_policy(Box::new(outcome.fsm(encoding.clone(), kinds)));
            }
        }
        Ok(outcome)
    }

    /// Measures what a batch of each kind costs: runs mini-batches, several times, and fits a line
    /// per kind to the times of their batches. Mini-batches of several sizes tell bases from slopes.
    ///
    /// [`Critical`](edbatch_policy::Critical), [`Portfolio`](edbatch_policy::Portfolio) and the
    /// searches take [`batch_costs`](CostModel::batch_costs) as their objective instead of the
    /// number of batches. It pays where kinds differ much; the example `costs` shows such a network.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn measure_costs(&mut self, mini_batches: &[&[M::Input]]) -> Result<CostModel, RunError> {
        const REPETITIONS: usize = 5;
        let mut samples = Vec::new();
        for repetition in 0..=REPETITIONS {
            self.lane.executor.measure(true);
            let mut outputs = Vec::new();
            let ran = mini_batches.iter().try_for_each(|inputs| {
                outputs.resize_with(inputs.len(), Rows::new);
                self.lane.run(&self.model, inputs, &mut outputs)
            });
            let measured = self.lane.executor.measure(false);
            ran?;
            // The first time, memory is new and caches are cold.
            if repetition > 0 {
                samples.extend(measured);
            }
        }
        Ok(CostModel::fit(self.model.network().cells().len(), &samples))
    }

    /// Runs any number of inputs, `width` of them at a time: as soon as one ends, the next joins
    /// those that are under way. `done` hears the number of each input that ended, and takes or
    /// looks at its rows.
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
    /// engine.stream(2, sources, |number, rows| ended.push((number, rows.len())))?;
    /// // The third joins when the first has ended, and the fourth when the third has.
    /// assert_eq!(ended, [(0, 2), (2, 3), (3, 1), (1, 9)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); the number of the input counts from the first of `inputs`.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn stream(
        &mut self,
        width: usize,
        inputs: impl IntoIterator<Item = M::Input>,
        done: impl FnMut(usize, &mut Rows),
    ) -> Result<(), RunError> {
        assert!(width > 0, "at least one input at a time");
        let in_flight = self.lane.in_flight(&self.model);
        let result = in_flight.run(vec![Rows::new(); width], inputs, |_, _| true, done);
        self.note_memory();
        result
    }
}
