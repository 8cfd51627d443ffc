//! Launches, meetings of blocks, and what goes to and from the host.

use edbatch::cuda::measure::{Experiment, Launching};

use super::predictions::{self, LAUNCH_AND_TICKET, meeting};
use super::probe::SAMPLES;
use super::record::Figure;
use super::run::{Context, Findings};
use crate::workload::Failure;

/// A tape of 64 trees, and their outputs.
const TAPE: usize = 32 << 10;

/// The team of a TreeLSTM of 256 elements on an H200.
const TEAM: u32 = 16;

pub(super) fn run(context: &Context<'_>, found: &mut Findings<'_>) -> Result<(), Failure> {
    let Some(probe) = context.target.probe() else {
        found.skipped("latencies", "the emulated device has none");
        return Ok(());
    };
    let processors = probe.hardware().sms;
    let micros = |ns: &[f64]| Figure::of(&ns.iter().map(|ns| ns / 1e3).collect::<Vec<_>>(), "µs");

    for (name, how, blocks) in [
        ("plain", Launching::Plain, 1),
        ("cooperative", Launching::Cooperative, 1),
        ("cooperative, all processors", Launching::Cooperative, processors),
    ] {
        let measured = probe.measure(Experiment::Launch { how, blocks }, 10 * SAMPLES)?;
        let what = |time: &str| format!("launch, {name}: {time}");
        found.measured(&what("each of 16 in a row"), micros(&measured.device), None, None);
        found.measured(&what("the call"), micros(&measured.call), None, predictions::CALL);
        let ticket =
            if blocks == processors { LAUNCH_AND_TICKET } else { &what("until it is seen") };
        found.measured(ticket, micros(&measured.host), None, None);
    }

    let sizes = [4, TEAM, 32, 64].into_iter().filter(|&size| size < processors);
    let alone = sizes.clone().chain([processors]).map(|blocks| (1, blocks));
    // Eight teams side by side, where there are so many processors.
    let together =
        sizes.map(|blocks| (8, blocks)).filter(|(teams, blocks)| teams * blocks <= processors);
    for (teams, blocks) in alone.chain(together) {
        if found.is_over() {
            found.stopped("before all meetings");
            return Ok(());
        }
        let measured = probe.measure(Experiment::Barriers { teams, blocks }, SAMPLES)?;
        let each: Vec<f64> = measured.device.iter().map(|ns| ns / measured.work).collect();
        let predicted = predictions::meeting_of(teams, blocks, processors);
        found.measured(&meeting(teams, blocks), micros(&each), None, predicted);
    }

    for (name, experiment) in [
        ("pull of a 32 KB tape", Experiment::Pull { blocks: TEAM, bytes: TAPE }),
        ("write back of 32 KB", Experiment::WriteBack { blocks: TEAM, bytes: TAPE }),
        ("write back of 4 MB", Experiment::WriteBack { blocks: TEAM, bytes: 4 << 20 }),
    ] {
        let measured = probe.measure(experiment, SAMPLES)?;
        found.measured(
            &format!("{name} with its launch, on the device"),
            micros(&measured.device),
            None,
            None,
        );
        found.measured(&format!("{name}, until it is seen"), micros(&measured.host), None, None);
    }
    Ok(())
}
