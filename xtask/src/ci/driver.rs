//! Runs models on a CUDA driver that needs no device: it executes the code that NVRTC produces, and
//! checks every driver call, every address, and every race. Results must have the CPU's bytes.
//!
//! The driver is in `xtask/fake-cuda`, whose README says what it checks. Its own tests come first.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::skips::Skips;
use crate::{Failure, root};

/// The models of the short check.
const MODELS: [&str; 4] = ["bilstm_tagger_char", "lstm_nmt", "mv_rnn", "tree_lstm"];
/// The models that only the complete check runs.
const OTHERS: [&str; 5] =
    ["bilstm_tagger", "lattice_gru", "lattice_lstm", "tree_gru", "tree_lstm_2type"];

/// The libraries of NVRTC's Python packages, which `.ci/run` installs.
const NVRTC_13: &str = "target/nvrtc/nvidia/cu13/lib/libnvrtc.so.13";
const NVRTC_12: &str = "target/nvrtc12/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";

/// Models with random weights, whose recurrent cells run as unit tiles: the model, the files of
/// inputs of its golden, and the elements of a hidden vector. The short check runs the first one.
const WITH_TILES: [(&str, &[&str], &str); 11] = [
    ("tree_lstm", &["trees.txt"], "64"),
    ("tree_lstm_2type", &["trees.txt"], "64"),
    ("tree_gru", &["trees.txt"], "64"),
    ("mv_rnn", &["trees.txt"], "64"),
    ("bilstm_tagger", &["tagged.txt"], "64"),
    ("bilstm_tagger_char", &["tagged.txt"], "64"),
    ("lattice_lstm", &["lattices.jsonl"], "64"),
    ("lattice_gru", &["lattices.jsonl"], "64"),
    ("lstm_nmt", &["source.txt", "source.txt"], "64"),
    ("tree_lstm", &["trees.txt"], "80"),
    ("tree_lstm", &["trees.txt"], "96"),
];

/// Models that train for an epoch: the model, the file of inputs of its golden, and the options
/// that name translations. The short check trains the first one.
const TRAINED: [(&str, &str, &[&str]); 3] = [
    ("bilstm_tagger", "tagged.txt", &[]),
    ("tree_lstm", "trees.txt", &[]),
    ("lstm_nmt", "source.txt", &["--targets", "--valid-targets"]),
];

/// Mistakes in the code of a TreeLSTM: a text and its replacement, made everywhere or at one place.
/// The short check makes the first three.
const MISTAKES: [&str; 7] = [
    "atom.acq_rel=>atom.relaxed",
    "ld.acquire=>ld.relaxed",
    "membar.sys=>//",
    "red.release=>red.relaxed",
    "ld.global.f32=>ld.global.nc.f32",
    "st.shared=>//",
    "1:fma.rn.f32=>//",
];

/// Mistakes in the code of a TreeLSTM with unit tiles. The short check makes the first one.
const MISTAKES_IN_TILES: [&str; 6] = [
    "st.relaxed.gpu.global=>st.global",
    "bar.sync=>//",
    "ld.relaxed.gpu.global.v4=>ld.global.v4",
    "cp.async.wait_group 2=>cp.async.wait_group 3",
    "st.shared=>//",
    "1000:fma.rn.f32=>//",
];

/// A run of a model.
#[derive(Clone, Copy)]
struct Run {
    model: &'static str,
    /// The elements of a hidden vector of a model with random weights, or "" for the golden.
    hidden: &'static str,
    /// True if it trains, for which the inputs are labels too.
    trains: bool,
    /// The precision of products. Other ones than f32 have the bytes of the emulated device.
    precision: &'static str,
    /// Values of `EDBATCH_CUDA`, `FAKE_CUDA_DEVICE`, `FAKE_CUDA_SMS`, `FAKE_CUDA_DRIVER` and
    /// `FAKE_CUDA_MUTATE`.
    driver: &'static str,
    device: &'static str,
    sms: &'static str,
    version: &'static str,
    mistake: Option<&'static str>,
    nvrtc: &'static str,
}

