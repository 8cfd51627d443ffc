//! `--precision`: the precision of products on a device.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// 32-bit floats, bit-identical to the CPU.
    #[value(name = "f32")]
    Exact,
    /// Tensor cores, with operands rounded to TF32 (10-bit mantissa); only on backend cuda.
    Tf32,
}

#[cfg(feature = "cuda")]
impl Precision {
    /// Returns the options of a device.
    pub(crate) fn options(self) -> edbatch::cuda::CudaOptions {
        use edbatch::cuda::{self, CudaOptions};

        CudaOptions::new().precision(match self {
            Self::Exact => cuda::Precision::Exact,
            Self::Tf32 => cuda::Precision::Tf32,
        })
    }
}
