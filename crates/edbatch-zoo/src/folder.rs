//! The folder of a model: `config.json` and vocabularies, or `network.json`; and
//! `weights.safetensors`.

use std::fs::File;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch_datasets::Error;
use edbatch_graph::Network;
use edbatch_models::{CallLists, JsonFault, MAX_NETWORK_BYTES, network_from_json};

use crate::input::inputs_from;
use crate::lexicon::{CLASSES, FILES};
use crate::targets::examples;
use crate::{ConfigError, Examples, FolderModel, Inputs, Lexicon, ModelConfig, Zoo, inputs};

/// The folder of a model, without the weights: configuration and vocabularies, or a network whose
/// inputs are call lists.
///
/// ```
/// use edbatch_datasets::{Vocabulary, fixtures::text::BINARY_TREES};
/// use edbatch_models::Model;
/// use edbatch_zoo::{Folder, ModelConfig, ModelName, build_vocabularies};
///
/// let dir = std::env::temp_dir().join(format!("edbatch-folder-{}", std::process::id()));
/// std::fs::create_dir_all(&dir)?;
/// std::fs::write(dir.join("trees.txt"), BINARY_TREES)?;
///
/// let counted = build_vocabularies(ModelName::TreeLstm.family(), &[dir.join("trees.txt")], None)?;
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
    /// `None` for a network.
    config: Option<ModelConfig>,
    lexicon: Arc<Lexicon>,
}

impl Folder {
    /// The file name of the configuration.
    pub const CONFIG: &str = "config.json";

    /// The file name of a network, in a folder without configuration.
    pub const NETWORK: &str = "network.json";

    /// The default file of inputs of a network.
    pub const CALLS: &str = "calls.jsonl";

    /// The file name of the names of classes, one a line. A folder need not have it.
    pub const CLASSES: &str = CLASSES;

    /// The file name of the weights.
    pub const WEIGHTS: &str = "weights.safetensors";

    /// The file name of the state of training, in a folder that the command has trained.
    pub const CHECKPOINT: &str = "checkpoint.safetensors";

