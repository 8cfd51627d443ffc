//! Gradients and updates of a device: they have the CPU's bits.

mod ahead;
mod borrowed;
mod steps;

use std::sync::Arc;

use edbatch_layout::{CellStyle, Program, TrainingPlan, ValueRow};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    BackPart, Backend, BackendError, Clipping, Cpu, Given, Gradient, NotFiniteIn, OutputGradients,
    Parameters, Part, Precision, Rows, StepResult, Training, TrainingPart, TrainingState,
    TrainingStep, Update, UpdateRule, initial_rows,
};
use edbatch_testing::Subject;
use edbatch_testing::networks::Random;
use edbatch_zoo::Stop;
use rand::{RngExt, SeedableRng};

use super::levels;
use super::levels::{Emitting, graphs};
use super::training::{for_training, planned, subjects};
use crate::backend::Cuda;
use crate::device::Device;
use crate::emulated::Emulated;
use crate::{CudaError, CudaOptions, Driver};

/// A mini-batch of two parts, which have the same plan and different targets.
struct MiniBatch {
    plan: TrainingPlan,
    given: Vec<f32>,
    targets: [Vec<u32>; 2],
    gradients: [Vec<f32>; 2],
    has_scores: bool,
    /// The weight of each cross-entropy.
    weight: f32,
}

fn widths(program: &Program, rows: &[ValueRow]) -> Vec<usize> {
    let widths = rows.iter().flat_map(|row| &program.record(row.record).widths);
    widths.map(|&width| width as usize).collect()
}

impl MiniBatch {
    fn new(program: &Program, plan: TrainingPlan, has_scores: bool, rng: &mut Random) -> Self {
        let initial = program.network().initial_values().len();
        let mut floats = |rows: &[ValueRow]| -> Vec<f32> {
            let count = widths(program, rows).iter().sum();
            (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
        };
        let given = floats(&plan.forward.given[initial..]);
        let gradients = [(); 2].map(|()| floats(&plan.back.given));
        let wanted: Vec<ValueRow> = plan.forward.wanted.iter().map(|&(row, _)| row).collect();
        let classes: Vec<u32> =
            wanted.iter().map(|row| program.record(row.record).widths[0]).collect();
        let targets =
            [(); 2].map(|()| classes.iter().map(|&count| rng.random_range(0..count)).collect());
        Self { plan, given, targets, gradients, has_scores, weight: 0.125 }
    }

    /// Runs both parts forward and back. Returns the losses.
    fn run(&self, backend: &mut dyn Training, round: usize) -> Result<Vec<f64>, BackendError> {
        let network = backend.program().unwrap().network().clone();
        let initial = initial_rows(&network, &backend.state()?.parameters);
        let given = Given { initial: &initial, places: &[], host: &self.given };
        let parts = [0, 1].map(|slot| Part { slot, plan: &self.plan.forward, given });
        backend.run(&parts)?;
        let parts = [0, 1].map(|slot| {
            let outputs = match self.has_scores && round != 1 {
                false => OutputGradients::Rows(&self.gradients[slot]),
                true => OutputGradients::CrossEntropy {
                    targets: &self.targets[slot],
                    weight: self.weight,
                },
            };
            BackPart { slot, plan: &self.plan, outputs }
        });
        let mut losses = Vec::new();
        backend.run_back(&parts, &mut losses)?;
        Ok(losses)
    }
}

/// The rules of updates; each has rates and decays for all parameters.
fn rules() -> [UpdateRule; 5] {
    let (epsilon, momentum) = (1e-8, 0.9);
    [
        UpdateRule::Adam { betas: [0.9, 0.999], epsilon, decoupled: true },
        UpdateRule::AdaGrad { rate_decay: 0.1, initial: 0.1, epsilon },
        UpdateRule::Sgd { momentum, dampening: 0.1, nesterov: false },
        UpdateRule::RmsProp { alpha: 0.9, epsilon, momentum, centered: true },
        UpdateRule::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false },
    ]
}

/// All numbers that a round leaves, by name, as bits.
type Numbers = Vec<(String, Vec<u64>)>;

fn bits(floats: &[f32]) -> Vec<u64> {
    floats.iter().map(|x| x.to_bits().into()).collect()
}

