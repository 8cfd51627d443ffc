//! Shared by the tests: random and published graphs, and naive versions of the algorithms.

use std::io::Read;

use edbatch_graph::{Dag, Kind, NodeId, PlainDag, parse_text};
use proptest::prelude::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Graphs of at most `nodes` nodes and `kinds` kinds. A node has at most six arguments.
pub(crate) fn dags(nodes: usize, kinds: u16) -> impl Strategy<Value = PlainDag> {
    let node = (0..kinds, prop::collection::vec(any::<u32>(), 0..=6));
    prop::collection::vec(node, 0..=nodes).prop_map(move |nodes| {
        let mut dag = PlainDag::new((0..kinds).map(|kind| format!("kind {kind}")));
        for (kind, arguments) in nodes {
            let before = dag.nodes() as u64;
            // The high half of the product is uniform over the earlier nodes.
            let earlier = |a: u32| NodeId::new(((u64::from(a) * before) >> 32) as usize);
            let arguments: Vec<_> = arguments.into_iter().map(earlier).collect();
            let arguments = if before == 0 { &[][..] } else { &arguments };
            dag.push(Kind(kind), arguments).unwrap();
        }
        dag
    })
}

/// The nodes that have not run.
pub(crate) fn remaining(ran: &[bool]) -> impl Iterator<Item = NodeId> + '_ {
    (0..ran.len()).filter(|&v| !ran[v]).map(NodeId::new)
}

/// Returns true if a node has not run and all its arguments have.
pub(crate) fn is_ready(dag: &impl Dag, ran: &[bool], node: NodeId) -> bool {
    !ran[node.index()] && dag.arguments(node).all(|a| ran[a.index()])
}

/// The size of the frontier of every kind, by its definition.
pub(crate) fn kind_frontiers(dag: &impl Dag, ran: &[bool]) -> Vec<usize> {
    let mut kind_frontiers = vec![0; dag.kinds()];
    // The kinds of the remaining ancestors of each node, as a bit set.
    let mut above = vec![0_u64; dag.nodes()];
    for node in remaining(ran) {
        for a in dag.arguments(node).filter(|a| !ran[a.index()]) {
            above[node.index()] |= above[a.index()] | 1 << dag.kind(a).index();
        }
        let kind = dag.kind(node).index();
        kind_frontiers[kind] += usize::from(above[node.index()] & 1 << kind == 0);
    }
    kind_frontiers
}

/// A matrix of the kinds that read each other, directly or through others: `reads[a][b]` is true if
/// a reads b.
fn reads(dag: &impl Dag) -> Vec<Vec<bool>> {
    let kinds = dag.kinds();
    let mut reads = vec![vec![false; kinds]; kinds];
    for node in (0..dag.nodes()).map(NodeId::new) {
        for argument in dag.arguments(node) {
            reads[dag.kind(node).index()][dag.kind(argument).index()] = true;
        }
    }
    for by in 0..kinds {
        for a in 0..kinds {
            for b in 0..kinds {
                reads[a][b] |= reads[a][by] && reads[by][b];
            }
        }
    }
    reads
}

/// Returns true if no two kinds read each other.
pub(crate) fn kinds_have_an_order(dag: &impl Dag) -> bool {
    let (kinds, reads) = (dag.kinds(), reads(dag));
    (0..kinds).all(|a| (0..kinds).all(|b| a == b || !(reads[a][b] && reads[b][a])))
}

/// For each node, the number of nodes before it on the longest chain of its component of kinds.
pub(crate) fn levels_in_components(dag: &impl Dag) -> Vec<u32> {
    let reads = reads(dag);
    let same =
        |a: Kind, b: Kind| a == b || reads[a.index()][b.index()] && reads[b.index()][a.index()];
    let mut levels: Vec<u32> = Vec::new();
    for node in (0..dag.nodes()).map(NodeId::new) {
        let own = dag.arguments(node).filter(|&a| same(dag.kind(node), dag.kind(a)));
        let level = own.map(|argument| levels[argument.index()] + 1).max();
        levels.push(level.unwrap_or(0));
    }
    levels
}

