//! Runs a tile (some calls of a batch) through all steps of its cell.

mod rows;

use std::ops::Range;

use edbatch_layout::{
    AttentionFields, Base, CellStep, Mode, Operand, Place, Plan, Scores, Step, Weight,
};
use smallvec::SmallVec;

use super::load::{Loaded, LoadedPart, Rounded, Run, Weights};
use super::multiply::{Factor, multiply};
use super::target::{Taken, Target, each_row, writable};
use super::{Profile, TILE, Work};
use crate::kernels::attention::Side;
use crate::kernels::rows::Around;
use crate::kernels::{
    self, Aligned, GemmShape, Input, Left, Level, OutOfMemory, Pass, Piece, RoundedRows, RowsRef,
    Scored, Start,
};
use crate::thread_pool::ClaimedPool;

/// A step of a plan, shared by the threads that run tiles of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) weights: &'a Weights,
    pub(super) plan: &'a Plan,
    pub(super) index: usize,
    /// The arena, except the rows that the step writes.
    pub(super) around: Around<'a>,
    pub(super) profile: Option<&'a Profile>,
    /// The order in which weights are read.
    pub(super) pass: Pass,
}

/// Scratch memory of a thread, reused for every tile that it runs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Workspace {
    regions: Vec<Aligned>,
    /// Copies of vectors that products in bf16 read.
    rounded: Vec<RoundedRows>,
    /// For a reduction: the end of each call's values, counted from the tile's first value.
    ends: Vec<u32>,
    /// For attention: two numbers for each value of one call.
    scores: Aligned,
    /// The regions that the current step writes.
    taken: Taken,
}

impl Workspace {
    /// Allocates the memory for a step in tiles of `rows` rows. A tile needs no other memory, so a
    /// plan that has started cannot run out of memory.
    pub(super) fn reserve(
        &mut self,
        (plan, step): (&Plan, &Step),
        (level, part): (Level, &LoadedPart),
        rows: usize,
    ) -> Result<(), OutOfMemory> {
        if part.attends {
            self.scores.reserve(2 * most_values(plan, step))?;
        }
        if self.regions.len() < part.regions.len() {
            self.regions.resize_with(part.regions.len(), Aligned::default);
        }
        if self.rounded.len() < part.rounded.len() {
            self.rounded.resize_with(part.rounded.len(), RoundedRows::default);
        }
        for (copy, &width) in self.rounded.iter_mut().zip(&part.rounded) {
            copy.reserve(level, rows, width as usize)?;
        }
        let mut regions = self.regions.iter_mut().zip(&part.regions);
        regions.try_for_each(|(region, &width)| region.reserve(rows * width as usize))
    }
}

/// Returns the maximum number of values of a call at a variadic port.
fn most_values(plan: &Plan, step: &Step) -> usize {
    let operands = plan.operands[step.operands as usize..].iter();
    let mut ends = operands.filter_map(|operand| match operand {
        Operand::Many { ends, .. } => Some(plan.list(*ends, step.calls)),
        _ => None,
    });
    let ends = ends.next().unwrap_or_default();
    let first = ends.first().copied().unwrap_or(0);
    let most = ends.windows(2).map(|pair| pair[1] - pair[0]).fold(first, u32::max);
    most as usize
}

/// Zero offsets, with which all rows of a tile read the same data.
static ZEROS: [u32; *TILE.end()] = [0; *TILE.end()];

