//! A pool of threads that work on one task at a time.
//!
//! A batch of a few rows takes microseconds, so that starting threads for it, or waking them, costs
//! more than they bring. A helper therefore looks for work without sleeping for as long as a batch
//! takes, and then sleeps. The caller works too, and waits only for helpers that have begun: where
//! something else keeps a helper from running, the caller does it all, and loses nothing.
//!
//! Threads started per batch, or a fork and join by work stealing, cost several microseconds, which
//! is as much as a batch of few rows takes.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use std::{fmt, mem};

/// How long a helper looks for work before it sleeps.
const PATIENCE: Duration = Duration::from_micros(100);

/// Looks between two looks at the clock.
const LOOKS: usize = 64;

/// Threads that wait for work. Clones are handles of the same threads.
#[derive(Clone, Debug)]
pub struct ThreadPool {
    threads: usize,
    helpers: Arc<Mutex<Helpers>>,
}

impl ThreadPool {
    /// The most threads that a pool can have.
    pub const MOST: usize = 1000;

    /// A pool of so many threads, the caller's among them: at least 1.
    ///
    /// # Panics
    /// If there are more than [`MOST`](Self::MOST).
    #[must_use]
    pub fn new(threads: usize) -> Self {
        assert!(threads <= Self::MOST, "at most {} threads", Self::MOST);
        let threads = threads.max(1);
        Self { threads, helpers: Arc::new(Mutex::new(Helpers::new(threads - 1))) }
    }

    /// How many threads there are, the caller's among them.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The threads, for one task after another until this is dropped. `None` if there is none but
    /// the caller's, or if they work for somebody else at the moment.
    #[must_use]
    pub fn claim(&self) -> Option<ClaimedPool<'_>> {
        if self.threads == 1 {
            return None;
        }
        match self.helpers.try_lock() {
            Ok(helpers) => Some(ClaimedPool(helpers)),
            // A task has panicked; the helpers caught it and wait for the next.
            Err(TryLockError::Poisoned(error)) => Some(ClaimedPool(error.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The threads of a pool, claimed by one caller.
#[derive(Debug)]
pub struct ClaimedPool<'a>(MutexGuard<'a, Helpers>);

impl ClaimedPool<'_> {
    /// How many threads there are, the caller's among them.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0.threads.len() + 1
    }

    /// Does `work` on each of the pieces, once; it also takes the number of the worker. Every other
    /// worker takes pieces from the back, so that in step after step of a mini-batch it finds in
    /// its cache what it wrote before.
    ///
    /// # Panics
    /// As `work` panics on any of them. The workers may be used again.
    pub fn share<T: Send>(
        &mut self,
        pieces: impl DoubleEndedIterator<Item = T> + Send,
        work: impl Fn(usize, T) + Sync,
    ) {
        let pieces = Mutex::new(pieces);
        let next = |worker: usize| {
            let mut pieces = pieces.lock().expect("nothing panics under this lock");
            if worker.is_multiple_of(2) { pieces.next() } else { pieces.next_back() }
        };
        self.0.run(&|worker| {
            while let Some(piece) = next(worker) {
                work(worker, piece);
            }
        });
    }
}

/// The threads of a pool but the caller's.
#[derive(Debug)]
struct Helpers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The number of the last task.
    number: u64,
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// On cache lines of its own: helpers look at it all the time, and a thread that writes beside it
/// would wait.
#[repr(align(128))]
struct Shared {
    /// The number of the task times [`NUMBER`], [`OPEN`] while helpers may begin it, and
    /// how many are at it.
    state: AtomicU64,
    /// *Invariant*: written only while the state is not open and no helper is at work; read only by
    /// those that are.
    work: UnsafeCell<Option<&'static Work<'static>>>,
    asleep: Vec<AtomicBool>,
    stop: AtomicBool,
    panicked: AtomicBool,
    /// What a helper panicked with, once it has `panicked`.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: all fields but `work` may be shared, and by its invariant `work` is never written while
// another thread reads it; what it refers to is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to the thread that made it.
unsafe impl Send for Shared {}

const OPEN: u64 = 1 << 16;
const NUMBER: u64 = 1 << 17;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Helpers {
    fn new(helpers: usize) -> Self {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            asleep: (0..helpers).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let help = |index| {
            let shared = shared.clone();
            let helper = thread::Builder::new().name(format!("helper {}", index + 1));
            helper.spawn(move || shared.help(index)).expect("the system gives a thread")
        };
        let threads = (0..helpers).map(help).collect();
        Self { shared, threads, number: 0 }
    }

    /// Calls `work` on the caller's thread, with 0, and on any helpers that come in time, with
    /// their numbers. It must divide the work by itself, so that the caller's call alone does
    /// all that no helper does.
    ///
    /// # Panics
    /// As `work` panics on any of them.
    fn run(&mut self, work: &Work<'_>) {
        // SAFETY: `Closing` waits, whatever happens, until no helper uses the reference any more,
        // and the borrow of `work` lasts longer than that.
        let work_for_helpers = unsafe { mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        self.number += 1;
        // One may be left of a run in which the caller panicked too.
        self.shared.panicked.store(false, Ordering::Relaxed);
        // SAFETY: the last run closed the state and waited for all helpers, and `&mut self` keeps
        // others from running: by the invariant no helper reads it.
        unsafe { *self.shared.work.get() = Some(work_for_helpers) };
        self.shared.state.store(self.number * NUMBER + OPEN, Ordering::SeqCst);
        let closing = Closing(&self.shared);
        for (asleep, helper) in self.shared.asleep.iter().zip(&self.threads) {
            wake(asleep, helper.thread());
        }
        work(0);
        drop(closing);
        if self.shared.panicked.load(Ordering::Relaxed) {
            let panic = self.shared.panic.lock().expect("nothing panics under this lock").take();
            panic::resume_unwind(panic.expect("kept before it was said"));
        }
    }
}

fn wake(asleep: &AtomicBool, helper: &Thread) {
    if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
        helper.unpark();
    }
}

/// Lets no more helpers begin, and waits for those that have.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut looks = 0;
        let mut state = self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        while state & (OPEN - 1) != 0 {
            looks += 1;
            if looks % LOOKS == 0 {
                thread::yield_now();
            }
            std::hint::spin_loop();
            state = self.0.state.load(Ordering::Acquire);
        }
    }
}

