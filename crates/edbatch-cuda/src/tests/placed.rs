//! The placement of a group's weights.

use crate::device::{AHEAD_BYTES, ROW_BYTES};
use crate::place::Placement;
use crate::shapes::{fastest, large_tile, offered, room, shapes};
use crate::unit_tile::{TileProduct, UnitTile};

/// A tile of a phase: units, columns of each unit, terms.
fn tile(phase: usize, units: u32, columns: u32, depth: u32) -> UnitTile {
    let products = vec![TileProduct { depth, ..TileProduct::default() }];
    let tile = UnitTile { phase, units, columns, products, block: 16, ..UnitTile::default() };
    UnitTile { shapes: shapes(1), ..tile }
}

fn placed(tiles: &[UnitTile], sms: u32, shared_bytes: usize) -> Placement {
    let phases = 1 + tiles.iter().map(|tile| tile.phase).max().unwrap_or(0);
    Placement::new(&tiles.iter().collect::<Vec<_>>(), phases, sms, shared_bytes)
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
    for block in 0..placement.slices {
        let own = tiles.iter().filter(|tile| place(tile).slices.contains(&block));
        let mut spans: Vec<_> = own
            .map(|tile| {
                let blocks = tile.blocks().div_ceil(place(tile).slices.len() as u32);
                (place(tile).at, place(tile).at + blocks * tile.size())
            })
            .collect();
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
        assert!(spans.iter().all(|&(start, _)| start % 4 == 0), "fours are aligned");
        assert!(spans.last().expect("every block has some").1 <= placement.resident);
    }
    let table = placement.table();
    assert_eq!((table[..2].to_vec(), table[48..50].to_vec()), (vec![0, 2], vec![2, 2]));
    // Phase 2 has no unit tiles.
    assert!(table[96..144].iter().all(|&word| word == 0));
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
fn the_fastest_shape_depends_on_the_rows() {
    let tile = tile(0, 256, 4, 512);
    let shape = |rows, floats| {
        let offered: Vec<_> = offered(tile.extent(), floats).collect();
        fastest(tile.extent(), &offered, rows).map(|shape| format!("{shape:?}"))
    };
    for (rows, expected) in [
        (1, "P2R1"),
        (4, "P2R1"),
        (5, "P2R2"),
        (9, "P4R2"),
        (32, "P4R4"),
        (64, "P4R4"),
        (128, "S4R8"),
    ] {
        assert_eq!(shape(rows, room(tile.extent()).1).as_deref(), Some(expected), "{rows} rows");
    }
    // Sixteen rows do not fit.
    assert_eq!(shape(128, 16 * 516 - 1).as_deref(), Some("P2R2"));
    assert_eq!(shape(1, 0), None);
}

/// Tiles of few calls use more SMs, those of many calls load each weight less often.
#[test]
fn tiles_of_large_products_use_all_sms() {
    // The scores of 8,000 words for 64 rows are one round of 125 tiles.
    assert_eq!(large_tile(64, 125, 132), 64);
    // A prologue of 1,024 columns for 64 rows: 64 tiles of 16 calls, or 16 of 64.
    assert_eq!(large_tile(64, 16, 132), 16);
    assert_eq!(large_tile(2770, 16, 132), 64);
    assert_eq!(large_tile(1, 125, 132), 16);
}
