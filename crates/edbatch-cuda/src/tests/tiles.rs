//! Unit tiles: every shape has the CPU's bits.

use std::collections::BTreeMap;

use super::tensor::{TENSOR, bound, chain, exact, in_precision, on_cpu};
use super::{LIST, Left, RESIDENT, Random, assert_same_bits, everywhere, levels};
use crate::options::DevicePrecision;
use crate::shapes::{Shape, offered, shapes};
use crate::unit_tile::{TileProduct, UnitTile};
use crate::weights::pack_tile;
use edbatch_runtime::kernels::{PackedWeights, Pass, RowsMut, RowsRef, Start, product};

/// Two products of a row, with a value of the row and a constant of the unit added to each sum.
pub(super) const TILE: &str =
    "template <u32 U, u32 B, u32 C, u32 LAST, u32 FIRST, u32 D> struct Sum {
    enum : u32 { UNITS = U, BLOCK = B, PRODUCTS = 2, COLUMNS = C, DEPTH = D };
    enum : u32 { CONSTANTS = 1, READS = 1 };
    enum : bool { WAITS = true, REDUCES = true };
    static constexpr u32 end(u32 p) { return p == 0 ? FIRST : D; }
    static constexpr u32 columns(u32 p) { return p == 0 ? C : LAST; }
    static DEVICE const float* from(const Job& j, u32 r, u32 k) {
        return k < FIRST ? Rows(j.arena, 0).row(j, r) + k : nullptr;
    }
    static DEVICE void reduce(const Job& j, u32 r, u32 k, float* to) {
        for (u32 i = 0; i < 4; i += OF_WORD) {
            const float* x = Rows(j.arena, 0).row(j, r) + k + i;
            to[i / OF_WORD] = word(fresh(x), fresh(x + OF_WORD - 1));
        }
    }
    struct Row {
        float x;
    };
    static DEVICE Row load(const Job& j, u32 r, u32 u) {
        return {seen(Rows(j.arena, 0).row(j, r) + u)};
    }
    static DEVICE bool is_written(const Row& row) { return ::is_written(row.x); }
    static DEVICE void finish(const float (&s)[2][C], const Row& row, const float* c, const Job& j,
                              u32 r, u32 u) {
        for (u32 i = 0; i < C + LAST; ++i)
            publish(output(j, (C + LAST) * U, i * U).row(r) + u,
                    add(add(row.x, s[i / C][i % C]), c[0]));
    }
};
template <class T> DEVICE void tiles(TeamBlock block, const Arguments& a, u32 shape, u32 most) {
    Resident own{0, 0, T::UNITS / T::BLOCK, Sizes<T, 4, 4, 256>::SIZE};
    load_resident(block, a.weights, &own, 1);
    for (u32 first = 0, all = a.commands[1]; first < all; first += most) {
        u32 count = all - first < most ? all - first : most;
        Share share{0, first, count, block.index, block.slices, shape, most};
        unit_tile<T, 63>(block, Job(a, a.commands, share, block.ahead()), shape);
    }
}";

/// Units, units of a block, and the columns and the depth of each product.
const SIZES: [(u32, u32, [u32; 2], [u32; 2]); 8] = [
    (16, 16, [4, 4], [64, 64]),
    (48, 16, [2, 2], [64, 96]),
    (80, 16, [1, 1], [96, 64]),
    (48, 8, [4, 4], [64, 64]),
    (80, 16, [4, 4], [64, 32]),
    (16, 8, [1, 1], [32, 32]),
    (48, 16, [2, 1], [64, 64]),
    (32, 8, [2, 1], [96, 32]),
];

/// A tile of these sizes.
fn tile(
    (units, block, columns, depths): (u32, u32, [u32; 2], [u32; 2]),
    precision: DevicePrecision,
) -> UnitTile {
    let product = |(step, depth)| TileProduct {
        depth,
        columns: (0..columns[step]).map(|column| (step, column)).collect(),
        ..TileProduct::default()
    };
    let products = depths.into_iter().enumerate().map(|(i, depth)| product((i, depth))).collect();
    let (shapes, columns) = (shapes(1, precision), columns[0]);
    let tile = UnitTile { units, block, columns, products, shapes, ..UnitTile::default() };
    let tile = UnitTile { precision, ..tile };
    let constant = edbatch_layout::Weight::AsIs(edbatch_graph::ParameterId(0));
    UnitTile { constants: vec![(constant, 0)], ..tile }
}

/// Returns the code of a wave that runs the tile of a number.
fn wave(sizes: impl Iterator<Item = (u32, u32, [u32; 2], [u32; 2])>) -> String {
    let mut wave = String::from("switch (a.commands[11]) {\n");
    for (number, (units, block, [columns, last], [first, second])) in sizes.enumerate() {
        let depth = first + second;
        wave += &format!(
            "case {number}: return tiles<\
             Sum<{units}, {block}, {columns}, {last}, {first}, {depth}>>(\
             block, a, a.commands[12], a.commands[13]);\n"
        );
    }
    wave + "}"
}

