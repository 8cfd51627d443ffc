//! The texts of errors of graphs as arrays.

use edbatch_graph::Kind;
use edbatch_models::{Feature, GraphCell, GraphEmit, Graphs};

use super::graphs::network;

fn refused<'a>(expected: &str, change: impl FnOnce(&mut Graphs<'a>)) {
    let network = network();
    // node, word, leaf, pair
    let cells: Vec<_> = (0..4).map(|kind| GraphCell::new(&network, Kind(kind))).collect();
    let mut graphs: Graphs<'a> = Graphs {
        cells: cells.leak(),
        kinds: &[0, 0, 0, 0],
        edges: [&[0, 1, 2], &[2, 2, 3]],
        features: &[Feature { port: "x", rows: Some((&[4, 2], &[0.5; 8])) }],
        absent: Some(-1),
        ..Graphs::default()
    };
    assert!(graphs.call_lists(&network).is_ok());
    change(&mut graphs);
    assert_eq!(graphs.call_lists(&network).unwrap_err().to_string(), expected);
}

#[test]
fn cycles_are_named() {
    let cycle: [&[i64]; 2] = [&[0, 1, 3, 2], &[1, 3, 2, 1]];
    refused("graph 0: cycle: 1 → 3 → 2 → 1", |graphs| graphs.edges = cycle);
    refused("graph 0: cycle: 1 → 3 → 2 → 1", |graphs| {
        graphs.edges = cycle;
        graphs.reverse = true;
    });
    refused("graph 0: cycle: 3 → 3", |graphs| graphs.edges = [&[3], &[3]]);
    // Also if a node does not fit: 0 lacks `absent`.
    refused("graph 0: cycle: 1 → 3 → 2 → 1", |graphs| {
        graphs.edges = cycle;
        graphs.absent = None;
    });
    refused("graph 1: cycle: 2 → 3 → 2", |graphs| {
        graphs.edges = [&[0, 2, 3], &[1, 3, 2]];
        graphs.ptr = Some(&[0, 2, 4]);
    });
    let (ring, next): (Vec<i64>, Vec<i64>) = (0..11).map(|node| (node, (node + 1) % 11)).unzip();
    refused(
        "graph 0: cycle: 0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → 8 → 9 → …",
        |graphs| {
            graphs.kinds = &[0; 11];
            graphs.edges = [ring.leak(), next.leak()];
            graphs.features = &[];
        },
    );
}

#[test]
fn numbers_are_checked() {
    refused("edge 1: node 4 does not exist: expected a number below 4", |graphs| {
        graphs.edges = [&[0, 1], &[1, 4]];
    });
    refused("edge 0: node -1 does not exist: expected a number below 4", |graphs| {
        graphs.edges = [&[-1], &[9]];
        graphs.reverse = true;
    });
    let between = [&[0, 0, 2][..], &[1, 1, 3]];
    refused("edge 2: nodes 2 and 3 are in graphs 0 and 1", |graphs| {
        graphs.edges = between;
        graphs.ptr = Some(&[0, 3, 4]);
    });
    refused("edge 2: nodes 2 and 3 are in graphs 0 and 1", |graphs| {
        graphs.edges = between;
        graphs.ptr = Some(&[0, 3, 4]);
        graphs.reverse = true;
    });
    refused("node 3: kind 4 does not exist: expected a number below 4", |graphs| {
        graphs.kinds = &[0, 0, 0, 4];
    });
    refused("emit: node 7 does not exist: expected a number below 4", |graphs| {
        graphs.emit = GraphEmit::Nodes(&[0, 7]);
    });
    refused("emit: expected 4 entries, got 1", |graphs| graphs.emit = GraphEmit::Mask(&[true]));
    let text = "ptr: expected ascending numbers from 0 to 4, the number of nodes";
    for ptr in [&[][..], &[0], &[0, 3], &[1, 4], &[0, 5, 4], &[0, -1, 4]] {
        refused(text, |graphs| graphs.ptr = Some(ptr));
    }
    let text = "edges: expected an array of shape [2, edges], got 1 sources and 2 targets";
    refused(text, |graphs| graphs.edges = [&[0], &[1, 2]]);
}

