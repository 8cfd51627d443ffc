//! The rules of sessions, one by one.

mod clauses;
mod failing;
mod values;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use edbatch::{EngineOptions, Handle, SessionCalls, SessionError, SessionOptions};
use edbatch_graph::{Kind, RecordId};
use edbatch_testing::networks::Random;
use rand::{RngExt, SeedableRng};

use clauses::{
    AXIOM, CLAUSE, INFER, SCORE, SCORED, WIDTH, bits, clauses, engine_with, fetch, session,
};

/// The bits of a clause that follows from clauses with these rules, or from the axiom if there are
/// none. Computed in one run.
fn expected(rule: u32, parents: &[u32]) -> Vec<u32> {
    let mut session = session();
    let mut parents: Vec<Handle> =
        parents.iter().map(|&rule| session.call(INFER, &[rule], &[AXIOM]).unwrap()).collect();
    if parents.is_empty() {
        parents.push(AXIOM);
    }
    let clause = session.call(INFER, &[rule], &parents).unwrap();
    session.run().unwrap();
    fetch(&session, &[clause])
}

#[test]
fn a_pending_value_that_is_released_is_computed_for_its_readers_and_not_stored() {
    let mut session = session();
    let parent = session.call(INFER, &[3], &[AXIOM]).unwrap();
    let given = session.give(CLAUSE, &[0.5; WIDTH]).unwrap();
    let child = session.call(INFER, &[4], &[parent]).unwrap();
    let of_given = session.call(INFER, &[4], &[given]).unwrap();
    session.release(&[parent, given]).unwrap();
    let before = session.statistics();
    assert_eq!((before.stored, before.pending, before.calls), (0, 4, 0));
    session.run().unwrap();
    let after = session.statistics();
    assert_eq!((after.stored, after.pending, after.calls, after.runs), (2, 0, 3, 1));
    assert_eq!(fetch(&session, &[child]), expected(4, &[3]));
    assert!(session.record_of(parent).is_err() && session.record_of(of_given).is_ok());
}

#[test]
fn a_pending_call_reads_the_row_of_a_value_that_is_released_before_the_run() {
    let mut session = session();
    let [a, b] = clauses(&mut session, [3, 5]);
    let child = session.call(INFER, &[7], &[a, b]).unwrap();
    session.release(&[a, b]).unwrap();
    // Enough values to use every free row.
    let others: Vec<Handle> =
        (0..200).map(|i| session.call(INFER, &[i % 20], &[child]).unwrap()).collect();
    assert!(matches!(session.call(INFER, &[1], &[a]), Err(SessionError::NoValue { .. })));
    session.run().unwrap();
    assert_eq!(fetch(&session, &[child]), expected(7, &[3, 5]));
    assert_eq!(session.statistics().stored, 1 + others.len() as u64);
    // The two rows are used again.
    let held = session.statistics().held_bytes;
    for _ in 0..10 {
        let more = clauses(&mut session, [1, 2]);
        session.release(&more).unwrap();
    }
    assert_eq!(session.statistics().held_bytes, held);
}

#[test]
fn a_run_without_pending_values_does_nothing_and_one_without_calls_is_not_counted() {
    let mut session = session();
    session.run().unwrap();
    assert_eq!((session.statistics().runs, session.statistics().held_bytes), (0, 0));
    let given = session.give(CLAUSE, &[0.5; WIDTH]).unwrap();
    session.run().unwrap();
    let statistics = session.statistics();
    assert_eq!((statistics.runs, statistics.calls, statistics.batches), (0, 0, 0));
    assert_eq!((statistics.stored, statistics.pending), (1, 0));
    assert_eq!(fetch(&session, &[given]), bits(&[0.5; WIDTH]));
    clauses(&mut session, [1, 2]);
    session.run().unwrap();
    let statistics = session.statistics();
    assert_eq!((statistics.runs, statistics.calls, statistics.batches), (1, 2, 1));
    let stored = 4 * WIDTH.next_multiple_of(16) as u64;
    assert_eq!((statistics.stored, statistics.stored_bytes), (3, 3 * stored));
}

#[test]
fn discarded_and_cleared_handles_are_invalid_for_ever() {
    let mut session = session();
    let kept = clauses(&mut session, [1, 2, 3]);
    let mut gone = Vec::new();
    for round in 0..20 {
        for rule in 0..10 {
            gone.push(session.call(INFER, &[rule], &[kept[0]]).unwrap());
        }
        session.discard();
        assert_eq!(session.statistics().pending, 0);
        session.call(INFER, &[round], &[kept[1]]).unwrap();
        session.run().unwrap();
        assert!(gone.iter().all(|&value| session.record_of(value).is_err()), "round {round}");
    }
    assert_eq!(session.statistics().stored, 3 + 20);
    let held = session.statistics().held_bytes;
    let pending = session.call(INFER, &[1], &[kept[0]]).unwrap();
    session.clear();
    for value in kept.into_iter().chain([pending]) {
        let error = session.release(&[value]).unwrap_err();
        assert!(matches!(error, SessionError::NoValue { value: got } if got == value), "{error}");
    }
    let statistics = session.statistics();
    assert_eq!((statistics.stored, statistics.pending, statistics.stored_bytes), (0, 0, 0));
    assert_eq!(statistics.held_bytes, held, "the memory is kept");
    let [again] = clauses(&mut session, [3]);
    assert!(!gone.contains(&again) && !kept.contains(&again));
}

