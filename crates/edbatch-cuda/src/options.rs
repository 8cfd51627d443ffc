//! Options of a program on a device.

use std::env;

use edbatch_runtime::kernels::bf16;

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
    /// [`DeviceModel::shapes`](crate::DeviceModel::shapes), for calibration. By default each tile
    /// has the fastest shape for its number of rows.
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
    /// Tensor cores, with operands rounded to bf16 (8-bit mantissa), as those of
    /// [`Precision::Bf16`] on CPUs. The error of a sum is at most (2⁻⁷ + 2⁻¹⁶ + K · 2⁻²²) · Σ |x
    /// w|, and the difference from a CPU's sum at most K · 2⁻²¹ · Σ |x w|. Bits depend on the
    /// device, but not on the mini-batch.
    ///
    /// [`Precision::Bf16`]: edbatch_runtime::Precision::Bf16
    Bf16,
}

impl DevicePrecision {
    /// Returns the nearest number that an operand can be.
    pub(super) fn round(self, x: f32) -> f32 {
        match self {
            Self::Tf32 if x.is_finite() => f32::from_bits((x.to_bits() + 0x1000) & !0x1fff),
            Self::Exact | Self::Tf32 => x,
            Self::Bf16 => bf16::round(x),
        }
    }

    /// Returns the number of which the depth of [large](crate::PhaseEntry::is_large) products is a
    /// multiple.
    pub(super) fn terms(self) -> u32 {
        if self == Self::Exact { 4 } else { 16 }
    }

    /// Returns the elements of a word of packed weights that tensor cores read: `OF_WORD` of
    /// `kernels/tensor.h`.
    pub(super) fn of_word(self) -> u32 {
        if self == Self::Bf16 { 2 } else { 1 }
    }

    /// Returns the word of packed weights of a term, or of two in bf16.
    pub(super) fn word(self, terms: &[f32]) -> u32 {
        match *terms {
            [lower, upper] => self.round(upper).to_bits() | self.round(lower).to_bits() >> 16,
            _ => self.round(terms[0]).to_bits(),
        }
    }

    /// Returns the name that a source defines.
    pub(super) fn macro_name(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::Tf32 => Some("TF32"),
            Self::Bf16 => Some("BF16"),
        }
    }
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
