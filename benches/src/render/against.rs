//! Changes since another run, beyond the noise of both.

use crate::record::sorted::Sorted;
use crate::record::{Record, Throughput};
use crate::render::table::Table;
use crate::spread::differ;
use crate::text::{percent, whole};

/// Maximum rows.
const MAX_ROWS: usize = 30;

/// Returns the speeds and batches that changed. A speed, as a fraction of the peak of its run,
/// [differs](differ) if it changes by more than the sum of both spreads; a number of batches if it
/// changes at all.
pub fn changes(old: &[Record], new: &[Record]) -> Table {
    let (old, new) = (Sorted::new(old), Sorted::new(new));
    let mut compared = 0;
    let mut changed: Vec<(f64, Vec<String>)> = Vec::new();
    let pairs = [(&old.throughputs, &new.throughputs), (&old.latencies, &new.latencies)];
    for (old, new) in pairs {
        for new in new {
            let Some(old) = old.iter().find(|old| same(old, new)) else { continue };
            compared += 1;
            let ratio = new.fraction_of_peak / old.fraction_of_peak;
            let noise = old.spread + new.spread;
            let [old, measured] = [*old, *new].map(|r| (r.fraction_of_peak, r.spread));
            if differ(old, measured) {
                changed.push((ratio, row(new, [old.0, new.fraction_of_peak], ratio, noise)));
            }
        }
    }
    for new in &new.counts {
        let key = |r: &crate::record::Counts| {
            (r.model.clone(), r.input.clone(), r.batch, r.policy.clone(), r.mini_batches)
        };
        let Some(old) = old.counts.iter().find(|old| key(old) == key(new)) else { continue };
        compared += 1;
        if old.batches != new.batches {
            // Fewer batches are a gain.
            let ratio = old.batches / new.batches;
            let batch = new.batch.map_or("-".into(), |batch| batch.to_string());
            changed.push((
                ratio,
                vec![
                    new.model.clone(),
                    new.input.clone(),
                    format!("batches of {}", new.policy),
                    "-".into(),
                    batch,
                    format!("{:.1}", old.batches),
                    format!("{:.1}", new.batches),
                    format!("{ratio:.2}"),
                    "0 %".into(),
                ],
            ));
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
    table.rows.extend(changed.into_iter().take(MAX_ROWS).map(|(_, row)| row));
    table
}

fn same(old: &Throughput, new: &Throughput) -> bool {
    let key = |record: &Throughput| {
        let Throughput { system, model, input, hidden, batch, threads, backend, .. } = record;
        let texts = [system, model, input, backend].map(String::clone);
        (texts, *hidden, *batch, *threads)
    };
    key(old) == key(new)
}

fn row(record: &Throughput, shares: [f64; 2], ratio: f64, noise: f64) -> Vec<String> {
    vec![
        record.model.clone(),
        record.input.clone(),
        record.system.clone(),
        record.hidden.to_string(),
        record.batch.to_string(),
        percent(shares[0]),
        percent(shares[1]),
        format!("{ratio:.2}"),
        percent(noise),
    ]
}
