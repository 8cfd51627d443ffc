//! A graph that grows while it runs: computed values are carried into the next graph.

use edbatch_graph::{Dag, Graph, NodeId, Source};

use crate::dags::network;

#[test]
fn values_are_carried_into_a_cleared_graph() {
    let (network, [leaf, pair, any], start) = network();
    let mut graph = Graph::new(network);
    let record = graph.record_of(start).unwrap();

    // The first graph computes two states. Later steps need the last one.
    let x = graph.call(leaf, &[1], &[]).unwrap();
    let last = graph.call(pair, &[], &[start, x]).unwrap();
    assert_eq!(graph.to_string(), "n0 = leaf(#1)\nn1 = pair(g0, n0)\n");
    assert_eq!(graph.record_of(last), Some(record));

    // After it has run, its values are gone, except the one that is given to the next graph.
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
    // Given values are not arguments in the DAG.
    assert_eq!(graph.arguments(NodeId(1)).collect::<Vec<_>>(), [NodeId(0)]);

    // Clearing removes carried values, but not initial values.
    graph.clear();
    assert_eq!(graph.given(), &[record]);
    assert!(graph.call(any, &[], &[carried]).is_err());
    assert!(graph.call(any, &[], &[start]).is_ok());
}

/// Another value has the same index: in the next six graphs, and in a graph of one's own.
#[test]
fn a_stale_value_is_an_error_even_if_its_index_is_in_use() {
    let (network, [leaf, pair, _], start) = network();
    let mut graph = Graph::new(network.clone());
    let stale = graph.call(leaf, &[1], &[]).unwrap();
    let given = graph.give(graph.record_of(start).unwrap());
    let mut others = [Graph::new(network), graph.clone()];
    for clears in 1..=7 {
        graph.clear();
        let fresh = graph.call(leaf, &[2], &[]).unwrap();
        graph.give(graph.record_of(start).unwrap());
        assert_eq!(stale, fresh, "values with the same source are equal");
        let known = (clears % 7 == 0).then_some(graph.record_of(fresh).unwrap());
        assert_eq!((graph.record_of(stale), graph.record_of(given)), (known, known), "{clears}");
        assert_eq!(graph.call(pair, &[], &[start, stale]).is_ok(), known.is_some());
        assert_eq!(graph.call(pair, &[], &[given, fresh]).is_ok(), known.is_some());
        assert!(graph.call(pair, &[], &[start, fresh]).is_ok());
        assert!(graph.call(pair, &[], &[start, NodeId(0).into()]).is_ok(), "a value by its node");
    }
    for (other, clone) in others.iter_mut().zip([false, true]) {
        other.call(leaf, &[2], &[]).unwrap();
        assert_eq!(other.record_of(stale).is_some(), clone);
    }
}

#[test]
#[should_panic(expected = "a record of the graph's network")]
fn a_record_of_another_network_cannot_be_given() {
    Graph::new(network().0).give(edbatch_graph::RecordId(7));
}
