//! The host's wait for the end of launches.

use std::thread;
use std::time::Duration;

use super::CudaError;

/// The time that the host polls for the end of a plan before it yields to other threads.
const SPIN: Duration = Duration::from_micros(50);

/// The minimum time between two queries of a stream. Each query takes the driver's lock, which the
/// launches of other engines need.
const BETWEEN_QUERIES: Duration = Duration::from_millis(1);

/// Polls until launches are done, and returns true. Returns false if their stream becomes idle
/// before. Queries the stream rarely.
pub(crate) fn poll(
    is_done: impl Fn() -> bool,
    is_idle: impl Fn() -> Result<bool, CudaError>,
    elapsed: impl Fn() -> Duration,
) -> Result<bool, CudaError> {
    let mut next_query = BETWEEN_QUERIES;
    while !is_done() {
        let now = elapsed();
        if now < SPIN {
            std::hint::spin_loop();
            continue;
        }
        thread::yield_now();
        if now >= next_query {
            next_query = now + BETWEEN_QUERIES;
            let idle = is_idle();
            // The plan may have ended between the two checks.
            if idle != Ok(false) && !is_done() {
                return idle.map(|_| false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_driver_is_queried_at_most_once_a_millisecond() {
        // Each look at the clock takes ten microseconds; the stream is idle after `idle` looks.
        for (done, idle, expected) in [(1000, 2000, true), (1000, 500, false), (50, 0, true)] {
            let (looks, queries) = (Cell::new(0), Cell::new(0));
            let count = |cell: &Cell<u32>| cell.replace(cell.get() + 1);
            let is_done = || looks.get() >= done;
            let is_idle = || {
                count(&queries);
                Ok(looks.get() >= idle)
            };
            let elapsed = || Duration::from_micros(10) * count(&looks);
            assert_eq!(poll(is_done, is_idle, elapsed), Ok(expected));
            let milliseconds = looks.get() / 100;
            assert!((milliseconds.saturating_sub(1)..=milliseconds).contains(&queries.get()));
        }
        let lost = CudaError::failed("a query", "the device is lost");
        let polled = poll(|| false, || Err(lost.clone()), || SPIN + BETWEEN_QUERIES);
        assert_eq!(polled, Err(lost));
    }
}
