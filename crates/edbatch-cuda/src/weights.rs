//! The layout of parameters on a device. Weights of products are packed, others are unchanged.

use std::collections::BTreeMap;

use edbatch_graph::Network;
use edbatch_layout::{Base, CellStep, Program, Weight};
use edbatch_runtime::{BackendError, Parameters};

use super::options::DevicePrecision;
use super::phase_table::{PhaseTable, Way};
use super::unit_tile::UnitTile;

/// The start of each parameter, in floats. It depends only on the program.
///
/// A stack of weights with N rows and K columns is packed `[⌈K / 4⌉][N][4]`: consecutive threads
/// compute consecutive columns of the product and read consecutive groups of four. The tail of K is
/// padded with zeros. Weights are rounded once, here. In bf16, large products read pairs of them,
/// packed likewise; the first one is in the lower half of a word. The weights of unit tiles are
/// packed once more, in the layout of `kernels/tile.h`: which of them a team holds depends on the
/// device.
#[derive(Debug, Default)]
pub(crate) struct WeightLayout {
    precision: DevicePrecision,
    /// By weights, and the elements of a word.
    stacks: BTreeMap<(Vec<Weight>, u32), Stack>,
    /// By pass and phase.
    tiles: BTreeMap<(Way, usize), TileWeights>,
    plain: BTreeMap<Weight, usize>,
    floats: usize,
}

#[derive(Clone, Copy, Debug)]
struct Stack {
    start: usize,
    outputs: usize,
    depth: usize,
}

/// The weights of a phase's unit tiles.
#[derive(Debug)]
struct TileWeights {
    start: usize,
    tile: UnitTile,
    /// The stack of each step that is a product.
    stacks: BTreeMap<usize, Vec<Weight>>,
}

impl WeightLayout {
    /// Places all parameters that the phases of both passes of a program read.
    pub(crate) fn new(
        program: &Program,
        passes: &[PhaseTable; 2],
        precision: DevicePrecision,
    ) -> Self {
        let mut layout = Self { precision, ..Self::default() };
        for entry in passes.iter().flat_map(PhaseTable::entries) {
            let cell = program.part(entry.cell, entry.part).expect("it has phases");
            let tables = program.network()[entry.cell].tables();
            for step in &cell.steps[entry.phase.steps.clone()] {
                if let CellStep::Product { weights, rows, width, .. } = step {
                    layout.stack(weights, entry.is_large, *rows as usize, *width as usize);
                }
                for (place, _) in step.reads() {
                    let weight = match place.base {
                        Base::Parameter(weight) => weight,
                        Base::Table(table) => match tables[usize::from(table)].parameter {
                            Some(parameter) => Weight::AsIs(parameter),
                            None => continue,
                        },
                        _ => continue,
                    };
                    let parameter = program.network().parameter(weight.parameter());
                    layout.plain(weight, parameter.elements());
                }
            }
        }
        layout
    }

    fn stack(&mut self, weights: &[Weight], is_large: bool, outputs: usize, depth: usize) {
        let key = self.key(weights, is_large);
        if !self.stacks.contains_key(&key) {
            let words = depth / key.1 as usize;
            let start = self.take(words.next_multiple_of(4) * outputs);
            self.stacks.insert(key, Stack { start, outputs, depth });
        }
    }

    /// Returns the key of a stack that large products read, or others.
    fn key(&self, weights: &[Weight], is_large: bool) -> (Vec<Weight>, u32) {
        (weights.to_vec(), if is_large { self.precision.of_word() } else { 1 })
    }

    fn plain(&mut self, weight: Weight, elements: usize) {
        if !self.plain.contains_key(&weight) {
            let start = self.take(elements);
            self.plain.insert(weight, start);
        }
    }

