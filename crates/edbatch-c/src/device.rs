//! The devices that an engine runs on.

use std::sync::Arc;

use edbatch::layout::Program;
use edbatch::runtime::{Backend, Parameters};

use crate::status::Failure;

/// The precision of products with weights.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    F32,
    Bf16,
    /// On devices alone.
    Tf32,
}

/// Returns the index of a CUDA device, or `None` for the CPU.
pub(crate) fn parse(name: &str) -> Result<Option<usize>, Failure> {
    let index = match name {
        "cpu" => return Ok(None),
        "cuda" => Some(0),
        _ => name
            .strip_prefix("cuda:")
            .filter(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|index| index.parse().ok()),
    };
    index.map(Some).ok_or_else(|| {
        Failure::argument(&format!("device: expected cpu, cuda or cuda:1, got {name:?}"))
    })
}

/// Loads a program on a CUDA device.
#[cfg(feature = "cuda")]
pub(crate) fn load(
    program: Arc<Program>,
    parameters: &Parameters,
    precision: Number,
    index: usize,
) -> Result<Box<dyn Backend>, Failure> {
    use edbatch::cuda::{CudaOptions, DevicePrecision, nvidia};
    let precision = match precision {
        Number::F32 => DevicePrecision::Exact,
        Number::Tf32 => DevicePrecision::Tf32,
        Number::Bf16 => DevicePrecision::Bf16,
    };
    let options = CudaOptions::new().precision(precision);
    Ok(nvidia(program, parameters, &options, &[index])?)
}

/// Fails: the library was built without the feature.
#[cfg(not(feature = "cuda"))]
pub(crate) fn load(
    _: Arc<Program>,
    _: &Parameters,
    _: Number,
    index: usize,
) -> Result<Box<dyn Backend>, Failure> {
    let message = format!("cuda:{index}: this library was built without CUDA");
    Err(Failure::new(crate::status::Code::Device, message))
}
