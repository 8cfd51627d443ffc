//! Which programs there are, and whether they are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// Batched by hand, level by level.
    PyTorch,
    /// Batched by itself.
    DyNet,
}

/// Models without decoding: in a peer that is run a step at a time, and most of what is measured
/// would be Python.
const TREES: [&str; 3] = ["tree_lstm", "tree_lstm_2type", "tree_gru"];
const OTHERS: [&str; 3] = ["bilstm_tagger", "lattice_lstm", "lattice_gru"];

impl Program {
    /// All.
    pub const ALL: [Self; 2] = [Self::PyTorch, Self::DyNet];

    /// As people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PyTorch => "PyTorch",
            Self::DyNet => "DyNet",
        }
    }

    /// What records call it on a model: with the way in which it batches.
    #[must_use]
    pub fn system(self, model: &str) -> &'static str {
        match (self, model) {
            (Self::PyTorch, "bilstm_tagger") => "pytorch-lstm",
            (Self::PyTorch, _) => "pytorch-levels",
            (Self::DyNet, _) => "dynet-autobatch",
        }
    }

    /// The program of a record.
    #[must_use]
    pub fn of_system(system: &str) -> Option<Self> {
        let prefix = system.split('-').next();
        Self::ALL.into_iter().find(|program| prefix == Some(program.module_prefix()))
    }

    /// Whether its script has a model.
    #[must_use]
    pub fn knows(self, model: &str) -> bool {
        let has = |models: &[&str]| models.contains(&model);
        // The matrices of `mv_rnn` are no batches for DyNet.
        has(&TREES) || has(&OTHERS) || (self == Self::PyTorch && model == "mv_rnn")
    }

    /// Its version, where it is installed; else a sentence that says what is missing.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn version(self) -> Result<String, String> {
        let (name, module) = (self.name(), self.module());
        let asked = format!("import {module}; print({module}.__version__)");
        let output = python().args(["-c", &asked]).output();
        let output = output.map_err(|error| format!("{name}: python3 does not start: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "{name}: python3 cannot import {module} ({})",
                self.installation()
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().into())
    }

    /// Those that can run; of the rest, says why they cannot.
    #[must_use]
    pub fn installed() -> Vec<Self> {
        let found = |program: &Self| {
            let version = program.version();
            match &version {
                Ok(version) => eprintln!("{}: {version}, one thread", program.name()),
                Err(missing) => eprintln!("{missing}; skipped"),
            }
            version.is_ok()
        };
        Self::ALL.into_iter().filter(found).collect()
    }

    /// What runs it on a folder.
    pub(super) fn command(self, folder: &Path) -> Command {
        let script = match self {
            Self::PyTorch => "peers/pytorch.py",
            Self::DyNet => "peers/dynet_peer.py",
        };
        let script: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        let mut command = python();
        // One thread, also for libraries that read these before the script can say so.
        command.arg(script).arg(folder).env("OMP_NUM_THREADS", "1").env("MKL_NUM_THREADS", "1");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    fn module(self) -> &'static str {
        match self {
            Self::PyTorch => "torch",
            Self::DyNet => "dynet",
        }
    }

    fn module_prefix(self) -> &'static str {
        match self {
            Self::PyTorch => "pytorch",
            Self::DyNet => "dynet",
        }
    }

    fn installation(self) -> &'static str {
        match self {
            Self::PyTorch => "python3 -m pip install torch",
            Self::DyNet => "docs/benchmarks.md says how to build it",
        }
    }
}

/// The Python that peers run in.
pub(crate) fn python() -> Command {
    Command::new(std::env::var_os("EDBATCH_PYTHON").unwrap_or_else(|| "python3".into()))
}
