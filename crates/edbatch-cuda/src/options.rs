//! Options of a program on a device.

use std::env;

use super::{Compilation, CudaError};

/// The environment variable that overrides [`CudaOptions::driver`].
const DRIVER: &str = "EDBATCH_CUDA";

/// Options for running plans on a device, fixed when a program is loaded.
///
/// Only the precision changes the bits of a result.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CudaOptions {
    /// The way to synchronise the blocks of a team. The environment variable `EDBATCH_CUDA`
    /// (`teams` or `barriers`) overrides it.
    pub driver: Driver,
    /// The rounding of products.
    pub precision: DevicePrecision,
    /// The shape of all unit tiles that it fits, by its number (from 1) among
    /// [`DeviceModel::costs`](crate::DeviceModel::costs), for calibration. By default each tile has
    /// the fastest shape for its number of rows.
    pub shape: Option<u32>,
    /// A function that is called before and after each compilation by NVRTC. Stored kernels are not
    /// compiled.
    pub on_compile: Option<fn(&Compilation)>,
}

/// The rounding of products of weights and vectors; everything else is rounded as on the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DevicePrecision {
    /// The same bits as on CPUs with fused multiply-adds.
    #[default]
    Exact,
    /// Tensor cores, with operands rounded to TF32 (10-bit mantissa). The error of a sum of K
    /// terms x w is at most (2⁻¹⁰ + 2⁻²² + K · 2⁻²²) · Σ |x w|. Bits depend on the device, but not
    /// on the mini-batch.
    Tf32,
}

/// The way to synchronise the blocks of a team, which runs a whole plan in one launch and keeps
/// recurrent weights in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Driver {
    /// Blocks wait for each row that they read. A barrier comes only before waves that need one.
    #[default]
    Teams,
    /// A barrier before each wave, to find mistakes.
    Barriers,
}

impl CudaOptions {
    /// The default options: [`Driver::Teams`] and [`DevicePrecision::Exact`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the way to synchronise the blocks of a team.
    #[must_use]
    pub fn driver(self, driver: Driver) -> Self {
        Self { driver, ..self }
    }

    /// Sets the rounding of products.
    #[must_use]
    pub fn precision(self, precision: DevicePrecision) -> Self {
        Self { precision, ..self }
    }

    /// Sets the shape of all unit tiles that it fits.
    #[must_use]
    pub fn shape(self, shape: Option<u32>) -> Self {
        Self { shape, ..self }
    }

    /// Sets the function that is called before and after each compilation.
    #[must_use]
    pub fn on_compile(self, report: fn(&Compilation)) -> Self {
        Self { on_compile: Some(report), ..self }
    }

    /// Returns the driver that the environment selects, or else [`CudaOptions::driver`].
    pub(super) fn chosen_driver(&self) -> Result<Driver, CudaError> {
        match env::var(DRIVER).as_deref() {
            Ok("teams") => Ok(Driver::Teams),
            Ok("barriers") => Ok(Driver::Barriers),
            Err(env::VarError::NotPresent) => Ok(self.driver),
            _ => Err(CudaError::failed(DRIVER, "expected teams or barriers")),
        }
    }
}
