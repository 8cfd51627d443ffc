//! Checks of version numbers: the oldest allowed versions of dependencies suffice, and the numbers
//! of our crates follow semantic versioning.

use std::process::Command;

use crate::{Failure, root};

/// The manifests that set our version numbers, and their packages.
const NUMBERED: [(&str, &str); 2] = [
    (
        "Cargo.toml",
        "edbatch edbatch-cli edbatch-cuda edbatch-datasets edbatch-graph edbatch-layout \
         edbatch-models edbatch-policy edbatch-runtime edbatch-zoo",
    ),
    ("crates/pqtree/Cargo.toml", "pqtree"),
];

/// Compiles everything with the oldest dependencies that our manifests allow, with a separate lock
/// file. Returns true if it succeeds.
pub(super) fn oldest_suffice() -> Result<bool, Failure> {
    let lock = root().join("target/minimal-versions/Cargo.lock");
    let path = format!("resolver.lockfile-path={:?}", lock.display().to_string());
    let cargo = |words: &str| {
        let mut cargo = Command::new("cargo");
        cargo.args(words.split(' ')).args(["-Zlockfile-path", "--config", &path]);
        // Both options need a nightly compiler, or this variable.
        cargo.env("RUSTC_BOOTSTRAP", "1").current_dir(root()).status()
    };
    Ok(cargo("generate-lockfile -Zdirect-minimal-versions")?.success()
        && cargo("check --workspace --all-features --target-dir target/minimal-versions")?
            .success())
}

/// Compares the public API with the previous version, and returns true if the version number fits
/// the change. There are no tags: the last commit of the previous version is the parent of the
/// commit that set the current number.
pub(crate) fn numbers_tell() -> Result<bool, Failure> {
    for (manifest, packages) in NUMBERED {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%H^", "-G^version = \"", "--", manifest]);
        let output = git.current_dir(root()).output()?;
        let commit = String::from_utf8(output.stdout)?;
        if commit.trim().is_empty() {
            return Err(format!("found no commit that set the version in {manifest}").into());
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["semver-checks", "--baseline-rev", commit.trim()]);
        for package in packages.split(' ') {
            // A new crate is compared from its second version on.
            if existed(package, commit.trim())? {
                cargo.args(["--package", package]);
            }
        }
        if !cargo.current_dir(root()).status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a commit has a package.
fn existed(package: &str, commit: &str) -> Result<bool, Failure> {
    let name = format!("^name = \"{package}\"$");
    let mut git = Command::new("git");
    git.args(["grep", "--quiet", &name, commit, "--", "*Cargo.toml"]);
    Ok(git.current_dir(root()).status()?.success())
}
