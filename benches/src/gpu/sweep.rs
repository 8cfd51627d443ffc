//! What can be set without another kernel: sizes of teams, engines a team slot, parts.

use super::on_device::Way;
use super::record::Figure;
use super::run::{Context, Findings, Subject};
use super::setting::Kernels;
use super::throughput::{Timing, compare, engines, one_at_a_time, side_by_side};
use crate::workload::Failure;

/// Of the design's table these are no parameters today.
const FIXED: &str = "rows a tile, threads a block, counters in place of meetings, polling or \
                     yielding: each is a constant of the kernels or of the slots";

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    let options = context.options;
    if options.is_rehearsal() {
        found.skipped("sweep", "the emulated device has no fastest setting");
        return Ok(());
    }
    let timing = Timing::of(context);
    for model in options.workloads().take(2) {
        let subject = context.subject(model, 256, 64)?;
        for (parts, count, fewest_blocks) in ways(context, &subject)? {
            if found.is_over() {
                found.stopped(&format!("at {model}"));
                return Ok(());
            }
            let kernels = Kernels::TEAMS;
            let way =
                Way { target: &context.target, kernels, parts, engines: count, fewest_blocks };
            let mut device =
                subject.workload.on_device(&subject.parameters, &subject.mini_batches, &way)?;
            let team = match fewest_blocks {
                0 => "teams as small as fit".to_string(),
                blocks => format!("teams of {blocks} blocks at least"),
            };
            let what = format!("{model}, {team}, {count} engines, {parts} parts");
            let Some(same_bits) = compare(&mut *device, &subject, kernels)? else {
                found.failed(&what, "results are not those of the CPU");
                continue;
            };
            let times = match count {
                1 => {
                    let [times, ..] =
                        one_at_a_time(&mut *device, timing, subject.mini_batches.len(), parts)?;
                    times
                }
                _ => side_by_side(&mut *device, timing, count)?,
            };
            found.measured(&what, Figure::of(&times, "µs"), same_bits, None);
        }
    }
    found.skipped("other parameters", FIXED);
    Ok(())
}

/// Parts, engines and the fewest blocks of a team.
fn ways(context: &Context<'_>, subject: &Subject) -> Result<Vec<(usize, usize, u32)>, Failure> {
    let best = engines(context, subject, Kernels::TEAMS, 0)?;
    let mut ways: Vec<_> = [1, 2, 4, 8, 16].map(|parts| (parts, 1, 0)).to_vec();
    ways.extend([best / 2, best * 2 / 3, best, 2 * best].map(|count| (1, count.max(2), 0)));
    for blocks in [32, 64] {
        ways.push((super::throughput::parts(64), 1, blocks));
        ways.push((1, engines(context, subject, Kernels::TEAMS, blocks)?, blocks));
    }
    ways.dedup();
    Ok(ways)
}
