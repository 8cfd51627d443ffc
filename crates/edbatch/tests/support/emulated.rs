//! A device for tests, where a C++ compiler is installed.

use std::sync::Arc;

use edbatch_layout::Program;
use edbatch_runtime::cuda::{CudaError, CudaOptions, Driver, EmulatedDevice};
use edbatch_runtime::{Backend, Parameters};

/// A backend on a device, or none and a skip that is counted.
pub(crate) fn load(
    device: &EmulatedDevice,
    program: Arc<Program>,
    parameters: &Parameters,
    driver: Driver,
) -> Option<Box<dyn Backend>> {
    with(device, program, parameters, &CudaOptions::new().driver(driver))
}

/// The same with any options.
pub(crate) fn with(
    device: &EmulatedDevice,
    program: Arc<Program>,
    parameters: &Parameters,
    options: &CudaOptions,
) -> Option<Box<dyn Backend>> {
    match device.load(program, parameters, options) {
        Ok(backend) => Some(backend),
        Err(error) if matches!(CudaError::of(&error), Some(CudaError::NoCompiler { .. })) => {
            edbatch_testing::skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same on a device of its own.
pub(crate) fn backend(
    program: Arc<Program>,
    parameters: &Parameters,
    driver: Driver,
) -> Option<Box<dyn Backend>> {
    load(&EmulatedDevice::new(7), program, parameters, driver)
}

/// Both ways to launch a plan.
pub(crate) const DRIVERS: [Driver; 2] = [Driver::Teams, Driver::Waves];
