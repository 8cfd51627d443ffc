//! A model from its folder.

use std::fmt;
use std::path::{Path, PathBuf};

use edbatch_models::{Folder, FolderError, Model, Zoo};
use edbatch_runtime::{ParameterError, Parameters};

/// Everything that a model's folder holds.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Configuration and vocabularies.
    pub folder: Folder,
    /// The model.
    pub model: Zoo,
    /// Its weights, shared by all clones.
    pub parameters: Parameters,
}

/// Reads `config.json`, the vocabularies and `weights.safetensors` of a folder.
///
/// # Errors
/// If one of them is missing, wrong, or does not fit the others: names the file, what was
/// expected, and what is there instead.
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

/// Why a folder holds no model.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The configuration or a vocabulary is wrong.
    Folder(FolderError),
    /// The file of weights cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The weights are none, or do not fit the model.
    Weights {
        /// The file.
        file: PathBuf,
        /// Why.
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
