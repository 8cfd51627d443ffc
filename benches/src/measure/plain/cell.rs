//! Runs the steps of a cell, each on the whole batch.

mod source;

use std::mem;
use std::sync::Arc;

use edbatch_graph::Normalization;
use edbatch_layout::{Base, CellPlan, CellStep, LINE, Mode, Place, Plan, RowKernel, RowStep};
use edbatch_runtime::kernels::rows::Around;
use edbatch_runtime::kernels::{self, Input, RowsMut, RowsRef, math};
use edbatch_runtime::{Profile, Work};
use smallvec::SmallVec;

use super::gemm::{Matrix, Weight, multiply};
use super::{Aligned, Loaded, reserve};
use source::Source;

/// A list that allocates only if it has more than 8 elements.
type List<T> = SmallVec<[T; 8]>;

/// Memory of a batch, reused by the next batch.
#[derive(Default)]
pub(super) struct Workspace {
    regions: Vec<Aligned>,
    /// Rows gathered for products, with their source.
    gathered: Vec<(Option<Place>, Aligned)>,
    /// A zero for each call: a list that reads row 0 for all calls.
    zeros: Vec<u32>,
    /// A matrix copied together from the rows of several values.
    whole: Vec<f32>,
}

/// A step of a cell, prepared when the program is loaded.
pub(super) struct LoadedStep {
    /// The weight, if the step is a product with one.
    pub(super) weight: Option<Arc<Weight>>,
    /// The memory that the step writes.
    pub(super) written: Vec<Base>,
}

/// A step of a plan.
pub(super) struct Batch<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) plan: &'a Plan,
    pub(super) index: usize,
    pub(super) cell: &'a CellPlan,
    /// The arena without the rows that the step writes.
    pub(super) around: Around<'a>,
    pub(super) profile: &'a Profile,
}

/// Memory that a step writes, with the distance between its rows in elements.
struct Target<'a> {
    base: Base,
    memory: &'a mut [f32],
    stride: usize,
}

