//! The model of times, on plans whose waves, tiles and µs are worked out by hand.

use std::sync::Arc;

use edbatch_graph::{Graph, Kind, Network, NodeId, Schedule, Shape, Value};
use edbatch_layout::{CellStyle, Lifetimes, MiniBatch, Planner, Program, Want};
use edbatch_testing::planned;

use crate::{CommandList, CudaOptions, DeviceModel, DevicePrecision, Prediction};

/// Cells `first`, which makes a vector, and `next`, `output` and `scores`, which multiply it by a
/// matrix.
fn program() -> Program {
    let mut network = Network::new();
    let vector = Shape::Vector(64);
    let state = network.record("state", [("x", vector)]).unwrap();
    let score = network.record("score", [("y", Shape::Vector(5))]).unwrap();
    network.cell("first", state, |cell| vec![cell.constant(0.5, vector)]).unwrap();
    let next = network.cell("next", state, |cell| {
        let [x] = cell.one("x", state);
        vec![cell.parameter("w", &[64, 64]).matmul(x).tanh()]
    });
    next.unwrap();
    let output = network.cell("output", score, |cell| {
        let [x] = cell.one("x", state);
        vec![cell.parameter("v", &[5, 64]).matmul(x)]
    });
    output.unwrap();
    let scores = network.record("scores", [("y", Shape::Vector(640))]).unwrap();
    let scores = network.cell("scores", scores, |cell| {
        let [x] = cell.one("x", state);
        vec![cell.parameter("u", &[640, 64]).matmul(x)]
    });
    scores.unwrap();
    Program::new(Arc::new(network), CellStyle::Planned).unwrap()
}

/// Predicts chains of `length` calls of `next` that end in a call of `last`, on 14 SMs.
fn predicted(chains: usize, length: usize, last: usize) -> Prediction {
    predicted_in(DevicePrecision::Exact, chains, length, last)
}

fn predicted_in(
    precision: DevicePrecision,
    chains: usize,
    length: usize,
    last: usize,
) -> Prediction {
    let program = program();
    let (mut graph, mut schedule) = (Graph::new(program.network().clone()), Schedule::new());
    let mut ends: Vec<Value> = Vec::new();
    for wave in 0..length + 2 {
        let kind =
            if wave == 0 { Kind(0) } else { Kind::new(if wave <= length { 1 } else { last }) };
        let call = |chain: usize| {
            let values: Vec<Value> = ends.get(chain).copied().into_iter().collect();
            graph.call(kind, &[], &values).unwrap()
        };
        ends = (0..chains).map(call).collect();
        let first = wave * chains;
        schedule.push(kind, &(first..first + chains).map(NodeId::new).collect::<Vec<_>>());
    }
    let wanted: Vec<_> = ends.into_iter().map(|value| (value, Want::Elements)).collect();
    let (program, graph, schedule) = (&program, &graph, &schedule);
    let mini_batch = MiniBatch { program, graph, schedule, wanted: &wanted };
    let plan = planned(&mut Planner::new(Lifetimes::Distinct), &mini_batch);
    let options = CudaOptions::new().precision(precision);
    let mut prediction = Prediction::default();
    let mut model = DeviceModel::new(program, &options, 14, 227 << 10);
    model.predict((program, &plan), &mut CommandList::default(), &mut prediction).unwrap();
    prediction
}

fn assert_close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-4 * expected, "{got}, expected {expected}");
}

