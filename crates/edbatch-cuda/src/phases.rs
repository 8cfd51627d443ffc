//! Phases of cells: runs of steps that thread blocks can divide by columns.
//!
//! The thread blocks of a GPU run at the same time and synchronise only between waves. So that
//! several blocks can share a batch, they divide the columns that each step of its cell writes.
//! The work of a step is divided into **units**: unit `j` of `n` writes the columns `j`, `j + n`,
//! `j + 2n`, …. A stack of gates has a unit per row of a gate, or per row of the stack if its
//! weights differ in rows. An element-wise program has a unit per column. A softmax, a norm and
//! attention have a single unit.
//!
//! In a **phase**, a unit may read columns that it writes itself, but not columns that other units
//! of the phase write. So blocks need to synchronise only between phases. A product or a softmax
//! of a value that was just computed reads columns of other units. It starts the next phase, which
//! runs in a later wave of the [command list](crate::CommandList).
//!
//! A step that only reduces or copies arguments does not end a phase: if a product needs whole
//! rows of its result, each block computes them again while it loads them ([`recomputed`]).
//!
//! An LSTM, a node of a tree and an arc of a lattice are one phase; a GRU is two. An output with a
//! hidden layer is two, even if it first concatenates several arguments.

use std::fmt;
use std::ops::Range;

use edbatch_graph::{Kind, Network, Reduction};
use edbatch_layout::{Base, CellPlan, CellStep, Mode, Place, RowKernel, RowStep};

/// Consecutive steps of a cell. Thread blocks can compute their units independently of each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// The steps.
    pub steps: Range<usize>,
    /// For each step: the number of units into which the columns that it writes are divided.
    pub units: Vec<u32>,
}

/// The maximum number of columns that blocks repeat: `ROWS` of `kernels/block.h` holds a row.
const MAX_RECOMPUTED: u32 = 8192;

/// Columns that a step reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) place: Place,
    pub(crate) width: u32,
    /// True if the step writes the columns.
    pub(crate) writes: bool,
    /// Unit `j` touches the columns `j`, `j + units`, … of the place. `None`: each unit touches all
    /// columns.
    pub(crate) units: Option<u32>,
}

/// Divides the steps of a cell into phases.
#[must_use]
pub fn phases(network: &Network, cell: &CellPlan) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let mut touched: Vec<Access> = Vec::new();
    for (index, step) in cell.steps.iter().enumerate() {
        let units = units(network, step);
        let mut accesses = accesses(step, units);
        if let (Some(phase), CellStep::Product { x, width, .. }) = (phases.last(), step)
            && !recomputed(cell, phase.steps.clone(), *x, *width).is_empty()
        {
            accesses.retain(|access| access.units.is_some());
        }
        let depends = |access: &Access| touched.iter().any(|other| other.conflicts(access));
        match phases.last_mut() {
            Some(phase) if !accesses.iter().any(depends) => {
                phase.steps.end = index + 1;
                phase.units.push(units);
            }
            _ => {
                touched.clear();
                phases.push(Phase { steps: index..index + 1, units: vec![units] });
            }
        }
        touched.extend(accesses);
    }
    phases
}

/// Splits the columns of a place into pieces, each with the last of `steps` that writes it. If all
/// of these steps only reduce or copy arguments, a block can compute the columns again instead of
/// waiting for other blocks. Otherwise returns an empty list.
pub(crate) fn recomputed(
    cell: &CellPlan,
    steps: Range<usize>,
    place: Place,
    width: u32,
) -> Vec<(Range<u32>, usize)> {
    // Shared memory must hold a whole row of columns that are computed again.
    if width > MAX_RECOMPUTED {
        return Vec::new();
    }
    let written: Vec<(usize, Vec<(Place, u32)>)> =
        steps.rev().map(|index| (index, cell.steps[index].writes())).collect();
    let writer = |column: u32| {
        let writes = |&(out, width): &(Place, u32)| {
            out.base == place.base && (out.offset..out.offset + width).contains(&column)
        };
        let (index, _) = written.iter().find(|(_, places)| places.iter().any(writes))?;
        of_arguments(&cell.steps[*index]).map(|_| *index)
    };
    let writers: Option<Vec<usize>> = (place.offset..place.offset + width).map(writer).collect();
    let mut end = 0;
    let pieces = writers.iter().flat_map(|writers| writers.chunk_by(|a, b| a == b));
    pieces
        .map(|piece| {
            let first = end;
            end += piece.len() as u32;
            (first..end, piece[0])
        })
        .collect()
}

