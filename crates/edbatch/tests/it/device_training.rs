//! Trainers on an emulated device: gradients and updates have the CPU's bits.

use std::sync::Arc;

use edbatch::cuda::Driver;
use edbatch::models::{Model, ModelName, Targets};
use edbatch::{LossGradients, Optimizer, TrainError, Trainer, TrainerOptions};
use edbatch_graph::Network;
use edbatch_layout::Program;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Borrowed, Given, Gradient, Parameters, Rows, TrainingState};
use edbatch_testing::{all_cases, policies, skip};

use crate::fn_model::{random, word_model};
use crate::optimizers::{Fixture, STEPS, cases};
use crate::small::examples;
use crate::train::many_copies;
use crate::trainer::given;
use crate::{dropout, emulated, training};

/// A model with its first parameters, on a device. All trainers on it share the parameters and
/// gradients, so there is one at a time.
pub(crate) struct Subject<M> {
    model: M,
    parameters: Parameters,
    program: Arc<Program>,
    backend: Box<dyn Backend>,
    /// The state of the device before the first update.
    start: TrainingState,
}

impl<M: Model + Clone> Subject<M> {
    /// Loads a model for trainers with such options. Returns `None` without a compiler, or if the
    /// CPU's bits differ from a device's.
    pub(crate) fn new(
        model: &M,
        parameters: &Parameters,
        options: &TrainerOptions,
    ) -> Option<Self> {
        if Level::detect() == Level::Portable {
            skip("this level of the CPU rounds products");
            return None;
        }
        let network = model.network();
        let program = Trainer::<M>::program(network, options).unwrap();
        let masked = Trainer::<M>::masked_parameters(network, parameters, options).unwrap();
        let mut backend = emulated::backend(program.clone(), &masked, Driver::Teams)?;
        let start = backend.training().expect("the program is for training").state().unwrap();
        let (model, parameters) = (model.clone(), parameters.clone());
        Some(Self { model, parameters, program, backend, start })
    }

    pub(crate) fn on_cpu(&self, options: TrainerOptions) -> Trainer<M> {
        Trainer::with_options(self.model.clone(), self.parameters.clone(), options).unwrap()
    }

    pub(crate) fn on_device(&self, options: TrainerOptions) -> Trainer<M> {
        let mut backend = self.backend.fork();
        let training = backend.training().expect("the program is for training");
        training.forget();
        training.set_state(&self.start).unwrap();
        let (model, parameters) = (self.model.clone(), self.parameters.clone());
        Trainer::with_backend(model, parameters, self.program.clone(), backend, options).unwrap()
    }

    /// Asserts that a function of a trainer returns the same on the CPU and on the device.
    pub(crate) fn compare<T: PartialEq>(
        &self,
        options: impl Fn() -> TrainerOptions,
        what: &str,
        mut of: impl FnMut(&mut Trainer<M>) -> T,
    ) -> T {
        let expected = of(&mut self.on_cpu(options()));
        assert!(of(&mut self.on_device(options())) == expected, "{what}");
        expected
    }
}

/// The bits of the gradient of each parameter, with the rows of a table.
fn gradients<M: Model>(trainer: &mut Trainer<M>) -> Vec<[Vec<u32>; 2]> {
    let gradients = trainer.gradients().unwrap().parameters.into_iter();
    let bits = |gradient: Gradient| {
        let elements = gradient.elements().iter().map(|element| element.to_bits()).collect();
        match gradient {
            Gradient::Rows { rows, .. } => [rows, elements],
            _ => [vec![], elements],
        }
    };
    gradients.map(bits).collect()
}

fn bits(rows: &[Rows]) -> Vec<u32> {
    rows.iter().flat_map(|rows| rows.iter().flatten().map(|x| x.to_bits())).collect()
}

/// All that two updates return, the first from several mini-batches of `size` inputs.
pub(crate) fn updates<M: Model>(
    trainer: &mut Trainer<M>,
    (inputs, targets): (&[M::Input], &[Targets]),
    size: usize,
) -> impl PartialEq + use<M> {
    let weight = 1.0 / inputs.len() as f32;
    let mut losses: Vec<u64> = Vec::new();
    let mut sum = -0.0;
    for (inputs, targets) in inputs.chunks(size).zip(targets.chunks(size)) {
        sum += trainer.accumulate(inputs, targets, weight).unwrap().loss;
    }
    let gradients = gradients(trainer);
    losses.push(trainer.update().unwrap().to_bits());
    let report = trainer.train(inputs, targets).unwrap();
    losses.extend([report.loss.to_bits(), report.gradient_norm.to_bits()]);
    // The sum of several losses has other bits.
    (losses, (sum * 1e6).round() as i64, report.terms, gradients, trainer.state().unwrap())
}

