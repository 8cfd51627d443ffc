//! Errors of devices, drivers and compilers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use edbatch_runtime::BackendError;

/// An error of a CUDA device, its driver or a compiler.
///
/// A [`Backend`](edbatch_runtime::Backend) returns it as a [`BackendError::Other`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver library is not installed.
    #[error(
        "no CUDA driver found (libcuda.so.1): install NVIDIA's driver, version 530 or later, or \
         run on the CPU"
    )]
    NoDriver,
    /// The driver does not support the required CUDA version. Versions are (major, minor).
    #[error(
        "the driver supports CUDA {}.{}, expected {}.{} or later: install a newer driver",
        got.0, got.1, needed.0, needed.1
    )]
    DriverTooOld {
        /// The newest CUDA version that the driver supports.
        got: (u32, u32),
        /// The oldest CUDA version that is required.
        needed: (u32, u32),
    },
    /// The device does not exist.
    #[error("no CUDA device {index}: the driver finds {count}")]
    NoDevice {
        /// The index of the device, counted from 0.
        index: usize,
        /// The number of devices.
        count: usize,
    },
    /// A required compiler is not installed.
    #[error("no {compiler} found: {advice}")]
    NoCompiler {
        /// The compiler's name.
        compiler: String,
        /// Advice on installing it.
        advice: &'static str,
    },
    /// The driver cannot load the compiler's machine code.
    #[error(
        "{compiler} is too new for the driver, which supports CUDA {}.{}: install the Python \
         package {package}, and name the library's folder in EDBATCH_CUDA_LIBRARIES",
        driver.0, driver.1
    )]
    CompilerTooNew {
        /// The compiler's name, version and file.
        compiler: String,
        /// The newest CUDA version that the driver supports, (major, minor).
        driver: (u32, u32),
        /// The Python package with a compiler that the driver supports.
        package: &'static str,
    },
    /// The compute capability of the device is below 8.0.
    #[error("{name} has compute capability {}.{}, expected 8.0 or later", got.0, got.1)]
    Architecture {
        /// The device's name.
        name: String,
        /// Its compute capability, (major, minor).
        got: (u32, u32),
    },
    /// A generated source does not compile: a bug of this crate.
    #[error("a generated kernel does not compile, which is a bug: {log}")]
    Compile {
        /// The output of the compiler.
        log: String,
    },
    /// Out of memory.
    #[error("out of memory: failed to allocate {} KB on {what}", bytes.div_ceil(1000))]
    Memory {
        /// The owner of the memory: a device or the host.
        what: &'static str,
        /// The number of bytes that could not be allocated.
        bytes: usize,
    },
    /// A call of the driver, of NVRTC or of the system failed.
    #[error("{what}: {why}")]
    Failed {
        /// The purpose of the call.
        what: &'static str,
        /// The reported error.
        why: String,
    },
    /// A thread block did not arrive at its team's barrier in time.
    #[error(
        "barrier timeout: a thread block did not arrive within {timeout:?}; run on the CPU to \
         compare"
    )]
    BarrierTimeout {
        /// The time that the other blocks waited.
        timeout: Duration,
    },
    /// An argument is too large.
    #[error("{what}: expected at most {max}, got {got}")]
    OutOfRange {
        /// The meaning of the argument.
        what: &'static str,
        /// The largest possible value.
        max: usize,
        /// The value of the argument.
        got: usize,
    },
    /// A plan has too many elements: command lists hold 32-bit numbers.
    #[error(
        "the mini-batch has {elements} elements of {what}, expected fewer than 2^32: make \
         mini-batches smaller"
    )]
    TooLarge {
        /// The meaning of the elements.
        what: &'static str,
        /// The number of elements.
        elements: u64,
    },
}

impl CudaError {
    /// Fails if an argument is too large.
    pub(crate) fn check_range(what: &'static str, max: usize, got: usize) -> Result<(), Self> {
        if got > max { Err(Self::OutOfRange { what, max, got }) } else { Ok(()) }
    }

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

impl From<CudaError> for BackendError {
    fn from(error: CudaError) -> Self {
        Self::Other(Arc::new(error))
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn messages_are_complete_without_a_source() {
        let (compiler, package) = ("NVRTC 13.0".to_string(), "nvidia-cuda-nvrtc-cu12");
        let cases = [
            (
                CudaError::NoDriver,
                "no CUDA driver found (libcuda.so.1): install NVIDIA's driver, version 530 or \
                 later, or run on the CPU",
            ),
            (
                CudaError::DriverTooOld { got: (11, 8), needed: (12, 1) },
                "the driver supports CUDA 11.8, expected 12.1 or later: install a newer driver",
            ),
            (CudaError::NoDevice { index: 2, count: 1 }, "no CUDA device 2: the driver finds 1"),
            (
                CudaError::NoCompiler { compiler: "NVRTC".into(), advice: "install it" },
                "no NVRTC found: install it",
            ),
            (
                CudaError::CompilerTooNew { compiler, driver: (12, 2), package },
                "NVRTC 13.0 is too new for the driver, which supports CUDA 12.2: install the \
                 Python package nvidia-cuda-nvrtc-cu12, and name the library's folder in \
                 EDBATCH_CUDA_LIBRARIES",
            ),
            (
                CudaError::Architecture { name: "V100".into(), got: (7, 0) },
                "V100 has compute capability 7.0, expected 8.0 or later",
            ),
            (
                CudaError::Compile { log: "line 1".into() },
                "a generated kernel does not compile, which is a bug: line 1",
            ),
            (
                CudaError::Memory { what: "the host", bytes: 1001 },
                "out of memory: failed to allocate 2 KB on the host",
            ),
            (CudaError::failed("launching", "refused"), "launching: refused"),
            (
                CudaError::BarrierTimeout { timeout: Duration::from_secs(2) },
                "barrier timeout: a thread block did not arrive within 2s; run on the CPU to \
                 compare",
            ),
            (
                CudaError::OutOfRange { what: "blocks", max: 3, got: 4 },
                "blocks: expected at most 3, got 4",
            ),
            (
                CudaError::TooLarge { what: "results", elements: 1 << 32 },
                "the mini-batch has 4294967296 elements of results, expected fewer than 2^32: \
                 make mini-batches smaller",
            ),
        ];
        for (error, message) in cases {
            let backend = BackendError::from(error.clone());
            assert_eq!([error.to_string(), backend.to_string()], [message; 2]);
            assert!(error.source().is_none() && backend.source().is_none(), "{message}");
        }
    }
}
