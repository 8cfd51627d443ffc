//! The file that `edbatch infer --stats` writes.

use std::time::Duration;

use edbatch::{KindReport, Report, Statistics};
use serde_json::{Value, json};

/// Sums the statistics of all engines and returns them as a line of JSON, with reports on kinds if
/// batches were `scheduled`.
pub(crate) fn statistics(engines: &[(Statistics, Report)], scheduled: bool) -> String {
    let mut kinds = Report::default();
    engines.iter().for_each(|(_, report)| kinds.merge(report));
    let engines: Vec<Statistics> = engines.iter().map(|&(statistics, _)| statistics).collect();
    let sum = |count: fn(&Statistics) -> u64| engines.iter().map(count).sum::<u64>();
    let seconds = |phase: fn(&Statistics) -> Duration| {
        engines.iter().map(phase).sum::<Duration>().as_secs_f64()
    };
    let weights = engines.iter().map(|s| s.weight_bytes).max().unwrap_or(0);
    let report = json!({
        "instances": sum(|s| s.instances),
        "graphs": sum(|s| s.graphs),
        "nodes": sum(|s| s.nodes),
        "batches": sum(|s| s.batches),
        "dropped_steps": sum(|s| s.dropped_steps),
        "unseen": sum(|s| s.unseen),
        "bound": scheduled.then(|| sum(|s| s.counts.map_or(0, |counts| counts.bound))),
        "seconds": {
            "construct": seconds(|s| s.construct),
            "schedule": seconds(|s| s.schedule),
            "plan": seconds(|s| s.plan),
            "execute": seconds(|s| s.execute),
        },
        "gathered_bytes": sum(|s| s.counts.map_or(0, |counts| counts.gathered_bytes)),
        "peak_bytes": sum(|s| s.arena_bytes) + weights,
        "kinds": scheduled.then(|| kinds.kinds.iter().map(explained).collect::<Vec<_>>()),
        "missed": kinds
            .missed()
            .map(|(kind, batches)| json!({"kind": kind.name, "batches": batches})),
    });
    format!("{report}\n")
}

/// Reports how well a kind batched. In the result, `bound` is a lower bound on its batches; `sizes`
/// counts the batches of 1, of 2 to 3, of 4 to 7 nodes, and so on.
fn explained(kind: &KindReport) -> Value {
    json!({
        "kind": kind.name,
        "nodes": kind.nodes,
        "batches": kind.batches,
        "bound": kind.chain,
        "mean": kind.mean(),
        "largest": kind.largest,
        "sizes": kind.sizes,
        "advice": kind.advice(),
    })
}
