//! A warm engine allocates nothing for the calls of a mini-batch.

#[path = "it/fn_model.rs"]
mod fn_model;

use edbatch::models::{LstmNmt, Model, NmtSizes, SourceSentence, Stop};
use edbatch::{Engine, EngineOptions, Optimizer, Rows, Trainer, TrainerOptions};
use edbatch_graph::{Network, Shape};
use edbatch_testing::{CountingAllocator, allocations};
use fn_model::{chain_model, random, word_model};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Returns the number of allocations for a mini-batch by a warm engine, which has already run the
/// mini-batch three times.
fn warm<M: Model>(model: M, inputs: &[M::Input], tables: u64) -> usize {
    let parameters = random(model.network(), 3);
    let options = EngineOptions::new().fold_tables(tables);
    let mut engine = Engine::with_options(model, parameters, options).unwrap();
    let mut outputs: Vec<Rows> = Vec::new();
    for _ in 0..3 {
        engine.run_into(inputs, &mut outputs).unwrap();
    }
    allocations(|| engine.run_into(inputs, &mut outputs).unwrap())
}

/// A chain of words. Wiring it allocates nothing.
fn chain() -> impl Model<Input = Vec<u32>> {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(8))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let step = network.cell("step", state, |cell| {
        let x = cell.lookup("word", "embed", &[50, 8]);
        let [h] = cell.one("previous", state);
        let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[8, 8]));
        vec![(w.matmul(x) + u.matmul(h)).tanh()]
    });
    chain_model(network, step.unwrap(), start)
}

/// All inputs reuse the memory of one future, and the rows reuse the memory of earlier rows.
#[test]
fn allocations_without_awaits_do_not_grow_with_the_inputs() {
    let inputs: Vec<Vec<u32>> = (0..64).map(|i| (0..3 + i % 9).collect()).collect();
    for tables in [0, u64::MAX] {
        let few = warm(chain(), &inputs[..4], tables);
        let many = warm(chain(), &inputs, tables);
        // Lists of a round double as they grow: their allocations grow with the logarithm of the
        // number of inputs.
        assert!(few <= 16 && many <= few + 12, "{few} for 4 inputs, {many} for 64");
    }
}

/// After the first update, which allocates moments, an update allocates nothing, unless a snapshot
/// of the parameters still exists.
#[test]
fn updates_allocate_nothing() {
    let mut network = Network::new();
    let scores = network.record("scores", [("y", Shape::Vector(4))]).unwrap();
    let word = network.cell("word", scores, |cell| {
        let x = cell.lookup("word", "embed", &[50, 8]);
        let hidden = cell.parameter("w", &[8, 8]).matmul(x) + cell.parameter("b", &[8]);
        vec![cell.parameter("out", &[4, 8]).matmul(hidden.tanh())]
    });
    let model = word_model(network, word.unwrap());
    let parameters = random(model.network(), 3);
    let options = TrainerOptions::new().optimizer(Optimizer::adam(1e-3)).clip_norm(1.0);
    let mut trainer = Trainer::with_options(model, parameters, options).unwrap();
    trainer.accumulate(&[vec![1, 2, 1]], &[vec![Some(1), None, Some(2)]], 1.0).unwrap();
    let gradients = trainer.gradients().unwrap();
    let mut update = || {
        trainer.set_gradients(gradients.clone()).unwrap();
        allocations(|| trainer.update().unwrap())
    };
    assert!(update() > 0, "moments");
    assert_eq!([update(), update()], [0, 0]);
    let snapshot = trainer.parameters();
    trainer.set_gradients(gradients.clone()).unwrap();
    // For each of four parameters, the elements and their counted reference.
    assert_eq!(allocations(|| trainer.update().unwrap()), 8);
    drop(snapshot);
    trainer.set_gradients(gradients).unwrap();
    assert_eq!(allocations(|| trainer.update().unwrap()), 0);
}

/// A decoder allocates a future for every input, but nothing for a step.
#[test]
fn steps_of_a_decoder_allocate_nothing() {
    let sizes = NmtSizes { source: 50, target: 30, embed: 8, hidden: 8 };
    let sources = |steps: usize| -> Vec<SourceSentence> {
        vec![SourceSentence { words: vec![3, 1, 4], stop: Stop::After(steps) }; 16]
    };
    for tables in [0, u64::MAX] {
        let short = warm(LstmNmt::new(sizes).unwrap(), &sources(20), tables);
        let long = warm(LstmNmt::new(sizes).unwrap(), &sources(60), tables);
        assert_eq!(long, short, "60 steps against 20");
    }
}
