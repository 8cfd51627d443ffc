//! Products of rows and stacked weights.

use std::ops::Range;

use smallvec::SmallVec;

use super::target::writable;
use super::{MIN_SHARED, Profile, Work};
use crate::kernels::{self, PackedWeights, Pass, RoundedRows, RowsMut, RowsRef, Start};
use crate::span;
use crate::thread_pool::ClaimedPool;

/// The rows of a product, in the precision of its weights.
#[derive(Clone, Copy)]
pub(super) enum Factor<'a> {
    Floats(&'a RowsRef<'a>),
    Rounded(&'a RoundedRows),
}

impl Factor<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Floats(rows) => rows.len(),
            Self::Rounded(rows) => rows.len(),
        }
    }

    /// Computes the columns of some panels.
    fn product(
        &self,
        (weights, pass): (&PackedWeights, Pass),
        panels: Range<usize>,
        start: &Start<'_>,
        out: RowsMut<'_>,
    ) {
        match self {
            Self::Floats(rows) => kernels::product(weights, panels, pass, rows, start, out),
            Self::Rounded(rows) => kernels::product_bf16(weights, panels, pass, rows, start, out),
        }
    }
}

/// `out[b, :] = start[b, :] + w · x[b, :]`. Rows of `out` are `stride` floats apart. Workers, if
/// any, share the columns.
pub(super) fn multiply(
    (weights, pass): (&PackedWeights, Pass),
    x: &Factor<'_>,
    start: &Start<'_>,
    (out, stride): (&mut [f32], usize),
    (workers, profile): (Option<&mut ClaimedPool<'_>>, Option<&Profile>),
) {
    let (calls, outputs) = (x.len(), weights.outputs());
    let out = writable(out, calls, outputs, stride);
    let worth = calls * outputs * weights.depth() >= MIN_SHARED;
    let _timer = profile.map(|profile| profile.time_of(Work::Product));
    match workers.filter(|_| worth) {
        None => x.product((weights, pass), 0..weights.panels(), start, out),
        Some(workers) => by_columns(workers, (weights, pass), x, start, out),
    }
}

/// Computes a product whose panels are divided between the workers.
fn by_columns(
    workers: &mut ClaimedPool<'_>,
    (weights, pass): (&PackedWeights, Pass),
    x: &Factor<'_>,
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
            let (out, next) = rest.take().expect("replaced below").split_columns(columns);
            rest = Some(next);
            (panels, out)
        })
        .collect();
    workers.share_alike(parts.into_iter(), |_, (panels, out)| {
        let _span = span!(TRACE, "columns", panels = panels.len() as u64);
        x.product((weights, pass), panels, start, out);
    });
}
