//! Divides a mini-batch between threads. Each thread wires, schedules and plans whole inputs.
//!
//! Threads that share batches wait for each other at every batch, fetch rows that another thread
//! wrote, and idle while one of them plans. Inputs do not depend on each other, so parts of a
//! mini-batch avoid these costs: two threads take little more than half the time, wherever their
//! cores are. A part must be large enough to fill its batches. A mini-batch of few inputs is not
//! divided, and the threads share each batch.
//!
//! A backend that [prefers forks](edbatch_runtime::Backend::prefers_forks) is forked for each
//! thread, with a loop over rounds of its own; then parts never wait for each other. The parts on
//! any other backend share it, and run their rounds together. Then each round is a meeting of the
//! threads, so a device that has [limits](edbatch_runtime::Backend::division) runs mini-batches
//! with small rounds, such as the steps of a decoder, in one part. The size of rounds follows from
//! the mini-batch before.
//!
//! The values of a large mini-batch leave the cache before they are read again, and so do large
//! values, such as the matrices of MV-RNN. Then parts that fit into the cache are faster on a
//! single thread too, unless the weights of a cell are so large that reading them again for each
//! part takes longer. A policy of the caller always sees the whole mini-batch of a single thread.

use std::mem;
use std::ops::Range;

use edbatch_models::Model;
use edbatch_policy::AnyPolicy;
use edbatch_runtime::{Bytes, PartLimits, ThreadPool, span};

use crate::output::{Output, Sink};
use crate::rounds::Rounds;
use crate::statistics::Tally;
use crate::wiring::Admission;
use crate::{InputError, RunError, RunOptions, Session, SessionOptions};

/// Minimum number of inputs per thread for dividing a mini-batch between threads.
const MIN_INPUTS: usize = 4;

/// Maximum inputs of a part, on average. With more, batches are not faster, values leave the cache,
/// and parts differ more in work.
const MAX_INPUTS: usize = 64;

/// If a cell multiplies by more bytes of packed weights than this, `MAX_INPUTS` does not apply:
/// about four L2 caches.
const MAX_WEIGHTS: usize = 4 << 20;

/// Maximum size of a part's values in bytes, averaged over the parts of a mini-batch: a quarter of
/// a server's shared cache of 32 MiB.
const CACHED: u128 = 8 << 20;

/// The loops over rounds of an engine: one for each thread of its pool, or one for all of them.
pub(crate) struct Workers {
    /// The first also runs streams and mini-batches that are not divided. Its backend may
    /// use the pool for these.
    rounds: Vec<Rounds>,
    pool: ThreadPool,
    /// The backend's [`largest_cell`](edbatch_runtime::Backend::largest_cell).
    largest_cell: Option<usize>,
    /// The rounds of the last mini-batch, if it was divided for a device.
    expected: Option<ExpectedNodes>,
}

/// The expected nodes of the rounds that decide about the parts of a mini-batch for a device: of
/// those after a value was awaited, or of the first if no value is.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedNodes {
    awaits: bool,
    /// The nodes of this number of inputs, or, if none awaits a value, of inputs with this work.
    nodes: usize,
    of: usize,
}

impl ExpectedNodes {
    /// The nodes that the last mini-batch had.
    fn after<M: Model>(model: &M, inputs: &[M::Input], ran: &Tally) -> Option<Self> {
        let [(began, nodes), (resumed, nodes_after)] = ran.rounds;
        match (began, resumed) {
            (0, _) => None,
            (_, 0) => Some(Self::of_inputs(model, inputs, nodes)),
            _ => Some(Self { awaits: true, nodes: nodes_after, of: began }),
        }
    }

    /// The nodes that a mini-batch had whose inputs await no value.
    pub(crate) fn of_inputs<M: Model>(model: &M, inputs: &[M::Input], nodes: usize) -> Self {
        Self { awaits: false, nodes, of: work(model, inputs) }
    }

    fn of<M: Model>(self, model: &M, inputs: &[M::Input]) -> u128 {
        let of = if self.awaits { inputs.len() } else { work(model, inputs) };
        self.nodes as u128 * of as u128 / self.of as u128
    }
}

