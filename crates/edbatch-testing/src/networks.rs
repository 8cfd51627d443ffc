//! Random networks and graphs of calls.

use std::sync::Arc;

use edbatch_graph::{
    CellBuilder, CellParts, Graph, Kind, Network, Op, RecordId, Shape, Tensor, Value, Values, Var,
};
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// The random generator of this module.
pub type Random = Xoshiro256PlusPlus;

/// Widths of vectors, below and above the sizes of SIMD registers and tiles. The last two are deep
/// enough for unit tiles of a device.
const WIDTHS: [usize; 9] = [1, 2, 5, 16, 17, 33, 40, 64, 80];
/// Number of rows of every table.
const ROWS: usize = 6;

/// Returns a random network, which has two records and three cells for each, and an initial value
/// of the first record. The first cell of each record reads only a table.
pub fn random_network(rng: &mut impl Rng) -> (Network, Value) {
    let mut network = Network::new();
    let mut width = || *WIDTHS.choose(rng).expect("some widths") as u32;
    let (a, b, m) = (Shape::Vector(width()), Shape::Vector(width()), rng.random_range(1..6));
    let pair = network.record("pair", [("h", a), ("c", b)]).expect("two fields");
    let fields = [("v", b), ("m", Shape::Matrix(m, m + 1))];
    let mixed = network.record("mixed", fields).expect("two fields, of another name");
    let initial = network.initial(pair, &["h0", "c0"]).expect("parameters for both fields");
    for record in [pair, mixed] {
        let shapes: Vec<Shape> = network.fields(record).fields.iter().map(|f| f.shape).collect();
        for j in 0..3 {
            let name = format!("{}{j}", network.fields(record).name);
            let declared = network.cell(&name, record, |cell| {
                random_cell(cell, &name, &shapes, [pair, mixed], j == 0, rng)
            });
            declared.expect("a cell whose shapes fit");
        }
    }
    (network, initial)
}

/// Returns a copy of a network in which the cells look up about a third of their tables twice: each
/// reader of such a row reads one of the two variables. Equations look up each table once.
#[must_use]
pub fn with_second_lookups(network: &Network, rng: &mut impl Rng) -> Network {
    let mut copy = without_cells(network);
    for cell in network.cells() {
        let mut parts = cell.to_parts();
        for first in (0..parts.instructions.len()).rev() {
            let is_lookup = matches!(parts.instructions[first].op, Op::Lookup { .. });
            if is_lookup && rng.random_bool(0.35) {
                look_up_again(&mut parts, first, rng);
            }
        }
        copy.add_cell(parts).expect("a valid cell");
    }
    copy
}

/// Returns a network with the declarations of another one, and no cells.
#[must_use]
pub fn without_cells(network: &Network) -> Network {
    let mut copy = Network::new();
    for record in network.records() {
        let fields = record.fields.iter().map(|field| (&*field.name, field.shape));
        copy.record(&record.name, fields).expect("a valid record");
    }
    for parameter in network.parameters() {
        copy.add_parameter(&parameter.name, &parameter.dims).expect("a valid parameter");
    }
    for initial in network.initial_values() {
        let names = initial.parameters.iter().map(|&id| &*network.parameter(id).name);
        copy.initial(initial.record, &names.collect::<Vec<_>>()).expect("a valid initial value");
    }
    copy
}

/// Adds a second variable after `first`, which looks up the same row.
fn look_up_again(parts: &mut CellParts, first: usize, rng: &mut impl Rng) {
    let second = parts.instructions[first].clone();
    parts.instructions.insert(first + 1, second);
    let operands = parts.instructions.iter_mut().flat_map(|reader| &mut reader.operands);
    for Var(read) in operands.chain(&mut parts.outputs) {
        let is_moved = *read as usize > first;
        *read += u32::from(is_moved || *read as usize == first && rng.random_bool(0.5));
    }
}

