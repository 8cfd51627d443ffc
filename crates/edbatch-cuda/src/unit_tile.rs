//! Phases that run as unit tiles (`kernels/tile.h`).
//!
//! A phase qualifies if it consists of products and element-wise steps of the same number of units,
//! a multiple of 16, of shares, and of copies, fills and reductions of arguments. Each product has
//! at most four columns for each unit, and a depth that is a multiple of four, or of 16 on tensor
//! cores, and at least 64.
//! Products of the same row count as one. Phases without products qualify if another phase of their
//! cell has some, so that none of them waits at a barrier for the other.

use std::ops::Range;

use edbatch_graph::Reduction;
use edbatch_layout::{Base, CellStep, Mode, Place, Program, RowKernel, RowStep, Weight};

use super::command_list::scratch;
use super::device::{AHEAD_BYTES, ROW_BYTES};
use super::options::DevicePrecision;
use super::phase_table::PhaseEntry;
use super::phases::{is_aligned, recomputed};
use super::shapes::{self, STAGE_TERMS, Shape, TileExtent};

/// The minimum depth of a product, and the maximum number of products and of columns of a unit.
const MIN_DEPTH: u32 = 64;
const MAX_PRODUCTS: usize = 5;
const MAX_COLUMNS: usize = 4;

/// A phase that may run as unit tiles.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct UnitTile {
    /// The number of the phase, its units, and the units of a block of packed weights.
    pub(crate) phase: usize,
    pub(crate) units: u32,
    pub(crate) block: u32,
    /// The most columns of a unit of a product: 1, 2 or 4.
    pub(crate) columns: u32,
    pub(crate) products: Vec<TileProduct>,
    /// The parameters that steps read, from these elements on.
    pub(crate) constants: Vec<(Weight, u32)>,
    /// Other elements of a row that steps read, one for each unit.
    pub(crate) loads: Vec<Load>,
    pub(crate) lines: Vec<Line>,
    /// The floats of a call's scratch that it stores.
    pub(crate) stored: Range<u32>,
    /// The shapes that its kernel has.
    pub(crate) shapes: &'static [Shape],
    pub(crate) precision: DevicePrecision,
}

/// Products of one row.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct TileProduct {
    /// The elements of the row, in pieces.
    pub(crate) pieces: Vec<(Range<u32>, Load)>,
    pub(crate) depth: u32,
    /// For each column of a unit: the step, and the column's number in its stack of weights.
    pub(crate) columns: Vec<(usize, u32)>,
}

/// Elements of a row, from a place on, or reduced over the values at a port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Load {
    Row(Place),
    Reduced { port: u16, from: u32, by: Reduction },
}

/// A value of a row and a unit; a local one by the number of the line's result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    Loaded(usize),
    Constant(usize),
    Literal(f32),
    Local(usize),
}

/// A statement after the products. Sums and outputs of programs are local values, by number.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Line {
    Sum {
        product: usize,
        column: usize,
        before: Option<Value>,
    },
    Program {
        step: usize,
        inputs: Vec<Value>,
    },
    /// The quotient of a value and the number of the call's values at a port.
    Share {
        port: u16,
        value: Value,
    },
    Store {
        place: Place,
        value: Value,
    },
}

impl UnitTile {
    /// Returns the tile of a phase, for devices with `shared_bytes` of shared memory per block.
    pub(crate) fn of(
        program: &Program,
        (phase, entry): (usize, &PhaseEntry),
        shared_bytes: usize,
        precision: DevicePrecision,
    ) -> Option<Self> {
        let mut reader = Reader::new(program, entry)?;
        reader.tile.precision = precision;
        entry.phase.steps.clone().try_for_each(|index| reader.step(index))?;
        let mut tile = Self { phase, shapes: shapes::shapes(1, precision), ..reader.tile };
        tile.stored = tile.scratch(&scratch(program.part(entry.cell, entry.part)?).0);
        let columns = tile.products.iter().map(|product| product.columns.len()).max();
        tile.columns = columns.unwrap_or(1).next_power_of_two() as u32;
        // Half a block if a whole one leaves no room for rows.
        let halves = precision == DevicePrecision::Exact || tile.columns > 1;
        for block in [16, if halves { 8 } else { 16 }] {
            tile.block = block;
            let rows = ROW_BYTES.max(size_of::<f32>() * shapes::room(tile.extent()).0 as usize);
            let weights = size_of::<f32>() * tile.size() as usize;
            if AHEAD_BYTES + weights + rows <= shared_bytes {
                return Some(tile);
            }
        }
        None
    }

    /// Returns the sizes that decide about its shapes.
    pub(crate) fn extent(&self) -> TileExtent {
        let mut products = self.products.iter();
        let has_rings =
            self.depth() > 0 && products.all(|product| product.depth.is_multiple_of(STAGE_TERMS));
        // As `multiply_all` of `kernels/tile.h`.
        let (mut in_pairs, mut left) = (0, &*self.products);
        while let [first, later @ ..] = left {
            left = match later {
                [second, later @ ..] if first.depth == second.depth => {
                    in_pairs += 2 * first.depth;
                    later
                }
                _ => later,
            };
        }
        let (width, depth) = (self.block * self.columns, self.depth());
        let (multiplies, shapes, precision) = (self.terms(), self.shapes, self.precision);
        let products = self.products.len() as u32;
        TileExtent { width, depth, products, multiplies, in_pairs, has_rings, shapes, precision }
    }

