//! The device that is measured, or the one that stands in for it in a rehearsal.

use std::sync::Arc;

use clap::ValueEnum;
use edbatch::cuda::measure::{Hardware, Probe};
use edbatch::cuda::{self, CudaOptions, EmulatedDevice};
use edbatch_layout::Program;
use edbatch_runtime::{Backend, BackendError, Parameters};

use super::record::MeasuredOn;
use crate::machine::Machine;
use crate::workload::Failure;

/// Which device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DeviceKind {
    /// NVIDIA's, number 0
    Cuda,
    /// The host: a rehearsal, whose times say nothing
    Emulated,
}

/// A device to load programs on.
pub enum Target {
    /// NVIDIA's, and the kernel that measures it.
    Cuda(Box<Probe>),
    /// The host.
    Emulated(EmulatedDevice),
}

impl Target {
    /// Opens the device.
    ///
    /// # Errors
    /// If there is none: says what to install.
    pub fn open(kind: DeviceKind) -> Result<Self, Failure> {
        match kind {
            DeviceKind::Emulated => Ok(Self::Emulated(EmulatedDevice::new(7))),
            DeviceKind::Cuda => match Probe::open(0) {
                Ok(probe) => Ok(Self::Cuda(Box::new(probe))),
                Err(error) => Err(format!(
                    "{error}\nneeded are a GPU of compute capability 8.0 or later, NVIDIA's driver \
                     580 or later, and NVRTC 13.0 unless kernels were compiled ahead \
                     (docs/cuda.md); a rehearsal without: --device emulated"
                )
                .into()),
            },
        }
    }

    /// Whether its times say nothing.
    #[must_use]
    pub fn is_rehearsal(&self) -> bool {
        matches!(self, Self::Emulated(_))
    }

    /// NVIDIA's device.
    #[must_use]
    pub fn probe(&self) -> Option<&Probe> {
        match self {
            Self::Cuda(probe) => Some(probe),
            Self::Emulated(_) => None,
        }
    }

    /// Loads a program.
    ///
    /// # Errors
    /// If its kernels are not stored and there is no compiler, or memory cannot be had.
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

    /// How many teams of a program run at the same time.
    #[must_use]
    pub fn teams(&self, program: &Program, fewest_blocks: u32) -> usize {
        let (processors, size) = match self {
            Self::Cuda(probe) => {
                let Hardware { sms: processors, shared_bytes, .. } = *probe.hardware();
                let size = cuda::team_size(program, processors, shared_bytes, fewest_blocks);
                (processors, size)
            }
            Self::Emulated(device) => (device.sms(), device.team_size(program, fewest_blocks)),
        };
        (processors / size.blocks) as usize
    }

    /// What records say of it.
    #[must_use]
    pub fn measured_on(&self) -> MeasuredOn {
        let host = Machine::here().to_string();
        match self {
            Self::Cuda(probe) => {
                let hardware = probe.hardware();
                MeasuredOn {
                    device: hardware.name.clone(),
                    architecture: hardware.architecture.clone(),
                    processors: hardware.sms,
                    driver: format!("{}.{}", hardware.driver.0, hardware.driver.1),
                    clocks_mhz: [hardware.clock_khz / 1000, hardware.memory_clock_khz / 1000],
                    host,
                    rehearsal: false,
                }
            }
            Self::Emulated(device) => MeasuredOn {
                device: "the emulated device".into(),
                processors: device.sms(),
                host,
                rehearsal: true,
                ..MeasuredOn::default()
            },
        }
    }
}
