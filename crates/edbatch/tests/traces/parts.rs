//! Parts of a mini-batch are on the tracks of the threads that run them.

use std::collections::BTreeSet;
use std::sync::Barrier;

use edbatch::models::{Build, Model};
use edbatch::{ChromeTrace, Engine, EngineOptions};
use edbatch_graph::{Network, Shape};

use crate::fn_model::{FnModel, random};

/// A chain of three steps. The first and the last input of the mini-batch wait for each other,
/// which forces two threads to work at the same time.
fn rendezvous(last: usize) -> impl Model<Input = usize> {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(8))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let step = network.cell("step", state, |cell| {
        let [h] = cell.one("previous", state);
        vec![cell.parameter("u", &[8, 8]).matmul(h).tanh()]
    });
    let (step, barrier) = (step.unwrap(), Barrier::new(2));
    FnModel::new(network, move |build: &Build<'_>, input: &usize| {
        if *input == 0 || *input == last {
            barrier.wait();
        }
        let mut state = start;
        for _ in 0..3 {
            state = build.call(step, &[], &[state])?;
        }
        build.emit(state);
        Ok(())
    })
}

#[test]
fn parts_are_slices_on_the_threads_that_run_them() {
    let trace = ChromeTrace::new(Vec::new());
    tracing::subscriber::set_global_default(trace.clone()).unwrap();
    let inputs: Vec<usize> = (0..16).collect();
    let model = rendezvous(15);
    let parameters = random(model.network(), 3);
    let options = EngineOptions::new().threads(2);
    let mut engine = Engine::with_options(model, parameters, options).unwrap();
    assert_eq!(engine.parts(&inputs).len(), 2);
    engine.run(&inputs).unwrap();

    let json: serde_json::Value = serde_json::from_slice(&trace.finish().unwrap()).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let of = |kind: &'static str| events.iter().filter(move |event| event["cat"] == kind);
    assert_eq!(of("mini-batch").count(), 1);
    assert_eq!(of("mini-batch").next().unwrap()["args"]["inputs"], 16);
    let firsts: BTreeSet<_> = of("part").map(|part| part["args"]["first"].as_u64()).collect();
    assert_eq!(firsts, [Some(0), Some(8)].into());
    let threads =
        |kind: &'static str| of(kind).map(|slice| slice["tid"].as_u64()).collect::<BTreeSet<_>>();
    assert_eq!((threads("part").len(), threads("batch")), (2, threads("part")));
    assert_eq!(of("batch").count() as u64, engine.statistics().batches);
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    let helper = names.filter(|event| event["args"]["name"] == "helper 1");
    assert_eq!(helper.count(), 1);
}