/// Returns the work of inputs, at least 1 each.
fn work<M: Model>(model: &M, inputs: &[M::Input]) -> usize {
    let work = inputs.iter().map(|input| model.work(input).max(1));
    work.fold(0, usize::saturating_add)
}

impl Workers {
    /// Creates the loops of a pool's threads. `first` has a slot for each thread, or it has one
    /// slot and is forked for the other threads.
    pub(crate) fn new(first: Rounds, pool: ThreadPool) -> Self {
        let forks = if first.backend().prefers_forks() { pool.threads() - 1 } else { 0 };
        let forks: Vec<_> = (0..forks).map(|_| first.fork()).collect();
        let largest_cell = first.backend().largest_cell();
        let rounds = [first].into_iter().chain(forks).collect();
        Self { rounds, pool, largest_cell, expected: None }
    }

    /// Returns the loop for streams and for mini-batches that are not divided.
    pub(crate) fn first(&self) -> &Rounds {
        &self.rounds[0]
    }

    /// Creates an empty session with the weights, the policy and the threads of the engine.
    pub(crate) fn session(&self, options: SessionOptions) -> Session {
        self.first().session(&self.pool, options)
    }

    /// Sets the policy of all loops.
    pub(crate) fn set_policy(&self, policy: &AnyPolicy) {
        self.rounds.iter().for_each(|rounds| rounds.set_policy(policy));
    }

    /// Returns the memory of all backends. Weights count once, because the backends share them.
    pub(crate) fn bytes(&self) -> Bytes {
        let bytes = self.rounds.iter().map(|rounds| rounds.backend().bytes());
        bytes.fold(Bytes::default(), |all, bytes| Bytes {
            weights: bytes.weights,
            arena: all.arena + bytes.arena,
            store: all.store + bytes.store,
        })
    }

    /// Returns the loop and the slot of a thread.
    fn place(&self, worker: usize) -> (&Rounds, usize) {
        match &self.rounds[..] {
            [shared] => (shared, worker),
            forks => (&forks[worker], 0),
        }
    }

    /// Divides inputs into parts. There may be a single part.
    pub(crate) fn parts<M: Model>(&self, model: &M, inputs: &[M::Input]) -> Vec<Range<usize>> {
        self.division(model, inputs).parts(model, inputs)
    }

    /// Returns the rules by which a mini-batch is divided.
    fn division<M: Model>(&self, model: &M, inputs: &[M::Input]) -> Division {
        let by_default = self.first().schedules_by_default();
        let limits = self.first().backend().division();
        let division = Division::new(self.pool.threads(), self.largest_cell, by_default);
        // Before the first mini-batch: an input that awaits a value goes on by a node.
        let expected = || {
            self.expected.unwrap_or_else(|| match self.first().probe(model, &inputs[0]) {
                (_, true) => ExpectedNodes { awaits: true, nodes: 1, of: 1 },
                (nodes, _) => ExpectedNodes::of_inputs(model, &inputs[..1], nodes),
            })
        };
        division.on_device(limits, model, inputs, expected)
    }

    /// Runs a mini-batch. `outputs` has an entry per input, whose memory is reused. Returns the
    /// counts and times, summed over the threads.
    pub(crate) fn run<M: Model, O: Output>(
        &mut self,
        model: &M,
        inputs: &[M::Input],
        outputs: &mut [Result<O, InputError>],
        options: &RunOptions<'_>,
    ) -> Result<Tally, RunError> {
        let _mini_batch = span!(INFO, "mini-batch", inputs = inputs.len() as u64);
        let division = self.division(model, inputs);
        let ran = if division.count(model, inputs) == 1 {
            let &RunOptions { still_wanted, only_finite } = options;
            let admission = Admission { width: inputs.len(), still_wanted, only_finite };
            self.first().run(0, model, inputs, admission, &mut Into(outputs))?
        } else {
            self.run_parts(model, inputs, division.parts(model, inputs), outputs, options)?
        };
        if division.on_device.is_some() && self.pool.threads() > 1 {
            self.expected = ExpectedNodes::after(model, inputs, &ran).or(self.expected);
        }
        Ok(ran)
    }