    /// Returns the columns for which a product has weights: threads that share a unit have the same
    /// number of columns of each product, and so have all on tensor cores.
    pub(crate) fn columns_of(&self, product: &TileProduct) -> u32 {
        let all = self.columns > 2 || self.precision != DevicePrecision::Exact;
        if all { self.columns } else { product.columns.len() as u32 }
    }

    /// Returns the terms of all products.
    pub(crate) fn depth(&self) -> u32 {
        self.products.iter().map(|product| product.depth).sum()
    }

    /// Returns the number of a unit block's weights: the multiply-adds of a row.
    pub(crate) fn terms(&self) -> u32 {
        let terms = |product| self.block * self.columns_of(product) * product.depth;
        self.products.iter().map(terms).sum()
    }

    /// Returns the words of a unit block's weights.
    pub(crate) fn words(&self) -> u32 {
        self.terms() / self.precision.of_word()
    }

    /// Returns the words of a unit block's weights and constants.
    pub(crate) fn size(&self) -> u32 {
        self.words() + self.constants.len() as u32 * self.block
    }

    /// Returns the floats of a call's scratch that the tile stores, given the start and the width
    /// of each region.
    fn scratch(&self, regions: &[(u32, u32)]) -> Range<u32> {
        let stored = self.lines.iter().filter_map(|line| match line {
            Line::Store { place: Place { base: Base::Scratch(region), .. }, .. } => {
                Some(regions[usize::from(*region)])
            }
            _ => None,
        });
        let all = stored.map(|(start, width)| start..start + width);
        all.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default()
    }

    /// Returns the number of unit blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.units / self.block
    }
}

/// Columns that a step of the phase has written.
#[derive(Clone, Copy)]
enum Written {
    Value(Value),
    Reduced { port: u16, from: u32, by: Reduction },
    Copied(Place),
}

/// Reads the steps of a phase.
struct Reader<'a> {
    program: &'a Program,
    entry: &'a PhaseEntry,
    steps: &'a [CellStep],
    tile: UnitTile,
    written: Vec<(Place, u32, Written)>,
    /// The row of each product.
    rows: Vec<Place>,
    locals: usize,
}

impl<'a> Reader<'a> {
    fn new(program: &'a Program, entry: &'a PhaseEntry) -> Option<Self> {
        let steps = &program.part(entry.cell, entry.part)?.steps;
        let mut units = entry.phase.steps.clone().zip(&entry.phase.units);
        let mut elementwise = units.clone();
        let of_product = units.find(|(index, _)| matches!(steps[*index], CellStep::Product { .. }));
        let of_elementwise =
            || elementwise.find(|(index, _)| matches!(steps[*index], CellStep::Elementwise { .. }));
        let units = *of_product.or_else(of_elementwise)?.1;
        let tile = UnitTile { units, ..UnitTile::default() };
        let (written, rows, locals) = (Vec::new(), Vec::new(), 0);
        let all = Self { program, entry, steps, tile, written, rows, locals };
        units.is_multiple_of(16).then_some(all)
    }

    /// Reads a step. Returns `None` if the phase does not qualify.
    fn step(&mut self, index: usize) -> Option<()> {
        let (steps, units) = (self.steps, self.tile.units);
        match &steps[index] {
            CellStep::Product { rows, width, x, out, mode, .. } => {
                if self.entry.phase.units[index - self.entry.phase.steps.start] != units {
                    return None;
                }
                let product = self.product(index, *x, *width)?;
                for column in 0..rows / units {
                    let at = |place: Place| after(place, column * units);
                    let before = match mode {
                        Mode::Set => None,
                        Mode::Add => Some(self.value(at(*out))?),
                        Mode::From(place) => Some(self.value(at(*place))?),
                    };
                    let columns = &mut self.tile.products[product].columns;
                    columns.push((index, column));
                    let column = columns.len() - 1;
                    (column < MAX_COLUMNS).then_some(())?;
                    self.tile.lines.push(Line::Sum { product, column, before });
                    let local = self.local();
                    self.write(at(*out), units, Written::Value(local));
                }
            }
            CellStep::Elementwise { width, inputs, outputs, .. } if *width == units => {
                let inputs =
                    inputs.iter().map(|&place| self.value(place)).collect::<Option<_>>()?;
                self.tile.lines.push(Line::Program { step: index, inputs });
                for &place in outputs {
                    let local = self.local();
                    self.write(place, units, Written::Value(local));
                }
            }
            &CellStep::Reduce { port, from, width, by, out } if by != Reduction::LogSumExp => {
                self.write(out, width, Written::Reduced { port, from, by });
            }
            &CellStep::Rows(RowStep { kernel, from: [from, _], out, .. }) => {
                let width = steps[index].writes()[0].1;
                let what = match kernel {
                    RowKernel::Share(port) if width == units => {
                        let value = self.value(from)?;
                        self.tile.lines.push(Line::Share { port, value });
                        Written::Value(self.local())
                    }
                    RowKernel::Copy => Written::Copied(from),
                    RowKernel::Fill(value) => Written::Value(Value::Literal(value)),
                    _ => return None,
                };
                self.write(out, width, what);
            }
            _ => return None,
        }
        steps[index].writes().into_iter().try_for_each(|(place, width)| self.store(place, width))
    }