/// Gradients of the examples in `gradients/` are near PyTorch's. They and two updates have the
/// CPU's bits, under all policies, threads, parts and memory limits.
#[test]
fn models_train_with_the_bits_of_the_cpu() {
    let few = [ModelName::TreeLstm, ModelName::LatticeLstm, ModelName::LstmNmt];
    for name in if all_cases() { &ModelName::ALL[..] } else { &few } {
        let (loaded, (inputs, targets)) = examples(*name);
        let options = || TrainerOptions::new().optimizer(Optimizer::adam_w(0.01)).clip_norm(0.1);
        let Some(subject) = Subject::new(&loaded.model, &loaded.parameters, &options()) else {
            return;
        };
        let network = loaded.model.network();
        let mut trainer = subject.on_device(options());
        let loss = trainer.accumulate(&inputs, &targets, 1.0 / inputs.len() as f32).unwrap();
        let dense = trainer.gradients().unwrap().to_dense(network);
        let double = |values: &Vec<f32>| values.iter().map(|&g| f64::from(g)).collect();
        let got = LossGradients {
            loss: loss.loss,
            terms: loss.terms,
            instances: inputs.len() as u64,
            parameters: dense.iter().map(double).collect(),
        };
        training::compare(loaded.folder.path(), network, &got);

        let examples = inputs.iter().zip(&targets).cycle().take(12);
        let (inputs, targets): (Vec<_>, Vec<_>) =
            examples.map(|(input, targets)| (input.clone(), targets.clone())).unzip();
        let all = (&inputs[..], &targets[..]);
        let expected = updates(&mut subject.on_cpu(options()), all, 12);
        let check = |options: TrainerOptions, size, what: &str| {
            let mut trainer = subject.on_device(options);
            assert!(updates(&mut trainer, all, size) == expected, "{name:?}: {what}");
            trainer.bytes()
        };
        let bytes = check(options(), 12, "one part");
        for (threads, size) in [(2, 12), (3, 12), (1, 1), (2, 8)] {
            check(options().threads(threads), size, &format!("{threads} threads, by {size}"));
        }
        let limit = (bytes.weights + bytes.arena / 2) as u64;
        check(options().memory_limit(limit), 12, "a memory limit");
        let most = if all_cases() { policies().len() } else { 2 };
        for (policy, name) in policies().into_iter().map(|(name, it)| (it, name)).take(most) {
            check(options().policy(policy), 12, name);
        }
    }
}

/// `forward` returns the CPU's rows, and `backward` its gradients of given rows and of parameters.
#[test]
fn own_losses_have_the_gradients_of_the_cpu() {
    let model = given();
    let parameters = random(model.network(), 4);
    let options = || TrainerOptions::new().given_gradients();
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let row = |i: usize| std::array::from_fn(|j| ((5 * i + j) as f32 * 0.7).sin());
    let inputs: Vec<Vec<[f32; 5]>> =
        (0..9).map(|n| (0..=n).map(|i| row(10 * n + i)).collect()).collect();
    for threads in 1..=2 {
        subject.compare(
            || options().threads(threads),
            &format!("{threads} threads"),
            |trainer| {
                let mut seen = Vec::new();
                for round in 0..2 {
                    let outputs = trainer.forward(&inputs).unwrap();
                    seen.push(bits(&outputs));
                    let of_loss: Vec<Rows> = outputs
                        .iter()
                        .map(|rows| {
                            let mut of_rows = Rows::new();
                            for (index, row) in rows.iter().enumerate() {
                                // The loss does not depend on all rows.
                                let used = if index % 4 == round { &[] } else { row };
                                of_rows.push(used);
                            }
                            of_rows
                        })
                        .collect();
                    let of_given = trainer.backward(&of_loss).unwrap();
                    assert_eq!(of_given.iter().map(Rows::len).sum::<usize>(), 45);
                    seen.push(bits(&of_given));
                }
                let nothing = trainer.backward(&[Rows::new()]).unwrap_err().to_string();
                trainer.forward(&inputs[..2]).unwrap();
                let wrong = trainer.backward(&[Rows::new()]).unwrap_err().to_string();
                trainer.forward(&inputs).unwrap();
                let ones = inputs.iter().map(|input| {
                    let mut rows = Rows::new();
                    input.iter().for_each(|_| rows.push(&[1.0; 4]));
                    rows
                });
                trainer.backward(&ones.collect::<Vec<_>>()).unwrap();
                let gradients = gradients(trainer);
                trainer.update().unwrap();
                (seen, nothing, wrong, gradients, trainer.state().unwrap())
            },
        );
    }
}

/// Masks are drawn on the host, so they have the same bits.
#[test]
fn dropout_and_clipping_have_the_bits_of_the_cpu() {
    let (model, parameters, inputs, targets) = dropout::trees(0.5);
    let options = || TrainerOptions::new().optimizer(Optimizer::adam(1e-2)).seed(7);
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let states = [1, 2].map(|threads| {
        let clipped = || match threads {
            1 => options().clip_norm(0.2),
            _ => options().clip_value(0.01).threads(threads),
        };
        subject.compare(clipped, &format!("{threads} threads"), |trainer| {
            let reports = [(); 3].map(|()| {
                let report = trainer.train(&inputs, &targets).unwrap();
                (report.loss.to_bits(), report.gradient_norm.to_bits(), report.terms)
            });
            (reports, trainer.state().unwrap())
        })
    });
    assert!(states[0] != states[1]);
}

