//! Graphs as arrays are the call lists that a naive program wires.

use std::sync::Arc;

use edbatch_graph::{Kind, Network, RecordId, Shape, Value};
use edbatch_models::{CallList, Feature, GraphCell, GraphEmit, Graphs};
use edbatch_testing::cases;
use proptest::prelude::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

pub(crate) const X: RecordId = RecordId(0);
pub(crate) const EDGE: RecordId = RecordId(1);
const NODE: Kind = Kind(0);
const WORD: Kind = Kind(1);
const LEAF: Kind = Kind(2);
const PAIR: Kind = Kind(3);
const MIXED: Kind = Kind(4);
const EDGED: Kind = Kind(5);
const TYPED: Kind = Kind(6);
const SCORE: Kind = Kind(7);
const POOL: Kind = Kind(8);

/// Cells with every combination of tables, features, and ports for predecessors.
pub(crate) fn network() -> Arc<Network> {
    let mut network = Network::new();
    let [x, edge, state] = [("x", 2), ("edge", 3), ("state", 2)]
        .map(|(name, width)| network.record(name, [("v", Shape::Vector(width))]).unwrap());
    assert_eq!([x, edge], [X, EDGE]);
    network.initial(state, &["absent"]).unwrap();
    let mut cell = |name: &str, table: bool, ones: &[(&str, RecordId)], many: bool| {
        let declared = network.cell(name, state, |cell| {
            let mut sum = cell.constant(0.0, Shape::Vector(2));
            if table {
                sum = sum + cell.lookup("row", "rows", &[7, 2]);
            }
            for &(port, record) in ones {
                let [value] = cell.one(port, record);
                if record != edge {
                    sum = sum + value;
                }
            }
            if many {
                let [all] = cell.many("rest", state).sum();
                sum = sum + all;
            }
            vec![sum]
        });
        declared.unwrap();
    };
    cell("node", false, &[("x", x)], true);
    cell("word", true, &[], true);
    cell("leaf", false, &[("x", x)], false);
    cell("pair", false, &[("first", state), ("second", state)], false);
    cell("mixed", true, &[("first", state), ("x", x)], true);
    cell("edged", false, &[("value", state), ("e", edge), ("x", x)], false);
    cell("typed", true, &[("value", state)], false);
    cell("score", false, &[("state", state)], false);
    cell("pool", false, &[], true);
    Arc::new(network)
}

/// Arrays that own their elements.
#[derive(Debug)]
struct Arrays {
    kinds: Vec<i64>,
    from: Vec<i64>,
    to: Vec<i64>,
    ptr: Vec<i64>,
    rows: Vec<i64>,
    x: Option<Vec<f32>>,
    reverse: bool,
    emit: Emit,
    readout: Option<Kind>,
    edges: Option<Edges>,
}

#[derive(Debug)]
enum Emit {
    Sinks,
    All,
    Mask(Vec<bool>),
    Nodes(Vec<i64>),
}

#[derive(Debug)]
struct Edges {
    kinds: Vec<i64>,
    rows: Vec<i64>,
    e: Option<Vec<f32>>,
}

impl Arrays {
    fn random(rng: &mut Xoshiro256PlusPlus) -> Self {
        let mut ptr = vec![0];
        for _ in 0..rng.random_range(0..4) {
            ptr.push(ptr[ptr.len() - 1] + rng.random_range(0..9));
        }
        let nodes = ptr[ptr.len() - 1];
        let mut edges = Vec::new();
        for ends in ptr.windows(2) {
            let mut order: Vec<i64> = (ends[0]..ends[1]).collect();
            order.shuffle(rng);
            for _ in 0..if order.len() < 2 { 0 } else { rng.random_range(0..2 * order.len()) } {
                let later = rng.random_range(1..order.len());
                edges.push((order[rng.random_range(0..later)], order[later]));
            }
        }
        // Edges that are sorted by an end are not copied.
        match rng.random_range(0..3) {
            0 => edges.sort_by_key(|edge| edge.0),
            1 => edges.sort_by_key(|edge| edge.1),
            _ => edges.shuffle(rng),
        }
        let (from, to): (Vec<i64>, Vec<i64>) = edges.into_iter().unzip();
        let reverse = rng.random();
        let kind = |node: i64| {
            let reader = if reverse { &from } else { &to };
            match reader.iter().filter(|&&reader| reader == node).count() {
                0 => *[NODE, WORD, LEAF].choose(rng).unwrap(),
                2 => *[NODE, WORD, PAIR, MIXED, POOL].choose(rng).unwrap(),
                _ => *[NODE, WORD, MIXED, POOL].choose(rng).unwrap(),
            }
        };
        let kinds = (0..nodes).map(kind).map(|kind| i64::from(kind.0)).collect();
        let mut numbers = |count: usize, below: i64| -> Vec<i64> {
            (0..count).map(|_| rng.random_range(0..below)).collect()
        };
        let rows = numbers(nodes as usize, 7);
        let edges = Edges { kinds: numbers(from.len(), 2), rows: numbers(from.len(), 7), e: None };
        let emitted = if nodes == 0 { vec![] } else { numbers(nodes as usize / 2, nodes) };
        let mut floats =
            |count| rng.random::<bool>().then(|| (0..count).map(|i| i as f32).collect());
        let x = floats(2 * nodes as usize);
        let e = floats(3 * from.len());
        let edges = rng.random::<bool>().then_some(Edges { e, ..edges });
        let mask = (0..nodes).map(|_| rng.random()).collect();
        let emit = match rng.random_range(0..4) {
            0 => Emit::Sinks,
            1 => Emit::All,
            2 => Emit::Mask(mask),
            _ => Emit::Nodes(emitted),
        };
        let readout = [None, Some(SCORE), Some(POOL)].choose(rng).copied().flatten();
        Self { kinds, from, to, ptr, rows, x, reverse, emit, readout, edges }
    }