impl Batch<'_> {
    pub(super) fn run(&self, steps: &[LoadedStep], output: &mut [f32], workspace: &mut Workspace) {
        let calls = self.calls();
        let Workspace { regions, gathered, zeros, whole } = workspace;
        zeros.resize(zeros.len().max(calls), 0);
        gathered.iter_mut().for_each(|(from, _)| *from = None);
        if regions.len() < self.cell.regions.len() {
            regions.resize_with(self.cell.regions.len(), Aligned::default);
        }
        for (region, &width) in regions.iter_mut().zip(&self.cell.regions) {
            reserve(region, calls * stride(width));
        }
        for (step, LoadedStep { weight, written }) in self.cell.steps.iter().zip(steps) {
            let mut taken: List<(Base, Aligned)> = List::new();
            for &base in written {
                if let Base::Scratch(region) = base {
                    taken.push((base, mem::take(&mut regions[usize::from(region)])));
                }
            }
            let (out, unwritten) = match written.contains(&Base::Output) {
                true => (Some(&mut *output), None),
                false => (None, Some(&*output)),
            };
            let mut targets: List<Target<'_>> = List::new();
            for (base, region) in &mut taken {
                let stride = self.stride_of(*base);
                let memory = &mut region[..calls * stride];
                targets.push(Target { base: *base, memory, stride });
            }
            if let Some(memory) = out {
                let stride = self.cell.output_stride as usize;
                targets.push(Target { base: Base::Output, memory, stride });
            }
            let source = Source { batch: self, regions, output: unwritten, zeros };
            match (step, weight) {
                (CellStep::Product { x, out, mode, .. }, Some(weight)) => {
                    let target = only(&mut targets);
                    self.product(weight, (*x, *out, *mode), &source, target, gathered);
                }
                _ => self.other(step, &source, &mut targets, whole),
            }
            drop(targets);
            for (base, region) in taken {
                if let Base::Scratch(index) = base {
                    regions[usize::from(index)] = region;
                }
            }
        }
    }

    fn calls(&self) -> usize {
        self.plan.steps[self.index].calls as usize
    }

    fn stride_of(&self, base: Base) -> usize {
        match base {
            Base::Scratch(region) => stride(self.cell.regions[usize::from(region)]),
            _ => self.cell.output_stride as usize,
        }
    }

    fn product(
        &self,
        weight: &Weight,
        (x, out, mode): (Place, Place, Mode),
        source: &Source<'_>,
        target: &mut Target<'_>,
        gathered: &mut Vec<(Option<Place>, Aligned)>,
    ) {
        let (calls, depth) = (self.calls(), weight.depth);
        if let Mode::From(start) = mode {
            let rows = source.rows(start, weight.outputs);
            target.each_row(out, calls, weight.outputs, |call, to| {
                to.copy_from_slice(rows.row(call, weight.outputs));
            });
        }
        let (data, stride) = match source.rows(x, depth) {
            RowsRef::Span { data, stride } => (data, stride),
            rows => {
                let _timer = self.profile.time_of(Work::Gather);
                let known = gathered.iter().position(|(from, _)| *from == Some(x));
                let index = known.unwrap_or_else(|| {
                    let free = gathered.iter().position(|(from, _)| from.is_none());
                    let index = free.unwrap_or_else(|| {
                        gathered.push((None, Aligned::default()));
                        gathered.len() - 1
                    });
                    let (from, memory) = &mut gathered[index];
                    *from = Some(x);
                    reserve(memory, calls * depth);
                    let rows_to = memory.chunks_exact_mut(depth).take(calls);
                    rows_to.enumerate().for_each(|(i, to)| to.copy_from_slice(rows.row(i, depth)));
                    index
                });
                (&*gathered[index].1, depth)
            }
        };
        let _timer = self.profile.time_of(Work::Product);
        let x = Matrix { data, rows: calls, columns: depth, stride, transposed: false };
        let out = (&mut target.memory[out.offset as usize..], target.stride);
        weight.multiply(x, out, mode != Mode::Set);
    }

    fn other(
        &self,
        step: &CellStep,
        source: &Source<'_>,
        targets: &mut [Target<'_>],
        whole: &mut Vec<f32>,
    ) {
        let level = self.loaded.level;
        let _timer = self.profile.time_of(match step {
            CellStep::MatMul { .. } => Work::Product,
            step if step.rearranges() => Work::Gather,
            _ => Work::Elementwise,
        });
        match *step {
            CellStep::Elementwise { width, ref inputs, ref outputs, ref program } => {
                let width = width as usize;
                let read: List<Input<'_>> =
                    inputs.iter().map(|&place| source.input(place, width)).collect();
                let mut written = columns(targets, outputs, width);
                kernels::elementwise(level, program, width, &read, &mut written);
            }
            CellStep::Reduce { port, from, width, by, out } => {
                let (rows, ends) = source.values(port, from);
                let target = only(targets);
                let mut rows_out = columns(std::slice::from_mut(target), &[out], width as usize);
                let out = rows_out.pop().expect("one place");
                kernels::reduce(level, by, rows, ends, out);
            }
            CellStep::MatMul { left, ref right, bias, m, k, n, out } => {
                let shape = [m, k, n].map(|size| size as usize);
                self.matrix_product(
                    (left, right, bias),
                    shape,
                    source,
                    (only(targets), out),
                    whole,
                );
            }
            CellStep::Rows(ref step) => self.rows(step, source, only(targets)),
            CellStep::Product { .. } => unreachable!("a product has a weight"),
            CellStep::Attention { .. } | CellStep::AttentionBack { .. } => {
                unreachable!("no model that is measured has {step}")
            }
        }
    }

    /// Runs a step on the rows of a matrix for each call.
    fn rows(&self, step: &RowStep, source: &Source<'_>, target: &mut Target<'_>) {
        let RowStep { kernel, from: [from, _], out, .. } = *step;
        let (rows, columns) = (step.rows as usize, step.columns as usize);
        let (level, calls, area) = (self.loaded.level, self.calls(), rows * columns);
        match kernel {
            RowKernel::Normalize(by @ (Normalization::Softmax | Normalization::LogSoftmax)) => {
                let read = source.rows(from, area);
                target.each_row(out, calls, area, |call, to| {
                    to.copy_from_slice(read.row(call, area));
                    to.chunks_exact_mut(columns).for_each(|row| match by {
                        Normalization::Softmax => math::softmax(level, row),
                        _ => math::log_softmax(level, row),
                    });
                });
            }
            RowKernel::Copy => {
                let read = source.rows(from, area);
                target.each_row(out, calls, area, |call, to| {
                    to.copy_from_slice(read.row(call, area));
                });
            }
            RowKernel::Expand => {
                let read = source.rows(from, rows);
                target.each_row(out, calls, area, |call, to| {
                    let elements = read.row(call, rows);
                    let to = to.chunks_exact_mut(columns);
                    to.zip(elements).for_each(|(to, &element)| to.fill(element));
                });
            }
            RowKernel::Transpose => {
                let read = source.rows(from, area);
                target.each_row(out, calls, area, |call, to| {
                    let matrix = read.row(call, area);
                    for (j, to) in to.chunks_exact_mut(rows).enumerate() {
                        let column = matrix.iter().skip(j).step_by(columns);
                        to.iter_mut().zip(column).for_each(|(to, &element)| *to = element);
                    }
                });
            }
            RowKernel::Fill(value) => target.each_row(out, calls, area, |_, to| to.fill(value)),
            _ => unreachable!("no model that is measured has {step}"),
        }
    }

    /// Multiplies two matrices for each call.
    fn matrix_product(
        &self,
        (left, right, bias): (Place, &[(Place, u32)], Option<Place>),
        [m, k, n]: [usize; 3],
        source: &Source<'_>,
        (target, out): (&mut Target<'_>, Place),
        whole: &mut Vec<f32>,
    ) {
        let library = super::gemm::of_values([m, k, n]);
        let lefts = source.rows(left, m * k);
        let bias = bias.map(|place| source.rows(place, m));
        let pieces: List<(RowsRef<'_>, usize)> = right
            .iter()
            .map(|&(place, rows)| (source.rows(place, rows as usize * n), rows as usize * n))
            .collect();
        target.each_row(out, self.calls(), m * n, |call, to| {
            if let Some(bias) = &bias {
                let elements = bias.row(call, m);
                to.chunks_exact_mut(n).zip(elements).for_each(|(row, &b)| row.fill(b));
            }
            let left = Matrix::dense(lefts.row(call, m * k), m, k);
            let right = match pieces[..] {
                [(rows, elements)] => rows.row(call, elements),
                _ => {
                    whole.clear();
                    let parts = pieces.iter().map(|(rows, elements)| rows.row(call, *elements));
                    parts.for_each(|part| whole.extend_from_slice(part));
                    &whole[..]
                }
            };
            multiply(library, left, Matrix::dense(right, k, n), (to, n), bias.is_some());
        });
    }
}

impl Target<'_> {
    fn each_row(
        &mut self,
        out: Place,
        calls: usize,
        width: usize,
        mut write: impl FnMut(usize, &mut [f32]),
    ) {
        for call in 0..calls {
            write(call, &mut self.memory[call * self.stride + out.offset as usize..][..width]);
        }
    }
}

/// Returns the distance between rows of a region, in elements. It avoids multiples of 256, with
/// which rows would compete for few cache sets.
fn stride(width: u32) -> usize {
    let width = width as usize;
    if width.is_multiple_of(256) { width + LINE } else { width }
}

/// Returns the only target of a step that writes to a single place.
fn only<'t, 'a>(targets: &'t mut [Target<'a>]) -> &'t mut Target<'a> {
    targets.first_mut().expect("a step writes something")
}

/// Returns `width` columns of all rows at each place. Places and targets are in ascending order.
fn columns<'t>(targets: &'t mut [Target<'_>], places: &[Place], width: usize) -> List<RowsMut<'t>> {
    let mut rows = List::new();
    for target in targets {
        let mut rest = RowsMut::new(target.memory, target.stride, target.stride);
        let mut at = 0;
        for place in places.iter().filter(|place| place.base == target.base) {
            let (_, from) = rest.split_columns(place.offset as usize - at);
            let (written, right) = from.split_columns(width);
            rows.push(written);
            (rest, at) = (right, place.offset as usize + width);
        }
    }
    rows
}
