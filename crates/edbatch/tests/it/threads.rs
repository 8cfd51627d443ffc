//! Results are bit-identical for any number of threads. Threads share parts of large mini-batches,
//! tiles of large batches, columns of small batches, and hoisted rows.

use std::sync::Arc;

use edbatch::models::*;
use edbatch::{
    Engine, EngineError, EngineOptions, InputError, Rows, RunError, Trainer, TrainerOptions,
};
use edbatch_graph::{Network, Shape};
use edbatch_runtime::{Parameters, ThreadPool};

use crate::fn_model::random;
use crate::small;

fn on_threads<M: Model>(model: M, parameters: Parameters, threads: usize) -> Engine<M> {
    Engine::with_options(model, parameters, EngineOptions::new().threads(threads)).unwrap()
}

/// Checks that all numbers of threads give the same bits.
fn check<M: Model + Clone + Send>(model: M, inputs: &[M::Input]) {
    let parameters = random(model.network(), 5);
    let run = |threads: usize| -> Vec<Rows> {
        let mut engine = on_threads(model.clone(), parameters.clone(), threads);
        let first = engine.run(inputs).unwrap();
        assert_eq!(engine.run(inputs).unwrap(), first, "{threads} threads, again");
        let mut another = engine.fork();
        let other = std::thread::scope(|scope| {
            // Two engines run at the same time with the same weights.
            let other = scope.spawn(|| another.run(inputs).unwrap());
            assert_eq!(engine.run(inputs).unwrap(), first);
            other.join().unwrap()
        });
        assert_eq!(other, first, "{threads} threads, another engine");
        first
    };
    let expected = run(1);
    for threads in [2, 3, 5] {
        assert!(run(threads) == expected, "{threads} threads");
        // A stream is not divided into parts: threads share each batch.
        let mut engine = on_threads(model.clone(), parameters.clone(), threads);
        let mut streamed = vec![Rows::new(); inputs.len()];
        let done = |input: usize, rows: Result<&mut Rows, InputError>| {
            streamed[input].clone_from(rows.unwrap());
        };
        engine.stream(inputs.len(), inputs, done).unwrap();
        assert!(streamed == expected, "{threads} threads, sharing batches");
    }
}

fn tagger() -> (BiLstmTagger, Parameters) {
    let model = small::tagger(2);
    let parameters = random(model.network(), 3);
    (model, parameters)
}

fn sentence(words: usize) -> edbatch_datasets::Sentence<u32> {
    small::sentence((0..words as u32).map(|word| word % 9).collect::<Vec<_>>())
}

/// Every part has its own graph and batches. The numbers of inputs and nodes do not depend on the
/// threads.
#[test]
fn counts_of_parts_are_summed() {
    let (model, parameters) = tagger();
    let inputs: Vec<_> = (1..=12).map(sentence).collect();
    let counted = |threads| {
        let options = EngineOptions::new().threads(threads).counts();
        let mut engine = Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
        engine.run(&inputs).unwrap();
        // Too few inputs to divide.
        engine.run(&inputs[..3]).unwrap();
        let nodes: Vec<u64> =
            engine.report().unwrap().kinds.iter().map(|kind| kind.nodes).collect();
        (*engine.statistics(), nodes)
    };
    let ((one, kinds), (three, kinds_of_three)) = (counted(1), counted(3));
    assert_eq!((one.instances, one.nodes, one.graphs), (15, three.nodes, 2));
    assert_eq!((three.instances, three.graphs, kinds_of_three), (15, 4, kinds));
    // A single part takes the steps of its longest sentence. Three parts need more batches.
    assert!(three.batches > one.batches, "{} {}", three.batches, one.batches);
    assert_eq!(three.weight_bytes, one.weight_bytes);
    assert!(three.counts.unwrap().bound > one.counts.unwrap().bound);
}

/// The error gives the index of the first invalid input in the whole mini-batch.
#[test]
fn errors_in_parts_name_the_first_invalid_input() {
    let (model, parameters) = tagger();
    let mut inputs: Vec<_> = (0..16).map(|_| sentence(3)).collect();
    let mut engine = on_threads(model, parameters, 2);
    let expected = engine.run(&inputs).unwrap();
    for invalid in [&[13, 15][..], &[5, 9], &[0]] {
        invalid.iter().for_each(|&at| inputs[at].words[1] = 9);
        let error = engine.run(&inputs).unwrap_err();
        assert!(
            matches!(error, RunError::Input { instance, .. } if instance == invalid[0]),
            "{error}"
        );
        invalid.iter().for_each(|&at| inputs[at] = sentence(3));
    }
    assert_eq!(engine.run(&inputs).unwrap(), expected);
}