    fn call_lists(&self, network: &Arc<Network>) -> Vec<CallList> {
        let cell = |kind| GraphCell::new(network, kind);
        let cells: Vec<GraphCell> = (0..=POOL.0).map(Kind).map(cell).collect();
        let (edge_cells, readout) = ([EDGED, TYPED].map(cell), self.readout.map(cell));
        let shapes = [[self.kinds.len(), 2], [self.from.len(), 3]];
        let x = self.x.as_ref().map(|x| (&shapes[0][..], x.as_slice()));
        let edges = self.edges.as_ref();
        let e = edges.and_then(|edges| edges.e.as_ref()).map(|e| (&shapes[1][..], e.as_slice()));
        let e = [Feature { port: "e", rows: e }];
        let graphs = Graphs {
            cells: &cells,
            kinds: &self.kinds,
            edges: [&self.from, &self.to],
            ptr: Some(&self.ptr),
            rows: Some((1, &self.rows)),
            features: &[Feature { port: "x", rows: x }],
            absent: Some(-1),
            reverse: self.reverse,
            emit: match &self.emit {
                Emit::Sinks => GraphEmit::Sinks,
                Emit::All => GraphEmit::All,
                Emit::Mask(mask) => GraphEmit::Mask(mask),
                Emit::Nodes(nodes) => GraphEmit::Nodes(nodes),
            },
            readout: readout.as_ref(),
            edge_cells: if edges.is_some() { &edge_cells } else { &[] },
            edge_kinds: edges.map_or(&[], |edges| &edges.kinds),
            edge_rows: edges.map(|edges| (1, edges.rows.as_slice())),
            edge_features: if edges.is_some() { &e } else { &[] },
        };
        graphs.call_lists(network).unwrap()
    }

    /// Wires a graph by looking through all edges for each node.
    fn naive(&self, network: &Arc<Network>, graph: usize) -> CallList {
        let mut list = CallList::new(network.clone());
        let nodes: Vec<i64> = (self.ptr[graph]..self.ptr[graph + 1]).collect();
        let of_graph = |&edge: &usize| nodes.contains(&self.from[edge]);
        let edges: Vec<usize> = (0..self.from.len()).filter(of_graph).collect();
        let x = give(&mut list, X, self.x.as_deref(), nodes.iter().map(|&node| node as usize));
        let own = self.edges.as_ref();
        let e = match own {
            Some(own) => give(&mut list, EDGE, own.e.as_deref(), edges.iter().copied()),
            None => vec![],
        };
        let absent = network.initial_value(0).unwrap();
        let end = |edge: usize, of_reader| {
            if self.reverse == of_reader { self.from[edge] } else { self.to[edge] }
        };
        let into = |node: i64| edges.iter().copied().filter(move |&edge| end(edge, true) == node);
        let out = |node: i64| edges.iter().copied().filter(move |&edge| end(edge, false) == node);
        let mut made: Vec<(i64, Value)> = Vec::new();
        let mut order: Vec<i64> = nodes.iter().copied().filter(|&n| into(n).count() == 0).collect();
        let mut waiting: Vec<usize> = nodes.iter().map(|&node| into(node).count()).collect();
        for next in 0..nodes.len() {
            let node = order[next];
            let mut values = Vec::new();
            let local = (node - nodes[0]) as usize;
            for edge in into(node) {
                let source = end(edge, false);
                let mut value = made.iter().find(|(node, _)| *node == source).unwrap().1;
                if let Some(own) = own {
                    let place = edges.iter().position(|&other| other == edge).unwrap();
                    value = match own.kinds[edge] {
                        0 => list.call(EDGED, &[], &[value, e[place], x[local]]),
                        _ => list.call(TYPED, &[own.rows[edge] as u32], &[value]),
                    }
                    .unwrap();
                }
                values.push(value);
            }
            let kind = Kind(self.kinds[node as usize] as u16);
            if values.is_empty() && kind != LEAF || kind == MIXED && values.len() == 1 {
                values.push(absent);
            }
            match kind {
                NODE | LEAF => values.insert(0, x[local]),
                MIXED => values.insert(1, x[local]),
                _ => {}
            }
            let row = [self.rows[node as usize] as u32];
            let rows = if kind == WORD || kind == MIXED { &row[..] } else { &[] };
            made.push((node, list.call(kind, rows, &values).unwrap()));
            for edge in out(node) {
                let reader = end(edge, true);
                let waiting = &mut waiting[(reader - nodes[0]) as usize];
                *waiting -= 1;
                if *waiting == 0 {
                    order.push(reader);
                }
            }
        }
        let emitted: Vec<i64> = match &self.emit {
            Emit::Sinks => nodes.iter().copied().filter(|&node| out(node).count() == 0).collect(),
            Emit::All => nodes.clone(),
            Emit::Mask(mask) => nodes.iter().copied().filter(|&n| mask[n as usize]).collect(),
            Emit::Nodes(given) => given.iter().copied().filter(|n| nodes.contains(n)).collect(),
        };
        let of = |node: &i64| made.iter().find(|(other, _)| other == node).unwrap().1;
        let mut values: Vec<Value> = emitted.iter().map(of).collect();
        match self.readout {
            Some(SCORE) => {
                values.iter_mut().for_each(|v| *v = list.call(SCORE, &[], &[*v]).unwrap());
            }
            Some(pool) if !values.is_empty() => {
                values = vec![list.call(pool, &[], &values).unwrap()];
            }
            _ => {}
        }
        values.iter().for_each(|&value| list.emit(value).unwrap());
        list
    }
}

