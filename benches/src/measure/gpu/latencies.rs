//! The part `latencies`: launches, barriers, and transfers to and from the host.

use std::time::Instant;

use edbatch_cuda::measure::{Launching, ProbeDevice};

use crate::Failure;
use crate::measure::gpu::experiment::{self, Experiment};
use crate::measure::gpu::probe::SAMPLES;
use crate::record::finding::{Finding, Outcome};
use crate::spread::Spread;

/// Bytes of a command list for 64 trees, and of their outputs.
const COMMAND_LIST: usize = 32 << 10;

/// Blocks that run a plan together, for a TreeLSTM with 256 elements on an H200.
const TEAM: u32 = 16;

/// Measures latencies until a deadline.
pub(super) fn latencies(
    probe: &ProbeDevice,
    until: Instant,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Finding>, Failure> {
    let processors = probe.hardware().sms;
    let mut findings = Vec::new();
    let mut side_by_side = None;
    let mut add = |what: &str, nanoseconds: &[f64]| {
        let micros: Vec<f64> = nanoseconds.iter().map(|ns| ns / 1e3).collect();
        findings.push(Finding::measured("latencies", what, &micros, "µs"));
    };

    progress("launches");
    for (name, how, blocks) in [
        ("plain", Launching::Plain, 1),
        ("cooperative", Launching::Cooperative, 1),
        ("cooperative on all SMs", Launching::Cooperative, processors),
    ] {
        let measured = Experiment::Launch { how, blocks }.measure(probe, 10 * SAMPLES)?;
        add(&format!("launch, {name}: each of 16 in a row"), &measured.device);
        add(&format!("launch, {name}: the call"), &measured.call);
        add(&format!("launch, {name}: until the host sees its end"), &measured.host);
    }

    progress("barriers");
    let sizes = [4, TEAM, 32, 64].into_iter().filter(|&size| size < processors);
    let alone = sizes.clone().chain([processors]).map(|blocks| (1, blocks));
    // Eight teams side by side, if the device has enough SMs.
    let together =
        sizes.map(|blocks| (8, blocks)).filter(|(teams, blocks)| teams * blocks <= processors);
    for (teams, blocks) in alone.chain(together) {
        if Instant::now() >= until {
            let note = "the time was over before all barriers";
            findings.push(Finding::new("latencies", "latencies", Outcome::Stopped, note));
            return Ok(findings);
        }
        let measured = Experiment::Barriers { teams, blocks }.measure(probe, SAMPLES)?;
        let each: Vec<f64> = measured.device.iter().map(|ns| ns / measured.work).collect();
        let beside = if teams > 1 { ", 8 teams side by side" } else { "" };
        add(&format!("barrier of {blocks} blocks{beside}"), &each);
    }

    // Eight mini-batches of separate engines are eight launches.
    if 8 * TEAM <= processors {
        progress("launches side by side");
        let [one, eight] =
            [1, 8].map(|launches| experiment::side_by_side(probe, launches, TEAM, SAMPLES));
        let (one, eight) = (one?, eight?);
        add("a launch of many barriers, until the host sees its end", &one);
        add("eight such launches on eight streams", &eight);
        let times = Spread::of(&eight).median / Spread::of(&one).median;
        let verb = if times < 2.0 { "overlap" } else { "queue" };
        let note = format!("they {verb}: {times:.1} times as long as one");
        side_by_side = Some(Finding::new("latencies", "eight launches", Outcome::Passed, note));
    }

    progress("transfers");
    for (name, experiment) in [
        ("read of a 32 KB command list", Experiment::Pull { blocks: TEAM, bytes: COMMAND_LIST }),
        ("write of 32 KB", Experiment::WriteBack { blocks: TEAM, bytes: COMMAND_LIST }),
        ("write of 4 MB", Experiment::WriteBack { blocks: TEAM, bytes: 4 << 20 }),
    ] {
        let measured = experiment.measure(probe, SAMPLES)?;
        add(&format!("{name}, with its launch, on the device"), &measured.device);
        add(&format!("{name}, until the host sees its end"), &measured.host);
    }
    findings.extend(side_by_side);
    Ok(findings)
}