impl<'a> Job<'a> {
    /// Runs some calls of the step and writes their rows to `out`. Workers, if any, share the
    /// columns of each product.
    pub(super) fn run(
        &self,
        calls: Range<usize>,
        out: &mut [f32],
        workspace: &mut Workspace,
        mut workers: Option<&mut ClaimedPool<'_>>,
    ) {
        let step = self.plan.steps[self.index];
        let cell = self.loaded.carried_out(&step);
        let Workspace { regions, rounded: copies, ends, scores, taken } = workspace;
        // A panic in an earlier tile may have left regions here.
        taken.clear();
        let shape = (calls.len(), cell.stride);
        let tile = Tile {
            job: self,
            operands: self.plan.operands_of(self.index),
            tables: self.loaded.program.network()[step.cell].tables(),
            batch: step.calls,
            calls,
            widths: &cell.regions,
        };
        for loaded in &cell.steps {
            let mut target = Target::take(regions, &cell.regions, out, shape, loaded, taken);
            let output = target.unwritten.take().map(|out| (out, cell.stride));
            let source = Source { tile: &tile, regions, output };
            match &loaded.run {
                Run::Product { stack, x, rounded, out, mode } => {
                    let weights = self.weights.packed(*stack);
                    let start = match *mode {
                        Mode::Set => Start::Nothing,
                        Mode::Add => Start::Out,
                        Mode::From(place) => {
                            source.with_rows(place, weights.outputs(), Start::Rows)
                        }
                    };
                    let rows = source.rows(*x, weights.depth());
                    let x = match rounded {
                        None => Factor::Floats(&rows),
                        Some(Rounded { copy, is_new }) => {
                            let copy = &mut copies[*copy];
                            if *is_new {
                                let time = |profile: &'a Profile| profile.time_of(Work::Product);
                                let _timer = self.profile.map(time);
                                copy.round(self.loaded.level, &rows, weights.depth());
                            }
                            Factor::Rounded(copy)
                        }
                    };
                    let workers = workers.as_deref_mut();
                    let out = target.place(*out);
                    let weights = (weights, self.pass);
                    multiply(weights, &x, &start, out, (workers, self.profile));
                }
                Run::Planned(CellStep::Elementwise { width, inputs, outputs, program }) => {
                    let (level, width) = (self.loaded.level, *width as usize);
                    let mut read = SmallVec::<[Input<'_>; 12]>::new();
                    for &place in inputs {
                        read.push(Input::Same(&[]));
                        source.input(place, width, read.last_mut().expect("just pushed"));
                    }
                    let mut written = SmallVec::new();
                    target.places(outputs, width, &mut written);
                    let _timer = self.profile.map(|profile| profile.time_of(Work::Elementwise));
                    kernels::elementwise(level, program, width, &read, &mut written);
                }
                Run::Planned(step) => {
                    let _timer = self.profile.map(|profile| profile.time_of(kind_of_work(step)));
                    let room = (&mut *ends, &mut scores[..]);
                    planned(&source, self.loaded.level, step, &mut target, room);
                }
            }
            target.give_back(regions);
        }
    }
}

/// Some calls of a batch.
struct Tile<'a> {
    job: &'a Job<'a>,
    operands: &'a [Operand],
    tables: &'a [edbatch_graph::Table],
    /// The number of calls of the whole batch.
    batch: u32,
    /// The calls of the batch that are in this tile.
    calls: Range<usize>,
    /// Widths of the regions of scratch memory, in floats.
    widths: &'a [u32],
}

/// The memory that a step of a tile reads.
struct Source<'a> {
    tile: &'a Tile<'a>,
    regions: &'a [Aligned],
    /// The tile's output rows and their stride, unless the step writes them.
    output: Option<(&'a [f32], usize)>,
}