/// For each node, the maximum number of nodes of its own kind on a path from it.
pub(crate) fn heights(dag: &impl Dag) -> Vec<u32> {
    let mut heights = vec![0; dag.nodes()];
    for kind in (0..dag.kinds()).map(Kind::new) {
        let mut max = vec![0; dag.nodes()];
        for node in (0..dag.nodes()).rev().map(NodeId::new) {
            if dag.kind(node) == kind {
                max[node.index()] += 1;
                heights[node.index()] = max[node.index()];
            }
            for a in dag.arguments(node) {
                max[a.index()] = max[a.index()].max(max[node.index()]);
            }
        }
    }
    heights
}

/// For each node, a power of its needs: the sum over the kinds of the maximum number of nodes on a
/// path from it, without the node itself.
pub(crate) fn urgencies(dag: &impl Dag, power: u32) -> Vec<f64> {
    let mut needs = vec![0_u64; dag.nodes()];
    for kind in (0..dag.kinds()).map(Kind::new) {
        let mut max = vec![0; dag.nodes()];
        for node in (0..dag.nodes()).rev().map(NodeId::new) {
            max[node.index()] += u64::from(dag.kind(node) == kind);
            needs[node.index()] += max[node.index()];
            for a in dag.arguments(node) {
                max[a.index()] = max[a.index()].max(max[node.index()]);
            }
        }
    }
    needs.into_iter().map(|need| ((need - 1) as f64).powi(power as i32)).collect()
}

/// `count` random binary trees of 20 leaves. The kinds are leaf, inner and output.
pub(crate) fn trees(seed: u64, count: usize) -> PlainDag {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut dag = PlainDag::new(["leaf", "inner", "output"]);
    for _ in 0..count {
        let mut roots: Vec<_> = (0..20).map(|_| dag.push(Kind(0), &[]).unwrap()).collect();
        while roots.len() > 1 {
            let left = rng.random_range(0..roots.len() - 1);
            let right = roots.remove(left + 1);
            roots[left] = dag.push(Kind(1), &[roots[left], right]).unwrap();
            dag.push(Kind(2), &[roots[left]]).unwrap();
        }
    }
    dag
}

/// `count` sentences of 10 to 40 characters. A word of 2 to 4 characters ends at every other one on
/// average. The kinds are char, word and output; sums are part of their readers.
pub(crate) fn lattices(seed: u64, count: usize) -> PlainDag {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut dag = PlainDag::new(["char", "word", "output"]);
    for _ in 0..count {
        let mut into: Vec<Vec<NodeId>> = vec![Vec::new()];
        for end in 1..=rng.random_range(10..=40) {
            let mut arcs = vec![dag.push(Kind(0), &into[end - 1]).unwrap()];
            if end >= 4 && rng.random() {
                let start = end - rng.random_range(2..=4);
                arcs.push(dag.push(Kind(1), &into[start]).unwrap());
            }
            dag.push(Kind(2), &arcs).unwrap();
            into.push(arcs);
        }
    }
    dag
}

/// Like [`lattices`], with more choices: words of 2, 3 and 4 characters have different kinds,
/// several words may end at the same character, and sums are nodes.
pub(crate) fn summed_lattices(seed: u64, count: usize) -> PlainDag {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut dag = PlainDag::new(["char", "word2", "word3", "word4", "sum", "output"]);
    for _ in 0..count {
        let mut states: Vec<NodeId> = vec![dag.push(Kind(0), &[]).unwrap()];
        for end in 1..=rng.random_range(10..=40) {
            let mut arcs = vec![dag.push(Kind(0), &[states[end - 1]]).unwrap()];
            for length in 2..=end.min(4) {
                if rng.random_range(0..3) == 0 {
                    arcs.push(dag.push(Kind(length as u16 - 1), &[states[end - length]]).unwrap());
                }
            }
            let state = if arcs.len() > 1 { dag.push(Kind(4), &arcs).unwrap() } else { arcs[0] };
            dag.push(Kind(5), &[state]).unwrap();
            states.push(state);
        }
    }
    dag
}

/// The graphs that the authors' program wrote, by file name.
pub(crate) fn published_graphs() -> Vec<(String, PlainDag)> {
    let Some(folder) = edbatch_testing::shared("datasets/graphs") else {
        return Vec::new();
    };
    let mut graphs = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        graphs.push((name, parse_text(&text).unwrap()));
    }
    graphs.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(graphs.len(), 28);
    graphs
}
