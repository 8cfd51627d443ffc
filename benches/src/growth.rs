//! The part `growth`: whether a node costs the same in graphs of a thousand nodes and of a million.
//!
//! Policies schedule the graph as a whole. The engine, the row that includes construction and
//! planning, runs it as it runs any mini-batch: in parts that suit the caches. Vectors are short,
//! so that a million of them fit in memory; none of these times depends on their length.

use std::time::Instant;

use edbatch_graph::{Dag, Schedule};
use edbatch_policy::{Agenda, Critical, Depth, Encoding, Frontier, Fsm, Policy};
use edbatch_policy::{Scheduler, schedule_into};

use crate::families::Family;
use crate::policies::Effort;
use crate::record::Growth;
use crate::systems::System;
use crate::throughput::weights;
use crate::workload::{Failure, MiniBatch, Part, Workload};

/// A tree, a chain and a lattice stand for all models: `model` of a [`Family`].
pub const GROWING: [&str; 3] = ["tree_lstm", "bilstm_tagger", "lattice_lstm"];

/// Nodes of the graphs, about.
const NODES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Elements of vectors.
const HIDDEN: usize = 8;
/// Instances from which the nodes of one are inferred.
const SAMPLED: usize = 64;
/// The most repetitions, and the seconds after which there is no further one.
const REPETITIONS: usize = 20;
const SECONDS: f64 = 0.15;

/// Measures one model on mini-batches of growing size.
///
/// # Errors
/// If the model cannot be declared, or a mini-batch cannot be run.
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

/// The policies that need no learning, on the graph as a whole.
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
    // What an engine asks by default: the order of the kinds where they have one.
    let mut scheduler = Scheduler::default();
    let (seconds, repetitions) = fastest(|| scheduler.schedule(graph, &mut schedule));
    records.push(record(family, "default", graph.nodes(), schedule.len(), seconds, repetitions));
    records
}

/// The seconds of the fastest repetition, and how many there were.
fn fastest(mut work: impl FnMut()) -> (f64, usize) {
    let (began, mut best) = (Instant::now(), f64::INFINITY);
    for repetition in 1..=REPETITIONS {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
        if began.elapsed().as_secs_f64() > SECONDS {
            return (best, repetition);
        }
    }
    (best, REPETITIONS)
}

/// The whole of ours, from inputs to plans.
fn engine(
    family: &Family,
    workload: &dyn Workload,
    mini_batch: MiniBatch,
) -> Result<Growth, Failure> {
    let parameters = weights(workload);
    let unlearned = Fsm::new(Encoding::Sort, workload.network().cells().len());
    let mut contestant =
        workload.contestant(System::Edbatch, &parameters, &unlearned, &[mini_batch], 1)?;
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
        if repetitions == REPETITIONS || began.elapsed().as_secs_f64() > SECONDS {
            return Ok(Growth {
                model: family.model.into(),
                input: family.input.into(),
                policy: "engine".into(),
                nodes: nodes as usize,
                batches: (after.batches - before.batches) as usize,
                schedule_ns_per_node: best[1],
                construct_ns_per_node: Some(best[0]),
                plan_ns_per_node: Some(best[2]),
                repetitions,
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
        construct_ns_per_node: None,
        plan_ns_per_node: None,
        repetitions,
    }
}
