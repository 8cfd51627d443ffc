//! A thread pool that runs one task at a time.
//!
//! A batch of a few rows takes microseconds. Starting threads, waking them, or a fork and join by
//! work stealing takes as long. So before idle helper threads sleep, they spin for about the time
//! of a batch. The caller works too, and waits only for helpers that have started: if the system
//! runs no helper, the caller does all the work and loses no time. But the system may stop a helper
//! within a piece of work, to run another process. Then the caller waits for some milliseconds, and
//! for a while does not share small pieces.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use std::{fmt, io, mem};

use crate::kernels::trial;

/// Time for which a helper spins before it sleeps.
const SPIN_TIME: Duration = Duration::from_micros(100);

/// If the caller waits this much longer than twice the time of its own work, a helper was stopped.
const LATE: Duration = Duration::from_micros(200);

/// The time without helpers if that happens twice, as a multiple of the time for which the caller
/// waited. It doubles each time that a helper is soon stopped again.
const ALONE: u32 = 8;

/// The longest time without helpers.
const MOST_ALONE: Duration = Duration::from_secs(1);

/// Iterations of a spin loop between two reads of the clock, or between two yields.
const SPINS: usize = 64;

/// A pool of threads. Clones are handles to the same threads.
#[derive(Clone, Debug)]
pub struct ThreadPool {
    threads: usize,
    helpers: Arc<Mutex<Helpers>>,
}

impl ThreadPool {
    /// The maximum number of threads of a pool.
    pub const MAX_THREADS: usize = 1000;

    /// Creates a pool of `threads` threads, including the caller's. 0 counts as 1.
    ///
    /// # Panics
    /// If `threads` is more than [`MAX_THREADS`](Self::MAX_THREADS), or the system fails to start a
    /// thread.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self::try_new(threads).expect("the system starts the threads")
    }

    /// Like [`new`](Self::new), but returns the error if the system fails to start a thread.
    ///
    /// # Errors
    /// The error of the system.
    ///
    /// # Panics
    /// If `threads` is more than [`MAX_THREADS`](Self::MAX_THREADS).
    pub fn try_new(threads: usize) -> io::Result<Self> {
        assert!(
            threads <= Self::MAX_THREADS,
            "a pool has at most {} threads, got {threads}",
            Self::MAX_THREADS
        );
        let threads = threads.max(1);
        Ok(Self { threads, helpers: Arc::new(Mutex::new(Helpers::new(threads - 1)?)) })
    }

    /// Returns the number of threads, including the caller's.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Claims the threads until the result is dropped. Returns `None` if the pool has only the
    /// caller's thread, or if another caller has claimed it.
    #[must_use]
    pub fn claim(&self) -> Option<ClaimedPool<'_>> {
        if self.threads == 1 {
            return None;
        }
        match self.helpers.try_lock() {
            Ok(helpers) => Some(ClaimedPool(helpers)),
            // A task has panicked. The helpers have caught it and are ready for the next task.
            Err(TryLockError::Poisoned(error)) => Some(ClaimedPool(error.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The threads of a pool, claimed by one caller.
#[derive(Debug)]
pub struct ClaimedPool<'a>(MutexGuard<'a, Helpers>);

impl ClaimedPool<'_> {
    /// Returns the number of threads, including the caller's.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0.threads.len() + 1
    }

    /// Calls `work(worker, piece)` once for each piece. The caller is worker 0.
    ///
    /// Odd workers take pieces from the back. So in successive steps of a mini-batch a worker tends
    /// to get the same pieces, whose data are in its cache.
    ///
    /// # Panics
    /// If `work` panics on any thread, with the same payload. The pool remains usable.
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

    /// Like [`share`](Self::share), for pieces that take about the same time. If the caller had to
    /// wait much longer than it worked, for two tasks within a short time, other processes use the
    /// cores of the helpers. Then it works alone for a while, at most a second.
    ///
    /// # Panics
    /// Like [`share`](Self::share).
    pub fn share_alike<T: Send>(
        &mut self,
        pieces: impl DoubleEndedIterator<Item = T> + Send,
        work: impl Fn(usize, T) + Sync,
    ) {
        let began = Instant::now();
        if began < self.0.alone_until {
            return pieces.for_each(|piece| work(0, piece));
        }
        self.share(pieces, work);
        let (own, waited) = (self.0.own_work_ended - began, self.0.own_work_ended.elapsed());
        if waited > 2 * own + LATE {
            self.0.was_late(waited);
        }
    }
}