/// A tagger that panics on sentences of seven words.
struct PanicsOnSeven(BiLstmTagger);

impl Model for PanicsOnSeven {
    type Input = edbatch_datasets::Sentence<u32>;

    fn network(&self) -> &std::sync::Arc<edbatch_graph::Network> {
        self.0.network()
    }

    async fn build(&self, build: &Build<'_>, input: &Self::Input) -> Result<(), BuildError> {
        assert_ne!(input.len(), 7, "seven words");
        self.0.build(build, input).await
    }
}

#[test]
fn a_panic_in_any_part_reaches_the_caller_and_the_engine_remains_usable() {
    let (model, parameters) = tagger();
    let mut engine = on_threads(PanicsOnSeven(model), parameters, 2);
    let mut inputs: Vec<_> = (0..16).map(|_| sentence(3)).collect();
    let expected = engine.run(&inputs).unwrap();
    for at in [0, 15, 7] {
        inputs[at] = sentence(7);
        let run = std::panic::AssertUnwindSafe(|| engine.run(&inputs));
        let message = std::panic::catch_unwind(run).unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("seven words"), "{message}");
        inputs[at] = sentence(3);
        assert_eq!(engine.run(&inputs).unwrap(), expected);
    }
}

#[test]
fn all_threads_use_the_given_policy() {
    let (model, parameters) = tagger();
    let inputs: Vec<_> = (1..=8).map(sentence).collect();
    let batches = |parts: bool| {
        let depth = Box::new(edbatch_policy::Depth::new());
        let options = EngineOptions::new().threads(2).policy(depth);
        let mut engine = Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
        if parts {
            engine.run(&inputs).unwrap();
            return engine.statistics().batches;
        }
        let mut one = engine.fork();
        for part in engine.parts(&inputs) {
            one.run(&inputs[part]).unwrap();
        }
        one.statistics().batches
    };
    assert_eq!(batches(true), batches(false));
    let mut critical = on_threads(model.clone(), parameters.clone(), 2);
    critical.run(&inputs).unwrap();
    assert!(critical.statistics().batches < batches(true));
}

#[test]
fn trees_of_all_sizes() {
    let trees = small::random_trees(24, 90, 7);
    let sizes = TreeSizes { vocabulary: 90, embed: 40, hidden: 72, classes: 5 };
    check(TreeLstm::new(sizes).unwrap(), &trees);
    check(MvRnn::new(MvRnnSizes { vocabulary: 90, hidden: 20, classes: 5 }).unwrap(), &trees);
}

/// Even on a single thread, matrices larger than the cache run in parts, except in a stream.
#[test]
fn matrices_run_in_parts_that_fit_the_cache() {
    let trees = small::random_trees(24, 2, 7);
    let model = MvRnn::new(MvRnnSizes { vocabulary: 2, hidden: 128, classes: 5 }).unwrap();
    let parameters = random(model.network(), 7);
    let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
    let outputs = engine.run(&trees).unwrap();
    let nodes: usize = trees.iter().map(edbatch_datasets::Tree::len).sum();
    let parts = engine.parts(&trees).len();
    // A node has a matrix of 64 KiB and a vector; a part has at most 8 MiB.
    assert_eq!(parts, (nodes * 4 * (128 * 128 + 128)).div_ceil(8 << 20));
    assert!(parts > 2 && engine.statistics().graphs == parts as u64, "{:?}", engine.statistics());
    let mut whole = Engine::new(model, parameters).unwrap();
    let mut streamed = Vec::new();
    whole.stream(24, trees, |_, rows| streamed.push(std::mem::take(rows.unwrap()))).unwrap();
    assert_eq!((streamed, whole.statistics().graphs), (outputs, 1));
    assert!(engine.statistics().arena_bytes < whole.statistics().arena_bytes / 2);
}

