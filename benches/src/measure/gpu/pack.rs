//! Makes a pack: a folder that verifies and measures the device of another machine, without a
//! compiler, a network connection or the repository.

use std::env::current_exe;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use edbatch::load;
use edbatch::models::{Model, ModelName};
use edbatch_cuda::{self as cuda, CompiledKernels, CudaError, CudaOptions, measure};
use edbatch_graph::Network;
use edbatch_layout::Program;
use edbatch_testing::Subject;

use crate::Failure;
use crate::measure::assets;
use crate::measure::families::Family;
use crate::measure::gpu::verify::{VARIANTS, compiler_threads, random_program};
use crate::measure::systems::System;

/// Versions of NVRTC whose kernels a machine without a compiler looks for.
const COMPILERS: [(u32, u32); 2] = [(13, 0), (12, 4)];

/// The script `run` of a pack.
const RUN: &str = "\
#!/bin/sh
# Verifies and measures the CUDA backend on this machine. Needs only NVIDIA's driver.
#
#   ./run --minutes 32 --json gpu.json
#   ./run --help
set -e
here=$(cd \"$(dirname \"$0\")\" && pwd)
[ -d \"$here/cache\" ] || tar -xzf \"$here/cache.tar.gz\" -C \"$here\"
XDG_CACHE_HOME=\"$here/cache\" exec \"$here/edbatch-benches\" --gpu \"$@\"
";

/// The contents of a pack.
pub struct Contents<'a> {
    /// The architecture that kernels are compiled for.
    pub arch: &'a str,
    /// The models whose goldens are verified; empty for all.
    pub models: &'a [String],
    /// Number of random networks.
    pub networks: u64,
    /// The workloads, and sizes of their vectors.
    pub workloads: Vec<(&'a Family, Vec<usize>)>,
}

/// Writes a pack to a new folder; if it fails, it leaves no folder. `options` are the command-line
/// options that determine the pack's [`Contents`].
pub fn pack(folder: &Path, options: &[String]) -> Result<(), Failure> {
    if folder.exists() {
        return Err(format!("{}: exists already; name a new folder", folder.display()).into());
    }
    match measure::compiler() {
        Some(version) if COMPILERS.contains(&version) => {}
        got => {
            let got = got.map_or("none".into(), |(major, minor)| format!("{major}.{minor}"));
            return Err(format!(
                "--pack compiles kernels and needs NVRTC 12.4, for all drivers, or NVRTC 13.0; \
                 found: {got}\n  \
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
    let made = fill(&partial, options).and_then(|()| Ok(fs::rename(&partial, folder)?));
    if made.is_err() {
        // It may not exist.
        let _ = fs::remove_dir_all(&partial);
    }
    made?;
    println!("{}; on the other machine: ./run", folder.display());
    Ok(())
}

/// Writes the files of a pack into a new folder.
fn fill(folder: &Path, options: &[String]) -> Result<(), Failure> {
    fs::create_dir_all(folder)?;
    let program = current_exe()?;
    let copy = folder.join("edbatch-benches");
    // Without debug information, if `strip` is installed.
    let stripped = Command::new("strip").arg("-o").arg(&copy).arg(&program).status();
    if !stripped.is_ok_and(|status| status.success()) {
        fs::copy(&program, &copy)?;
    }
    let peers = folder.join("peers");
    fs::create_dir(&peers)?;
    for script in ["protocol.py", "pytorch.py", "pytorch_training.py"] {
        fs::copy(assets::scripts().join(script), peers.join(script))?;
    }
    for name in ModelName::ALL.map(ModelName::name) {
        let (from, to) = (assets::goldens().join(name), folder.join("goldens").join(name));
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    let run = folder.join("run");
    fs::write(&run, RUN)?;
    fs::set_permissions(&run, fs::metadata(&program)?.permissions())?;
    // A separate process, whose kernel cache lies in the folder.
    let cache = std::path::absolute(folder.join("cache"))?;
    let mut compile = Command::new(&program);
    compile.args(options).arg("--compile").env("XDG_CACHE_HOME", cache);
    if !compile.status()?.success() {
        return Err("compiling the kernels failed; see the messages above".into());
    }
    // Compresses to a quarter; `run` unpacks it.
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(folder.join("cache.tar.gz")).arg("-C").arg(folder).arg("cache");
    let packed = tar.status().map_err(|error| format!("cannot start tar: {error}"))?;
    if !packed.success() {
        return Err("tar failed; see the messages above".into());
    }
    fs::remove_dir_all(folder.join("cache"))?;
    Ok(())
}

/// A program to compile, and the options for its kernels.
type Job = (Arc<Program>, CudaOptions);

/// Compiles all kernels that a run of a pack loads, and stores them in the user's cache.
pub fn compile(contents: &Contents<'_>) -> Result<(), Failure> {
    let arch = contents.arch;
    store(measure::compile(arch)).map_err(Failure::from)?;
    let jobs = Mutex::new(jobs(contents)?);
    let results = Mutex::new(Vec::new());
    let work = || {
        while let Some((program, options)) = jobs.lock().ok().and_then(|mut jobs| jobs.pop()) {
            let stored = store(cuda::compile(&program, &options, arch));
            results.lock().unwrap_or_else(PoisonError::into_inner).push(stored);
        }
    };
    thread::scope(|scope| {
        (0..compiler_threads()).for_each(|_| drop(scope.spawn(work)));
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sizes = results.into_iter().collect::<Result<Vec<usize>, String>>()?;
    let megabytes = sizes.iter().sum::<usize>() as f64 / 1e6;
    println!("{} programs compiled for {arch}: {megabytes:.1} MB", sizes.len());
    Ok(())
}

/// Stores kernels in the user's cache. Returns their size.
fn store(compiled: Result<CompiledKernels, CudaError>) -> Result<usize, String> {
    let compiled = compiled.map_err(|error| error.to_string())?;
    let stored = compiled.store().map_err(|error| format!("kernel cache: {error}"))?;
    stored.ok_or("there is no folder for the kernel cache: HOME is not set")?;
    Ok(compiled.bytes)
}

/// Returns all programs that a run of a pack loads.
fn jobs(contents: &Contents<'_>) -> Result<Vec<Job>, Failure> {
    let mut jobs = Vec::new();
    let mut add = |network: &Arc<Network>| {
        for system in VARIANTS {
            let program = Arc::new(system.program(network)?);
            jobs.extend(system.on_cuda().map(|options| (program, options)));
        }
        Ok::<(), Failure>(())
    };
    for name in ModelName::ALL.map(ModelName::name) {
        if contents.models.is_empty() || contents.models.iter().any(|model| model == name) {
            let loaded = load(assets::goldens().join(name))?;
            add(loaded.model.network())?;
        }
    }
    for (family, hidden) in &contents.workloads {
        for &hidden in hidden {
            add(family.at(hidden)?.network())?;
        }
    }
    for seed in 0..contents.networks {
        let program = Arc::new(random_program(seed, &Subject::random(seed).network));
        jobs.extend(System::Cuda.on_cuda().map(|options| (program, options)));
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use edbatch_cuda::kernel_source;

    use super::{Contents, jobs};
    use crate::measure::families::FAMILIES;
    use crate::measure::sets::Source;

    #[test]
    fn only_folded_programs_share_their_kernels() {
        let family = (FAMILIES[0].1)(&Source::Generated).unwrap();
        let (models, workloads) = (["tree_lstm".to_string()], vec![(&family, vec![256])]);
        let contents = Contents { arch: "sm_90", models: &models, networks: 1, workloads };
        let jobs = jobs(&contents).unwrap();
        let sources =
            jobs.iter().map(|(program, options)| kernel_source(program, options).unwrap());
        // A golden and a workload with four variants each, and a random network.
        assert_eq!((jobs.len(), sources.collect::<BTreeSet<_>>().len()), (9, 7));
    }
}