/// The weights of `next` are four unit blocks of 16 units, 64 terms and one column: groups have
/// four slices, and a team on 14 SMs has three groups.
#[test]
fn few_rows_are_one_tile_of_each_block() {
    let got = predicted(10, 3, 2);
    // `first`, three times `next`, `output`, copies.
    // The last two waves of `next` wait for each row.
    assert_eq!((got.launches, got.waves, got.barriers), (1, 6, 4));
    // Groups have 4, 4 and 2 rows. A P2R1 tile has room for 16 rows of 16 columns.
    assert_eq!(got.unit_tiles, [3 * 3 * 4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((got.rows, got.room), (3 * 4 * 10, 3 * 12 * 16));
    assert_eq!(got.small_tiles, 2);
    let tile = 16.0 * 16.0 * 64.0 * 10.9e-6;
    let output = 10.0 * 5.0 * 64.0 * 20e-6;
    let waves = [1.9 + 0.5, 1.9 + 0.2 + tile, 1.9 + 0.5 + output, 1.9];
    let micros = waves[0] + 3.0 * waves[1] + waves[2] + waves[3] + 4.0 * 0.6;
    assert_close(got.device_micros, micros);
    assert_close(got.seen_micros, micros + 8.2);
    assert_close(got.busy_micros, 3.0 * 12.0 * tile + output);
    assert_close(got.all_micros, 14.0 * micros);
}

/// Groups have 200 rows, in two S4R8 tiles of 128 rows. The 38 small tiles of 600 rows are four for
/// two of the 12 blocks, and three for the others.
#[test]
fn many_rows_are_several_tiles() {
    let got = predicted(600, 1, 2);
    assert_eq!((got.waves, got.unit_tiles), (4, [0, 0, 0, 0, 2 * 12, 0, 0, 0]));
    assert_eq!((got.rows, got.room), (4 * 600, 24 * 128));
    assert_eq!(got.small_tiles, 2 * 38);
    let tiles = 2.0 * 128.0 * 16.0 * 64.0 * 6.8e-6 + 0.4;
    // The slowest block has four whole tiles.
    let output = 4.0 * 16.0 * 5.0 * 64.0 * 20e-6 + 3.0 * 0.4;
    let waves = [1.9 + 0.5 + 3.0 * 0.4, 1.9 + 0.2 + tiles, 1.9 + 0.5 + output, 1.9];
    assert_close(got.device_micros, waves.into_iter().map(|micros| micros + 0.6).sum());
}

/// On tensor cores, groups have 200 rows in two tiles, of which the first one has four chunks. Each
/// slice has 16 units. No wave of tiles needs a barrier after the first one.
#[test]
fn tiles_of_tensor_cores_load_rows_while_they_compute() {
    let got = predicted_in(DevicePrecision::Bf16, 600, 2, 2);
    assert_eq!((got.waves, got.unit_tiles), (5, [0, 0, 0, 0, 0, 0, 0, 2 * 2 * 12]));
    let element = 64.0 * 1.48e-4;
    let compute = |rows: f64| 16.0 * 64.0 * 1.11e-6 * (rows - 8.0);
    let of_tile = |rows: f64| 0.3 + 31.0 * element + compute(rows).max((rows - 32.0) * element);
    let tiles = of_tile(128.0) + of_tile(72.0) + 0.4;
    let output = 4.0 * 16.0 * 5.0 * 64.0 * 20e-6 + 3.0 * 0.4;
    let waves = [1.9 + 0.5 + 3.0 * 0.4, 1.9 + 0.2 + tiles, 1.9 + 0.5 + output, 1.9];
    let micros: f64 = waves.into_iter().map(|micros| micros + 0.6).sum();
    assert_close(got.device_micros, micros + 1.9 + 0.2 + tiles);
}

/// Ten slices of 64 columns: for 128 rows, 20 tiles of 64 rows are two for 8 of the 12 blocks. For
/// 10 rows, ten tiles of 16 rows have a block each.
#[test]
fn products_of_many_columns_are_large_tiles() {
    for (rows, tiles, micros) in
        [(128, 20, 2.0 * 64.0 * 64.0 * 64.0 * 6.8e-6 + 0.4), (10, 10, 16.0 * 64.0 * 64.0 * 9.5e-6)]
    {
        let got = predicted(rows, 0, 3);
        assert_eq!((got.waves, got.large_tiles, got.unit_tiles), (3, tiles, [0; 8]));
        assert_eq!(got.small_tiles, rows.div_ceil(16) as u64);
        assert_close(got.device_micros, 1.9 + 0.5 + 1.9 + 0.1 + micros + 1.9 + 3.0 * 0.6);
    }
}
