//! A backend that runs nothing and counts launches, gathers and bytes.

use std::fmt;
use std::sync::Arc;

use edbatch_layout::{Base, CellStep, Moved, Operand, Plan, Program};

use crate::backend::reserve;
use crate::kernels::ArgMax;
use crate::{Backend, BackendError, Bytes, Outputs, Part, StoredRow};

/// Counts the work of plans without doing it. All outputs are zeros.
#[derive(Clone, Debug)]
pub struct Count {
    program: Arc<Program>,
    counts: KernelCounts,
    /// Zeros, as many as the widest wanted value has elements.
    zeros: Vec<f32>,
    /// For each wanted value: the start of its elements, always 0.
    starts: Vec<usize>,
    indices: Vec<ArgMax>,
}

/// Counts over all plans that a [`Count`] has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelCounts {
    /// Batches.
    pub batches: u64,
    /// Steps of cells. A device would launch a kernel for each.
    pub kernels: u64,
    /// Kernels that only copy, fill or transpose. Consecutive ones that write adjacent places
    /// count as one.
    pub memory_kernels: u64,
    /// Bytes that memory kernels write.
    pub moved_bytes: u64,
    /// Operands read through a list of rows instead of as a span, tables included.
    pub gathers: u64,
    /// Rows in the lists of all [`gathers`](Self::gathers).
    pub gathered_rows: u64,
    /// Bytes of the fields that all [`gathers`](Self::gathers) read.
    pub gathered_bytes: u64,
    /// Bytes of output rows, without padding.
    pub written_bytes: u64,
}

impl Count {
    /// A backend for plans of this program.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        let (zeros, starts, indices) = (Vec::new(), Vec::new(), Vec::new());
        Self { program, counts: KernelCounts::default(), zeros, starts, indices }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> KernelCounts {
        self.counts
    }

    /// Counts one step of a plan.
    pub fn step(&mut self, plan: &Plan, step: usize) {
        let cell = self.program.carried_out(&plan.steps[step]);
        let calls = u64::from(plan.steps[step].calls);
        self.counts.batches += u64::from(plan.steps[step].is_batch());
        self.counts.kernels += cell.steps.len() as u64;
        let Moved { kernels, bytes } = cell.moved(calls);
        self.counts.memory_kernels += kernels as u64;
        self.counts.moved_bytes += bytes;
        self.counts.written_bytes += calls * u64::from(cell.output_width) * 4;
        for (rows, elements) in gathers(&self.program, plan, step) {
            self.counts.gathers += 1;
            self.counts.gathered_rows += rows;
            self.counts.gathered_bytes += rows * elements * 4;
        }
    }
}

impl Backend for Count {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        for Part { plan, .. } in parts {
            (0..plan.steps.len()).for_each(|step| self.step(plan, step));
            let wanted = plan.wanted.iter().map(|(row, _)| self.program.record(row.record));
            let widths = wanted.map(|record| record.widths.iter().sum::<u32>() as usize);
            let zeros = widths.max().unwrap_or(0).max(self.zeros.len());
            self.zeros.resize(zeros, 0.0);
            self.starts.resize(self.starts.len().max(plan.wanted.len()), 0);
            let indices = self.indices.len().max(plan.wanted.len());
            self.indices.resize(indices, ArgMax::default());
        }
        Ok(())
    }

    fn outputs<'a>(&'a self, _: usize, plan: &'a Plan) -> Outputs<'a> {
        Outputs::packed(&self.program, plan, (&self.zeros, &self.starts), &self.indices)
    }

    fn reserve_store(&mut self, _: usize, _: usize) -> Result<(), BackendError> {
        Ok(())
    }

    /// Appends zeros.
    fn read_stored(
        &self,
        _: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        for row in rows {
            let width = self.program.record(row.record).widths.iter().sum::<u32>() as usize;
            reserve(to, width, "the elements of stored rows")?;
            to.resize(to.len() + width, 0.0);
        }
        Ok(())
    }

    fn program(&self) -> Option<&Arc<Program>> {
        Some(&self.program)
    }

    /// Returns zeros: no weights are read, and there is no arena.
    fn bytes(&self) -> Bytes {
        Bytes::default()
    }

    fn fork(&self) -> Box<dyn Backend> {
        Box::new(Self::new(self.program.clone()))
    }
}

/// Returns the number of bytes that a plan reads through lists of rows instead of as spans.
#[must_use]
pub fn gathered_bytes(program: &Program, plan: &Plan) -> u64 {
    (0..plan.steps.len()).map(|step| bytes_gathered_by(program, plan, step)).sum()
}

/// Returns the number of bytes that a step reads through lists of rows.
pub(crate) fn bytes_gathered_by(program: &Program, plan: &Plan, step: usize) -> u64 {
    gathers(program, plan, step).map(|(rows, elements)| rows * elements * 4).sum()
}

/// Returns the number of rows, and of elements per row, for each operand that a step reads through
/// a list.
fn gathers<'a>(
    program: &'a Program,
    plan: &'a Plan,
    index: usize,
) -> impl Iterator<Item = (u64, u64)> + 'a {
    let step = plan.steps[index];
    let tables = program.network()[step.cell].tables();
    plan.operands_of(index).iter().enumerate().filter_map(move |(position, operand)| {
        let rows = match *operand {
            Operand::Span { .. } | Operand::Unread => return None,
            Operand::Table { .. }
            | Operand::Hoisted { .. }
            | Operand::Folded { .. }
            | Operand::List { .. } => step.calls,
            Operand::Many { ends, .. } => plan.list(ends, step.calls).last().copied().unwrap_or(0),
        };
        let elements = match position.checked_sub(tables.len()) {
            None => u64::from(program.table_width(&tables[position])),
            Some(port) => {
                let ports = program.network()[step.cell].ports().len();
                let base = if port < ports { Base::Port(port as u16) } else { Base::Hoisted };
                elements_read(&program.carried_out(&step).steps, base)
            }
        };
        Some((u64::from(rows), elements))
    })
}

/// Returns the number of distinct elements per row that the steps of a cell read from the operand
/// at `base`.
fn elements_read(steps: &[CellStep], base: Base) -> u64 {
    let mut places: Vec<_> =
        steps.iter().flat_map(CellStep::reads).filter(|(place, _)| place.base == base).collect();
    places.sort_unstable();
    places.dedup();
    places.iter().map(|&(_, width)| u64::from(width)).sum()
}

impl fmt::Display for KernelCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} batches, {} kernels ({} of them move {} bytes), {} gathers of {} rows ({} bytes), \
             {} bytes written",
            self.batches,
            self.kernels,
            self.memory_kernels,
            self.moved_bytes,
            self.gathers,
            self.gathered_rows,
            self.gathered_bytes,
            self.written_bytes
        )
    }
}
