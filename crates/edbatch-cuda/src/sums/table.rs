//! The sums of a program: which there are, and their places.

use std::ops::Range;

use edbatch_graph::{Kind, Network, ParameterId, ParameterSum, RowAdjoint, TrainingNetwork};
use edbatch_layout::{LINE, Program, RecordLayout};
use edbatch_runtime::{Contributors, Gradient};

use crate::CudaError;

/// The sums of a program, by number.
#[derive(Default, Debug)]
pub(crate) struct SumTable {
    /// By forward cell, if it has an adjoint.
    pub(super) cells: Vec<Option<CellSums>>,
    pub(super) sums: Vec<Sum>,
    pub(super) tables: Vec<TableSums>,
    /// By initial value of the network and by field: the number of the first of its two sums among
    /// all sums of initial values, if it is trained.
    pub(super) of_initial: Vec<Vec<Option<usize>>>,
    pub(super) initial: Vec<InitialSum>,
    /// The fields of rows: the place in a call's row and in a sum, and the width.
    pub(crate) fields: Vec<[u32; 3]>,
    /// By parameter.
    pub(crate) gradients: Vec<GradientPlace>,
    /// The floats of all gradients and of the sums that every mini-batch has.
    pub(crate) floats: u32,
}

/// The place of a parameter's gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GradientPlace {
    /// It has none.
    None,
    /// All elements, from a place on; and the elements of a row, if it is a table.
    Whole { place: u32, elements: u32, width: u32 },
    /// It has the rows that a mini-batch names, of a width.
    Rows(u32),
}

/// The sums of a cell: numbers of sums over its calls, and of tables if their rows have gradients.
#[derive(Debug)]
pub(super) struct CellSums {
    pub(super) sums: Range<usize>,
    pub(super) tables: Vec<Option<usize>>,
}

/// A sum over calls, of outer products or, if the depth is 0, of rows.
#[derive(Debug)]
pub(super) struct Sum {
    pub(super) parameter: ParameterId,
    /// The place of the first row in the row of a call, and of the second one.
    delta: u32,
    x: u32,
    outputs: u32,
    depth: u32,
    /// The pairs of rows of a call.
    pairs: u32,
    /// The place of the sum.
    pub(super) to: u32,
}

/// The sums of a table's rows, and what is computed from them.
#[derive(Debug)]
pub(super) struct TableSums {
    /// The table's parameter, if it is trained.
    pub(super) parameter: Option<ParameterId>,
    /// The elements of a row of the table.
    pub(super) width: u32,
    /// The fields of a sum, and the distance between sums.
    pub(super) fields: Range<u32>,
    pub(super) stride: u32,
    pub(super) adjoint: Option<RowCell>,
}

/// The adjoint of a table's rows.
#[derive(Debug)]
pub(super) struct RowCell {
    pub(super) kind: Kind,
    /// The distance between the rows of its calls, and the place of a row's gradient in them.
    pub(super) stride: u32,
    pub(super) row: Option<u32>,
    /// The numbers of the sums over its calls.
    pub(super) sums: Range<usize>,
}

/// A sum of an initial value's field: of gradients of outputs, or of contributions of calls.
#[derive(Debug)]
pub(super) struct InitialSum {
    pub(super) parameter: ParameterId,
    pub(super) field: u32,
    pub(super) to: u32,
}

/// The words of a sum, and the x of a sum of rows, in `kernels/sums.cu`.
pub(super) const SUM: usize = 9;
const NONE: u32 = u32::MAX;

impl Sum {
    /// Returns the sum as the kernel reads it, over some calls of the list.
    pub(super) fn words(&self, calls: Range<u32>, flags: u32) -> [u32; SUM] {
        let &Self { delta, x, outputs, depth, pairs, to, .. } = self;
        [calls.start, calls.end, delta, x, outputs, depth, pairs, to, flags]
    }

    /// Returns the tiles of the sum, as the kernel reads them. Large gradients have larger tiles,
    /// which take fewer loads; small ones have more blocks.
    pub(super) fn tiles(&self, number: u32) -> impl Iterator<Item = [u32; TILE]> + use<> {
        const LARGE: u32 = 512;
        let is_large = self.outputs >= LARGE && self.depth >= LARGE;
        tiles(number, [self.outputs, self.depth], is_large)
    }
}

/// Returns the tiles of the sum with a number, of some rows and columns, or of rows alone.
pub(crate) fn tiles(
    number: u32,
    [outputs, depth]: [u32; 2],
    is_large: bool,
) -> impl Iterator<Item = [u32; TILE]> {
    let (rows, columns): (u32, u32) = if is_large { (128, 128) } else { (64, 32) };
    let of_rows = move |n| {
        let first_columns = (0..depth.max(1)).step_by(columns as usize);
        first_columns.map(move |k| [number, n, k, rows])
    };
    (0..outputs).step_by(rows as usize).flat_map(of_rows)
}

/// The words of a tile.
pub(crate) const TILE: usize = 4;

/// The floats that are too many.
const MAX_FLOATS: u32 = u32::MAX - LINE as u32 + 1;

