//! Running one graph: scheduled, planned and on a backend, or node by node.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use edbatch_graph::{Dag, Graph, RecordId, Schedule, Value};
use edbatch_layout::{ArenaTooLarge, ByConsumers, MiniBatch, Order, Plan, Planner, Program, Room};
use edbatch_policy::{Critical, Frontier, Policy, Sample, lower_bound, schedule_into};
use edbatch_runtime::kernels::{Level, arg_max};
use edbatch_runtime::{Backend, Bytes, Parameters, gathered_bytes, initial_values};

use crate::interpreted::{Interpreted, flatten};
use crate::plan_cache::PlanCache;
use crate::{Report, Rows, RunError, Statistics};

/// What runs graphs.
pub(crate) enum Executor {
    Planned(Box<Planned>),
    Interpreted(Interpreted),
}

/// Batches on a backend.
pub(crate) struct Planned {
    pub(crate) decider: Decider,
    pub(crate) runner: Runner,
    /// About the graph that ran last.
    pub(crate) decision: Decision,
}

/// Schedules and plans graphs.
pub(crate) struct Decider {
    program: Arc<Program>,
    policy: Box<dyn Policy + Send>,
    frontier: Frontier,
    order: Order,
    by_consumers: ByConsumers,
    planner: Planner,
    cache: PlanCache,
}

/// A graph's schedule and plan.
#[derive(Default)]
pub(crate) struct Decision {
    schedule: Schedule,
    plan: Plan,
}

/// Carries decisions out.
pub(crate) struct Runner {
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    initial: Rows,
    most_bytes: Option<u64>,
    /// The time of each batch, if it is to be measured.
    samples: Option<Vec<Sample>>,
    /// What the graph that ran makes of each wanted value.
    wanted: Vec<RecordId>,
    report: Report,
}

impl Executor {
    /// Runs a graph whose given values are the network's initial ones and then `carried`.
    pub(crate) fn run(
        &mut self,
        graph: &Graph,
        carried: &Rows,
        wanted: &[Value],
        statistics: &mut Statistics,
    ) -> Result<(), RunError> {
        match self {
            Self::Planned(planned) => planned.run(graph, carried, wanted, statistics),
            Self::Interpreted(interpreted) => {
                let executing = Instant::now();
                statistics.nodes += graph.nodes() as u64;
                statistics.batches += graph.nodes() as u64;
                interpreted.run(graph, carried, wanted);
                statistics.execute += executing.elapsed();
                Ok(())
            }
        }
    }

    /// Appends wanted values of the graph that ran last: a row each, field after field.
    pub(crate) fn read(&self, wanted: Range<usize>, out: &mut Rows) {
        match self {
            Self::Planned(planned) => planned.runner.read(&planned.decision, wanted, out),
            Self::Interpreted(interpreted) => {
                wanted.for_each(|wanted| out.push(interpreted.row(wanted)));
            }
        }
    }

    /// The index of the greatest element of a wanted value of the graph that ran last.
    pub(crate) fn arg_max(&self, wanted: usize) -> usize {
        if let Self::Planned(planned) = self {
            let Planned { runner, decision, .. } = &**planned;
            let (record, row) = (runner.wanted[wanted], decision.plan.wanted[wanted]);
            let mut fields = fields(&runner.program, record, row);
            if let (Some((at, width)), None) = (fields.next(), fields.next()) {
                return runner.backend.arg_max(at, width);
            }
        }
        let mut row = Rows::new();
        self.read(wanted..wanted + 1, &mut row);
        arg_max(Level::detect(), row.row(0))
    }

    /// The same on memory of its own.
    pub(crate) fn another(&self) -> Self {
        match self {
            Self::Planned(planned) => {
                let Planned { decider, runner, .. } = &**planned;
                let (program, initial) = (decider.program.clone(), runner.initial.clone());
                let mut another = Planned::on(program, initial, runner.backend.another());
                another.decider.policy = decider.policy.another();
                another.decider.order = decider.order;
                another.decider.cache = PlanCache::new(decider.cache.most_bytes());
                another.runner.most_bytes = runner.most_bytes;
                Self::Planned(Box::new(another))
            }
            Self::Interpreted(interpreted) => Self::Interpreted(interpreted.another()),
        }
    }

