//! One thread at a time, and none after a panic.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use edbatch::Handle;
use edbatch::graph::{Network, Shape};
use edbatch::models::network_to_json;
use edbatch::runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

use super::*;
use crate::exports::*;
use crate::pointers::versioned::Options;
use crate::pointers::{Array, ConstObject, FileBytes, Freed, Made, Object, Out, Text};
use crate::{edbatch_engine, edbatch_session};

thread_local! {
    /// The next use of an object on this thread panics.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn panic_if_asked() {
    assert!(!ASKED.replace(false), "asked for by a test");
}

const OK: i32 = 0;
const BUSY: i32 = Code::Busy as i32;
const PANIC: i32 = Code::Panic as i32;

fn engine() -> *mut edbatch_engine {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(3))]).unwrap();
    network.initial(state, &["h0"]).unwrap();
    let declared = network.cell("step", state, |cell| {
        let [h] = cell.one("previous", state);
        vec![(h + cell.lookup("word", "embed", &[9, 3])).tanh()]
    });
    declared.unwrap();
    let network = Arc::new(network);
    let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let json = network_to_json(&network).unwrap();
    let weights = parameters.to_safetensors(&network).unwrap();
    let mut engine = ptr::null_mut();
    let (of_network, of_weights) = (FileBytes::of(json.as_bytes()), FileBytes::of(&weights));
    let place = Made::of(&mut engine);
    let opened = edbatch_engine_open_memory(
        of_network,
        json.len(),
        of_weights,
        weights.len(),
        Options::none(),
        place,
    );
    assert_eq!(opened, OK);
    engine
}

fn session(engine: *mut edbatch_engine) -> *mut edbatch_session {
    let mut session = ptr::null_mut();
    assert_eq!(edbatch_session_new(ConstObject::of(engine), 0, Made::of(&mut session)), OK);
    session
}

fn free(engine: *mut edbatch_engine, session: *mut edbatch_session) {
    edbatch_session_free(Freed::of(session));
    edbatch_engine_free(Freed::of(engine));
}

/// The status of each function that takes an engine, then of those that take a session.
fn statuses(
    engine: *const edbatch_engine,
    session: *const edbatch_session,
) -> (Vec<i32>, Vec<i32>) {
    let (mut number, mut width) = ([0u16], [0usize]);
    let (mut fork, mut new) = (ptr::null_mut(), ptr::null_mut());
    let ask = || ConstObject::of(engine);
    let of_engine = vec![
        edbatch_run(Object::of(engine), Array::of(&[]), 0, Out::none(), 0, Out::none()),
        edbatch_engine_fork(ask(), Made::of(&mut fork)),
        edbatch_engine_cell(ask(), Text::of(c"step"), Out::of(&mut number)),
        edbatch_engine_record(ask(), Text::of(c"state"), Out::of(&mut number)),
        edbatch_engine_cell_record(ask(), 0, Out::of(&mut number)),
        edbatch_engine_width(ask(), 0, Out::of(&mut width)),
        edbatch_session_new(ask(), 0, Made::of(&mut new)),
    ];
    free(fork, new);
    let (mut fork, lent) = (ptr::null_mut(), || Object::of(session));
    let none = || Array::of(&[]);
    let (before, mut after) = ([Handle::initial(0)], [Handle::initial(0)]);
    let result = Out::of(&mut after);
    let of_session = vec![
        edbatch_session_call(lent(), 0, Array::of(&[1]), 1, Array::of(&before), 1, result),
        edbatch_session_calls(
            lent(),
            0,
            Array::of(&[]),
            Array::of(&[]),
            0,
            Array::of(&[]),
            Out::none(),
        ),
        edbatch_session_give(lent(), 0, Array::of(&[]), 0, 0, Out::none()),
        edbatch_session_run(lent()),
        edbatch_session_fetch(lent(), none(), 0, Out::none(), 0, Out::none()),
        edbatch_session_release(lent(), none(), 0),
        edbatch_session_discard(lent()),
        edbatch_session_clear(lent()),
        edbatch_session_fork(ConstObject::of(session), Made::of(&mut fork)),
    ];
    edbatch_session_free(Freed::of(fork));
    (of_engine, of_session)
}

#[test]
fn an_object_in_use_is_busy_and_const_functions_still_work() {
    let engine = engine();
    let session = session(engine);
    assert_eq!(statuses(engine, session), (vec![OK; 7], vec![OK; 9]));
    let (held, stored) = (Object::of(engine.cast_const()), Object::of(session.cast_const()));
    let running = held.get("it").unwrap().state.lock().unwrap();
    let (of_engine, of_session) = statuses(engine, session);
    assert_eq!(of_engine, [BUSY, OK, OK, OK, OK, OK, OK]);
    assert_eq!(of_session, [OK; 9]);
    drop(running);
    let using = stored.get("it").unwrap().state.lock().unwrap();
    let (of_engine, of_session) = statuses(engine, session);
    assert_eq!(of_engine, [OK; 7]);
    assert_eq!(of_session, [BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, OK]);
    drop(using);
    assert_eq!(statuses(engine, session), (vec![OK; 7], vec![OK; 9]));
    free(engine, session);
}

#[test]
fn after_a_panic_an_object_answers_every_call_by_it() {
    let engine = engine();
    let session = session(engine);
    ASKED.set(true);
    assert_eq!(edbatch_session_run(Object::of(session)), PANIC);
    assert_eq!(statuses(engine, session), (vec![OK; 7], vec![PANIC; 9]));
    // A function that takes no lock, too.
    ASKED.set(true);
    let mut width = [5usize];
    let failed = edbatch_engine_width(ConstObject::of(engine), 0, Out::of(&mut width));
    assert_eq!((failed, width), (PANIC, [5]));
    assert_eq!(statuses(engine, session), (vec![PANIC; 7], vec![PANIC; 9]));
    free(engine, session);
}

#[test]
fn an_object_with_threads_is_lost_in_another_process() {
    let mut object = Guarded::new(7, true);
    assert!(object.lock().is_ok() && object.enter().is_ok() && !object.is_lost());
    object.process = Some(process::id() + 1);
    // Also if a thread of the other process held the lock.
    let held = object.inner.lock().unwrap();
    assert_eq!(object.lock().err().unwrap().code, Code::Argument);
    drop(held);
    assert_eq!(object.enter().err().unwrap().code, Code::Argument);
    assert!(object.is_lost() && !Guarded::new(7, false).is_lost());
}
