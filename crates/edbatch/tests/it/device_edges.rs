//! Trainers on an emulated device: tied and frozen parameters, and what is not finite.

use edbatch::models::{Build, Model, Targets};
use edbatch::{TrainError, TrainerOptions};
use edbatch_graph::{Network, Shape};
use edbatch_runtime::Parameters;

use crate::device_training::{Subject, updates};
use crate::fn_model::{FnModel, random, word_model};
use crate::small::{changed, sentence, tagger};

/// Two cells look up one table, which is also a factor; a parameter is transposed, and another is
/// frozen.
fn tied() -> impl Model<Input = Vec<u32>> + Clone {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(6))]).unwrap();
    let start = network.initial(state, &["start"]).unwrap();
    let mut cell = |name: &str, frozen: &str| {
        network.cell(name, state, |cell| {
            let x = cell.lookup("word", "embed", &[6, 6]);
            let [h] = cell.one("state", state);
            let [w, still, embed] = ["w", frozen, "embed"].map(|it| cell.parameter(it, &[6, 6]));
            vec![(w.transpose().matmul(x) + still.matmul(h) + embed.matmul(w.matmul(h))).tanh()]
        })
    };
    let cells = [cell("even", "frozen.a").unwrap(), cell("odd", "frozen.b").unwrap()];
    FnModel::new(network, move |build: &Build<'_>, words: &Vec<u32>| {
        let mut last = start;
        for &word in words {
            last = build.call(cells[word as usize % 2], &[word], &[last])?;
            build.emit(last);
        }
        Ok(())
    })
}

#[test]
fn tied_and_frozen_parameters_have_the_bits_of_the_cpu() {
    let model = tied();
    let parameters = random(model.network(), 2);
    let options = || {
        let momentum = "sgd:momentum=0.9,nesterov=true".parse().unwrap();
        TrainerOptions::new().frozen("frozen").optimizer(momentum).clip_value(0.5)
    };
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let inputs: Vec<Vec<u32>> =
        (0..12).map(|n| (0..=n % 5).map(|i| (n + i) % 6).collect()).collect();
    let targets: Vec<Targets> =
        inputs.iter().map(|words| words.iter().map(|&word| Some(5 - word)).collect()).collect();
    for (threads, size) in [(1, 12), (3, 12), (1, 5)] {
        let all = (&inputs[..], &targets[..]);
        subject.compare(
            || options().threads(threads),
            &format!("{threads} threads, by {size}"),
            |trainer| {
                let done = updates(trainer, all, size);
                let frozen = |all: &Parameters| all.named("frozen.a").cloned();
                assert!(frozen(&trainer.parameters().unwrap()) == frozen(&parameters));
                done
            },
        );
    }
}

/// A loss that is not finite names the input and the call as on the CPU, and changes nothing. The
/// next step has the CPU's bits.
#[test]
fn steps_that_fail_change_nothing() {
    let model = tagger(1);
    // The last word's embedding.
    let embed = model.network().parameters().iter().position(|it| it.dims == [9, 4]).unwrap();
    let parameters = changed(model.network(), &random(model.network(), 3), |values| {
        values[embed][8 * 4 + 2] = f32::NAN;
    });
    let new = TrainerOptions::new;
    let Some(subject) = Subject::new(&model, &parameters, &new()) else { return };
    let good = ([sentence([1, 2])], [vec![Some(1), Some(2)]]);
    let bad = [sentence([1, 2]), sentence([1, 8])];
    subject.compare(new, "", |trainer| {
        trainer.train(&good.0, &good.1).unwrap();
        let before = trainer.state().unwrap();
        let error = trainer.train(&bad, &[vec![Some(0); 2], vec![Some(0); 2]]).unwrap_err();
        assert!(matches!(error, TrainError::NotFiniteLoss { input: 1, call: Some(_) }), "{error}");
        let target = trainer.train(&bad, &[vec![Some(0); 2], vec![Some(3); 2]]).unwrap_err();
        assert!(matches!(target, TrainError::Target { input: 1, target: 3, .. }), "{target}");
        assert!(trainer.state().unwrap() == before && trainer.updates() == 1);
        trainer.train(&good.0, &good.1).unwrap();
        let report = trainer.train(&[], &[]).unwrap();
        assert_eq!((report.loss, report.terms, report.gradient_norm), (0.0, 0, 0.0));
        (error.to_string(), trainer.state().unwrap())
    });
}

/// A gradient that is not finite names its parameter as on the CPU, and changes nothing.
#[test]
fn gradients_that_are_not_finite_change_nothing() {
    let mut network = Network::new();
    let scores = network.record("scores", [("y", Shape::Vector(3))]).unwrap();
    let cell = network.cell("cell", scores, |cell| {
        let x = cell.lookup("word", "table", &[4, 3]);
        let [outer, inner] = ["outer", "inner"].map(|name| cell.parameter(name, &[3, 3]));
        vec![outer.matmul(inner.matmul(x))]
    });
    let model = word_model(network, cell.unwrap());
    // The scores are finite, but their derivatives by the table are not.
    let values = model.network().parameters().iter().map(|parameter| {
        let value = if parameter.name == "table" { 1e-37 } else { 1e20 };
        (0..parameter.elements()).map(|i| value * (1.0 + i as f32 * 0.1)).collect()
    });
    let parameters = Parameters::from_values(model.network(), values.collect()).unwrap();
    let options = || TrainerOptions::new().clip_norm(1.0);
    let Some(subject) = Subject::new(&model, &parameters, &options()) else { return };
    let (inputs, targets) = ([vec![0, 2], vec![1]], [vec![Some(1), None], vec![Some(2)]]);
    let errors = subject.compare(options, "", |trainer| {
        let before = trainer.state().unwrap();
        let of_train = trainer.train(&inputs, &targets).unwrap_err().to_string();
        trainer.accumulate(&inputs, &targets, 0.25).unwrap();
        let of_gradients = trainer.gradients().unwrap_err().to_string();
        let of_update = trainer.update().unwrap_err().to_string();
        assert!(trainer.state().unwrap() == before && trainer.updates() == 0);
        [of_train, of_gradients, of_update]
    });
    assert!(errors[0].starts_with("the gradient of table is not finite"), "{errors:?}");
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}
