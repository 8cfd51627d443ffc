//! The state that a step of training changes on a device, and the launches of its kernels.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use edbatch_graph::ParameterId;
use edbatch_layout::Plan;
use edbatch_runtime::{BackendError, NotFiniteIn, StepResult};

use crate::CudaError;
use crate::device::{AHEAD_BYTES, Device, MemorySide, TeamPart};
use crate::memory::Buffer;
use crate::pass::Placed;
use crate::slot::Slot;
use crate::sums::{Added, Lists, SumTable, TotalList};
use crate::team_pool::{Held, TeamKernel};

/// The state that steps of training change.
pub(crate) struct State<D: Device> {
    /// `Stage` of `kernels/stage.h`, and the number of the last launch that ended well.
    pub(crate) stage: D::Memory,
    pub(crate) number: u32,
    /// Steps use these in turn, so that one can be enqueued while another runs.
    pub(crate) turns: [Turn<D>; 2],
    pub(crate) turn: usize,
    /// The steps whose results are still wanted, oldest first, and the teams of those that run.
    pub(crate) enqueued: VecDeque<Enqueued<D>>,
    pub(crate) held: Option<Held<Arc<D>>>,
    /// The error of a step that could not be enqueued.
    pub(crate) failed: Option<BackendError>,
    /// True if the teams run a mini-batch in borrowed memory, and the error of one that did not
    /// end.
    pub(crate) is_lent: bool,
    pub(crate) lost: Option<BackendError>,
    /// The moments, each as large as all parameters, and their number; and how many of them each
    /// parameter has, and will have after the update.
    pub(crate) moments: Option<D::Memory>,
    pub(crate) kept: usize,
    pub(crate) has_moments: Vec<usize>,
    pub(crate) will_have_moments: Vec<usize>,
    /// The contributions of the mini-batch to the sums, and their memory.
    pub(crate) added: Added,
    pub(crate) memory: Buffer<D>,
    pub(crate) squares: Buffer<D>,
    /// True if the launch of the first kernel copies the lists of the others to the device.
    pub(crate) moves_lists: bool,
    pub(crate) plan: Plan,
    pub(crate) lists: Lists,
    pub(crate) complete: TotalList,
    pub(crate) squared_norm: f64,
}

/// The lists of a step and its message to the host.
pub(crate) struct Turn<D: Device> {
    /// `Result` of `kernels/stage.h`.
    pub(crate) result: D::Memory,
    /// The lists of each of the four kernels, and of the gradients of borrowed rows.
    pub(crate) uploaded: [ListMemory<D>; 5],
    /// The adjoints of rows of tables.
    pub(crate) slot: Slot<D>,
}

/// A step that has been enqueued.
pub(crate) struct Flight<D: Device> {
    /// The number of its last launch, and the [turn](Turn) of its lists.
    pub(crate) last: u32,
    pub(crate) turn: usize,
    pub(crate) slots: Vec<usize>,
    /// The placements that its launches read.
    pub(crate) _placed: [Arc<Placed<D>>; 2],
    pub(crate) began: Instant,
    pub(crate) has_update: bool,
    /// The number of terms of its loss; and the loss, unless it has parts.
    pub(crate) terms: u64,
    pub(crate) loss: Option<f64>,
}

/// A step without a result yet, or its result.
pub(crate) enum Enqueued<D: Device> {
    Runs(Flight<D>),
    Ended(Result<StepResult, BackendError>),
}

/// The words of `Stage`, the index of nothing in it, and the words of `Result`.
const STAGE: usize = 8;
const FINE: u32 = u32::MAX;
const RESULT: usize = 8;

/// The stream of launches that no team is part of.
const STREAM: usize = 0;

/// The message of a step to the host: `Result` of `kernels/stage.h`.
pub(super) struct Told {
    /// The number of the last launch that ended well.
    pub(super) done: u32,
    input: u32,
    parameter: u32,
    pub(super) loss: f64,
    pub(super) squared_norm: f64,
}

