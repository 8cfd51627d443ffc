//! One batch of calls of a cell, counted and timed on a backend.

use std::sync::Arc;
use std::time::{Duration, Instant};

use edbatch_graph::{Arity, Graph, Kind, Schedule};
use edbatch_layout::{MiniBatch, Plan, Planner, Program, Want};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, BackendError, Count, Cpu, Given, KernelCounts, Parameters, Part, Precision,
    initial_rows,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The maximum number of f32 elements of the random weights, and of a batch's values: 1 GiB each.
const MAX_ELEMENTS: usize = 1 << 28;
/// The minimum time for which a cell is measured.
const MIN_TIME: Duration = Duration::from_millis(20);
/// The minimum number of runs.
const MIN_RUNS: usize = 5;

/// Returns the kernels and bytes of one call of a cell, counted by [`Count`].
pub(crate) fn counted(program: &Arc<Program>, kind: Kind) -> Option<KernelCounts> {
    let plan = planned(program, kind, 1)?;
    let mut count = Count::new(program.clone());
    count.step(&plan, 0);
    Some(count.counts())
}

/// Returns the median time of a batch of `calls` calls on one core, in nanoseconds, with random
/// weights and arguments. Returns `None` if that takes too much memory.
pub(crate) fn nanoseconds(program: &Arc<Program>, kind: Kind, calls: usize) -> Option<f64> {
    let network = program.network();
    let weights: usize = network.parameters().iter().map(|parameter| parameter.elements()).sum();
    let ports = network[kind].ports().iter().map(|port| program.record(port.record).stride);
    let cell = program.cell(kind);
    let call = ports.chain([cell.output_stride]).chain(cell.regions.iter().copied());
    let values = call.map(|elements| elements as usize).sum::<usize>().checked_mul(calls)?;
    if weights > MAX_ELEMENTS || values > MAX_ELEMENTS {
        return None;
    }
    let plan = planned(program, kind, calls)?;
    timed(program, &plan).ok()
}

/// Plans one batch of `calls` calls of a cell. Returns `None` if it is too large.
fn planned(program: &Arc<Program>, kind: Kind, calls: usize) -> Option<Plan> {
    let mut graph = Graph::new(program.network().clone());
    let cell = &program.network()[kind];
    for call in 0..calls {
        let rows: Vec<u32> = cell.tables().iter().map(|table| call as u32 % table.rows).collect();
        // A variadic port gets two values, so that their sum is computed.
        let values = cell.ports().iter().flat_map(|port| {
            let count = if port.arity == Arity::Many { 2 } else { 1 };
            std::iter::repeat_n(port.record, count)
        });
        let values: Vec<_> = values.map(|record| graph.give(record)).collect();
        graph.call(kind, &rows, &values).ok()?;
    }
    let nodes: Vec<_> = (0..calls).map(edbatch_graph::NodeId::new).collect();
    let mut schedule = Schedule::new();
    schedule.push(kind, &nodes);
    let wanted: Vec<_> = nodes.iter().map(|&node| (node.into(), Want::Elements)).collect();
    let mini_batch = MiniBatch { program, graph: &graph, schedule: &schedule, wanted: &wanted };
    let mut plan = Plan::default();
    Planner::default().plan(&mini_batch, &mut plan).ok()?;
    Some(plan)
}

fn timed(program: &Arc<Program>, plan: &Plan) -> Result<f64, BackendError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let network = program.network();
    let parameters = Parameters::random(network, &mut rng);
    let mut cpu = Cpu::new(program.clone(), &parameters, Level::detect(), Precision::F32)?;
    let initial = initial_rows(network, &parameters);
    let records = plan.given[initial.len()..].iter().map(|row| program.record(row.record));
    let elements: u32 = records.flat_map(|record| &record.widths).sum();
    let host: Vec<f32> = (0..elements).map(|element| (element % 7) as f32 / 7.0 - 0.4).collect();
    let given = Given { initial: &initial, places: &[], host: &host };
    cpu.run(&[Part { slot: 0, plan, given }])?;
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < MIN_RUNS || begun.elapsed() < MIN_TIME {
        let started = Instant::now();
        cpu.step(plan, 0);
        times.push(started.elapsed().as_secs_f64() * 1e9);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