/// Trains for two updates with a rule, and again with another after the state has moved to a new
/// start. Returns everything that can be read in between.
fn train(
    backend: &mut dyn Training,
    mini_batch: &MiniBatch,
    rule: UpdateRule,
    clip: Clipping,
) -> Result<Numbers, BackendError> {
    let network = backend.program().unwrap().network().clone();
    let count = network.parameters().len();
    let (rates, decays) = (vec![0.02; count], vec![0.01; count]);
    let mut all = Numbers::new();
    for round in 0..3 {
        let mut add = |what: &str, numbers| all.push((format!("round {round}: {what}"), numbers));
        let losses = mini_batch.run(backend, round)?;
        add("losses", losses.iter().map(|loss| loss.to_bits()).collect());
        let plan = &mini_batch.plan;
        match round {
            // Two mini-batches are accumulated, each in two calls.
            2 => {
                backend.add_sums(&[(0, plan)])?;
                backend.add_sums(&[(1, plan)])?;
                backend.finish()?;
                mini_batch.run(backend, round)?;
                backend.add_sums(&[(1, plan), (0, plan)])?;
            }
            _ => backend.add_sums(&[(0, plan), (1, plan)])?,
        }
        for slot in 0..2 {
            let rows = backend.given_gradients(slot, plan)?;
            add(
                "gradients of given rows",
                bits(&rows.iter().flatten().copied().collect::<Vec<_>>()),
            );
        }
        add("squared norm", vec![backend.finish()?.to_bits()]);
        let gradients = backend.gradients()?;
        for (parameter, gradient) in network.parameters().iter().zip(&gradients.parameters) {
            add(&format!("gradient of {}", parameter.name), bits(gradient.elements()));
            if let Gradient::Rows { rows, .. } = gradient {
                add("rows", rows.iter().map(|&row| row.into()).collect());
            }
        }
        // Once the host gives the gradients.
        let given = (round == 1).then_some(&gradients);
        let step = round as u64 + 1;
        let (rates, decays) = (&rates[..], &decays[..]);
        backend.update(&Update { rule, step, rates, decays, clip, gradients: given })?;
        if round == 1 {
            let state = backend.state()?;
            backend.set_state(&state)?;
        }
        let state = backend.state()?;
        for (number, values) in state.parameters.slices().into_iter().enumerate() {
            add(&network.parameters()[number].name, bits(values));
            for moment in &state.moments[number] {
                add("moment", bits(moment));
            }
        }
    }
    Ok(all)
}

/// Loads a program on an emulated device, or returns `None` without a compiler.
fn load(
    program: &Arc<Program>,
    parameters: &Parameters,
    seed: u32,
    driver: Driver,
) -> Option<Cuda<Emulated>> {
    let options = CudaOptions::new().driver(driver);
    let loaded = Cuda::new(&[Arc::new(Emulated::new(seed))], program, parameters, &options);
    let lacks = |error: &_| matches!(CudaError::of(error), Some(CudaError::NoCompiler { .. }));
    edbatch_testing::or_skip(loaded, lacks)
}

/// Returns `None` without a compiler.
fn check(level: Level, seed: u32, (name, emitting): &(String, Emitting)) -> Option<()> {
    let program = Arc::new(for_training(emitting.0.network()));
    let (plan, _) = planned(&program, emitting);
    let (network, mut rng) = (emitting.0.network().clone(), Random::seed_from_u64(seed.into()));
    let parameters = Subject::of(network, emitting.0.clone(), &mut rng).parameters;
    let mini_batch = MiniBatch::new(&program, plan, !name.starts_with("random"), &mut rng);
    let rule = rules()[seed as usize % 5];
    let clip = [Clipping::Norm(0.05), Clipping::Value(0.01), Clipping::None][seed as usize % 3];
    let mut cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32).unwrap();
    let expected = train(cpu.training().unwrap(), &mini_batch, rule, clip).unwrap();
    let driver = [Driver::Teams, Driver::Barriers][seed as usize % 2];
    let mut cuda = load(&program, &parameters, seed + 1, driver)?;
    let got = train(cuda.training().unwrap(), &mini_batch, rule, clip).unwrap();
    for ((what, got), (_, expected)) in got.iter().zip(&expected) {
        let wrong = got.iter().zip(expected).position(|(a, b)| a != b);
        assert!(
            wrong.is_none() && got.len() == expected.len(),
            "{name} at {level}: {what}: {wrong:?} of {}, expected {}",
            got.len(),
            expected.len()
        );
    }
    assert_eq!(got.len(), expected.len());
    Some(())
}

#[test]
fn training_models_has_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    for (seed, (name, emitting)) in (0..).zip(graphs(16, Stop::Forced([0; 5].into())).unwrap()) {
        // Steps have some of the others.
        let is_own = ["mv_rnn", "bilstm_tagger_char", "lattice_gru"].contains(&name);
        if !is_own && !edbatch_testing::all_cases() {
            continue;
        }
        if check(level, seed, &(name.into(), emitting)).is_none() {
            return;
        }
    }
}

#[test]
fn training_random_networks_has_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    let most = if edbatch_testing::all_cases() { 48 } else { 4 };
    let random = subjects().filter(|(name, _)| name.starts_with("random"));
    for (seed, subject) in (0..).zip(random.take(most)) {
        if check(level, seed, &subject).is_none() {
            return;
        }
    }
}