impl Told {
    /// Returns the loss or gradient that is not finite.
    pub(super) fn not_finite(&self) -> Option<NotFiniteIn> {
        match (self.input, self.parameter) {
            (FINE, FINE) => None,
            (FINE, parameter) => Some(NotFiniteIn::Parameter(ParameterId(parameter))),
            (input, _) => Some(NotFiniteIn::Input(input)),
        }
    }
}

/// A launch of a kernel whose blocks wait for no other block.
pub(crate) struct Grid<'a, P> {
    pub(crate) kernel: &'a P,
    pub(crate) blocks: usize,
    /// The floats of shared memory of a block.
    pub(crate) floats: usize,
    /// Its `Work` after the stage, the number of the launch, and the result.
    pub(crate) work: Vec<u64>,
}

impl<D: Device> State<D> {
    pub(crate) fn new(
        device: &D,
        table: &SumTable,
        parameters: usize,
    ) -> Result<Self, BackendError> {
        let mut added = Added::default();
        added.clear(table);
        let buffer = |what| Buffer::new(MemorySide::Device, what);
        let turn = || {
            let mut result = device.memory(4 * RESULT, MemorySide::Host)?;
            device.host_mut(&mut result).fill(0);
            let uploaded = [(); 5].map(|()| ListMemory::new());
            Ok::<_, BackendError>(Turn { result, uploaded, slot: Slot::new() })
        };
        let state = Self {
            stage: device.memory(4 * STAGE, MemorySide::Device)?,
            number: 0,
            turns: [turn()?, turn()?],
            turn: 0,
            enqueued: VecDeque::new(),
            held: None,
            failed: None,
            is_lent: false,
            lost: None,
            moments: None,
            kept: 0,
            has_moments: vec![0; parameters],
            will_have_moments: Vec::new(),
            added,
            memory: buffer("the gradients of parameters on the device"),
            squares: buffer("the norm of gradients on the device"),
            moves_lists: false,
            plan: Plan::default(),
            lists: Lists::default(),
            complete: TotalList::default(),
            squared_norm: 0.0,
        };
        state.reset(device, 0.0)?;
        Ok(state)
    }

    /// Sets all sums to zero.
    pub(crate) fn forget(&mut self, table: &SumTable) {
        self.added.clear(table);
        self.complete.completed.clear();
        self.squared_norm = 0.0;
    }

    /// Grows the memory of sums, after all steps that use it.
    pub(crate) fn grow(&mut self, device: &D, floats: usize) -> Result<(), BackendError> {
        if self.memory.words < floats {
            self.settle();
        }
        self.memory.grow(device, floats)
    }

    /// Begins launches after one that may not have ended well.
    pub(crate) fn reset(&self, device: &D, squared_norm: f64) -> Result<(), CudaError> {
        let norm = squared_norm.to_bits();
        let words = [self.number, 0, FINE, FINE, 0, 0, norm as u32, (norm >> 32) as u32];
        device.fill(&self.stage, &words)
    }

    /// Launches a kernel on a stream; if it is the last one of a step, it tells the host.
    pub(crate) fn enqueue(
        &mut self,
        device: &D,
        stream: usize,
        grid: &Grid<'_, D::Program>,
        is_last: bool,
    ) -> Result<(), CudaError> {
        let &Grid { kernel, blocks, floats, ref work } = grid;
        self.number = self.number.wrapping_add(1);
        let result = &self.turns[self.turn].result;
        let result = if is_last { device.address(result) } else { 0 };
        let head = [device.address(&self.stage), self.number.into(), result];
        let bytes = AHEAD_BYTES + size_of::<f32>() * floats;
        device.launch_grid(kernel, stream, blocks, bytes, &[&head, &work[..]].concat())
    }

