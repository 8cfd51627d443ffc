//! The trainer: own losses, gradients of given rows, and errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch::models::{
    Build, FolderModel, Model, ModelName, SourceSentence, Stop, Targets, TreeLstm, TreeSizes,
};
use edbatch::{Engine, Loss, TrainError, Trainer, TrainerOptions};
use edbatch_graph::{Network, ParameterId, Shape};
use edbatch_layout::{CellStyle, Lifetimes, Program};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Cpu, Gradient, Gradients, Parameters, Part, Precision, Rows};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::fn_model::{FnModel, random};
use crate::observed::Observed;
use crate::small::{changed, examples, forced, sentence, tagger, translator};

/// Trees whose leaves are given rows. The input has the rows of a chain of nodes; each node reads
/// all earlier ones.
pub(crate) fn given() -> impl Model<Input = Vec<[f32; 5]>> + Clone {
    let mut network = Network::new();
    let leaf = network.record("leaf", [("x", Shape::Vector(3)), ("y", Shape::Vector(2))]).unwrap();
    let state = network.record("state", [("h", Shape::Vector(4))]).unwrap();
    let start = network.initial(state, &["start"]).unwrap();
    let node = network.cell("node", state, |cell| {
        let [x, y] = cell.one("leaf", leaf);
        let [h] = cell.many("below", state).mean();
        let [w, v, u] = [("w", 3), ("v", 2), ("u", 4)].map(|(n, k)| cell.parameter(n, &[4, k]));
        vec![(w.matmul(x) + v.matmul(y) + u.transpose().matmul(h)).tanh()]
    });
    let node = node.unwrap();
    FnModel::new(network, move |build: &Build<'_>, rows: &Vec<[f32; 5]>| {
        let mut below = vec![start];
        for row in rows {
            let leaf = build.give(leaf, row)?;
            below.push(build.call(node, &[], &[&[leaf], &below[..]].concat())?);
        }
        below[1..].iter().for_each(|&value| build.emit(value));
        Ok(())
    })
}

/// `forward` returns the rows of an engine; `backward` returns the gradients of given rows.
#[test]
fn own_losses_have_gradients_of_parameters_and_of_given_rows() {
    let model = given();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
    let parameters = Parameters::random(model.network(), &mut rng);
    let mut number = || rng.random_range(-1.0..1.0f32);
    let inputs: Vec<Vec<[f32; 5]>> =
        (1..=9).map(|n| (0..n).map(|_| std::array::from_fn(|_| number())).collect()).collect();
    let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
    let expected = engine.run(&inputs).unwrap();
    // The loss is the sum of all elements, each times a factor.
    let factors: Vec<Rows> = expected
        .iter()
        .map(|rows| {
            let mut factors = Rows::new();
            rows.iter()
                .for_each(|row| factors.push(&row.iter().map(|_| number()).collect::<Vec<_>>()));
            factors
        })
        .collect();
    let loss = |parameters: &Parameters, inputs: &[Vec<[f32; 5]>]| -> f64 {
        let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
        let rows = engine.run(inputs).unwrap();
        let products = rows.iter().zip(&factors).flat_map(|(rows, factors)| {
            let pairs = rows.iter().flatten().zip(factors.iter().flatten());
            pairs.map(|(&row, &factor)| f64::from(row) * f64::from(factor)).collect::<Vec<_>>()
        });
        products.sum()
    };
    // An empty row of gradients stands for zeros.
    let mut sparse = factors.clone();
    sparse[0] = Rows::new();
    sparse[0].push(&[]);
    let mut zeros = factors.clone();
    zeros[0] = Rows::new();
    zeros[0].push(&[0.0; 4]);
    let of = |gradients: &[Rows]| {
        let mut trainer = Trainer::new(model.clone(), parameters.clone()).unwrap();
        trainer.forward(&inputs).unwrap();
        trainer.backward(gradients).unwrap();
        trainer.gradients().unwrap()
    };
    assert!(of(&sparse) == of(&zeros) && of(&sparse) != of(&factors));
    for threads in [1, 2] {
        let options = TrainerOptions::new().threads(threads).given_gradients();
        let mut trainer =
            Trainer::with_options(model.clone(), parameters.clone(), options).unwrap();
        assert_eq!(trainer.forward(&inputs).unwrap(), expected);
        let of_given = trainer.backward(&factors).unwrap();
        let gradients = trainer.gradients().unwrap().to_dense(model.network());
        let near = |derivative: f64, gradient: f32, what: &str| {
            assert!(
                (derivative - f64::from(gradient)).abs() < 3e-3,
                "{what}: {derivative}, {gradient}"
            );
        };
        const STEP: f32 = 1e-2;
        for (index, parameter) in model.network().parameters().iter().enumerate() {
            let id = ParameterId(index as u32);
            for element in 0..parameter.elements() {
                let moved = |by: f32| {
                    let add = |values: &mut [Vec<f32>]| values[index][element] += by;
                    loss(&changed(model.network(), &parameters, add), &inputs)
                };
                let derivative = (moved(STEP) - moved(-STEP)) / f64::from(2.0 * STEP);
                near(
                    derivative,
                    gradients[index][element],
                    &format!("{}[{element}]", parameter.name),
                );
                assert!(!parameters.get(id).is_empty());
            }
        }
        for (input, rows) in inputs.iter().enumerate() {
            assert_eq!(of_given[input].len(), rows.len());
            for row in 0..rows.len() {
                for element in 0..5 {
                    let moved = |by: f32| {
                        let mut inputs = inputs.clone();
                        inputs[input][row][element] += by;
                        loss(&parameters, &inputs)
                    };
                    let derivative = (moved(STEP) - moved(-STEP)) / f64::from(2.0 * STEP);
                    let gradient = of_given[input].row(row)[element];
                    near(derivative, gradient, &format!("input {input}, row {row}, {element}"));
                }
            }
        }
    }
}