/// Returns the place and the width of a step's result, if the step only reduces or copies arguments
/// of the cell.
fn of_arguments(step: &CellStep) -> Option<(Place, u32)> {
    match *step {
        // Each block would compute the exponentials of a log-sum-exp again.
        CellStep::Reduce { by: Reduction::LogSumExp, .. } => None,
        CellStep::Reduce { out, width, .. } => Some((out, width)),
        CellStep::Rows(RowStep {
            kernel: RowKernel::Copy, from: [from, _], out, columns, ..
        }) => {
            let is_argument = !matches!(from.base, Base::Scratch(_) | Base::Output);
            is_argument.then_some((out, columns))
        }
        _ => None,
    }
}

/// Returns the place of the row of a product, if it is in memory as a whole: not computed again by
/// each block, unless all of it is copied from a place.
pub(crate) fn whole_row(
    cell: &CellPlan,
    steps: Range<usize>,
    x: Place,
    width: u32,
) -> Option<Place> {
    match recomputed(cell, steps, x, width).as_slice() {
        [] => Some(x),
        [(_, writer)] => copied(&cell.steps[*writer], x),
        _ => None,
    }
}

/// Returns the place from which a step copies the columns at `x`, if it copies.
pub(crate) fn copied(step: &CellStep, x: Place) -> Option<Place> {
    match *step {
        CellStep::Rows(RowStep { kernel: RowKernel::Copy, from: [from, _], out, .. }) => {
            let offset = (from.offset + x.offset).checked_sub(out.offset)?;
            Some(Place { offset, ..from })
        }
        _ => None,
    }
}

/// Returns true if the rows at a place begin at multiples of four floats.
pub(crate) fn is_aligned(network: &Network, cell: Kind, place: Place) -> bool {
    let row = match place.base {
        Base::Table(table) => {
            let table = &network[cell].tables()[usize::from(table)];
            let dims = table.parameter.map(|id| &network.parameter(id).dims);
            dims.and_then(|dims| dims.last()).copied().unwrap_or(1)
        }
        _ => 4,
    };
    row.is_multiple_of(4) && place.offset.is_multiple_of(4)
}

/// Returns the number of units of a step.
fn units(network: &Network, step: &CellStep) -> u32 {
    match step {
        CellStep::Product { weights, rows, .. } => {
            let mut each = weights.iter().map(|weight| {
                let dims = &network.parameter(weight.parameter()).dims;
                weight.rows_and_columns(dims).map_or(*rows, |(rows, _)| rows as u32)
            });
            let first = each.next().unwrap_or(*rows);
            if each.all(|other| other == first) { first } else { *rows }
        }
        CellStep::MatMul { m, n, .. } => m * n,
        CellStep::Rows(step) => step.units(),
        // The threads of a block compute a call together.
        CellStep::Attention { .. } | CellStep::AttentionBack { .. } => 1,
        CellStep::Reduce { width, .. } | CellStep::Elementwise { width, .. } => *width,
    }
}

/// Returns the accesses of a step to scratch and output.
pub(crate) fn accesses(step: &CellStep, units: u32) -> Vec<Access> {
    let mut accesses = Vec::new();
    let mut touch = |place: Place, width, writes, units| {
        if matches!(place.base, Base::Scratch(_) | Base::Output) {
            accesses.push(Access { place, width, writes, units });
        }
    };
    for (place, width) in step.writes() {
        touch(place, width, true, Some(units));
    }
    match step {
        CellStep::Product { rows, width, x, mode, .. } => {
            touch(*x, *width, false, None);
            if let Mode::From(start) = mode {
                touch(*start, *rows, false, Some(units));
            }
        }
        CellStep::Elementwise { width, inputs, .. } => {
            inputs.iter().for_each(|&place| touch(place, *width, false, Some(units)));
        }
        // Each unit reads the column that it writes.
        CellStep::Rows(RowStep {
            kernel: RowKernel::Copy | RowKernel::Share(_),
            from: [from, _],
            columns,
            ..
        }) => touch(*from, *columns, false, Some(units)),
        step => {
            step.reads().into_iter().for_each(|(place, width)| touch(place, width, false, None))
        }
    }
    accesses
}