impl<'a> Source<'a> {
    /// Returns one row per call of the tile: `width` elements from `place` on.
    fn rows(&self, place: Place, width: usize) -> RowsRef<'a> {
        self.with_rows(place, width, |rows| rows)
    }

    /// Passes one row per call of the tile to `then`.
    ///
    /// `then` builds its result in place. Moving an enum whose fields were just written causes a
    /// store-forwarding stall, which took a tenth of the time of small cells.
    #[inline(always)]
    fn with_rows<T>(&self, place: Place, width: usize, then: impl FnOnce(RowsRef<'a>) -> T) -> T {
        let Tile { job, operands, tables, calls, widths, .. } = self.tile;
        let (count, offset) = (calls.len(), place.offset as usize);
        let operand = match place.base {
            Base::Scratch(region) => {
                let region = usize::from(region);
                let (data, stride) = (&self.regions[region][offset..], widths[region] as usize);
                return then(span(data, stride, count, width));
            }
            Base::Output => {
                let (output, stride) = self.output.expect("no step reads the rows that it writes");
                return then(span(&output[offset..], stride, count, width));
            }
            Base::Parameter(weight) => {
                let data = &job.weights.parameter(weight)[offset..];
                return then(RowsRef::List { data, offsets: &ZEROS[..count] });
            }
            Base::Table(table) => {
                let table = usize::from(table);
                let Operand::Table { start } = operands[table] else {
                    unreachable!("the plan was checked against the cell")
                };
                let parameter = tables[table].parameter.expect("steps read no rows of index ports");
                let data = &job.weights.parameter(Weight::AsIs(parameter))[offset..];
                return then(RowsRef::List { data, offsets: self.table_rows(start) });
            }
            Base::Port(port) => operands[tables.len() + usize::from(port)],
            Base::Hoisted => *operands.last().expect("the hoisted operand follows the ports"),
        };
        match operand {
            Operand::Span { first, stride } => {
                let stride = stride as usize;
                let first = first as usize + calls.start * stride + offset;
                // The stride of a single row is not used, and may be less than its width.
                let stride = if count > 1 { stride } else { stride.max(width) };
                then(job.around.span(first..first + last_end(count, stride, width), stride))
            }
            Operand::List { start } => {
                let list = &job.plan.list(start, self.tile.batch)[calls.clone()];
                then(job.around.shifted(offset).list(list))
            }
            Operand::Folded { start } => {
                let data = &job.weights.folded[offset..];
                then(RowsRef::List { data, offsets: self.table_rows(start) })
            }
            Operand::Hoisted { start } => {
                then(job.around.shifted(offset).list(self.table_rows(start)))
            }
            operand => unreachable!("{operand:?} does not have one row per call"),
        }
    }

    /// Returns the offset of the table row that each call of the tile names. The batch's list of
    /// offsets begins at `start`.
    fn table_rows(&self, start: u32) -> &'a [u32] {
        &self.tile.job.plan.rows(start, self.tile.batch)[self.tile.calls.clone()]
    }

    /// Sets an input of an element-wise program to `width` elements from `place` on.
    fn input(&self, place: Place, width: usize, input: &mut Input<'a>) {
        match place.base {
            Base::Parameter(weight) => {
                let row = &self.tile.job.weights.parameter(weight)[place.offset as usize..];
                *input = Input::Same(&row[..width]);
            }
            _ => self.with_rows(place, width, |rows| *input = Input::Rows(rows)),
        }
    }

    /// Returns the index that each call of the tile names at an index port.
    fn indices(&self, table: u16) -> &'a [u32] {
        let Operand::Table { start } = self.tile.operands[usize::from(table)] else {
            unreachable!("the plan was checked against the cell")
        };
        self.table_rows(start)
    }

    /// Returns the rows of all values at a variadic port, for all calls of the tile. Sets
    /// `ends[i]` to the end of the values of the tile's call `i`.
    fn values(&self, port: u16, from: u32, ends: &mut Vec<u32>) -> RowsRef<'a> {
        let operand = self.tile.operands[self.tile.tables.len() + usize::from(port)];
        let Operand::Many { ends: all, rows } = operand else {
            unreachable!("the plan was checked against the cell")
        };
        let plan = self.tile.job.plan;
        let all = plan.list(all, self.tile.batch);
        let first = if self.tile.calls.start == 0 { 0 } else { all[self.tile.calls.start - 1] };
        ends.clear();
        ends.extend(all[self.tile.calls.clone()].iter().map(|end| end - first));
        let count = ends.last().copied().unwrap_or(0);
        self.tile.job.around.shifted(from as usize).list(plan.list(rows + first, count))
    }
}

/// Returns `calls` rows of `width` elements, `stride` floats apart.
fn span(data: &[f32], stride: usize, calls: usize, width: usize) -> RowsRef<'_> {
    // The stride of a single row is not used, and may be less than its width.
    let stride = if calls > 1 { stride } else { stride.max(width) };
    RowsRef::Span { data: &data[..last_end(calls, stride, width)], stride }
}

