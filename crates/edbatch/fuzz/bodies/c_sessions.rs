//! Bytes as a script of calls of the C interface: a session, with valid and invalid arguments.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use edbatch::models::network_from_json;
use edbatch::runtime::Parameters;
use edbatch_c as _;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

unsafe extern "C" {
    fn edbatch_error_message() -> *const c_char;
    fn edbatch_engine_open_memory(
        network: *const u8,
        network_bytes: usize,
        weights: *const u8,
        weights_bytes: usize,
        options: *const c_void,
        engine: *mut *mut c_void,
    ) -> i32;
    fn edbatch_engine_free(engine: *mut c_void);
    fn edbatch_session_new(engine: *const c_void, limit: u64, session: *mut *mut c_void) -> i32;
    fn edbatch_session_free(session: *mut c_void);
    fn edbatch_session_call(
        session: *mut c_void,
        cell: u16,
        rows: *const u32,
        row_count: usize,
        values: *const i64,
        value_count: usize,
        result: *mut i64,
    ) -> i32;
    fn edbatch_session_calls(
        session: *mut c_void,
        calls: usize,
        cells: *const u16,
        operands: *const i64,
        operand_count: usize,
        offsets: *const u32,
        results: *mut i64,
    ) -> i32;
    fn edbatch_session_give(
        session: *mut c_void,
        record: u16,
        elements: *const f32,
        floats: usize,
        count: usize,
        results: *mut i64,
    ) -> i32;
    fn edbatch_session_run(session: *mut c_void) -> i32;
    fn edbatch_session_fetch(
        session: *mut c_void,
        values: *const i64,
        count: usize,
        elements: *mut f32,
        capacity: usize,
        needed: *mut usize,
    ) -> i32;
    fn edbatch_session_release(session: *mut c_void, values: *const i64, count: usize) -> i32;
    fn edbatch_session_discard(session: *mut c_void) -> i32;
    fn edbatch_session_clear(session: *mut c_void) -> i32;
    fn edbatch_session_get_statistics(session: *mut c_void, statistics: *mut u64) -> i32;
}

const NETWORK: &str = include_str!("network.json");

/// Bytes of weights and values, so that some runs fail.
const LIMIT: u64 = 3 << 10;
const PENDING: i32 = 7;
const MEMORY: i32 = 9;
const PANIC: i32 = 12;

/// The bytes, as choices.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % end
    }

    /// Up to five values: mostly those that exist, or existed.
    fn values(&mut self, made: &[i64]) -> Vec<i64> {
        let count = self.below(6);
        let value = |_| match self.below(8) {
            0 => -1 - self.below(3) as i64,
            1 => self.below(4) as i64,
            2 => (self.below(256) as i64) << 28,
            _ if made.is_empty() => -1,
            _ => made[made.len() - 1 - self.below(made.len().min(256))],
        };
        (0..count).map(value).collect()
    }

    /// The pointer of an array, seldom NULL or misaligned.
    fn pointer<T>(&mut self, array: &mut [T]) -> *mut T {
        match self.below(32) {
            0 => null_mut(),
            1 => array.as_mut_ptr().wrapping_byte_add(1),
            _ => array.as_mut_ptr(),
        }
    }
}

/// The values of the session, each with the bits that were fetched, if any. A pending value has
/// `None` in place of both.
#[derive(Default)]
struct Model {
    live: BTreeMap<i64, Option<Option<Vec<u32>>>>,
    /// All values that were made, in order.
    made: Vec<i64>,
}

impl Model {
    fn add(&mut self, values: &[i64]) {
        for &value in values {
            assert!(value >= 1 << 32 && !self.made.contains(&value), "a handle comes back");
            self.live.insert(value, None);
            self.made.push(value);
        }
    }

    fn is_pending(&self, value: i64) -> bool {
        self.live.get(&value).is_some_and(Option::is_none)
    }

    /// Compares the elements of stored and initial values with those fetched before.
    fn fetched(&mut self, values: &[i64], elements: &[f32]) {
        for (&value, elements) in values.iter().zip(elements.chunks(2)) {
            let bits: Vec<u32> = elements.iter().map(|x| x.to_bits()).collect();
            match self.live.get_mut(&value) {
                Some(Some(before)) => assert_eq!(before.get_or_insert(bits.clone()), &bits),
                Some(None) => panic!("a pending value was fetched"),
                None => assert_eq!(value, -1, "a value that does not exist was fetched"),
            }
        }
    }
}

/// The counts of a session: all but the bytes that it holds.
fn counts(session: *mut c_void) -> Vec<u64> {
    let mut counts = [0; 9];
    counts[0] = size_of_val(&counts) as u64;
    // SAFETY: the struct of the header has nine members of 64 bits, and begins with its size.
    assert_eq!(unsafe { edbatch_session_get_statistics(session, counts.as_mut_ptr()) }, 0);
    counts[4] = 0;
    counts.to_vec()
}