    /// Places the weights of unit tiles.
    pub(crate) fn add_tiles<'a>(
        &mut self,
        program: &Program,
        table: &PhaseTable,
        tiles: impl Iterator<Item = &'a UnitTile>,
    ) {
        for tile in tiles {
            let entry = &table.entries()[tile.phase];
            let cell = program.part(entry.cell, entry.part).expect("it has phases");
            let products = entry.phase.steps.clone().filter_map(|step| match &cell.steps[step] {
                CellStep::Product { weights, .. } => Some((step, weights.clone())),
                _ => None,
            });
            let start = self.take((tile.blocks() * tile.size()) as usize);
            let own = TileWeights { start, tile: tile.clone(), stacks: products.collect() };
            self.tiles.insert((table.way, tile.phase), own);
        }
    }

    /// Reserves floats at a multiple of 16 bytes and returns their start.
    fn take(&mut self, floats: usize) -> usize {
        let start = self.floats;
        self.floats += floats.next_multiple_of(4);
        start
    }

    /// Returns the start of a stack of weights that large products read, or others, in floats.
    pub(crate) fn of_stack(&self, weights: &[Weight], is_large: bool) -> usize {
        self.stacks[&self.key(weights, is_large)].start
    }

    /// Returns the start of a parameter that is not packed, in floats.
    pub(crate) fn of_plain(&self, weight: Weight) -> usize {
        self.plain[&weight]
    }

    /// Returns the start of a phase's unit blocks, in floats.
    pub(crate) fn of_tile(&self, way: Way, phase: usize) -> usize {
        self.tiles[&(way, phase)].start
    }

    /// Returns all parameters in this layout, as the bits of floats.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub(crate) fn packed(
        &self,
        network: &Network,
        parameters: &Parameters,
    ) -> Result<Vec<u32>, BackendError> {
        let mut words = Vec::new();
        let reserved = words.try_reserve_exact(self.floats);
        reserved.map_err(|_| BackendError::Memory {
            what: "packed weights",
            bytes: 4 * self.floats as u64,
        })?;
        words.resize(self.floats, 0.0_f32.to_bits());
        for ((weights, of_word), &Stack { start, outputs, depth }) in &self.stacks {
            let values: Vec<_> =
                weights.iter().map(|&weight| parameters.weight(network, weight)).collect();
            let rows = values.iter().flat_map(|values| values.chunks_exact(depth));
            for (n, row) in rows.enumerate() {
                for (k, terms) in row.chunks(*of_word as usize).enumerate() {
                    words[start + (k / 4 * outputs + n) * 4 + k % 4] = self.precision.word(terms);
                }
            }
        }
        for (&weight, &start) in &self.plain {
            let values = parameters.weight(network, weight);
            for (word, value) in words[start..].iter_mut().zip(values.iter()) {
                *word = value.to_bits();
            }
        }
        for TileWeights { start, tile, stacks } in self.tiles.values() {
            let stack = |of: &Vec<Weight>| {
                let values = of.iter().map(|&weight| parameters.weight(network, weight));
                values.flat_map(|values| values.to_vec()).collect::<Vec<f32>>()
            };
            let stacks: BTreeMap<_, _> =
                stacks.iter().map(|(&step, of)| (step, stack(of))).collect();
            pack_tile(tile, &stacks, &mut words[*start..]);
            for unit in 0..tile.units as usize {
                let (of_block, block) = (unit % tile.block as usize, unit / tile.block as usize);
                let first = start + block * tile.size() as usize;
                let constants = first + tile.words() as usize;
                for (number, &(weight, offset)) in tile.constants.iter().enumerate() {
                    let value = parameters.weight(network, weight)[offset as usize + unit];
                    words[constants + number * tile.block as usize + of_block] = value.to_bits();
                }
            }
        }
        // Nothing that a tile reads may look like a float that is not written yet.
        words.iter_mut().filter(|word| **word == u32::MAX).for_each(|word| *word >>= 1);
        Ok(words)
    }
}

/// Packs the weights of a tile's unit blocks. `stacks` has the stacked weights of each step.
pub(crate) fn pack_tile(tile: &UnitTile, stacks: &BTreeMap<usize, Vec<f32>>, words: &mut [u32]) {
    let (units, block) = (tile.units as usize, tile.block as usize);
    let mut before = 0;
    for product in &tile.products {
        let (depth, columns) = (product.depth as usize, tile.columns_of(product) as usize);
        let (precision, of_word) = (tile.precision, tile.precision.of_word() as usize);
        for (column, &(step, of_stack)) in product.columns.iter().enumerate() {
            for unit in 0..units {
                let row = of_stack as usize * units + unit;
                let (first, own) = (before + unit / block * tile.size() as usize, unit % block);
                let row = stacks[&step][row * depth..][..depth].chunks(of_word);
                for (k, terms) in row.enumerate() {
                    let at = match precision {
                        DevicePrecision::Exact => (k * block + own) * columns + column,
                        _ => {
                            let own = (own / 8 * columns + column) * 8 + own % 8;
                            (k / 4 * block * columns + own) * 4 + k % 4
                        }
                    };
                    words[first + at] = precision.word(terms);
                }
            }
        }
        before += depth / of_word * block * columns;
    }
}
