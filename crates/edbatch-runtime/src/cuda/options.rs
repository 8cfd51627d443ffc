//! How a device carries plans out.

use std::env;

use super::CudaError;

/// The variable that chooses another [`Driver`], to see whether an error is the team's.
const DRIVER: &str = "EDBATCH_CUDA";

/// How a device carries plans out; decided once, when a program is loaded.
///
/// Only the precision changes a bit of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CudaOptions {
    /// What launches a plan, unless the environment variable `EDBATCH_CUDA` says `waves` or
    /// `teams`.
    pub driver: Driver,
    /// How products are rounded.
    pub precision: Precision,
    /// Teams have at least so many blocks, if the device has as many processors.
    pub fewest_blocks: u32,
}

/// How a product of weights and a vector is rounded; all else is as on the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    /// As on the CPU, bit for bit.
    #[default]
    Exact,
    /// On tensor cores, from operands rounded to 10 bits behind the point: an error of at most
    /// (2⁻¹⁰ + 2⁻²² + K · 2⁻²²) · Σ |x w| for sums of K terms x w. Bits depend on the device, but
    /// not on the mini-batch.
    Tf32,
}

/// What launches a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Driver {
    /// A launch carries plans out, each by a team of blocks that keep the recurrent weights in
    /// shared memory and wait for each other after each wave.
    #[default]
    Teams,
    /// A launch a wave: no block waits for another.
    Waves,
}

impl CudaOptions {
    /// By teams.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// By this driver.
    #[must_use]
    pub fn driver(self, driver: Driver) -> Self {
        Self { driver, ..self }
    }

    /// With products rounded so.
    #[must_use]
    pub fn precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// By teams of at least so many blocks, where fewer could keep the recurrent weights as well.
    #[must_use]
    pub fn fewest_blocks(self, fewest_blocks: u32) -> Self {
        Self { fewest_blocks, ..self }
    }

    /// The driver that the environment chooses, or else these options.
    pub(super) fn chosen_driver(&self) -> Result<Driver, CudaError> {
        match env::var(DRIVER).as_deref() {
            Ok("teams") => Ok(Driver::Teams),
            Ok("waves") => Ok(Driver::Waves),
            Err(env::VarError::NotPresent) => Ok(self.driver),
            _ => Err(CudaError::failed(DRIVER, "expected waves or teams")),
        }
    }
}