impl Shared {
    /// The life of a helper.
    fn help(&self, index: usize) {
        let mut done = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let waiting = Instant::now();
            let mut looks = 0;
            while !self.begin(&mut done, index + 1) {
                std::hint::spin_loop();
                looks += 1;
                if looks % LOOKS == 0 && waiting.elapsed() > PATIENCE {
                    self.sleep(index, done);
                    break;
                }
            }
        }
    }

    /// Works, if there is work that this helper has not done yet; whether it did.
    fn begin(&self, done: &mut u64, number: usize) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if state & OPEN == 0 || state / NUMBER == *done {
            return false;
        }
        if self
            .state
            .compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            *done = state / NUMBER;
            // SAFETY: this helper is counted in the state, so by the invariant no thread writes it.
            let work = unsafe { *self.work.get() };
            let work = || work.expect("written before the state was opened")(number);
            // What the work left half done is not used before the caller has received the panic.
            if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(work)) {
                let mut first = self.panic.lock().expect("nothing panics under this lock");
                match &*first {
                    None => *first = Some(panic),
                    // Dropping it might panic again, and the caller would wait forever.
                    Some(_) => mem::forget(panic),
                }
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.state.fetch_sub(1, Ordering::AcqRel);
            return true;
        }
        false
    }

    /// Sleeps until there is work that was not done yet, or none any more.
    fn sleep(&self, index: usize, done: u64) {
        self.asleep[index].store(true, Ordering::SeqCst);
        let state = self.state.load(Ordering::SeqCst);
        let work = state & OPEN != 0 && state / NUMBER != done;
        // A caller that opens after this look finds `asleep`, and wakes this thread.
        if !work && !self.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        self.asleep[index].store(false, Ordering::SeqCst);
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for helper in self.threads.drain(..) {
            helper.thread().unpark();
            helper.join().expect("helpers catch what the work panics with");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Every piece is done once, by whichever thread, and results are seen by the caller.
    #[test]
    fn all_is_done_once() {
        for threads in [2, 4] {
            let pool = ThreadPool::new(threads);
            let mut workers = pool.claim().expect("no other has them");
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
                    thread::sleep(4 * PATIENCE);
                }
            }
        }
    }

    #[test]
    fn helpers_come() {
        let mut helpers = Helpers::new(1);
        let came = AtomicUsize::new(0);
        // The caller waits in its work, so that a helper has all the time it needs.
        helpers.run(&|worker| {
            came.fetch_add(1, Ordering::SeqCst);
            while worker == 0 && came.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
        });
        assert_eq!(came.into_inner(), 2);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_hangs_no_thread() {
        for who in [0, 1] {
            let pool = ThreadPool::new(2);
            let came = AtomicBool::new(false);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.claim().expect("no other has them").0.run(&|worker| {
                    while worker == 0 && !came.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                    came.store(true, Ordering::SeqCst);
                    assert!(worker != who, "as {who} should");
                });
            }));
            let message = result.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(*message, format!("as {who} should"));
            let mut done = [false; 5];
            let mut workers = pool.claim().expect("no other has them");
            workers.share(done.iter_mut(), |_, done| *done = true);
            assert_eq!(done, [true; 5]);
        }
    }

    /// A task that is already divided is not divided again by what runs inside it.
    #[test]
    fn a_pool_is_claimed_once() {
        let pool = ThreadPool::new(2);
        let workers = pool.claim();
        assert!(workers.is_some() && pool.clone().claim().is_none());
        drop(workers);
        assert!(pool.claim().is_some());
        assert!(ThreadPool::new(1).claim().is_none(), "the caller alone");
    }
}