/// Declares a cell with outputs of the given shapes. The cell reads a table, values, or both.
fn random_cell<'c>(
    cell: &'c CellBuilder,
    name: &str,
    shapes: &[Shape],
    records: [RecordId; 2],
    source: bool,
    rng: &mut impl Rng,
) -> Vec<Tensor<'c>> {
    let mut pool: Vec<Tensor<'c>> = Vec::new();
    if source || rng.random_bool(0.5) {
        let width = *WIDTHS.choose(rng).expect("some widths");
        pool.push(cell.lookup("token", &format!("{name}.table"), &[ROWS, width]));
        pool.push(cell.constant(0.5, Shape::Vector(width as u32)));
    }
    if !source {
        let first = cell.one::<2>("first", records[0]);
        pool.extend(first);
        if rng.random_bool(0.5) {
            pool.extend(cell.one::<2>("second", records[1]));
        }
        if rng.random_bool(0.6) {
            let index = rng.random_range(0..2);
            let many = cell.many("rest", records[index]);
            if rng.random_bool(0.4) {
                pool.push(attention(many, index, first, rng));
            }
            let reduced: [Tensor<'c>; 2] = match rng.random_range(0..4) {
                0 => many.sum(),
                1 => many.mean(),
                2 => many.log_sum_exp(),
                _ => many.max(),
            };
            pool.extend(reduced.map(Tensor::tanh));
        }
    }
    for step in 0..rng.random_range(3..14) {
        let next = random_operation(cell, &format!("{name}.{step}"), &pool, rng);
        pool.push(next);
    }
    let output = |(field, &shape): (usize, &Shape)| match pool
        .iter()
        .rev()
        .find(|tensor| tensor.shape() == shape)
    {
        Some(&tensor) if rng.random_bool(0.4) => tensor,
        _ => fitted(cell, &format!("{name}.out{field}"), &pool, shape, rng),
    };
    shapes.iter().enumerate().map(output).collect()
}

/// Returns attention over the values `values` of record number `record`. The query is a field of
/// the first record.
fn attention<'c>(
    values: Values<'c>,
    record: usize,
    [h, c]: [Tensor<'c>; 2],
    rng: &mut impl Rng,
) -> Tensor<'c> {
    let width = |tensor: Tensor<'c>| tensor.shape().elements();
    if record == 1 {
        return values.attention(c.tanh(), "v", "v", 1, 0.7);
    }
    if rng.random_bool(0.5) {
        if width(c).is_multiple_of(width(h)) {
            return values.softmax_sum("h", "c");
        }
        if width(h).is_multiple_of(width(c)) {
            return values.softmax_sum("c", "h");
        }
    }
    let heads = if width(h) % 2 + width(c) % 2 == 0 { 2 } else { 1 };
    values.attention(h, "h", "c", heads, 0.7)
}

/// Returns a tensor of a given shape, computed from a random tensor of `pool`.
fn fitted<'c>(
    cell: &'c CellBuilder,
    name: &str,
    pool: &[Tensor<'c>],
    shape: Shape,
    rng: &mut impl Rng,
) -> Tensor<'c> {
    let from = *pool.choose(rng).expect("not empty");
    let (k, columns) = from.shape().rows_and_columns();
    let (m, n) = shape.rows_and_columns();
    let parameter = format!("{name}.left");
    let left = match (m + k) % 3 {
        0 => cell.parameter(&parameter, &[k, m]).transpose(),
        _ => cell.parameter(&parameter, &[m, k]),
    };
    let left = left.matmul(from);
    match (from.shape(), shape) {
        (Shape::Vector(_), Shape::Vector(_)) => left.tanh(),
        (Shape::Vector(_), Shape::Matrix(..)) => cell.constant(1.0, shape) * left.tanh(),
        (Shape::Matrix(..), Shape::Vector(_)) => {
            left.matmul(cell.constant(0.3, Shape::Vector(columns as u32))).tanh()
        }
        (Shape::Matrix(..), Shape::Matrix(..)) => {
            left.matmul(cell.parameter(&format!("{name}.right"), &[columns, n])).tanh()
        }
    }
}

