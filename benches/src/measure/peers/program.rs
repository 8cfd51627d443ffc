//! Other programs, and whether they are installed.

use std::path::Path;
use std::process::Command;

use crate::measure::assets;
use crate::measure::systems::System;

/// Another program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// PyTorch, batched by hand level by level.
    PyTorch,
    /// DyNet with its automatic batching.
    DyNet,
    /// PyTorch on a CUDA device, eagerly.
    PyTorchCuda,
    /// PyTorch on a CUDA device, replaying a captured graph for each mini-batch.
    PyTorchGraphs,
    /// The same with compiled cells.
    PyTorchCompiled,
}

/// Models without decoding; a peer's decoding would mostly measure Python.
const TREES: [&str; 3] = ["tree_lstm", "tree_lstm_2type", "tree_gru"];
const OTHERS: [&str; 3] = ["bilstm_tagger", "lattice_lstm", "lattice_gru"];

impl Program {
    /// All programs.
    pub const ALL: [Self; 5] =
        [Self::PyTorch, Self::DyNet, Self::PyTorchCuda, Self::PyTorchGraphs, Self::PyTorchCompiled];

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::PyTorch => "PyTorch",
            Self::DyNet => "DyNet",
            Self::PyTorchCuda => "PyTorch, CUDA",
            Self::PyTorchGraphs => "PyTorch, CUDA graphs",
            Self::PyTorchCompiled => "PyTorch, CUDA, compiled",
        }
    }

    /// Returns the program's name in records, which includes its way of batching the model.
    pub fn system(self, model: &str) -> &'static str {
        match (self, model) {
            (Self::PyTorch, "bilstm_tagger") => "pytorch-lstm",
            (Self::PyTorch, _) => "pytorch-levels",
            (Self::DyNet, _) => "dynet-autobatch",
            (Self::PyTorchCuda, _) => "pytorch-cuda",
            (Self::PyTorchGraphs, _) => "pytorch-cuda-graphs",
            (Self::PyTorchCompiled, _) => "pytorch-cuda-compiled",
        }
    }

    /// Returns the program with this name in records.
    pub fn of_system(system: &str) -> Option<Self> {
        match system {
            "pytorch-cuda" => Some(Self::PyTorchCuda),
            "pytorch-cuda-graphs" => Some(Self::PyTorchGraphs),
            "pytorch-cuda-compiled" => Some(Self::PyTorchCompiled),
            system if system.starts_with("pytorch-") => Some(Self::PyTorch),
            system if system.starts_with("dynet-") => Some(Self::DyNet),
            _ => None,
        }
    }

    /// Returns our system that the program is compared with.
    pub fn rival(self) -> System {
        match self {
            Self::PyTorch | Self::DyNet => System::Edbatch,
            Self::PyTorchCuda | Self::PyTorchGraphs | Self::PyTorchCompiled => System::Cuda,
        }
    }

    /// Returns true if its script contains a model.
    pub fn knows(self, model: &str) -> bool {
        let has = |models: &[&str]| models.contains(&model);
        if self == Self::PyTorchCompiled {
            // The others have no cell of their own in the script.
            return has(&TREES) || has(&OTHERS[1..]);
        }
        // DyNet does not batch the matrix products of `mv_rnn`.
        has(&TREES) || has(&OTHERS) || (self != Self::DyNet && model == "mv_rnn")
    }

    /// Returns its version.
    pub fn version(self) -> Result<String, String> {
        let name = self.name();
        let (script, missing) = match self {
            Self::DyNet => (
                "import dynet; print(dynet.__version__)",
                "import dynet (docs/benchmarks.md says how to build it)",
            ),
            Self::PyTorch => (
                "import torch; print(torch.__version__)",
                "import torch (python3 -m pip install torch)",
            ),
            Self::PyTorchCuda | Self::PyTorchGraphs | Self::PyTorchCompiled => (
                "import torch; assert torch.cuda.is_available(); print(torch.__version__)",
                "import torch with a CUDA device",
            ),
        };
        let output = python().args(["-c", script]).output();
        let output = output.map_err(|error| format!("{name}: cannot start python3: {error}"))?;
        if !output.status.success() {
            return Err(format!("{name}: python3 cannot {missing}"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().into())
    }

    /// Returns the installed programs that compete with `systems`. Prints why others cannot run.
    pub fn installed(systems: &[System]) -> Vec<Self> {
        let all = Self::ALL.into_iter().filter(|program| systems.contains(&program.rival()));
        all.filter(|program| program.is_installed()).collect()
    }

    /// Prints the version, or why the program cannot run. Returns true if it can.
    pub fn is_installed(self) -> bool {
        let version = self.version();
        match &version {
            Ok(version) => eprintln!("{}: {version}, one thread", self.name()),
            Err(missing) => eprintln!("{missing}; skipped"),
        }
        version.is_ok()
    }

    /// Returns the command that runs the program on a folder.
    pub(super) fn command(self, folder: &Path) -> Command {
        let (script, options): (_, &[&str]) = match self {
            Self::PyTorch => ("pytorch.py", &[]),
            Self::DyNet => ("dynet_peer.py", &[]),
            Self::PyTorchCuda => ("pytorch.py", &["cuda"]),
            Self::PyTorchGraphs => ("pytorch.py", &["cuda-graphs"]),
            Self::PyTorchCompiled => ("pytorch.py", &["cuda-compiled"]),
        };
        script_on(folder, script, options)
    }
}

/// Returns the command that runs a script on a folder.
pub(super) fn script_on(folder: &Path, script: &str, options: &[&str]) -> Command {
    let mut command = python();
    // Some libraries read the number of threads before the script can set it.
    command.arg(assets::scripts().join(script)).arg(folder).args(options);
    command.env("OMP_NUM_THREADS", "1").env("MKL_NUM_THREADS", "1");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    // The process's allocator asks for huge pages, as ours does.
    command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    command
}

/// Returns the Python that runs peers.
fn python() -> Command {
    Command::new(std::env::var_os("EDBATCH_PYTHON").unwrap_or_else(|| "python3".into()))
}
