//! Mini-batches that are decided ahead, on an emulated device and on the CPU.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use edbatch::models::Model;
use edbatch::{Engine, EngineOptions, Optimizer, TrainError, Trainer, TrainerOptions};
use edbatch_runtime::Parameters;

use crate::device_training::Subject;
use crate::dropout;

/// Reports, updates and state after three mini-batches of different sizes.
#[test]
fn train_each_has_the_bits_of_train() {
    let (model, parameters, inputs, targets) = dropout::trees(0.5);
    let options = || TrainerOptions::new().optimizer(Optimizer::adam(1e-2)).warm_up(9).seed(7);
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let sizes = [2, 0, 1, inputs.len(), 2];
    let batches = || sizes.map(|size| (&inputs[..size], &targets[..size]));
    let mut states = Vec::new();
    for threads in 1..=4 {
        let train_each = |trainer: &mut Trainer<_>| {
            // Masks depend on the inputs before them.
            trainer.accumulate(&inputs[..1], &targets[..1], 1.0).unwrap();
            // Without mini-batches, nothing changes.
            trainer.train_each(batches().into_iter().take(0), |_| panic!("a report")).unwrap();
            let mut reports = Vec::new();
            let ended = trainer.train_each(batches(), |report| {
                reports.push((report.loss.to_bits(), report.gradient_norm.to_bits(), report.terms));
                ControlFlow::Continue(())
            });
            ended.unwrap();
            assert_eq!((trainer.updates(), reports.len()), (5, 5));
            (reports, trainer.state().unwrap())
        };
        let threads = || options().threads(threads).clip_norm(0.2);
        states.push(subject.compare(threads, "train_each", train_each));
        let mut alone = subject.on_cpu(threads());
        alone.accumulate(&inputs[..1], &targets[..1], 1.0).unwrap();
        let reports = batches().map(|(inputs, targets)| {
            let report = alone.train(inputs, targets).unwrap();
            (report.loss.to_bits(), report.gradient_norm.to_bits(), report.terms)
        });
        let (got, state) = states.last().unwrap();
        assert!(*got == reports && *state == alone.state().unwrap());
    }
    assert!(states.iter().all(|state| *state == states[0]), "threads change nothing");
}

