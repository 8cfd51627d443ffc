//! `--precision`: the precision of products of weights and vectors.

use clap::ValueEnum;
use edbatch::runtime;

use super::failure::Failure;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// 32-bit floats.
    F32,
    /// Factors rounded to bf16 (8-bit mantissa): faster on many CPUs, with half the memory for
    /// weights; tensor cores on backend cuda.
    Bf16,
    /// Tensor cores, with factors rounded to TF32 (10-bit mantissa); only on backend cuda.
    Tf32,
}

impl Precision {
    /// Returns the precision of a CPU, or an error for one that only devices have.
    pub(crate) fn on_cpu(self) -> Result<runtime::Precision, Failure> {
        match self {
            Self::F32 => Ok(runtime::Precision::F32),
            Self::Bf16 => Ok(runtime::Precision::Bf16),
            Self::Tf32 => Err(Failure::Usage("--precision tf32 is for backend cuda".into())),
        }
    }

    /// Returns the options of a device, with reports of compilations on standard error.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_device(self) -> edbatch::cuda::CudaOptions {
        use edbatch::cuda::{CudaOptions, DevicePrecision};

        let precision = match self {
            Self::F32 => DevicePrecision::Exact,
            Self::Tf32 => DevicePrecision::Tf32,
            Self::Bf16 => DevicePrecision::Bf16,
        };
        CudaOptions::new().on_compile(report).precision(precision)
    }
}

/// Says on standard error that kernels are being compiled.
#[cfg(feature = "cuda")]
pub(crate) fn report(compilation: &edbatch::cuda::Compilation) {
    eprintln!("edbatch: {compilation}");
}
