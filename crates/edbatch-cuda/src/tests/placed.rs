//! The placement of a group's weights.

use edbatch_graph::Kind;

use crate::device::{AHEAD_BYTES, ROW_BYTES};
use crate::options::DevicePrecision;
use crate::place::{Placement, Tile};
use crate::reads::{Reads, set};
use crate::shapes::Shape::{T32, T128};
use crate::shapes::{fastest, large_tile, offered, room, shapes};
use crate::unit_tile::{TileProduct, UnitTile};

/// A tile of a phase: units, columns of each unit, terms.
fn tile(phase: usize, units: u32, columns: u32, depth: u32) -> UnitTile {
    tile_in(DevicePrecision::Exact, phase, (units, columns, depth))
}

fn tile_in(
    precision: DevicePrecision,
    phase: usize,
    (units, columns, depth): (u32, u32, u32),
) -> UnitTile {
    let of_units = (0..columns).map(|column| (0, column)).collect();
    let products = vec![TileProduct { depth, columns: of_units, ..TileProduct::default() }];
    let tile = UnitTile { phase, units, columns, products, block: 16, ..UnitTile::default() };
    UnitTile { shapes: shapes(1, precision), precision, ..tile }
}

/// Places tiles of different cells, each of which reads the one before.
fn placed(tiles: &[UnitTile], sms: u32, shared_bytes: usize) -> Placement {
    let mut reads = Reads::default();
    let cells = (0..tiles.len()).map(Kind::new);
    cells.clone().skip(1).for_each(|cell| reads.add(cell, set(cell) >> 1));
    place(&cells.zip(tiles).collect::<Vec<_>>(), &reads, sms, shared_bytes)
}

