//! Functions that open devices.

use std::slice;
use std::sync::Arc;

use edbatch_layout::{Lifetimes, Plan, Program};
use edbatch_runtime::{
    Backend, BackendError, Bytes, Outputs, Parameters, Part, PartLimits, StoredRow, Training,
};

use super::backend::Cuda;
use super::device::{Device, Properties};
use super::emulated::Emulated;
use super::loaded::Generated;
use super::nvidia::Nvidia;
use super::place::{Placement, recurrent};
use super::store::Store;
use super::{CudaOptions, DeviceModel, LaunchTimes};

/// Loads a program on CUDA devices, given by their indices from 0. The backend runs on the first
/// device; successive [forks](Backend::fork) use the devices in turn. All backends of a process
/// share the SMs of a device.
///
/// Kernels are compiled by NVRTC when a program first needs them, and cached in
/// `$XDG_CACHE_HOME/edbatch` or `~/.cache/edbatch`.
///
/// # Errors
/// If the list is empty, if the driver or a device is missing or too old, if the kernels are not
/// cached and NVRTC is not installed, or if memory for the weights cannot be allocated.
pub fn nvidia(
    program: Arc<Program>,
    parameters: &Parameters,
    options: &CudaOptions,
    devices: &[usize],
) -> Result<Box<dyn Backend>, BackendError> {
    let open = |&index: &usize| Nvidia::open(index, Store::of_user());
    let devices = devices.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    Ok(Box::new(Cuda::new(&devices, &program, parameters, options)?))
}

/// An emulated device: runs the same kernels on the host, compiled by the machine's C++ compiler.
///
/// Threads, blocks and jobs run in shuffled orders; results do not depend on the order. The device
/// is meant for tests, and far slower than [`Cpu`](edbatch_runtime::Cpu).
#[derive(Clone, Debug)]
pub struct EmulatedDevice(Arc<Emulated>);

/// A program on an [`EmulatedDevice`].
pub struct EmulatedBackend(Cuda<Emulated>);

impl EmulatedDevice {
    /// A small device with 12 SMs. The orders of threads, blocks and jobs depend on `seed`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(Arc::new(Emulated::new(seed)))
    }

    /// A device with `sms` SMs and `resident_bytes` of shared memory for the resident weights of a
    /// block.
    #[must_use]
    pub fn with_size(seed: u32, sms: u32, resident_bytes: usize) -> Self {
        Self(Arc::new(Emulated::new(seed).with_size(sms, resident_bytes)))
    }

    /// Loads a program. All backends on the device share its SMs.
    ///
    /// # Errors
    /// If no C++ compiler is installed, or memory for the weights cannot be allocated.
    pub fn load(
        &self,
        program: Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<EmulatedBackend, BackendError> {
        Self::load_on(slice::from_ref(self), program, parameters, options)
    }

    /// Loads a program on several devices, like [`nvidia`].
    ///
    /// # Errors
    /// Like [`load`](Self::load), and if the list is empty.
    pub fn load_on(
        devices: &[Self],
        program: Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<EmulatedBackend, BackendError> {
        let devices: Vec<_> = devices.iter().map(|device| device.0.clone()).collect();
        Ok(EmulatedBackend(Cuda::new(&devices, &program, parameters, options)?))
    }

    /// Returns the number of SMs.
    #[must_use]
    pub fn sms(&self) -> u32 {
        self.0.properties().sms
    }

    /// Returns the size of a program's teams on this device, like [`team_size`].
    #[must_use]
    pub fn team_size(&self, program: &Program, options: &CudaOptions) -> TeamSize {
        TeamSize::on(program, options, self.0.properties())
    }

    /// Returns the model of a program on a device of this size.
    #[must_use]
    pub fn model(&self, program: &Program, options: &CudaOptions) -> DeviceModel {
        DeviceModel::on(program, options, self.0.properties())
    }

    /// Returns the times of all launches so far, by the host's clock.
    #[must_use]
    pub fn launch_times(&self) -> LaunchTimes {
        self.0.team_pool().times()
    }

    /// Returns the number of driver calls so far, except polls for the end of a launch.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// Returns the number of launches so far.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.0.launches()
    }
}

impl EmulatedBackend {
    /// Runs one step of the plan that ran last in slot 0 again. Its operands may have been
    /// overwritten, so its results are meaningless.
    ///
    /// # Errors
    /// Like [`run`](Backend::run).
    pub fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError> {
        self.0.step(plan, step)
    }
}

impl Backend for EmulatedBackend {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        self.0.run(parts)
    }

    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a> {
        self.0.outputs(slot, plan)
    }

    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError> {
        self.0.reserve_store(slot, lines)
    }

    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        self.0.read_stored(slot, rows, to)
    }

    fn bytes(&self) -> Bytes {
        self.0.bytes()
    }

    fn bytes_of(&self, plan: &Plan) -> u64 {
        self.0.bytes_of(plan)
    }

    fn fork(&self) -> Box<dyn Backend> {
        self.0.fork()
    }

    fn program(&self) -> Option<&Arc<Program>> {
        self.0.program()
    }

    fn lifetimes(&self) -> Lifetimes {
        self.0.lifetimes()
    }

    fn division(&self) -> Option<PartLimits> {
        self.0.division()
    }

    fn chain(&self) -> usize {
        self.0.chain()
    }

    fn training(&mut self) -> Option<&mut dyn Training> {
        self.0.training()
    }
}

/// The size of a program's groups of blocks on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TeamSize {
    /// Blocks of a group, each on an SM of its own. A team is one or more groups.
    pub blocks: u32,
    /// The largest number of groups that a team can have.
    pub groups: u32,
    /// Shared memory of each block, in bytes: rows and resident weights.
    pub shared_bytes: usize,
    /// Bytes of the weights of recurrent cells.
    pub recurrent_bytes: usize,
    /// Bytes of the weights of recurrent cells that are streamed, not resident.
    pub streamed_bytes: usize,
    /// The numbers of the phases with resident weights, and the shapes of their unit tiles.
    pub tiles: String,
}

/// Returns the size of a program's groups on a device with `sms` SMs and `shared_bytes` of shared
/// memory per block, with exact products.
#[must_use]
pub fn team_size(program: &Program, sms: u32, shared_bytes: usize) -> TeamSize {
    TeamSize::on(program, &CudaOptions::new(), &Properties::of_size(sms, shared_bytes))
}

impl TeamSize {
    fn on(program: &Program, options: &CudaOptions, properties: &Properties) -> Self {
        let (table, placement) =
            Generated::new(program, options, Some(properties), "").placer.place();
        let Placement { slices, shared_bytes, places, .. } = &placement;
        let all = recurrent(program, &table);
        let streamed = all.iter().filter(|&&(phase, _)| places[phase].is_none());
        Self {
            blocks: *slices,
            groups: properties.sms / slices,
            shared_bytes: *shared_bytes,
            recurrent_bytes: all.iter().map(|&(_, bytes)| bytes).sum(),
            streamed_bytes: streamed.map(|&(_, bytes)| bytes).sum(),
            tiles: placement.tiles(),
        }
    }
}
