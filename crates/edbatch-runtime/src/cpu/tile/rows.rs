//! Runs steps on the rows of a matrix, for the calls of a tile.

use edbatch_graph::Normalization;
use edbatch_layout::{RowKernel, RowStep};

use super::{Source, Target, each_row};
use crate::kernels::{self, Level};

/// Runs a step. `ends` is memory for the numbers of values at a port.
pub(super) fn run(
    source: &Source<'_>,
    level: Level,
    step: &RowStep,
    target: &mut Target<'_>,
    ends: &mut Vec<u32>,
) {
    match step.kernel.signature().moves {
        true => moved(source, step, target),
        false => computed(source, level, step, target, ends),
    }
}

/// Runs a step that moves or sets elements.
fn moved(source: &Source<'_>, step: &RowStep, target: &mut Target<'_>) {
    let RowStep { kernel, from: [from, _], .. } = *step;
    let (rows, columns) = (step.rows as usize, step.columns as usize);
    let (calls, area) = (source.tile.calls.len(), rows * columns);
    let out = target.place(step.out);
    match kernel {
        RowKernel::Copy => {
            let read = source.rows(from, area);
            each_row(out, calls, area, |call, out| out.copy_from_slice(read.row(call, area)));
        }
        RowKernel::Expand => {
            let read = source.rows(from, rows);
            each_row(out, calls, area, |call, out| {
                for (out, &element) in out.chunks_exact_mut(columns).zip(read.row(call, rows)) {
                    out.fill(element);
                }
            });
        }
        RowKernel::Transpose => {
            let read = source.rows(from, area);
            each_row(out, calls, area, |call, out| {
                let matrix = read.row(call, area);
                for (j, out) in out.chunks_exact_mut(rows).enumerate() {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = matrix[i * columns + j];
                    }
                }
            });
        }
        RowKernel::Fill(value) => each_row(out, calls, area, |_, out| out.fill(value)),
        RowKernel::Select(table) => {
            let (indices, read) = (source.indices(table), source.rows(from, area));
            each_row(out, calls, columns, |call, out| {
                let first = indices[call] as usize * columns;
                out.copy_from_slice(&read.row(call, area)[first..][..columns]);
            });
        }
        RowKernel::OneHot(table) => {
            let indices = source.indices(table);
            each_row(out, calls, columns, |call, out| {
                out.fill(0.0);
                out[indices[call] as usize] = 1.0;
            });
        }
        kernel => unreachable!("{kernel:?} computes"),
    }
}

/// Runs a step that computes.
fn computed(
    source: &Source<'_>,
    level: Level,
    step: &RowStep,
    target: &mut Target<'_>,
    ends: &mut Vec<u32>,
) {
    let RowStep { kernel, from: [from, right], .. } = *step;
    let (rows, columns) = (step.rows as usize, step.columns as usize);
    let (calls, area) = (source.tile.calls.len(), rows * columns);
    let out = target.place(step.out);
    let read = source.rows(from, area);
    match kernel {
        RowKernel::Normalize(by) => each_row(out, calls, area, |call, out| {
            out.copy_from_slice(read.row(call, area));
            out.chunks_exact_mut(columns).for_each(|row| normalize(level, by, row));
        }),
        RowKernel::Dot => {
            let right = source.rows(right, area);
            each_row(out, calls, rows, |call, out| {
                kernels::dot(level, read.row(call, area), right.row(call, area), out);
            });
        }
        RowKernel::Fold => each_row(out, calls, rows, |call, out| {
            kernels::math::sum_rows(level, read.row(call, area), out);
        }),
        RowKernel::Share(port) => {
            source.values(port, 0, ends);
            each_row(out, calls, area, |call, out| {
                let first = if call == 0 { 0 } else { ends[call - 1] };
                let values = (ends[call] - first) as f32;
                let row = read.row(call, area);
                out.iter_mut().zip(row).for_each(|(out, element)| *out = element / values);
            });
        }
        RowKernel::Ties { port, field } => {
            let values = source.values(port, field, ends);
            each_row(out, calls, area, |call, out| {
                out.fill(0.0);
                let first = if call == 0 { 0 } else { ends[call - 1] };
                for value in first..ends[call] {
                    let value = values.row(value as usize, area);
                    let pairs = value.iter().zip(read.row(call, area));
                    let is_equal = pairs.map(|(value, like)| f32::from(u8::from(value == like)));
                    out.iter_mut().zip(is_equal).for_each(|(out, is_equal)| *out += is_equal);
                }
            });
        }
        kernel => unreachable!("{kernel:?} moves"),
    }
}

fn normalize(level: Level, by: Normalization, row: &mut [f32]) {
    match by {
        Normalization::Softmax => kernels::math::softmax(level, row),
        Normalization::LogSoftmax => kernels::math::log_softmax(level, row),
        Normalization::LayerNorm(epsilon) => kernels::math::layer_norm(level, row, epsilon),
        Normalization::RmsNorm(epsilon) => kernels::math::rms_norm(level, row, epsilon),
    }
}