/// Gives rows of a matrix, or declares slots.
fn give(
    list: &mut CallList,
    record: RecordId,
    matrix: Option<&[f32]>,
    rows: impl ExactSizeIterator<Item = usize>,
) -> Vec<Value> {
    let width = if record == X { 2 } else { 3 };
    let Some(matrix) = matrix else { return list.add_slots(record, rows.len()).unwrap() };
    rows.map(|row| list.give(record, &matrix[row * width..][..width]).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2000)))]

    #[test]
    fn graphs_equal_naively_wired_lists(seed in any::<u64>()) {
        let network = network();
        let arrays = Arrays::random(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let lists = arrays.call_lists(&network);
        prop_assert_eq!(lists.len(), arrays.ptr.len() - 1);
        for (graph, list) in lists.iter().enumerate() {
            let expected = arrays.naive(&network, graph);
            let graphs = (list.graph().to_string(), expected.graph().to_string());
            prop_assert_eq!(list, &expected, "{:?}:\n{}\n{}", arrays, graphs.0, graphs.1);
        }
    }

    #[test]
    fn hostile_arrays_are_errors(
        kinds in arrays(6),
        from in arrays(8),
        to in arrays(8),
        ptr in proptest::option::of(arrays(4)),
        rows in proptest::option::of((0..3usize, arrays(9))),
        numbers in arrays(6),
        edge_kinds in arrays(8),
        options in any::<[bool; 6]>(),
        floats in proptest::collection::vec(any::<f32>(), 0..20),
        counts in any::<[u8; 2]>(),
    ) {
        let network = network();
        let cell = |kind| GraphCell::new(&network, kind);
        let cells = [NODE, WORD, LEAF, PAIR, MIXED].map(cell);
        let edge_cells = [EDGED, TYPED].map(cell);
        let mask: Vec<bool> = numbers.iter().map(|number| number % 2 == 0).collect();
        let shapes = [[usize::from(counts[0] % 8), 2], [usize::from(counts[1] % 8), 3]];
        let feature = |port, shape| {
            [Feature { port, rows: options[0].then_some((shape, &floats[..])) }]
        };
        let rows = rows.as_ref().map(|(width, rows)| (*width, rows.as_slice()));
        let graphs = Graphs {
            cells: &cells,
            kinds: &kinds,
            edges: [&from, &to],
            ptr: ptr.as_deref(),
            rows,
            features: &feature("x", &shapes[0][..]),
            absent: options[1].then_some(-1),
            reverse: options[2],
            emit: if options[3] { GraphEmit::Mask(&mask) } else { GraphEmit::Nodes(&numbers) },
            readout: options[4].then_some(&cells[usize::from(counts[0]) % 5]),
            edge_cells: if options[5] { &edge_cells } else { &[] },
            edge_kinds: if options[5] { &edge_kinds } else { &[] },
            edge_rows: rows.filter(|_| options[5]),
            edge_features: if options[5] { &feature("e", &shapes[1][..]) } else { &[] },
        };
        if let Err(error) = graphs.call_lists(&network) {
            prop_assert!(error.to_string().contains(": "), "{}", error);
        }
    }
}

/// Few small numbers, and sometimes one that is out of range.
fn arrays(len: usize) -> impl Strategy<Value = Vec<i64>> {
    let number = prop_oneof![40 => 0..5i64, 1 => any::<i64>(), 1 => Just(-1)];
    proptest::collection::vec(number, 0..len)
}
