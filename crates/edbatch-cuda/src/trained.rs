//! The trained parameters of a program on a device: their values, moments and gradients, and the
//! kernels that update them.

mod flight;
mod grids;
mod state;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use edbatch_graph::Network;
use edbatch_layout::Program;
use edbatch_runtime::{BackendError, Bytes, Clipping, Parameters, TrainingState};

use super::device::{Device, GRIDS, Kernel, Source};
use super::loaded::{Generated, Loaded};
use super::pass::{Pass, copied};
use super::phase_table::Way;
use super::sums::SumTable;
use super::update::{Changed, Changes};
use super::weights::WeightLayout;
use super::{CudaError, CudaOptions, DevicePrecision};

pub(super) use state::{Enqueued, Flight, State, double};

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
    options: CudaOptions,
    evaluated: Mutex<Option<Evaluated<D>>>,
    state: Mutex<State<D>>,
}

/// The program of the last evaluation, its kernel, and the layout of its weights.
struct Evaluated<D: Device> {
    program: Arc<Program>,
    pass: Arc<Pass<D>>,
    layout: WeightLayout,
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
        let grid = |number: usize| {
            let text: &str = GRIDS[number];
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
        let table = SumTable::new(program, training)?;
        let state = State::new(&**device, &table, starts.len())?;
        Ok(Self {
            back,
            rows: grid(0)?,
            sums: grid(1)?,
            totals: grid(2)?,
            update: grid(3)?,
            table,
            masters,
            starts,
            size,
            packed,
            places,
            options: *options,
            evaluated: Mutex::new(None),
            state: Mutex::new(state),
        })
    }

    /// Returns the state after all steps that have been enqueued.
    pub(super) fn state(&self) -> MutexGuard<'_, State<D>> {
        let mut state = self.state_ahead();
        state.settle();
        state
    }

    /// Returns the state while steps may run.
    pub(super) fn state_ahead(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads a program with parameters on the same device. Its kernel is compiled only if the last
    /// evaluation was of another program.
    pub(super) fn evaluation(
        &self,
        device: &Arc<D>,
        program: &Arc<Program>,
        parameters: &Parameters,
    ) -> Result<Arc<Loaded<D>>, BackendError> {
        let parameters = &parameters.for_network(program.network())?;
        let mut last = self.evaluated.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last
            && Arc::ptr_eq(&last.program, program)
        {
            let compiled = (device.clone(), program.clone(), last.pass.clone());
            return Loaded::with_parameters(compiled, &last.layout, parameters).map(Arc::new);
        }
        let of = (program.clone(), Way::Forward);
        let (loaded, layout) = Loaded::of(device.clone(), of, parameters, &self.options)?;
        let (program, pass) = (program.clone(), loaded.pass.clone());
        *last = Some(Evaluated { program, pass, layout });
        Ok(Arc::new(loaded))
    }

    /// Returns the memory of parameters, moments and sums. The sums that depend on the mini-batch
    /// count as arena.
    pub(super) fn bytes(&self) -> Bytes {
        let state = self.state();
        let fixed = (self.table.floats as usize).min(state.memory.words);
        let weights = 4 * (self.size * (1 + self.places + state.kept) + fixed);
        Bytes { weights, arena: 4 * (state.memory.words - fixed), store: 0 }
    }

    /// Returns the elements of a parameter in the masters.
    pub(super) fn range(&self, parameter: usize) -> Range<usize> {
        let end = self.starts.get(parameter + 1).map_or(self.size, |&start| start as usize);
        self.starts[parameter] as usize..end
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
        if state.has_moments != state.will_have_moments {
            state.settle();
        }
        let lacks = |(index, has): (usize, &usize)| is_updated(index) && *has < count;
        if !state.has_moments.iter().enumerate().any(lacks) {
            state.will_have_moments.clone_from(&state.has_moments);
            return Ok(());
        }
        let kept = state.kept.max(count);
        let mut words = self.read_moments(device, state, kept)?;
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
        state.kept = kept;
        Ok(())
    }

    /// Returns `count` moments, at least as many as are kept. Those that no parameter has are 0.
    fn read_moments(
        &self,
        device: &D,
        state: &State<D>,
        count: usize,
    ) -> Result<Vec<u32>, BackendError> {
        let mut words = zeros(count * self.size)?;
        if let Some(memory) = &state.moments {
            device.read(memory, 0, &mut words[..state.kept * self.size])?;
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
        let words = self.read_moments(device, &state, state.kept)?;
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
        let kept = from.moments.iter().map(Vec::len).max().unwrap_or(0);
        let mut words = zeros(kept * self.size)?;
        for (index, moments) in from.moments.iter().enumerate() {
            for (number, moment) in moments.iter().enumerate() {
                let to = &mut words[number * self.size..][self.range(index)];
                to.iter_mut().zip(&**moment).for_each(|(to, x)| *to = x.to_bits());
            }
        }
        let has_moments: Vec<usize> = from.moments.iter().map(Vec::len).collect();
        let moments = if kept > 0 { Some(copied(device, &words)?) } else { None };
        let values = parameters.slices().concat();
        let words: Vec<u32> = values.iter().map(|x| x.to_bits()).collect();
        device.fill(&self.masters, &words)?;
        (state.moments, state.kept, state.has_moments) = (moments, kept, has_moments);
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
