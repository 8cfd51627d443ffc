//! The waves of a plan: sets of steps that do not depend on each other.

use edbatch_layout::{Operand, Plan, Program};

use crate::reads::{Reads, set};

/// Returns the wave of each step of a plan. A step that reads neither given rows nor another step's
/// output has wave 0. Given rows are written in wave 0, so their readers have wave 1 or more. Any
/// other step has the wave after the last one whose output it reads; a wave more lies between a
/// value and a step that looks up the row of its argmax. A backward plan runs after its
/// forward plan, whose rows all of its waves may read.
///
/// The plan must have [distinct lifetimes](edbatch_layout::Lifetimes::Distinct):
/// [`check_waves`](crate::check_waves()) proves that the steps of a wave may run in any order.
///
/// *Cost*: O(edges) if rows read in turn have the same producer, else O(edges × log steps).
#[must_use]
pub fn waves(program: &Program, plan: &Plan) -> Vec<u32> {
    let mut finder = WaveFinder::default();
    finder.find(program, plan);
    finder.waves
}

/// Finds waves. Memory is reused from plan to plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaveFinder {
    /// The given rows and the outputs of steps, by ascending start.
    outputs: Vec<Output>,
    /// The wave of each step.
    pub(crate) waves: Vec<u32>,
    /// The cells whose values the steps of each cell read.
    pub(crate) reads: Reads,
}

/// The range of the arena that a step writes, or of a given row, in elements.
#[derive(Clone, Copy, Debug)]
struct Output {
    start: u64,
    end: u64,
    /// The first wave that may read this range.
    readable: u32,
    /// The set of the cell of the step; empty for a given row.
    cell: u64,
}

impl WaveFinder {
    /// Finds the wave of each step of a plan.
    pub(crate) fn find(&mut self, program: &Program, plan: &Plan) {
        self.outputs.clear();
        self.waves.clear();
        self.reads.clear();
        self.outputs.extend(plan.given.iter().map(|row| {
            let start = u64::from(row.start);
            let end = start + u64::from(program.record(row.record).stride);
            Output { start, end, readable: 1, cell: 0 }
        }));
        self.outputs.sort_unstable_by_key(|output| output.start);
        for (index, step) in plan.steps.iter().enumerate() {
            let mut reader = Reader::new(&self.outputs);
            for operand in plan.operands_of(index) {
                match *operand {
                    // No step writes tables.
                    Operand::Table { .. } | Operand::Folded { .. } | Operand::Unread => {}
                    Operand::Hoisted { start } => {
                        plan.rows(start, step.calls).iter().for_each(|&row| reader.read(row));
                    }
                    Operand::Span { first, stride } => {
                        (0..step.calls).for_each(|call| reader.read(first + call * stride));
                    }
                    Operand::List { start } => {
                        plan.list(start, step.calls).iter().for_each(|&row| reader.read(row));
                    }
                    Operand::Many { ends, rows } => {
                        let all = plan.list(ends, step.calls).last().copied().unwrap_or(0);
                        plan.list(rows, all).iter().for_each(|&row| reader.read(row));
                    }
                }
            }
            let mut wave = reader.wave;
            if let lookups @ [_, ..] = plan.lookups_of(index) {
                let mut reader = Reader::new(&self.outputs);
                lookups.iter().for_each(|own| reader.read(own.value.start));
                wave = wave.max(reader.wave + 1);
            }
            self.waves.push(wave);
            self.reads.add(step.cell, reader.cells);
            let (start, rows) = (u64::from(step.out), u64::from(step.calls));
            let end = start + rows * u64::from(program.carried_out(step).output_stride);
            // A planner allocates in ascending order, so this appends.
            let place = self.outputs.partition_point(|output| output.start <= start);
            let output = Output { start, end, readable: wave + 1, cell: set(step.cell) };
            self.outputs.insert(place, output);
        }
    }
}

/// Finds the wave of a step, and the cells that it reads, from its rows.
struct Reader<'a> {
    outputs: &'a [Output],
    /// The output that holds the row read last, since the next row is often in the same one.
    last: Output,
    wave: u32,
    cells: u64,
}

impl<'a> Reader<'a> {
    fn new(outputs: &'a [Output]) -> Self {
        let last = Output { start: 0, end: 0, readable: 0, cell: 0 };
        Self { outputs, last, wave: 0, cells: 0 }
    }

    #[inline]
    fn read(&mut self, row: u32) {
        let row = u64::from(row);
        if !(self.last.start..self.last.end).contains(&row) {
            let after = self.outputs.partition_point(|output| output.start <= row);
            let output = after.checked_sub(1).map(|index| self.outputs[index]);
            // A row that nothing writes is an error of `check_waves`.
            if let Some(output) = output.filter(|output| row < output.end) {
                self.last = output;
                self.wave = self.wave.max(output.readable);
                self.cells |= output.cell;
            }
        }
    }
}
