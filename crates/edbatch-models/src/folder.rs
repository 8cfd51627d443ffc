//! A model's folder: `config.json`, the vocabularies, `weights.safetensors`.

use std::fmt;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch_datasets::Error;

use crate::input::inputs_from;
use crate::{ConfigError, Inputs, Lexicon, ModelConfig, Zoo, inputs};

/// All of a model's folder but its weights.
///
/// ```
/// use edbatch_datasets::{Vocabulary, fixtures::text::BINARY_TREES};
/// use edbatch_models::{ModelConfig, Folder, Lexicon, Model, ModelName, vocabularies};
///
/// let dir = std::env::temp_dir().join(format!("edbatch-folder-{}", std::process::id()));
/// std::fs::create_dir_all(&dir)?;
/// std::fs::write(dir.join("trees.txt"), BINARY_TREES)?;
///
/// let counted = vocabularies(ModelName::TreeLstm.family(), &[dir.join("trees.txt")])?;
/// let mut config = ModelConfig::of_size(ModelName::TreeLstm, 8, None, counted.outputs);
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
    /// The file that says which model it is.
    pub const CONFIG: &str = "config.json";

    /// The file of weights.
    pub const WEIGHTS: &str = "weights.safetensors";

    /// Reads the configuration and the vocabularies.
    ///
    /// # Errors
    /// If one of them is missing or wrong: names the file, and what was expected.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FolderError> {
        let path = path.as_ref().to_path_buf();
        let file = path.join(Self::CONFIG);
        let wrong = |error| FolderError::Config { file: file.clone(), error };
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(unreadable(&error)))?;
        let config = ModelConfig::from_json(&text).map_err(wrong)?;
        let lexicon = Lexicon::read(config.model.family(), &path).map_err(FolderError::Input)?;
        Ok(Self { path, config, lexicon: Arc::new(lexicon) })
    }

    /// Writes what [`read`](Self::read) reads into an existing folder.
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
    /// If a size is missing or impossible.
    pub fn model(&self) -> Result<Zoo, FolderError> {
        let wrong = |error| FolderError::Config { file: self.path.join(Self::CONFIG), error };
        Zoo::new(&self.config, &self.lexicon).map_err(wrong)
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The vocabularies.
    #[must_use]
    pub fn lexicon(&self) -> &Lexicon {
        &self.lexicon
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the weights are.
    #[must_use]
    pub fn weights(&self) -> PathBuf {
        self.path.join(Self::WEIGHTS)
    }

    /// The file of inputs that the configuration names.
    #[must_use]
    pub fn input(&self) -> PathBuf {
        self.path.join(&self.config.input)
    }

    /// The inputs in a file, as [`inputs`] reads them.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn inputs(&self, file: &Path) -> Result<Inputs, Error> {
        inputs(&self.lexicon, file)
    }

    /// The inputs of a reader that stands for some or all lines of a file, in the file's format.
    #[must_use]
    pub fn inputs_from(&self, reader: Box<dyn BufRead + Send>, file: &Path) -> Inputs {
        inputs_from(&self.lexicon, reader, file)
    }
}

fn unreadable(error: &std::io::Error) -> ConfigError {
    ConfigError(format!("expected a readable file, got: {error}"))
}

/// What is wrong with a model's folder.
#[derive(Debug)]
#[non_exhaustive]
pub enum FolderError {
    /// The configuration.
    Config {
        /// Its file.
        file: PathBuf,
        /// What is wrong with it.
        error: ConfigError,
    },
    /// A vocabulary.
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