    /// What was learned about the batches of each kind, if it was asked for.
    pub(crate) fn report(&self) -> Option<&Report> {
        match self {
            Self::Planned(planned) => Some(&planned.runner.report),
            Self::Interpreted(_) => None,
        }
    }

    /// The same, to take in what others learned.
    pub(crate) fn report_mut(&mut self) -> Option<&mut Report> {
        match self {
            Self::Planned(planned) => Some(&mut planned.runner.report),
            Self::Interpreted(_) => None,
        }
    }

    /// What is held in memory; the interpreter does not tell.
    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Self::Planned(planned) => planned.runner.backend.bytes(),
            Self::Interpreted(_) => Bytes::default(),
        }
    }

    /// What it was before is forgotten, with all plans that are kept.
    pub(crate) fn set_policy(&mut self, policy: Box<dyn Policy + Send>) {
        if let Self::Planned(planned) = self {
            planned.decider.policy = policy;
            planned.decider.cache.clear();
        }
    }

    pub(crate) fn set_order(&mut self, order: Order) {
        if let Self::Planned(planned) = self {
            planned.decider.order = order;
            planned.decider.cache.clear();
        }
    }

    /// Begins to measure the time of each batch, or ends it; returns what was measured so far.
    pub(crate) fn measure(&mut self, on: bool) -> Vec<Sample> {
        match self {
            Self::Planned(planned) => {
                let next = on.then(Vec::new);
                std::mem::replace(&mut planned.runner.samples, next).unwrap_or_default()
            }
            Self::Interpreted(_) => Vec::new(),
        }
    }

    pub(crate) fn limit_memory(&mut self, bytes: u64) {
        if let Self::Planned(planned) = self {
            planned.runner.most_bytes = Some(bytes);
        }
    }

    pub(crate) fn has_memory_limit(&self) -> bool {
        matches!(self, Self::Planned(planned) if planned.runner.most_bytes.is_some())
    }

    pub(crate) fn keep_plans(&mut self, most_bytes: usize) {
        if let Self::Planned(planned) = self {
            planned.decider.cache = PlanCache::new(most_bytes);
        }
    }
}

impl Planned {
    pub(crate) fn new(
        program: Arc<Program>,
        parameters: &Parameters,
        backend: Box<dyn Backend>,
    ) -> Self {
        let mut initial = Rows::new();
        for tensors in initial_values(program.network(), parameters) {
            initial.push(&flatten(&tensors));
        }
        Self::on(program, initial, backend)
    }

    fn on(program: Arc<Program>, initial: Rows, backend: Box<dyn Backend>) -> Self {
        let decider = Decider {
            program: program.clone(),
            policy: Box::new(Critical::new()),
            frontier: Frontier::default(),
            order: Order::default(),
            by_consumers: ByConsumers::default(),
            planner: Planner::default(),
            cache: PlanCache::default(),
        };
        let runner = Runner {
            program,
            backend,
            initial,
            most_bytes: None,
            samples: None,
            wanted: Vec::new(),
            report: Report::default(),
        };
        Self { decider, runner, decision: Decision::default() }
    }

    fn run(
        &mut self,
        graph: &Graph,
        carried: &Rows,
        wanted: &[Value],
        statistics: &mut Statistics,
    ) -> Result<(), RunError> {
        let Self { decider, runner, decision } = self;
        decider.decide(graph, wanted, decision, statistics)?;
        runner.run(graph, carried, wanted, decision, statistics)
    }
}