impl SumTable {
    /// Returns the sums of a program for training.
    ///
    /// # Errors
    /// If 32 bits cannot hold the places of all sums.
    pub(crate) fn new(program: &Program, training: &TrainingNetwork) -> Result<Self, CudaError> {
        let network = &training.network;
        let parameters = network.parameters();
        let contributors = Contributors::all(training);
        let mut table = Self::default();
        for ((of, &is_trained), parameter) in
            contributors.iter().zip(&training.trained).zip(parameters)
        {
            let width = parameter.dims.iter().skip(1).product::<usize>() as u32;
            let place = match of.empty_gradient(is_trained) {
                Gradient::None => GradientPlace::None,
                Gradient::Whole(_) => {
                    let (elements, width) = (parameter.elements() as u32, width);
                    GradientPlace::Whole { place: table.take(elements), elements, width }
                }
                Gradient::Rows { .. } => GradientPlace::Rows(width),
            };
            table.gradients.push(place);
        }
        for (kind, adjoint) in training.adjoints.iter().enumerate() {
            let of_cell = adjoint.as_ref().map(|adjoint| {
                let record = program.record(network[adjoint.cell].record());
                let sums = table.add_sums(network, (record, &adjoint.sums), &contributors);
                let declared = network.cells()[kind].tables();
                let tables = adjoint.tables.iter().zip(declared).map(|(of, declared)| {
                    let of = of.as_ref()?;
                    let parameter = declared.parameter.expect("an index has no gradient");
                    let width = program.table_width(declared);
                    Some(table.add_table(program, record, of, (parameter, width), &contributors))
                });
                CellSums { sums, tables: tables.collect() }
            });
            table.cells.push(of_cell);
        }
        for value in network.initial_values() {
            let record = program.record(value.record);
            let fields = value.parameters.iter().zip(&record.widths);
            let fields = fields.map(|(&parameter, &width)| {
                table.is_trained(parameter).then(|| {
                    let (first, field) = (table.initial.len(), table.fields.len() as u32);
                    table.fields.push([0, 0, width]);
                    for _ in 0..2 {
                        let to = table.take(width);
                        table.initial.push(InitialSum { parameter, field, to });
                    }
                    first
                })
            });
            let fields = fields.collect();
            table.of_initial.push(fields);
        }
        match table.floats < MAX_FLOATS {
            true => Ok(table),
            false => Err(CudaError::TooLarge {
                what: "the gradients of parameters and their sums",
                elements: table.floats.into(),
            }),
        }
    }

    /// Reserves a number of floats and returns their place, a multiple of 64 bytes. If there is no
    /// place, [`new`](Self::new) fails at its end.
    fn take(&mut self, floats: u32) -> u32 {
        let place = self.floats;
        let end = u64::from(place) + u64::from(floats).next_multiple_of(LINE as u64);
        self.floats = u32::try_from(end).unwrap_or(MAX_FLOATS).min(MAX_FLOATS);
        place
    }

    fn is_trained(&self, parameter: ParameterId) -> bool {
        self.gradients[parameter.0 as usize] != GradientPlace::None
    }

    /// Adds the sums over calls of an adjoint, with its record. Returns their numbers.
    fn add_sums(
        &mut self,
        network: &Network,
        (record, sums): (&RecordLayout, &[ParameterSum]),
        contributors: &[Contributors],
    ) -> Range<usize> {
        let first = self.sums.len();
        let offset = |field: u16| record.offsets[usize::from(field)];
        for sum in sums {
            let parameter = sum.parameter();
            if !self.is_trained(parameter) {
                continue;
            }
            let declared = network.parameter(parameter);
            // The only sum of a gradient is the gradient.
            let to = match self.gradients[parameter.0 as usize] {
                GradientPlace::Whole { place, .. }
                    if contributors[parameter.0 as usize].is_direct() =>
                {
                    place
                }
                _ => self.take(declared.elements() as u32),
            };
            let dims = declared.dims.iter().map(|&dim| dim as u32).collect::<Vec<_>>();
            self.sums.push(match *sum {
                ParameterSum::Products { delta, x, pairs, .. } => {
                    let [delta, x] = [delta, x].map(offset);
                    Sum { parameter, delta, x, outputs: dims[0], depth: dims[1], pairs, to }
                }
                ParameterSum::Elements { from, .. } => {
                    let (delta, outputs) = (offset(from), dims.iter().product());
                    Sum { parameter, delta, x: NONE, outputs, depth: 0, pairs: 1, to }
                }
            });
        }
        first..self.sums.len()
    }

    /// Adds the sums of the rows of a table, which an adjoint with a record has. Returns their
    /// number.
    fn add_table(
        &mut self,
        program: &Program,
        record: &RecordLayout,
        of: &RowAdjoint,
        (parameter, width): (ParameterId, u32),
        contributors: &[Contributors],
    ) -> usize {
        let network = program.network();
        let from = of.fields.clone().map(usize::from);
        let from = from.map(|field| (record.offsets[field], record.widths[field]));
        // The row adjoint reads the sums at its only port.
        let port = of.cell.map(|row| program.record(network[row].ports()[0].record));
        let stride =
            port.map_or_else(|| from.clone().map(|(_, width)| width).sum(), |it| it.stride);
        let to = port.map_or(vec![0], |record| record.offsets.clone());
        let first = self.fields.len() as u32;
        self.fields.extend(from.zip(to).map(|((from, width), to)| [from, to, width]));
        let fields = first..self.fields.len() as u32;
        let adjoint = of.cell.map(|kind| {
            let record = program.record(network[kind].record());
            let sums = self.add_sums(network, (record, &of.sums), contributors);
            let row = of.row.map(|field| record.offsets[usize::from(field)]);
            RowCell { kind, stride: program.cell(kind).output_stride, row, sums }
        });
        let parameter = self.is_trained(parameter).then_some(parameter);
        let stride = stride.next_multiple_of(LINE as u32);
        self.tables.push(TableSums { parameter, width, fields, stride, adjoint });
        self.tables.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_wrap() {
        let mut table = SumTable::default();
        let places = [5, 1 << 31, (1 << 31) - 64, 9, 1].map(|floats| table.take(floats));
        assert_eq!(places[..3], [0, 16, (1 << 31) + 16]);
        assert!(table.floats == MAX_FLOATS && places[3..].iter().all(|&place| place > 1 << 31));
    }
}
