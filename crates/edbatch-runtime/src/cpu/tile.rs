//! One tile of a batch through all steps of its cell.

use std::ops::Range;

use edbatch_graph::Reduction;
use edbatch_layout::{Base, CellStep, Mode, Operand, Place, Plan};
use smallvec::SmallVec;

use super::load::{Loaded, Run};
use super::multiply::multiply;
use super::target::{Taken, Target, each_row, writable};
use super::{Aligned, Profile, Work};
use crate::kernels::rows::Around;
use crate::kernels::{self, Input, Left, Level, Pass, Rows, Shape, Start};
use crate::team::Team;

/// A step of a plan, for whichever thread runs a part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) plan: &'a Plan,
    pub(super) index: usize,
    /// The arena, but for what the step writes.
    pub(super) around: Around<'a>,
    pub(super) profile: &'a Profile,
    /// In which order weights are read.
    pub(super) pass: Pass,
}

/// Memory of a tile, reused by all that a thread runs.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    regions: Vec<Aligned>,
    /// Rows gathered for a kernel that takes no list.
    gathered: Vec<f32>,
    /// Ends of the ranges of a reduction, counted from the tile's first.
    ends: Vec<u32>,
    /// As many zeros as a tile has rows: the list that reads one row for all of them.
    zeros: Vec<u32>,
    /// What the step at hand writes.
    taken: Taken,
}

impl<'a> Job<'a> {
    /// Runs some calls of the step, whose rows to be written are `out`. A team, if there is one,
    /// shares the columns of each product.
    pub(super) fn run(
        &self,
        tile: Range<usize>,
        out: &mut [f32],
        workspace: &mut Workspace,
        mut team: Option<&mut Team>,
    ) {
        let step = self.plan.steps[self.index];
        let cell = self.loaded.carried_out(&step);
        let Workspace { regions, gathered, ends, zeros, taken } = workspace;
        // A panic may have left something.
        taken.clear();
        if regions.len() < cell.regions.len() {
            regions.resize_with(cell.regions.len(), Aligned::default);
        }
        for (region, &width) in regions.iter_mut().zip(&cell.regions) {
            region.reserve(tile.len() * width as usize);
        }
        if zeros.len() < tile.len() {
            zeros.resize(tile.len(), 0);
        }
        for loaded in &cell.steps {
            let shape = (tile.len(), cell.stride);
            let mut target = Target::take(regions, &cell.regions, out, shape, loaded, taken);
            let source = Source {
                job: *self,
                operands: self.plan.operands_of(self.index),
                tables: self.loaded.program.network()[step.cell].tables(),
                calls: step.calls,
                tile: tile.clone(),
                regions,
                widths: &cell.regions,
                output: target.unwritten.take().map(|out| (out, cell.stride)),
                zeros: &zeros[..tile.len()],
            };
            match &loaded.run {
                Run::Product { weights, x, out, mode } => {
                    let start = match *mode {
                        Mode::Set => Start::Nothing,
                        Mode::Add => Start::Out,
                        Mode::From(place) => Start::Rows(source.rows(place, weights.outputs())),
                    };
                    let x = source.rows(*x, weights.depth());
                    let team = team.as_deref_mut();
                    let out = target.place(*out);
                    let weights = (&**weights, self.pass);
                    multiply(weights, x, start, out, gathered, (team, self.profile));
                }
                Run::Elementwise { program, width, inputs, outputs } => {
                    // Pushed one by one, so that nothing is moved.
                    let mut read = SmallVec::<[Input<'_>; 12]>::new();
                    inputs.iter().for_each(|&place| read.push(source.input(place, *width)));
                    let mut written = SmallVec::new();
                    target.places(outputs, *width, &mut written);
                    self.profile.of(Work::Elementwise, || {
                        program.run(self.loaded.level, *width, &read, &mut written);
                    });
                }
                Run::Planned(step) => {
                    let level = self.loaded.level;
                    self.profile
                        .of(sort(step), || planned(&source, level, step, &mut target, ends));
                }
            }
            target.give_back(regions);
        }
    }
}

/// Everything that the steps of a tile read.
struct Source<'a> {
    job: Job<'a>,
    operands: &'a [Operand],
    tables: &'a [edbatch_graph::Table],
    calls: u32,
    tile: Range<usize>,
    regions: &'a [Aligned],
    widths: &'a [u32],
    /// The tile's output rows and their stride, while nothing writes them.
    output: Option<(&'a [f32], usize)>,
    zeros: &'a [u32],
}

impl<'a> Source<'a> {
    /// A row per call of the tile: `width` elements at a place.
    fn rows(&self, place: Place, width: usize) -> Rows<'a> {
        let (calls, offset) = (self.tile.len(), place.offset as usize);
        match place.base {
            Base::Scratch(region) => {
                let region = usize::from(region);
                span(&self.regions[region][offset..], self.widths[region] as usize, calls, width)
            }
            Base::Output => {
                let (output, stride) = self.output.expect("no step reads what it writes");
                span(&output[offset..], stride, calls, width)
            }
            Base::Parameter(id) => {
                let data = &self.job.loaded.parameter(id)[offset..];
                Rows::List { data, offsets: self.zeros }
            }
            Base::Table(table) => {
                let table = usize::from(table);
                let Operand::Table { start } = self.operands[table] else {
                    unreachable!("the plan was checked against the cell")
                };
                let data = &self.job.loaded.parameter(self.tables[table].parameter)[offset..];
                Rows::List { data, offsets: self.table_rows(start) }
            }
            Base::Hoisted => {
                self.arena_rows(*self.operands.last().expect("one a port"), offset, width)
            }
            Base::Port(port) => {
                let operand = self.operands[self.tables.len() + usize::from(port)];
                self.arena_rows(operand, offset, width)
            }
        }
    }

