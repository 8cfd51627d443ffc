//! What version numbers promise: of other people's crates, that the oldest ones which a manifest
//! admits are enough; of ours, that nothing breaks which a number says does not.

use std::process::Command;

use crate::{Failure, root};

/// Where the manifests with our numbers are, and the packages that have them.
const NUMBERED: [(&str, &[&str]); 2] = [
    (
        "Cargo.toml",
        &[
            "edbatch",
            "edbatch-datasets",
            "edbatch-graph",
            "edbatch-layout",
            "edbatch-models",
            "edbatch-policy",
            "edbatch-runtime",
        ],
    ),
    ("crates/pqtree/Cargo.toml", &["pqtree"]),
];

/// Whether everything compiles with the oldest versions that our manifests admit, resolved into a
/// lock file of its own.
pub(super) fn oldest_suffice() -> Result<bool, Failure> {
    let lock = root().join("target/minimal-versions/Cargo.lock");
    let path = format!("resolver.lockfile-path={:?}", lock.display().to_string());
    let cargo = |words: &str| {
        let mut cargo = Command::new("cargo");
        cargo.args(words.split(' ')).args(["-Zlockfile-path", "--config", &path]);
        // Both options are of nightly compilers.
        cargo.env("RUSTC_BOOTSTRAP", "1").current_dir(root()).status()
    };
    Ok(cargo("generate-lockfile -Zdirect-minimal-versions")?.success()
        && cargo("check --workspace --all-features --target-dir target/minimal-versions")?
            .success())
}

/// Whether interfaces changed as numbers say since the version before this one. There are no tags:
/// that version's last commit is the parent of the one that set today's number.
pub(super) fn numbers_tell() -> Result<bool, Failure> {
    for (manifest, packages) in NUMBERED {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%H^", "-G^version = \"", "--", manifest]);
        let output = git.current_dir(root()).output()?;
        let commit = String::from_utf8(output.stdout)?;
        if commit.trim().is_empty() {
            return Err(format!("git knows no commit that set the version in {manifest}").into());
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["semver-checks", "--baseline-rev", commit.trim()]);
        cargo.args(packages.iter().flat_map(|package| ["--package", package]));
        if !cargo.current_dir(root()).status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}