/// On a single thread, a part has at most 64 inputs, unless the caller set a policy.
#[test]
fn large_mini_batches_run_in_parts() {
    let (model, parameters) = tagger();
    let inputs: Vec<_> = (0..150).map(|i| sentence(1 + i % 9)).collect();
    let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
    let parts = engine.parts(&inputs);
    assert_eq!(parts.len(), 3);
    assert_eq!(engine.parts(&inputs[..64]).len(), 1);
    let outputs = engine.run(&inputs).unwrap();
    assert_eq!(engine.statistics().graphs, 3);
    // Each part has the batches of a mini-batch of its own.
    let mut one = engine.fork();
    for part in parts {
        assert_eq!(one.run(&inputs[part.clone()]).unwrap(), outputs[part]);
    }
    let (engine, one) = (engine.statistics(), one.statistics());
    assert_eq!((one.batches, one.graphs), (engine.batches, engine.graphs));
    let options = EngineOptions::new().policy(Box::new(edbatch_policy::Critical::new()));
    let mut whole = Engine::with_options(model, parameters, options).unwrap();
    for _ in 0..2 {
        assert_eq!(whole.parts(&inputs).len(), 1);
        assert_eq!(whole.run(&inputs).unwrap(), outputs);
        assert_eq!(whole.statistics().graphs, 1);
        // A fork has the policy of its engine.
        whole = whole.fork();
    }
}

/// Each part reads all weights again, so a mini-batch is not divided if a cell has many.
#[test]
fn large_weights_are_not_divided_on_one_thread() {
    let sizes = NmtSizes { source: 9, target: 1025, embed: 8, hidden: 1024 };
    let model = LstmNmt::new(sizes).unwrap();
    let parameters = random(model.network(), 3);
    let source = SourceSentence { words: vec![7; 2], stop: Stop::After(2) };
    let inputs = vec![source; 200];
    let engine = |threads| on_threads(model.clone(), parameters.clone(), threads);
    assert_eq!(engine(1).parts(&inputs).len(), 1);
    assert_eq!(engine(2).parts(&inputs).len(), 2);
}

/// The scores of a large vocabulary do not count for the size of a part.
#[test]
fn decoders_are_not_divided_on_one_thread() {
    let sizes = NmtSizes { source: 50, target: 40_000, embed: 4, hidden: 4 };
    let source = SourceSentence { words: vec![7; 20], stop: Stop::After(20) };
    let model = LstmNmt::new(sizes).unwrap();
    let parameters = random(model.network(), 3);
    let engine = Engine::new(model, parameters).unwrap();
    assert_eq!(engine.parts(&vec![source; 64]).len(), 1);
}

/// Mini-batches that are not divided reuse the memory of a part.
#[test]
fn divided_and_undivided_mini_batches_share_memory() {
    let (model, parameters) = tagger();
    let inputs: Vec<_> = (1..=12).map(sentence).collect();
    let mut engine = on_threads(model, parameters, 3);
    engine.run(&inputs).unwrap();
    let parts = engine.statistics().arena_bytes;
    engine.run(&inputs[11..]).unwrap();
    assert!(engine.statistics().arena_bytes <= 2 * parts, "{:?}", engine.statistics());
}

#[test]
fn incompatible_options_are_rejected() {
    let (model, parameters) = tagger();
    let refused =
        |options| Engine::with_options(model.clone(), parameters.clone(), options).err().unwrap();
    for options in [
        EngineOptions::new().threads(2).memory_limit(1 << 30),
        EngineOptions::new().memory_limit(1 << 30).threads(2),
    ] {
        let error = refused(options);
        assert!(matches!(error, EngineError::MemoryLimitWithThreads { threads: 2 }));
        assert!(error.to_string().contains("an engine per thread"), "{error}");
    }
    // In either order, neither the pool nor the number is dropped.
    let pool = ThreadPool::new(2);
    for options in [
        EngineOptions::new().threads(3).pool(pool.clone()),
        EngineOptions::new().pool(pool.clone()).threads(3),
    ] {
        let error = refused(options);
        assert!(matches!(error, EngineError::ThreadsOfPool { threads: 3, pool: 2 }), "{error}");
    }
    let options = EngineOptions::new().threads(2).pool(pool);
    assert!(Engine::with_options(model.clone(), parameters.clone(), options).is_ok());
    for threads in [0, 1001] {
        let error = refused(EngineOptions::new().threads(threads));
        assert_eq!(error.to_string(), format!("expected 1 to 1000 threads, got {threads}"));
    }
}

