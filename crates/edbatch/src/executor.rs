//! Running one graph: scheduled, planned and on a backend, or node by node.

use std::sync::Arc;
use std::time::Instant;

use edbatch_graph::{Dag, Graph, Network, RecordId, Schedule, Source, Value};
use edbatch_layout::{ArenaTooLarge, ByConsumers, MiniBatch, Order, Plan, Planner, Program, Room};
use edbatch_policy::{Critical, Frontier, Policy, Sample, lower_bound, schedule_into};
use edbatch_runtime::{
    Backend, Bytes, Parameters, Tensor, gathered_bytes, initial_values, interpret,
};

use crate::plan_cache::PlanCache;
use crate::{Report, Rows, RunError, Statistics};

/// What runs graphs.
pub(crate) enum Executor {
    Planned(Box<Planned>),
    Interpreted(Interpreted),
}

/// Batches on a backend.
pub(crate) struct Planned {
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    policy: Box<dyn Policy + Send>,
    initial: Rows,
    frontier: Frontier,
    schedule: Schedule,
    order: Order,
    by_consumers: ByConsumers,
    planner: Planner,
    plan: Plan,
    cache: PlanCache,
    most_bytes: Option<u64>,
    /// The time of each batch, if it is to be measured.
    samples: Option<Vec<Sample>>,
    /// What the graph that ran makes of each wanted value.
    wanted: Vec<RecordId>,
    report: Report,
}

