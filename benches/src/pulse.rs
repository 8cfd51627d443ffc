//! Periodic messages during long work.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Runs `work`, and calls `say` on another thread at intervals of `every`.
pub fn with_pulse<T>(every: Duration, say: impl Fn() + Send, work: impl FnOnce() -> T) -> T {
    let (running, ended) = channel::<()>();
    thread::scope(move |scope| {
        scope.spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                say();
            }
        });
        // Dropped when the work ends or panics; then the other thread ends, too.
        let _running = running;
        work()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::with_pulse;

    #[test]
    fn a_pulse_lasts_as_long_as_the_work() {
        let (say, said) = channel();
        let work = || (0..3).map(|_| said.recv().unwrap()).count();
        assert_eq!(with_pulse(Duration::from_millis(1), || say.send(()).unwrap(), work), 3);
        while said.try_recv().is_ok() {}
    }
}