/// After each error, the trainer computes the same gradients as before.
#[test]
fn errors_name_the_input_and_leave_the_trainer_usable() {
    let (model, parameters) = translator();
    let good = (vec![forced([5, 6]); 9], vec![vec![Some(5), None, Some(2)]; 9]);
    for threads in [1, 2] {
        let options = TrainerOptions::new().threads(threads);
        let mut trainer =
            Trainer::with_options(model.clone(), parameters.clone(), options).unwrap();
        trainer.accumulate(&good.0, &good.1, 0.5).unwrap();
        let expected = trainer.gradients().unwrap();
        let mut check = |input: SourceSentence, targets: Targets, text: &str| {
            let (mut inputs, mut all) = good.clone();
            inputs.push(input);
            all.push(targets);
            let error = trainer.accumulate(&inputs, &all, 0.5).unwrap_err().to_string();
            assert_eq!(error, text);
            // The error has cleared the gradients.
            trainer.accumulate(&good.0, &good.1, 0.5).unwrap();
            assert!(trainer.gradients().unwrap() == expected, "after: {text}");
        };
        check(
            forced([5]),
            vec![Some(5)],
            "input 9: expected a target or none for each of 2 emitted rows, got 1",
        );
        check(
            forced([5]),
            vec![Some(5), Some(9)],
            "input 9, row 1: expected a target below 9, got 9",
        );
        check(
            SourceSentence { words: vec![4], stop: Stop::AtEnd },
            vec![],
            "input 9 awaits a computed value, which has no gradient: train translators with \
             Stop::Forced",
        );
        let error = trainer.accumulate(&good.0, &good.1[1..], 1.0).unwrap_err();
        assert_eq!(error.to_string(), "expected targets for each of 9 inputs, got 8 lists");
        let nothing = trainer.backward(&[Rows::new()]).unwrap_err().to_string();
        assert_eq!(nothing, "no values are kept: call `forward` before each `backward`");
        trainer.forward(&good.0).unwrap();
        let wrong = trainer.backward(&[Rows::new()]).unwrap_err().to_string();
        let expected = "expected gradients of all that `forward` returned: 9 inputs, got 1";
        assert_eq!(wrong, expected);
        let wrong = trainer.set_gradients(Gradients { parameters: vec![Gradient::None] });
        assert!(matches!(wrong.unwrap_err(), TrainError::GradientsOfParameters));
    }
}

#[test]
fn weights_that_are_not_finite_are_an_error() {
    let (model, parameters) = translator();
    let parameters = changed(model.network(), &parameters, |values| values[0].fill(f32::NAN));
    let mut trainer = Trainer::new(model, parameters).unwrap();
    let error = trainer.accumulate(&[forced([5])], &[vec![Some(5), None]], 1.0).unwrap_err();
    assert!(matches!(error, TrainError::NotFiniteLoss { input: 0, .. }), "{error}");
}

#[test]
fn an_input_that_exceeds_the_memory_limit_is_an_error() {
    let (model, parameters) = translator();
    let options = TrainerOptions::new().memory_limit(30_000);
    let mut trainer = Trainer::with_options(model, parameters, options).unwrap();
    let source = forced([5; 500]);
    let targets = vec![None; 501];
    let error = trainer.accumulate(&[source], &[targets], 1.0).unwrap_err().to_string();
    assert!(error.contains("bytes for its values"), "{error}");
}

