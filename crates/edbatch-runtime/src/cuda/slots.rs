//! Which teams of a device are at work, for all engines of the process.
//!
//! All blocks of all teams together are at most the device's processors, so that whoever was
//! launched runs, and no block waits for one that cannot begin. A team's slot is taken from the
//! launch of a plan until the plan has been carried out; who finds no slot free waits, in turn.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::CudaError;
use super::device::{Device, MEETING, MOST_PARTS, Side, TeamArguments, TeamPart};

/// How long a host's thread looks for the end of a plan before it lets others run.
const LOOKING: Duration = Duration::from_micros(50);

/// After so long who waits for a slot looks whether one has become free that nobody gave back.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// The teams of a device.
#[derive(Debug)]
pub(crate) struct Slots<M> {
    state: Mutex<State<M>>,
    freed: Condvar,
    processors: u32,
    patience: Duration,
}

#[derive(Debug)]
struct State<M> {
    /// Processors of which no team has a block.
    free: u32,
    slots: Vec<Slot<M>>,
    /// Whose turn it is to take slots, and the turn of who comes next.
    turn: u64,
    next_turn: u64,
}

#[derive(Debug)]
struct Slot<M> {
    memory: Arc<SlotMemory<M>>,
    /// What its blocks will have counted after the last launch, and the number of that.
    base: u64,
    number: u32,
    stream: usize,
    running: Running,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Running {
    No,
    /// So many blocks will, as soon as they are launched.
    Taken(u32),
    /// So many blocks.
    Launched(u32),
    /// It has ended before it was done; who launched it does not know yet.
    Failed,
}

/// Where the blocks of a team meet, and where it says which launch it has done.
#[derive(Debug)]
struct SlotMemory<M> {
    meeting: M,
    done: M,
}

/// Which kernel a launch is of, and how its teams are made.
#[derive(Debug)]
pub(crate) struct Team<'a, D: Device> {
    pub(crate) device: &'a D,
    pub(crate) program: &'a D::Program,
    pub(crate) places: u64,
    pub(crate) blocks: u32,
    pub(crate) shared_bytes: usize,
}

/// A plan that a team carries out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    slot: usize,
    number: u32,
}

