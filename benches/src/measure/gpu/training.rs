//! Training on a device: steps of trainers, in turns with PyTorch on the same device.
//!
//! A trainer runs steps one by one, and others run steps in a row while threads prepare the next
//! mini-batches. Before anything is timed, each trains on the same four mini-batches from the same
//! weights: the losses must equal the processor's, and be close in another program. A program with
//! other losses is a finding and is not timed.

use std::cell::RefCell;
use std::io;
use std::time::Instant;

use edbatch_runtime::kernels::Level;

use crate::Failure;
use crate::measure::device::Device;
use crate::measure::families::Family;
use crate::measure::gpu::trainers::{OnDevice, THREADS};
use crate::measure::gpu::verify::is_no_compiler;
use crate::measure::peers::program::Program;
use crate::measure::peers::training::{COMPARED, Twin};
use crate::measure::rounds::{Entrant, rounds};
use crate::measure::systems::weights;
use crate::measure::workload::{MiniBatch, Part};
use crate::record::finding::{Finding, Outcome};
use crate::spread::Spread;
use crate::text::whole;

/// Other programs that train on a device.
pub const ON_CUDA: [Program; 2] = [Program::PyTorchCuda, Program::PyTorchGraphs];
/// The number of steps in a turn: one by one, in a row, and in a row of another program, whose
/// clock starts with the first launch.
const STEPS: [usize; 3] = [8, 64, 16];

fn way(threads: usize) -> String {
    if threads == 0 { "train".into() } else { format!("train_each, threads {threads}") }
}

/// Compares the first losses. With a number of seconds, then times all trainers and programs.
pub fn training(
    family: &Family,
    (hidden, batch): (usize, usize),
    device: &Device,
    peers: &[Program],
    seconds: Option<f64>,
    mut say: impl FnMut(&str),
) -> Result<Vec<Finding>, Failure> {
    let name = format!("{} on {}, H {hidden}, batch {batch}", family.model, family.input);
    let workload = family.at(hidden)?;
    let parameters = weights(workload.network());
    let mini_batches = MiniBatch::spread(workload.instances(Part::Test), batch, COMPARED);
    say("the first losses of edbatch");
    let mut passes = workload.training(&parameters, 1, &mini_batches)?;
    let losses = passes.losses(COMPARED)?;
    let targets = passes.targets();
    let finding = |who: &str, outcome, note: String| {
        Finding::new("training", &format!("{name}: losses of {who}"), outcome, note)
    };
    let made = match workload.trainers(device, &parameters, &mini_batches, &targets) {
        Err(failure) if is_no_compiler(&*failure) => {
            return Ok(vec![finding("edbatch", Outcome::Skipped, failure.to_string())]);
        }
        made => made?,
    };
    let mut trainers = Vec::new();
    for (train, own) in made {
        let own: Vec<f32> = own.iter().map(|&loss| loss as f32).collect();
        // Without fused multiply-adds, the processor has other bits.
        if own != losses && Level::detect() != Level::Portable {
            return Err(format!("losses {own:?}, on the processor {losses:?}").into());
        }
        trainers.push(train);
    }
    let note = format!("{COMPARED} steps by train and by train_each: as on the processor");
    let mut findings = vec![finding("edbatch", Outcome::Passed, note)];
    let mut twins = Vec::new();
    for &program in peers {
        say(&format!("the first losses of {}", program.name()));
        let model = family.model;
        let twin = Twin::start(program, model, &*workload, &parameters, &mini_batches, &targets);
        let compared = twin.and_then(|twin| {
            let mut twin = twin.map_err(io::Error::other)?;
            twin.compare(&losses).map(|()| twin)
        });
        let (outcome, note) = match compared {
            Ok(twin) => {
                let note = format!("{COMPARED} steps differ by {:.0e} of a loss", twin.difference);
                twins.push((program.name(), RefCell::new(twin)));
                (Outcome::Passed, note)
            }
            // The program gives a reason.
            Err(failure) if failure.is::<io::Error>() => (Outcome::Skipped, failure.to_string()),
            Err(failure) => (Outcome::Failed, failure.to_string()),
        };
        findings.push(finding(program.name(), outcome, note));
    }
    if let Some(seconds) = seconds {
        say("taking turns");
        findings.extend(turns((&name, batch), trainers, twins, seconds)?);
    }
    Ok(findings)
}

