//! The machine, compiler and sources of a measurement.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::{fs, thread};

use edbatch_runtime::kernels::Level;
use serde::{Deserialize, Serialize};

/// The [`device`](Machine::device) of figures that were measured on the CPU.
const CPU: &str = "cpu";

/// The machine, the compiler, the sources and the date.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Hardware threads.
    pub cores: usize,
    /// The instruction set used by our kernels.
    pub isa: String,
    /// `cpu`, or a description of the CUDA device.
    pub device: String,
    /// The compiler.
    pub rustc: String,
    /// The commit of the sources. If the work tree has changes, `+` and a hash of them follow.
    pub commit: String,
    /// Start of the run: `2026-01-31T12:00:00Z`.
    pub date: String,
}

impl Machine {
    /// Describes this machine at the current time.
    pub fn here() -> Self {
        Self {
            processor: processor().unwrap_or_else(|| "unknown".into()),
            cores: thread::available_parallelism().map_or(1, Into::into),
            isa: Level::detect().name().into(),
            device: CPU.into(),
            rustc: env!("EDBATCH_RUSTC").into(),
            commit: commit().unwrap_or_else(|| "unknown".into()),
            date: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]).unwrap_or_default(),
        }
    }

    /// Returns true if these figures can be compared with a run on `other`: all fields except the
    /// date agree. Figures of the CPU can be compared with runs on any device.
    pub fn agrees(&self, other: &Self) -> bool {
        let device = if self.device == CPU { CPU.into() } else { other.device.clone() };
        *self == Self { date: self.date.clone(), device, ..other.clone() }
    }
}

/// Processor, instruction set, compiler, commit, date and CUDA device in one line.
impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, cores, isa, device, rustc, commit, date } = self;
        let rustc = rustc.split(" (").next().unwrap_or_default();
        let day = date.split('T').next().unwrap_or_default();
        write!(f, "{processor}, {cores} cores, {isa}, {rustc}, commit {commit}, {day}")?;
        if *device == CPU { Ok(()) } else { write!(f, "; CUDA device: {device}") }
    }
}

/// The processor's name according to the system.
fn processor() -> Option<String> {
    let field = |name: &str| {
        let info = fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let asked = || output("sysctl", &["-n", "machdep.cpu.brand_string"]);
    field("model name").or_else(asked)
}

fn commit() -> Option<String> {
    let folder = ["-C", env!("CARGO_MANIFEST_DIR")];
    let commit = output("git", &[&folder[..], &["rev-parse", "--short=10", "HEAD"]].concat())?;
    let changes = output("git", &[&folder[..], &["diff", "HEAD"]].concat())?;
    if changes.is_empty() {
        return Some(commit);
    }
    let mut hasher = DefaultHasher::new();
    changes.hash(&mut hasher);
    Some(format!("{commit}+{:04x}", hasher.finish() as u16))
}

/// Returns the output of a program if it succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8(text).ok()?.trim().into())
}
