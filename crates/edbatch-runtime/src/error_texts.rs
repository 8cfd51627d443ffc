//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use safetensors::SafeTensorError;

use crate::kernels::{Level, OutOfMemory};
use crate::{BackendError, ParameterError, Precision};

#[test]
fn messages_are_complete_without_a_source() {
    let dims = || vec![2, 3];
    let missing = |similar| ParameterError::Missing { name: "a.w".into(), dims: dims(), similar };
    let levels: Vec<_> = Level::available().into_iter().map(Level::name).collect();
    let levels = format!(
        "`mmx` is not an instruction level of this machine; choose one of {}",
        levels.join(", ")
    );
    let cases: [(Box<dyn Error>, &str); 14] = [
        (Box::new(OutOfMemory { bytes: 12_345_678 }), "failed to allocate 12.3 MB"),
        (
            Box::new("f16".parse::<Precision>().unwrap_err()),
            "`f16` is not a precision: choose f32 or bf16",
        ),
        (Box::new("mmx".parse::<Level>().unwrap_err()), &levels),
        (
            Box::new(BackendError::Memory { what: "the arena", bytes: 2_000_000 }),
            "out of memory: failed to allocate 2.0 MB for the arena",
        ),
        (Box::new(BackendError::Cancelled), "cancelled: the results are no longer wanted"),
        (
            Box::new(BackendError::from(missing(None))),
            "the weights do not fit the model: tensor a.w is missing; the model needs it with \
             shape [2, 3]",
        ),
        (
            Box::new(BackendError::TrainingPrecision(Precision::Bf16)),
            "training is in f32 alone: load the program in f32, not in bf16",
        ),
        (
            Box::new(ParameterError::Format(SafeTensorError::HeaderTooSmall)),
            "not a readable safetensors file: header too small",
        ),
        (
            Box::new(ParameterError::File { what: "it is empty".into() }),
            "not a readable safetensors file: it is empty",
        ),
        (
            Box::new(missing(Some("w".into()))),
            "tensor a.w is missing; the model needs it with shape [2, 3]; if w is this tensor, \
             rename it to a.w",
        ),
        (
            Box::new(ParameterError::Surplus { name: "w".into(), dims: dims() }),
            "unexpected tensor w of shape [2, 3]: the model does not declare it",
        ),
        (
            Box::new(ParameterError::Type { name: "w".into(), got: "I64".into() }),
            "tensor w: expected F32, F16 or BF16, got I64; convert it with `.float()` (PyTorch) or \
             `.astype(\"float32\")` (NumPy) before save_file",
        ),
        (Box::new(ParameterError::Gates { what: "three gates".into() }), "three gates"),
        (
            Box::new(ParameterError::Memory { name: "tensor w".into(), bytes: 1_500_000 }),
            "out of memory: failed to allocate 1.5 MB for tensor w",
        ),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none(), "{message}");
    }
}

#[test]
fn errors_of_other_backends_keep_their_text_and_source() {
    #[derive(Debug, thiserror::Error)]
    #[error("the device is lost")]
    struct Lost(#[source] fmt::Error);

    let error = BackendError::Other(Arc::new(Lost(fmt::Error)));
    assert_eq!(error.to_string(), "the device is lost");
    assert!(error.source().is_some_and(|source| source.is::<fmt::Error>()));
}
