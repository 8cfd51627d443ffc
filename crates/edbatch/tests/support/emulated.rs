//! A device for tests, where a C++ compiler is installed.

use std::sync::Arc;

use edbatch_layout::Program;
use edbatch_runtime::{Backend, BackendError, CudaError, Parameters, cuda};

/// A backend on the emulated device, or none and a skip that is counted.
pub(crate) fn backend(program: Arc<Program>, parameters: &Parameters) -> Option<Box<dyn Backend>> {
    match cuda::emulated(program, parameters, 7) {
        Ok(backend) => Some(backend),
        Err(BackendError::Cuda(error @ CudaError::NoCompiler { .. })) => {
            edbatch_testing::skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}