/// An engine has one pool for parts, tiles and columns.
#[test]
fn an_engine_starts_its_threads_once() {
    // Other tests of a process start and end threads too.
    if !edbatch_testing::runs_alone() {
        return;
    }
    let (model, parameters) = tagger();
    let threads = || std::fs::read_dir("/proc/self/task").map(Iterator::count).ok();
    let Some(before) = threads() else { return };
    let mut engine = on_threads(model, parameters, 8);
    let inputs: Vec<_> = (0..64).map(|_| sentence(5)).collect();
    engine.run(&inputs).unwrap();
    engine.run(&inputs[..1]).unwrap();
    let started = threads().unwrap() as isize - before as isize;
    assert_eq!(started, 7, "helpers");
    drop(engine);
}

/// The output layer is wide enough for threads to share its columns even for a single row.
#[test]
fn decoders_with_few_rows() {
    let sizes = NmtSizes { source: 50, target: 6000, embed: 24, hidden: 64 };
    let sources = [(3, 5), (9, 2), (1, 8)].map(|(words, steps)| SourceSentence {
        words: (0..words).map(|i| i * 7 % 50).collect(),
        stop: Stop::After(steps),
    });
    check(LstmNmt::new(sizes).unwrap(), &sources);
    check(LstmNmt::new(sizes).unwrap(), &sources[..1]);
    let many: Vec<_> = sources.iter().cycle().take(21).cloned().collect();
    check(LstmNmt::new(sizes).unwrap(), &many);
}

/// An input that gives 5,000 rows of 64 elements, and emits a call for each.
fn many_rows() -> (CallLists, CallList) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(64))]).unwrap();
    let cell = network.cell("node", state, |cell| {
        let [h] = cell.one("h", state);
        vec![cell.parameter("w", &[64, 64]).matmul(h).tanh()]
    });
    let (cell, network) = (cell.unwrap(), Arc::new(network));
    let mut list = CallList::new(network.clone());
    for row in 0..5_000 {
        let elements: Vec<f32> = (0..64).map(|i| ((row * 64 + i) % 97) as f32 / 97.0).collect();
        let given = list.give(state, &elements).unwrap();
        let node = list.call(cell, &[], &[given]).unwrap();
        list.emit(node).unwrap();
    }
    (CallLists::new(network), list)
}

#[test]
fn threads_that_share_copies_of_many_rows_give_the_same_bits() {
    let (model, list) = many_rows();
    let parameters = random(model.network(), 5);
    let lists = [list];
    let run = |threads| {
        let mut engine = on_threads(model.clone(), parameters.clone(), threads);
        let options = TrainerOptions::new().threads(threads).given_gradients();
        let mut trainer =
            Trainer::with_options(model.clone(), parameters.clone(), options).unwrap();
        let mut outputs = Vec::new();
        // The second run reuses memory.
        (0..2).for_each(|_| engine.run_into(&lists, &mut outputs).unwrap());
        let rows = trainer.forward(&lists).unwrap();
        assert!(rows == outputs, "{threads} threads: a trainer's rows are an engine's");
        let given = trainer.backward(&rows).unwrap();
        (outputs, given, trainer.gradients().unwrap())
    };
    let expected = run(1);
    assert_eq!((expected.0[0].len(), expected.0[0].elements().len()), (5_000, 5_000 * 64));
    for threads in [2, 3] {
        assert!(run(threads) == expected, "{threads} threads");
    }
}

/// Only one input without empty rows has its gradients read in place.
#[test]
fn gradients_of_empty_rows_are_zeros() {
    let (model, list) = many_rows();
    let parameters = random(model.network(), 5);
    let gradients = |empty: &[f32]| {
        let mut trainer = Trainer::new(model.clone(), parameters.clone()).unwrap();
        let mut rows = Rows::new();
        let emitted = trainer.forward(std::slice::from_ref(&list)).unwrap();
        for (index, row) in emitted[0].iter().enumerate() {
            rows.push(if index % 3 == 0 { empty } else { row });
        }
        trainer.backward(&[rows]).unwrap();
        trainer.gradients().unwrap()
    };
    assert!(gradients(&[]) == gradients(&[0.0; 64]));
}
