//! Random scripts of sessions, against a model that keeps everything.

mod script;

use std::sync::Arc;

use edbatch::models::{CallList, CallLists};
use edbatch::{
    Engine, EngineOptions, Handle, Session, SessionCalls, SessionError, SessionOptions, interpret,
};
use edbatch_graph::{Network, Value};
use edbatch_layout::{CellStyle, Program};
use edbatch_policy::{Agenda, AnyPolicy, ByDepth, Depth};
use edbatch_runtime::{Parameters, Precision};
use edbatch_testing::networks::{Random, random_network};
use edbatch_testing::{all_cases, cases};
use rand::{RngExt, SeedableRng};

use script::{Call, Made, Op, Script, Term};

/// Returns the bits of elements. All NaN have the same bits.
fn bits(elements: &[f32]) -> Vec<u32> {
    elements.iter().map(|x| if x.is_nan() { f32::NAN } else { *x }.to_bits()).collect()
}

/// Carries out a script on a session.
struct Replay<'a> {
    script: &'a Script,
    session: Session,
    /// By number of a made value, also of discarded ones: its handle.
    handles: Vec<Handle>,
    /// True for existing values, and for pending ones.
    exists: Vec<bool>,
    is_pending: Vec<bool>,
    /// The number of calls and given values since the last run.
    pending: u64,
    calls: (u64, u64),
    /// The bits of each fetched value.
    fetched: Vec<(Term, Vec<u32>)>,
}

impl Replay<'_> {
    fn handle(&self, term: Term) -> Handle {
        match term {
            Term::Initial(index) => Handle::initial(index),
            Term::Made(index) => self.handles[index],
        }
    }

    fn made(&mut self, handle: Handle, is_call: bool) {
        assert!(handle.to_bits() >= 1 << 32 && !self.handles.contains(&handle), "a new handle");
        self.handles.push(handle);
        self.exists.push(true);
        self.is_pending.push(true);
        self.pending += 1;
        self.calls.0 += u64::from(is_call);
    }

    fn run(&mut self) {
        self.session.run().unwrap();
        self.is_pending.fill(false);
        self.pending = 0;
        self.calls = (0, self.calls.1 + self.calls.0);
    }

    fn call(&mut self, call: &Call) {
        let values: Vec<Handle> = call.values.iter().map(|&value| self.handle(value)).collect();
        let handle = self.session.call(call.cell, &call.rows, &values).unwrap();
        self.made(handle, true);
    }

    /// Adds calls as arrays. Those that read earlier ones of the same arrays name their numbers.
    fn calls(&mut self, calls: &[Call], by_number: bool) {
        let first = self.handles.len();
        let (cells, operands, offsets) = arrays(calls, |value| match value {
            Term::Made(index) if index >= first => (index - first) as i64,
            value => self.handle(value).to_bits(),
        });
        if !by_number {
            return calls.iter().for_each(|call| self.call(call));
        }
        let arrays = SessionCalls { cells: &cells, operands: &operands, offsets: &offsets };
        let mut results = vec![Handle::initial(7)];
        self.session.calls(arrays, &mut results).unwrap();
        assert_eq!((results.len(), results[0]), (1 + calls.len(), Handle::initial(7)));
        results[1..].iter().for_each(|&handle| self.made(handle, true));
    }

    fn op(&mut self, op: &Op, rng: &mut Random) {
        match op {
            Op::Calls(calls) if calls.len() == 1 => self.call(&calls[0]),
            // Some sessions add the calls one by one.
            Op::Calls(calls) => self.calls(calls, rng.random_bool(0.7)),
            Op::Give(record, elements) => {
                let handle = self.session.give(*record, elements).unwrap();
                self.made(handle, false);
            }
            Op::Release(values) => {
                let handles: Vec<Handle> =
                    values.iter().map(|&value| self.handles[value]).collect();
                self.session.release(&handles).unwrap();
                values.iter().for_each(|&value| self.exists[value] = false);
            }
            Op::Fetch(values) => self.fetch(values),
            Op::Fail(calls) => self.fail(calls, rng),
            Op::Discarded(ops) => {
                self.run();
                let first = self.handles.len();
                ops.iter().for_each(|op| self.op(op, rng));
                self.session.discard();
                self.exists[first..].fill(false);
                self.is_pending.fill(false);
                (self.pending, self.calls.0) = (0, 0);
            }
            Op::Clear => {
                self.session.clear();
                self.exists.fill(false);
                self.is_pending.fill(false);
                (self.pending, self.calls.0) = (0, 0);
            }
        }
    }

    fn fetch(&mut self, values: &[Term]) {
        let handles: Vec<Handle> = values.iter().map(|&value| self.handle(value)).collect();
        let mut elements = vec![0.25];
        let is_pending =
            |value: &Term| matches!(*value, Term::Made(index) if self.is_pending[index]);
        if let Some(first) = values.iter().position(is_pending) {
            let error = self.session.fetch(&handles, &mut elements).unwrap_err();
            let expected = handles[first];
            assert!(matches!(error, SessionError::Pending { value } if value == expected));
            assert_eq!(elements, [0.25], "a failed fetch appends nothing");
            self.run();
        }
        self.session.fetch(&handles, &mut elements).unwrap();
        let mut rest = &elements[1..];
        for (&value, &handle) in values.iter().zip(&handles) {
            let record = self.session.record_of(handle).unwrap();
            let (row, after) = rest.split_at(self.script.width(record));
            rest = after;
            self.fetched.push((value, bits(row)));
        }
        assert!(rest.is_empty());
    }

    /// Adds calls with an invalid one among them: nothing changes.
    fn fail(&mut self, calls: &[Call], rng: &mut Random) {
        let first = self.handles.len();
        let (mut cells, mut operands, mut offsets) = arrays(calls, |value| match value {
            Term::Made(index) if index >= first => (index - first) as i64,
            value => self.handle(value).to_bits(),
        });
        let spoilt = rng.random_range(0..calls.len());
        let of_spoilt = offsets[spoilt] as usize..offsets[spoilt + 1] as usize;
        let released = (0..first).find(|&value| !self.exists[value]);
        match (rng.random_range(0..7), released) {
            (0, _) => cells[spoilt].0 = 6,
            (1, _) => offsets[spoilt] = u32::MAX,
            // A released value, an initial value that does not exist, or a later call.
            (2, Some(value)) => operands[of_spoilt.end - 1] = self.handles[value].to_bits(),
            (3, _) => operands[of_spoilt.end - 1] = -3,
            (4, _) if !calls[spoilt].values.is_empty() => {
                operands[of_spoilt.end - 1] = spoilt as i64
            }
            // A handle in the place of a row, or no operand for the last port.
            (5, _) if calls[spoilt].rows.is_empty() => operands[of_spoilt.start] = i64::MAX,
            (5, _) => operands[of_spoilt.start] = 1 << 32,
            _ => {
                operands.drain(of_spoilt.clone());
                let removed = of_spoilt.len() as u32;
                offsets[spoilt + 1..].iter_mut().for_each(|offset| *offset -= removed);
            }
        }
        let arrays = SessionCalls { cells: &cells, operands: &operands, offsets: &offsets };
        let (before, mut results) = (self.session.statistics(), vec![Handle::initial(0)]);
        let failed = self.session.calls(arrays, &mut results);
        assert!(failed.is_err(), "{arrays:?}");
        assert_eq!((results.len(), self.session.statistics()), (1, before));
    }

    /// Compares the values that exist, and all counts.
    fn check(&self) {
        let statistics = self.session.statistics();
        let mut stored = 0;
        for (value, &handle) in self.handles.iter().enumerate() {
            let exists = self.session.record_of(handle).is_ok();
            assert_eq!(exists, self.exists[value], "value {value}");
            stored += u64::from(exists && !self.is_pending[value]);
        }
        let got = (statistics.stored, statistics.pending, statistics.calls);
        assert_eq!(got, (stored, self.pending, self.calls.1));
        assert!(statistics.held_bytes >= statistics.stored_bytes);
        assert!(statistics.stored_bytes >= 64 * stored);
    }
}

