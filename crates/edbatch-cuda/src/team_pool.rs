//! The teams of a device, shared by all backends of the process.
//!
//! The blocks of all running teams together never exceed the device's SMs, so every launched block
//! runs, and no block waits at a barrier for one that cannot start. A backend holds teams for a
//! launch, or for a chain of them, and gives them back when it has ended; backends that find too
//! few free SMs wait, in the order in which they asked.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use edbatch_runtime::span;

use super::CudaError;
use super::device::{
    AHEAD_BYTES, Device, MAX_PARTS, MemorySide, TEAM_BARRIER_WORDS, TICKET_WORDS, TeamArguments,
    TeamPart,
};
use super::launch_times::{LaunchTimes, TeamTimes};
use super::poll::poll;

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
    /// The address of memory for the sums of all blocks of a launch, and the bytes of a block.
    pub(crate) parked: (u64, usize),
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
        parts.chunks(self.at_once(kernel.slices)).try_for_each(|parts| {
            let mut held = self.hold(kernel.device, &[kernel.slices], parts.len())?;
            let began = Instant::now();
            let launched = held.enqueue(kernel, parts, None).map(drop);
            let _span = span!(TRACE, "wait");
            held.finish(launched, began)
        })
    }

    /// Waits for free SMs and holds a team for each of `parts` parts, or for as many of them as fit
    /// on the device. The launches that run or wait share the groups of the device evenly, and the
    /// teams share those of a launch. `slices` are the blocks of a group of each kernel that will
    /// run: a team has the SMs that it would have for any of them alone.
    ///
    /// # Errors
    /// If the memory of a team cannot be allocated.
    pub(crate) fn hold<P: Deref<Target: Device<Memory = M> + Sized>>(
        &self,
        device: P,
        slices: &[u32],
        parts: usize,
    ) -> Result<Held<P>, CudaError> {
        let most = slices.iter().copied().max().expect("there is a kernel");
        let count = parts.clamp(1, self.at_once(most));
        let mut state = self.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.launches += 1;
        let sms = loop {
            let share = self.sms / state.launches / count as u32;
            let groups = slices.iter().map(|slices| slices * (share / slices).max(1));
            let sms = groups.max().expect("there is a kernel");
            if state.ticket == ticket && state.free_sms >= sms * count as u32 {
                break sms;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.ticket += 1;
        self.changed.notify_all();
        if let Err(error) = state.allocate(&*device, count) {
            state.launches -= 1;
            return Err(error);
        }
        state.free_sms -= sms * count as u32;
        let (mut teams, mut next) = ([0; MAX_PARTS], 0);
        for team in &mut teams[..count] {
            next += state.teams[next..].iter().position(|t| !t.is_running).expect("allocated");
            (*team, state.teams[next].is_running) = (next, true);
        }
        Ok(Held { device, teams, count, given_back: 0, sms, counts_sms: true })
    }

    /// Returns the error of a launch whose blocks waited too long.
    pub(crate) fn timed_out(&self) -> CudaError {
        CudaError::BarrierTimeout { timeout: self.timeout }
    }

    /// Returns the maximum number of plans of a launch.
    fn at_once(&self, slices: u32) -> usize {
        ((self.sms / slices) as usize).clamp(1, MAX_PARTS)
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Teams that a chain of launches holds. The launches run in order, on one stream.
///
/// If it is dropped before [`release`](Self::release), the chain has not ended well: its barriers
/// are reset after all of its launches have ended, and then the teams are given back.
pub(crate) struct Held<P: Deref<Target: Device + Sized>> {
    device: P,
    /// The teams; those before `given_back` are no longer held.
    teams: [usize; MAX_PARTS],
    count: usize,
    given_back: usize,
    /// The SMs of a team.
    sms: u32,
    /// True until the SMs are [lent](Self::lend_sms).
    counts_sms: bool,
}

impl<D: Device, P: Deref<Target = D>> Held<P> {
    pub(crate) fn device(&self) -> &P {
        &self.device
    }

    /// Returns true if further launches may join the chain: it has a team for each part, and no
    /// other backend waits for teams.
    pub(crate) fn suits(&self, slices: &[u32], parts: usize) -> bool {
        let pool = self.device.team_pool();
        let most = slices.iter().copied().max().expect("there is a kernel");
        let is_wanted = {
            let state = pool.state();
            state.ticket < state.next_ticket
        };
        !is_wanted && most <= self.sms && self.count == parts.clamp(1, pool.at_once(most))
    }

    /// Returns the stream of the chain, for [`Device::launch_grid`].
    pub(crate) fn stream(&self) -> usize {
        self.teams[0]
    }

    /// Launches plans after all earlier launches of the chain, and does not wait for them. The
    /// plans of a launch share the held SMs evenly. Plans for which there are no teams run in
    /// further launches. Returns the number of launches.
    ///
    /// `stage` is the address of a `Stage` of `kernels/stage.h` and the number of the first launch;
    /// further launches have the numbers after it. A launch whose number does not follow `done` of
    /// the stage does nothing, and one that times out never ends: after a chain that did not end
    /// well, the host must fill the stage again. Without a stage, nothing may be launched after a
    /// launch of teams until that has ended well.
    ///
    /// # Errors
    /// If a launch fails. The launches before it then still run.
    ///
    /// # Panics
    /// If a group of the kernel has more blocks than any that the teams are held for, or if there
    /// are more plans than teams, without a stage.
    pub(crate) fn enqueue(
        &mut self,
        kernel: &TeamKernel<'_, D>,
        parts: &[TeamPart],
        stage: Option<(u64, u32)>,
    ) -> Result<u32, CudaError> {
        assert!(stage.is_some() || parts.len() <= self.count, "a launch waits for no other");
        let mut launches = 0;
        for parts in parts.chunks(self.count) {
            let stage = stage.map(|(address, first)| (address, first.wrapping_add(launches)));
            self.launch(kernel, parts, stage)?;
            launches += 1;
        }
        Ok(launches)
    }

    fn launch(
        &mut self,
        kernel: &TeamKernel<'_, D>,
        parts: &[TeamPart],
        stage: Option<(u64, u32)>,
    ) -> Result<(), CudaError> {
        let &TeamKernel { program, places, slices, resident, shared_bytes, .. } = kernel;
        let (pool, stream) = (self.device.team_pool(), self.teams[0]);
        let groups = self.sms * self.count as u32 / slices / parts.len() as u32;
        assert!(groups > 0, "the teams are held for groups of fewer blocks than {slices}");
        let none = [TeamPart::default(); MAX_PARTS];
        let (stage, launch) = stage.unwrap_or_default();
        let mut arguments = TeamArguments {
            places,
            stage,
            launch: launch.into(),
            blocks: slices * groups,
            slices,
            resident,
            room: ((shared_bytes - AHEAD_BYTES) / size_of::<f32>()) as u32 - resident,
            barriers: kernel.barriers.into(),
            parts: none,
        };
        let own = &mut arguments.parts[..parts.len()];
        own.copy_from_slice(parts);
        let mut state = pool.state();
        let (parked, bytes) = kernel.parked;
        let of_team = bytes as u64 * u64::from(slices * groups);
        for (index, (part, &team)) in (0..).zip(own.iter_mut().zip(&self.teams)) {
            let Team { memory, number, .. } = &mut state.teams[team];
            *number = number.wrapping_add(1);
            part.arguments.barriers = self.device.address(&memory.barrier);
            if of_team > 0 {
                part.arguments.masters = parked + index * of_team;
            }
            part.arguments.timeout = pool.timeout.as_nanos() as u64;
            (part.ticket, part.number) = (self.device.address(&memory.ticket), *number);
        }
        drop(state);
        let _span = span!(
            TRACE,
            "launch",
            words = parts.iter().map(|part| u64::from(part.words)).sum::<u64>()
        );
        self.device.launch_teams(program, stream, parts.len(), shared_bytes, &arguments)
    }

    /// Lets other backends have the SMs while the chain may still run, and keeps the teams' memory.
    /// Where not all blocks fit on the device, the driver delays whole cooperative launches, in
    /// the order of their streams. So the host need not come back for others to go on.
    pub(crate) fn lend_sms(&mut self) {
        let pool = self.device.team_pool();
        let mut state = pool.state();
        state.free_sms += self.sms * self.count as u32;
        state.launches -= 1;
        self.counts_sms = false;
        drop(state);
        pool.changed.notify_all();
    }

    /// Waits until `is_done` returns true. It may poll a [word](Device::word) that the last launch
    /// of the chain writes.
    ///
    /// # Errors
    /// If all launches have ended before, or one of them failed.
    pub(crate) fn wait(&self, is_done: impl Fn() -> bool) -> Result<(), CudaError> {
        let began = Instant::now();
        match poll(is_done, || self.device.is_idle(self.teams[0]), || began.elapsed())? {
            true => Ok(()),
            false => Err(self.device.team_pool().timed_out()),
        }
    }

    /// Gives the teams back after a chain whose last launch has ended well.
    pub(crate) fn release(mut self) {
        self.give_back(self.count);
    }

    /// Ends a chain of a single launch: waits for each plan, and then gives its team back.
    fn finish(mut self, launched: Result<(), CudaError>, began: Instant) -> Result<(), CudaError> {
        let (mut result, mut times) = (launched.clone(), TeamTimes::default());
        while self.given_back < self.count {
            // The launch uses the memory of every part, so wait for all of them.
            let ended = launched.clone().and_then(|()| self.wait_for_plan());
            if ended.is_err() {
                self.reset(self.given_back);
            }
            self.give_back(1);
            result = result.and(ended.map(|own| times.join(own)));
        }
        if result.is_ok() {
            let all = &self.device.team_pool().times;
            all.lock().unwrap_or_else(PoisonError::into_inner).add(times, began.elapsed());
        }
        result
    }

    /// Waits until the first team has finished its plan, and returns its times.
    fn wait_for_plan(&self) -> Result<TeamTimes, CudaError> {
        let (memory, number) = self.team(self.given_back);
        self.wait(|| self.device.word(&memory.ticket, 0) == number)?;
        Ok(TeamTimes::of(self.device.host(&memory.ticket)))
    }

    /// Returns the memory of a held team and the number of its last launch.
    fn team(&self, index: usize) -> (Arc<TeamMemory<D::Memory>>, u32) {
        let Team { memory, number, .. } = &self.device.team_pool().state().teams[self.teams[index]];
        (memory.clone(), *number)
    }

    /// Resets the barrier of a team after a failed launch, as its count is unknown. An error is not
    /// reported, as the launch's own error is.
    fn reset(&self, index: usize) {
        let _ = self.device.fill(&self.team(index).0.barrier, &[0; TEAM_BARRIER_WORDS]);
    }

    /// Gives the first of the held teams back.
    fn give_back(&mut self, count: usize) {
        let pool = self.device.team_pool();
        let mut state = pool.state();
        for &team in &self.teams[self.given_back..][..count] {
            state.teams[team].is_running = false;
            state.free_sms += if self.counts_sms { self.sms } else { 0 };
        }
        self.given_back += count;
        if self.given_back == self.count && self.counts_sms {
            state.launches -= 1;
        }
        drop(state);
        pool.changed.notify_all();
    }
}

impl<P: Deref<Target: Device + Sized>> Drop for Held<P> {
    fn drop(&mut self) {
        if self.given_back < self.count {
            // The launches may still use the teams' memory. A destructor cannot report an error.
            let _ = self.wait(|| false);
            (self.given_back..self.count).for_each(|index| self.reset(index));
            self.give_back(self.count - self.given_back);
        }
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