impl Access {
    /// Returns true if two accesses cannot be in one phase: different units touch the same column,
    /// and at least one of them writes it.
    fn conflicts(&self, other: &Self) -> bool {
        let (a, b) = (self.place, other.place);
        let overlap = a.base == b.base
            && a.offset < b.offset + other.width
            && b.offset < a.offset + self.width;
        let same_unit = match (self.units, other.units) {
            (Some(units), Some(others)) => {
                units == others && a.offset.abs_diff(b.offset).is_multiple_of(units)
            }
            _ => false,
        };
        overlap && (self.writes || other.writes) && !same_unit
    }
}

/// Proves that phases contain all steps of a cell in order, and that no unit of a phase touches a
/// column that another unit of the phase writes. It compares column by column, unlike [`phases`].
///
/// # Errors
/// The first violation.
pub fn check_phases(cell: &CellPlan, phases: &[Phase]) -> Result<(), String> {
    let mut next = 0;
    for (number, phase) in phases.iter().enumerate() {
        let Range { start, end } = phase.steps;
        if start != next || end <= start || end > cell.steps.len() {
            return Err(format!("phase {number} is of steps {start}..{end}, expected from {next}"));
        }
        if phase.units.len() != end - start {
            let units = phase.units.len();
            return Err(format!("phase {number} has {units} units for {} steps", end - start));
        }
        next = end;
        check_phase(cell, phase).map_err(|what| format!("phase {number}: {what}"))?;
    }
    if next != cell.steps.len() {
        return Err(format!("phases of {next} steps, expected {}", cell.steps.len()));
    }
    Ok(())
}

/// The index of a unit, and the number of units of its step. `None` stands for every unit.
type Unit = Option<(u32, u32)>;

fn check_phase(cell: &CellPlan, phase: &Phase) -> Result<(), String> {
    // By column of scratch or output: the units that write and read it in this phase.
    let mut columns: std::collections::HashMap<(Base, u32), (Vec<Unit>, Vec<Unit>)> =
        std::collections::HashMap::new();
    // By column: the last step of this phase that wrote it.
    let mut written = std::collections::HashMap::new();
    for (index, &units) in phase.steps.clone().zip(&phase.units) {
        let step = &cell.steps[index];
        if units == 0 {
            return Err("a step without units".into());
        }
        for access in accesses(step, units) {
            let (base, offset) = (access.place.base, access.place.offset);
            if matches!(step, CellStep::Product { .. }) && access.units.is_none() {
                // Blocks compute whole rows again, if the steps that wrote them only reduce or
                // copy arguments.
                let again = |column| {
                    let writer: Option<&usize> = written.get(&(base, column));
                    writer.is_some_and(|&writer| of_arguments(&cell.steps[writer]).is_some())
                };
                if (offset..offset + access.width).all(again) {
                    continue;
                }
            }
            if access.writes {
                written.extend((offset..offset + access.width).map(|c| ((base, c), index)));
            }
            for column in 0..access.width {
                let unit = access.units.map(|units| (column % units, units));
                let key = (access.place.base, access.place.offset + column);
                let (writers, readers) = columns.entry(key).or_default();
                let others = writers.iter().chain(readers.iter().filter(|_| access.writes));
                if others.into_iter().any(|other| other.is_none() || *other != unit) {
                    let (base, column) = key;
                    return Err(format!("{base:?} column {column} belongs to several units"));
                }
                let touched = if access.writes { writers } else { readers };
                if touched.last() != Some(&unit) {
                    touched.push(unit);
                }
            }
        }
    }
    Ok(())
}

/// Writes the steps and the units of each step, such as `steps 0..3: 8 8 8 units`.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "steps {}..{}:", self.steps.start, self.steps.end)?;
        self.units.iter().try_for_each(|units| write!(f, " {units}"))?;
        f.write_str(" units")
    }
}