    /// A row per call of the tile, each `offset` behind what an operand names.
    fn arena_rows(&self, operand: Operand, offset: usize, width: usize) -> Rows<'a> {
        let calls = self.tile.len();
        match operand {
            Operand::Span { first, stride } => {
                let stride = stride as usize;
                let first = first as usize + self.tile.start * stride + offset;
                // A single row has no next one, and its stride may be less than its width.
                let stride = if calls > 1 { stride } else { stride.max(width) };
                self.job.around.span(first..first + last_end(calls, stride, width), stride)
            }
            Operand::List { start } => {
                let list = &self.job.plan.list(start, self.calls)[self.tile.clone()];
                self.job.around.shifted(offset).list(list)
            }
            Operand::Hoisted { start } => {
                self.job.around.shifted(offset).list(self.table_rows(start))
            }
            operand => unreachable!("{operand:?} is no row of the arena for each call"),
        }
    }

    fn table_rows(&self, start: u32) -> &'a [u32] {
        &self.job.plan.rows(start, self.calls)[self.tile.clone()]
    }

    /// An input of an element-wise program.
    fn input(&self, place: Place, width: usize) -> Input<'a> {
        match place.base {
            Base::Parameter(id) => {
                Input::Same(&self.job.loaded.parameter(id)[place.offset as usize..][..width])
            }
            _ => Input::Rows(self.rows(place, width)),
        }
    }

    /// All values at a port that takes any number, and where those of each call end.
    fn values(&self, port: u16, from: u32, ends: &mut Vec<u32>) -> Rows<'a> {
        let operand = self.operands[self.tables.len() + usize::from(port)];
        let Operand::Many { ends: all, rows } = operand else {
            unreachable!("the plan was checked against the cell")
        };
        let plan = self.job.plan;
        let all = plan.list(all, self.calls);
        let first = if self.tile.start == 0 { 0 } else { all[self.tile.start - 1] };
        ends.clear();
        ends.extend(all[self.tile.clone()].iter().map(|end| end - first));
        let count = ends.last().copied().unwrap_or(0);
        self.job.around.shifted(from as usize).list(plan.list(rows + first, count))
    }
}

/// `calls` rows, `stride` apart, of which the first `width` elements are read.
fn span(data: &[f32], stride: usize, calls: usize, width: usize) -> Rows<'_> {
    // A single row has no next one, and its stride may be less than its width.
    let stride = if calls > 1 { stride } else { stride.max(width) };
    Rows::Span { data: &data[..last_end(calls, stride, width)], stride }
}

