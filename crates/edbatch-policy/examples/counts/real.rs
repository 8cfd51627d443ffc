//! Graphs of real inputs, with minimal readers.

use std::io::Read;
use std::path::Path;

use edbatch_graph::{Dag, Kind, NodeId, PlainDag};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// A workload: graphs of single instances, to learn on and to measure on.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) train: Vec<PlainDag>,
    pub(crate) test: Vec<PlainDag>,
}

/// All workloads. `shared` is the folder of the shared data.
pub(crate) fn workloads(shared: &Path) -> Vec<Workload> {
    let data = shared.join("datasets");
    let read = |path: &str| text(&data.join(path));
    let trees = |path: &str| -> Vec<PlainDag> {
        read(path).lines().enumerate().map(|(n, line)| tree(line, n as u64)).collect()
    };
    let newswire = |name: &'static str, graph: fn(&Arcs) -> PlainDag| {
        let graphs = |path| arc_file(&read(path)).iter().map(graph).collect();
        Workload {
            name,
            train: graphs("newswire/train.arcs.txt.gz"),
            test: graphs("newswire/test.arcs.txt.gz"),
        }
    };
    vec![
        Workload {
            name: "two-type",
            train: trees("sst/train.txt.gz"),
            test: trees("sst/test.txt.gz"),
        },
        newswire("newswire", lattice),
        newswire("summed", summed_lattice),
    ]
}

/// `count` random mini-batches of `size` instances. An instance is drawn again only after all
/// others.
pub(crate) fn mini_batches(
    instances: &[PlainDag],
    size: usize,
    count: usize,
    seed: u64,
) -> Vec<PlainDag> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut deck: Vec<&PlainDag> = Vec::new();
    let mut batch = || {
        if deck.len() < size {
            deck = instances.iter().collect();
            for last in (1..deck.len()).rev() {
                deck.swap(last, rng.random_range(0..=last));
            }
        }
        mini_batch(&deck.split_off(deck.len() - size))
    };
    (0..count).map(|_| batch()).collect()
}

/// The disjoint union of several graphs.
fn mini_batch(graphs: &[&PlainDag]) -> PlainDag {
    let mut all = PlainDag::new(graphs[0].kind_names().to_vec());
    for graph in graphs {
        let offset = all.nodes();
        for node in (0..graph.nodes()).map(NodeId::new) {
            let arguments: Vec<_> =
                graph.arguments(node).map(|a| NodeId::new(a.index() + offset)).collect();
            all.push(graph.kind(node), &arguments).unwrap();
        }
    }
    all
}

/// Parses `(label left right)` or `(label token)`, instance `n` of its file. Inner nodes have two
/// kinds.
fn tree(line: &str, n: u64) -> PlainDag {
    let mut dag = PlainDag::new(["leaf", "node0", "node1", "output"]);
    // The children so far, for each open bracket.
    let mut open: Vec<Vec<NodeId>> = Vec::new();
    let mut post_order = Vec::new();
    for byte in line.bytes() {
        match byte {
            b'(' => open.push(Vec::new()),
            b')' => {
                let children = open.pop().unwrap();
                let k = post_order.len() as u64;
                let inner = 1 + (splitmix64(n << 32 | k) & 1) as u16;
                let kind = if children.is_empty() { 0 } else { inner };
                let node = dag.push(Kind(kind), &children).unwrap();
                post_order.push(node);
                if let Some(parent) = open.last_mut() {
                    parent.push(node);
                }
            }
            _ => {}
        }
    }
    for node in post_order {
        dag.push(Kind(3), &[node]).unwrap();
    }
    dag
}

fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// For each state from 1 on, the states in which its arcs start. An arc from the previous state is
/// a character.
type Arcs = Vec<Vec<usize>>;

/// Sums of arcs are part of the nodes that read them.
fn lattice(arcs: &Arcs) -> PlainDag {
    let mut dag = PlainDag::new(["char", "word", "output"]);
    let mut into: Vec<Vec<NodeId>> = vec![Vec::new()];
    for (before, starts) in arcs.iter().enumerate() {
        let nodes: Vec<_> = starts
            .iter()
            .map(|&start| {
                let kind = Kind(u16::from(start != before));
                dag.push(kind, &into[start]).unwrap()
            })
            .collect();
        into.push(nodes);
    }
    for arcs in &into[1..] {
        dag.push(Kind(2), arcs).unwrap();
    }
    dag
}

/// The sum of several arcs is a node, as in the authors' program.
fn summed_lattice(arcs: &Arcs) -> PlainDag {
    let mut dag = PlainDag::new(["char", "word", "sum", "output"]);
    let mut states: Vec<Option<NodeId>> = vec![None];
    for (before, starts) in arcs.iter().enumerate() {
        let arc = |&start: &usize| {
            dag.push(Kind(u16::from(start != before)), states[start].as_slice()).unwrap()
        };
        let into: Vec<NodeId> = starts.iter().map(arc).collect();
        let state = if let [only] = into[..] { only } else { dag.push(Kind(2), &into).unwrap() };
        states.push(Some(state));
    }
    for state in states.into_iter().flatten() {
        dag.push(Kind(3), &[state]).unwrap();
    }
    dag
}

/// Parses the number of instances; then for each instance its number of states, a label for each
/// state, and the arcs into each state as `k (from id)×k`.
fn arc_file(text: &str) -> Vec<Arcs> {
    let numbers = text.split_ascii_whitespace();
    let mut numbers = numbers.map(|number| number.parse::<usize>().unwrap());
    let mut next = || numbers.next().unwrap();
    let mut instances = Vec::new();
    for _ in 0..next() {
        let states = next();
        for _ in 0..states {
            next();
        }
        let mut arcs = Vec::new();
        for _ in 0..states {
            let count = next();
            arcs.push((0..count).map(|_| (next(), next()).0).collect());
        }
        // State 0 has no arcs.
        arcs.remove(0);
        instances.push(arcs);
    }
    instances
}

fn text(path: &Path) -> String {
    let file =
        std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}
