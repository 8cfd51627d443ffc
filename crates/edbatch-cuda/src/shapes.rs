//! The shapes of unit tiles: which of them a kernel has, which fit on a device, and which is the
//! fastest for a number of rows.
//!
//! Their names come from the measured prototypes: P for rows that are whole in shared memory, S
//! for rows that pass through a ring; then the columns and the rows of a thread. T is for tensor
//! cores, with the maximum number of rows.

use super::options::DevicePrecision;

/// The maximum number of calls of a tile.
pub const TILE: u32 = 16;

/// The maximum number of calls of a tile of [large products](crate::PhaseEntry::is_large).
pub const LARGE_TILE: u32 = 64;

/// The sizes of a unit tile that decide about its shapes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileExtent {
    /// The most columns of a unit block, the terms of all products, the multiply-adds of a row, and
    /// the number of products.
    pub(crate) width: u32,
    pub(crate) depth: u32,
    pub(crate) multiplies: u32,
    pub(crate) products: u32,
    /// The terms of the products that thin tiles add in pairs.
    pub(crate) in_pairs: u32,
    /// True if the terms of each product are whole stages of a ring.
    pub(crate) has_rings: bool,
    /// The shapes that its kernel has.
    pub(crate) shapes: &'static [Shape],
    pub(crate) precision: DevicePrecision,
}

impl TileExtent {
    /// Returns the maximum number of rows of a chunk on tensor cores, with 16 fours of elements for
    /// each thread: `Chunk` of `kernels/tensor_tile.h`.
    fn chunk(self) -> u32 {
        (16 * 256 * 4 / self.depth.max(1) / 8 * 8).clamp(8, 32)
    }

    /// Returns the words of shared memory from one row to the next.
    fn row(self) -> u32 {
        self.depth / self.precision.of_word() + 4
    }
}

/// A shape of unit tiles: the number that `unit_tile` of `kernels/tile.h` knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
#[repr(u32)]
pub(crate) enum Shape {
    P2R1 = 1,
    P2R2,
    P4R2,
    P4R4,
    S4R8,
    S8R8,
    T32,
    T128,
}

use Shape::{P2R1, P2R2, P4R2, P4R4, S4R8, S8R8, T32, T128};

/// All shapes, by number.
pub(crate) const SHAPES: [Shape; 8] = [P2R1, P2R2, P4R2, P4R4, S4R8, S8R8, T32, T128];

/// The maximum number of rows of a tile of any shape except S8R8: `UNIT_TILE` of `kernels/job.h`.
const MAX_ROWS: u32 = 128;

/// The columns of a unit block for which there is S8R8: 16 units with four gates. A block has 256
/// rows, and so this number of sums of a product.
const WIDTH_OF_S8R8: u32 = 64;
const SUMS_OF_S8R8: u32 = 2 * MAX_ROWS * WIDTH_OF_S8R8;

/// The terms of a stage of a ring, and the floats of a stage: `kernels/tile.h`.
pub(crate) const STAGE_TERMS: u32 = 32;
const STAGE: u32 = MAX_ROWS * (STAGE_TERMS + 4);

/// The minimum and maximum number of stages of a ring.
const STAGES: (u32, u32) = (2, 5);

/// The stages and the rows for which a team has room if it is not of the largest size.
const ROOM: (u32, u32) = (4, 32);

/// The maximum number of signatures that have unit tiles with products, and of those without. With
/// more than eight or nine tiles in a kernel, its registers are spilled.
pub(crate) const MAX_SIGNATURES: usize = 4;

/// Returns the shapes that each unit tile of a kernel with this number of signatures has.
pub(crate) fn shapes(signatures: usize, precision: DevicePrecision) -> &'static [Shape] {
    match signatures {
        _ if precision != DevicePrecision::Exact => &[T32, T128],
        0 | 1 => &[P2R1, P2R2, P4R2, P4R4, S4R8, S8R8],
        2 => &[P2R1, P4R4, S4R8],
        _ => &[P2R2, S4R8],
    }
}

/// Like [`shapes`], for adjoints: they have more products, and so take more registers.
pub(crate) fn shapes_of_adjoints(signatures: usize) -> &'static [Shape] {
    match signatures {
        0 | 1 => &[P2R1, P4R4, S4R8],
        2 => &[P2R1, S4R8],
        _ => &[P2R2, S4R8],
    }
}

/// Returns the bytes of shared memory of a block on devices of an architecture, or `None` if they
/// are unknown. Source: CUDA C++ Programming Guide, table of compute capabilities.
pub(crate) fn shared_bytes(architecture: &str) -> Option<usize> {
    let digits = architecture.strip_prefix("sm_")?.trim_end_matches(|c: char| !c.is_ascii_digit());
    Some(match digits {
        "80" | "87" => 163 << 10,
        "90" | "100" | "101" | "103" | "110" => 227 << 10,
        _ => 99 << 10,
    })
}