/// Where the last of `calls` rows ends.
fn last_end(calls: usize, stride: usize, width: usize) -> usize {
    calls.saturating_sub(1) * stride + if calls > 0 { width } else { 0 }
}

/// What sort of step a planned one is.
fn sort(step: &CellStep) -> Work {
    match step {
        CellStep::MatMul { .. } | CellStep::Product { .. } => Work::Product,
        CellStep::Elementwise(_) | CellStep::Reduce { .. } | CellStep::Softmax { .. } => {
            Work::Elementwise
        }
        CellStep::Copy { .. }
        | CellStep::Expand { .. }
        | CellStep::Transpose { .. }
        | CellStep::Fill { .. } => Work::Gather,
    }
}

fn planned(
    source: &Source<'_>,
    level: Level,
    step: &CellStep,
    target: &mut Target<'_>,
    ends: &mut Vec<u32>,
) {
    let calls = source.tile.len();
    match *step {
        CellStep::Reduce { port, from, width, by, out } => {
            let rows = source.values(port, from, ends);
            let (out, stride) = target.place(out);
            let by = match by {
                Reduction::Sum => kernels::Reduction::Sum,
                Reduction::Mean => kernels::Reduction::Mean,
                Reduction::Max => kernels::Reduction::Max,
            };
            kernels::reduce(level, by, rows, ends, writable(out, calls, width as usize, stride));
        }
        CellStep::MatMul { left, right, m, k, n, out } => {
            let shape = Shape { rows: m as usize, depth: k as usize, columns: n as usize };
            let left = match left.base {
                Base::Parameter(id) => {
                    let weight = &source.job.loaded.parameter(id)[left.offset as usize..];
                    Left::Same(&weight[..shape.rows * shape.depth])
                }
                _ => Left::Each(source.rows(left, shape.rows * shape.depth)),
            };
            let right = source.rows(right, shape.depth * shape.columns);
            let (out, stride) = target.place(out);
            let out = writable(out, calls, shape.rows * shape.columns, stride);
            kernels::batched_product(level, shape, left, right, out);
        }
        CellStep::Softmax { from, width, out, logarithm } => {
            let rows = source.rows(from, width as usize);
            each_row(target.place(out), calls, width as usize, |call, out| {
                out.copy_from_slice(rows.row(call, width as usize));
                if logarithm {
                    kernels::math::log_softmax(level, out);
                } else {
                    kernels::math::softmax(level, out);
                }
            });
        }
        CellStep::Copy { from, width, out } => {
            let rows = source.rows(from, width as usize);
            each_row(target.place(out), calls, width as usize, |call, out| {
                out.copy_from_slice(rows.row(call, width as usize));
            });
        }
        CellStep::Expand { from, rows, columns, out } => {
            let (height, columns) = (rows as usize, columns as usize);
            let rows = source.rows(from, height);
            each_row(target.place(out), calls, height * columns, |call, out| {
                let elements = rows.row(call, height);
                for (out, &element) in out.chunks_exact_mut(columns).zip(elements) {
                    out.fill(element);
                }
            });
        }
        CellStep::Transpose { from, rows, columns, out } => {
            let (height, columns) = (rows as usize, columns as usize);
            let rows = source.rows(from, height * columns);
            each_row(target.place(out), calls, height * columns, |call, out| {
                let matrix = rows.row(call, height * columns);
                for (j, out) in out.chunks_exact_mut(height).enumerate() {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = matrix[i * columns + j];
                    }
                }
            });
        }
        CellStep::Fill { value, width, out } => {
            each_row(target.place(out), calls, width as usize, |_, out| out.fill(value));
        }
        CellStep::Product { .. } | CellStep::Elementwise(_) => unreachable!("loaded as others"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_wide_row_is_one_row() {
        let data = [0.0; 100];
        for (calls, stride, width) in [(1, 16, 32), (1, 16, 16), (2, 48, 32), (0, 16, 32)] {
            assert_eq!(span(&data, stride, calls, width).len(), calls, "{calls} by {stride}");
        }
    }
}