#[test]
fn predecessors_and_rows_are_checked() {
    refused("node 2: cell pair has 2 ports for predecessors (first, second), got 1", |graphs| {
        graphs.kinds = &[0, 0, 3, 0];
        graphs.edges = [&[0], &[2]];
    });
    refused("node 2: cell leaf has no ports for predecessors, got 2", |graphs| {
        graphs.kinds = &[0, 0, 2, 0];
    });
    let text = "node 0: cell node has no predecessors: give `absent`, an initial value for its \
                port rest";
    refused(text, |graphs| graphs.absent = None);
    for number in [0, -2, i64::MIN] {
        let text = format!("absent: expected an initial value, got {number}");
        refused(&text, |graphs| graphs.absent = Some(number));
    }
    let text = "node 1: cell word reads the tables ['row'], but there are no rows";
    refused(text, |graphs| graphs.kinds = &[0, 1, 0, 0]);
    refused("rows: expected 4 rows, got 3", |graphs| graphs.rows = Some((1, &[0, 0, 0])));
    let text = "node 1: call of word: row: row 9 does not exist: the table has 7";
    refused(text, |graphs| {
        graphs.kinds = &[0, 1, 0, 0];
        graphs.rows = Some((1, &[0, 9, 0, 0]));
    });
    let text = "node 1: call of word: row -2 does not exist: expected a number from 0, below 2^32";
    refused(text, |graphs| {
        graphs.kinds = &[0, 1, 0, 0];
        graphs.rows = Some((1, &[0, -2, 0, 0]));
    });
}

#[test]
fn features_are_checked() {
    let feature = |port, shape: &'static [usize]| {
        let rows = Some((shape, &[0.0; 64][..shape.iter().product()]));
        &*vec![Feature { port, rows }].leak()
    };
    refused("features x: expected 4 rows, got 3", |graphs| graphs.features = feature("x", &[3, 2]));
    for (shape, text) in [(&[4, 3][..], "[4, 3]"), (&[4], "[4]"), (&[4, 2, 1], "[4, 2, 1]")] {
        let text = format!(
            "features x: expected rows of 2 elements, as record x has, got an array of \
             shape {text}"
        );
        refused(&text, |graphs| graphs.features = feature("x", shape));
    }
    refused("features y: no cell has a port y", |graphs| graphs.features = feature("y", &[4, 2]));
    let twice = [Feature { port: "x", rows: None }; 2];
    let text =
        "features: x and x are None and have one record, x: expected elements for one of them";
    refused(text, |graphs| graphs.features = &twice);
}

#[test]
fn options_of_edges_need_cells() {
    let network = network();
    let edges: Vec<_> = (5..7).map(|kind| GraphCell::new(&network, Kind(kind))).collect();
    refused("edge_cells: expected cells for edge_rows, got none", |graphs| {
        graphs.edge_rows = Some((1, &[0, 0, 0]));
    });
    refused("edge_kinds: expected 3 entries, got 2", |graphs| {
        graphs.edge_cells = &edges;
        graphs.edge_kinds = &[0, 0];
    });
    refused("edge 1: kind 5 does not exist: expected a number below 2", |graphs| {
        graphs.edge_cells = &edges;
        graphs.edge_kinds = &[0, 5, 0];
    });
    let text = "edge_cells: cell edged: expected one port for values that are no features, got 2 \
                (value, e)";
    refused(text, |graphs| {
        graphs.edge_cells = &edges;
        graphs.edge_kinds = &[0, 1, 0];
    });
    let text = "edge 0: cell typed reads the tables ['row'], but there are no rows";
    refused(text, |graphs| {
        graphs.edge_cells = &edges[1..];
        graphs.edge_kinds = &[0, 0, 0];
    });
    let mut traced = GraphCell::new(&network, Kind(0));
    traced.each = Some(Kind(6));
    let traced = [traced];
    let text = "edge_cells: expected none: the traced cell node has a cell of its own for edges";
    refused(text, |graphs| {
        graphs.cells = &traced;
        graphs.edge_cells = &edges[1..];
        graphs.edge_kinds = &[0, 0, 0];
    });
    let text = "readout: cell pair: expected one port for values that are no features, got 2 \
                (first, second)";
    let pair = GraphCell::new(&network, Kind(3));
    refused(text, |graphs| graphs.readout = Some(&pair));
}
