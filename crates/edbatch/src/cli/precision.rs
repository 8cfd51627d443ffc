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
    /// Returns the options of a device, with reports of compilations on standard error.
    pub(crate) fn options(self) -> crate::cuda::CudaOptions {
        use crate::cuda::{self, CudaOptions};

        let report = |compilation: &cuda::Compilation| eprintln!("edbatch: {compilation}");
        CudaOptions::new().on_compile(report).precision(match self {
            Self::Exact => cuda::Precision::Exact,
            Self::Tf32 => cuda::Precision::Tf32,
        })
    }
}