/// Returns the reason why the check cannot run on this machine, or `None` if it can.
pub(super) fn lacking() -> Option<String> {
    if !root().join(NVRTC_13).exists() {
        return Some(format!("there is no {NVRTC_13}: .ci/run installs it"));
    }
    ["c++", "python3"].into_iter().find_map(|tool| {
        let started = Command::new(tool).arg("--version").output();
        started.is_err().then(|| format!("there is no {tool}"))
    })
}

/// Builds the driver, tests it, and runs the short check or all of it.
pub(super) fn pass(all: bool, skips: &Skips) -> Result<bool, Failure> {
    let folder = root().join("target/fake-cuda");
    if !is_ready(&folder)? {
        return Ok(false);
    }
    let (model, driver) = ("tree_lstm", "teams");
    let (device, sms, version, mistake, nvrtc) = ("h100", "12", "13000", None, NVRTC_13);
    let hidden = "";
    let (trains, precision) = (false, "f32");
    let first =
        Run { model, hidden, trains, precision, driver, device, sms, version, mistake, nvrtc };
    let mut runs = first.of(&MODELS);
    // A barrier before each wave.
    runs.push(Run { driver: "barriers", ..first });
    let old = Run { version: "12040", nvrtc: NVRTC_12, ..first };
    let has_old = root().join(NVRTC_12).exists();
    if !has_old {
        skips.note("cargo xtask ci, old CUDA drivers", &format!("there is no {NVRTC_12}"))?;
    } else if !all {
        runs.extend(old.of(&[model]));
    }
    let (tiles, mistakes, in_tiles) = if all {
        (&WITH_TILES[..], &MISTAKES[..], &MISTAKES_IN_TILES[..])
    } else {
        (&WITH_TILES[..1], &MISTAKES[..3], &MISTAKES_IN_TILES[..1])
    };
    runs.extend(mistakes.iter().map(|&mistake| Run { mistake: Some(mistake), ..first }));
    for &(model, inputs, hidden) in tiles {
        if !init(model, inputs, hidden)? {
            return Ok(false);
        }
        let precisions = ["f32", "tf32", "bf16"].into_iter();
        runs.extend(precisions.map(|precision| Run { model, hidden, precision, ..first }));
    }
    let (model, _, hidden) = tiles[0];
    let of_tiles = in_tiles.iter().map(|&mistake| Run { mistake: Some(mistake), ..first });
    runs.extend(of_tiles.map(|run| Run { model, hidden, ..run }));
    let trained = if all { &TRAINED[..] } else { &TRAINED[..1] };
    runs.extend(trained.iter().map(|&(model, ..)| Run { model, trains: true, ..first }));
    if all {
        let models = [&MODELS[..], &OTHERS].concat();
        runs.extend(first.of(&OTHERS));
        let others = ["a100", "b200", "rtx5090"];
        runs.extend(others.iter().flat_map(|&device| Run { device, ..first }.of(&models)));
        let olds = [old, Run { device: "a100", ..old }];
        runs.extend(olds.iter().filter(|_| has_old).flat_map(|old| old.of(&models)));
        runs.push(Run { sms: "132", ..first });
    }
    let (next, passed) = (AtomicUsize::new(0), AtomicBool::new(true));
    let work = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            passed.fetch_and(print(run, run.check(&folder)), Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, Into::into);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let borrowed = print(&"memory of another library", borrowed_memory(&folder));
    let stored = print(&"without NVRTC, with stored kernels", first.finds_stored(&folder));
    let too_new = Run { version: "12040", ..first };
    let named = print(&"NVRTC 13 for an older driver", too_new.names_the_package(&folder));
    Ok(passed.into_inner() && borrowed && stored && named)
}