/// Returns the end of the last of `calls` rows, in floats.
fn last_end(calls: usize, stride: usize, width: usize) -> usize {
    calls.saturating_sub(1) * stride + if calls > 0 { width } else { 0 }
}

/// Returns the kind of work that a profile counts a step as.
fn kind_of_work(step: &CellStep) -> Work {
    match step {
        CellStep::MatMul { .. } | CellStep::Product { .. } => Work::Product,
        CellStep::Rows(step) if step.kernel.signature().moves => Work::Gather,
        _ => Work::Elementwise,
    }
}

/// Runs a step other than a [`Run::Product`] or an element-wise program.
fn planned(
    source: &Source<'_>,
    level: Level,
    step: &CellStep,
    target: &mut Target<'_>,
    (ends, buffer): (&mut Vec<u32>, &mut [f32]),
) {
    let calls = source.tile.calls.len();
    match *step {
        CellStep::Reduce { port, from, width, by, out } => {
            let rows = source.values(port, from, ends);
            let (out, stride) = target.place(out);
            kernels::reduce(level, by, rows, ends, writable(out, calls, width as usize, stride));
        }
        CellStep::MatMul { left, ref right, bias, m, k, n, out } => {
            let shape = GemmShape { rows: m as usize, depth: k as usize, columns: n as usize };
            let left = match left.base {
                Base::Parameter(weight) => {
                    let weight = &source.tile.job.weights.parameter(weight)[left.offset as usize..];
                    Left::Same(&weight[..shape.rows * shape.depth])
                }
                _ => Left::Each(source.rows(left, shape.rows * shape.depth)),
            };
            let piece = |&(place, depth): &(Place, u32)| {
                let depth = depth as usize;
                Piece { depth, values: source.rows(place, depth * shape.columns) }
            };
            let right: SmallVec<[Piece<'_>; 4]> = right.iter().map(piece).collect();
            let bias = bias.map(|place| source.rows(place, shape.rows));
            let (out, stride) = target.place(out);
            let out = writable(out, calls, shape.rows * shape.columns, stride);
            kernels::batched_gemm(level, shape, left, &right, bias, out);
        }
        CellStep::Attention { port, scores, values, heads, width, out } => {
            let values = source.values(port, values, ends);
            let scored = match scores {
                Scores::Field(field) => Scored::Field(source.values(port, field, ends)),
                Scores::Keys { query, keys, width } => Scored::Keys {
                    queries: source.rows(query, width as usize),
                    keys: source.values(port, keys, ends),
                    width: width as usize,
                },
            };
            let (out, stride) = target.place(out);
            let out = writable(out, calls, width as usize, stride);
            kernels::attention(level, heads as usize, scored, values, ends, buffer, out);
        }
        CellStep::AttentionBack { of, query, gradient, out } => {
            let AttentionFields { port, keys, values, heads } = of;
            let mut side = |own, (field, width): (u32, u32)| Side {
                own: source.rows(own, width as usize),
                rows: source.values(port, field, ends),
                width: width as usize,
            };
            let (keys, values) = (side(query, keys), side(gradient, values));
            let (out, stride) = target.place(out);
            let out = writable(out, calls, keys.width + 2 * heads as usize, stride);
            kernels::attention_back(level, heads as usize, keys, values, ends, buffer, out);
        }
        CellStep::Rows(ref step) => rows::run(source, level, step, target, ends),
        CellStep::Product { .. } | CellStep::Elementwise { .. } => {
            unreachable!("run by the caller")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_row_may_be_wider_than_the_stride() {
        let data = [0.0; 100];
        for (calls, stride, width) in [(1, 16, 32), (1, 16, 16), (2, 48, 32), (0, 16, 32)] {
            assert_eq!(span(&data, stride, calls, width).len(), calls, "{calls} by {stride}");
        }
    }
}
