//! Changes since another run, beyond the noise of both.

use crate::record::sorted::Sorted;
use crate::record::{Case, Counts, Record, Throughput};
use crate::render::table::Table;
use crate::spread::differ;
use crate::text::{percent, whole};

/// Maximum number of rows.
const MAX_ROWS: usize = 30;

/// Returns the speeds and numbers of batches that changed. A speed, relative to its run's peak,
/// must [differ] by more than both spreads together; a number of batches, by any amount.
pub fn changes(old: &[Record], new: &[Record]) -> Table {
    let (old, new) = (Sorted::new(old), Sorted::new(new));
    let mut compared = 0;
    let mut changed = Vec::new();
    let pairs = [(&old.throughputs, &new.throughputs), (&old.latencies, &new.latencies)];
    for (old, new) in pairs {
        for new in new {
            let same = |old: &&&Throughput| (&old.system, &old.case) == (&new.system, &new.case);
            let Some(old) = old.iter().find(same) else { continue };
            compared += 1;
            let [before, after] = [*old, *new].map(|r| (r.fraction_of_peak, r.spread));
            if differ(before, after) {
                let Case { model, input, hidden, batch, .. } = &new.case;
                let sizes = [hidden, batch].map(|size| size.to_string());
                let shares = [before.0, after.0].map(percent);
                let noise = percent(before.1 + after.1);
                let what = new.system.clone();
                changed.push((after.0 / before.0, [model, input], what, sizes, shares, noise));
            }
        }
    }
    for new in &new.counts {
        let key = |r: &Counts| {
            (r.model.clone(), r.input.clone(), r.batch, r.policy.clone(), r.mini_batches)
        };
        let Some(old) = old.counts.iter().find(|old| key(old) == key(new)) else { continue };
        compared += 1;
        if old.batches != new.batches {
            let sizes = ["-".into(), new.batch.map_or("-".into(), |batch| batch.to_string())];
            let counts = [old.batches, new.batches].map(|batches| format!("{batches:.1}"));
            let what = format!("batches of {}", new.policy);
            let names = [&new.model, &new.input];
            // Fewer batches are a gain.
            changed.push((old.batches / new.batches, names, what, sizes, counts, "0 %".into()));
        }
    }
    changed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let title = format!(
        "Changes beyond the noise, the worst first: {} of {} figures in both runs",
        whole(changed.len() as f64),
        whole(compared as f64),
    );
    let header = ["model", "input", "what", "H", "batch", "old", "new", "gain", "noise"];
    let mut table = Table::new(&title, 3, header);
    for (ratio, [model, input], what, sizes, values, noise) in changed.into_iter().take(MAX_ROWS) {
        let mut row = vec![model.clone(), input.clone(), what];
        row.extend(sizes.into_iter().chain(values).chain([format!("{ratio:.2}"), noise]));
        table.rows.push(row);
    }
    table
}
