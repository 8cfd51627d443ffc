//! The CUDA device that is measured, or the emulated device of a rehearsal.

use std::fmt;
use std::sync::Arc;

use edbatch_cuda::measure::{Hardware, ProbeDevice};
use edbatch_cuda::{self as cuda, CudaOptions, DeviceModel, EmulatedDevice, LaunchTimes};
use edbatch_layout::Program;
use edbatch_runtime::{Backend, BackendError, Parameters};

use crate::Failure;
use crate::measure::gpu::experiment::Experiment;
use crate::spread::Spread;

/// Number of samples of the device's peak.
const SAMPLES: usize = 20;
/// Seed of the emulated device, which shuffles threads and blocks.
const SEED: u32 = 7;

/// A device that loads programs.
pub enum Device {
    /// NVIDIA's device number 0, with the kernels that measure it.
    Cuda(Box<ProbeDevice>),
    /// This machine's processor running the same kernels. Its times are meaningless.
    Emulated(EmulatedDevice),
}

impl Device {
    /// Opens NVIDIA's device number 0, or makes an emulated one.
    pub fn open(emulated: bool) -> Result<Self, Failure> {
        if emulated {
            return Ok(Self::Emulated(EmulatedDevice::new(SEED)));
        }
        Ok(Self::Cuda(Box::new(ProbeDevice::open(0)?)))
    }

    /// Returns the probe of NVIDIA's device.
    pub fn probe(&self) -> Option<&ProbeDevice> {
        match self {
            Self::Cuda(probe) => Some(probe),
            Self::Emulated(_) => None,
        }
    }

    /// Loads a program.
    pub fn load(
        &self,
        program: &Arc<Program>,
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<Box<dyn Backend>, BackendError> {
        match self {
            Self::Cuda(_) => cuda::nvidia(program.clone(), parameters, options, &[0]),
            Self::Emulated(device) => {
                Ok(Box::new(device.load(program.clone(), parameters, options)?))
            }
        }
    }

    /// Returns the number of teams (groups of blocks that run a plan) that run a program together.
    pub fn teams(&self, program: &Program) -> usize {
        let (sms, size) = match self {
            Self::Cuda(probe) => {
                let Hardware { sms, shared_bytes, .. } = *probe.hardware();
                (sms, cuda::team_size(program, sms, shared_bytes))
            }
            Self::Emulated(device) => {
                (device.sms(), device.team_size(program, &CudaOptions::new()))
            }
        };
        (sms / size.blocks) as usize
    }

    /// Returns the model of a program on a device of this size.
    pub fn model(&self, program: &Program, options: &CudaOptions) -> DeviceModel {
        match self {
            Self::Cuda(probe) => probe.model(program, options),
            Self::Emulated(device) => device.model(program, options),
        }
    }

    /// Returns the times of all launches of plans so far.
    pub fn launch_times(&self) -> LaunchTimes {
        match self {
            Self::Cuda(probe) => probe.launch_times(),
            Self::Emulated(device) => device.launch_times(),
        }
    }

    /// Returns true for the emulated device.
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Emulated(_))
    }

    /// Measures the peak of multiply-adds in 1e9 FLOPs a second; `None` for the emulated device.
    pub fn peak_gflops(&self) -> Result<Option<f64>, Failure> {
        let Self::Cuda(probe) = self else { return Ok(None) };
        let measured = Experiment::MultiplyAdds.measure(probe, SAMPLES)?;
        let rates: Vec<f64> = measured.device.iter().map(|ns| measured.work / ns).collect();
        Ok(Some(Spread::of(&rates).median))
    }
}

/// Name, architecture, SMs, clocks and driver, for records.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Cuda(probe) = self else { return f.write_str("emulated, times are meaningless") };
        let Hardware { name, architecture, sms, driver, clock_khz, .. } = probe.hardware();
        let (memory, clock) = (probe.hardware().memory_clock_khz / 1000, clock_khz / 1000);
        write!(
            f,
            "{name} ({architecture}, {sms} SMs, up to {clock} and {memory} MHz, driver for \
             CUDA {}.{})",
            driver.0, driver.1
        )
    }
}
