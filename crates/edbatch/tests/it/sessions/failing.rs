//! Runs that fail: limits, and memory that cannot be allocated. The session goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use edbatch::models::CallLists;
use edbatch::{Engine, EngineOptions, Handle, RunError, Session, SessionError, SessionOptions};
use edbatch_graph::{Kind, Network, Shape};
use edbatch_layout::{CellStyle, Plan, Program};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, BackendError, Bytes, Cpu, Outputs, Part, Precision, StoredRow};

use super::clauses::{AXIOM, INFER, WIDTH, engine_with, parameters};
use super::{clauses, expected, fetch};
use crate::fn_model::random;

#[test]
fn a_memory_limit_counts_weights_stored_rows_new_rows_and_the_arena() {
    for threads in [1, 2] {
        let engine = engine_with(EngineOptions::new().threads(threads));
        let mut free = engine.session(SessionOptions::new()).unwrap();
        let weights = free.statistics().weight_bytes;
        let run = |session: &mut Session, calls: u32| {
            let [a, b] = clauses(session, [1, 2]);
            for call in 0..calls {
                session.call(INFER, &[call % 20], &[a, b]).unwrap();
            }
            session.release(&[a]).unwrap();
            session.run()
        };
        // Two stored rows, one read and released; a row for each call; in the arena the
        // axiom, the two parents and the calls.
        let row = 4 * WIDTH.next_multiple_of(16) as u64;
        let needed = |calls: u64| weights + (2 + calls + 3 + calls) * row;
        run(&mut free, 64).unwrap();
        for calls in [1, 50] {
            let limited =
                |limit| engine.session(SessionOptions::new().memory_limit(limit)).unwrap();
            run(&mut limited(needed(calls)), calls as u32).unwrap();
            let mut session = limited(needed(calls) - 1);
            let error = run(&mut session, calls as u32).unwrap_err();
            let SessionError::Run(RunError::Memory { values, weights: got, limit }) = error else {
                panic!("{error}")
            };
            assert_eq!((values, got, limit), (needed(calls) - weights, weights, needed(calls) - 1));
            assert_eq!(session.statistics().pending, calls);
            let error = session.fork().unwrap();
            drop(error);
        }
    }
}

/// Three ways to go on: release values that no pending call reads, release pending values, or
/// discard.
#[test]
fn a_session_over_its_limit_goes_on_after_a_release_or_a_discard() {
    let engine = engine_with(EngineOptions::new());
    let weights = engine.session(SessionOptions::new()).unwrap().statistics().weight_bytes;
    let row = 4 * WIDTH.next_multiple_of(16) as u64;
    let session = || {
        let limit = weights + 20 * row;
        let mut session = engine.session(SessionOptions::new().memory_limit(limit)).unwrap();
        let stored = clauses(&mut session, [1, 2, 3, 4, 5, 6]);
        let more = clauses(&mut session, [7, 8]);
        // Eight stored rows, five new ones; the arena has the axiom, two parents and five calls.
        let pending: Vec<Handle> =
            (0..5).map(|rule| session.call(INFER, &[rule], &more).unwrap()).collect();
        for _ in 0..2 {
            let before = session.statistics();
            let error = session.run().unwrap_err();
            assert!(matches!(error, SessionError::Run(RunError::Memory { .. })), "{error}");
            assert!(error.to_string().ends_with("make mini-batches smaller, or release values"));
            assert_eq!(session.statistics(), before);
            assert_eq!(fetch(&session, &stored[2..3]), expected(3, &[]));
        }
        (session, stored, more, pending)
    };
    let (mut released, stored, ..) = session();
    released.release(&stored[..1]).unwrap();
    released.run().unwrap();
    let (mut read, _, more, pending) = session();
    read.release(&more).unwrap();
    assert!(read.run().is_err(), "both are read");
    read.release(&pending[1..2]).unwrap();
    read.run().unwrap();
    assert_eq!(fetch(&read, &pending[2..3]), fetch(&released, &[pending[2]]));
    assert_eq!(fetch(&read, &pending[2..3]), expected(2, &[7, 8]));
    let (mut discarded, stored, ..) = session();
    discarded.discard();
    discarded.run().unwrap();
    let child = discarded.call(INFER, &[9], &stored).unwrap();
    discarded.run().unwrap();
    assert_eq!(fetch(&discarded, &[child]), expected(9, &[1, 2, 3, 4, 5, 6]));
}

#[test]
fn weights_above_the_limit_are_an_error_without_advice() {
    let engine = engine_with(EngineOptions::new());
    let mut session = engine.session(SessionOptions::new().memory_limit(100)).unwrap();
    session.call(INFER, &[1], &[AXIOM]).unwrap();
    let error = session.run().unwrap_err().to_string();
    assert!(error.starts_with("the weights alone need"), "{error}");
    assert!(error.ends_with("expected at most 100 bytes"), "{error}");
}

/// A backend whose store and arenas cannot grow above limits.
struct Limited {
    cpu: Box<dyn Backend>,
    lines: Arc<AtomicUsize>,
    arena: Arc<AtomicUsize>,
}

