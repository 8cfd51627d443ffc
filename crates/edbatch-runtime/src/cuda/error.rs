//! What can be missing or go wrong on the way to a device.

use std::fmt;
use std::time::Duration;

use crate::BackendError;

/// Why a device cannot be used, or what of it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library is not there.
    NoDriver,
    /// The driver knows no CUDA as new as this program needs; versions are (major, minor).
    DriverTooOld {
        /// What the driver knows.
        got: (u32, u32),
        /// What is needed at least.
        needed: (u32, u32),
    },
    /// There are fewer devices.
    NoDevice {
        /// The device asked for, counted from 0.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A compiler that is needed is not there.
    NoCompiler {
        /// Which one.
        compiler: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// The device is of a generation older than 8.0.
    Architecture {
        /// The device's name.
        name: String,
        /// Its compute capability, (major, minor).
        got: (u32, u32),
    },
    /// The compiler refused a generated source: a mistake of this library.
    Compile {
        /// What the compiler said.
        log: String,
    },
    /// Memory that cannot be had.
    Memory {
        /// Whose memory it is.
        what: &'static str,
        /// How much was asked for.
        bytes: usize,
    },
    /// A call of the driver, the compiler's library or the system failed.
    Failed {
        /// What was to be done.
        what: &'static str,
        /// What was reported.
        why: String,
    },
    /// The blocks of a team waited for each other in vain, and gave the plan up.
    Late {
        /// How long they waited.
        patience: Duration,
    },
    /// A call with an argument that is out of range.
    Refused {
        /// What the argument means.
        what: &'static str,
        /// The most that is possible.
        expected: usize,
        /// What was asked for.
        got: usize,
    },
}

impl CudaError {
    /// Returns the error of a device inside a backend's error.
    #[must_use]
    pub fn of(error: &BackendError) -> Option<&Self> {
        match error {
            BackendError::Other(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// What was to be done, and what was reported.
    pub(super) fn failed(what: &'static str, why: impl fmt::Display) -> Self {
        CudaError::Failed { what, why: why.to_string() }
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaError::NoDriver => write!(
                f,
                "there is no CUDA driver (libcuda.so.1): install NVIDIA's driver, version 580 or \
                 later, or run on the CPU"
            ),
            CudaError::DriverTooOld { got, needed } => write!(
                f,
                "the driver knows CUDA {}.{}, needed is {}.{}: install a newer driver",
                got.0, got.1, needed.0, needed.1
            ),
            CudaError::NoDevice { index, count } => {
                write!(f, "there is no CUDA device {index}: the driver finds {count}")
            }
            CudaError::NoCompiler { compiler, advice } => {
                write!(f, "there is no {compiler}: {advice}")
            }
            CudaError::Architecture { name, got } => write!(
                f,
                "{name} is of compute capability {}.{}, needed is 8.0 or later",
                got.0, got.1
            ),
            CudaError::Compile { log } => {
                write!(f, "a generated kernel does not compile, which is a mistake here: {log}")
            }
            CudaError::Memory { what, bytes } => {
                write!(f, "{what} does not give {:.1} MB of memory", *bytes as f64 / 1e6)
            }
            CudaError::Failed { what, why } => write!(f, "{what}: {why}"),
            CudaError::Late { patience } => write!(
                f,
                "a plan was given up: the blocks of a team waited for each other for more than \
                 {patience:?}; with EDBATCH_CUDA=waves no block waits for another"
            ),
            CudaError::Refused { what, expected, got } => {
                write!(f, "{what}: at most {expected} is possible, got {got}")
            }
        }
    }
}

impl std::error::Error for CudaError {}
