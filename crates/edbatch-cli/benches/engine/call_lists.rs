//! Speed of networks as data against the same model in Rust: TreeLSTM, 64 trees of 20 leaves in a
//! mini-batch, one thread.
//!
//! For hidden vectors of 128 and of 256 elements: the speed of an engine on kept call lists as a
//! share of the model's, the time to read a call of a line, and the speed of `infer` on the
//! exported folder as a share of the original's.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use edbatch::models::{CallList, CallLists, FolderModel};
use edbatch::{Engine, load};
use edbatch_graph::Dag;
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use super::{Running, interleaved, median};

const LEAVES: usize = 20;
const MINI_BATCH: usize = 64;
/// The number of trees of `infer`: enough to hide the start of the process.
const TREES: usize = 40 * MINI_BATCH;

/// Prints all speeds.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let trees = scratch.path().join("trees.txt");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let lines: Vec<String> = (0..TREES).map(|_| tree(LEAVES, &mut rng) + "\n").collect();
    std::fs::write(&trees, lines.concat())?;
    for hidden in ["128", "256"] {
        let folder = |name: &str| scratch.path().join(format!("{name}-{hidden}"));
        let (model, network) = (folder("model"), folder("network"));
        let arguments: [&[&dyn AsRef<std::ffi::OsStr>]; 2] = [
            &[&"init", &"tree_lstm", &model, &"--hidden", &hidden, &"--input", &trees],
            &[&"export", &model, &network],
        ];
        for arguments in arguments {
            edbatch(arguments)?;
        }
        engines(hidden, &model, &network)?;
        commands(hidden, &model, &network)?;
    }
    Ok(())
}

/// Returns a random binary tree with these leaves.
fn tree(leaves: usize, rng: &mut impl Rng) -> String {
    let label = rng.random_range(0..5);
    if leaves == 1 {
        return format!("({label} word{})", rng.random_range(0..5000));
    }
    let left = rng.random_range(1..leaves);
    format!("({label} {} {})", tree(left, rng), tree(leaves - left, rng))
}

/// Runs the command and returns its seconds.
fn edbatch(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Result<f64, Box<dyn Error>> {
    let started = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_edbatch")).args(arguments).status()?;
    let seconds = started.elapsed().as_secs_f64();
    if status.success() { Ok(seconds) } else { Err(status.to_string().into()) }
}

/// Compares the engines in this process, and reads lines.
fn engines(hidden: &str, model: &Path, network: &Path) -> Result<(), Box<dyn Error>> {
    let (model, lists) = (load(model)?, load(network)?);
    let lines = std::fs::read_to_string(lists.folder.input())?;
    let lines: Vec<&str> = lines.lines().take(MINI_BATCH).collect();
    let trees = model.folder.inputs(&model.folder.input())?.take(MINI_BATCH);
    let trees = trees.collect::<Result<Vec<_>, _>>()?;
    let (FolderModel::Zoo(tree_lstm), FolderModel::Network(reader)) = (model.model, lists.model)
    else {
        return Err("expected the folders of a TreeLSTM and of a network".into());
    };
    let read = |reader: &CallLists| -> Result<Vec<CallList>, Box<dyn Error>> {
        lines.iter().map(|line| Ok(reader.read(line)?)).collect()
    };
    let kept = read(&reader)?;
    let calls: usize = kept.iter().map(|list| list.graph().nodes()).sum();
    let mut original = Running::new(Engine::new(tree_lstm, model.parameters)?);
    let mut exported = Running::new(Engine::new(reader.clone(), lists.parameters)?);
    let pair = || Ok([original.seconds(&trees)?, exported.seconds(&kept)?]);
    let share = interleaved(40, pair)?.share;
    if original.outputs != exported.outputs {
        return Err("the results differ".into());
    }
    println!("H {hidden}: kept call lists {share:.3} × the model");
    let nanoseconds = (0..100).map(|_| {
        let started = Instant::now();
        black_box(read(&reader)?);
        Ok(started.elapsed().as_secs_f64() * 1e9 / calls as f64)
    });
    let nanoseconds = median(nanoseconds.collect::<Result<_, Box<dyn Error>>>()?);
    println!("H {hidden}: reading a line {nanoseconds:.0} ns a call, of {calls} calls");
    Ok(())
}

/// Compares `infer` on both folders.
fn commands(hidden: &str, model: &Path, network: &Path) -> Result<(), Box<dyn Error>> {
    let infer = |folder: &Path| {
        edbatch(&[&"infer", &folder, &"--threads", &"1", &"--output", &folder.join("out")])
    };
    let share = interleaved(10, || Ok([infer(model)?, infer(network)?]))?.share;
    println!("H {hidden}: infer on the exported folder {share:.3} × on the original");
    Ok(())
}
