//! Unit tiles: every shape has the CPU's bits.

use std::collections::BTreeMap;

use super::{LIST, RESIDENT, Random, assert_same_bits, everywhere, levels};
use crate::shapes::{SHAPES, Shape, offered, shapes};
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
        for (u32 i = 0; i < 4; ++i) to[i] = fresh(Rows(j.arena, 0).row(j, r) + k + i);
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
        unit_tile<T, 31>(block, Job(a, a.commands, share, block.ahead()), shape);
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
fn tile((units, block, columns, depths): (u32, u32, [u32; 2], [u32; 2])) -> UnitTile {
    let product = |(step, depth)| TileProduct {
        depth,
        columns: (0..columns[step]).map(|column| (step, column)).collect(),
        ..TileProduct::default()
    };
    let products = depths.into_iter().enumerate().map(|(i, depth)| product((i, depth))).collect();
    let (shapes, columns) = (shapes(1), columns[0]);
    let tile = UnitTile { units, block, columns, products, shapes, ..UnitTile::default() };
    let constant = edbatch_layout::Weight::AsIs(edbatch_graph::ParameterId(0));
    UnitTile { constants: vec![(constant, 0)], ..tile }
}

#[test]
fn every_shape_has_the_bits_of_the_cpu() {
    let mut wave = String::from("switch (a.commands[11]) {\n");
    for (number, (units, block, [columns, last], [first, second])) in SIZES.into_iter().enumerate()
    {
        let depth = first + second;
        wave += &format!(
            "case {number}: return tiles<\
             Sum<{units}, {block}, {columns}, {last}, {first}, {depth}>>(\
             block, a, a.commands[12], a.commands[13]);\n"
        );
    }
    let Some(run) = everywhere(TILE, &(wave + "}")) else { return };
    let mut random = Random(3);
    let rows: Vec<usize> = if edbatch_testing::all_cases() {
        (1..=130).collect()
    } else {
        vec![1, 2, 3, 4, 5, 8, 9, 15, 17, 32, 33, 64, 65, 97, 128, 130]
    };
    let mut ran = BTreeMap::new();
    for (number, sizes) in SIZES.into_iter().enumerate() {
        let tile = tile(sizes);
        let subject = Sums::new(&tile, &mut random);
        for shape in offered(tile.extent(), u32::MAX).collect::<Vec<Shape>>() {
            for &count in &rows {
                let blocks = 1 + random.below(tile.blocks() as usize);
                let each = tile.blocks().div_ceil(blocks as u32) * tile.size();
                let blocks =
                    if 4 * each as usize <= RESIDENT { blocks } else { tile.blocks() as usize };
                let what = [number as u32, shape as u32, shape.rows(tile.extent())];
                subject.check(&tile, (count, blocks), what, &run, &mut random);
                *ran.entry(shape as u32).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(ran.len(), SHAPES.len(), "{ran:?}");
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

    fn check(
        &self,
        tile: &UnitTile,
        (count, blocks): (usize, usize),
        what: [u32; 3],
        run: &impl Fn(super::Launch<'_>) -> Vec<(String, super::Left)>,
        random: &mut Random,
    ) {
        let (units, depth) = (tile.units as usize, tile.depth() as usize);
        let mut packed = vec![0; (tile.blocks() * tile.size()) as usize];
        pack_tile(tile, &self.weights, &mut packed);
        for (unit, x) in self.constants.iter().enumerate() {
            let (block, of_block) = (unit / tile.block as usize, unit % tile.block as usize);
            let at = block * tile.size() as usize + tile.terms() as usize;
            packed[at + of_block] = x.to_bits();
        }
        let packed: Vec<f32> = packed.into_iter().map(f32::from_bits).collect();
        // Rows begin at multiples of four floats.
        let row = depth.max(units).next_multiple_of(4);
        let rows = random.floats(9 * row, true);
        let starts: Vec<u32> = (0..count).map(|_| 4 * random.below(2 * row) as u32).collect();
        let columns = tile.products.iter().map(|product| product.columns.len());
        let width = units * columns.sum::<usize>();
        let head = [0, count as u32, rows.len() as u32, 0, 0, 1, 0, 0, 14, LIST as u32, 0];
        let commands = [&head[..], &what, &starts].concat();
        let lefts = run((blocks as u32, &commands, &packed, &rows, count * width));
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