#[test]
fn other_backends_and_programs_are_refused() {
    let sizes = TreeSizes { vocabulary: 9, embed: 5, hidden: 4, classes: 3 };
    let model = TreeLstm::new(sizes).unwrap();
    let parameters = random(model.network(), 1);
    let refused = |program: Arc<Program>, backend| {
        let options = TrainerOptions::new();
        let trainer =
            Trainer::with_backend(model.clone(), parameters.clone(), program, backend, options);
        trainer.err().expect("refused").to_string()
    };
    let program = Arc::new(Program::new(model.network().clone(), CellStyle::default()).unwrap());
    let cpu =
        Box::new(Cpu::new(program.clone(), &parameters, Level::detect(), Precision::F32).unwrap());
    assert!(refused(program, cpu).starts_with("the backend computes no gradients"));
    let options = TrainerOptions::new();
    let program = Trainer::<TreeLstm>::program(model.network(), &options).unwrap();
    let count = Box::new(edbatch_runtime::Count::new(program.clone()));
    assert!(refused(program.clone(), count).starts_with("the backend computes no gradients"));
    let of_another = Trainer::<TreeLstm>::program(translator().0.network(), &options).unwrap();
    let cpu = Box::new(Cpu::new(program, &parameters, Level::detect(), Precision::F32).unwrap());
    assert!(refused(of_another, cpu).contains("network"));
}

/// The trainer returns the gradients that the caller sets, until the next mini-batch.
#[test]
fn gradients_may_be_set_and_frozen_parameters_have_none() {
    let model = tagger(1);
    let parameters = random(model.network(), 3);
    let options = TrainerOptions::new().frozen("embed").counts();
    let mut trainer = Trainer::with_options(model.clone(), parameters, options).unwrap();
    let Loss { loss, terms } =
        trainer.accumulate(&[sentence([1, 2, 1])], &[vec![Some(1), None, Some(0)]], 1.0).unwrap();
    assert!(loss > 0.0 && terms == 2);
    let gradients = trainer.gradients().unwrap();
    for (parameter, gradient) in model.network().parameters().iter().zip(&gradients.parameters) {
        let is_frozen = parameter.name.starts_with("embed");
        assert_eq!(*gradient == Gradient::None, is_frozen, "{}", parameter.name);
    }
    let statistics = trainer.statistics();
    assert!(statistics.counts.is_some() && trainer.report().is_some() && statistics.nodes > 0);
    let mut halved = gradients.clone();
    for gradient in &mut halved.parameters {
        if let Gradient::Whole(elements) | Gradient::Rows { elements, .. } = gradient {
            elements.iter_mut().for_each(|element| *element *= 0.5);
        }
    }
    trainer.set_gradients(halved.clone()).unwrap();
    assert!(trainer.gradients().unwrap() == halved && halved != gradients);
    trainer.clear_gradients();
    assert!(trainer.gradients().unwrap().squared_norm() == 0.0);
}

/// On a device, the steps of a wave run at once. So plans of gradients give each row a place of its
/// own, and batches are by depth.
#[test]
fn a_trainer_plans_for_the_lifetimes_of_its_backend() {
    let (loaded, (inputs, targets)) = examples(ModelName::LatticeLstm);
    let of = |lifetimes| {
        let (model, weights) = (loaded.model.clone(), &loaded.parameters);
        let options = TrainerOptions::new();
        let program = Trainer::<FolderModel>::program(model.network(), &options).unwrap();
        let cpu = Cpu::new(program.clone(), weights, Level::detect(), Precision::F32).unwrap();
        let arena = Arc::<AtomicUsize>::default();
        let largest = arena.clone();
        let before_run = move |parts: &[Part<'_>]| {
            let arenas = parts.iter().map(|part| part.plan.arena);
            largest.fetch_max(arenas.sum(), Ordering::Relaxed);
        };
        let backend = Observed { backend: Box::new(cpu), limits: None, lifetimes, before_run };
        let backend = Box::new(backend);
        let mut trainer =
            Trainer::with_backend(model, weights.clone(), program, backend, options).unwrap();
        trainer.forward(&inputs).unwrap();
        let loss = trainer.train(&inputs, &targets).unwrap().loss;
        let batches = trainer.statistics().batches;
        let weights: Vec<Vec<f32>> =
            trainer.parameters().unwrap().slices().into_iter().map(<[f32]>::to_vec).collect();
        ((loss, weights), arena.load(Ordering::Relaxed), batches)
    };
    let (reused, reused_arena, batches) = of(Lifetimes::Reuse);
    let (distinct, arena, by_depth) = of(Lifetimes::Distinct);
    assert_eq!(distinct, reused);
    assert!(arena > reused_arena && by_depth > batches, "{arena} {by_depth}");
}
