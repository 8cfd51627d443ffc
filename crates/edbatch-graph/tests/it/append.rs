//! Appended graphs: the same calls as if they had been made one by one.

use std::sync::Arc;

use edbatch_graph::{CallErrorReason, Dag, Graph, Kind, Network, RecordId, Shape, Value};
use proptest::collection::vec;
use proptest::prelude::*;

const STATE: RecordId = RecordId(0);
const LEAF: Kind = Kind(0);
const NODE: Kind = Kind(1);

fn network() -> (Arc<Network>, Value) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
    network.record("other", [("h", Shape::Vector(2))]).unwrap();
    let initial = network.initial(state, &["h0"]).unwrap();
    network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[9, 2])]).unwrap();
    let node = network.cell("node", state, |cell| {
        let [sum] = cell.many("children", state).sum();
        vec![sum.tanh()]
    });
    node.unwrap();
    (Arc::new(network), initial)
}

/// A call of `node` with these values, counted from the first, or of `leaf` without values.
type Calls = Vec<Vec<usize>>;

/// Adds given values and calls. Returns all values.
fn add(graph: &mut Graph, mut values: Vec<Value>, given: usize, calls: &Calls) -> Vec<Value> {
    values.extend((0..given).map(|_| graph.give(STATE)));
    for call in calls {
        let arguments: Vec<Value> = call.iter().map(|&i| values[i % values.len()]).collect();
        values.push(match &arguments[..] {
            [] => graph.call(LEAF, &[(call.len() + values.len()) as u32 % 9], &[]).unwrap(),
            arguments => graph.call(NODE, &[], arguments).unwrap(),
        });
    }
    values
}

proptest! {
    #[test]
    fn appended_graphs_equal_calls_made_one_by_one(
        parts in vec((0..3_usize, 0..3_usize, vec(vec(0..99_usize, 0..4), 0..9)), 1..6),
    ) {
        let (network, initial) = network();
        let (mut appended, mut direct) = (Graph::new(network.clone()), Graph::new(network.clone()));
        let mut last = [vec![initial], vec![initial]];
        for (carried, given, calls) in parts {
            let carried = carried.min(last[0].len());
            let mut part = Graph::new(network.clone());
            let mut values = vec![initial];
            values.extend((0..carried).map(|_| part.give(STATE)));
            let values = add(&mut part, values, given, &calls);

            let first = last[0][last[0].len() - carried..].to_vec();
            let at = appended.append(&part, &first).unwrap();
            last[0] = values.iter().map(|&value| at.value(value)).collect();
            prop_assert!(last[0].iter().all(|&v| appended.record_of(v) == Some(STATE)));

            let mut values = vec![initial];
            values.extend_from_slice(&last[1][last[1].len() - carried..]);
            last[1] = add(&mut direct, values, given, &calls);
            prop_assert_eq!(&last[0], &last[1]);
        }
        prop_assert_eq!(appended.to_string(), direct.to_string());
        prop_assert!(appended == direct);
        // Values of an earlier generation are refused after the graph was cleared.
        appended.clear();
        for &value in last[0].iter().filter(|&&value| value != initial) {
            prop_assert!(appended.call(NODE, &[], &[value]).is_err());
        }
    }
}

#[test]
fn graphs_that_do_not_fit_are_errors() {
    let (network, initial) = network();
    let mut part = Graph::new(network.clone());
    let carried = part.give(STATE);
    part.call(NODE, &[], &[carried, initial]).unwrap();
    let mut graph = Graph::new(network.clone());
    let own = graph.give(STATE);
    let other = graph.give(RecordId(1));
    let check = |graph: &mut Graph, first: &[Value], expected: &str| {
        let error = graph.append(&part, first).map(drop).unwrap_err();
        assert_eq!(error.to_string(), format!("call of an appended graph: {expected}"));
        assert_eq!((graph.nodes(), graph.given().len()), (0, 3));
    };
    check(&mut graph, &[own, own], "expected 1 value, got 2");
    check(&mut graph, &[other], "value 0: expected a value of record state, got one of other");
    let stale = Graph::new(network.clone()).give(STATE);
    let error = graph.append(&part, &[stale]).map(drop);
    assert!(matches!(error.unwrap_err().reason, CallErrorReason::NotInGraph { .. }));

    let mut unlike = Network::new();
    unlike.record("state", [("h", Shape::Vector(3))]).unwrap();
    let error = Graph::new(Arc::new(unlike)).append(&part, &[]).map(drop).unwrap_err();
    assert_eq!(error.reason, CallErrorReason::OtherNetwork);
    // An equal network that was declared again counts as the same.
    let (again, _) = self::network();
    Graph::new(again).append(&part, &[]).unwrap();
}