/// After an error, an early end or a panic, what `each` was called for has been applied, and
/// nothing else. The trainer goes on with the bits of a new one.
#[test]
fn mini_batches_after_an_early_end_are_not_applied() {
    let (model, parameters, inputs, targets) = dropout::trees(0.25);
    let options = || TrainerOptions::new().optimizer(Optimizer::ada_grad(0.05)).seed(3);
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let good = (inputs.clone(), targets.clone());
    for (threads, on_device) in [(1, true), (3, true), (1, false), (2, false)] {
        let new = || options().threads(threads);
        let trainer = || if on_device { subject.on_device(new()) } else { subject.on_cpu(new()) };
        let fresh = |updates: u64| {
            let mut trainer = subject.on_cpu(options());
            for _ in 0..updates {
                trainer.train(&inputs, &targets).unwrap();
            }
            trainer.state().unwrap()
        };
        // The third of five mini-batches has too few targets.
        let mut own = trainer();
        let batches = (0..5).map(|n| match n {
            2 => (good.0.clone(), good.1[1..].to_vec()),
            _ => good.clone(),
        });
        let mut reports = 0;
        let mut go_on = |_| {
            reports += 1;
            ControlFlow::Continue(())
        };
        let error = own.train_each(batches, &mut go_on).unwrap_err();
        assert!(matches!(error, TrainError::TargetsOfInputs { .. }), "{error}");
        assert!(own.updates() == 2 && own.state().unwrap() == fresh(2));
        // It goes on.
        own.train_each([good.clone()], &mut go_on).unwrap();
        assert!(reports == 3 && own.state().unwrap() == fresh(3));

        // An end at the second of endless mini-batches. On a device, the next step has begun.
        let mut own = trainer();
        let mut reports = 0;
        let mut count = |_| {
            reports += 1;
            if reports == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        own.train_each(std::iter::repeat_with(|| good.clone()), &mut count).unwrap();
        let expected = if on_device { 3 } else { 2 };
        assert_eq!((reports, own.updates()), (expected, expected));
        assert!(own.state().unwrap() == fresh(expected));

        // A loss that is not finite, of the second mini-batch.
        let mut own = trainer();
        let mut values: Vec<_> = parameters.slices().into_iter().map(<[f32]>::to_vec).collect();
        values.last_mut().unwrap().fill(f32::INFINITY);
        let wrong = Parameters::from_values(model.network(), values).unwrap();
        own.set_parameters(&wrong).unwrap();
        let error = own.train_each([good.clone(), good.clone()], |_| ControlFlow::Continue(()));
        let expected = {
            let mut alone = subject.on_cpu(options());
            alone.set_parameters(&wrong).unwrap();
            alone.train(&inputs, &targets).unwrap_err().to_string()
        };
        assert_eq!(error.unwrap_err().to_string(), expected);
        assert_eq!(own.updates(), 0);

        // A panic of `each`, or of the iterator, ends all threads, and the trainer goes on.
        for of_iterator in [false, true] {
            let mut own = trainer();
            let batches = (0..4).map(|n| {
                assert!(!of_iterator || n < 3, "the iterator panics");
                good.clone()
            });
            let each = |_| -> ControlFlow<()> {
                assert!(of_iterator, "each panics");
                ControlFlow::Continue(())
            };
            let ended = catch_unwind(AssertUnwindSafe(|| own.train_each(batches, each)));
            assert!(ended.is_err());
            own.set_updates(0);
            own.set_parameters(&parameters).unwrap();
            own.train(&good.0, &good.1).unwrap();
        }
    }
}

/// An engine has the parameters of its time, and the bits of an engine on the CPU.
#[test]
fn a_trainer_lends_engines_with_its_parameters() {
    let (model, parameters, inputs, targets) = dropout::trees(0.5);
    let options = || TrainerOptions::new().optimizer(Optimizer::sgd(0.1));
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    subject.compare(options, "engines", |trainer| {
        let run = |engine: &mut Engine<_>| -> Vec<u32> {
            let rows = engine.run(&inputs).unwrap();
            rows.iter().flat_map(|rows| rows.iter().flatten().map(|x| x.to_bits())).collect()
        };
        let mut engines = Vec::new();
        for _ in 0..3 {
            engines.push(trainer.engine(EngineOptions::new()).unwrap());
            trainer.train(&inputs, &targets).unwrap();
        }
        let first = run(&mut engines[0]);
        assert!(first != run(&mut engines[2]));
        let mut alone = Engine::new(model.clone(), parameters.clone()).unwrap();
        assert!(first == run(&mut alone));
        engines.iter_mut().map(run).collect::<Vec<_>>()
    });
}

/// Dividing a small mini-batch would cost a device more than it saves.
#[test]
fn a_device_divides_only_large_mini_batches() {
    let (model, parameters, inputs, targets) = dropout::trees(0.0);
    let options = || TrainerOptions::new().threads(2);
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let mut trainer = subject.on_device(options());
    let smallest = (0..inputs.len()).min_by_key(|&input| targets[input].len()).unwrap();
    assert!(8 * targets[smallest].len() < 512);
    let mut graphs = |copies: usize| {
        let inputs = vec![inputs[smallest].clone(); 8 * copies];
        let targets = vec![targets[smallest].clone(); 8 * copies];
        let before = trainer.statistics().graphs;
        trainer.train(&inputs, &targets).unwrap();
        trainer.statistics().graphs - before
    };
    // The first is taken to be large.
    assert_eq!([graphs(1), graphs(1), graphs(100), graphs(1)], [2, 1, 2, 1]);
}