/// Returns calls as arrays of cells, operands and offsets.
fn arrays(
    calls: &[Call],
    bits: impl Fn(Term) -> i64,
) -> (Vec<edbatch_graph::Kind>, Vec<i64>, Vec<u32>) {
    let (mut operands, mut offsets) = (Vec::new(), vec![0]);
    for call in calls {
        operands.extend(call.rows.iter().map(|&row| i64::from(row)));
        operands.extend(call.values.iter().map(|&value| bits(value)));
        offsets.push(operands.len() as u32);
    }
    (calls.iter().map(|call| call.cell).collect(), operands, offsets)
}

/// Carries out a script, and runs after each step with this probability. Returns fetched bits.
fn replay(script: &Script, session: Session, runs: f64, seed: u64) -> Vec<(Term, Vec<u32>)> {
    let (handles, exists, is_pending) = (vec![], vec![], vec![]);
    let (pending, calls, fetched) = (0, (0, 0), vec![]);
    let mut replay =
        Replay { script, session, handles, exists, is_pending, pending, calls, fetched };
    let mut rng = Random::seed_from_u64(seed);
    for op in &script.ops {
        replay.op(op, &mut rng);
        replay.check();
        if rng.random_bool(runs) {
            replay.run();
            replay.check();
        }
    }
    let left = (0..replay.handles.len()).filter(|&value| replay.exists[value]);
    let left: Vec<Term> = left.map(Term::Made).chain([Term::Initial(0)]).collect();
    replay.fetch(&left);
    replay.check();
    replay.fetched
}