#[test]
fn a_value_that_occurs_twice_is_not_released() {
    let mut session = session();
    let [a, b] = clauses(&mut session, [1, 2]);
    let c = session.call(INFER, &[3], &[a]).unwrap();
    for values in [&[a, b, a][..], &[c, c], &[b, c, AXIOM], &[a, b, c, Handle::from_bits(9 << 32)]]
    {
        let before = session.statistics();
        let error = session.release(values).unwrap_err();
        let text = error.to_string();
        let expected = ["occurs twice", "is an initial value", "does not exist"];
        assert!(expected.iter().any(|expected| text.contains(expected)), "{text}");
        assert_eq!(session.statistics(), before);
    }
    session.release(&[a, b, c]).unwrap();
    session.release(&[]).unwrap();
}

/// A list of reads that remembers what a failed request read would give a later call another row.
#[test]
fn failed_calls_forget_the_stored_values_that_they_read_first() {
    let mut session = session();
    let [a, b, c] = clauses(&mut session, [3, 5, 8]);
    for failing in [[a, b], [b, c], [c, a]] {
        let operands = [1, failing[0].to_bits(), 2, failing[1].to_bits(), 99, failing[0].to_bits()];
        let calls =
            SessionCalls { cells: &[INFER; 3], operands: &operands, offsets: &[0, 2, 4, 6] };
        let error = session.calls(calls, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("call 2: call of infer: "), "{error}");
        assert!(session.call(INFER, &[99], &[failing[1], failing[0]]).is_err());
        assert!(session.call(SCORE, &[], &[failing[1], failing[0]]).is_err());
        assert_eq!(session.statistics().pending, 0);
        let children =
            [[b, c], [c, a], [a, b]].map(|parents| session.call(INFER, &[7], &parents).unwrap());
        session.run().unwrap();
        let rules = [[5, 8], [8, 3], [3, 5]];
        for (child, rules) in children.into_iter().zip(rules) {
            assert_eq!(fetch(&session, &[child]), expected(7, &rules));
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let mut session = session();
    let [a] = clauses(&mut session, [1]);
    let pending = session.call(INFER, &[1], &[a]).unwrap();
    let mut calls = |cells: &[Kind], operands: &[i64], offsets: &[u32]| {
        let calls = SessionCalls { cells, operands, offsets };
        session.calls(calls, &mut Vec::new()).unwrap_err().to_string()
    };
    let a_bits = a.to_bits();
    let cases = [
        (calls(&[INFER], &[], &[0]), "expected 2 offsets, one more than there are calls, got 1"),
        (calls(&[], &[], &[]), "expected 1 offsets, one more than there are calls, got 0"),
        (
            calls(&[INFER], &[1, a_bits], &[0, 1]),
            "expected offsets from 0 to 2, the number of operands, got 0 to 1",
        ),
        (
            calls(&[INFER], &[1, a_bits], &[1, 2]),
            "expected offsets from 0 to 2, the number of operands, got 1 to 2",
        ),
        (
            calls(&[INFER; 2], &[1, a_bits], &[0, 3, 2]),
            "offset 2 is smaller than the one before it",
        ),
        (
            calls(&[INFER; 2], &[1, a_bits, 1, 1], &[0, 2, 4]),
            "call 1: value 1 is not an earlier call: expected a number below 1, or the handle of \
             a value",
        ),
        (
            calls(&[INFER], &[-1, a_bits], &[0, 2]),
            "call 0: call of infer: row -1 does not exist: rows begin at 0",
        ),
        (
            calls(&[INFER, SCORE], &[1, a_bits, a_bits, 0], &[0, 2, 4]),
            "call 1: call of score: expected 1 value, got 2",
        ),
        (
            calls(&[Kind(7)], &[], &[0, 0]),
            "call 0: call of cell 7: does not exist: the network has 2 cells",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
    let score = session.call(SCORE, &[], &[a]).unwrap();
    let cases = [
        (
            session.call(INFER, &[1], &[score]).unwrap_err(),
            "call of infer: parents: expected a value of record clause, got one of score",
        ),
        (
            session.give(CLAUSE, &[1.0]).unwrap_err(),
            "a given value of record clause: expected 24 elements, got 1",
        ),
        (
            session.give(RecordId(9), &[1.0]).unwrap_err(),
            "record 9 does not exist: the network has 2 records",
        ),
        (
            session.fetch(&[a, pending], &mut Vec::new()).unwrap_err(),
            "value 4294967297 is pending: run the session before fetching it",
        ),
        (
            session.release(&[Handle::from_bits(-5)]).unwrap_err(),
            "value -5 does not exist: the network has fewer initial values",
        ),
        (
            session.release(&[AXIOM]).unwrap_err(),
            "value -1 is an initial value of the network, which cannot be released",
        ),
        (
            session.release(&[a, a]).unwrap_err(),
            "value 4294967296 occurs twice among the values to release",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error.to_string(), expected);
        assert!(std::error::Error::source(&error).is_none());
    }
    assert_eq!(session.record_of(score).unwrap(), SCORED);
    session.run().unwrap();
    assert_eq!(session.statistics().calls, 3);
}

#[test]
fn the_engine_may_run_or_be_dropped_while_a_session_is_used() {
    let mut engine = engine_with(EngineOptions::new().threads(2));
    let mut session = engine.session(SessionOptions::new()).unwrap();
    let expected = expected(4, &[9]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                engine.run(&clauses::lists(engine.model(), 40)).unwrap();
            }
        });
        for _ in 0..200 {
            let [parent] = clauses(&mut session, [9]);
            let child = session.call(INFER, &[4], &[parent]).unwrap();
            session.run().unwrap();
            assert_eq!(fetch(&session, &[child]), expected);
            session.release(&[parent, child]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(engine);
    let [parent] = clauses(&mut session, [9]);
    let child = session.call(INFER, &[4], &[parent]).unwrap();
    // A session may move to another thread.
    let moved = thread::spawn(move || {
        session.run().unwrap();
        fetch(&session, &[child])
    });
    assert_eq!(moved.join().unwrap(), expected);
}

#[test]
fn a_fork_is_empty_and_of_its_own() {
    let engine = engine_with(EngineOptions::new().threads(2));
    let mut session = engine.session(SessionOptions::new()).unwrap();
    let stored = clauses(&mut session, [1, 2]);
    let pending = session.call(INFER, &[3], &stored).unwrap();
    let mut fork = session.fork().unwrap();
    let (own, of_fork) = (session.statistics(), fork.statistics());
    assert_eq!((of_fork.stored, of_fork.pending, of_fork.calls, of_fork.held_bytes), (0, 0, 0, 0));
    assert_eq!(of_fork.weight_bytes, own.weight_bytes);
    assert!(fork.record_of(pending).is_err());
    let of_fork = clauses(&mut fork, [3]);
    assert_eq!(of_fork[0], stored[0], "a session does not recognize handles of another one");
    assert_eq!(session.statistics(), own);
    assert_ne!(fetch(&fork, &of_fork), fetch(&session, &stored[..1]));
}

/// Few values at a time, many, and so many that threads share tiles and products.
#[test]
fn bits_do_not_depend_on_runs_and_threads() {
    let mut expected = None;
    for threads in [1, 2, 3] {
        for every in [1, 7, 64, 1000] {
            let engine = engine_with(EngineOptions::new().threads(threads));
            let mut session = engine.session(SessionOptions::new()).unwrap();
            let (mut rng, mut all) = (Random::seed_from_u64(3), vec![AXIOM]);
            for call in 0..1000 {
                let mut parent = || all[rng.random_range(0..all.len())];
                let parents = [parent(), parent()];
                all.push(session.call(INFER, &[call % 20], &parents).unwrap());
                if call % every == 0 {
                    session.run().unwrap();
                }
            }
            session.run().unwrap();
            let got = fetch(&session, &all);
            let expected = expected.get_or_insert_with(|| got.clone());
            assert!(got == *expected, "{threads} threads, a run every {every} calls");
        }
    }
}

/// A wave of a search: 100 clauses from random ones, each in the place of another, which is
/// released. Waves repeat, so memory is constant once all of them have been.
#[test]
#[ignore = "takes seconds in release"]
fn ten_million_calls_keep_memory_constant() {
    let (mut session, waves) = (session(), 500);
    let mut live = clauses(&mut session, [1; 1000]).to_vec();
    let mut held = 0;
    for wave in 0..100_000 {
        let mut rng = Random::seed_from_u64(wave % waves);
        for _ in 0..100 {
            let [a, b, out] = [(); 3].map(|()| rng.random_range(0..live.len()));
            let rule = rng.random_range(0..20);
            let clause = session.call(INFER, &[rule], &[live[a], live[b]]).unwrap();
            session.release(&[live[out]]).unwrap();
            live[out] = clause;
        }
        session.run().unwrap();
        let now = session.statistics().held_bytes;
        held = if wave < waves { now.max(held) } else { held };
        assert!(wave < waves || now == held, "wave {wave}: {now} bytes, {held} before");
    }
    let counts = session.statistics();
    assert_eq!((counts.calls, counts.stored), (10_001_000, 1000));
    println!("{held} bytes held after {} calls", counts.calls);
}