/// Node by node.
pub(crate) struct Interpreted {
    parameters: Parameters,
    initial: Vec<Vec<Tensor>>,
    /// The wanted values of the graph that ran.
    results: Rows,
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
        statistics.nodes += graph.nodes() as u64;
        match self {
            Self::Planned(planned) => planned.run(graph, carried, wanted, statistics),
            Self::Interpreted(interpreted) => {
                let executing = Instant::now();
                statistics.batches += graph.nodes() as u64;
                interpreted.run(graph, carried, wanted);
                statistics.execute += executing.elapsed();
                Ok(())
            }
        }
    }

    /// Appends the elements of a wanted value of the graph that ran last, field after field.
    pub(crate) fn read(&self, wanted: usize, out: &mut Rows) {
        match self {
            Self::Planned(planned) => planned.read(wanted, out),
            Self::Interpreted(interpreted) => out.push(interpreted.results.row(wanted)),
        }
    }

    /// The same on memory of its own, with the default policy.
    pub(crate) fn another(&self) -> Self {
        match self {
            Self::Planned(planned) => {
                let (program, initial) = (planned.program.clone(), planned.initial.clone());
                let mut another = Planned::on(program, initial, planned.backend.another());
                another.order = planned.order;
                another.most_bytes = planned.most_bytes;
                another.cache = PlanCache::new(planned.cache.most_bytes());
                Self::Planned(Box::new(another))
            }
            Self::Interpreted(Interpreted { parameters, initial, .. }) => {
                let (parameters, initial) = (parameters.clone(), initial.clone());
                Self::Interpreted(Interpreted { parameters, initial, results: Rows::new() })
            }
        }
    }

    /// What was learned about the batches of each kind, if it was asked for.
    pub(crate) fn report(&self) -> Option<&Report> {
        match self {
            Self::Planned(planned) => Some(&planned.report),
            Self::Interpreted(_) => None,
        }
    }

    /// What it was before is forgotten, with all plans that are kept.
    pub(crate) fn set_policy(&mut self, policy: Box<dyn Policy + Send>) {
        if let Self::Planned(planned) = self {
            planned.policy = policy;
            planned.cache.clear();
        }
    }

    pub(crate) fn set_order(&mut self, order: Order) {
        if let Self::Planned(planned) = self {
            planned.order = order;
            planned.cache.clear();
        }
    }

    /// Begins to measure the time of each batch, or ends it; returns what was measured so far.
    pub(crate) fn measure(&mut self, on: bool) -> Vec<Sample> {
        match self {
            Self::Planned(planned) => {
                let next = on.then(Vec::new);
                std::mem::replace(&mut planned.samples, next).unwrap_or_default()
            }
            Self::Interpreted(_) => Vec::new(),
        }
    }

    pub(crate) fn limit_memory(&mut self, bytes: u64) {
        if let Self::Planned(planned) = self {
            planned.most_bytes = Some(bytes);
        }
    }

    pub(crate) fn keep_plans(&mut self, most_bytes: usize) {
        if let Self::Planned(planned) = self {
            planned.cache = PlanCache::new(most_bytes);
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
        Self {
            program,
            backend,
            policy: Box::new(Critical::new()),
            initial,
            frontier: Frontier::default(),
            schedule: Schedule::new(),
            order: Order::default(),
            by_consumers: ByConsumers::default(),
            planner: Planner::default(),
            plan: Plan::default(),
            cache: PlanCache::default(),
            most_bytes: None,
            samples: None,
            wanted: Vec::new(),
            report: Report::default(),
        }
    }

    fn run(
        &mut self,
        graph: &Graph,
        carried: &Rows,
        wanted: &[Value],
        statistics: &mut Statistics,
    ) -> Result<(), RunError> {
        statistics.graphs += 1;
        let known = self.recall(graph, wanted, statistics);
        if !known {
            self.decide(graph, wanted, statistics)?;
        }
        statistics.batches += self.schedule.len() as u64;
        let (values, weights) = (4 * self.plan.arena as u64, self.backend.bytes().weights as u64);
        if let Some(limit) = self.most_bytes.filter(|&limit| values + weights > limit) {
            return Err(RunError::Memory { values, weights, limit });
        }

        let executing = Instant::now();
        self.backend.allocate(self.plan.arena);
        for (index, row) in self.initial.iter().chain(carried.iter()).enumerate() {
            let mut from = 0;
            for (at, width) in fields(&self.program, graph.given()[index], self.plan.given[index]) {
                self.backend.write(at, &row[from..from + width]);
                from += width;
            }
        }
        for (index, step) in self.plan.steps.iter().enumerate() {
            let started = self.samples.is_some().then(Instant::now);
            self.backend.step(&self.plan, index);
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
            self.report.add(graph, &self.schedule);
            counts.gathered_bytes += gathered_bytes(&self.program, &self.plan);
        }
        let Bytes { weights, arena } = self.backend.bytes();
        statistics.weight_bytes = weights as u64;
        statistics.arena_bytes = statistics.arena_bytes.max(arena as u64);
        Ok(())
    }

    /// Takes the schedule and the plan of an equal graph from the cache, if it has one; whether it
    /// does.
    fn recall(&mut self, graph: &Graph, wanted: &[Value], statistics: &mut Statistics) -> bool {
        if self.cache.most_bytes() == 0 {
            return false;
        }
        let planning = Instant::now();
        let entry = self.cache.get(graph, wanted);
        let found = entry.is_some_and(|entry| {
            let (program, schedule) = (&*self.program, &entry.schedule);
            let mini_batch = MiniBatch { program, graph, schedule, wanted };
            let fits = self.planner.refill(&mini_batch, &mut entry.plan);
            self.schedule.clone_from(&entry.schedule);
            self.plan.clone_from(&entry.plan);
            fits
        });
        statistics.plans_reused += u64::from(found);
        statistics.plan += planning.elapsed();
        found
    }

    /// Schedules and plans a graph.
    fn decide(
        &mut self,
        graph: &Graph,
        wanted: &[Value],
        statistics: &mut Statistics,
    ) -> Result<(), ArenaTooLarge> {
        let scheduling = Instant::now();
        schedule_into(graph, &mut *self.policy, &mut self.frontier, &mut self.schedule);
        statistics.schedule += scheduling.elapsed();

        let planning = Instant::now();
        self.order.apply(&self.program, graph, &mut self.schedule, &mut self.by_consumers);
        let mini_batch =
            MiniBatch { program: &self.program, graph, schedule: &self.schedule, wanted };
        let cached = self.cache.most_bytes() > 0;
        let room = if cached { Room::Any } else { Room::Distinct };
        self.planner.plan(&mini_batch, room, &mut self.plan)?;
        if cached {
            self.cache.insert(graph, wanted, &self.schedule, &self.plan);
        }
        statistics.plan += planning.elapsed();
        Ok(())
    }

    fn read(&self, wanted: usize, out: &mut Rows) {
        out.push_with(|elements| {
            for (at, width) in fields(&self.program, self.wanted[wanted], self.plan.wanted[wanted])
            {
                self.backend.read(at, width, elements);
            }
        });
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

impl Interpreted {
    pub(crate) fn new(network: &Network, parameters: Parameters) -> Self {
        let initial = initial_values(network, &parameters);
        Self { parameters, initial, results: Rows::new() }
    }

    fn run(&mut self, graph: &Graph, carried: &Rows, wanted: &[Value]) {
        let records = &graph.given()[self.initial.len()..];
        let carried = records.iter().zip(carried.iter()).map(|(&record, row)| {
            let mut rest = row;
            let shapes = graph.network().fields(record).fields.iter().map(|field| field.shape);
            shapes
                .map(|shape| {
                    let (elements, behind) = rest.split_at(shape.elements());
                    rest = behind;
                    Tensor::from_shape_vec(shape.rows_and_columns(), elements.to_vec())
                        .expect("as many elements as the shape has")
                })
                .collect()
        });
        let given: Vec<Vec<Tensor>> = self.initial.iter().cloned().chain(carried).collect();
        let nodes = interpret(graph, &self.parameters, &given);
        self.results.clear();
        for value in wanted {
            self.results.push(&flatten(match value.source() {
                Source::Node(node) => &nodes[node.index()],
                Source::Given(index) => &given[index],
            }));
        }
    }
}

fn flatten(tensors: &[Tensor]) -> Vec<f32> {
    tensors.iter().flatten().copied().collect()
}
