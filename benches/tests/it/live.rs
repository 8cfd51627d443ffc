//! Live memory of small graphs, counted by hand.

use std::sync::Arc;

use edbatch_benches::measure::live::live_bytes;
use edbatch_graph::{Graph, Kind, Network, NodeId, Schedule, Shape, Value};

/// A record with two fields of 10 and 1 elements. One cell reads no record, one reads the first
/// field, one reads both.
fn network() -> (Arc<Network>, [Kind; 3]) {
    let mut network = Network::new();
    let state =
        network.record("state", [("h", Shape::Vector(10)), ("c", Shape::Vector(1))]).unwrap();
    let leaf = network.cell("leaf", state, |cell| {
        vec![cell.lookup("token", "h", &[4, 10]).tanh(), cell.lookup("token", "c", &[4, 1]).tanh()]
    });
    let first = network.cell("first", state, |cell| {
        let [h, _] = cell.one("from", state);
        vec![h.tanh(), cell.constant(1.0, Shape::Vector(1))]
    });
    let both = network.cell("both", state, |cell| {
        let [h, c] = cell.one("from", state);
        vec![h.tanh(), c.tanh()]
    });
    let kinds = [leaf.unwrap(), first.unwrap(), both.unwrap()];
    (Arc::new(network), kinds)
}

fn check(graph: &Graph, batches: &[&[u32]], wanted: &[Value], elements: u64) {
    let mut schedule = Schedule::new();
    for nodes in batches {
        let nodes: Vec<_> = nodes.iter().map(|&node| NodeId(node)).collect();
        schedule.push(edbatch_graph::Dag::kind(graph, nodes[0]), &nodes);
    }
    schedule.check(graph).unwrap();
    assert_eq!(live_bytes(graph, &schedule, wanted), 4 * elements);
}

#[test]
fn a_chain_holds_its_operand_and_its_result() {
    let (network, [leaf, first, both]) = network();
    // A field without readers is live while it is written, but not while the other field is read.
    for (next, elements) in [(both, 11 + 11), (first, 10 + 11)] {
        let mut graph = Graph::new(network.clone());
        let mut value = graph.call(leaf, &[0, 0], &[]).unwrap();
        for _ in 0..3 {
            value = graph.call(next, &[], &[value]).unwrap();
        }
        check(&graph, &[&[0], &[1], &[2], &[3]], &[value], elements);
    }
}

#[test]
fn wanted_values_live_to_the_end() {
    let (network, [leaf, _, both]) = network();
    let mut graph = Graph::new(network);
    let a = graph.call(leaf, &[0, 0], &[]).unwrap();
    let b = graph.call(leaf, &[1, 1], &[]).unwrap();
    let c = graph.call(both, &[], &[a]).unwrap();
    let d = graph.call(both, &[], &[c]).unwrap();
    // When c runs: a, b and c. When d runs: b, c and d, and also a if it is wanted.
    check(&graph, &[&[0, 1], &[2], &[3]], &[b, d], 3 * 11);
    check(&graph, &[&[0, 1], &[2], &[3]], &[a, b, d], 4 * 11);
}

#[test]
fn live_memory_depends_on_the_schedule() {
    let (network, [leaf, _, both]) = network();
    let mut graph = Graph::new(network);
    let a = graph.call(leaf, &[0, 0], &[]).unwrap();
    let b = graph.call(leaf, &[1, 1], &[]).unwrap();
    graph.call(both, &[], &[a]).unwrap();
    graph.call(both, &[], &[b]).unwrap();
    check(&graph, &[&[0, 1], &[2, 3]], &[], 4 * 11);
    check(&graph, &[&[0], &[2], &[1], &[3]], &[], 2 * 11);
}

#[test]
fn carried_values_count_but_initial_values_do_not() {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(7))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let next = network
        .cell("next", state, |cell| {
            let [h] = cell.one("from", state);
            vec![h.tanh()]
        })
        .unwrap();
    let mut graph = Graph::new(Arc::new(network));
    let a = graph.call(next, &[], &[start]).unwrap();
    check(&graph, &[&[0]], &[a], 7);
    let carried = graph.give(state);
    graph.call(next, &[], &[carried]).unwrap();
    check(&graph, &[&[0], &[1]], &[a], 3 * 7);
}
