//! Other programs' training: the same steps from the same weights, in turns with ours.

use std::fs;

use edbatch::models::Targets;
use edbatch_runtime::Parameters;
use tempfile::TempDir;

use crate::Failure;
use crate::measure::peers::process::Process;
use crate::measure::peers::program::{Program, script_on};
use crate::measure::peers::{difference, filled};
use crate::measure::workload::{MiniBatch, PEERS, RATE, Workload};
use crate::record::training::TrainingPeer;

/// The number of first steps whose losses are compared.
pub const COMPARED: usize = 4;
/// Accepted difference of losses, relative to the smallest one.
const TOLERANCE: f64 = 1e-4;

/// A process of another program that trains the same model.
pub struct Twin {
    folder: TempDir,
    process: Process,
    /// Seconds of steps, and seconds in which Python prepared them.
    pub seconds: [f64; 2],
    /// The number of these steps.
    pub steps: usize,
    /// Largest difference of losses from ours, relative to the smallest of ours.
    pub difference: f64,
}

impl Twin {
    /// Starts the process. Returns the reason if it cannot run the model.
    pub fn start(
        program: Program,
        model: &str,
        workload: &dyn Workload,
        parameters: &Parameters,
        mini_batches: &[MiniBatch],
        targets: &[&[Targets]],
    ) -> Result<Result<Self, String>, Failure> {
        let folder = filled(model, workload, parameters, mini_batches)?;
        let training = serde_json::json!({ "rate": RATE, "targets": targets });
        fs::write(folder.path().join("training.json"), training.to_string())?;
        let (script, options): (_, &[&str]) = match program {
            Program::DyNet => ("dynet_training.py", &[]),
            Program::PyTorch => ("pytorch_training.py", &[]),
            Program::PyTorchCuda => ("pytorch_training.py", &["eager"]),
            _ => ("pytorch_training.py", &["captured"]),
        };
        let process = Process::start(program, script_on(folder.path(), script, options))?;
        let (seconds, steps, difference) = ([0.0; 2], 0, 0.0);
        Ok(process.map(|process| Self { folder, process, seconds, steps, difference }))
    }

    /// Trains on the first mini-batches. Fails if the losses differ from ours.
    pub fn compare(&mut self, losses: &[f32]) -> Result<(), Failure> {
        self.process.keep(1, &(0..losses.len()).collect::<Vec<_>>())?;
        let smallest = losses.iter().copied().fold(f32::INFINITY, f32::min);
        let found = difference(&self.folder.path().join("results.f32"), losses)?;
        self.difference = found / f64::from(smallest);
        if self.difference > TOLERANCE {
            let (program, steps) = (self.process.program.name(), losses.len());
            return Err(format!(
                "{program}: the losses of the first {steps} steps differ from {losses:?} by up to \
                 {found}"
            )
            .into());
        }
        Ok(())
    }

    /// Trains on mini-batches. Returns the seconds.
    pub fn train(&mut self, numbers: &[usize]) -> Result<f64, Failure> {
        let [computing, preparing] = self.process.turn(1, numbers, &mut |_, _| {})?;
        self.seconds[0] += computing;
        self.seconds[1] += preparing;
        self.steps += numbers.len();
        Ok(computing)
    }

    /// Returns the record of a speed in instances a second.
    pub fn record(self, instances_per_second: f64) -> TrainingPeer {
        let Self { process: Process { program, version, .. }, seconds, .. } = &self;
        TrainingPeer {
            program: program.name().into(),
            version: version.clone(),
            instances_per_second,
            prepared_instances_per_second: instances_per_second / (1.0 + seconds[1] / seconds[0]),
            difference: self.difference,
        }
    }
}

/// Trains all programs on a mini-batch. Returns the seconds of each.
pub fn steps(twins: &mut [Twin], number: usize) -> Result<[f64; PEERS.len()], Failure> {
    let mut seconds = [0.0; PEERS.len()];
    for (twin, seconds) in twins.iter_mut().zip(&mut seconds) {
        *seconds = twin.train(&[number])?;
    }
    Ok(seconds)
}
