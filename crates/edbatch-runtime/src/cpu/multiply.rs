//! Rows times a stack of weights, by whichever kernel it is loaded for.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use smallvec::SmallVec;

use super::load::Weights;
use super::target::{each_row, writable};
use super::{Profile, SHARED, Work};
use crate::kernels::{self, PackedWeights, Pass, RowsMut, RowsRef, Start};
use crate::thread_pool::ClaimedPool;

/// `out[b, :] = start[b, :] + w · x[b, :]`, `out` with its stride. Workers, if there are any, share
/// the columns.
pub(super) fn multiply(
    (weights, pass): (&Weights, Pass),
    x: &RowsRef<'_>,
    start: &Start<'_>,
    (out, stride): (&mut [f32], usize),
    gathered: &mut Vec<f32>,
    (workers, profile): (Option<&mut ClaimedPool<'_>>, Option<&Profile>),
) {
    let calls = x.len();
    let (outputs, depth) = (weights.outputs(), weights.depth());
    match weights {
        Weights::Packed(packed) => {
            let out = writable(out, calls, outputs, stride);
            let worth = calls * outputs * depth >= SHARED;
            let _timer = profile.map(|profile| profile.time_of(Work::Product));
            match workers.filter(|_| worth) {
                None => kernels::product(packed, 0..packed.panels(), pass, x, start, out),
                Some(workers) => by_columns(workers, packed, pass, x, start, out),
            }
        }
        Weights::Dense { values, .. } => {
            gathered.clear();
            {
                let _timer = profile.map(|profile| profile.time_of(Work::Gather));
                (0..calls).for_each(|call| gathered.extend_from_slice(x.row(call, depth)));
            }
            if let Start::Rows(rows) = start {
                each_row((&mut *out, stride), calls, outputs, |call, out| {
                    out.copy_from_slice(rows.row(call, outputs));
                });
            }
            let before = if matches!(start, Start::Nothing) { 0.0 } else { 1.0 };
            let x = ArrayView2::from_shape((calls, depth), gathered).expect("gathered above");
            let w = ArrayView2::from_shape((outputs, depth), values).expect("checked at load");
            let end = calls.saturating_sub(1) * stride + outputs;
            let shape = (calls, outputs).strides((stride, 1));
            let mut out =
                ArrayViewMut2::from_shape(shape, &mut out[..end]).expect("rows do not overlap");
            let _timer = profile.map(|profile| profile.time_of(Work::Product));
            general_mat_mul(1.0, &x, &w.t(), before, &mut out);
        }
    }
}

/// A product whose panels the workers take as they come.
fn by_columns(
    workers: &mut ClaimedPool<'_>,
    weights: &PackedWeights,
    pass: Pass,
    x: &RowsRef<'_>,
    start: &Start<'_>,
    out: RowsMut<'_>,
) {
    let panels = weights.panels();
    let count = panels.min(2 * workers.threads());
    let parts = (0..count).map(|part| part * panels / count..(part + 1) * panels / count);
    let mut rest = Some(out);
    let parts: SmallVec<[_; 8]> = parts
        .map(|panels| {
            let columns = weights.columns(panels.clone()).len();
            let (out, behind) = rest.take().expect("put back below").split_columns(columns);
            rest = Some(behind);
            (panels, out)
        })
        .collect();
    workers.share(parts.into_iter(), |_, (panels, out)| {
        kernels::product(weights, panels, pass, x, start, out);
    });
}
