//! Errors of devices, drivers and compilers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use edbatch_runtime::BackendError;

/// An error of a CUDA device, its driver or a compiler.
///
/// A [`Backend`](edbatch_runtime::Backend) returns it as a [`BackendError::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver library is not installed.
    NoDriver,
    /// The driver does not support the required CUDA version. Versions are (major, minor).
    DriverTooOld {
        /// The newest CUDA version that the driver supports.
        got: (u32, u32),
        /// The oldest CUDA version that is required.
        needed: (u32, u32),
    },
    /// The device does not exist.
    NoDevice {
        /// The index of the device, counted from 0.
        index: usize,
        /// The number of devices.
        count: usize,
    },
    /// A required compiler is not installed.
    NoCompiler {
        /// The compiler's name.
        compiler: String,
        /// Advice on installing it.
        advice: &'static str,
    },
    /// The driver cannot load the compiler's machine code.
    CompilerTooNew {
        /// The compiler's name, version and file.
        compiler: String,
        /// The newest CUDA version that the driver supports, (major, minor).
        driver: (u32, u32),
        /// The Python package with a compiler that the driver supports.
        package: &'static str,
    },
    /// The compute capability of the device is below 8.0.
    Architecture {
        /// The device's name.
        name: String,
        /// Its compute capability, (major, minor).
        got: (u32, u32),
    },
    /// A generated source does not compile: a bug of this crate.
    Compile {
        /// The output of the compiler.
        log: String,
    },
    /// Out of memory.
    Memory {
        /// The owner of the memory: a device or the host.
        what: &'static str,
        /// The number of bytes that could not be allocated.
        bytes: usize,
    },
    /// A call of the driver, of NVRTC or of the system failed.
    Failed {
        /// The purpose of the call.
        what: &'static str,
        /// The reported error.
        why: String,
    },
    /// A thread block did not arrive at its team's barrier in time.
    BarrierTimeout {
        /// The time that the other blocks waited.
        timeout: Duration,
    },
    /// An argument is too large.
    OutOfRange {
        /// The meaning of the argument.
        what: &'static str,
        /// The largest possible value.
        max: usize,
        /// The value of the argument.
        got: usize,
    },
    /// A plan has too many elements: command lists hold 32-bit numbers.
    TooLarge {
        /// The meaning of the elements.
        what: &'static str,
        /// The number of elements.
        elements: u64,
    },
}

impl CudaError {
    /// Returns the CUDA error inside of a backend's error.
    #[must_use]
    pub fn of(error: &BackendError) -> Option<&Self> {
        match error {
            BackendError::Other(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// Creates the error of a failed call from the call's purpose and the reported error.
    pub(crate) fn failed(what: &'static str, why: impl fmt::Display) -> Self {
        CudaError::Failed { what, why: why.to_string() }
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaError::NoDriver => write!(
                f,
                "no CUDA driver found (libcuda.so.1): install NVIDIA's driver, version 530 or \
                 later, or run on the CPU"
            ),
            CudaError::DriverTooOld { got, needed } => write!(
                f,
                "the driver supports CUDA {}.{}, expected {}.{} or later: install a newer \
                 driver",
                got.0, got.1, needed.0, needed.1
            ),
            CudaError::NoDevice { index, count } => {
                write!(f, "no CUDA device {index}: the driver finds {count}")
            }
            CudaError::NoCompiler { compiler, advice } => {
                write!(f, "no {compiler} found: {advice}")
            }
            CudaError::CompilerTooNew { compiler, driver, package } => write!(
                f,
                "{compiler} is too new for the driver, which supports CUDA {}.{}: install the \
                 Python package {package}, and name the library's folder in EDBATCH_CUDA_LIBRARIES",
                driver.0, driver.1
            ),
            CudaError::Architecture { name, got } => write!(
                f,
                "{name} has compute capability {}.{}, expected 8.0 or later",
                got.0, got.1
            ),
            CudaError::Compile { log } => {
                write!(f, "a generated kernel does not compile, which is a bug: {log}")
            }
            CudaError::Memory { what, bytes } => {
                let kilobytes = bytes.div_ceil(1000);
                write!(f, "out of memory: failed to allocate {kilobytes} KB on {what}")
            }
            CudaError::Failed { what, why } => write!(f, "{what}: {why}"),
            CudaError::BarrierTimeout { timeout } => write!(
                f,
                "barrier timeout: a thread block did not arrive within {timeout:?}; set \
                 EDBATCH_CUDA=waves to launch each wave without barriers"
            ),
            CudaError::OutOfRange { what, max, got } => {
                write!(f, "{what}: expected at most {max}, got {got}")
            }
            CudaError::TooLarge { what, elements } => write!(
                f,
                "the mini-batch has {elements} elements of {what}, expected fewer than 2^32: make \
                 mini-batches smaller"
            ),
        }
    }
}

impl std::error::Error for CudaError {}

impl From<CudaError> for BackendError {
    fn from(error: CudaError) -> Self {
        Self::Other(Arc::new(error))
    }
}