/// The numbers of rows of the test of every shape.
fn rows() -> Vec<usize> {
    if edbatch_testing::all_cases() {
        return (1..=130).chain([200, 255, 256, 257, 300]).collect();
    }
    vec![1, 2, 3, 4, 5, 8, 9, 15, 17, 32, 33, 64, 65, 97, 128, 130, 255, 256, 259]
}

#[test]
fn every_shape_has_the_bits_of_the_cpu() {
    let Some(run) = everywhere(TILE, &wave(SIZES.into_iter())) else { return };
    let (mut random, rows) = (Random(3), rows());
    let mut ran = BTreeMap::new();
    for (number, sizes) in SIZES.into_iter().enumerate() {
        let tile = tile(sizes, DevicePrecision::Exact);
        let subject = Sums::new(&tile, &mut random);
        for shape in offered(tile.extent(), u32::MAX).collect::<Vec<Shape>>() {
            for &count in &rows {
                let blocks = blocks(&tile, &mut random);
                let what = [number as u32, shape as u32, shape.rows(tile.extent())];
                subject.check(&tile, (count, blocks), what, &run, &mut random);
                *ran.entry(shape as u32).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(ran.len(), 6, "{ran:?}");
}

/// Returns a number of blocks that hold the weights of a tile.
fn blocks(tile: &UnitTile, random: &mut Random) -> usize {
    let blocks = 1 + random.below(tile.blocks() as usize);
    let each = tile.blocks().div_ceil(blocks as u32) * tile.size();
    if 4 * each as usize <= RESIDENT { blocks } else { tile.blocks() as usize }
}

/// Each row has the same bits in every tile: alone, and at all places beside any other rows.
#[test]
fn tensor_tiles_are_within_their_bounds_and_no_bit_depends_on_other_rows() {
    for (precision, error) in TENSOR {
        // All products have the same columns, and whole steps.
        let whole = |&(_, _, [a, b], [c, d]): &(_, _, [u32; 2], [u32; 2])| {
            a == b && c % 16 == 0 && d % 16 == 0
        };
        // With one column, a unit block is not halved.
        let halves = |&(_, block, [columns, _], _): &(_, u32, [u32; 2], _)| block + columns > 9;
        let sizes: Vec<_> = SIZES.into_iter().filter(whole).filter(halves).collect();
        let wave = wave(sizes.iter().copied());
        let Some(run) = everywhere(&in_precision(precision, TILE), &wave) else { return };
        let (mut random, mut worst) = (Random(3), 0.0_f64);
        for (number, &sizes) in sizes.iter().enumerate() {
            let tile = tile(sizes, precision);
            let subject = Sums::new(&tile, &mut random);
            let (rows, mut known) = (subject.rows(&tile, false, &mut random), BTreeMap::new());
            for shape in offered(tile.extent(), u32::MAX).collect::<Vec<Shape>>() {
                for count in self::rows() {
                    let what = [number as u32, shape as u32, shape.rows(tile.extent())];
                    let blocks = blocks(&tile, &mut random);
                    let launch = (count, blocks, what);
                    let (starts, lefts) = subject.run(&tile, &rows, launch, &run, &mut random);
                    for (device, left) in lefts {
                        let on_host = device.starts_with("order");
                        let out = &left.arena[rows.len()..];
                        let width = out.len() / count;
                        for (&start, got) in starts.iter().zip(out.chunks_exact(width)) {
                            let expected = known.entry((on_host, start)).or_insert_with(|| {
                                let row = &rows[start as usize..];
                                let off = subject.error(&tile, row, got, on_host, error);
                                worst = worst.max(off);
                                got.to_vec()
                            });
                            let what = || format!("{device}: {what:?}, {count} rows");
                            assert_same_bits(got, expected, what);
                        }
                    }
                }
            }
        }
        assert!((0.05..1.0).contains(&worst), "{precision:?}: {worst}");
    }
}

/// Weights of both products, and constants.
struct Sums {
    weights: BTreeMap<usize, Vec<f32>>,
    constants: Vec<f32>,
}

impl Sums {
    fn new(tile: &UnitTile, random: &mut Random) -> Self {
        let weights = |product: &TileProduct| {
            let columns = product.columns.len() as u32;
            random.floats((tile.units * columns * product.depth) as usize, false)
        };
        let weights = tile.products.iter().map(weights).enumerate().collect();
        Self { weights, constants: random.floats(tile.units as usize, false) }
    }

    /// Returns rows, which begin at multiples of four floats.
    fn rows(&self, tile: &UnitTile, special: bool, random: &mut Random) -> Vec<f32> {
        random.floats(9 * row_of(tile), special)
    }

    /// Runs `count` of the rows. Returns their starts, and what each device leaves.
    fn run(
        &self,
        tile: &UnitTile,
        rows: &[f32],
        (count, blocks, what): (usize, usize, [u32; 3]),
        run: &impl Fn(super::Launch<'_>) -> Vec<(String, Left)>,
        random: &mut Random,
    ) -> (Vec<u32>, Vec<(String, Left)>) {
        let mut packed = vec![0; (tile.blocks() * tile.size()) as usize];
        pack_tile(tile, &self.weights, &mut packed);
        for (unit, x) in self.constants.iter().enumerate() {
            let (block, of_block) = (unit / tile.block as usize, unit % tile.block as usize);
            let at = block * tile.size() as usize + tile.words() as usize;
            packed[at + of_block] = x.to_bits();
        }
        let packed: Vec<f32> = packed.into_iter().map(f32::from_bits).collect();
        let row = row_of(tile);
        let starts: Vec<u32> = (0..count).map(|_| 4 * random.below(2 * row) as u32).collect();
        let head = [0, count as u32, rows.len() as u32, 0, 0, 1, 0, 0, 14, LIST as u32, 0];
        let commands = [&head[..], &what, &starts].concat();
        let all = count * width_of(tile);
        let lefts = run((blocks as u32, &commands, &packed, rows, all));
        (starts, lefts)
    }

    /// Checks the sums of a row in a precision of tensor cores, and that the host adds in order.
    /// Returns the largest error, relative to its bound.
    fn error(
        &self,
        tile: &UnitTile,
        row: &[f32],
        got: &[f32],
        on_host: bool,
        error: (i32, i32),
    ) -> f64 {
        let (units, mut before, mut worst) = (tile.units as usize, 0, 0.0_f64);
        let columns = tile.products.iter().enumerate().flat_map(|(number, of)| {
            let depth = of.depth as usize;
            let own = (0..units * of.columns.len()).map(move |column| (number, before, column));
            before += depth;
            own
        });
        for (got, (number, before, column)) in got.iter().zip(columns) {
            let depth = tile.products[number].depth as usize;
            let weights = &self.weights[&number][column * depth..][..depth];
            let x = &row[before..][..depth];
            // A value of the row and a constant are added to each sum.
            let more = (row[column % units], self.constants[column % units]);
            let sum = chain(tile.precision, x, weights);
            if on_host {
                assert_eq!(got.to_bits(), ((more.0 + sum) + more.1).to_bits());
            }
            let ((sum, sizes), rest) = (exact(x, weights), f64::from(more.0) + f64::from(more.1));
            // Both additions are rounded.
            let slack = 2_f64.powi(-22) * (sum.abs() + 2.0);
            let off = (f64::from(*got) - (sum + rest)).abs() - slack;
            assert!(off <= bound(error, depth) * sizes, "{off}");
            worst = worst.max(off / (bound(error, depth) * sizes));
            if tile.precision == DevicePrecision::Bf16 {
                let off = f64::from(*got) - (f64::from(on_cpu(x, weights)) + rest);
                assert!(off.abs() - slack <= depth as f64 * 2_f64.powi(-21) * sizes, "{off}");
            }
        }
        worst
    }

    fn check(
        &self,
        tile: &UnitTile,
        (count, blocks): (usize, usize),
        what: [u32; 3],
        run: &impl Fn(super::Launch<'_>) -> Vec<(String, Left)>,
        random: &mut Random,
    ) {
        let (units, width) = (tile.units as usize, width_of(tile));
        let rows = self.rows(tile, true, random);
        let (starts, lefts) = self.run(tile, &rows, (count, blocks, what), run, random);
        for level in levels() {
            let mut expected = vec![0.0; count * width];
            let (mut before, mut to) = (0, 0);
            for (number, of) in tile.products.iter().enumerate() {
                let depth = of.depth as usize;
                let weights = PackedWeights::new(level, &[&self.weights[&number]], depth).unwrap();
                let offsets: Vec<u32> = starts.iter().map(|start| start + before as u32).collect();
                let own = units * of.columns.len();
                let mut sums = vec![0.0; count * own];
                let read = RowsRef::List { data: &rows, offsets: &offsets };
                let written = RowsMut::contiguous(&mut sums, own);
                let panels = 0..weights.panels();
                product(&weights, panels, Pass::Forwards, &read, &Start::Nothing, written);
                for (i, sum) in sums.into_iter().enumerate() {
                    let (r, column) = (i / own, i % own);
                    let x = rows[starts[r] as usize + column % units];
                    expected[r * width + to + column] = (x + sum) + self.constants[column % units];
                }
                before += depth;
                to += own;
            }
            for (device, left) in &lefts {
                assert_same_bits(&left.arena[rows.len()..], &expected, || {
                    format!("{device}: {count} rows, {units} units, {what:?}, {blocks} blocks")
                });
            }
        }
    }
}

/// Returns the elements from one row of a tile's tests to the next.
fn row_of(tile: &UnitTile) -> usize {
    tile.depth().max(tile.units).next_multiple_of(4) as usize
}

/// Returns the elements of a row that a tile stores.
fn width_of(tile: &UnitTile) -> usize {
    let columns = tile.products.iter().map(|product| product.columns.len());
    tile.units as usize * columns.sum::<usize>()
}
