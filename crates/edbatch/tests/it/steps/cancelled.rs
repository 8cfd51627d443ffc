//! Steps of training that end early: `Trainer::set_still_wanted`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch::models::{CallList, CallLists, Targets};
use edbatch::{Rows, TrainError, Trainer, TrainerOptions};
use edbatch_graph::{Network, Shape};
use edbatch_runtime::StillWanted;

use crate::fn_model::random;

/// Returns a trainer of a network with a table and dropout.
fn trainer(threads: usize) -> (Trainer<CallLists>, Arc<Network>) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(5))]).unwrap();
    network.initial(state, &["start"]).unwrap();
    let step = network.cell("step", state, |cell| {
        let x = cell.lookup("word", "embed", &[7, 5]).dropout(0.5);
        let [h] = cell.one("previous", state);
        vec![(cell.parameter("w", &[5, 5]).matmul(h) + x).tanh()]
    });
    step.unwrap();
    let network = Arc::new(network);
    let parameters = random(&network, 1);
    let options = TrainerOptions::new().threads(threads).seed(5);
    let model = CallLists::new(network.clone());
    (Trainer::with_options(model, parameters, options).unwrap(), network)
}

/// Returns chains of these lengths, whose ends are emitted.
fn chains(network: &Arc<Network>, lengths: &[u32]) -> (Vec<CallList>, Vec<Targets>) {
    let step = edbatch_graph::Kind::new(0);
    let chain = |&length: &u32| {
        let mut list = CallList::new(network.clone());
        let mut last = network.initial_value(0).unwrap();
        for word in 0..length {
            last = list.call(step, &[(word * length) % 7], &[last]).unwrap();
        }
        list.emit(last).unwrap();
        list
    };
    let inputs: Vec<_> = lengths.iter().map(chain).collect();
    let targets = vec![vec![Some(2)]; inputs.len()];
    (inputs, targets)
}

/// Lets the trainer go on for a number of questions. Returns the count of questions.
fn stop_after(trainer: &mut Trainer<CallLists>, questions: usize) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let ask = move || count.fetch_add(1, Ordering::SeqCst) < questions;
    trainer.set_still_wanted(Some(StillWanted::new(ask)));
    asked
}

/// Returns the gradients of `outputs`: ones.
fn ones(outputs: &[Rows]) -> Vec<Rows> {
    let of_input = |rows: &Rows| {
        let mut ones = Rows::new();
        rows.iter().for_each(|row| ones.push(&vec![1.0; row.len()]));
        ones
    };
    outputs.iter().map(of_input).collect()
}

#[test]
fn a_step_that_ends_early_changes_nothing() {
    for threads in [1, 2] {
        let (mut expected, network) = trainer(threads);
        let (inputs, targets) = chains(&network, &[3, 40, 1, 17, 17, 80, 2, 9]);
        let (mut trainer, _) = trainer(threads);
        for _ in 0..2 {
            expected.train(&inputs, &targets).unwrap();
            let before = trainer.state().unwrap();
            let mut cancelled = 0;
            for questions in 0.. {
                stop_after(&mut trainer, questions);
                match trainer.train(&inputs, &targets) {
                    Err(error) => assert!(matches!(error, TrainError::Cancelled), "{error}"),
                    Ok(_) => break,
                }
                assert!(trainer.state().unwrap() == before, "after {questions} questions");
                trainer.set_still_wanted(None);
                assert_eq!(trainer.squared_norm().unwrap(), 0.0, "gradients are cleared");
                cancelled += 1;
            }
            assert!(cancelled > inputs.len(), "cancelled {cancelled} times");
            assert!(trainer.state().unwrap() == expected.state().unwrap(), "{threads} threads");
        }
    }
}

#[test]
fn every_way_to_run_inputs_ends_early() {
    let (mut trainer, network) = trainer(1);
    let (inputs, targets) = chains(&network, &[50, 3]);
    let cancelled = |error: TrainError| assert!(matches!(error, TrainError::Cancelled), "{error}");
    for questions in 0..4 {
        stop_after(&mut trainer, questions);
        cancelled(trainer.accumulate(&inputs, &targets, 1.0).unwrap_err());
        stop_after(&mut trainer, questions);
        cancelled(trainer.forward(&inputs).unwrap_err());
        let nothing = trainer.backward(&[Rows::new(), Rows::new()]).unwrap_err();
        assert!(matches!(nothing, TrainError::NothingForward), "{nothing}");
    }
    trainer.set_still_wanted(None);
    trainer.accumulate(&inputs, &targets, 1.0).unwrap();
    let expected = trainer.gradients().unwrap();
    // A forward pass that ends early keeps the gradients; a backward pass clears them.
    stop_after(&mut trainer, 3);
    cancelled(trainer.forward(&inputs).unwrap_err());
    assert_eq!(trainer.gradients().unwrap(), expected);
    for questions in 0..4 {
        trainer.set_still_wanted(None);
        let outputs = trainer.forward(&inputs).unwrap();
        stop_after(&mut trainer, questions);
        cancelled(trainer.backward(&ones(&outputs)).unwrap_err());
        trainer.set_still_wanted(None);
        assert_eq!(trainer.squared_norm().unwrap(), 0.0);
    }
}

/// A single input may have millions of calls, so a pass through it asks many times.
#[test]
fn one_large_graph_is_asked_about_throughout() {
    let (mut trainer, network) = trainer(1);
    const CALLS: u32 = 4000;
    let (inputs, targets) = chains(&network, &[CALLS]);
    let asked = stop_after(&mut trainer, usize::MAX);
    trainer.train(&inputs, &targets).unwrap();
    let asked = asked.load(Ordering::SeqCst);
    // Forward and back, at least once for 16 batches of one call.
    assert!(asked >= 2 * CALLS as usize / 16, "asked {asked} times");
    // Sums are asked about too: for each parameter.
    let asked = stop_after(&mut trainer, asked - 1);
    let error = trainer.train(&inputs, &targets).unwrap_err();
    assert!(matches!(error, TrainError::Cancelled), "{error}, asked {asked:?} times");
}
