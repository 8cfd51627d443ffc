//! A folder to be carried to a machine with a GPU, and without anything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use edbatch::cuda::CudaError;
use edbatch::cuda::{self, CompiledKernels, measure};
use edbatch::load;
use edbatch_graph::Network;
use edbatch_layout::Program;
use edbatch_models::{Model, ModelName};
use edbatch_testing::Subject;

use super::options::Options;
use super::run::{Files, family};
use super::setting::Kernels;
use super::verify::{GOLDEN, kernels_of, threads};
use crate::workload::Failure;

/// Bytes of all files together, at most: it is carried by hand.
const MOST_BYTES: u64 = 20 << 20;

/// The version of NVRTC whose kernels a machine without a compiler looks for.
const COMPILER: (u32, u32) = (13, 0);

/// What the folder's `run` is.
const RUN: &str = "\
#!/bin/sh
# Verifies and measures the CUDA backend on this machine: NVIDIA's driver is all that it needs.
#
#   ./run --minutes 32 --json gpu.json
#   ./run --help
set -e
here=$(cd \"$(dirname \"$0\")\" && pwd)
[ -d \"$here/cache\" ] || tar -xzf \"$here/cache.tar.gz\" -C \"$here\"
XDG_CACHE_HOME=\"$here/cache\" exec \"$here/edbatch-gpu\" \"$@\"
";

/// Makes the folder, whole or not at all.
///
/// # Errors
/// If it exists, there is no compiler of the version that is needed, or it becomes too large.
pub(super) fn pack(options: &Options, files: &Files, folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        return Err(format!("{}: exists already; name a new folder", folder.display()).into());
    }
    match measure::compiler() {
        Some(COMPILER) => {}
        got => {
            let got = got.map_or("none".into(), |(major, minor)| format!("{major}.{minor}"));
            return Err(format!(
                "--pack compiles kernels ahead, for which it needs NVRTC 13.0; found: {got}\n  \
                 python3 -m pip install --no-deps --target nvrtc nvidia-cuda-nvrtc==13.0.88\n  \
                 EDBATCH_CUDA_LIBRARIES=nvrtc/nvidia/cu13/lib cargo xtask gpu --pack {}",
                folder.display()
            )
            .into());
        }
    }
    let mut partial = folder.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let made = fill(options, files, &partial).and_then(|bytes| {
        fs::rename(&partial, folder)?;
        Ok(bytes)
    });
    if made.is_err() {
        // It may not even be there.
        let _ = fs::remove_dir_all(&partial);
    }
    let megabytes = made? as f64 / 1e6;
    println!("{}: {megabytes:.1} MB; there: ./run", folder.display());
    Ok(())
}

/// Fills a new folder; the bytes of all files.
fn fill(options: &Options, files: &Files, folder: &Path) -> Result<u64, Failure> {
    fs::create_dir_all(folder)?;
    copy_program(&files.program, &folder.join("edbatch-gpu"))?;
    let peers = folder.join("peers");
    fs::create_dir(&peers)?;
    for script in ["baseline.py", "protocol.py", "pytorch.py"] {
        fs::copy(files.scripts.join(script), peers.join(script))?;
    }
    for name in ModelName::ALL.map(ModelName::name) {
        let (from, to) = (files.goldens.join(name), folder.join("goldens").join(name));
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    let run = folder.join("run");
    fs::write(&run, RUN)?;
    make_executable(&run)?;
    // By a process of its own, whose cache is the folder's.
    let cache = std::path::absolute(folder.join("cache"))?;
    let mut compile = Command::new(&files.program);
    compile.args(["--compile", "--arch", &options.arch]).env("XDG_CACHE_HOME", cache);
    compile.args(["--networks", &options.networks().to_string()]);
    if options.quick {
        compile.arg("--quick");
    }
    if !options.models.is_empty() {
        compile.args(["--models", &options.models.join(",")]);
    }
    if !compile.status()?.success() {
        return Err("compiling the kernels failed; why stands above".into());
    }
    // To a quarter; `run` unpacks it.
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(folder.join("cache.tar.gz")).arg("-C").arg(folder).arg("cache");
    let packed = tar.status().map_err(|error| format!("tar does not start: {error}"))?;
    if !packed.success() {
        return Err("tar failed; why stands above".into());
    }
    fs::remove_dir_all(folder.join("cache"))?;
    let bytes = bytes_of(folder)?;
    check_size(bytes)?;
    Ok(bytes)
}

/// A pack is to be carried.
fn check_size(bytes: u64) -> Result<(), Failure> {
    if bytes > MOST_BYTES {
        let [bytes, most] = [bytes, MOST_BYTES].map(|bytes| bytes as f64 / 1e6);
        return Err(format!(
            "the pack takes {bytes:.1} MB, at most {most:.1} are allowed: leave some out by \
             --quick, --models or --networks"
        )
        .into());
    }
    Ok(())
}

/// Without what only debuggers need, where the system can take it out.
fn copy_program(from: &Path, to: &Path) -> Result<(), Failure> {
    let stripped = Command::new("strip").arg("-o").arg(to).arg(from).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(from, to)?;
    }
    make_executable(to)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> Result<(), Failure> {
    Ok(())
}

fn bytes_of(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let (path, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        bytes += if metadata.is_dir() { bytes_of(&path)? } else { metadata.len() };
    }
    Ok(bytes)
}

/// A program to be compiled, and how it is to be carried out.
type Job = (Arc<Program>, Kernels);

/// Compiles all that a run of a pack loads, into the user's cache.
///
/// # Errors
/// If there is no compiler, or something does not compile.
pub(super) fn compile(options: &Options, files: &Files) -> Result<(), Failure> {
    store(measure::compile(&options.arch)).map_err(Failure::from)?;
    let jobs = Mutex::new(jobs(options, files)?);
    let results = Mutex::new(Vec::new());
    let work = || {
        while let Some((program, kernels)) = jobs.lock().ok().and_then(|mut jobs| jobs.pop()) {
            let stored = store(cuda::compile(&program, &kernels.options(), &options.arch));
            results.lock().unwrap_or_else(PoisonError::into_inner).push(stored);
        }
    };
    thread::scope(|scope| {
        (0..threads()).for_each(|_| drop(scope.spawn(work)));
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sizes = results.into_iter().collect::<Result<Vec<usize>, String>>()?;
    let megabytes = sizes.iter().sum::<usize>() as f64 / 1e6;
    println!("{} programs compiled for {}: {megabytes:.1} MB", sizes.len(), options.arch);
    Ok(())
}

/// Puts kernels into the user's cache; their bytes.
fn store(compiled: Result<CompiledKernels, CudaError>) -> Result<usize, String> {
    let compiled = compiled.map_err(|error| error.to_string())?;
    let stored = compiled.store().map_err(|error| format!("the cache of kernels: {error}"))?;
    stored.ok_or("there is no folder for caches: HOME is not set")?;
    Ok(compiled.bytes)
}

/// All programs that a run loads.
fn jobs(options: &Options, files: &Files) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    let mut add = |network: &Arc<Network>, kernels: &[Kernels]| {
        for kernels in kernels {
            jobs.push((kernels.program(network)?, *kernels));
        }
        Ok::<(), Failure>(())
    };
    for name in ModelName::ALL.map(ModelName::name) {
        if options.takes_model(name) {
            let loaded = load(files.goldens.join(name))?;
            add(loaded.model.network(), &GOLDEN)?;
        }
    }
    for seed in 0..options.networks() {
        add(&Subject::random(seed).network, &kernels_of(seed))?;
    }
    for model in options.workloads() {
        let family = family(model, options)?;
        for &hidden in options.hidden() {
            add(family.at(hidden)?.network(), &Kernels::ALL)?;
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use edbatch::cuda::kernel_source;

    use super::{Files, MOST_BYTES, Options, bytes_of, check_size, jobs};

    #[test]
    fn folded_programs_alone_share_their_kernels() {
        let few = ["gpu", "--compile", "--quick", "--models", "tree_lstm", "--networks", "1"];
        let jobs = jobs(&Options::parse_from(few), &Files::find().unwrap()).unwrap();
        let sources = jobs
            .iter()
            .map(|(program, kernels)| kernel_source(program, &kernels.options()).unwrap());
        // A golden in four ways, a random network by both drivers, a workload in four ways.
        assert_eq!((jobs.len(), sources.collect::<BTreeSet<_>>().len()), (10, 8));
    }

    #[test]
    fn a_pack_is_to_be_carried() {
        assert!(check_size(MOST_BYTES).is_ok());
        let error = check_size(MOST_BYTES + 1).unwrap_err().to_string();
        assert!(error.contains("21.0 MB") && error.contains("--quick"), "{error}");
    }

    #[test]
    fn bytes_are_those_of_all_folders_below() {
        let folder = std::env::temp_dir().join(format!("edbatch-pack-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        std::fs::write(folder.join("a"), [0; 5]).unwrap();
        std::fs::write(folder.join("below/b"), [0; 7]).unwrap();
        assert_eq!(bytes_of(&folder).unwrap(), 12);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
