//! How devices are opened.

use std::sync::Arc;

use edbatch_layout::Program;

use super::CudaOptions;
use super::backend::Cuda;
use super::device::{Device, Facts};
use super::emulated::Emulated;
use super::nvidia::Nvidia;
use super::place::{TeamSize, team_size};
use super::store::Store;
use crate::{Backend, BackendError, Parameters};

/// CUDA devices, counted from 0. A program is loaded on each of them; the backend is on the first,
/// and those of [other engines](Backend::of_another_engine) are on the devices in turn. All
/// backends of a process on a device share its processors.
///
/// Kernels are compiled by NVRTC when a program first needs them, and found in the user's cache
/// afterwards: `$XDG_CACHE_HOME/edbatch`, or `~/.cache/edbatch`.
///
/// # Errors
/// If there is no device in the list, if the driver or a device is missing or too old, if the
/// kernels are not stored and there is no compiler, or if memory for the weights cannot be had.
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

/// A device that is the host: the same kernels, compiled by the C++ compiler of the machine.
/// Threads, blocks and jobs run in shuffled orders, and no bit depends on them.
///
/// For tests, and to see what a device would compute; far slower than [`Cpu`](crate::Cpu).
#[derive(Clone, Debug)]
pub struct EmulatedDevice(Arc<Emulated>);

impl EmulatedDevice {
    /// A small device, whose orders of threads, blocks and jobs depend on `seed`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(Arc::new(Emulated::new(seed)))
    }

    /// The same with so many processors, and so many bytes of shared memory for the weights that a
    /// block keeps.
    #[must_use]
    pub fn with_size(seed: u32, processors: u32, kept_bytes: usize) -> Self {
        Self(Arc::new(Emulated::new(seed).with_size(processors, kept_bytes)))
    }

    /// Loads a program. All backends on the device share its processors.
    ///
    /// # Errors
    /// If there is no C++ compiler, or memory for the weights cannot be had.
    pub fn load(
        &self,
        program: Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Box<dyn Backend>, BackendError> {
        Self::load_on(std::slice::from_ref(self), program, parameters, options)
    }

    /// Loads a program on several devices, as [`nvidia`] does.
    ///
    /// # Errors
    /// As [`load`](Self::load), or if there is no device.
    pub fn load_on(
        devices: &[Self],
        program: Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Box<dyn Backend>, BackendError> {
        let devices: Vec<_> = devices.iter().map(|device| device.0.clone()).collect();
        Ok(Box::new(Cuda::new(&devices, &program, parameters, options)?))
    }

    /// How many processors it has.
    #[must_use]
    pub fn processors(&self) -> u32 {
        self.0.facts().processors
    }

    /// The size of its teams, as [`team_size`].
    #[must_use]
    pub fn team_size(&self, program: &Program, fewest_blocks: u32) -> TeamSize {
        let Facts { processors, shared_bytes, .. } = *self.0.facts();
        team_size(program, processors, shared_bytes, fewest_blocks)
    }

    /// How often a driver would have been called so far, but for asking whether it is done.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// How many of these calls were launches.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.0.launches()
    }
}
