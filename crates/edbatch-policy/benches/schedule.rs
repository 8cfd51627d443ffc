//! Scheduling time a node, on three shapes and three sizes: is it linear?
//!
//!     cargo bench -p edbatch-policy
//!
//! A run is the whole of it: the frontier's build, the policy's, and every batch; in memory that
//! has seen the graph before. Throughput is in nodes; edges are as many on trees and chains, and
//! half as many again on lattices.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use edbatch_graph::{Dag, Kind, NodeId, PlainDag, Schedule};
use edbatch_policy::{
    Agenda, Critical, Depth, Frontier, Named, Policy, Sufficient, distill, schedule_into,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

fn benches(criterion: &mut Criterion) {
    for (shape, make) in
        [("tree", trees as fn(usize) -> PlainDag), ("chain", chains), ("lattice", lattices)]
    {
        let small = [make(5_000)];
        let teach = |encoding: Named| {
            distill(&small, &small, &encoding, &mut Critical::new()).fsm(encoding, small[0].kinds())
        };
        let mut policies: Vec<(&str, Box<dyn Policy>)> = vec![
            ("fsm-sort", Box::new(teach(Named::Sort))),
            ("critical", Box::new(Critical::new())),
            ("sufficient", Box::new(Sufficient::new())),
            ("agenda", Box::new(Agenda::new())),
            ("depth", Box::new(Depth::new())),
        ];
        for nodes in [10_000, 100_000, 1_000_000] {
            let dag = make(nodes);
            let mut group = criterion.benchmark_group(shape);
            group.throughput(Throughput::Elements(dag.nodes() as u64)).sample_size(10);
            let mut frontier = Frontier::default();
            let mut schedule = Schedule::new();
            group.bench_function(BenchmarkId::new("frontier", nodes), |bencher| {
                bencher.iter(|| frontier.reset(&dag));
            });
            for (name, policy) in &mut policies {
                group.bench_function(BenchmarkId::new(*name, nodes), |bencher| {
                    bencher
                        .iter(|| schedule_into(&dag, &mut **policy, &mut frontier, &mut schedule));
                });
            }
        }
    }
}

/// Random binary trees of 20 leaves: kinds leaf, inner, output.
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

/// Two layers each way over sentences of 5 to 40 words.
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

/// Sentences of 30 to 60 characters, a word ending at every other one.
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

criterion_group!(all, benches);
criterion_main!(all);