    /// Runs the parts of a mini-batch on the threads of the pool.
    fn run_parts<M: Model, O: Output>(
        &self,
        model: &M,
        inputs: &[M::Input],
        parts: Vec<Range<usize>>,
        outputs: &mut [Result<O, InputError>],
        options: &RunOptions<'_>,
    ) -> Result<Tally, RunError> {
        let &RunOptions { still_wanted, only_finite } = options;
        let mut ran: Vec<_> = parts.iter().map(|_| Ok(Tally::default())).collect();
        // Each part writes its own results, so that no thread waits for another to write.
        let mut rest = outputs;
        let parts = parts.into_iter().zip(&mut ran).map(|(part, ran)| {
            let (outputs, after) = mem::take(&mut rest).split_at_mut(part.len());
            rest = after;
            (part, outputs, ran)
        });
        let parts: Vec<_> = parts.collect();
        type Ran<'a, O> = (Range<usize>, &'a mut [O], &'a mut Result<Tally, RunError>);
        let run = |worker: usize, (part, outputs, ran): Ran<'_, _>| {
            let (first, inputs) = (part.start, &inputs[part]);
            let (rounds, slot) = self.place(worker);
            let _part = rounds.rendezvous.part();
            let _span = span!(INFO, "part", first = first as u64, inputs = inputs.len() as u64);
            let still_wanted = |input: usize| still_wanted(first + input);
            let still_wanted = &still_wanted;
            let admission = Admission { width: inputs.len(), still_wanted, only_finite };
            let done = rounds.run(slot, model, inputs, admission, &mut Into(outputs));
            *ran = done.map_err(|error| error.of_part(first));
        };
        // If another engine has claimed the pool, this thread runs all parts.
        match self.pool.claim() {
            Some(mut pool) => {
                self.begin(pool.threads(), parts.len());
                pool.share(parts.into_iter(), run);
            }
            None => {
                self.begin(1, parts.len());
                parts.into_iter().for_each(|part| run(0, part));
            }
        }
        // If several parts failed, the first part's error is returned.
        let mut all = Tally::default();
        ran.into_iter().try_for_each(|part| part.map(|part| all.add(&part)))?;
        Ok(all)
    }

    /// Prepares the rendezvous of the parts, if they share a loop.
    fn begin(&self, threads: usize, parts: usize) {
        if let [shared] = &self.rounds[..] {
            shared.rendezvous.begin(threads, parts);
        }
    }
}

/// The results of a mini-batch. The memory of the old entries is reused.
struct Into<'a, O>(&'a mut [Result<O, InputError>]);

impl<O: Output> Sink<O> for Into<'_, O> {
    fn begin(&mut self, input: usize, output: &mut O) {
        if let Ok(lent) = &mut self.0[input] {
            *output = mem::take(lent);
        }
    }

    fn done(&mut self, input: usize, output: Result<&mut O, InputError>) {
        self.0[input] = output.map(mem::take);
    }
}

/// The rules by which an engine or a trainer divides mini-batches.
#[derive(Clone, Copy)]
pub(crate) struct Division {
    threads: usize,
    /// Maximum inputs of a part, on average.
    max_inputs: usize,
    /// The number of parts on a device with limits, unless values are large.
    on_device: Option<usize>,
}

impl Division {
    /// Rules for this number of threads, for a backend with this
    /// [`largest_cell`](edbatch_runtime::Backend::largest_cell). `by_default` is false if the
    /// caller set the policy.
    pub(crate) fn new(threads: usize, largest_cell: Option<usize>, by_default: bool) -> Self {
        let is_limited = match largest_cell {
            Some(bytes) => bytes <= MAX_WEIGHTS && (threads > 1 || by_default),
            None => threads > 1,
        };
        let max_inputs = if is_limited { MAX_INPUTS } else { usize::MAX };
        Self { threads, max_inputs, on_device: None }
    }

    /// Returns the rules for a mini-batch on a device with these limits, if it has any. `expected`
    /// is called only if the mini-batch may have several parts.
    pub(crate) fn on_device<M: Model>(
        self,
        limits: Option<PartLimits>,
        model: &M,
        inputs: &[M::Input],
        expected: impl FnOnce() -> ExpectedNodes,
    ) -> Self {
        let Some(limits) = limits else { return self };
        let parts = self.threads.min(limits.parts).min(inputs.len() / limits.inputs.max(1));
        let is_large = || expected().of(model, inputs) >= limits.nodes as u128;
        let parts = if parts > 1 && is_large() { parts } else { 1 };
        Self { on_device: Some(parts), ..self }
    }

