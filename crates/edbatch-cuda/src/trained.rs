//! The trained parameters of a program on a device: their values, moments and gradients, and the
//! kernels that update them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use edbatch_graph::{Network, ParameterId};
use edbatch_layout::Plan;
use edbatch_runtime::{BackendError, Bytes, Clipping, NotFiniteIn, Parameters, TrainingState};

use super::device::{AHEAD_BYTES, Device, Kernel, MemorySide, Source};
use super::loaded::{Generated, Loaded};
use super::memory::Buffer;
use super::pass::{Pass, copied};
use super::phase_table::Way;
use super::slot::Slot;
use super::sums::{Added, Lists, SumTable, TotalList};
use super::update::{Changed, Changes};
use super::weights::WeightLayout;
use super::{CudaError, CudaOptions, DevicePrecision};

/// The trained parameters of a program on a device. All forks of a backend share them.
pub(super) struct Trained<D: Device> {
    /// The backward pass.
    pub(super) back: Pass<D>,
    pub(super) rows: D::Program,
    pub(super) sums: D::Program,
    pub(super) totals: D::Program,
    update: D::Program,
    pub(super) table: SumTable,
    /// All parameters, row-major, in the order of the network. They begin at `starts`.
    pub(super) masters: D::Memory,
    pub(super) starts: Vec<u32>,
    size: usize,
    /// For each element, up to `places` places in the packed weights.
    packed: D::Memory,
    places: usize,
    state: Mutex<State<D>>,
}

/// What a step of training changes.
pub(super) struct State<D: Device> {
    /// `Stage` of `kernels/stage.h`, and the number of the last launch that ended well.
    pub(super) stage: D::Memory,
    pub(super) number: u32,
    /// `Result` of `kernels/stage.h`.
    result: D::Memory,
    /// The moments, each as large as all parameters; and how many of them each parameter has.
    moments: Option<D::Memory>,
    has_moments: Vec<usize>,
    will_have_moments: Vec<usize>,
    /// What the mini-batch has added to the sums, and their memory.
    pub(super) added: Added,
    pub(super) memory: Buffer<D>,
    pub(super) squares: Buffer<D>,
    /// Lists in host memory, for each of the four kernels.
    pub(super) uploaded: [Buffer<D>; 4],
    /// The adjoints of rows of tables.
    pub(super) slot: Slot<D>,
    pub(super) plan: Plan,
    pub(super) lists: Lists,
    pub(super) complete: TotalList,
    pub(super) squared_norm: f64,
}

/// The words of `Stage`, the index of nothing in it, and the words of `Result`.
const STAGE: usize = 8;
const FINE: u32 = u32::MAX;
const RESULT: usize = 8;

/// The stream of launches that no team is part of.
const STREAM: usize = 0;

/// The most moments of a parameter.
const MOMENTS: usize = 3;

/// What a step tells the host: `Result` of `kernels/stage.h`.
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
pub(super) struct Grid<'a, P> {
    pub(super) kernel: &'a P,
    pub(super) blocks: usize,
    /// The floats of shared memory of a block.
    pub(super) floats: usize,
    /// Its `Work` after the stage, the number of the launch, and the result.
    pub(super) work: Vec<u64>,
}

