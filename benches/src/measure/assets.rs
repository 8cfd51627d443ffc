//! Files that the program reads at run time: in the repository, or next to the program in a pack.

use std::path::{Path, PathBuf};

/// Returns the folder with each model's goldens: inputs, weights and expected results.
pub fn goldens() -> PathBuf {
    match pack() {
        Some(pack) => pack.join("goldens"),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/edbatch/tests/goldens-small"),
    }
}

/// Returns the folder of the scripts that run peers.
pub fn scripts() -> PathBuf {
    let folder = pack().unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    folder.join("peers")
}

/// Returns the default path of an output: in a pack, or under cargo's target folder.
pub fn output(folder: &str, name: &str) -> PathBuf {
    if let Some(pack) = pack() {
        return pack.join(name);
    }
    let program = std::env::current_exe().ok();
    let target = program.as_deref().and_then(|program| program.ancestors().nth(2));
    target.unwrap_or(Path::new("target")).join(folder).join(name)
}

/// Returns the folder of the pack that this program belongs to.
fn pack() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    folder.join("goldens").is_dir().then(|| folder.into())
}
