//! Time to make the call list of a graph, for each edge: random graphs with two edges a node, and a
//! chain. `cargo bench -p edbatch-models --bench graphs`

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use edbatch_graph::{Network, Shape};
use edbatch_models::{GraphCell, Graphs};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const NODES: usize = 50_000;

fn graphs(criterion: &mut Criterion) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(2))]).expect("a new record");
    network.initial(state, &["absent"]).expect("a new parameter");
    let cell = network.cell("node", state, |cell| cell.many("rest", state).sum::<1>().into());
    let cells = [GraphCell::new(&network, cell.expect("a new cell"))];
    let network = Arc::new(network);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    // Half of the predecessors are near, so that graphs are deep.
    let near = (1..NODES).map(|node| (node.saturating_sub(8), node));
    let far = (1..NODES).map(|node| (rng.random_range(0..node), node));
    let edges: Vec<(i64, i64)> =
        near.zip(far).flat_map(|ends| [ends.0, ends.1]).map(|e| (e.0 as i64, e.1 as i64)).collect();
    let chain = (1..NODES as i64).map(|node| (node - 1, node)).collect();
    for (name, edges) in [("two edges a node", edges), ("chain", chain)] {
        let (from, to): (Vec<i64>, Vec<i64>) = edges.into_iter().unzip();
        let graphs = Graphs {
            cells: &cells,
            kinds: &[0; NODES],
            edges: [&from, &to],
            absent: Some(-1),
            ..Graphs::default()
        };
        let mut group = criterion.benchmark_group("graphs");
        group.throughput(Throughput::Elements(from.len() as u64));
        group.bench_function(name, |bencher| bencher.iter(|| graphs.call_lists(&network)));
    }
}

criterion_group!(benches, graphs);
criterion_main!(benches);
