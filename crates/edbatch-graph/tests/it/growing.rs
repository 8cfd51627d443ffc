//! A graph that grows while it runs: what was computed is carried into the next graph.

use edbatch_graph::{Dag, Graph, NodeId, Source};

use crate::dags::network;

#[test]
fn run_clear_give_and_call_on() {
    let (network, [leaf, pair, any], start) = network();
    let mut graph = Graph::new(network);
    let record = graph.record_of(start).unwrap();

    // The first graph: two states, of which the later steps need the last.
    let x = graph.call(leaf, &[1], &[]).unwrap();
    let last = graph.call(pair, &[], &[start, x]).unwrap();
    assert_eq!(graph.to_string(), "n0 = leaf(#1)\nn1 = pair(g0, n0)\n");
    assert_eq!(graph.record_of(last), Some(record));

    // It has run. Its values are gone with it, but for the one that is given to the next graph.
    graph.clear();
    assert_eq!(graph.nodes(), 0);
    assert_eq!(graph.given(), &[record], "the initial value stays");
    let error = graph.call(pair, &[], &[start, last]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "call of pair: right: expected a value of this graph, got Node(NodeId(1)); a value that \
         is used after an await must be carried across it"
    );
    let carried = graph.give(record);
    assert_eq!(carried.source(), Source::Given(1));

    let y = graph.call(leaf, &[2], &[]).unwrap();
    graph.call(pair, &[], &[carried, y]).unwrap();
    graph.call(any, &[], &[start, carried, y]).unwrap();
    assert_eq!(graph.to_string(), "n0 = leaf(#2)\nn1 = pair(g1, n0)\nn2 = any(g0, g1, n0)\n");
    // Given values are no nodes: nothing waits for them.
    assert_eq!(graph.arguments(NodeId(1)).collect::<Vec<_>>(), [NodeId(0)]);

    // And once more: what was carried is forgotten, what is initial stays.
    graph.clear();
    assert_eq!(graph.given(), &[record]);
    assert!(graph.call(any, &[], &[carried]).is_err());
    assert!(graph.call(any, &[], &[start]).is_ok());
}

/// Its number is that of another value by then: only builds with debug assertions tell.
#[test]
#[cfg(debug_assertions)]
fn a_value_of_cleared_contents_is_refused_though_its_number_is_taken() {
    let (network, [leaf, pair, _], start) = network();
    let mut graph = Graph::new(network);
    let stale = graph.call(leaf, &[1], &[]).unwrap();
    let given = graph.give(graph.record_of(start).unwrap());
    graph.clear();
    let fresh = graph.call(leaf, &[2], &[]).unwrap();
    graph.give(graph.record_of(start).unwrap());
    assert_eq!(stale, fresh, "values are equal by what they name");
    assert_eq!((graph.record_of(stale), graph.record_of(given)), (None, None));
    assert!(graph.call(pair, &[], &[start, stale]).is_err());
    assert!(graph.call(pair, &[], &[given, fresh]).is_err());
    assert!(graph.call(pair, &[], &[start, fresh]).is_ok());
    assert!(graph.call(pair, &[], &[start, NodeId(0).into()]).is_ok(), "by its number, on purpose");
}

#[test]
#[should_panic(expected = "a record of the graph's network")]
fn a_record_of_another_network_cannot_be_given() {
    Graph::new(network().0).give(edbatch_graph::RecordId(7));
}
