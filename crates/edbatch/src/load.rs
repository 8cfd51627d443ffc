//! Loads a model from its folder.

use std::fmt;
use std::path::{Path, PathBuf};

use edbatch_models::{Folder, FolderError, Model, Zoo};
use edbatch_runtime::{ParameterError, Parameters};

/// The contents of a model's folder.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Configuration and vocabularies.
    pub folder: Folder,
    /// The model.
    pub model: Zoo,
    /// Its weights, shared by all clones.
    pub parameters: Parameters,
}

/// Loads a model from a folder with `config.json`, vocabularies and `weights.safetensors`, or with
/// `network.json` and `weights.safetensors`.
///
/// # Errors
/// If one of the files is missing, invalid, or does not match the others. The error names the file,
/// what was expected and what was found.
pub fn load(folder: impl AsRef<Path>) -> Result<Loaded, LoadError> {
    let folder = Folder::read(folder).map_err(LoadError::Folder)?;
    let model = folder.model().map_err(LoadError::Folder)?;
    let file = folder.weights();
    let bytes = std::fs::read(&file)
        .map_err(|error| LoadError::Unreadable { file: file.clone(), error })?;
    let parameters = Parameters::from_safetensors(model.network(), &bytes)
        .map_err(|error| LoadError::Weights { file, error })?;
    Ok(Loaded { folder, model, parameters })
}

/// The error for a folder that is not a valid model.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The configuration or a vocabulary is invalid.
    Folder(FolderError),
    /// The weights file cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The weights are not valid, or do not match the model.
    Weights {
        /// The file.
        file: PathBuf,
        /// The mismatch.
        error: ParameterError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => error.fmt(f),
            Self::Unreadable { file, error } => {
                write!(f, "{}: expected a readable file, got: {error}", file.display())
            }
            Self::Weights { file, error } => write!(f, "{}: {error}", file.display()),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Folder(error) => Some(error),
            Self::Unreadable { error, .. } => Some(error),
            Self::Weights { error, .. } => Some(error),
        }
    }
}
