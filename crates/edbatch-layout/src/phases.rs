//! Cells for devices: runs of steps in which every unit minds its own columns.
//!
//! A GPU has blocks of threads that run side by side and synchronise only between launches. So that
//! several blocks can share a batch, they divide the columns that each step of its cell writes. The
//! work of a step is divided into **units**: unit `j` of `n` writes the columns `j`, `j + n`,
//! `j + 2n`, …. A stack of gates has as many units as a gate has rows (if its weights differ in
//! rows, as many as all together), an element-wise program as many as it is wide, a softmax one.
//!
//! A **phase** is a run of steps in which each unit reads, of what the phase writes, only its own
//! columns: blocks need to synchronise only between phases. A product or a softmax of what was just
//! computed reads other units' columns and begins the next phase, which goes into a later wave of
//! the [tape](crate::Tape).
//!
//! What only reduces or copies arguments ends no phase: where a product needs whole rows of it,
//! each block computes them again as it loads them ([`recomputed`]).
//!
//! An LSTM, a node of a tree and an arc of a lattice are one phase, a GRU is two; an output of two
//! layers is two, though it puts several arguments side by side first.

use std::fmt;
use std::ops::Range;

use edbatch_graph::Network;

use crate::cell_plan::{Base, CellPlan, CellStep, Mode, Place};

/// Steps of a cell that blocks carry out side by side, each block for some of their units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// Which steps, in order.
    pub steps: Range<usize>,
    /// By step: how many units it has.
    pub units: Vec<u32>,
}

/// Columns that a step reads or writes, and which of its units does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) place: Place,
    pub(crate) width: u32,
    /// Whether it is written.
    pub(crate) writes: bool,
    /// Unit `j` touches the columns `j`, `j + units`, … of the place; none: every unit touches all.
    pub(crate) units: Option<u32>,
}

/// Cuts a cell, or a part of one, into phases.
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

/// The steps that make the columns of a place, and which columns each makes, ascending; if the last
/// of some steps to write each column does no more than reduce or copy arguments. Then a block can
/// compute any column again, without waiting for whoever writes it. Else nothing.
#[must_use]
pub fn recomputed(
    cell: &CellPlan,
    steps: Range<usize>,
    place: Place,
    width: u32,
) -> Vec<(Range<u32>, usize)> {
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

/// Where a step's result goes and how wide it is, if the step only reduces or copies arguments.
fn of_arguments(step: &CellStep) -> Option<(Place, u32)> {
    match *step {
        CellStep::Reduce { out, width, .. } => Some((out, width)),
        CellStep::Copy { from, out, width } => {
            let is_argument = !matches!(from.base, Base::Scratch(_) | Base::Output);
            is_argument.then_some((out, width))
        }
        _ => None,
    }
}

/// How many units a step has.
fn units(network: &Network, step: &CellStep) -> u32 {
    match step {
        CellStep::Product { weights, rows, .. } => {
            let mut each = weights.iter().map(|&id| network.parameters()[id.0 as usize].dims[0]);
            let first = each.next().map_or(*rows, |first| first as u32);
            if each.all(|other| other as u32 == first) { first } else { *rows }
        }
        CellStep::MatMul { m, n, .. } => m * n,
        // A row is one chain of sums.
        CellStep::Softmax { .. } => 1,
        CellStep::Reduce { width, .. }
        | CellStep::Elementwise { width, .. }
        | CellStep::Copy { width, .. }
        | CellStep::Fill { width, .. } => *width,
        CellStep::Expand { rows, columns, .. } | CellStep::Transpose { rows, columns, .. } => {
            rows * columns
        }
    }
}

/// What a step of so many units reads and writes of scratch and output.
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
        CellStep::Copy { from, width, .. } => touch(*from, *width, false, Some(units)),
        step => {
            step.reads().into_iter().for_each(|(place, width)| touch(place, width, false, None))
        }
    }
    accesses
}

impl Access {
    /// Whether another access may not be in the same phase: it touches a column that another unit
    /// touches too, and one of both writes it.
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

/// Proves that phases cut a cell into all its steps, in order, and that within each no unit touches
/// a column that another one writes: column by column, unlike [`phases`].
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

/// A unit of a step with so many: which one and of how many; `None` is any of them.
type Unit = Option<(u32, u32)>;

fn check_phase(cell: &CellPlan, phase: &Phase) -> Result<(), String> {
    // By column of scratch or output: who wrote it in this phase, and who read it.
    let mut columns: std::collections::HashMap<(Base, u32), (Vec<Unit>, Vec<Unit>)> =
        std::collections::HashMap::new();
    // By column: the step that wrote it last in this phase.
    let mut written = std::collections::HashMap::new();
    for (index, &units) in phase.steps.clone().zip(&phase.units) {
        let step = &cell.steps[index];
        if units == 0 {
            return Err("a step without units".into());
        }
        for access in accesses(step, units) {
            let (base, offset) = (access.place.base, access.place.offset);
            if matches!(step, CellStep::Product { .. }) && access.units.is_none() {
                // Whole rows are computed again, if all of them were made from arguments.
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

/// `steps 0..3: 8 8 8 units`.
impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "steps {}..{}:", self.steps.start, self.steps.end)?;
        self.units.iter().try_for_each(|units| write!(f, " {units}"))?;
        f.write_str(" units")
    }
}