impl<M> Slots<M> {
    /// The teams of so many processors; blocks wait for each other for at most so long.
    pub(crate) fn new(processors: u32, patience: Duration) -> Self {
        let state = State { free: processors, slots: Vec::new(), turn: 0, next_turn: 0 };
        Self { state: Mutex::new(state), freed: Condvar::new(), processors, patience }
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches plans, as many as the device has teams at a time, each behind a free slot.
    /// `flights` are those that were launched.
    ///
    /// # Errors
    /// If a launch fails, or memory for a slot cannot be had; then the plans behind it were not
    /// launched.
    pub(crate) fn launch<D: Device<Memory = M>>(
        &self,
        team: &Team<'_, D>,
        parts: &[TeamPart],
        flights: &mut Vec<Flight>,
    ) -> Result<(), CudaError> {
        let at_once = (self.processors / team.blocks).max(1) as usize;
        for parts in parts.chunks(at_once.min(MOST_PARTS)) {
            let Team { places, blocks, .. } = *team;
            let mut arguments =
                TeamArguments { places, blocks, parts: [TeamPart::default(); MOST_PARTS] };
            arguments.parts[..parts.len()].copy_from_slice(parts);
            let own = &mut arguments.parts[..parts.len()];
            let first = flights.len();
            let launched = self.take(team, own, flights).and_then(|stream| {
                let Team { device, program, shared_bytes, .. } = *team;
                device.launch_teams(program, stream, parts.len(), shared_bytes, &arguments)
            });
            if launched.is_err() {
                // The first error counts: what failed may fail again.
                flights.drain(first..).for_each(|flight| drop(self.fail(team.device, flight)));
                return launched;
            }
            let mut state = self.state();
            for &Flight { slot, .. } in &flights[first..] {
                let running = &mut state.slots[slot].running;
                if let Running::Taken(blocks) = *running {
                    *running = Running::Launched(blocks);
                }
            }
        }
        Ok(())
    }

    /// Waits for slots, and makes them those of some plans; the stream to launch them on.
    fn take<D: Device<Memory = M>>(
        &self,
        team: &Team<'_, D>,
        parts: &mut [TeamPart],
        flights: &mut Vec<Flight>,
    ) -> Result<usize, CudaError> {
        let blocks = team.blocks * parts.len() as u32;
        let mut state = self.state();
        let turn = state.next_turn;
        state.next_turn += 1;
        while state.turn != turn || state.free < blocks {
            if state.turn == turn && state.look(team.device) {
                continue;
            }
            let waited = self.freed.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.turn += 1;
        self.freed.notify_all();
        let first = flights.len();
        for part in &mut *parts {
            let slot = state.idle(team.device)?;
            let Slot { memory, base, number, .. } = &mut state.slots[slot];
            *number = number.wrapping_add(1);
            part.meeting = team.device.address(&memory.meeting);
            part.done = team.device.address(&memory.done);
            (part.base, part.number) = (*base, *number);
            part.patience = self.patience.as_nanos() as u64;
            // They count once for each wave, and for the tape.
            *base += u64::from(team.blocks) * (1 + u64::from(part.waves));
            flights.push(Flight { slot, number: *number });
            // Taken at once, so that the next one finds another.
            state.slots[slot].running = Running::Taken(team.blocks);
            state.free -= team.blocks;
        }
        let own = &flights[first..];
        let stream = own[0].slot;
        own.iter().for_each(|flight| state.slots[flight.slot].stream = stream);
        Ok(stream)
    }

    /// Waits until a plan has been carried out, and gives its slot back.
    ///
    /// # Errors
    /// If it was not carried out to its end: its blocks waited for too long, or the device failed.
    pub(crate) fn wait<D: Device<Memory = M>>(
        &self,
        device: &D,
        flight: Flight,
    ) -> Result<(), CudaError> {
        let (memory, stream) = {
            let slot = &self.state().slots[flight.slot];
            (slot.memory.clone(), slot.stream)
        };
        let began = Instant::now();
        while !is_done(device, &memory, flight.number) {
            if began.elapsed() < LOOKING {
                std::hint::spin_loop();
                continue;
            }
            thread::yield_now();
            // What is over may have been done since.
            let over = device.is_idle(stream);
            if over != Ok(false) && !is_done(device, &memory, flight.number) {
                over.and(self.fail(device, flight))?;
                return Err(CudaError::Late { patience: self.patience });
            }
        }
        self.release(flight, None);
        Ok(())
    }

    /// Gives a slot back whose blocks have counted nobody knows how far.
    fn fail<D: Device<Memory = M>>(&self, device: &D, flight: Flight) -> Result<(), CudaError> {
        let memory = self.state().slots[flight.slot].memory.clone();
        let reset = device.fill(&memory.meeting, &[0; MEETING]);
        self.release(flight, Some(0));
        reset
    }

    /// Gives a slot back, if it is still its own, perhaps with another count.
    fn release(&self, flight: Flight, count: Option<u64>) {
        let mut state = self.state();
        let slot = &mut state.slots[flight.slot];
        if slot.number != flight.number {
            return;
        }
        slot.base = count.unwrap_or(slot.base);
        let before = std::mem::replace(&mut slot.running, Running::No);
        if let Running::Taken(blocks) | Running::Launched(blocks) = before {
            state.free += blocks;
        }
        drop(state);
        self.freed.notify_all();
    }
}

impl<M> State<M> {
    /// An idle slot, for which there is memory.
    fn idle<D: Device<Memory = M>>(&mut self, device: &D) -> Result<usize, CudaError> {
        let idle = self.slots.iter().position(|slot| slot.running == Running::No);
        if let Some(idle) = idle {
            return Ok(idle);
        }
        let meeting = device.memory(4 * MEETING, Side::Device)?;
        device.fill(&meeting, &[0; MEETING])?;
        let done = device.memory(4, Side::Host)?;
        device.fill(&done, &[0])?;
        let memory = Arc::new(SlotMemory { meeting, done });
        let stream = self.slots.len();
        self.slots.push(Slot { memory, base: 0, number: 0, stream, running: Running::No });
        Ok(stream)
    }

    /// Takes the slots back of plans that have ended, while who launched them does other things.
    fn look<D: Device<Memory = M>>(&mut self, device: &D) -> bool {
        let before = self.free;
        for slot in &mut self.slots {
            let Running::Launched(blocks) = slot.running else { continue };
            if is_done(device, &slot.memory, slot.number) {
                slot.running = Running::No;
            } else if device.is_idle(slot.stream) != Ok(false)
                && !is_done(device, &slot.memory, slot.number)
            {
                slot.running = Running::Failed;
            } else {
                continue;
            }
            self.free += blocks;
        }
        self.free > before
    }
}

/// Whether a team has done a launch, or one behind it.
fn is_done<D: Device>(device: &D, memory: &SlotMemory<D::Memory>, number: u32) -> bool {
    device.word(&memory.done, 0).wrapping_sub(number) as i32 >= 0
}