fn place(tiles: &[Tile<'_>], reads: &Reads, sms: u32, shared_bytes: usize) -> Placement {
    let phases = 1 + tiles.iter().map(|(_, tile)| tile.phase).max().unwrap_or(0);
    let placement = Placement::new(tiles, reads, phases, sms, shared_bytes);
    check(&placement, tiles).unwrap();
    placement
}

/// Checks that no two phases have weights at the same place of a block's shared memory, and that
/// fours are aligned.
pub(super) fn check(placement: &Placement, tiles: &[Tile<'_>]) -> Result<(), String> {
    for block in 0..placement.slices {
        let mut spans = Vec::new();
        for &(_, tile) in tiles {
            let Some(place) = &placement.places[tile.phase] else { continue };
            if place.slices.contains(&block) {
                let blocks = tile.blocks().div_ceil(place.slices.len() as u32);
                spans.push((place.at, place.at + blocks * tile.size(), tile.phase));
            }
        }
        spans.sort_unstable();
        let overlap = spans.windows(2).find(|pair| pair[0].1 > pair[1].0);
        let misplaced = spans.iter().find(|span| span.0 % 4 != 0 || span.1 > placement.resident);
        if overlap.is_some() || misplaced.is_some() {
            return Err(format!("block {block}: {spans:?} of {}", placement.resident));
        }
    }
    Ok(())
}

#[test]
fn groups_are_as_small_as_shared_memory_allows() {
    // 2 MB in 16 unit blocks: a TreeLSTM with 256 units.
    let weights = [tile(0, 256, 4, 512)];
    for (kilobytes, slices) in [(640, 4), (512, 8), (227, 16)] {
        let placement = placed(&weights, 132, kilobytes << 10);
        assert_eq!(placement.slices, slices, "{kilobytes} KB");
        assert!(placement.places[0].is_some());
        assert_eq!(placement.resident, 16 / slices * weights[0].size());
        assert_eq!(placement.shared_bytes, kilobytes << 10);
    }
    // Half unit blocks, and the rows of a few shapes, fit.
    let halves = [UnitTile { block: 8, ..weights[0].clone() }];
    assert_eq!(placed(&halves, 108, 163 << 10).slices, 32);
    // A unit block does not fit: the weights are streamed.
    let placement = placed(&weights, 132, 99 << 10);
    assert_eq!((placement.slices, placement.resident), (132, 0));
    assert_eq!(placement.places, [None]);
    assert_eq!(placement.shared_bytes, 99 << 10, "the rest is for rows");
    assert_eq!(placed(&weights, 132, 1 << 10).shared_bytes, AHEAD_BYTES + ROW_BYTES);
    // The largest group has all SMs, whatever their number.
    assert_eq!(placed(&weights, 7, 640 << 10).slices, 4);
    assert_eq!(placed(&weights, 7, 512 << 10).slices, 7);
    // Without unit tiles, the smallest group.
    assert_eq!(placed(&[], 132, 99 << 10).slices, 4);
    assert_eq!(placed(&[], 2, 99 << 10).slices, 2);
}

/// Blocks keep the sums of all products but the last of their largest tiles, if there is room for
/// the rows of such tiles.
#[test]
fn sums_of_earlier_products_have_memory() {
    let tile = tile(0, 256, 4, 256);
    let two = UnitTile { products: vec![tile.products[0].clone(); 2], ..tile.clone() };
    for (tile, kilobytes, floats) in
        [(&two, 227, 256 * 64), (&two, 180, 0), (&tile, 227, 0), (&two, 640, 256 * 64)]
    {
        let placement = placed(std::slice::from_ref(tile), 132, kilobytes << 10);
        assert_eq!(placement.parked, floats, "{kilobytes} KB");
        assert_eq!(placement.tiles().contains("S8R8"), kilobytes != 180);
    }
}

/// Weights in bf16 are half as large, and rows too.
#[test]
fn groups_of_tensor_cores_hold_rounded_weights() {
    for (precision, slices, eights) in
        [(DevicePrecision::Tf32, 16, 2), (DevicePrecision::Bf16, 8, 4)]
    {
        let tiles = [tile_in(precision, 0, (256, 4, 512))];
        let placement = placed(&tiles, 132, 227 << 10);
        let found = (placement.slices, placement.table()[3]);
        assert_eq!(found, (slices, eights), "{precision:?}");
        let place = placement.places[0].as_ref().expect("it fits");
        let firsts = [1, 32, 33, 256].map(|rows| place.chosen(rows));
        assert_eq!(firsts.map(|(shape, _)| shape), [T32, T32, T128, T128]);
        assert_eq!(firsts.map(|(_, rows)| rows), [32, 32, 128, 128]);
    }
}

#[test]
fn units_are_divided_and_nothing_overlaps() {
    // Two narrow phases, and two whose unit blocks do not divide evenly.
    let tiles = [tile(0, 32, 4, 64), tile(1, 32, 1, 80), tile(3, 80, 2, 128), tile(4, 96, 1, 64)];
    let placement = placed(&tiles, 8, 160 << 10);
    assert_eq!(placement.slices, 4);
    let place = |tile: &UnitTile| placement.places[tile.phase].as_ref().expect("it fits");
    let slices: Vec<_> = tiles.iter().map(|tile| place(tile).slices.clone()).collect();
    // Narrow phases have different blocks.
    assert_eq!(slices, [0..2, 2..4, 0..4, 0..4]);
    let table = placement.table();
    assert_eq!((table[..2].to_vec(), table[48..50].to_vec()), (vec![0, 2], vec![2, 2]));
    // Phase 2 has no unit tiles.
    assert!(table[96..144].iter().all(|&word| word == 0));
}

#[test]
fn overlapping_weights_are_found() {
    let tiles = [tile(0, 64, 4, 64), tile(1, 32, 4, 64), tile(2, 64, 2, 64)];
    let of_cells: Vec<Tile<'_>> = (0..).map(Kind::new).zip(&tiles).collect();
    let right = placed(&tiles, 8, 160 << 10);
    for phase in 0..tiles.len() {
        let (mut moved, mut spoilt) = (right.clone(), right.clone());
        let place = moved.places[phase].as_mut().unwrap();
        place.at = if place.at == 0 { right.resident } else { 0 };
        check(&moved, &of_cells).unwrap_err();
        spoilt.places[phase].as_mut().unwrap().at += 1;
        check(&spoilt, &of_cells).unwrap_err();
    }
    let mut narrow = right;
    let place = narrow.places[0].as_mut().unwrap();
    place.slices.end -= 1;
    check(&narrow, &of_cells).unwrap_err();
}

/// Cells of a level have different blocks, in proportion to weights; levels have all blocks.
#[test]
fn blocks_of_a_level_are_divided_between_cells() {
    // Two phases of a cell, and cells with the same and with twice the weights.
    let tiles = [
        tile(0, 256, 2, 64),
        tile(1, 256, 2, 64),
        tile(2, 256, 4, 64),
        tile(3, 256, 4, 128),
        tile(4, 256, 4, 64),
    ];
    let cells = [0, 0, 1, 2, 3].map(Kind::new);
    let of_cells: Vec<Tile<'_>> = cells.into_iter().zip(&tiles).collect();
    let slices = |reads: &[(usize, usize)]| -> Vec<_> {
        let mut all = Reads::default();
        let kinds = reads.iter().map(|&(reader, read)| (Kind::new(reader), Kind::new(read)));
        kinds.for_each(|(reader, read)| all.add(reader, set(read)));
        let placement = place(&of_cells, &all, 16, 227 << 10);
        assert_eq!(placement.slices, 16);
        placement.places.into_iter().map(|place| place.unwrap().slices).collect()
    };
    // All of them side by side; then two components.
    assert_eq!(slices(&[]), [0..3, 0..3, 3..6, 6..13, 13..16]);
    let pairs = [(0, 1), (1, 0), (2, 2), (2, 3), (3, 2), (3, 1)];
    assert_eq!(slices(&pairs), [0..8, 0..8, 8..16, 0..11, 11..16]);
    // A chain, whose last cell reads the one before through a cell without unit tiles.
    assert_eq!(slices(&[(1, 0), (2, 1), (9, 2), (3, 9)]), vec![0..16; 5]);
    // Two cells that read the first one, and a level of its own.
    let pairs = [(1, 0), (2, 0), (3, 2)];
    assert_eq!(slices(&pairs), [0..16, 0..16, 0..5, 5..16, 0..16]);
}

/// Weights that do not fit are streamed; later, smaller ones are still resident.
#[test]
fn weights_that_do_not_fit_are_streamed() {
    let tiles = [tile(0, 16, 4, 64), tile(1, 256, 4, 512), tile(2, 16, 1, 64)];
    let placement = placed(&tiles, 2, 99 << 10);
    let resident: Vec<_> = placement.places.iter().map(Option::is_some).collect();
    assert_eq!((placement.slices, resident), (2, vec![true, false, true]));
}

#[test]
fn the_fastest_shapes_depend_on_the_rows() {
    let tile = tile(0, 256, 4, 512);
    let firsts = |floats| {
        let offered: Vec<_> = offered(tile.extent(), floats).collect();
        fastest(tile.extent(), &offered, 256)
    };
    // The shapes of all tiles of a number of rows.
    let tiles = |mut rows: u32, floats| {
        let firsts = firsts(floats).unwrap();
        let mut tiles = Vec::new();
        while rows > 0 {
            let first = firsts[rows as usize];
            tiles.push(format!("{first:?}"));
            rows -= rows.min(first.rows(tile.extent()));
        }
        tiles.join(" ")
    };
    for (rows, expected) in [
        (1, "P2R1"),
        (4, "P2R1"),
        (5, "P2R2"),
        (9, "P4R2"),
        (32, "P4R4"),
        (37, "P4R4 P2R2"),
        (64, "P4R4 P4R4"),
        (128, "S4R8"),
        (131, "S4R8 P2R1"),
        (255, "S8R8"),
    ] {
        assert_eq!(tiles(rows, room(tile.extent()).1), expected, "{rows} rows");
    }
    // Sixteen rows do not fit.
    assert_eq!(tiles(12, 16 * 516 - 1), "P2R2 P2R1");
    assert_eq!(firsts(0), None);
}

/// Groups with fewer rows than others must not need a barrier that the others do not need.
#[test]
fn from_some_number_of_rows_on_the_first_tile_is_a_ring() {
    let mut found = 0;
    for (columns, depth) in [(1, 128), (2, 256), (4, 64), (4, 512), (4, 1024)] {
        let tile = tile(0, 256, columns, depth);
        let of_fit: Vec<_> = offered(tile.extent(), room(tile.extent()).1).collect();
        // Also of any two shapes.
        let pairs = of_fit.iter().flat_map(|&a| of_fit.iter().map(move |&b| vec![a, b]));
        for offered in pairs.chain([of_fit.clone()]) {
            let firsts = fastest(tile.extent(), &offered, 256).unwrap();
            let rings: Vec<bool> = firsts.iter().map(|&first| first.is_ring()).collect();
            assert!(rings.is_sorted(), "{columns} columns, {depth} terms, {offered:?}");
            found += usize::from(rings.contains(&true) && rings.contains(&false));
        }
    }
    assert!(found > 5, "{found}");
}

/// Tiles of few calls use more SMs, and tiles of many calls load each weight less often.
#[test]
fn tiles_of_large_products_use_all_sms() {
    // The scores of 8,000 words for 64 rows are one round of 125 tiles.
    assert_eq!(large_tile(64, 125, 132), 64);
    // A prologue of 1,024 columns for 64 rows: 64 tiles of 16 calls, or 16 of 64.
    assert_eq!(large_tile(64, 16, 132), 16);
    assert_eq!(large_tile(2770, 16, 132), 64);
    assert_eq!(large_tile(1, 125, 132), 16);
}
