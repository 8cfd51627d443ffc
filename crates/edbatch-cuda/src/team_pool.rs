//! The teams of a device, shared by all backends of the process.
//!
//! The blocks of all running teams together never exceed the device's SMs, so every launched block
//! runs, and no block waits at a barrier for one that cannot start. A backend takes teams for a
//! launch and returns them when the launch has ended; backends that find too few free SMs wait, in
//! the order in which they asked.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use edbatch_runtime::span;

use super::CudaError;
use super::device::{
    AHEAD_BYTES, Device, MAX_PARTS, MemorySide, TEAM_BARRIER_WORDS, TICKET_WORDS, TeamArguments,
    TeamPart,
};
use super::launch_times::{LaunchTimes, TeamTimes};

/// The time that the host polls for the end of a plan before it yields to other threads.
const SPIN: Duration = Duration::from_micros(50);

/// The minimum time between two queries of a stream. Each query takes the driver's lock, which the
/// launches of other engines need.
const BETWEEN_QUERIES: Duration = Duration::from_millis(1);

/// The teams of a device.
#[derive(Debug)]
pub(crate) struct TeamPool<M> {
    state: Mutex<State<M>>,
    changed: Condvar,
    sms: u32,
    timeout: Duration,
    times: Mutex<LaunchTimes>,
}

#[derive(Debug)]
struct State<M> {
    /// The number of SMs without a running block.
    free_sms: u32,
    teams: Vec<Team<M>>,
    /// The number of launches that run or wait for SMs.
    launches: u32,
    /// The ticket that is served now, and the next ticket to issue.
    ticket: u64,
    next_ticket: u64,
}

/// The memory of a team, reused from launch to launch.
#[derive(Debug)]
struct Team<M> {
    memory: Arc<TeamMemory<M>>,
    /// The number of the last launch.
    number: u32,
    is_running: bool,
}

#[derive(Debug)]
struct TeamMemory<M> {
    barrier: M,
    /// The end of the last launch that is done.
    ticket: M,
}

/// A kernel for teams, and their size.
#[derive(Debug)]
pub(crate) struct TeamKernel<'a, D: Device> {
    pub(crate) device: &'a D,
    pub(crate) program: &'a D::Program,
    pub(crate) places: u64,
    /// The blocks of a group, and the floats of resident weights of a block.
    pub(crate) slices: u32,
    pub(crate) resident: u32,
    pub(crate) shared_bytes: usize,
    /// True if a barrier comes before every wave.
    pub(crate) barriers: bool,
}

impl<M> TeamPool<M> {
    /// The teams of a device with `sms` SMs, whose blocks wait at most `timeout` at a barrier.
    pub(crate) fn new(sms: u32, timeout: Duration) -> Self {
        let state =
            State { free_sms: sms, teams: Vec::new(), launches: 0, ticket: 0, next_ticket: 0 };
        let (changed, times) = (Condvar::new(), Mutex::default());
        Self { state: Mutex::new(state), changed, sms, timeout, times }
    }