impl Shape {
    /// Returns the number of rows of a tile.
    pub(crate) fn rows(self, tile: TileExtent) -> u32 {
        let rows_and_columns = match self {
            P2R1 => 128 * 2,
            P2R2 => 128 * 4,
            P4R2 => 128 * 8,
            P4R4 => 128 * 16,
            S4R8 => return MAX_ROWS,
            S8R8 => return 2 * MAX_ROWS,
            T32 => return 32,
            T128 => return MAX_ROWS,
        };
        rows_and_columns / tile.width
    }

    /// Returns the floats of shared memory that a tile needs at least.
    fn floats(self, tile: TileExtent) -> u32 {
        match self {
            S4R8 => STAGES.0 * STAGE,
            S8R8 => 2 * STAGES.0 * STAGE,
            T32 | T128 => 2 * 8 * tile.row(),
            _ => self.rows(tile) * tile.row(),
        }
    }

    /// Returns true if a kernel can have this shape for a tile.
    fn suits(self, tile: TileExtent) -> bool {
        match self {
            S4R8 => tile.has_rings,
            S8R8 => tile.has_rings && tile.width == WIDTH_OF_S8R8,
            T32 | T128 => true,
            _ => self.rows(tile) <= MAX_ROWS,
        }
    }

    /// Returns true if rows pass through a ring, so that they must be complete before the wave.
    pub(crate) fn is_ring(self) -> bool {
        matches!(self, S4R8 | S8R8)
    }

    /// Returns the number of sums that a block keeps in device memory for a tile with some
    /// products: the sums of all products except the last one.
    pub(crate) fn parked(self, products: u32) -> u32 {
        if self == S8R8 { (products - 1) * SUMS_OF_S8R8 } else { 0 }
    }

    /// Returns the time of a tile's multiply-adds, in µs each. Measured on an H200 with prototypes
    /// of these tiles: a TreeLSTM, H = 256, one tile of each shape a block. On tensor cores it
    /// includes the element-wise steps. The cost of S8R8 is *assumed*: it has never run on a GPU.
    pub(crate) fn cost(self, precision: DevicePrecision) -> f32 {
        1e-6 * match self {
            T32 | T128 if precision == DevicePrecision::Bf16 => 1.11,
            T32 | T128 => 2.05,
            P2R1 => 10.9,
            P2R2 => 10.4,
            P4R2 => 7.7,
            P4R4 => 7.6,
            S4R8 => 6.8,
            S8R8 => 5.5,
        }
    }

    /// Returns the time of `blocks` unit blocks of a tile with `rows` rows in µs. The thinnest ones
    /// wait for sums, so columns that a product lacks save no time, but two products at a time do.
    /// *Estimated*: the prototype of P2R1 waited for two sums, each of all terms, at four cycles a
    /// term. Sums in device memory are written once and read once.
    pub(crate) fn micros(self, tile: TileExtent, blocks: u32, rows: u32) -> f32 {
        const IN_PAIRS: f32 = 7.1e-6;
        let cost = self.cost(tile.precision);
        let of_row = match self {
            T32 | T128 => return self.micros_of_tensors(tile, blocks, rows),
            P2R1 => {
                let alone = (tile.depth - tile.in_pairs) as f32 * cost;
                tile.width as f32 * (alone + tile.in_pairs as f32 * IN_PAIRS)
            }
            _ => tile.multiplies as f32 * cost,
        };
        let parked = 2 * size_of::<f32>() as u32 * self.parked(tile.products);
        blocks as f32 * (self.rows(tile) as f32 * of_row + parked as f32 / L2_BYTES_OF_SM)
    }

    /// On tensor cores, a thin wave of the prototypes took 2.2 or 2.4 µs, with the steps of eight
    /// rows. Further rows are computed in eights, and loaded at the rate of the prototype that did
    /// nothing else. *Estimated*: all but the first chunk is loaded meanwhile.
    fn micros_of_tensors(self, tile: TileExtent, blocks: u32, rows: u32) -> f32 {
        const OF_ELEMENT: f32 = 1.48e-4;
        let fixed = if tile.precision == DevicePrecision::Bf16 { 2.2 } else { 2.4 } - WAVE;
        let load = |rows: u32| (rows * tile.depth) as f32 * OF_ELEMENT;
        let multiplies = blocks * tile.multiplies * (rows.next_multiple_of(8) - 8);
        let compute = multiplies as f32 * self.cost(tile.precision);
        let first = rows.min(tile.chunk());
        fixed + load(first - 1) + compute.max(load(rows - first))
    }
}

/// The time of a tile that follows another one in the same wave, in µs; measured likewise.
pub(crate) const FURTHER_TILE: f32 = 0.4;

/// Other times of the model (`model.rs`), in µs, measured likewise: a launch until the host sees
/// its end, a wave besides its tiles, the exact functions of unit tiles, and a barrier.
pub(crate) const LAUNCH: f32 = 8.2;
pub(crate) const WAVE: f32 = 1.9;
pub(crate) const EXACT_FUNCTIONS: f32 = 0.2;
pub(crate) const BARRIER: f32 = 0.6;