fn random_operation<'c>(
    cell: &'c CellBuilder,
    name: &str,
    pool: &[Tensor<'c>],
    rng: &mut impl Rng,
) -> Tensor<'c> {
    let a = *pool.choose(rng).expect("not empty");
    let (rows, columns) = a.shape().rows_and_columns();
    let same: Vec<_> = pool.iter().copied().filter(|t| t.shape() == a.shape()).collect();
    let b = *same.choose(rng).expect("a itself");
    let vector = matches!(a.shape(), Shape::Vector(_));
    match rng.random_range(0..30) {
        0 => a + b,
        1 => a - b,
        2 => a.tanh() * b.sigmoid(),
        3 => a / (b.sigmoid() + cell.constant(1.0, Shape::Vector(1))),
        4 => -a,
        5 => a.scale(-0.7),
        6 => a.sigmoid(),
        7 => a.relu(),
        8 => a.tanh().exp(),
        9 => a.tanh().sigmoid().log(),
        10 if vector => a.softmax(),
        11 if vector => a.tanh().log_softmax(),
        12 => cell.concat(&[a, b, a.tanh()]).scale(0.5),
        13 => {
            let start = rng.random_range(0..rows);
            a.slice(start, rng.random_range(1..=rows - start))
        }
        14 if !vector => a.transpose(),
        15 | 16 if vector => sum_of_products(cell, name, pool, rng),
        17 | 29 => product(cell, name, &[a, b][..rng.random_range(1..=2)], rng).tanh(),
        18 if !vector => a.matmul(cell.parameter(&format!("{name}.r"), &[columns, 3])).tanh(),
        20 => a.maximum(b.tanh()),
        21 => a.minimum(b).scale(0.5).erf(),
        22 => (a.tanh() + cell.constant(1.5, Shape::Vector(1))).sqrt(),
        23 => a.layer_norm(0.25),
        24 => a.rms_norm(0.25),
        25 => a.tanh().dot(b.tanh()).tanh(),
        26 => match a.shape() {
            Shape::Vector(n) if n % 2 == 0 => a.reshape(Shape::Matrix(n / 2, 2)),
            shape => a.reshape(Shape::Vector(shape.elements() as u32)),
        },
        27 => a.select(cell.index(name, rows)),
        28 if !vector => a.tanh().softmax() - b.log_softmax(),
        // One element per row of a matrix.
        19 if !vector => a.tanh() + cell.parameter(&format!("{name}.column"), &[rows]),
        _ => a.tanh() + b.tanh(),
    }
}

/// Returns a parameter times the vertically stacked tensors, sometimes with a bias.
fn product<'c>(
    cell: &'c CellBuilder,
    name: &str,
    stacked: &[Tensor<'c>],
    rng: &mut impl Rng,
) -> Tensor<'c> {
    let right = if let [alone] = stacked { *alone } else { cell.concat(stacked) };
    let (m, k) = (rng.random_range(1..20), right.shape().rows_and_columns().0);
    let product = cell.parameter(&format!("{name}.w"), &[m, k]).matmul(right);
    let bias = cell.parameter(&format!("{name}.b"), &[m]);
    match rng.random_range(0..4) {
        0 => product,
        1 => bias.tanh() + product,
        _ => product + bias,
    }
}

/// Returns tanh of a sum of products and a bias, as in recurrent cells.
fn sum_of_products<'c>(
    cell: &'c CellBuilder,
    name: &str,
    pool: &[Tensor<'c>],
    rng: &mut impl Rng,
) -> Tensor<'c> {
    let m = *WIDTHS.choose(rng).expect("some widths");
    let vectors: Vec<_> = pool.iter().filter(|t| matches!(t.shape(), Shape::Vector(_))).collect();
    let terms = (0..rng.random_range(1..4)).map(|i| {
        let x = **vectors.choose(rng).expect("the caller has one");
        cell.parameter(&format!("{name}.w{i}"), &[m, x.shape().elements()]).matmul(x)
    });
    let terms: Vec<_> = terms.collect();
    let sum = terms.into_iter().reduce(|a, b| a + b).expect("at least one");
    (sum + cell.parameter(&format!("{name}.b"), &[m])).tanh()
}

/// Returns a graph of calls of random cells.
pub fn random_graph(network: &Arc<Network>, initial: Value, rng: &mut impl Rng) -> Graph {
    let mut graph = Graph::new(network.clone());
    let mut values = vec![initial];
    for i in 0..rng.random_range(2..60) {
        // The first cell of each record reads no value.
        let kind = if i < 4 { Kind(i % 2 * 3) } else { Kind(rng.random_range(0..6)) };
        let cell = &network[kind];
        let rows = cell.tables().iter().map(|table| rng.random_range(0..table.rows));
        let rows: Vec<u32> = rows.collect();
        let mut arguments = Vec::new();
        for (position, port) in cell.ports().iter().enumerate() {
            let fits = |value: &Value| graph.record_of(*value) == Some(port.record);
            let fitting: Vec<Value> = values.iter().copied().filter(fits).collect();
            let many = cell.is_variadic() && position + 1 == cell.ports().len();
            for _ in 0..if many { rng.random_range(1..4) } else { 1 } {
                arguments.push(*fitting.choose(rng).expect("a source of each record"));
            }
        }
        values.push(graph.call(kind, &rows, &arguments).expect("rows and arguments that fit"));
    }
    graph
}