/// The threads of a pool except the caller's.
#[derive(Debug)]
struct Helpers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The number of tasks so far.
    tasks: u64,
    /// When the caller ended its share of the last task.
    own_work_ended: Instant,
    /// The last time for which the caller has not shared small pieces, and its end.
    alone: Duration,
    alone_until: Instant,
    /// Until when another late helper counts as a repetition.
    wary_until: Instant,
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// State shared with the helpers. Aligned to its own cache lines, because spinning helpers read it
/// all the time: writes to a neighbouring variable would stall (false sharing).
#[repr(align(128))]
struct Shared {
    /// The number of the task times [`TASK`], plus [`OPEN`] while helpers may start on it, plus the
    /// number of helpers working on it.
    state: AtomicU64,
    /// *Invariant*: written only while the state is not open and no helper is working; read only by
    /// working helpers.
    work: UnsafeCell<Option<&'static Work<'static>>>,
    asleep: Vec<AtomicBool>,
    stop: AtomicBool,
    panicked: AtomicBool,
    /// The payload of the first helper that panicked, if `panicked`.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: all fields except `work` are `Sync`. By its invariant, `work` is never written while
// another thread reads it, and it refers to a `Sync` closure.
unsafe impl Sync for Shared {}
// SAFETY: no field depends on the thread that created it.
unsafe impl Send for Shared {}

/// Bytes that a thread may need at its start: its stack and more.
const THREAD: usize = 3 << 20;

const OPEN: u64 = 1 << 16;
const TASK: u64 = 1 << 17;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Helpers {
    fn new(helpers: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            asleep: (0..helpers).map(|_| AtomicBool::new(false)).collect(),
            stop: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        // A thread that starts but cannot allocate the rest of what it needs aborts the process.
        trial(helpers * THREAD).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // If a thread cannot start, the destructor of `all` ends the threads that have started.
        let now = Instant::now();
        let mut all = Self {
            shared,
            threads: Vec::new(),
            tasks: 0,
            own_work_ended: now,
            alone: Duration::ZERO,
            alone_until: now,
            wary_until: now,
        };
        for index in 0..helpers {
            let shared = all.shared.clone();
            let helper = thread::Builder::new().name(format!("helper {}", index + 1));
            all.threads.push(helper.spawn(move || shared.help(index))?);
        }
        Ok(all)
    }

    /// The caller had to wait this long for a stopped helper. Lets it work alone if that happened a
    /// short time ago, too. A single time may be a helper that woke up on the caller's core: the
    /// system soon moves it to another one.
    fn was_late(&mut self, waited: Duration) {
        let now = Instant::now();
        let again = now < self.wary_until;
        let alone = (2 * self.alone).max(ALONE * waited).min(MOST_ALONE);
        self.alone = if again { alone } else { Duration::ZERO };
        self.alone_until = now + self.alone;
        self.wary_until = self.alone_until + alone;
    }

    /// Calls `work(0)` on the caller's thread and `work(n)` on each helper n that starts in time.
    /// `work` must divide the work itself: if no helper starts, the call with 0 has to do
    /// everything.
    ///
    /// # Panics
    /// If `work` panics on any thread, with the same payload.
    fn run(&mut self, work: &Work<'_>) {
        // SAFETY: `CloseAndWait` is dropped before this function returns or unwinds, and waits
        // until no helper uses the reference. The borrow of `work` lasts longer than that.
        let work_for_helpers = unsafe { mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        self.tasks += 1;
        // The flag may be left over from a task in which the caller panicked too.
        self.shared.panicked.store(false, Ordering::Relaxed);
        // SAFETY: the previous run closed the state and waited for all helpers, and `&mut self`
        // excludes another run. So no helper reads `work`.
        unsafe { *self.shared.work.get() = Some(work_for_helpers) };
        self.shared.state.store(self.tasks * TASK + OPEN, Ordering::SeqCst);
        let closing = CloseAndWait(&self.shared);
        for (asleep, helper) in self.shared.asleep.iter().zip(&self.threads) {
            wake(asleep, helper.thread());
        }
        work(0);
        self.own_work_ended = Instant::now();
        drop(closing);
        if self.shared.panicked.load(Ordering::Relaxed) {
            let panic = self.shared.panic.lock().expect("nothing panics under this lock").take();
            panic::resume_unwind(panic.expect("stored before `panicked` was set"));
        }
    }
}

/// Wakes a helper if it sleeps.
fn wake(asleep: &AtomicBool, helper: &Thread) {
    if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
        helper.unpark();
    }
}

/// When dropped, keeps further helpers from starting and waits for those that have started.
struct CloseAndWait<'a>(&'a Shared);

impl Drop for CloseAndWait<'_> {
    fn drop(&mut self) {
        let mut spins = 0;
        let mut state = self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        while state & (OPEN - 1) != 0 {
            spins += 1;
            if spins % SPINS == 0 {
                thread::yield_now();
            }
            std::hint::spin_loop();
            state = self.0.state.load(Ordering::Acquire);
        }
    }
}

impl Shared {
    /// The main loop of a helper.
    fn help(&self, index: usize) {
        let mut last_task = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let waiting = Instant::now();
            let mut spins = 0;
            while !self.try_work(&mut last_task, index + 1) {
                std::hint::spin_loop();
                spins += 1;
                if spins % SPINS == 0 && waiting.elapsed() > SPIN_TIME {
                    self.sleep(index, last_task);
                    break;
                }
            }
        }
    }

    /// Works on the current task, unless it is closed or this helper has worked on it already.
    /// Returns true if it worked.
    fn try_work(&self, last_task: &mut u64, number: usize) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if state & OPEN == 0 || state / TASK == *last_task {
            return false;
        }
        if self
            .state
            .compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            *last_task = state / TASK;
            // SAFETY: the state counts this helper, so by the invariant no thread writes `work`.
            let work = unsafe { *self.work.get() };
            let work = || work.expect("written before the state was opened")(number);
            // The caller receives the panic before it can use data that `work` left inconsistent.
            if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(work)) {
                let mut first = self.panic.lock().expect("nothing panics under this lock");
                match &*first {
                    None => *first = Some(panic),
                    // Dropping the payload might panic, and the caller would wait forever.
                    Some(_) => mem::forget(panic),
                }
                self.panicked.store(true, Ordering::Relaxed);
            }
            self.state.fetch_sub(1, Ordering::AcqRel);
            return true;
        }
        false
    }

    /// Sleeps until there is a new task or the pool is dropped.
    fn sleep(&self, index: usize, last_task: u64) {
        self.asleep[index].store(true, Ordering::SeqCst);
        let state = self.state.load(Ordering::SeqCst);
        let work = state & OPEN != 0 && state / TASK != last_task;
        // A caller that opens a task after this load sees `asleep` and wakes this thread.
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
            helper.join().expect("helpers catch panics of the work");
        }
    }
}

#[cfg(test)]
mod tests;