/// Times all trainers and programs in turn. Returns a figure for each.
fn turns(
    (name, batch): (&str, usize),
    mut trainers: Vec<OnDevice>,
    twins: Vec<(&str, RefCell<Twin>)>,
    seconds: f64,
) -> Result<Vec<Finding>, Failure> {
    let [alone, in_a_row, of_twin] =
        STEPS.map(|steps| (0..steps).map(|step| step % COMPARED).collect::<Vec<usize>>());
    let (mut names, mut entrants): (Vec<(String, usize)>, Vec<Entrant<'_>>) = (vec![], vec![]);
    for (threads, train) in THREADS.into_iter().zip(&mut trainers) {
        let numbers = if threads == 0 { &alone } else { &in_a_row };
        names.push((format!("edbatch, {}", way(threads)), numbers.len()));
        entrants.push(Box::new(move |_, each| {
            let began = Instant::now();
            train(numbers)?;
            each(0, began.elapsed().as_secs_f64());
            Ok(())
        }));
    }
    for (program, twin) in &twins {
        for (how, numbers, size) in [("alone", &alone, 1), ("in a row", &of_twin, of_twin.len())] {
            names.push((format!("{program}, steps {how}, levels not counted"), numbers.len()));
            entrants.push(Box::new(move |_, each| {
                for numbers in numbers.chunks(size) {
                    each(0, twin.borrow_mut().train(numbers)?);
                }
                Ok(())
            }));
        }
    }
    let rounds = rounds(&mut entrants, &[], 0, seconds, false)?;
    drop(entrants);
    let mut findings = Vec::new();
    for ((who, steps), times) in names.iter().zip(&rounds.times) {
        let inputs = times.turns.iter().map(|turn| (steps * batch) as f64 / turn);
        let inputs: Vec<f64> = inputs.collect();
        let best = whole(inputs.iter().copied().fold(0.0, f64::max));
        let per_second = Spread::of(&inputs).median / batch as f64;
        let note = format!("best {best}; {per_second:.1} steps/s");
        let what = format!("{name}: {who}");
        let measured = Finding::measured("training", &what, &inputs, "inputs/s");
        findings.push(Finding { note, ..measured });
    }
    for (program, twin) in &twins {
        let preparing = 1e3 * twin.borrow().seconds[1] / twin.borrow().steps as f64;
        let what = format!("{name}: {program}, levels");
        findings.push(Finding::measured("training", &what, &[preparing], "ms/step"));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::families::FAMILIES;
    use crate::measure::sets::Source;

    /// With PyTorch, if it is installed: without a GPU it runs eagerly on the processor, and cannot
    /// capture. The times mean nothing.
    #[test]
    fn every_way_has_the_same_losses_and_a_figure() {
        let device = Device::open(true).unwrap();
        let [torch, gpu] = [Program::PyTorch, Program::PyTorchGraphs].map(|it| it.version());
        let [torch, gpu] = [torch, gpu].map(|version| usize::from(version.is_ok()));
        let family = (FAMILIES[0].1)(&Source::Generated).unwrap();
        let peers = &ON_CUDA[..2 * torch];
        let findings = training(&family, (8, 2), &device, peers, Some(0.0), |_| {}).unwrap();
        if findings[0].outcome == Outcome::Skipped {
            return edbatch_testing::skip(&findings[0].note);
        }
        let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
        let count = |part: &str| text.iter().filter(|line| line.contains(part)).count();
        let counts = ["passed ", "graphs need a CUDA device", " steps/s", " ms/step"].map(count);
        let expected = [1 + torch + gpu, torch - gpu, 4 + 2 * (torch + gpu), torch + gpu];
        assert_eq!(counts, expected, "{text:?}");
    }
}