    /// Reads the configuration and the vocabularies, or the network.
    ///
    /// # Errors
    /// If a file is missing or invalid, or if the folder has both a configuration and a network.
    /// The error names the file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FolderError> {
        let path = path.as_ref().to_path_buf();
        let file = path.join(Self::CONFIG);
        let wrong = |error| FolderError::Config { file: file.clone(), error };
        let network = path.join(Self::NETWORK);
        match (network.exists(), file.exists()) {
            (true, true) => return Err(FolderError::ConfigAndNetwork { folder: path }),
            (true, false) => {
                let lists = CallLists::new(Arc::new(read_network(network)?));
                return Ok(Self {
                    path,
                    config: None,
                    lexicon: Arc::new(Lexicon::CallLists(lists)),
                });
            }
            (false, false) => {
                let expected = format!("a folder with {} or {}", Self::CONFIG, Self::NETWORK);
                let got = if path.exists() { "neither" } else { "no such folder" };
                let error = ConfigError(format!("expected {expected}, got {got}"));
                return Err(FolderError::Config { file: path, error });
            }
            (false, true) => {}
        }
        let mut files = [Self::CONFIG].iter().chain(&FILES).map(|name| path.join(name));
        if let Some(file) = files.find(|file| is_pointer(file)) {
            return Err(FolderError::Config { file, error: ConfigError(POINTER.into()) });
        }
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(unreadable(&error)))?;
        let config = ModelConfig::from_json(&text).map_err(wrong)?;
        let lexicon = Lexicon::read(config.model.family(), &path).map_err(FolderError::Input)?;
        let (expected, got) = (config.classes.unwrap_or(0), lexicon.classes().map(<[_]>::len));
        if let Some(got) = got.filter(|&got| got != expected) {
            let error = format!("expected {expected} lines, one for each class, got {got}");
            let file = path.join(Self::CLASSES);
            return Err(FolderError::Config { file, error: ConfigError(error) });
        }
        Ok(Self { path, config: Some(config), lexicon: Arc::new(lexicon) })
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
    pub fn model(&self) -> Result<FolderModel, FolderError> {
        if let Lexicon::CallLists(lists) = &*self.lexicon {
            return Ok(FolderModel::Network(lists.clone()));
        }
        let config = self.config.as_ref().expect("only networks have no configuration");
        let wrong = |error| FolderError::Config { file: self.path.join(Self::CONFIG), error };
        Zoo::new(config, &self.lexicon).map(FolderModel::Zoo).map_err(wrong)
    }

    /// Returns the configuration, or `None` for a network.
    #[must_use]
    pub fn config(&self) -> Option<&ModelConfig> {
        self.config.as_ref()
    }

    /// Returns the path of the file that describes the model: the configuration or the network.
    #[must_use]
    pub fn description(&self) -> PathBuf {
        self.path.join(if self.config.is_some() { Self::CONFIG } else { Self::NETWORK })
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
        self.path.join(self.config.as_ref().map_or(Self::CALLS, |config| &config.input))
    }

    /// Returns the paths of all files that the folder of a model can have, whether they exist or
    /// not. No other file should replace them.
    pub fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
        let names = [Self::CONFIG, Self::NETWORK, Self::WEIGHTS, Self::CHECKPOINT, Self::CALLS];
        names.into_iter().chain(FILES).map(|name| folder.join(name))
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
    /// A tree has a target for each node, its label, except for the label `_`. A sentence has tags,
    /// a lattice has labels or tags of its characters, and a call list may have targets. A label is
    /// a class number, where -1 means no target, or a name in [`CLASSES`](Self::CLASSES). A
    /// translator is forced to write the lines of `targets`, by default of the configuration's file
    /// of targets.
    ///
    /// # Errors
    /// If a file cannot be opened, or a translator has no file of targets.
    pub fn examples(&self, file: &Path, targets: Option<&Path>) -> Result<Examples, Error> {
        let config = self.config.as_ref();
        let classes = config.and_then(|config| config.classes).unwrap_or(0);
        let target = config.and_then(|config| config.target.as_ref());
        let default = target.map(|target| self.path.join(target));
        examples(&self.lexicon, classes, file, targets.or(default.as_deref()))
    }

    /// Reads inputs from `reader`, in the format of `file`. The reader may return only some lines
    /// of that file.
    #[must_use]
    pub fn inputs_from(&self, reader: Box<dyn BufRead + Send>, file: &Path) -> Inputs {
        inputs_from(&self.lexicon, reader, file)
    }
}

fn read_network(file: PathBuf) -> Result<Network, FolderError> {
    // One byte over the limit shows that a file is too long.
    let mut text = String::new();
    let read = File::open(&file)
        .and_then(|opened| opened.take(MAX_NETWORK_BYTES as u64 + 1).read_to_string(&mut text));
    if let Err(error) = read {
        return Err(FolderError::Config { file, error: unreadable(&error) });
    }
    network_from_json(&text).map_err(|fault| FolderError::Network { file, fault })
}

const POINTER: &str = "expected the file itself, got a pointer of Git LFS: run `git lfs pull`";

/// Returns true for the small text that Git LFS keeps in the place of a large file.
fn is_pointer(file: &Path) -> bool {
    let is_small = std::fs::metadata(file).is_ok_and(|of| of.is_file() && of.len() < 1000);
    is_small && std::fs::read(file).is_ok_and(|text| text.starts_with(b"version https://git-lfs"))
}

fn unreadable(error: &std::io::Error) -> ConfigError {
    ConfigError(format!("expected a readable file, got: {error}"))
}

/// An error in the folder of a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// An error in the configuration.
    #[error("{file}: {error}")]
    Config {
        /// The path of the configuration, or of the folder if it has none.
        file: PathBuf,
        /// The error.
        error: ConfigError,
    },
    /// An error in a network.
    #[error("{file}:{fault}")]
    Network {
        /// The path of the network.
        file: PathBuf,
        /// The error and its place.
        fault: JsonFault,
    },
    /// A folder has both a configuration and a network.
    #[error("{folder}: expected {} or {}, got both", Folder::CONFIG, Folder::NETWORK)]
    ConfigAndNetwork {
        /// The path of the folder.
        folder: PathBuf,
    },
    /// An error in a vocabulary.
    #[error(transparent)]
    Input(Error),
}
