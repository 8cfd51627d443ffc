//! Emulated devices for tests. They need a C++ compiler.

use std::sync::Arc;

use edbatch::cuda::{CudaError, CudaOptions, Driver, EmulatedDevice};
use edbatch_layout::Program;
use edbatch_runtime::{Backend, Parameters};

/// Loads a program on a device. Without a C++ compiler, counts a skipped test and returns `None`.
pub(crate) fn load(
    device: &EmulatedDevice,
    program: Arc<Program>,
    parameters: &Parameters,
    driver: Driver,
) -> Option<Box<dyn Backend>> {
    with(device, program, parameters, &CudaOptions::new().driver(driver))
}

/// Like [`load`], with any options.
pub(crate) fn with(
    device: &EmulatedDevice,
    program: Arc<Program>,
    parameters: &Parameters,
    options: &CudaOptions,
) -> Option<Box<dyn Backend>> {
    let lacks = |error: &_| matches!(CudaError::of(error), Some(CudaError::NoCompiler { .. }));
    Some(Box::new(edbatch_testing::or_skip(device.load(program, parameters, options), lacks)?))
}

/// Like [`load`], on a new device.
pub(crate) fn backend(
    program: Arc<Program>,
    parameters: &Parameters,
    driver: Driver,
) -> Option<Box<dyn Backend>> {
    load(&EmulatedDevice::new(7), program, parameters, driver)
}

/// The drivers that differ: barriers are teams so far.
pub(crate) const DRIVERS: [Driver; 1] = [Driver::Teams];
