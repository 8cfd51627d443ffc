//! Objects that several threads may name, and one of them may use.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::thread;

use crate::status::{Code, Failure};

/// The state of an object, which one thread at a time may use. After a panic, none may.
pub(crate) struct Guarded<T> {
    inner: Mutex<T>,
    panicked: AtomicBool,
    /// The process that has the threads or the device of the object, if it has any.
    process: Option<u32>,
}

/// The use of what never changes. If it ends by a panic, the object is not used again.
pub(crate) struct Entered<'a>(&'a AtomicBool);

impl<T> Guarded<T> {
    /// `is_bound`: it has threads or a device, which do not survive `fork()`.
    pub(crate) fn new(inner: T, is_bound: bool) -> Self {
        let process = is_bound.then(process::id);
        Self { inner: Mutex::new(inner), panicked: AtomicBool::new(false), process }
    }

    /// Returns true in a process that has been forked since the object was made, if the object
    /// cannot be used there.
    pub(crate) fn is_lost(&self) -> bool {
        self.process.is_some_and(|process| process != process::id())
    }

    /// Allows the use of what never changes.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, Failure> {
        // A panic while the state was locked has poisoned it.
        if self.inner.is_poisoned() {
            return Err(panicked());
        }
        self.check()?;
        let entered = Entered(&self.panicked);
        #[cfg(test)]
        tests::panic_if_asked();
        Ok(entered)
    }

    /// Returns the state, unless another thread uses it. A panic poisons it.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, T>, Failure> {
        // Before the lock, which a thread of the parent may have held when the process was forked.
        self.check()?;
        let guard = match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => return Err(busy()),
            Err(TryLockError::Poisoned(_)) => return Err(panicked()),
        };
        #[cfg(test)]
        tests::panic_if_asked();
        Ok(guard)
    }

    /// Fails after a panic that poisoned nothing, and in another process.
    #[inline(always)]
    fn check(&self) -> Result<(), Failure> {
        if self.panicked.load(Ordering::Relaxed) {
            return Err(panicked());
        }
        match self.is_lost() {
            true => Err(lost()),
            false => Ok(()),
        }
    }
}

#[cold]
fn busy() -> Failure {
    let message = "another thread uses the object: use a fork of it, or wait";
    Failure::new(Code::Busy, message)
}

#[cold]
fn panicked() -> Failure {
    let message = "an earlier call failed by a defect of the library: free the object";
    Failure::new(Code::Panic, message)
}

#[cold]
fn lost() -> Failure {
    Failure::argument(
        "the process was forked after the object was made, and its threads or its device exist in \
         the parent only: make it in the child",
    )
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
