//! Graphs of up to 192,000 nodes in one input: `cargo bench -p edbatch --bench large_graphs`.
//!
//! A node of 64 elements sums two predecessors, multiplies by a matrix and takes tanh. One of them
//! is in the level before; so is the other in a *near* graph, while half of the other ones of a
//! *far* graph are anywhere before. All figures are in nanoseconds for a node, on one thread, and
//! medians of laps.

use std::sync::Arc;
use std::time::Instant;

use edbatch::models::{CallList, CallLists};
use edbatch::runtime::{Parameters, Rows};
use edbatch::{Engine, Trainer};
use edbatch_graph::{Kind, Network, Shape};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const LEAF: Kind = Kind(0);
const NODE: Kind = Kind(1);
const WIDTH: usize = 64;
const LAPS: usize = 9;

/// A graph of this number of levels and of nodes a level. Emits the last level, or all nodes.
fn graph(network: &Arc<Network>, levels: usize, width: usize, far: bool, all: bool) -> CallList {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut list = CallList::new(network.clone());
    let mut made = Vec::new();
    for level in 0..levels {
        for column in 0..width {
            let before = made.len() - column;
            let value = if level == 0 {
                list.call(LEAF, &[rng.random_range(0..100)], &[])
            } else {
                let last = before - width;
                let start = if far && rng.random_bool(0.5) { 0 } else { last };
                let other = rng.random_range(start..before);
                list.call(NODE, &[], &[made[last + column], made[other]])
            };
            made.push(value.expect("a valid call"));
        }
    }
    let start = if all { 0 } else { made.len() - width };
    made[start..].iter().for_each(|&value| list.emit(value).expect("a value of the list"));
    list
}

fn network() -> Arc<Network> {
    let mut network = Network::new();
    let shape = Shape::Vector(WIDTH as u32);
    let state = network.record("state", [("h", shape)]).expect("a record");
    let leaf = network.cell("leaf", state, |c| vec![c.lookup("token", "embed", &[100, WIDTH])]);
    let node = network.cell("node", state, |cell| {
        let [sum] = cell.many("predecessors", state).sum();
        vec![cell.parameter("w", &[WIDTH, WIDTH]).matmul(sum).tanh()]
    });
    assert_eq!((leaf, node), (Ok(LEAF), Ok(NODE)));
    Arc::new(network)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Returns the median nanoseconds for a node of each part of a lap. The first lap does not count.
fn measure<const N: usize>(nodes: usize, mut lap: impl FnMut() -> [f64; N]) -> [f64; N] {
    let laps: Vec<[f64; N]> = (0..=LAPS).map(|_| lap()).skip(1).collect();
    std::array::from_fn(|part| {
        median(laps.iter().map(|lap| lap[part] * 1e9 / nodes as f64).collect())
    })
}

fn main() {
    println!("| levels × width | | run | run, emit all | decide, forward | back | MB of arena |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    let network = network();
    let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let model = CallLists::new(network.clone());
    for (levels, width) in [(600, 8), (2_400, 80), (24_000, 8)] {
        for far in [false, true] {
            let nodes = levels * width;
            let [last, all] = [false, true].map(|all| [graph(&network, levels, width, far, all)]);
            let mut engine = Engine::new(model.clone(), parameters.clone()).expect("a model");
            let mut run = |lists: &[CallList; 1]| {
                measure(nodes, || {
                    let begun = Instant::now();
                    engine.run(lists).expect("enough memory");
                    [begun.elapsed().as_secs_f64()]
                })
            };
            let ([run_last], [run_all]) = (run(&last), run(&all));
            let arena = engine.statistics().arena_bytes as f64 / 1e6;
            let mut trainer = Trainer::new(model.clone(), parameters.clone()).expect("a model");
            let [forward, back] = measure(nodes, || {
                let begun = Instant::now();
                let rows = trainer.forward(&last).expect("enough memory");
                let forward = begun.elapsed().as_secs_f64();
                let mut gradients = Rows::new();
                rows[0].iter().for_each(|_| gradients.push(&[0.01; WIDTH]));
                let begun = Instant::now();
                trainer.backward(&[gradients]).expect("enough memory");
                [forward, begun.elapsed().as_secs_f64()]
            });
            println!(
                "| {levels} × {width} | {} | {run_last:.0} | {run_all:.0} | {forward:.0} | \
                 {back:.0} | {arena:.1} |",
                if far { "far" } else { "near" }
            );
        }
    }
}
