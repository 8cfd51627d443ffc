//! A parallel map over several threads that delivers results in the order of the inputs.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use edbatch_runtime::span;

use crate::failure::Failure;
use crate::out_of_memory;

/// The maximum number of pieces in flight per thread: queued, running, or waiting for the result of
/// an earlier one.
const MAX_IN_FLIGHT: usize = 3;

/// The size of a thread's stack in bytes.
const STACK: usize = 2 << 20;

/// Calls a worker on every piece, and `take` on the results in the order of `pieces`.
///
/// Each thread makes its own worker when it gets its first piece. Returns the first failure in the
/// order of the pieces, regardless of timing. At most three pieces per thread are in memory.
pub(crate) fn parallel_map<T: Send, R: Send, W: FnMut(T) -> Result<R, Failure>>(
    threads: usize,
    pieces: impl Iterator<Item = Result<T, Failure>>,
    worker: impl Fn() -> Result<W, Failure> + Sync,
    take: impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (send_piece, queue) = channel();
    let (send_result, results) = channel();
    let queue = Mutex::new(queue);
    let cannot_start = |why: &dyn fmt::Display| {
        Failure::new(format_args!(
            "cannot start {threads} threads: {why}: use fewer (--threads), or allow more memory"
        ))
    };
    // A thread that starts but cannot allocate the rest of what it needs aborts the process.
    let needed = threads * (STACK + (1 << 20));
    Vec::<u8>::new().try_reserve_exact(needed).map_err(|error| cannot_start(&error))?;
    thread::scope(|scope| {
        for number in 1..=threads {
            let (queue, worker, send_result) = (&queue, &worker, send_result.clone());
            let thread = thread::Builder::new().name(format!("worker {number}")).stack_size(STACK);
            let started = thread.spawn_scoped(scope, move || work(queue, &send_result, worker));
            if let Err(error) = started {
                // The threads that have started end when they find no piece.
                drop(send_piece);
                return Err(cannot_start(&error));
            }
        }
        drop(send_result);
        dispatch(threads * MAX_IN_FLIGHT, pieces, send_piece, &results, take)
    })
}

/// The loop of one thread. It ends after the last piece, or when the receiver of the results is
/// gone.
fn work<T, R, W: FnMut(T) -> Result<R, Failure>>(
    queue: &Mutex<Receiver<(usize, T)>>,
    send_result: &Sender<(usize, Result<R, Failure>)>,
    worker: &(impl Fn() -> Result<W, Failure> + Sync),
) {
    let _span = span!(INFO, "worker");
    let next = || queue.lock().expect("no thread panics with this lock").recv();
    let mut own: Option<W> = None;
    while let Ok((index, piece)) = next() {
        // Without a result for every piece, the dispatcher would wait for ever.
        let result = catch_unwind(AssertUnwindSafe(|| {
            out_of_memory::check()?;
            let result = match &mut own {
                Some(own) => own(piece),
                None => own.insert(worker()?)(piece),
            };
            out_of_memory::check().and(result)
        }));
        let bug = || Err(Failure::new("stopped by a bug in edbatch (see above); please report it"));
        if send_result.send((index, result.unwrap_or_else(|_| bug()))).is_err() {
            return;
        }
    }
}

/// Sends pieces to the threads and takes results, until the end or the first failure.
fn dispatch<T, R>(
    max_in_flight: usize,
    mut pieces: impl Iterator<Item = Result<T, Failure>>,
    send_piece: Sender<(usize, T)>,
    results: &Receiver<(usize, Result<R, Failure>)>,
    mut take: impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut sent, mut taken) = (0, 0);
    let mut early = BTreeMap::new();
    let mut end = None;
    loop {
        while end.is_none() && sent - taken < max_in_flight {
            match pieces.next() {
                Some(Ok(piece)) => {
                    send_piece.send((sent, piece)).expect("the queue outlives the dispatcher");
                    sent += 1;
                }
                Some(Err(failure)) => end = Some(Err(failure)),
                None => end = Some(Ok(())),
            }
        }
        if let Some(end) = end.take_if(|_| sent == taken) {
            return end;
        }
        let (index, result) = results.recv().expect("every piece has a result");
        early.insert(index, result);
        while let Some(result) = early.remove(&taken) {
            take(result?)?;
            taken += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(threads: usize, fails_at: u64) -> (Vec<u64>, Option<String>) {
        let mut taken = Vec::new();
        let worker = || {
            Ok(move |n: u64| {
                thread::sleep(std::time::Duration::from_micros((n * 7919) % 300));
                if n >= fails_at { Err(Failure::new(n)) } else { Ok(n * n) }
            })
        };
        let take = |square| {
            taken.push(square);
            Ok(())
        };
        let failure = match parallel_map(threads, (0..50).map(Ok), worker, take) {
            Err(Failure::Message(message)) => Some(message),
            _ => None,
        };
        (taken, failure)
    }

    #[test]
    fn results_are_in_order() {
        for threads in [1, 2, 5] {
            assert_eq!(squares(threads, 99), ((0..50).map(|n| n * n).collect(), None));
        }
    }

    #[test]
    fn the_first_failure_in_order_is_returned() {
        for threads in [1, 2, 5] {
            let expected = ((0..7).map(|n| n * n).collect(), Some("7".into()));
            assert_eq!(squares(threads, 7), expected);
        }
    }

    #[test]
    fn a_panic_is_a_failure() {
        let worker = || Ok(|n: u64| if n == 3 { panic!("a bug") } else { Ok(n) });
        let result = parallel_map(2, (0..50).map(Ok), worker, |_| Ok(()));
        assert!(matches!(result, Err(Failure::Message(_))));
    }
}