impl Runner {
    /// Runs a graph as was decided.
    pub(crate) fn run(
        &mut self,
        graph: &Graph,
        carried: &Rows,
        wanted: &[Value],
        decision: &Decision,
        statistics: &mut Statistics,
    ) -> Result<(), RunError> {
        let Decision { schedule, plan } = decision;
        statistics.nodes += graph.nodes() as u64;
        statistics.graphs += 1;
        statistics.batches += schedule.len() as u64;
        let (values, weights) = (4 * plan.arena as u64, self.backend.bytes().weights as u64);
        if let Some(limit) = self.most_bytes.filter(|&limit| values + weights > limit) {
            return Err(RunError::Memory { values, weights, limit });
        }

        let executing = Instant::now();
        self.backend.allocate(plan.arena);
        for (index, row) in self.initial.iter().chain(carried.iter()).enumerate() {
            let mut from = 0;
            for (at, width) in fields(&self.program, graph.given()[index], plan.given[index]) {
                self.backend.write(at, &row[from..from + width]);
                from += width;
            }
        }
        for (index, step) in plan.steps.iter().enumerate() {
            let started = self.samples.is_some().then(Instant::now);
            self.backend.step(plan, index);
            if let (Some(started), Some(samples)) = (started, &mut self.samples) {
                self.backend.synchronize();
                let nanoseconds = started.elapsed().as_nanos() as f64;
                if step.is_batch() {
                    samples.push(Sample { kind: step.cell, nodes: step.calls, nanoseconds });
                }
            }
        }
        self.backend.synchronize();
        self.wanted.clear();
        let record = |&value| graph.record_of(value).expect("checked by the engine");
        self.wanted.extend(wanted.iter().map(record));
        statistics.execute += executing.elapsed();
        if let Some(counts) = &mut statistics.counts {
            counts.bound += lower_bound(graph) as u64;
            self.report.add(graph, schedule);
            counts.gathered_bytes += gathered_bytes(&self.program, plan);
        }
        let Bytes { weights, arena } = self.backend.bytes();
        statistics.weight_bytes = weights as u64;
        statistics.arena_bytes = statistics.arena_bytes.max(arena as u64);
        Ok(())
    }

    /// Appends wanted values of the graph that ran last.
    pub(crate) fn read(&self, decision: &Decision, wanted: Range<usize>, out: &mut Rows) {
        let arena = self.backend.arena();
        let records = self.wanted[wanted.clone()].iter();
        for (&record, &row) in records.zip(&decision.plan.wanted[wanted]) {
            out.push_with(|elements| {
                for (at, width) in fields(&self.program, record, row) {
                    match arena {
                        Some(arena) => {
                            elements.extend_from_slice(&arena[at as usize..][..width]);
                        }
                        None => self.backend.read(at, width, elements),
                    }
                }
            });
        }
    }
}

impl Decider {
    /// Schedules and plans a graph, or takes the decision about an equal one from the cache.
    pub(crate) fn decide(
        &mut self,
        graph: &Graph,
        wanted: &[Value],
        decision: &mut Decision,
        statistics: &mut Statistics,
    ) -> Result<(), ArenaTooLarge> {
        if self.recall(graph, wanted, decision, statistics) {
            return Ok(());
        }
        let Decision { schedule, plan } = decision;
        let scheduling = Instant::now();
        schedule_into(graph, &mut *self.policy, &mut self.frontier, schedule);
        statistics.schedule += scheduling.elapsed();

        let planning = Instant::now();
        self.order.apply(&self.program, graph, schedule, &mut self.by_consumers);
        let mini_batch = MiniBatch { program: &self.program, graph, schedule, wanted };
        let cached = self.cache.most_bytes() > 0;
        let room = if cached { Room::Any } else { Room::Distinct };
        self.planner.plan(&mini_batch, room, plan)?;
        if cached {
            self.cache.insert(graph, wanted, schedule, plan);
        }
        statistics.plan += planning.elapsed();
        Ok(())
    }

    /// Takes the decision about an equal graph from the cache, if it has one; whether it does.
    fn recall(
        &mut self,
        graph: &Graph,
        wanted: &[Value],
        decision: &mut Decision,
        statistics: &mut Statistics,
    ) -> bool {
        if self.cache.most_bytes() == 0 {
            return false;
        }
        let planning = Instant::now();
        let entry = self.cache.get(graph, wanted);
        let found = entry.is_some_and(|entry| {
            let (program, schedule) = (&*self.program, &entry.schedule);
            let mini_batch = MiniBatch { program, graph, schedule, wanted };
            let fits = self.planner.refill(&mini_batch, &mut entry.plan);
            decision.schedule.clone_from(&entry.schedule);
            decision.plan.clone_from(&entry.plan);
            fits
        });
        statistics.plans_reused += u64::from(found);
        statistics.plan += planning.elapsed();
        found
    }
}

/// Where the fields of a record lie whose row begins at `row`, and their widths.
fn fields(
    program: &Program,
    record: RecordId,
    row: u32,
) -> impl Iterator<Item = (u32, usize)> + '_ {
    let layout = program.record(record);
    let offsets = layout.offsets.iter().map(move |&offset| row + offset);
    offsets.zip(layout.widths.iter().map(|&width| width as usize))
}
