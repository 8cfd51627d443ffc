//! Random graphs and their properties.

use std::sync::Arc;

use edbatch_graph::{
    Arguments, Dag, Graph, Kind, Network, NodeId, PlainDag, Shape, Value, check_dag,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A random DAG with up to 40 nodes and 5 kinds; an argument may occur twice.
pub(crate) fn plain_dags() -> impl Strategy<Value = PlainDag> {
    let node = (any::<u32>(), vec(any::<u32>(), 0..7));
    (1u32..6, vec(node, 0..40)).prop_map(|(kinds, nodes)| {
        let mut dag = PlainDag::new((0..kinds).map(|kind| format!("kind {kind}")));
        for (v, (kind, arguments)) in nodes.into_iter().enumerate() {
            let earlier = arguments.into_iter().filter(|_| v > 0);
            let arguments: Vec<NodeId> = earlier.map(|a| NodeId(a % v as u32)).collect();
            dag.push(Kind((kind % kinds) as u16), &arguments).expect("an earlier node");
        }
        dag
    })
}

/// Three cells with an initial value: a leaf with a table, a pair with two ports, and one with a
/// port that takes any number of values.
pub(crate) fn network() -> (Arc<Network>, [Kind; 3], Value) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let leaf = network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[10, 2])]);
    let pair = network.cell("pair", state, |cell| {
        let [left] = cell.one("left", state);
        let [right] = cell.one("right", state);
        vec![left + right]
    });
    let any = network.cell("any", state, |cell| cell.many("all", state).sum::<1>().into());
    let kinds = [leaf.unwrap(), pair.unwrap(), any.unwrap()];
    (Arc::new(network), kinds, start)
}

/// A random graph of calls of this network's cells.
pub(crate) fn graphs() -> impl Strategy<Value = Graph> {
    let call = (0..3usize, 0..10u32, vec(any::<u32>(), 2..8));
    vec(call, 0..40).prop_map(|calls| {
        let (network, kinds, start) = network();
        let mut graph = Graph::new(network);
        let mut values = vec![start];
        for (cell, row, picks) in calls {
            let picked: Vec<Value> =
                picks.iter().map(|&pick| values[pick as usize % values.len()]).collect();
            let (rows, arguments) = match cell {
                0 => (&[row][..], &picked[..0]),
                1 => (&[][..], &picked[..2]),
                _ => (&[][..], &picked[..]),
            };
            values.push(graph.call(kinds[cell], rows, arguments).expect("it fits"));
        }
        graph
    })
}

/// Returns true if arrays contain all arguments, and five or more arguments are an iterator.
fn arrays_are_arguments(dag: &impl Dag) -> bool {
    (0..dag.nodes()).map(NodeId::new).all(|node| {
        let arguments: Vec<NodeId> = dag.arguments(node).collect();
        match dag.arguments(node).into_array() {
            Ok((array, count)) => array[..count] == arguments,
            Err(many) => arguments.len() < 5 || many.eq(arguments),
        }
    })
}

proptest! {
    #[test]
    fn up_to_four_arguments_are_an_array(dag in plain_dags(), graph in graphs()) {
        prop_assert!(arrays_are_arguments(&dag) && arrays_are_arguments(&&dag));
        prop_assert!(arrays_are_arguments(&graph));
    }

    /// Creates arguments from a slice and from an iterator. Also checks that they are fused.
    #[test]
    fn arguments_iterate_over_any_number(nodes in vec(any::<u32>().prop_map(NodeId), 0..9)) {
        for arguments in [Arguments::from(&nodes[..]), nodes.iter().copied().collect()] {
            prop_assert!(arguments.clone().eq(nodes.iter().copied()));
            match arguments.clone().into_array() {
                Ok((array, count)) => prop_assert_eq!(&array[..count], &nodes[..]),
                Err(many) => prop_assert!(nodes.len() > 4 && many.eq(nodes.iter().copied())),
            }
            let mut rest = arguments;
            for &node in &nodes {
                prop_assert_eq!(rest.next(), Some(node));
            }
            prop_assert_eq!((rest.next(), rest.next()), (None, None));
        }
    }

    #[test]
    fn a_started_iterator_is_not_an_array(nodes in vec(any::<u32>().prop_map(NodeId), 1..5)) {
        let mut arguments = Arguments::from(&nodes[..]);
        arguments.next();
        let rest = arguments.into_array().expect_err("one was returned");
        prop_assert!(rest.eq(nodes[1..].iter().copied()));
    }

    #[test]
    fn ids_are_a_topological_order(dag in plain_dags(), graph in graphs()) {
        prop_assert_eq!((check_dag(&dag), check_dag(&graph)), (Ok(()), Ok(())));
    }

    #[test]
    fn an_invalid_node_changes_nothing(dag in plain_dags(), ahead in 0u32..3) {
        let mut tried = dag.clone();
        let next = NodeId::new(dag.nodes());
        prop_assert!(tried.push(Kind(0), &[NodeId(next.0 + ahead)]).is_err());
        prop_assert!(tried.push(Kind::new(dag.kinds()), &[]).is_err());
        prop_assert_eq!(tried, dag);
    }
}

#[test]
fn invalid_nodes_are_errors() {
    let mut dag = PlainDag::new(["leaf"]);
    let unknown = dag.push(Kind(1), &[]).unwrap_err().to_string();
    assert_eq!(unknown, "node 0 has kind 1, which does not exist: the graph has 1 kinds");
    let itself = dag.push(Kind(0), &[NodeId(0)]).unwrap_err().to_string();
    assert_eq!(itself, "node 0 reads node 0, which does not precede it: arguments must come first");
}