/// The time that large and small tiles add to their wave, and the time of a small multiply-add. The
/// latter is an estimate: the first kernels issued 1.28 instructions a cycle of 4, and two thirds
/// of those in the loop of `kernels/small.h` are multiply-adds.
pub(crate) const LARGE_WAVE: f32 = 0.1;
pub(crate) const SMALL_WAVE: f32 = 0.5;
pub(crate) const SMALL_COST: f32 = 20e-6;

/// The bytes that an SM reads and writes in its second-level cache in a µs, if all do. An
/// *estimate* from 2,560 bytes a cycle of an A100, at the 1.75 GHz of an H200 with 132 SMs. Source:
/// `analysis_A100.md` of github.com/smallscientist1/cuda_microbenchmark.
const L2_BYTES_OF_SM: f32 = 33_900.0;

/// The bytes that an SM reads and writes in a µs, if all do: 2.5 TB/s of an H200 with 132 SMs, an
/// *estimate* from its 4.8 TB/s.
pub(crate) const BYTES_OF_SM: f64 = 18_900.0;

/// Returns the shapes of a tile for which `floats` floats of shared memory hold the rows.
pub(crate) fn offered(tile: TileExtent, floats: u32) -> impl Iterator<Item = Shape> {
    let suit = tile.shapes.iter().copied().filter(move |shape| shape.suits(tile));
    suit.filter(move |shape| shape.floats(tile) <= floats)
}

/// Returns the number of stages of a ring for which `floats` floats have room, or on tensor cores,
/// the eights of rows of a chunk, of which two are in shared memory.
pub(crate) fn stages(tile: TileExtent, floats: u32) -> u32 {
    match tile.precision {
        DevicePrecision::Exact => (floats / STAGE).min(STAGES.1),
        _ => (tile.chunk() / 8).min(floats / (2 * 8 * tile.row())),
    }
}

/// Returns the floats of shared memory that hold the rows of the smallest shape of a tile, and
/// those that hold all that make it fast.
pub(crate) fn room(tile: TileExtent) -> (u32, u32) {
    let suit = || tile.shapes.iter().filter(move |shape| shape.suits(tile));
    let least = suit().map(|shape| shape.floats(tile)).min().unwrap_or(u32::MAX);
    let ring = if suit().any(|&shape| shape == S4R8) { ROOM.0 * STAGE } else { 0 };
    (least, ring.max(ROOM.1 * tile.row()).max(least))
}

/// The calls of tiles of large products, and the time of their multiply-adds, in µs each: estimated
/// from the measured shapes.
pub(crate) const LARGE_TILES: [(u32, f32); 2] = [(LARGE_TILE, 6.8e-6), (TILE, 9.5e-6)];

/// Returns the number of calls for which tiles of large products are the fastest, of a job with
/// `calls` calls and `slices` slices on `sms` SMs.
pub(crate) fn large_tile(calls: u32, slices: u32, sms: u32) -> u32 {
    let time = |&(tile, cost): &(u32, f32)| {
        let rounds = (u64::from(calls.div_ceil(tile)) * u64::from(slices)).div_ceil(sms.into());
        rounds as f32 * tile as f32 * cost
    };
    let fastest = LARGE_TILES.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
    fastest.expect("there are two").0
}

/// Returns, for each number of rows of a block below `all`, the shape of the first of its tiles, if
/// they have the fastest of the offered shapes; later tiles are no larger. Only from a number of
/// rows on, they begin with a ring. Returns `None` if no shape is offered.
pub(crate) fn fastest(tile: TileExtent, offered: &[Shape], all: u32) -> Option<Vec<Shape>> {
    let firsts = |offered: &[Shape]| {
        // By number of rows: the time of the tiles, and the first shape.
        let mut best: Vec<(f32, Shape)> = vec![(0.0, *offered.first()?)];
        for rows in 1..all {
            let with = |&shape: &Shape| {
                let most = shape.rows(tile);
                let own = shape.micros(tile, 1, most.min(rows));
                match rows.checked_sub(most).filter(|&left| left > 0) {
                    None => Some((own, shape)),
                    Some(left) => {
                        let (later, next) = best[left as usize];
                        (next <= shape).then_some((own + FURTHER_TILE + later, shape))
                    }
                }
            };
            best.push(offered.iter().filter_map(with).min_by(|a, b| a.0.total_cmp(&b.0))?);
        }
        best[0] = *best.get(1)?;
        Some(best.into_iter().map(|(_, shape)| shape).collect::<Vec<_>>())
    };
    let mut shapes = firsts(offered)?;
    let whole: Vec<Shape> = offered.iter().copied().filter(|shape| !shape.is_ring()).collect();
    if let (Some(last), Some(without)) =
        (shapes.iter().rposition(|shape| !shape.is_ring()), firsts(&whole))
    {
        shapes[..=last].copy_from_slice(&without[..=last]);
    }
    Some(shapes)
}