    /// Returns the times of all launches so far that did not fail.
    pub(crate) fn times(&self) -> LaunchTimes {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs each plan to its end on a team. One launch runs all plans whose teams fit on the
    /// device, at most [`MAX_PARTS`].
    ///
    /// # Errors
    /// The first error of a launch or of a plan. Later launches are then skipped; the other plans
    /// of the same launch still run to their end.
    pub(crate) fn run<D: Device<Memory = M>>(
        &self,
        kernel: &TeamKernel<'_, D>,
        parts: &[TeamPart],
    ) -> Result<(), CudaError> {
        let at_once = (self.sms / kernel.slices).max(1) as usize;
        parts.chunks(at_once.min(MAX_PARTS)).try_for_each(|parts| self.run_at_once(kernel, parts))
    }

    fn run_at_once<D: Device<Memory = M>>(
        &self,
        kernel: &TeamKernel<'_, D>,
        parts: &[TeamPart],
    ) -> Result<(), CudaError> {
        let &TeamKernel { device, program, places, slices, resident, shared_bytes, barriers } =
            kernel;
        let none = [TeamPart::default(); MAX_PARTS];
        let room = ((shared_bytes - AHEAD_BYTES) / size_of::<f32>()) as u32 - resident;
        let barriers = u32::from(barriers);
        let mut arguments =
            TeamArguments { places, blocks: 0, slices, resident, room, barriers, parts: none };
        let own = &mut arguments.parts[..parts.len()];
        own.copy_from_slice(parts);
        let mut teams = [0; MAX_PARTS];
        let teams = &mut teams[..parts.len()];
        let blocks = self.take(device, slices, own, teams)?;
        arguments.blocks = blocks;
        let stream = teams[0];
        let began = Instant::now();
        let mut result = {
            let _span = span!(
                TRACE,
                "launch",
                words = parts.iter().map(|part| u64::from(part.words)).sum::<u64>()
            );
            device.launch_teams(program, stream, parts.len(), shared_bytes, &arguments)
        };
        let launched = result.is_ok();
        let _span = span!(TRACE, "wait");
        let mut times = TeamTimes::default();
        for (index, (&team, part)) in teams.iter().zip(&arguments.parts).enumerate() {
            // The launch uses the memory of every part, so wait for all of them.
            let ended =
                if launched { self.wait(device, team, part.number, stream) } else { Ok(times) };
            let is_done = launched && ended.is_ok();
            let ended = ended.map(|own| times.join(own));
            if index + 1 == parts.len() {
                self.state().launches -= 1;
                if is_done && result.is_ok() {
                    let mut all = self.times.lock().unwrap_or_else(PoisonError::into_inner);
                    all.add(times, began.elapsed());
                }
            }
            let given_back = self.give_back(device, team, blocks, is_done);
            result = result.and(ended).and(given_back);
        }
        result
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for free SMs, takes a team for each part, and sets the part's fields that depend on
    /// the team. Returns the blocks of a team: the launches that run or wait share the groups of
    /// the device evenly, and the parts of a launch share its groups.
    fn take<D: Device<Memory = M>>(
        &self,
        device: &D,
        slices: u32,
        parts: &mut [TeamPart],
        teams: &mut [usize],
    ) -> Result<u32, CudaError> {
        let mut state = self.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.launches += 1;
        let (count, blocks) = loop {
            let count = parts.len() as u32;
            let groups = (self.sms / slices / state.launches / count).max(1);
            if state.ticket == ticket && state.free_sms >= slices * groups * count {
                break (count, slices * groups);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.ticket += 1;
        self.changed.notify_all();
        if let Err(error) = state.allocate(device, parts.len()) {
            state.launches -= 1;
            return Err(error);
        }
        state.free_sms -= blocks * count;
        let mut next = 0;
        for (part, team) in parts.iter_mut().zip(teams) {
            next += state.teams[next..].iter().position(|t| !t.is_running).expect("allocated");
            *team = next;
            let Team { memory, number, is_running } = &mut state.teams[next];
            *is_running = true;
            *number = number.wrapping_add(1);
            part.arguments.barriers = device.address(&memory.barrier);
            part.arguments.timeout = self.timeout.as_nanos() as u64;
            (part.ticket, part.number) = (device.address(&memory.ticket), *number);
        }
        Ok(blocks)
    }

    /// Waits until a team has finished launch `number`, and returns its times.
    fn wait<D: Device<Memory = M>>(
        &self,
        device: &D,
        team: usize,
        number: u32,
        stream: usize,
    ) -> Result<TeamTimes, CudaError> {
        let memory = self.state().teams[team].memory.clone();
        let is_done = || device.word(&memory.ticket, 0) == number;
        let began = Instant::now();
        match poll(is_done, || device.is_idle(stream), || began.elapsed())? {
            true => Ok(TeamTimes::of(device.host(&memory.ticket))),
            false => Err(CudaError::BarrierTimeout { timeout: self.timeout }),
        }
    }

    /// Gives a team back. After a failed launch its barrier is reset, as its count is unknown.
    fn give_back<D: Device<Memory = M>>(
        &self,
        device: &D,
        team: usize,
        blocks: u32,
        is_done: bool,
    ) -> Result<(), CudaError> {
        let mut reset = Ok(());
        if !is_done {
            let memory = self.state().teams[team].memory.clone();
            reset = device.fill(&memory.barrier, &[0; TEAM_BARRIER_WORDS]);
        }
        let mut state = self.state();
        state.free_sms += blocks;
        state.teams[team].is_running = false;
        drop(state);
        self.changed.notify_all();
        reset
    }
}

impl<M> State<M> {
    /// Allocates memory for teams until `count` of them are idle.
    fn allocate<D: Device<Memory = M>>(
        &mut self,
        device: &D,
        count: usize,
    ) -> Result<(), CudaError> {
        let idle = self.teams.iter().filter(|team| !team.is_running).count();
        for _ in idle..count {
            let barrier = device.memory(4 * TEAM_BARRIER_WORDS, MemorySide::Device)?;
            device.fill(&barrier, &[0; TEAM_BARRIER_WORDS])?;
            let mut ticket = device.memory(4 * TICKET_WORDS, MemorySide::Host)?;
            device.host_mut(&mut ticket).fill(0);
            let memory = Arc::new(TeamMemory { barrier, ticket });
            self.teams.push(Team { memory, number: 0, is_running: false });
        }
        Ok(())
    }
}

/// Polls until a plan is done, and returns true. Returns false if the plan's stream becomes idle
/// before. Queries the stream rarely.
fn poll(
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
