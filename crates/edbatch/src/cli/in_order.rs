//! Work for several threads whose results are taken in the order of the work.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use edbatch_runtime::span;

use super::failure::Failure;

/// Pieces that may be waiting for a thread, in work, or done before an earlier one; per thread.
const AHEAD: usize = 3;

/// Calls a worker on every piece, and `take` on the results in the order of `pieces`.
///
/// Each thread makes a worker of its own when it gets its first piece. The failure that comes first
/// in the order of the pieces is the one returned, whatever the threads do. No more than three
/// pieces a thread are held at once.
pub(crate) fn in_order<T: Send, R: Send, W: FnMut(T) -> Result<R, Failure>>(
    threads: usize,
    pieces: impl Iterator<Item = Result<T, Failure>>,
    worker: impl Fn() -> Result<W, Failure> + Sync,
    take: impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (claim, claims) = channel();
    let (deliver, results) = channel();
    let claims = Mutex::new(claims);
    thread::scope(|scope| {
        for number in 1..=threads {
            let (claims, worker, deliver) = (&claims, &worker, deliver.clone());
            let named = thread::Builder::new().name(format!("worker {number}"));
            let spawned = named.spawn_scoped(scope, move || labour(claims, &deliver, worker));
            spawned.expect("the system gives a thread");
        }
        drop(deliver);
        conduct(threads * AHEAD, pieces, claim, &results, take)
    })
}

/// One thread: until there are no more pieces, or the results are no longer taken.
fn labour<T, R, W: FnMut(T) -> Result<R, Failure>>(
    claims: &Mutex<Receiver<(usize, T)>>,
    deliver: &Sender<(usize, Result<R, Failure>)>,
    worker: &(impl Fn() -> Result<W, Failure> + Sync),
) {
    let _span = span!(INFO, "worker");
    let next = || claims.lock().expect("nothing panics under this lock").recv();
    let mut own: Option<W> = None;
    while let Ok((index, piece)) = next() {
        // A thread that died in silence would leave the others waiting for its result.
        let result = catch_unwind(AssertUnwindSafe(|| match &mut own {
            Some(own) => own(piece),
            None => own.insert(worker()?)(piece),
        }));
        let bug = || Err(Failure::new("stopped by a bug in edbatch (see above); please report it"));
        if deliver.send((index, result.unwrap_or_else(|_| bug()))).is_err() {
            return;
        }
    }
}

/// Hands out pieces and takes results, until all are taken or one is a failure.
fn conduct<T, R>(
    most: usize,
    mut pieces: impl Iterator<Item = Result<T, Failure>>,
    claim: Sender<(usize, T)>,
    results: &Receiver<(usize, Result<R, Failure>)>,
    mut take: impl FnMut(R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut handed, mut taken) = (0, 0);
    let mut early = BTreeMap::new();
    let mut end = None;
    loop {
        while end.is_none() && handed - taken < most {
            match pieces.next() {
                Some(Ok(piece)) => {
                    claim.send((handed, piece)).expect("the receiver lives as long as this");
                    handed += 1;
                }
                Some(Err(failure)) => end = Some(Err(failure)),
                None => end = Some(Ok(())),
            }
        }
        if let Some(end) = end.take_if(|_| handed == taken) {
            return end;
        }
        let (index, result) = results.recv().expect("every piece gives a result");
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
        let failure = match in_order(threads, (0..50).map(Ok), worker, take) {
            Err(Failure::Message(message)) => Some(message),
            _ => None,
        };
        (taken, failure)
    }

    #[test]
    fn results_keep_the_order_of_the_pieces() {
        for threads in [1, 2, 5] {
            assert_eq!(squares(threads, 99), ((0..50).map(|n| n * n).collect(), None));
        }
    }

    #[test]
    fn the_first_failure_ends_it() {
        for threads in [1, 2, 5] {
            let expected = ((0..7).map(|n| n * n).collect(), Some("7".into()));
            assert_eq!(squares(threads, 7), expected);
        }
    }

    #[test]
    fn a_panic_is_a_failure() {
        let worker = || Ok(|n: u64| if n == 3 { panic!("a bug") } else { Ok(n) });
        let result = in_order(2, (0..50).map(Ok), worker, |_| Ok(()));
        assert!(matches!(result, Err(Failure::Message(_))));
    }
}