/// Builds the driver and the command, and tests the driver with small kernels.
fn is_ready(folder: &Path) -> Result<bool, Failure> {
    let source = root().join("xtask/fake-cuda");
    let [mut build, mut test, mut example] = ["sh", "python3", "cargo"].map(Command::new);
    example.args(["build", "-p", "edbatch-cuda", "--example", "borrowed"]).current_dir(root());
    build.arg(source.join("build.sh")).arg(folder);
    test.arg(source.join("tests/run.py")).arg(folder).arg(root().join(NVRTC_13));
    for mut part in [build, super::build(), example, test] {
        if !part.status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks training in memory of another library: streams run in random order, so an event that is
/// not waited for must be found.
fn borrowed_memory(folder: &Path) -> Result<(), Failure> {
    for is_ordered in [true, false] {
        let log = folder.join("borrowed.log");
        fs::write(&log, "")?;
        let mut command =
            Command::new(std::env::current_exe()?.with_file_name("examples/borrowed"));
        command.envs((!is_ordered).then_some(("FAKE_CUDA_UNORDERED", "1")));
        command.env("EDBATCH_CUDA_LIBRARIES", folder).env("LD_LIBRARY_PATH", folder);
        command.env("FAKE_CUDA_NVRTC", root().join(NVRTC_13)).env("FAKE_CUDA_LOG", &log);
        command.env("XDG_CACHE_HOME", folder.join("cache")).env("CUDA_CACHE_DISABLE", "1");
        let output = command.env("FAKE_CUDA_SMS", "12").output()?;
        let is_right = output.status.success() && !fs::read_to_string(log)?.contains("FINDING");
        if is_right != is_ordered {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("with order: {is_ordered}: {errors}").into());
        }
    }
    Ok(())
}

/// Makes a model with random weights from the inputs of its golden.
fn init(model: &str, inputs: &[&str], hidden: &str) -> Result<bool, Failure> {
    let golden = root().join("crates/edbatch/tests/goldens-small").join(model);
    let mut init = Command::new(std::env::current_exe()?.with_file_name("edbatch"));
    init.args(["init", model]).arg(with_tiles(model, hidden)).args(["--hidden", hidden]);
    init.arg("--input").args(inputs.iter().map(|input| golden.join(input)));
    Ok(init.status()?.success())
}

/// The folder of a model with random weights.
fn with_tiles(model: &str, hidden: &str) -> PathBuf {
    root().join("target/fake-cuda/models").join(format!("{model}-{hidden}"))
}

/// Prints the outcome of a check, and returns true if it passed.
fn print(what: &dyn fmt::Display, outcome: Result<(), Failure>) -> bool {
    let error = outcome.err();
    println!("{what}: {}", error.as_ref().map_or("passed".into(), |error| error.to_string()));
    error.is_none()
}

impl Run {
    /// Returns copies of this run for other models.
    fn of(self, models: &[&'static str]) -> Vec<Self> {
        models.iter().map(|&model| Self { model, ..self }).collect()
    }

    /// Runs the model on a backend, with the CUDA libraries in `libraries`. Stores kernels below
    /// `cache`. Returns the output, which for training is the weights, and the driver's log.
    fn run(
        &self,
        backend: &str,
        libraries: &Path,
        cache: &Path,
    ) -> Result<(Output, String), Failure> {
        let name = self.to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let log = cache.join(format!("{name}.log"));
        fs::create_dir_all(cache)?;
        fs::write(&log, "")?;
        let model = match self.hidden {
            "" => root().join("crates/edbatch/tests/goldens-small").join(self.model),
            hidden => with_tiles(self.model, hidden),
        };
        // Cargo builds the program next to this one.
        let mut command = Command::new(std::env::current_exe()?.with_file_name("edbatch"));
        let trained = cache.join(format!("{name}_{backend}"));
        match TRAINED.iter().find(|(model, ..)| self.trains && *model == self.model) {
            None => drop(command.arg("infer").arg(&model).args(["--precision", self.precision])),
            Some((_, inputs, targets)) => {
                let _ = fs::remove_dir_all(&trained);
                command.arg("train").arg(&model).arg("--output").arg(&trained);
                for option in ["--input", "--valid"].iter().chain(*targets) {
                    command.arg(option).arg(model.join(inputs));
                }
                command.args(["--epochs", "1", "--batch", "3", "--clip", "1", "--threads", "1"]);
            }
        }
        command.args(["--backend", backend]).envs([
            ("EDBATCH_CUDA", self.driver),
            ("FAKE_CUDA_DEVICE", self.device),
            ("FAKE_CUDA_SMS", self.sms),
            ("FAKE_CUDA_DRIVER", self.version),
            ("CUDA_CACHE_DISABLE", "1"),
        ]);
        command.envs(self.mistake.map(|mistake| ("FAKE_CUDA_MUTATE", mistake)));
        command.env("EDBATCH_CUDA_LIBRARIES", libraries).env("LD_LIBRARY_PATH", libraries);
        command.env("FAKE_CUDA_NVRTC", root().join(self.nvrtc)).env("FAKE_CUDA_LOG", &log);
        let mut output = command.env("XDG_CACHE_HOME", cache).output()?;
        if self.trains && output.status.success() {
            output.stdout = fs::read(trained.join("weights.safetensors"))?;
        }
        Ok((output, fs::read_to_string(log)?))
    }

    /// Checks that the GPU writes the CPU's bytes, and that the driver finds nothing. In precisions
    /// that sum in another order, the bytes of the emulated device are expected. For a run with a
    /// mistake, checks instead that the code contains its text and that one of the two fails.
    fn check(&self, folder: &Path) -> Result<(), Failure> {
        let cache = folder.join("cache");
        let backend = if self.precision == "f32" { "cpu" } else { "cuda-emulated" };
        let (expected, _) = self.run(backend, folder, &cache)?;
        let (got, log) = self.run("cuda", folder, &cache)?;
        let finding = log.lines().find(|line| line.starts_with("FINDING"));
        let wrong = if let Some(finding) = finding {
            Some(finding.to_string())
        } else if !got.status.success() {
            Some(String::from_utf8_lossy(&got.stderr).into())
        } else if got.stdout != expected.stdout {
            Some("other bytes than the CPU's".into())
        } else {
            (!log.contains("SUMMARY")).then(|| "the driver was not used".into())
        };
        if self.mistake.is_some() && !is_changed(&log) {
            return Err("the text of the mistake does not occur in the code: remove it".into());
        }
        match (wrong, self.mistake) {
            (Some(wrong), None) => Err(wrong.into()),
            (None, Some(_)) => Err("the mistake is not found".into()),
            _ => Ok(()),
        }
    }

    /// Checks that a machine without NVRTC runs the kernels that `check` has stored.
    fn finds_stored(&self, folder: &Path) -> Result<(), Failure> {
        let (alone, cache) = (folder.join("alone"), folder.join("cache"));
        fs::create_dir_all(&alone)?;
        fs::copy(folder.join("libcuda.so.1"), alone.join("libcuda.so.1"))?;
        let (expected, _) = self.run("cpu", folder, &cache)?;
        let (got, _) = self.run("cuda", &alone, &cache)?;
        let errors = String::from_utf8_lossy(&got.stderr);
        let is_same = got.status.success() && got.stdout == expected.stdout;
        let compiles = errors.contains("compil");
        if is_same && !compiles { Ok(()) } else { Err(errors.into()) }
    }

    /// Checks that the error names the package that fits the driver, if nothing is stored.
    fn names_the_package(&self, folder: &Path) -> Result<(), Failure> {
        let (got, _) = self.run("cuda", folder, &folder.join("empty"))?;
        let errors = String::from_utf8_lossy(&got.stderr);
        let named = errors.contains("nvidia-cuda-nvrtc-cu12==12.4.127");
        if named && !got.status.success() { Ok(()) } else { Err(errors.into()) }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, hidden, precision, driver, device, sms, version, mistake, .. } = self;
        let trains = if self.trains { " training" } else { "" };
        write!(
            f,
            "{model}{hidden}{trains}, {precision}, {driver}, {device}, {sms} SMs, driver {version}"
        )?;
        mistake.map_or(Ok(()), |mistake| write!(f, ", {mistake}"))
    }
}

/// Returns true if the driver's log says that a module's text was replaced at a place.
fn is_changed(log: &str) -> bool {
    let mut counts = log.lines().filter_map(|line| line.strip_prefix("MUTATED "));
    counts.any(|count| !count.starts_with("0 "))
}

#[cfg(test)]
mod tests {
    use super::is_changed;

    #[test]
    fn a_mistake_whose_text_occurs_nowhere_is_not_made() {
        assert!(is_changed("MUTATED 0 of 0 places\nMUTATED 10 of 10 places\nSUMMARY\n"));
        assert!(!is_changed("MUTATED 0 of 8 places\nFINDING any\n"));
        assert!(!is_changed("FINDING any\n"));
    }
}