fn memory() -> BackendError {
    BackendError::Memory { what: "a test", bytes: 7 }
}

impl Backend for Limited {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        let max = self.arena.load(Ordering::Relaxed);
        match parts.iter().all(|part| part.plan.arena <= max) {
            true => self.cpu.run(parts),
            false => Err(memory()),
        }
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        self.cpu.outputs(slot, plan)
    }

    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError> {
        match lines <= self.lines.load(Ordering::Relaxed) {
            true => self.cpu.reserve_store(slot, lines),
            false => Err(memory()),
        }
    }

    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        self.cpu.read_stored(slot, rows, to)
    }

    fn bytes(&self) -> Bytes {
        self.cpu.bytes()
    }

    fn fork(&self) -> Box<dyn Backend> {
        let (lines, arena) = (self.lines.clone(), self.arena.clone());
        Box::new(Self { cpu: self.cpu.fork(), lines, arena })
    }
}

#[test]
fn a_session_goes_on_after_its_store_or_its_arena_could_not_grow() {
    let (network, parameters) = parameters();
    let program = Arc::new(Program::new(network.clone(), CellStyle::default()).unwrap());
    let cpu = Cpu::new(program.clone(), &parameters, Level::detect(), Precision::F32).unwrap();
    let [lines, arena] = [(); 2].map(|()| Arc::new(AtomicUsize::new(usize::MAX)));
    let backend = Limited { cpu: Box::new(cpu), lines: lines.clone(), arena: arena.clone() };
    let (model, options) = (CallLists::new(network), EngineOptions::new());
    let engine =
        Engine::with_backend(model, &parameters, program, Box::new(backend), options).unwrap();
    let mut session = engine.session(SessionOptions::new()).unwrap();
    let parents = clauses(&mut session, [1, 2]);
    // A slab of 64 rows of two lines. Two rows are in use.
    for limited in [&lines, &arena] {
        let before =
            limited.swap(if Arc::ptr_eq(limited, &lines) { 128 } else { 50 }, Ordering::Relaxed);
        let children: Vec<Handle> =
            (0..100).map(|i| session.call(INFER, &[i % 20], &parents).unwrap()).collect();
        for _ in 0..3 {
            let before = session.statistics();
            let error = session.run().unwrap_err();
            // The store may have grown before the arena could not.
            let text = "out of memory: failed to allocate 0.0 MB for a test: make mini-batches \
                        smaller, or release values";
            assert_eq!(error.to_string(), text);
            let after = session.statistics();
            assert_eq!((after.stored, after.pending), (before.stored, before.pending));
            assert_eq!((after.calls, after.runs), (before.calls, before.runs));
            assert_eq!(fetch(&session, &parents[1..]), expected(2, &[]));
        }
        if Arc::ptr_eq(limited, &lines) {
            // The rows of 50 children fit: they take the other rows of the slab.
            session.release(&children[50..]).unwrap();
        } else {
            limited.store(before, Ordering::Relaxed);
        }
        session.run().unwrap();
        assert_eq!(fetch(&session, &children[49..50]), expected(9, &[1, 2]));
        limited.store(before, Ordering::Relaxed);
        let rest: Vec<Handle> =
            children.into_iter().filter(|&child| session.record_of(child).is_ok()).collect();
        session.release(&rest).unwrap();
    }
    assert_eq!(session.statistics().stored, 2);
}

#[test]
fn a_session_goes_on_after_a_run_that_is_too_large_for_32_bits() {
    let mut network = Network::new();
    let shape = Shape::Vector(1 << 28);
    let large = network.record("large", [("x", shape)]).unwrap();
    let small = network.record("small", [("y", Shape::Vector(3))]).unwrap();
    network.cell("large", large, |cell| vec![cell.constant(0.5, shape)]).unwrap();
    network.cell("small", small, |cell| vec![cell.lookup("row", "rows", &[5, 3])]).unwrap();
    let network = Arc::new(network);
    let parameters = random(&network, 1);
    let engine = Engine::new(CallLists::new(network), parameters).unwrap();
    let mut session = engine.session(SessionOptions::new()).unwrap();
    let kept = session.call(Kind(1), &[4], &[]).unwrap();
    session.run().unwrap();
    let before = (fetch(&session, &[kept]), session.statistics());
    for calls in [16, 300] {
        for _ in 0..calls {
            session.call(Kind(0), &[], &[]).unwrap();
        }
        let error = session.run().unwrap_err();
        match calls {
            16 => assert!(matches!(error, SessionError::Run(RunError::Arena(_))), "{error}"),
            // The lines of 300 rows cannot be numbered.
            _ => assert!(
                matches!(error, SessionError::Run(RunError::Backend(BackendError::Memory { .. }))),
                "{error}"
            ),
        }
        session.discard();
        assert_eq!((fetch(&session, &[kept]), session.statistics()), before);
    }
    let other = session.call(Kind(1), &[4], &[]).unwrap();
    session.run().unwrap();
    assert_eq!(fetch(&session, &[kept, other]), before.0.repeat(2));
}
