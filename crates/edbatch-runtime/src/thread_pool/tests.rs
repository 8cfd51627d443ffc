use std::sync::atomic::AtomicUsize;

use super::*;

#[test]
fn every_piece_is_processed_once() {
    for threads in [2, 4] {
        let pool = ThreadPool::new(threads);
        let mut workers = pool.claim().expect("not claimed");
        assert_eq!(workers.threads(), threads);
        // Miri is some thousand times slower.
        for round in 0..if cfg!(miri) { 10 } else { 2000 } {
            let mut numbers = vec![0_usize; round % 7 + 1];
            workers.share(numbers.iter_mut(), |worker, piece| {
                assert!(worker < threads);
                *piece += 1;
            });
            assert!(numbers.iter().all(|&times| times == 1), "{numbers:?}");
            if round % 500 == 0 {
                thread::sleep(4 * SPIN_TIME);
            }
        }
    }
}

#[test]
fn helpers_take_part() {
    let mut helpers = Helpers::new(1).unwrap();
    let started = AtomicUsize::new(0);
    // The caller waits inside its work until the helper has started.
    helpers.run(&|worker| {
        started.fetch_add(1, Ordering::SeqCst);
        while worker == 0 && started.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
    });
    assert_eq!(started.into_inner(), 2);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_remains_usable() {
    for panicking in [0, 1] {
        let pool = ThreadPool::new(2);
        let started = AtomicBool::new(false);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pool.claim().expect("not claimed").0.run(&|worker| {
                while worker == 0 && !started.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                started.store(true, Ordering::SeqCst);
                assert!(worker != panicking, "worker {panicking} panics");
            });
        }));
        let message = result.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*message, format!("worker {panicking} panics"));
        let mut done = [false; 5];
        let mut workers = pool.claim().expect("not claimed");
        workers.share(done.iter_mut(), |_, done| *done = true);
        assert_eq!(done, [true; 5]);
    }
}

#[test]
fn after_a_helper_was_stopped_the_caller_works_alone_for_a_while() {
    let pool = ThreadPool::new(2);
    let mut workers = pool.claim().expect("not claimed");
    let (began, helps) = (Instant::now(), AtomicBool::new(false));
    workers.share_alike(0..2, |worker, _| {
        if worker == 1 {
            helps.store(true, Ordering::SeqCst);
            thread::sleep(4 * began.elapsed() + 1000 * LATE);
        }
        while !helps.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    });
    let late = |pool: &ClaimedPool<'_>| pool.0.wary_until.saturating_duration_since(began);
    assert!(late(&workers) > 10 * LATE, "the helper was late");
    assert_eq!(workers.0.alone, Duration::ZERO, "for the first time");
    let hour = Duration::from_secs(3600);
    workers.0.wary_until = Instant::now() + hour;
    workers.0.was_late(LATE);
    assert_eq!(workers.0.alone, ALONE * LATE);
    workers.0.wary_until = Instant::now() + hour;
    workers.0.was_late(LATE);
    assert_eq!(workers.0.alone, 2 * ALONE * LATE);
    workers.0.alone_until = Instant::now() + hour;
    workers.share_alike(0..100, |worker, _| assert_eq!(worker, 0));
    workers.0.wary_until = began;
    workers.0.was_late(LATE);
    assert_eq!(workers.0.alone, Duration::ZERO);
}

/// A task that is running on a pool cannot claim the pool for a part of its work.
#[test]
fn a_claimed_pool_cannot_be_claimed_again() {
    let pool = ThreadPool::new(2);
    let workers = pool.claim();
    assert!(workers.is_some() && pool.clone().claim().is_none());
    drop(workers);
    assert!(pool.claim().is_some());
    assert!(ThreadPool::new(1).claim().is_none(), "the caller's is the only thread");
}