    fn local(&mut self) -> Value {
        self.locals += 1;
        Value::Local(self.locals - 1)
    }

    fn write(&mut self, place: Place, width: u32, what: Written) {
        self.written.push((place, width, what));
    }

    /// Stores columns that later phases read, or that belong to the output.
    fn store(&mut self, place: Place, width: u32) -> Option<()> {
        let later = &self.steps[self.entry.phase.steps.end..];
        let mut read = later.iter().flat_map(CellStep::reads);
        let is_read = place.base == Base::Output
            || read.any(|(other, count)| overlap((place, width), (other, count)));
        if !is_read {
            return Some(());
        }
        let units = self.tile.units;
        width.is_multiple_of(units).then_some(())?;
        for place in (0..width / units).map(|column| after(place, column * units)) {
            let value = self.value(place)?;
            self.tile.lines.push(Line::Store { place, value });
        }
        Some(())
    }

    /// Returns the value of a unit's column of a place.
    fn value(&mut self, place: Place) -> Option<Value> {
        let own = (place, self.tile.units);
        let written =
            self.written.iter().rev().find(|(out, width, _)| overlap((*out, *width), own));
        let load = match written {
            Some(&(out, width, what)) => {
                let from = place.offset.checked_sub(out.offset)?;
                (from + own.1 <= width).then_some(())?;
                match what {
                    Written::Value(value) => return Some(value),
                    Written::Reduced { port, from: first, by } => {
                        Load::Reduced { port, from: first + from, by }
                    }
                    Written::Copied(first) => return self.value(after(first, from)),
                }
            }
            None => match place.base {
                Base::Parameter(weight) => {
                    let constants = &mut self.tile.constants;
                    return Some(Value::Constant(index_of(constants, (weight, place.offset))));
                }
                _ => Load::Row(place),
            },
        };
        Some(Value::Loaded(index_of(&mut self.tile.loads, load)))
    }

    /// Returns the number of the product of a row.
    fn product(&mut self, index: usize, x: Place, depth: u32) -> Option<usize> {
        if let Some(known) = self.rows.iter().position(|&row| row == x) {
            return (self.tile.products[known].depth == depth).then_some(known);
        }
        let cell = self.program.part(self.entry.cell, self.entry.part)?;
        let again = recomputed(cell, self.entry.phase.steps.start..index, x, depth);
        let mut pieces = Vec::new();
        for (columns, writer) in &again {
            let from = |out: Place| x.offset + columns.start - out.offset;
            let load = match self.steps[*writer] {
                CellStep::Reduce { port, from: first, by, out, .. } => {
                    Load::Reduced { port, from: first + from(out), by }
                }
                CellStep::Rows(RowStep { from: [first, _], out, .. }) => {
                    Load::Row(after(first, from(out)))
                }
                _ => return None,
            };
            pieces.push((columns.clone(), load));
        }
        if again.is_empty() {
            pieces.push((0..depth, Load::Row(x)));
        }
        let aligned = |(columns, load): &(Range<u32>, Load)| {
            columns.start.is_multiple_of(4) && self.is_aligned(load)
        };
        let terms = self.tile.precision.terms();
        let fits = pieces.iter().all(aligned) && depth.is_multiple_of(terms) && depth >= MIN_DEPTH;
        let number = self.rows.len();
        (fits && number < MAX_PRODUCTS).then_some(())?;
        self.rows.push(x);
        self.tile.products.push(TileProduct { pieces, depth, columns: Vec::new() });
        Some(number)
    }

    /// Returns true if all rows of a load begin at multiples of four floats.
    fn is_aligned(&self, load: &Load) -> bool {
        let Load::Row(place) = *load else { return true };
        is_aligned(self.program.network(), self.entry.cell, place)
    }
}

fn after(place: Place, columns: u32) -> Place {
    Place { offset: place.offset + columns, ..place }
}

fn overlap((a, width): (Place, u32), (b, other): (Place, u32)) -> bool {
    a.base == b.base && a.offset < b.offset + other && b.offset < a.offset + width
}

/// Returns the index of an item, which it appends if it is new.
fn index_of<T: PartialEq>(all: &mut Vec<T>, item: T) -> usize {
    all.iter().position(|known| *known == item).unwrap_or_else(|| {
        all.push(item);
        all.len() - 1
    })
}
