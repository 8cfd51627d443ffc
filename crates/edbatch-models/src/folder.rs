//! The folder of a model: `config.json`, vocabularies and `weights.safetensors`.

use std::fmt;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch_datasets::Error;

use crate::input::inputs_from;
use crate::targets::examples;
use crate::{ConfigError, Examples, Inputs, Lexicon, ModelConfig, Zoo, inputs};

/// The folder of a model, without the weights: configuration and vocabularies.
///
/// ```
/// use edbatch_datasets::{Vocabulary, fixtures::text::BINARY_TREES};
/// use edbatch_models::{Folder, Lexicon, Model, ModelConfig, ModelName, build_vocabularies};
///
/// let dir = std::env::temp_dir().join(format!("edbatch-folder-{}", std::process::id()));
/// std::fs::create_dir_all(&dir)?;
/// std::fs::write(dir.join("trees.txt"), BINARY_TREES)?;
///
/// let counted = build_vocabularies(ModelName::TreeLstm.family(), &[dir.join("trees.txt")])?;
/// let mut config = ModelConfig::new(ModelName::TreeLstm, 8, None, counted.outputs);
/// config.input = "trees.txt".into();
/// Folder::write(&config, &counted.lexicon, &dir)?;
///
/// let folder = Folder::read(&dir)?;
/// assert_eq!(folder.model()?.network().kind_names(), ["leaf", "node", "output"]);
/// assert_eq!(folder.inputs(&folder.input())?.count(), 8);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    config: ModelConfig,
    lexicon: Arc<Lexicon>,
}

impl Folder {
    /// The file name of the configuration.
    pub const CONFIG: &str = "config.json";

    /// The file name of the weights.
    pub const WEIGHTS: &str = "weights.safetensors";

    /// Reads the configuration and the vocabularies.
    ///
    /// # Errors
    /// If a file is missing or invalid; names the file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FolderError> {
        let path = path.as_ref().to_path_buf();
        let file = path.join(Self::CONFIG);
        let wrong = |error| FolderError::Config { file: file.clone(), error };
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(unreadable(&error)))?;
        let config = ModelConfig::from_json(&text).map_err(wrong)?;
        let lexicon = Lexicon::read(config.model.family(), &path).map_err(FolderError::Input)?;
        Ok(Self { path, config, lexicon: Arc::new(lexicon) })
    }

    /// Writes configuration and vocabularies to an existing folder, for [`read`](Self::read).
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(config: &ModelConfig, lexicon: &Lexicon, path: &Path) -> std::io::Result<()> {
        for (name, contents) in lexicon.files() {
            std::fs::write(path.join(name), contents)?;
        }
        std::fs::write(path.join(Self::CONFIG), config.to_json())
    }

    /// Declares the model.
    ///
    /// # Errors
    /// If a size is missing or invalid.
    pub fn model(&self) -> Result<Zoo, FolderError> {
        let wrong = |error| FolderError::Config { file: self.path.join(Self::CONFIG), error };
        Zoo::new(&self.config, &self.lexicon).map_err(wrong)
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Returns the vocabularies.
    #[must_use]
    pub fn lexicon(&self) -> &Lexicon {
        &self.lexicon
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the weights.
    #[must_use]
    pub fn weights(&self) -> PathBuf {
        self.path.join(Self::WEIGHTS)
    }

    /// Returns the path of the default file of inputs.
    #[must_use]
    pub fn input(&self) -> PathBuf {
        self.path.join(&self.config.input)
    }

    /// Opens a file of inputs; see [`inputs`].
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn inputs(&self, file: &Path) -> Result<Inputs, Error> {
        inputs(&self.lexicon, file)
    }

    /// Opens a file of inputs with their targets, and reads it lazily.
    ///
    /// A tree has a target for each node, its label. A sentence has tags, and a lattice has labels
    /// of its characters. A translator is forced along the lines of `targets`,
    /// by default of the configuration's file of targets.
    ///
    /// # Errors
    /// If a file cannot be opened, or a translator has no file of targets.
    pub fn examples(&self, file: &Path, targets: Option<&Path>) -> Result<Examples, Error> {
        let classes = self.config.classes.unwrap_or(0);
        let default = self.config.target.as_ref().map(|target| self.path.join(target));
        examples(&self.lexicon, classes, file, targets.or(default.as_deref()))
    }

    /// Reads inputs from `reader`, in the format of `file`. The reader may return only some lines
    /// of that file.
    #[must_use]
    pub fn inputs_from(&self, reader: Box<dyn BufRead + Send>, file: &Path) -> Inputs {
        inputs_from(&self.lexicon, reader, file)
    }
}

fn unreadable(error: &std::io::Error) -> ConfigError {
    ConfigError(format!("expected a readable file, got: {error}"))
}

/// An error in the folder of a model.
#[derive(Debug)]
#[non_exhaustive]
pub enum FolderError {
    /// An error in the configuration.
    Config {
        /// The path of the configuration.
        file: PathBuf,
        /// The error.
        error: ConfigError,
    },
    /// An error in a vocabulary.
    Input(Error),
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { file, error } => write!(f, "{}: {error}", file.display()),
            Self::Input(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FolderError {}
