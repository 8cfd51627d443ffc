//! `--precision`: how products are rounded on a device.

use clap::ValueEnum;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// 32-bit floats as on the CPU, bit for bit.
    #[value(name = "f32")]
    Exact,
    /// On tensor cores, from operands rounded to 10 bits behind the point; for backend cuda.
    Tf32,
}

#[cfg(feature = "cuda")]
impl Precision {
    /// A device's options.
    pub(crate) fn options(self) -> edbatch_runtime::cuda::CudaOptions {
        use edbatch_runtime::cuda::{self, CudaOptions};

        CudaOptions::new().precision(match self {
            Self::Exact => cuda::Precision::Exact,
            Self::Tf32 => cuda::Precision::Tf32,
        })
    }
}
