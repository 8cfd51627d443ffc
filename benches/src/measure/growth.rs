//! The part `growth`: cost of a node in graphs of a thousand to a million nodes.
//!
//! Policies schedule the whole graph. The engine, whose row includes construction and planning,
//! runs the mini-batch as usual, in parts that fit the caches. Vectors are short, so that a million
//! of them fit in memory. None of these times depends on the length of vectors.

use std::time::Instant;

use edbatch_graph::{Dag, Schedule};
use edbatch_policy::{Agenda, Critical, Depth, Encoding, Frontier, Fsm, Policy};
use edbatch_policy::{Scheduler, schedule_into};

use crate::Failure;
use crate::measure::families::Family;
use crate::measure::policies::Effort;
use crate::measure::systems::weights;
use crate::measure::systems::{Setup, System};
use crate::measure::workload::{MiniBatch, Part, Workload};
use crate::record::Growth;

/// The models measured: one for trees, one for chains, one for lattices.
pub const SOME_OF_EACH: [&str; 3] = ["tree_lstm", "bilstm_tagger", "lattice_lstm"];

/// Approximate numbers of nodes.
const NODES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Elements of vectors.
const HIDDEN: usize = 8;
/// Number of instances sampled to estimate the nodes per instance.
const SAMPLED: usize = 64;
/// The maximum number of repetitions.
const MAX_REPETITIONS: usize = 20;
/// The seconds after which no further repetition starts.
const MAX_SECONDS: f64 = 0.15;

/// Measures a model on mini-batches of growing size.
pub fn growth(
    family: &Family,
    effort: Effort,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Growth>, Failure> {
    let workload = family.at(HIDDEN)?;
    let sampled = MiniBatch { first: 0, size: SAMPLED };
    let nodes = |size| workload.unroll(Part::Test, MiniBatch { first: 0, size })[0].graph.nodes();
    let per_instance = nodes(sampled.size) as f64 / SAMPLED as f64;
    let sizes = if effort == Effort::Full { &NODES[..] } else { &NODES[..3] };
    let mut records = Vec::new();
    for &size in sizes {
        progress(&format!("{size} nodes"));
        let instances = (size as f64 / per_instance).round().max(1.0) as usize;
        let mini_batch = MiniBatch { first: 0, size: instances };
        records.extend(policies(family, &*workload, mini_batch));
        records.push(engine(family, &*workload, mini_batch)?);
    }
    Ok(records)
}

/// Times the policies that need no learning on the whole graph.
fn policies(family: &Family, workload: &dyn Workload, mini_batch: MiniBatch) -> Vec<Growth> {
    let graph = &workload.unroll(Part::Test, mini_batch)[0].graph;
    let (mut frontier, mut schedule) = (Frontier::default(), Schedule::new());
    let policies: [(&str, &mut dyn Policy); 3] = [
        ("depth", &mut Depth::new()),
        ("agenda", &mut Agenda::new()),
        ("critical", &mut Critical::new()),
    ];
    let mut records = Vec::new();
    for (name, policy) in policies {
        let (seconds, repetitions) =
            fastest(|| schedule_into(graph, policy, &mut frontier, &mut schedule));
        records.push(record(family, name, graph.nodes(), schedule.len(), seconds, repetitions));
    }
    // An engine's default: the order of the kinds if they have one, else critical.
    let mut scheduler = Scheduler::default();
    let (seconds, repetitions) = fastest(|| scheduler.schedule(graph, &mut schedule));
    records.push(record(family, "default", graph.nodes(), schedule.len(), seconds, repetitions));
    records
}

/// Returns the seconds of the fastest repetition, and the number of repetitions.
fn fastest(mut work: impl FnMut()) -> (f64, usize) {
    let (began, mut best) = (Instant::now(), f64::INFINITY);
    for repetition in 1..=MAX_REPETITIONS {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
        if began.elapsed().as_secs_f64() > MAX_SECONDS {
            return (best, repetition);
        }
    }
    (best, MAX_REPETITIONS)
}

/// Times our engine from inputs to plans.
fn engine(
    family: &Family,
    workload: &dyn Workload,
    mini_batch: MiniBatch,
) -> Result<Growth, Failure> {
    let parameters = weights(workload.network());
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let setup = Setup::new(System::Edbatch, &unlearned, 1);
    let mut contestant = workload.contestant(&setup, &parameters, &[mini_batch])?;
    contestant.run(0)?;
    let (began, mut best, mut repetitions) = (Instant::now(), [f64::INFINITY; 3], 0);
    let mut before = contestant.statistics();
    loop {
        contestant.run(0)?;
        let after = contestant.statistics();
        let nodes = after.nodes - before.nodes;
        let times = [
            after.construct - before.construct,
            after.schedule - before.schedule,
            after.plan - before.plan,
        ];
        for (best, time) in best.iter_mut().zip(times) {
            *best = best.min(time.as_secs_f64() * 1e9 / nodes as f64);
        }
        repetitions += 1;
        if repetitions == MAX_REPETITIONS || began.elapsed().as_secs_f64() > MAX_SECONDS {
            let batches = (after.batches - before.batches) as usize;
            let (schedule, nodes) = (best[1] * nodes as f64 / 1e9, nodes as usize);
            return Ok(Growth {
                construct_ns_per_node: Some(best[0]),
                plan_ns_per_node: Some(best[2]),
                ..record(family, "engine", nodes, batches, schedule, repetitions)
            });
        }
        before = after;
    }
}

fn record(
    family: &Family,
    policy: &str,
    nodes: usize,
    batches: usize,
    seconds: f64,
    repetitions: usize,
) -> Growth {
    Growth {
        model: family.model.into(),
        input: family.input.into(),
        policy: policy.into(),
        nodes,
        batches,
        schedule_ns_per_node: seconds * 1e9 / nodes as f64,
        repetitions,
        ..Growth::default()
    }
}
