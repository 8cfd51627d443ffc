//! Finds the call that makes a NaN or an infinity, with the reference interpreter.

use std::sync::OnceLock;

use edbatch::models::{Folder, ZooInput};
use edbatch::{Loaded, RunError, interpret_finite, load};

use crate::precision::Precision;

/// The reference interpreter of a folder's model. It loads the weights when it is first used, so
/// that they take no memory in a run without errors.
pub(crate) struct Reference<'a> {
    folder: &'a Folder,
    precision: Precision,
    loaded: OnceLock<Result<Loaded, String>>,
}

impl<'a> Reference<'a> {
    pub(crate) fn new(folder: &'a Folder, precision: Precision) -> Self {
        Self { folder, precision, loaded: OnceLock::new() }
    }

    /// Runs an input, and fails if a call makes a NaN or an infinity. The error names the first
    /// such call.
    pub(crate) fn check(&self, input: &ZooInput) -> Result<(), String> {
        let load = || load(self.folder.path()).map_err(|error| error.to_string());
        let Loaded { model, parameters, .. } =
            self.loaded.get_or_init(load).as_ref().map_err(String::clone)?;
        // Results in TF32 are compared in f32: CPUs do not have it.
        let precision = self.precision.on_cpu().unwrap_or_default();
        match interpret_finite(model, parameters, std::slice::from_ref(input), precision) {
            Ok(_) => Ok(()),
            Err(RunError::Input { error, .. }) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}