    /// Launches parts on teams, in the order of their other launches.
    pub(crate) fn launch_teams(
        &mut self,
        device: &D,
        held: &mut Held<Arc<D>>,
        kernel: &TeamKernel<'_, D>,
        parts: &[TeamPart],
    ) -> Result<(), CudaError> {
        let first = (device.address(&self.stage), self.number.wrapping_add(1));
        let launches = held.enqueue(kernel, parts, Some(first))?;
        self.number = self.number.wrapping_add(launches);
        Ok(())
    }

    /// Returns the copies of lists that no launch makes.
    pub(crate) fn take_copies(&mut self, device: &D) -> Vec<[u64; 3]> {
        let lists = self.turns[self.turn].uploaded.iter_mut();
        lists.map(|lists| lists.take_copy(device)).filter(|[.., words]| *words > 0).collect()
    }

    /// Launches a kernel and waits for its end.
    pub(crate) fn launch(
        &mut self,
        device: &D,
        grid: &Grid<'_, D::Program>,
    ) -> Result<(), BackendError> {
        self.enqueue(device, STREAM, grid, false)?;
        while !device.is_idle(STREAM)? {
            thread::yield_now();
        }
        Ok(())
    }

    /// Returns what the last launch of a step has told.
    pub(super) fn told(&self, device: &D, turn: usize) -> Told {
        let words = device.host(&self.turns[turn].result);
        let &[_, done, input, parameter, a, b, c, d] = words.first_chunk().expect("a result");
        Told { done, input, parameter, loss: double(a, b), squared_norm: double(c, d) }
    }

    /// Returns the sum of squares that a launch has left, after checking that it ended: with a
    /// gradient that is not finite it does not end well.
    pub(crate) fn ended(&self, device: &D) -> Result<f64, BackendError> {
        let mut words = [0; STAGE];
        device.read(&self.stage, 0, &mut words)?;
        let [done, _, bad_input, bad_parameter, ..] = words;
        if [bad_input, bad_parameter] != [FINE; 2] {
            self.reset(device, 0.0)?;
        } else if done != self.number {
            return Err(CudaError::failed("a launch", "it did not end").into());
        }
        Ok(double(words[6], words[7]))
    }
}

pub(crate) fn double(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(low) | u64::from(high) << 32)
}

/// The lists of a kernel: in host memory, and on the device if a launch before copies them there.
pub(crate) struct ListMemory<D: Device> {
    host: Buffer<D>,
    device: Buffer<D>,
    /// The words that the launch copies.
    moved: usize,
}

impl<D: Device> ListMemory<D> {
    fn new() -> Self {
        let buffer = |side| Buffer::new(side, "the lists of gradients");
        Self { host: buffer(MemorySide::Host), device: buffer(MemorySide::Device), moved: 0 }
    }

    /// Copies lists to memory that the device can read, and returns their addresses; on the device,
    /// if they are moved there.
    pub(crate) fn upload<const N: usize>(
        &mut self,
        device: &D,
        lists: [&[u32]; N],
        moves: bool,
    ) -> Result<[u64; N], BackendError> {
        // Some have numbers of 64 bits.
        let words = |list: &[u32]| list.len().next_multiple_of(4);
        let total = lists.iter().map(|list| words(list)).sum();
        let memory = self.host.reserve(device, total)?;
        let (mut address, to) = (device.address(memory), device.host_mut(memory));
        let mut at = 0;
        let places = lists.map(|list| {
            to[at..][..list.len()].copy_from_slice(list);
            at += words(list);
            at - words(list)
        });
        self.moved = 0;
        if moves {
            address = device.address(self.device.reserve(device, total)?);
            self.moved = total;
        }
        Ok(places.map(|place| address + 4 * place as u64))
    }

    /// Returns the addresses and the number of the words that a launch must copy.
    pub(crate) fn take_copy(&mut self, device: &D) -> [u64; 3] {
        let words = std::mem::take(&mut self.moved) as u64;
        [self.host.address(device), self.device.address(device), words]
    }
}
