//! Trainers on a device, for the part `training`.

use std::ops::ControlFlow;
use std::sync::Arc;

use edbatch::models::{Model, Targets};
use edbatch::{Optimizer, Trainer, TrainerOptions};
use edbatch_cuda::CudaOptions;
use edbatch_runtime::Parameters;

use crate::Failure;
use crate::measure::device::Device;

/// For each of our trainers, the threads that prepare the steps of `train_each`; 0 for `train`.
pub const THREADS: [usize; 4] = [0, 1, 2, 4];

/// A trainer on a device. Trains on the mini-batches with these numbers, and returns their losses.
pub type OnDevice = Box<dyn FnMut(&[usize]) -> Result<Vec<f64>, Failure>>;

/// Makes trainers, which share the parameters on the device, for mini-batches with targets. Each
/// comes with the losses of its first steps from these parameters, one for each mini-batch.
pub fn trainers<M: Model + Clone + 'static>(
    model: &M,
    device: &Device,
    parameters: &Parameters,
    rate: f64,
    mini_batches: Vec<(Vec<M::Input>, Vec<Targets>)>,
) -> Result<Vec<(OnDevice, Vec<f64>)>, Failure> {
    let (count, mini_batches) = (mini_batches.len(), Arc::new(mini_batches));
    let program = Trainer::<M>::program(model.network(), &TrainerOptions::new())?;
    let mut backend = device.load(&program, parameters, &CudaOptions::new())?;
    let of_training = "the program is for training";
    let start = backend.training().expect(of_training).state()?;
    let mut all = Vec::new();
    for threads in THREADS {
        let mut fork = backend.fork();
        fork.training().expect(of_training).forget();
        fork.training().expect(of_training).set_state(&start)?;
        let options = TrainerOptions::new().threads(threads.max(1)).optimizer(Optimizer::sgd(rate));
        let (model, parameters) = (model.clone(), parameters.clone());
        let mut trainer = Trainer::with_backend(model, parameters, program.clone(), fork, options)?;
        let mini_batches = mini_batches.clone();
        let mut train: OnDevice = Box::new(move |numbers| {
            let steps = numbers.iter().map(|&number| &mini_batches[number]);
            let mut losses = Vec::new();
            if threads == 0 {
                for (inputs, targets) in steps {
                    losses.push(trainer.train(inputs, targets)?.loss);
                }
            } else {
                trainer.train_each(steps.map(|(inputs, targets)| (inputs, targets)), |report| {
                    losses.push(report.loss);
                    ControlFlow::Continue(())
                })?;
            }
            Ok(losses)
        });
        let losses = train(&(0..count).collect::<Vec<_>>())?;
        all.push((train, losses));
    }
    Ok(all)
}
