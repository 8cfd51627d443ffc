//! A mini-batch divided between threads: each wires, schedules, plans and runs whole inputs.
//!
//! Threads that share batches wait for each other at every batch, fetch rows that another one
//! wrote, and idle while one of them plans. Inputs have nothing in common, so parts of a mini-batch
//! need none of that: two threads take little more than half the time, wherever the cores are. A
//! part must be large enough to fill its batches; a mini-batch of few inputs stays whole, and the
//! threads share each batch.
//!
//! Where values are so large that those of a mini-batch leave the cache before they are read again
//! (matrices, as in MV-RNN), parts that stay in it are faster on a single thread too.

use std::mem;
use std::ops::Range;
use std::sync::{Arc, LockResult, Mutex, PoisonError};

use edbatch_models::Model;
use edbatch_runtime::{Parts, ThreadPool, span};

use crate::emitted::{Emitted, Sink};
use crate::session::Session;
use crate::statistics::Tally;
use crate::{InputError, RunError};

/// Fewer inputs for each thread are run by all threads together.
const FEWEST: usize = 4;

/// More inputs make batches no faster, but parts less even.
const MOST: usize = 64;

/// Bytes of values that stay in a cache: a quarter of what the cores of a server share.
const CACHED: u128 = 8 << 20;

/// The sessions of an engine, one for each thread of its pool.
pub(crate) struct Workers {
    /// The first one runs what is not divided; its backend may claim the pool then.
    sessions: Vec<Mutex<Session>>,
    /// Which parts are under way: a device launches them together.
    parts: Arc<Parts>,
    pool: ThreadPool,
}

impl Workers {
    /// The sessions of a pool's threads.
    ///
    /// # Panics
    /// If there are not as many.
    pub(crate) fn new(sessions: impl Iterator<Item = Session>, pool: ThreadPool) -> Self {
        let parts = Arc::default();
        let joined = sessions.map(|mut session| {
            session.join(&parts);
            Mutex::new(session)
        });
        let sessions: Vec<_> = joined.collect();
        assert_eq!(sessions.len(), pool.threads(), "a session for each thread");
        Self { sessions, parts, pool }
    }

    /// The session that runs what is not divided.
    pub(crate) fn first(&mut self) -> &mut Session {
        unpoisoned(self.sessions[0].get_mut())
    }

    /// All sessions.
    pub(crate) fn sessions(&mut self) -> impl Iterator<Item = &mut Session> {
        self.sessions.iter_mut().map(|session| unpoisoned(session.get_mut()))
    }

    /// In how many parts inputs are best run.
    fn parts_of<M: Model>(&self, model: &M, inputs: &[M::Input]) -> usize {
        let (threads, all) = (self.sessions.len(), inputs.len());
        let for_threads = match all.div_ceil(threads * MOST) {
            each if threads > 1 && all >= threads * FEWEST => each * threads,
            _ => 1,
        };
        let bytes: u128 = inputs.iter().map(|input| model.bytes(input) as u128).sum();
        let for_cache = bytes.div_ceil(CACHED).min(all as u128) as usize;
        match for_threads.max(for_cache) {
            0 | 1 => 1,
            parts => parts.next_multiple_of(threads),
        }
    }

    /// Divides inputs into parts: a single one, if all together are best.
    pub(crate) fn parts<M: Model>(&self, model: &M, inputs: &[M::Input]) -> Vec<Range<usize>> {
        let work: Vec<usize> = inputs.iter().map(|input| model.work(input)).collect();
        let parts = divide(&work, self.parts_of(model, inputs));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// Runs a mini-batch; as many outputs take what each input emits, and lend their memory, or
    /// take why it failed. Returns what it took, of all threads together.
    pub(crate) fn run<M: Model, E: Emitted>(
        &mut self,
        model: &M,
        inputs: &[M::Input],
        outputs: &mut [Result<E, InputError>],
        still_wanted: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<Tally, RunError> {
        let _mini_batch = span!(INFO, "mini-batch", inputs = inputs.len() as u64);
        if self.parts_of(model, inputs) == 1 {
            let first = self.first();
            first.run(model, inputs.len(), inputs, &mut Into(outputs), still_wanted)?;
            return Ok(first.tally().clone());
        }
        let parts = self.parts(model, inputs);
        // Each part writes its own results, so that no thread waits for another to write.
        let mut rest = outputs;
        let parts = parts.into_iter().map(|part| {
            let (outputs, behind) = mem::take(&mut rest).split_at_mut(part.len());
            rest = behind;
            (part.start, &inputs[part], outputs)
        });
        let parts: Vec<_> = parts.collect();
        let (sessions, under_way) = (&self.sessions, &*self.parts);
        let all = Mutex::new((Tally::default(), None));
        let run = |worker: usize, (first, inputs, outputs): (usize, &[M::Input], &mut [_])| {
            let _part = under_way.part();
            let _span = span!(INFO, "part", first = first as u64, inputs = inputs.len() as u64);
            let mut session = unpoisoned(sessions[worker].lock());
            let still_wanted = |input: usize| still_wanted(first + input);
            let ran = session.run(model, inputs.len(), inputs, &mut Into(outputs), &still_wanted);
            let (tally, failed) = &mut *unpoisoned(all.lock());
            match ran {
                Ok(()) => tally.add(session.tally()),
                // Of several errors that of the first part counts.
                Err(error) if failed.as_ref().is_none_or(|&(other, _)| first < other) => {
                    *failed = Some((first, error.of_part(first)));
                }
                Err(_) => {}
            }
        };
        // Another engine may have claimed the pool: then this thread runs all parts.
        match self.pool.claim() {
            Some(mut pool) => {
                under_way.begin(pool.threads(), parts.len());
                pool.share(parts.into_iter(), run);
            }
            None => {
                under_way.begin(1, parts.len());
                parts.into_iter().for_each(|part| run(0, part));
            }
        }
        match unpoisoned(all.into_inner()) {
            (_, Some((_, error))) => Err(error),
            (tally, None) => Ok(tally),
        }
    }
}

/// What becomes of each input of a mini-batch. What stands there beforehand lends its memory.
struct Into<'a, E>(&'a mut [Result<E, InputError>]);

impl<E: Emitted> Sink<E> for Into<'_, E> {
    fn begin(&mut self, input: usize, emitted: &mut E) {
        if let Ok(lent) = &mut self.0[input] {
            *emitted = mem::take(lent);
        }
    }

    fn done(&mut self, input: usize, emitted: Result<&mut E, InputError>) {
        self.0[input] = emitted.map(mem::take);
    }
}

/// Cuts pieces of work into so many parts of about the same work, in their order. Some may be
/// empty.
fn divide(pieces: &[usize], parts: usize) -> impl Iterator<Item = Range<usize>> {
    // What is no work at all is divided like any other.
    let work = |piece: &usize| (*piece).max(1) as u128;
    let all: u128 = pieces.iter().map(work).sum();
    let (mut end, mut before) = (0, 0);
    (1..=parts as u128).map(move |part| {
        let first = end;
        // A piece belongs to the part that its middle lies in.
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

/// What was locked, whatever a panic left in it: every mini-batch starts from the beginning.
fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_about_as_much_work_and_leave_nothing_out() {
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
            let (all, most) = (work.iter().sum::<usize>(), 22);
            for range in ranges {
                let part: usize = work[range].iter().sum();
                assert!(part.abs_diff(all / parts) <= most, "{part} of {all} in {parts}");
            }
        }
    }
}