/// Computes all values of a script at once: by an engine, and by the interpreter.
fn at_once(
    script: &Script,
    network: &Arc<Network>,
    parameters: &Parameters,
) -> (Vec<Vec<u32>>, Vec<Vec<f32>>) {
    let mut list = CallList::new(network.clone());
    let mut made: Vec<Value> = Vec::new();
    for value in &script.made {
        made.push(match value {
            Made::Given(record, elements) => list.give(*record, elements).unwrap(),
            Made::Call(call) => {
                let value = |&value: &Term| match value {
                    Term::Initial(index) => network.initial_value(index).unwrap(),
                    Term::Made(index) => made[index],
                };
                let values: Vec<Value> = call.values.iter().map(value).collect();
                list.call(call.cell, &call.rows, &values).unwrap()
            }
        });
    }
    made.iter().for_each(|&value| list.emit(value).unwrap());
    let model = CallLists::new(network.clone());
    let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
    let rows = engine.run(&[list.clone()]).unwrap().remove(0);
    let interpreted = interpret(&model, parameters, &[list], Precision::F32).unwrap();
    let interpreted = interpreted.outputs[0].iter().map(<[f32]>::to_vec).collect();
    (rows.iter().map(bits).collect(), interpreted)
}

/// Compares fetched values with those that were computed at once.
fn compare(fetched: &[(Term, Vec<u32>)], expected: &[Vec<u32>], initial: &[u32], what: &str) {
    for (value, got) in fetched {
        let expected = match *value {
            Term::Initial(_) => initial,
            Term::Made(index) => &expected[index],
        };
        assert!(got == expected, "{what}: {value:?} has other bits");
    }
}

/// The probabilities of a run after a step.
const SPLITS: [f64; 3] = [0.0, 0.3, 1.0];

#[test]
fn all_splits_threads_and_policies_compute_the_bits_of_one_run() {
    let mut fetched = 0;
    for seed in 0..u64::from(cases(60)) {
        let mut rng = Random::seed_from_u64(seed);
        let network = Arc::new(random_network(&mut rng).0);
        let parameters = Parameters::random(&network, &mut rng);
        let script = Script::random(&network, &mut rng);
        let (expected, interpreted) = at_once(&script, &network, &parameters);
        for (expected, interpreted) in expected.iter().zip(&interpreted) {
            for (&got, &expected) in expected.iter().zip(interpreted) {
                let got = f32::from_bits(got);
                let close =
                    got == expected || (got - expected).abs() <= 1e-3 * expected.abs().max(1.0);
                assert!(close || got.is_nan() && expected.is_nan(), "{got}, {expected}");
            }
        }
        let initial: Vec<f32> =
            edbatch_runtime::initial_rows(&network, &parameters).row(0).to_vec();
        let initial = bits(&initial);
        let policies: [AnyPolicy; 3] =
            [Box::new(Depth::new()), Box::new(Agenda::new()), Box::new(ByDepth::default())];
        for (number, policy) in policies.into_iter().enumerate() {
            let threads = 1 + number % 2;
            let options = EngineOptions::new().policy(policy).threads(threads);
            let model = CallLists::new(network.clone());
            let engine = Engine::with_options(model, parameters.clone(), options).unwrap();
            for (split, runs) in SPLITS.into_iter().enumerate() {
                let mut session = engine.session(SessionOptions::new()).unwrap();
                if split == 2 && number == 2 {
                    session = session.fork().unwrap();
                }
                let got = replay(&script, session, runs, seed + split as u64);
                let what = format!("seed {seed}, policy {number}, split {split}");
                compare(&got, &expected, &initial, &what);
                fetched += got.len();
            }
        }
    }
    assert!(fetched > 1_000 * cases(60) as usize, "{fetched} values");
}

#[cfg(feature = "cuda")]
#[test]
fn all_splits_compute_the_bits_of_one_run_on_a_device() {
    use edbatch::cuda::Driver;

    let seeds = if all_cases() { 0..8 } else { 0..2 };
    for seed in seeds {
        let mut rng = Random::seed_from_u64(seed);
        let network = Arc::new(random_network(&mut rng).0);
        let parameters = Parameters::random(&network, &mut rng);
        let script = Script::random(&network, &mut rng);
        let (expected, _) = at_once(&script, &network, &parameters);
        let initial = edbatch_runtime::initial_rows(&network, &parameters);
        let program = Program::new(network.clone(), CellStyle::default()).unwrap();
        let program = Arc::new(program);
        let (teams, options) = (Driver::Teams, EngineOptions::new());
        let Some(backend) = crate::emulated::backend(program.clone(), &parameters, teams) else {
            return;
        };
        let model = CallLists::new(network.clone());
        let engine = Engine::with_backend(model, &parameters, program, backend, options).unwrap();
        for (split, runs) in SPLITS.into_iter().enumerate() {
            let session = engine.session(SessionOptions::new()).unwrap();
            let got = replay(&script, session, runs, seed + split as u64);
            compare(&got, &expected, &bits(initial.row(0)), &format!("seed {seed}, split {split}"));
        }
    }
}