/// Twenty updates by each rule have the CPU's bits. A state that moves from the CPU to the device
/// and back ends as an unbroken run.
#[test]
fn all_optimizers_have_the_bits_of_the_cpu_and_states_move() {
    let fixture = Fixture::new();
    let model = word_model(fixture.network.clone(), fixture.cell);
    let start = fixture.start();
    let Some(subject) = Subject::new(&model, &start, &TrainerOptions::new()) else { return };
    let all = cases().into_iter().zip(cases()).zip(cases());
    for (((case, options), (_, of_device)), (_, of_cpu)) in all {
        let mut unbroken = subject.on_cpu(options);
        fixture.update(&mut unbroken, 0..7);
        let state = unbroken.state().unwrap();
        fixture.update(&mut unbroken, 7..STEPS);
        let mut trainer = subject.on_device(of_device);
        fixture.update(&mut trainer, 0..7);
        assert!(trainer.state().unwrap() == state, "{case}: seven updates");
        // Other parameters and moments are replaced.
        fixture.update(&mut trainer, 7..9);
        trainer.set_state(&state).unwrap();
        assert!(trainer.state().unwrap() == state, "{case}: a state");
        assert!(trainer.set_state(&state[..state.len() - 1]).is_err());
        fixture.update(&mut trainer, 7..15);
        let state = trainer.state().unwrap();
        let mut back = subject.on_cpu(of_cpu);
        back.set_state(&state).unwrap();
        for trainer in [&mut trainer, &mut back] {
            fixture.update(trainer, 15..STEPS);
            assert!(trainer.state().unwrap() == unbroken.state().unwrap(), "{case}");
        }
    }
}

/// Parameters that the caller sets are trained from there, with the old moments.
#[test]
fn parameters_may_be_set() {
    let model = many_copies();
    let parameters = random(model.network(), 9);
    let new = TrainerOptions::new;
    let Some(subject) = Subject::new(&model, &parameters, &new()) else { return };
    let inputs = [vec![1, 2, 5], vec![3], vec![0, 0, 4, 1]];
    let targets = [vec![Some(1)], vec![Some(5)], vec![Some(0)]];
    let others = random(model.network(), 10);
    let none = Parameters::from_values(&Network::new(), vec![]).unwrap();
    subject.compare(new, "", |trainer| {
        trainer.train(&inputs, &targets).unwrap();
        let before = bits(&trainer.forward(&inputs).unwrap());
        trainer.set_parameters(&others).unwrap();
        let error = trainer.set_parameters(&none).unwrap_err().to_string();
        let after = bits(&trainer.forward(&inputs).unwrap());
        assert!(before != after);
        trainer.train(&inputs, &targets).unwrap();
        (before, after, error, trainer.state().unwrap())
    });
}

/// The caller allocates memory by what `decide` says, and runs the mini-batch on the device.
#[test]
fn a_decided_mini_batch_runs_in_memory_of_the_caller() {
    let model = given();
    let parameters = random(model.network(), 4);
    let options = TrainerOptions::new;
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let inputs: Vec<Vec<[f32; 5]>> = (0..7).map(|n| vec![[0.25 * n as f32; 5]; n]).collect();
    let mut cpu = subject.on_cpu(options());
    let expected = cpu.forward(&inputs).unwrap();
    assert!(matches!(cpu.decide(&inputs), Err(TrainError::NoDevice)));
    let mut trainer = subject.on_device(options());
    let ends = trainer.decide(&inputs).unwrap();
    let of_input = |rows: &Rows| -> Vec<usize> { (1..=rows.len()).map(|row| 4 * row).collect() };
    assert_eq!(ends, expected.iter().map(of_input).collect::<Vec<_>>());
    let mut rows = vec![f32::NAN; 4 * 21];
    // SAFETY: the emulated device has run everything when the call returns.
    let memory = unsafe { Borrowed::new(rows.as_mut_ptr().expose_provenance() as u64, rows.len()) };
    let (device, plan, host) = trainer.decided().unwrap();
    let of_plan = Given { initial: &Rows::new(), places: &[], host };
    device.forward_into(0, plan, of_plan, &[], memory).unwrap();
    let got: Vec<u32> = rows.iter().map(|x| x.to_bits()).collect();
    assert_eq!(got, bits(&expected));
    // The trainer goes on as before.
    assert_eq!(bits(&trainer.forward(&inputs).unwrap()), bits(&expected));
    assert!(trainer.decide(&[]).unwrap().is_empty());
}
