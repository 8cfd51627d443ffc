//! Loads a model from its folder.

use std::path::{Path, PathBuf};

use edbatch_models::Model;
use edbatch_runtime::{ParameterError, Parameters};
use edbatch_zoo::{Folder, FolderError, FolderModel};

/// The contents of a model's folder.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Configuration and vocabularies.
    pub folder: Folder,
    /// The model.
    pub model: FolderModel,
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
    let parameters = Parameters::from_safetensors(model.network(), &bytes).map_err(|error| {
        let sizes = sizes(&folder, &error);
        LoadError::Weights { file, error: Box::new(error), sizes }
    })?;
    Ok(Loaded { folder, model, parameters })
}

/// Describes the sizes of the configuration and of the vocabularies that a shape follows from.
fn sizes(folder: &Folder, error: &ParameterError) -> String {
    let (ParameterError::Shape { expected, got, .. }, Some(config)) = (error, folder.config())
    else {
        return String::new();
    };
    let lines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count();
    let files = folder.lexicon().files().into_iter();
    let files = files.map(|(name, text)| (format!("lines of {name}"), Some(lines(&text))));
    let config = config.sizes().map(|(name, size)| (format!("\"{name}\" of config.json"), size));
    let other = |dim| (0..).zip(expected).any(|(at, it)| *it == dim && got.get(at) != Some(it));
    // Stacks in two directions are twice as wide.
    let other = |size: usize| other(size) || other(2 * size);
    let found = config.into_iter().chain(files).filter(|(_, size)| size.is_some_and(other));
    let found: Vec<String> =
        found.map(|(name, size)| format!("{name}, {}", size.unwrap_or(0))).collect();
    if found.is_empty() {
        String::new()
    } else {
        format!("; that follows from {}", found.join(", "))
    }
}

/// The error for a folder that is not a valid model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The configuration or a vocabulary is invalid.
    #[error(transparent)]
    Folder(FolderError),
    /// The weights file cannot be read.
    #[error("{file}: expected a readable file, got: {error}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The weights are not valid, or do not match the model.
    #[error("{file}: {error}{sizes}")]
    Weights {
        /// The file.
        file: PathBuf,
        /// The mismatch.
        error: Box<ParameterError>,
        /// The sizes of the folder that the expected shape follows from, or nothing.
        sizes: String,
    },
}