/// Runs a script. All values have two elements: the record `pair`, with three, is not used.
pub(crate) fn run(bytes: &[u8]) {
    let network = Arc::new(network_from_json(NETWORK).expect("a network"));
    let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let weights = parameters.to_safetensors(&network).expect("weights");
    let (mut engine, mut session) = (null_mut(), null_mut());
    let (text, size) = (NETWORK.as_ptr(), weights.len());
    // SAFETY: each length belongs to its array, and objects are freed once, at the end.
    unsafe {
        let (weights, options) = (weights.as_ptr(), null());
        let opened =
            edbatch_engine_open_memory(text, NETWORK.len(), weights, size, options, &mut engine);
        assert_eq!((opened, edbatch_session_new(engine, LIMIT, &mut session)), (0, 0));
        edbatch_engine_free(engine);
    }
    let (mut choices, mut model) = (Choices(bytes.iter()), Model::default());
    while choices.0.len() > 0 && model.made.len() < 2000 {
        let before = counts(session);
        let status = step(session, &mut choices, &mut model);
        assert_ne!(status, PANIC);
        if status != 0 {
            // SAFETY: a string of the library, until its next failure.
            let message = unsafe { CStr::from_ptr(edbatch_error_message()) };
            let message = message.to_str().expect("messages are UTF-8");
            assert!(!message.is_empty() && !message.contains('\n'));
            assert_eq!(counts(session), before, "a failure changes nothing: {message}");
        }
    }
    // SAFETY: no other call on the session follows.
    unsafe { edbatch_session_free(session) };
}

/// Adds a call, calls as arrays, or given values. Returns the status.
fn add(session: *mut c_void, choices: &mut Choices<'_>, model: &mut Model) -> i32 {
    let mut results = [0i64; 6];
    // SAFETY: pointers are NULL, misaligned or of arrays that are at least as long as their lengths
    // say. The session is not freed.
    unsafe {
        match choices.below(5) {
            0..=2 => {
                let count = choices.below(3);
                let mut rows: Vec<u32> = (0..count).map(|_| choices.below(11) as u32).collect();
                let (cell, mut values) = (choices.below(4) as u16, choices.values(&model.made));
                let (r, v) = (choices.pointer(&mut rows), choices.pointer(&mut values));
                let out = choices.pointer(&mut results);
                let (rows, values) = (rows.len(), values.len());
                let status = edbatch_session_call(session, cell, r, rows, v, values, out);
                model.add(&results[..usize::from(status == 0)]);
                status
            }
            3 => {
                let (count, mut operands) = (choices.below(5), choices.values(&model.made));
                let mut cells: Vec<u16> = (0..count).map(|_| choices.below(4) as u16).collect();
                let mut offsets: Vec<u32> = (0..count).map(|_| choices.below(6) as u32).collect();
                offsets.sort_unstable();
                offsets.push(operands.len() as u32);
                let (c, o) = (choices.pointer(&mut cells), choices.pointer(&mut operands));
                let (ends, out) = (choices.pointer(&mut offsets), choices.pointer(&mut results));
                let length = operands.len();
                let status = edbatch_session_calls(session, count, c, o, length, ends, out);
                model.add(&results[..if status == 0 { count } else { 0 }]);
                status
            }
            _ => {
                let mut elements: Vec<f32> =
                    (0..8).map(|_| choices.below(256) as f32 / 64.0).collect();
                // Record 1, the pair, has three floats.
                let (record, count) = (choices.below(3) as u16 & 2, choices.below(5));
                let floats = if choices.below(8) == 0 { choices.below(9) } else { 2 * count };
                let pointer = choices.pointer(&mut elements);
                let out = choices.pointer(&mut results);
                let status = edbatch_session_give(session, record, pointer, floats, count, out);
                model.add(&results[..if status == 0 { count } else { 0 }]);
                status
            }
        }
    }
}

/// Calls a function of the library with arguments by choice. Returns its status.
fn step(session: *mut c_void, choices: &mut Choices<'_>, model: &mut Model) -> i32 {
    // SAFETY: as in `add`.
    unsafe {
        match choices.below(10) {
            0..=4 => add(session, choices, model),
            5 => {
                let status = edbatch_session_run(session);
                assert!(status == 0 || status == MEMORY);
                if status == 0 {
                    model.live.values_mut().for_each(|value| *value = value.take().or(Some(None)));
                }
                status
            }
            6 | 7 => {
                let (mut values, capacity) = (choices.values(&model.made), choices.below(14));
                let (mut elements, mut needed) = ([0.0; 14], 0);
                let pointer = choices.pointer(&mut values);
                let to = elements.as_mut_ptr();
                let count = values.len();
                let status =
                    edbatch_session_fetch(session, pointer, count, to, capacity, &raw mut needed);
                if status == 0 {
                    assert_eq!(needed, 2 * count);
                    model.fetched(&values, &elements[..needed]);
                }
                assert!(status != PENDING || values.iter().any(|&value| model.is_pending(value)));
                status
            }
            8 => {
                let mut values = choices.values(&model.made);
                let pointer = choices.pointer(&mut values);
                let status = edbatch_session_release(session, pointer, values.len());
                for value in values.iter().filter(|_| status == 0) {
                    assert!(model.live.remove(value).is_some(), "it was released before");
                }
                status
            }
            _ => match choices.below(8) {
                0 => {
                    model.live.clear();
                    edbatch_session_clear(session)
                }
                1 | 2 => {
                    model.live.retain(|_, value| value.is_some());
                    edbatch_session_discard(session)
                }
                3 => edbatch_session_run(null_mut()),
                _ => edbatch_session_run(session.wrapping_byte_add(1)),
            },
        }
    }
}