impl<D: Device> Trained<D> {
    /// Compiles the kernels of a program that has been loaded, and copies its parameters.
    pub(super) fn new(
        loaded: &Loaded<D>,
        layout: &WeightLayout,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Self, BackendError> {
        let Loaded { device, program, .. } = loaded;
        if options.precision != DevicePrecision::Exact {
            let why = "training on a device has exact products only: choose the precision f32";
            return Err(CudaError::failed("the precision of a program for training", why).into());
        }
        let training = program.training().expect("it is for training");
        let properties = device.properties();
        let Generated { source, placer, .. } =
            Generated::of(program, Way::Back, options, Some(properties), &properties.architecture);
        let (driver, on_compile) = (options.chosen_driver()?, options.on_compile);
        let back = Pass::new(&**device, (&source, placer), driver, on_compile)?;
        let grid = |text: &str| {
            let source = Source { text: text.into(), kernel: Kernel::Grid };
            device.compile(&source, on_compile)
        };
        let network = &*training.network;
        let (mut starts, mut size) = (Vec::new(), 0);
        for parameter in network.parameters() {
            starts.push(size as u32);
            size += parameter.elements();
        }
        // The places of elements are numbers that begin with 1, as the bits of floats.
        if size >= (1 << 31) - 1 {
            let (what, elements) = ("the trained parameters", size as u64);
            return Err(CudaError::TooLarge { what, elements }.into());
        }
        let elements = parameters.slices().concat();
        let words: Vec<u32> = elements.iter().map(|x| x.to_bits()).collect();
        let masters = copied(&**device, &words)?;
        drop((elements, words));
        let (packed, places) = packed_places(network, layout, size)?;
        let packed = copied(&**device, &packed)?;
        let table = SumTable::new(program, training);
        let state = State::new(&**device, &table, starts.len())?;
        Ok(Self {
            back,
            rows: grid(include_str!("kernels/rows.cu"))?,
            sums: grid(include_str!("kernels/sums.cu"))?,
            totals: grid(include_str!("kernels/totals.cu"))?,
            update: grid(include_str!("kernels/update.cu"))?,
            table,
            masters,
            starts,
            size,
            packed,
            places,
            state: Mutex::new(state),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the memory of parameters, moments and sums. The sums that depend on the mini-batch
    /// count as arena.
    pub(super) fn bytes(&self) -> Bytes {
        let state = self.state();
        let moments = if state.moments.is_some() { MOMENTS } else { 0 };
        let fixed = (self.table.floats as usize).min(state.memory.words);
        let weights = 4 * (self.size * (1 + self.places + moments) + fixed);
        Bytes { weights, arena: 4 * (state.memory.words - fixed), store: 0 }
    }

    /// Returns the elements of a parameter in the masters.
    fn range(&self, parameter: usize) -> std::ops::Range<usize> {
        let end = self.starts.get(parameter + 1).map_or(self.size, |&start| start as usize);
        self.starts[parameter] as usize..end
    }

    /// Returns the launch that updates parameters.
    pub(super) fn update(
        &self,
        loaded: &Loaded<D>,
        state: &mut State<D>,
        changes: &Changes,
        clip: Clipping,
    ) -> Result<Grid<'_, D::Program>, BackendError> {
        let (device, blocks) = (&*loaded.device, changes.chunks.len() / 2);
        let Changes { changes, chunks, rows, gradients } = changes;
        let lists = [&changes[..], chunks, rows, gradients.as_deref().unwrap_or_default()];
        let [changes, chunks, rows, own] = upload(device, &mut state.uploaded[3], lists)?;
        let [norm, limit] = match clip {
            Clipping::None => [f64::INFINITY; 2],
            Clipping::Norm(norm) => [norm, f64::INFINITY],
            Clipping::Value(limit) => [f64::INFINITY, limit],
        };
        let work = vec![
            changes,
            chunks,
            blocks as u64,
            rows,
            if gradients.is_some() { own } else { state.memory.address(device) },
            device.address(&self.masters),
            state.moments.as_ref().map_or(0, |memory| device.address(memory)),
            self.size as u64,
            device.address(&self.packed),
            self.places as u64,
            device.address(&loaded.weights),
            norm.to_bits(),
            limit.to_bits(),
        ];
        Ok(Grid { kernel: &self.update, blocks: blocks.max(1), floats: 0, work })
    }

    /// Allocates `count` moments for each parameter that is updated, if it has fewer. New ones are
    /// `initial`, and exist once the update has ended well.
    pub(super) fn reserve_moments(
        &self,
        device: &D,
        state: &mut State<D>,
        is_updated: impl Fn(usize) -> bool,
        (count, initial): (usize, f32),
    ) -> Result<(), BackendError> {
        let lacks = |(index, has): (usize, &usize)| is_updated(index) && *has < count;
        if !state.has_moments.iter().enumerate().any(lacks) {
            state.will_have_moments.clone_from(&state.has_moments);
            return Ok(());
        }
        let mut words = self.read_moments(device, state)?;
        let has_moments = &mut state.will_have_moments;
        has_moments.clone_from(&state.has_moments);
        for (index, has) in
            has_moments.iter_mut().enumerate().filter(|(index, _)| is_updated(*index))
        {
            for moment in *has..count {
                let range = self.range(index);
                words[moment * self.size..][range].fill(initial.to_bits());
            }
            *has = count.max(*has);
        }
        state.moments = Some(copied(device, &words)?);
        Ok(())
    }

    /// Returns all moments; those that no parameter has are zeros.
    fn read_moments(&self, device: &D, state: &State<D>) -> Result<Vec<u32>, BackendError> {
        let mut words = zeros(MOMENTS * self.size)?;
        if let Some(memory) = &state.moments {
            device.read(memory, 0, &mut words)?;
        }
        Ok(words)
    }

    /// Copies the parameters and their moments from the device.
    pub(super) fn copy_state(&self, loaded: &Loaded<D>) -> Result<TrainingState, BackendError> {
        let (device, state) = (&*loaded.device, self.state());
        let floats = |words: &[u32]| words.iter().map(|&word| f32::from_bits(word)).collect();
        let mut words = zeros(self.size)?;
        device.read(&self.masters, 0, &mut words)?;
        let parameters = 0..self.starts.len();
        let values = parameters.clone().map(|index| Arc::new(floats(&words[self.range(index)])));
        let parameters_of = Parameters::from_shared(loaded.program.network(), values.collect())?;
        let words = self.read_moments(device, &state)?;
        let moments = parameters.map(|index| {
            let own = |moment| floats(&words[moment * self.size..][self.range(index)]);
            (0..state.has_moments[index]).map(|moment| Arc::new(own(moment))).collect()
        });
        Ok(TrainingState { parameters: parameters_of, moments: moments.collect() })
    }

    /// Replaces the parameters and their moments.
    pub(super) fn replace_state(
        &self,
        loaded: &Loaded<D>,
        from: &TrainingState,
    ) -> Result<(), BackendError> {
        let (device, mut state) = (&*loaded.device, self.state());
        let parameters = from.for_network(loaded.program.network())?;
        let mut words = zeros(MOMENTS * self.size)?;
        for (index, moments) in from.moments.iter().enumerate() {
            for (number, moment) in moments.iter().enumerate() {
                let to = &mut words[number * self.size..][self.range(index)];
                to.iter_mut().zip(&**moment).for_each(|(to, x)| *to = x.to_bits());
            }
        }
        let has_moments: Vec<usize> = from.moments.iter().map(Vec::len).collect();
        let moments = match has_moments.iter().any(|&count| count > 0) {
            true => Some(copied(device, &words)?),
            false => None,
        };
        let values = parameters.slices().concat();
        let words: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
        device.fill(&self.masters, &words)?;
        (state.moments, state.has_moments) = (moments, has_moments);
        let mut changes = Changes::default();
        for index in 0..self.starts.len() {
            let range = self.range(index);
            let (at, elements) = (range.start as u32, range.len() as u32);
            changes.add(&Changed { at, from: 0, elements, rows: None }, None);
        }
        state.reset(device, 0.0)?;
        let grid = self.update(loaded, &mut state, &changes, Clipping::None)?;
        state.launch(device, &grid)?;
        state.ended(device)?;
        Ok(())
    }
}

impl<D: Device> State<D> {
    fn new(device: &D, table: &SumTable, parameters: usize) -> Result<Self, BackendError> {
        let mut added = Added::default();
        added.clear(table);
        let buffer = |what| Buffer::new(MemorySide::Device, what);
        let mut result = device.memory(4 * RESULT, MemorySide::Host)?;
        device.host_mut(&mut result).fill(0);
        let state = Self {
            stage: device.memory(4 * STAGE, MemorySide::Device)?,
            number: 0,
            result,
            moments: None,
            has_moments: vec![0; parameters],
            will_have_moments: Vec::new(),
            added,
            memory: buffer("the gradients of parameters on the device"),
            squares: buffer("the norm of gradients on the device"),
            uploaded: [(); 4]
                .map(|()| Buffer::new(MemorySide::Host, "the lists of gradients in pinned memory")),
            slot: Slot::new(),
            plan: Plan::default(),
            lists: Lists::default(),
            complete: TotalList::default(),
            squared_norm: 0.0,
        };
        state.reset(device, 0.0)?;
        Ok(state)
    }

    /// Sets all sums to zero.
    pub(super) fn forget(&mut self, table: &SumTable) {
        self.added.clear(table);
        self.complete.completed.clear();
        self.squared_norm = 0.0;
    }

    /// Ends an update that has ended well.
    pub(super) fn end_update(&mut self, table: &SumTable) {
        self.has_moments.clone_from(&self.will_have_moments);
        self.forget(table);
    }

    /// Begins launches after one that may not have ended well.
    pub(super) fn reset(&self, device: &D, squared_norm: f64) -> Result<(), CudaError> {
        let norm = squared_norm.to_bits();
        let words = [self.number, 0, FINE, FINE, 0, 0, norm as u32, (norm >> 32) as u32];
        device.fill(&self.stage, &words)
    }

    /// Launches a kernel on a stream; if it is the last one of a step, it tells the host.
    pub(super) fn enqueue(
        &mut self,
        device: &D,
        stream: usize,
        grid: &Grid<'_, D::Program>,
        is_last: bool,
    ) -> Result<(), CudaError> {
        let &Grid { kernel, blocks, floats, ref work } = grid;
        self.number = self.number.wrapping_add(1);
        let result = if is_last { device.address(&self.result) } else { 0 };
        let head = [device.address(&self.stage), self.number.into(), result];
        let bytes = AHEAD_BYTES + size_of::<f32>() * floats;
        device.launch_grid(kernel, stream, blocks, bytes, &[&head, &work[..]].concat())
    }

    /// Launches a kernel and waits for its end.
    pub(super) fn launch(
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

    /// Returns true once the last launch of a step has told the host.
    pub(super) fn is_told(&self, device: &D) -> bool {
        device.word(&self.result, 0) == self.number
    }

    /// Returns what the last launch has told.
    pub(super) fn told(&self, device: &D) -> Told {
        let words = device.host(&self.result);
        let &[_, done, input, parameter, a, b, c, d] = words.first_chunk().expect("a result");
        Told { done, input, parameter, loss: double(a, b), squared_norm: double(c, d) }
    }

    /// Returns the sum of squares that a launch has left, after checking that it ended: with a
    /// gradient that is not finite it does not end well.
    pub(super) fn ended(&self, device: &D) -> Result<f64, BackendError> {
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

fn double(low: u32, high: u32) -> f64 {
    f64::from_bits(u64::from(low) | u64::from(high) << 32)
}

/// Copies lists to memory that the device can read, and returns their addresses.
pub(super) fn upload<D: Device, const N: usize>(
    device: &D,
    buffer: &mut Buffer<D>,
    lists: [&[u32]; N],
) -> Result<[u64; N], BackendError> {
    // Some have numbers of 64 bits.
    let words = |list: &[u32]| list.len().next_multiple_of(4);
    let total = lists.iter().map(|list| words(list)).sum();
    let memory = buffer.reserve(device, total)?;
    let (address, to) = (device.address(memory), device.host_mut(memory));
    let mut at = 0;
    Ok(lists.map(|list| {
        to[at..][..list.len()].copy_from_slice(list);
        at += words(list);
        address + 4 * (at - words(list)) as u64
    }))
}

fn zeros(len: usize) -> Result<Vec<u32>, BackendError> {
    let mut words = Vec::new();
    let (what, bytes) = ("a copy of the parameters and moments", 4 * len as u64);
    words.try_reserve_exact(len).map_err(|_| BackendError::Memory { what, bytes })?;
    words.resize(len, 0);
    Ok(words)
}

/// Returns, for each element of all parameters, its places in the packed weights; and how many
/// places there are for each. Those that it does not need are the largest number.
fn packed_places(
    network: &Network,
    layout: &WeightLayout,
    size: usize,
) -> Result<(Vec<u32>, usize), BackendError> {
    let mut numbers = 1..;
    let values = network
        .parameters()
        .iter()
        .map(|parameter| numbers.by_ref().take(parameter.elements()).map(f32::from_bits).collect());
    let packed = layout.packed(network, &Parameters::from_values(network, values.collect())?)?;
    let mut counts = zeros(size)?;
    for &number in packed.iter().filter(|&&number| number > 0) {
        counts[number as usize - 1] += 1;
    }
    let places = counts.iter().max().map_or(0, |&count| count as usize);
    let mut all = zeros(places * size)?;
    all.fill(u32::MAX);
    for (place, &number) in (0..).zip(&packed).filter(|(_, number)| **number > 0) {
        let element = number as usize - 1;
        counts[element] -= 1;
        all[counts[element] as usize * size + element] = place;
    }
    Ok((all, places))
}
