//! The checks of the Python package: builds the wheel, and runs its tests, type checkers and
//! notebooks with it. `xtask/python/distributions.py` checks the wheel itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::skips::Skips;
use crate::{Failure, root};

const PACKAGE: &str = "crates/edbatch-python";

/// The notebooks. Some need a module that the test environment lacks.
const NOTEBOOKS: [(&str, Option<&str>); 4] = [
    ("docs/notebooks/1_own_model.ipynb", None),
    ("docs/notebooks/2_weights_and_report.ipynb", None),
    ("docs/notebooks/3_in_torch.ipynb", Some("torch")),
    ("docs/notebooks/4_traced_modules.ipynb", Some("torch")),
];

/// Environments with PyTorch, by name: the oldest version that works, and the newest, beside Ray.
const WITH_TORCH: [(&str, &[&str]); 2] = [
    ("torch-oldest", &["torch==2.2.2", "numpy<2"]),
    ("torch-newest", &["torch", "numpy>=2", "ray[train]"]),
];

/// Returns the reason why the checks cannot run on this machine, or `None` if they can. Creates the
/// environment for tests, which needs Python's package index for the first time. `smoke` installs
/// only what the smoke tests need.
pub(super) fn lacking(smoke: bool) -> Option<String> {
    let version = ["-c", "import sys, venv; assert sys.version_info >= (3, 11)"];
    if !succeeds(Command::new("python3").args(version)) {
        return Some("there is no `python3` of version 3.11 or later with `venv`".into());
    }
    if !python("tests").exists() && !succeeds(&mut environment("tests")) {
        return Some("`python3 -m venv` failed".into());
    }
    let mut install = pip("tests", &["install", "--timeout", "10", "--retries", "1"]);
    if smoke {
        install.args(["hypothesis", "numpy", "pytest"]);
    } else {
        install.arg("-r").arg(root().join(PACKAGE).join("tests/requirements.txt"));
        install.arg("-r").arg(root().join("xtask/python/requirements.txt"));
    }
    (!succeeds(&mut install)).then(|| "Python's package index cannot be reached".into())
}

/// Runs the tests that are marked `smoke`. The package is built together with the other tests, so
/// little is compiled.
pub(super) fn smoke(skips: &Skips) -> Result<bool, Failure> {
    if !super::build().status()?.success() {
        return Ok(false);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let (library, extension) = match std::env::consts::OS {
        "windows" => ("_native.dll", "_native.pyd"),
        "macos" => ("lib_native.dylib", "_native.abi3.so"),
        _ => ("lib_native.so", "_native.abi3.so"),
    };
    // As `maturin develop` does: beside the sources, where Git ignores it.
    let folder = root().join(PACKAGE).join("python");
    fs::copy(target.join("debug").join(library), folder.join("edbatch").join(extension))?;
    let mut tests = module("pytest", &["-q", "-m", "smoke"]);
    skips.collect_from(&mut tests);
    Ok(tests.env("PYTHONPATH", folder).status()?.success())
}

/// Runs all checks on a release build.
pub(super) fn pass(skips: &Skips) -> Result<bool, Failure> {
    let Some(wheel) = wheel(skips)? else { return Ok(false) };
    let mut install = pip("tests", &["install", "--force-reinstall", "--no-deps"]);
    if !install.arg(&wheel).status()?.success() {
        return Ok(false);
    }
    let mut tests = module("pytest", &["-q", "-m", "smoke or not smoke"]);
    skips.collect_from(&mut tests);
    let mypy = ["--strict", "-p", "edbatch"];
    let stubs = ["edbatch._native", "--mypy-config-file", "pyproject.toml"];
    let commands = [tests, module("mypy", &mypy), module("mypy.stubtest", &stubs)];
    for mut command in commands.into_iter().chain([notebooks(skips)?]) {
        println!("-- {command:?}");
        if !command.status()?.success() {
            return Ok(false);
        }
    }
    with_torch(&wheel, skips)
}

/// Runs the tests that need PyTorch with several versions of it.
fn with_torch(wheel: &Path, skips: &Skips) -> Result<bool, Failure> {
    for (name, packages) in WITH_TORCH {
        let made = python(name).exists() || environment(name).status()?.success();
        let mut install = pip(name, &["install", "--timeout", "10", "--retries", "1"]);
        if !made || !succeeds(install.args(packages).args(["hypothesis", "pytest"])) {
            skips.note(name, &format!("{} cannot be installed", packages.join(" ")))?;
            continue;
        }
        let mut install = pip(name, &["install", "--force-reinstall", "--no-deps"]);
        let mut tests = Command::new(python(name));
        tests.args(["-m", "pytest", "-q", "-m", "smoke or not smoke", "-k", "torch or trace"]);
        skips.collect_from(tests.current_dir(root().join(PACKAGE)));
        println!("-- {tests:?}");
        if !install.arg(wheel).status()?.success() || !tests.status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Builds the wheel that PyPI would get, and checks its size and its metadata.
fn wheel(skips: &Skips) -> Result<Option<PathBuf>, Failure> {
    if !distributions("wheel", skips)? {
        return Ok(None);
    }
    let wheel = fs::read_dir(root().join("target/python/wheels"))?.next();
    Ok(Some(wheel.ok_or("maturin built no wheel")??.path()))
}

/// Builds and checks what PyPI would get: the `wheel` alone, or `all`.
pub(super) fn distributions(what: &str, skips: &Skips) -> Result<bool, Failure> {
    let mut command = Command::new(python("tests"));
    command.arg(root().join("xtask/python/distributions.py")).arg(what);
    skips.collect_from(&mut command);
    Ok(command.status()?.success())
}

/// Runs the notebooks whose modules are installed.
fn notebooks(skips: &Skips) -> Result<Command, Failure> {
    let mut run = module("pytest", &["-q", "--nbmake", "-p", "no:cacheprovider"]);
    for (notebook, needs) in NOTEBOOKS {
        match needs {
            Some(name) if !imports(name) => {
                skips.note(notebook, &format!("{name} is not installed"))?;
            }
            _ => drop(run.arg(root().join(notebook))),
        }
    }
    Ok(run)
}

fn imports(module: &str) -> bool {
    succeeds(Command::new(python("tests")).args(["-c", &format!("import {module}")]))
}

/// Runs a module in the environment for tests, from the package's folder.
fn module(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(python("tests"));
    command.args(["-m", name]).args(arguments).current_dir(root().join(PACKAGE));
    command
}

fn pip(environment: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(python(environment));
    command.args(["-m", "pip", "-q", "--disable-pip-version-check"]).args(arguments);
    command
}

/// Creates an environment.
fn environment(name: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "venv"]).arg(root().join("target/python").join(name));
    command
}

/// Returns the interpreter of an environment.
fn python(environment: &str) -> PathBuf {
    root().join("target/python").join(environment).join("bin/python")
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
