//! A warm engine allocates nothing for the calls of a mini-batch.

#[path = "it/fn_model.rs"]
mod fn_model;

use edbatch::models::{CallLists, LstmNmt, Model, NmtSizes, SourceSentence, Stop};
use edbatch::{
    Engine, EngineOptions, Handle, Optimizer, Rows, RunError, Session, SessionCalls, SessionError,
    SessionOptions, Trainer, TrainerOptions,
};
use std::collections::VecDeque;
use std::sync::Arc;

use edbatch_graph::{CallErrorReason, Kind, Network, RecordId, Shape};
use edbatch_runtime::BackendError;
use edbatch_testing::{CountingAllocator, allocations, with_max_allocation};
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
    let snapshot = trainer.parameters().unwrap();
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

/// A session of clauses: a cell with a table and any number of parents, and a cell of scores.
fn clauses(threads: usize) -> Session {
    let mut network = Network::new();
    let clause = network.record("clause", [("h", Shape::Vector(8))]).unwrap();
    let score = network.record("score", [("y", Shape::Vector(1))]).unwrap();
    network.initial(clause, &["axiom"]).unwrap();
    let infer = network.cell("infer", clause, |cell| {
        let x = cell.lookup("rule", "rules", &[20, 8]);
        let [parents] = cell.many("parents", clause).sum();
        vec![(x + cell.parameter("w", &[8, 8]).matmul(parents)).tanh()]
    });
    let scored = network.cell("score", score, |cell| {
        let [h] = cell.one("clause", clause);
        vec![cell.parameter("out", &[1, 8]).matmul(h)]
    });
    assert_eq!((infer, scored), (Ok(Kind(0)), Ok(Kind(1))));
    let network = Arc::new(network);
    let parameters = random(&network, 3);
    let options = EngineOptions::new().threads(threads);
    let engine = Engine::with_options(CallLists::new(network), parameters, options).unwrap();
    engine.session(SessionOptions::new()).unwrap()
}

/// Adds calls, runs, fetches and releases. Keeps the number of live clauses.
fn wave(session: &mut Session, live: &mut VecDeque<Handle>, lists: &mut Lists) {
    let Lists { made, scores, elements, operands } = lists;
    made.clear();
    scores.clear();
    elements.clear();
    operands.clear();
    for rule in 0..30 {
        let parents = [live[rule as usize], live[2 * rule as usize]];
        made.push(session.call(Kind(0), &[rule % 20], &parents).unwrap());
        operands.push(made[rule as usize].to_bits());
    }
    made.push(session.give(RecordId(0), &[0.5; 8]).unwrap());
    let calls = SessionCalls { cells: &[Kind(1); 30], operands, offsets: &OFFSETS };
    session.calls(calls, scores).unwrap();
    // Half of the released values are read by pending calls.
    for _ in 0..31 {
        session.release(&[live.pop_front().unwrap()]).unwrap();
    }
    session.run().unwrap();
    session.fetch(scores, elements).unwrap();
    session.release(scores).unwrap();
    live.extend(made.iter());
}

/// The end of each of 30 calls with one operand.
const OFFSETS: [u32; 31] = {
    let mut offsets = [0; 31];
    let mut call = 0;
    while call < 31 {
        offsets[call] = call as u32;
        call += 1;
    }
    offsets
};

#[derive(Default)]
struct Lists {
    made: Vec<Handle>,
    scores: Vec<Handle>,
    elements: Vec<f32>,
    operands: Vec<i64>,
}

#[test]
fn a_session_in_a_steady_state_allocates_nothing() {
    for threads in [1, 2] {
        let (mut session, mut lists) = (clauses(threads), Lists::default());
        let first = |_| session.call(Kind(0), &[1], &[Handle::initial(0)]).unwrap();
        let mut live: VecDeque<Handle> = (0..500).map(first).collect();
        session.run().unwrap();
        for _ in 0..40 {
            wave(&mut session, &mut live, &mut lists);
        }
        let held = session.statistics().held_bytes;
        let count = allocations(|| {
            for _ in 0..100 {
                wave(&mut session, &mut live, &mut lists);
            }
        });
        assert_eq!(count, 0, "{threads} threads");
        assert_eq!((session.statistics().held_bytes, session.statistics().stored), (held, 500));
    }
}

/// Returns true for an error of memory that could not be allocated.
fn is_memory(error: &SessionError) -> bool {
    match error {
        SessionError::Call(error) | SessionError::CallOf { error, .. } => {
            matches!(error.reason, CallErrorReason::Memory { .. })
        }
        SessionError::Run(RunError::Backend(BackendError::Memory { .. })) => true,
        _ => false,
    }
}

/// Does `work` with failing allocations, and again without them if it fails. A failure changes
/// nothing.
fn retry<T>(
    session: &mut Session,
    max: usize,
    failed: &mut usize,
    mut work: impl FnMut(&mut Session) -> Result<T, SessionError>,
) -> T {
    let before = session.statistics();
    match with_max_allocation(max, || work(session)) {
        Ok(done) => done,
        Err(error) => {
            assert!(is_memory(&error), "{error}");
            let after = session.statistics();
            assert_eq!(
                (after.stored, after.pending, after.calls),
                (before.stored, before.pending, before.calls)
            );
            *failed += 1;
            work(session).unwrap()
        }
    }
}

#[test]
fn failed_allocations_are_errors_after_which_a_session_goes_on() {
    let mut expected = None;
    for max in [usize::MAX, 64, 200, 1_000, 5_000, 30_000, 200_000] {
        let (mut session, mut failed) = (clauses(1), 0);
        let mut all = vec![Handle::initial(0)];
        for round in 0..12 {
            for call in 0..3 << round.min(8) {
                let parents = [all[all.len() / 2], all[all.len() - 1]];
                let rows = [call % 20];
                all.push(retry(&mut session, max, &mut failed, |session| {
                    session.call(Kind(0), &rows, &parents)
                }));
            }
            all.push(retry(&mut session, max, &mut failed, |session| {
                session.give(RecordId(0), &[0.25; 8])
            }));
            let operands: Vec<i64> = all[all.len() - 3..].iter().map(|h| h.to_bits()).collect();
            let calls =
                SessionCalls { cells: &[Kind(1); 3], operands: &operands, offsets: &OFFSETS[..4] };
            let scores = retry(&mut session, max, &mut failed, |session| {
                let mut scores = Vec::new();
                session.calls(calls, &mut scores).map(|()| scores)
            });
            retry(&mut session, max, &mut failed, Session::run);
            // Releasing needs no memory at all.
            with_max_allocation(0, || session.release(&scores)).unwrap();
            let released = all.remove(all.len() / 2);
            if released != Handle::initial(0) {
                with_max_allocation(0, || session.release(&[released])).unwrap();
            }
        }
        let elements = retry(&mut session, max, &mut failed, |session| {
            let mut elements = Vec::new();
            session.fetch(&all, &mut elements).map(|()| elements)
        });
        let expected = expected.get_or_insert_with(|| elements.clone());
        assert!(elements == *expected, "with allocations of at most {max} bytes");
        assert_eq!(failed == 0, max == usize::MAX, "{failed} failures");
    }
}
