//! Scheduling time per node, on graphs of four shapes and three sizes.
//!
//!     cargo bench -p edbatch-policy
//!     cargo bench -p edbatch-policy -- critical/1000000
//!
//! A run builds the frontier, starts the policy and schedules all batches, in memory that was used
//! for the graph before. It prints the time per node of a few runs, and a limit of 10 ns per node
//! and 5 ns per edge. Then criterion measures; its throughput is in nodes.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use edbatch_graph::{Dag, Kind, NodeId, PlainDag, Schedule};
use edbatch_policy::{
    Agenda, Critical, Depth, Encoding, Frontier, LearningConfig, LookAhead, PairRule, Scheduler,
    Sufficient, TrainingSet, learn,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const SIZES: [usize; 3] = [10_000, 100_000, 1_000_000];

type Shape = (&'static str, fn(usize) -> PlainDag);

const SHAPES: [Shape; 4] =
    [("tree", trees), ("chain", chains), ("lattice", lattices), ("deep", deep)];

fn benches(criterion: &mut Criterion) {
    for (shape, make) in SHAPES {
        for nodes in SIZES {
            let dag = make(nodes);
            let mut group = criterion.benchmark_group(shape);
            group.throughput(Throughput::Elements(dag.nodes() as u64)).sample_size(10);
            let mut frontier = Frontier::default();
            group.bench_function(BenchmarkId::new("frontier", nodes), |bencher| {
                bencher.iter(|| frontier.reset(&dag));
            });
            let edges: usize =
                (0..dag.nodes()).map(|v| dag.arguments(NodeId::new(v)).count()).sum();
            let limit = 10.0 + 5.0 * edges as f64 / dag.nodes() as f64;
            let mut schedule = Schedule::new();
            for (name, mut scheduler) in schedulers(&dag) {
                let mut run = || scheduler.schedule(&dag, &mut schedule);
                let first = fastest(&mut run).as_nanos() as f64 / dag.nodes() as f64;
                println!("{shape} {name} {nodes}: {first:.1} ns per node, limit {limit:.1}");
                group.bench_function(BenchmarkId::new(name, nodes), |bencher| {
                    bencher.iter(&mut run)
                });
            }
        }
    }
}

/// The minimum time of several runs. The first run allocates and is not counted.
fn fastest(run: &mut dyn FnMut()) -> Duration {
    run();
    let mut timed = || {
        let started = Instant::now();
        run();
        started.elapsed()
    };
    (0..10).map(|_| timed()).min().unwrap_or_default()
}

fn schedulers(dag: &PlainDag) -> Vec<(&'static str, Scheduler)> {
    // Without random choices and with a learning rate of 0, the table runs the smallest kind in
    // each state. It has all states that occur, so the fallback is not measured.
    let set = TrainingSet::new(std::slice::from_ref(dag), &[]).expect("a graph");
    let config =
        LearningConfig { episodes: 1, rate: 0.0, epsilon: 0.0, ..LearningConfig::default() };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let learned = learn(&set, Encoding::Sort, &config, &mut rng, |_| ());
    let fsm = learned.fsm(Encoding::Sort, dag.kinds());
    vec![
        ("default", Scheduler::default()),
        ("fsm-sort", Scheduler::by(Box::new(fsm))),
        ("critical", Scheduler::by(Box::new(Critical::new()))),
        ("critical:pair", Scheduler::by(Box::new(LookAhead::new(PairRule::pair())))),
        ("critical:soft", Scheduler::by(Box::new(LookAhead::new(PairRule::soft())))),
        ("sufficient", Scheduler::by(Box::new(Sufficient::new()))),
        ("agenda", Scheduler::by(Box::new(Agenda::new()))),
        ("depth", Scheduler::by(Box::new(Depth::new()))),
    ]
}

/// Random binary trees of 20 leaves. The kinds are leaf, inner and output.
fn trees(nodes: usize) -> PlainDag {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut dag = PlainDag::new(["leaf", "inner", "output"]);
    while dag.nodes() < nodes {
        let first = dag.nodes();
        let mut roots: Vec<_> = (0..20).map(|_| dag.push(Kind(0), &[]).unwrap()).collect();
        while roots.len() > 1 {
            let left = rng.random_range(0..roots.len() - 1);
            let right = roots.remove(left + 1);
            roots[left] = dag.push(Kind(1), &[roots[left], right]).unwrap();
        }
        for node in first..dag.nodes() {
            dag.push(Kind(2), &[NodeId::new(node)]).unwrap();
        }
    }
    dag
}

/// Two layers in each direction over sentences of 5 to 40 words.
fn chains(nodes: usize) -> PlainDag {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut dag = PlainDag::new(["fwd.0", "fwd.1", "bwd.0", "bwd.1", "output"]);
    while dag.nodes() < nodes {
        let words = rng.random_range(5..=40);
        let mut tops = Vec::new();
        for base in [0, 2] {
            let (mut below, mut top): (Option<NodeId>, Option<NodeId>) = (None, None);
            for _ in 0..words {
                below = Some(dag.push(Kind(base), below.as_slice()).unwrap());
                let arguments: Vec<_> = below.into_iter().chain(top).collect();
                top = Some(dag.push(Kind(base + 1), &arguments).unwrap());
                tops.extend(top);
            }
        }
        for word in 0..words {
            dag.push(Kind(4), &[tops[word], tops[2 * words - 1 - word]]).unwrap();
        }
    }
    dag
}

/// Sentences of 30 to 60 characters. A word ends at every other character on average.
fn lattices(nodes: usize) -> PlainDag {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut dag = PlainDag::new(["char", "word", "output"]);
    while dag.nodes() < nodes {
        let mut into: Vec<Vec<NodeId>> = vec![Vec::new()];
        for _ in 0..rng.random_range(30..=60) {
            let mut arcs = vec![dag.push(Kind(0), into.last().unwrap()).unwrap()];
            if into.len() > 4 && rng.random() {
                let start = into.len() - rng.random_range(2..=4);
                arcs.push(dag.push(Kind(1), &into[start]).unwrap());
            }
            into.push(arcs);
        }
        for arcs in &into[1..] {
            dag.push(Kind(2), arcs).unwrap();
        }
    }
    dag
}

/// A tree of maximum depth: a batch for every three nodes.
fn deep(nodes: usize) -> PlainDag {
    let mut dag = PlainDag::new(["leaf", "inner", "output"]);
    let mut root = dag.push(Kind(0), &[]).unwrap();
    while dag.nodes() < nodes {
        dag.push(Kind(2), &[root]).unwrap();
        let leaf = dag.push(Kind(0), &[]).unwrap();
        root = dag.push(Kind(1), &[root, leaf]).unwrap();
    }
    dag
}

criterion_group!(all, benches);
criterion_main!(all);