    /// Divides inputs into parts. There may be a single part.
    pub(crate) fn parts<M: Model>(self, model: &M, inputs: &[M::Input]) -> Vec<Range<usize>> {
        let work: Vec<usize> = inputs.iter().map(|input| model.work(input)).collect();
        let parts = divide(&work, self.count(model, inputs));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Returns the number of parts into which to divide inputs.
    fn count<M: Model>(self, model: &M, inputs: &[M::Input]) -> usize {
        let Self { threads, max_inputs, on_device } = self;
        let all = inputs.len();
        let for_threads =
            on_device.unwrap_or_else(|| match all.div_ceil(threads.saturating_mul(max_inputs)) {
                each if threads == 1 || all >= threads * MIN_INPUTS => each * threads,
                _ => 1,
            });
        let bytes: u128 = inputs.iter().map(|input| model.bytes(input) as u128).sum();
        let for_cache = bytes.div_ceil(CACHED).min(all as u128) as usize;
        match for_threads.max(for_cache) {
            0 | 1 => 1,
            parts if Some(parts) == on_device => parts,
            parts => parts.next_multiple_of(threads),
        }
    }
}

/// Divides consecutive pieces of work into `parts` ranges of about the same work. Ranges may be
/// empty.
fn divide(pieces: &[usize], parts: usize) -> impl Iterator<Item = Range<usize>> {
    // Zero work counts as 1, so that such pieces are divided too.
    let work = |piece: &usize| (*piece).max(1) as u128;
    let all: u128 = pieces.iter().map(work).sum();
    let (mut end, mut before) = (0, 0);
    (1..=parts as u128).map(move |part| {
        let first = end;
        // A piece belongs to the part that contains its middle.
        let bound = 2 * all * part;
        while let Some(work) = pieces.get(end).map(work)
            && (2 * before + work) * parts as u128 <= bound
        {
            before += work;
            end += 1;
        }
        first..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_thread_limits_inputs_unless_weights_are_large_or_the_caller_set_a_policy() {
        let max = |threads, largest_cell, by_default| {
            Division::new(threads, largest_cell, by_default).max_inputs
        };
        let small = Some(MAX_WEIGHTS);
        assert_eq!(max(1, small, true), MAX_INPUTS);
        assert_eq!([max(1, small, false), max(1, None, true)], [usize::MAX; 2]);
        assert_eq!(max(1, Some(MAX_WEIGHTS + 1), true), usize::MAX);
        assert_eq!([max(2, small, false), max(2, None, false)], [MAX_INPUTS; 2]);
        assert_eq!(max(2, Some(MAX_WEIGHTS + 1), true), usize::MAX);
    }

    #[test]
    fn parts_have_about_the_same_work_and_cover_all_pieces() {
        let divided = |work: &[usize], parts| divide(work, parts).collect::<Vec<_>>();
        assert_eq!(divided(&[1; 8], 2), [0..4, 4..8]);
        assert_eq!(divided(&[5, 1, 1, 1, 1, 1], 2), [0..1, 1..6]);
        assert_eq!(divided(&[1, 1, 9, 1], 3), [0..2, 2..3, 3..4]);
        assert_eq!(divided(&[usize::MAX, 1, 1], 2), [0..1, 1..3]);
        assert_eq!(divided(&[0; 4], 2), [0..2, 2..4]);
        assert_eq!(divided(&[], 2), [0..0, 0..0]);
        for parts in 1..9 {
            let work: Vec<_> = (0..50).map(|i| i * 37 % 23).collect();
            let ranges = divided(&work, parts);
            assert!(ranges.iter().flat_map(Clone::clone).eq(0..50), "{ranges:?}");
            let (all, max) = (work.iter().sum::<usize>(), 22);
            for range in ranges {
                let part: usize = work[range].iter().sum();
                assert!(part.abs_diff(all / parts) <= max, "{part} of {all} in {parts}");
            }
        }
    }
}
