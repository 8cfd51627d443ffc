//! Packages every crate as for a registry, and checks the files of the packages or builds each
//! crate from its package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Failure, root};

/// The cargo command: it publishes without uploading.
const COMMAND: &str = "publish --workspace --dry-run --allow-dirty --target-dir";

/// The files that every package must have.
const NEEDED: [&str; 5] =
    ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src/lib.rs"];

/// The maximum size of a packaged file in bytes: the largest is the corpus of pqtree's fuzzer.
const MAX_FILE: u64 = 200_000;

/// The maximum size of a package in bytes.
const MAX_PACKAGE: u64 = 1_000_000;

/// Packages every crate, and checks the files of the packages. With `build`, builds each crate from
/// its package instead. Returns true if this succeeds.
///
/// Cargo unpacks the workspace's packages into its home directory, under a name that depends only
/// on the target directory, and reuses them while the version is the same. So a second run with the
/// same target directory would build the old sources. Each run uses a new directory and removes it.
pub(crate) fn pass(build: bool) -> Result<bool, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unique = format!("packages-{}-{}", process::id(), now.as_nanos());
    let directory = root().join("target").join(unique);
    let mut cargo = Command::new("cargo");
    cargo.args(COMMAND.split(' ')).arg(&directory).current_dir(root());
    if !build {
        cargo.arg("--no-verify");
    }
    let status = cargo.status().map_err(|e| format!("failed to start cargo: {e}"))?;
    let passed = status.success() && (build || files_are_as_needed(&directory)?);
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    Ok(passed)
}

/// Prints the packages in a target directory and their faults. Returns true if none has a fault.
fn files_are_as_needed(directory: &Path) -> Result<bool, Failure> {
    let packages = packages(directory)?;
    if packages.is_empty() {
        return Err(format!("found no package in {}", directory.display()).into());
    }
    let mut faults = Vec::new();
    for package in packages {
        let name = package.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let files = files(&package)?;
        let bytes = package.metadata()?.len();
        println!("{name}: {} files, {bytes} bytes", files.len());
        if bytes > MAX_PACKAGE {
            faults.push(format!("{name}: more than {MAX_PACKAGE} bytes"));
        }
        faults.extend(faults_of(&name, &files));
    }
    faults.iter().for_each(|fault| println!("{fault}"));
    Ok(faults.is_empty())
}

/// The archives below a folder. Their place in it depends on cargo's version.
fn packages(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            packages.extend(self::packages(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "crate") {
            packages.push(path);
        }
    }
    packages.sort();
    Ok(packages)
}

/// The files in a package, without the name of its folder, and their sizes.
fn files(package: &Path) -> Result<Vec<(String, u64)>, Failure> {
    let output = Command::new("tar").arg("-tvzf").arg(package).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let listing = String::from_utf8(output.stdout)?;
    listing.lines().map(|line| file(line).ok_or(format!("tar printed {line}").into())).collect()
}

/// Reads a line of `tar -tv`. GNU prints mode, owner, size, date, time and name; BSD prints two
/// more fields before the size and one more after it.
fn file(line: &str) -> Option<(String, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let size = if fields.get(1)?.contains('/') { fields.get(2) } else { fields.get(4) };
    let (_, name) = fields.last()?.split_once('/')?;
    Some((name.into(), size?.parse().ok()?))
}

fn faults_of(package: &str, files: &[(String, u64)]) -> Vec<String> {
    let lacks = |needed: &&str| !files.iter().any(|(name, _)| name == needed);
    let lacking = NEEDED.into_iter().filter(lacks).map(|name| format!("{package} lacks {name}"));
    let large = files.iter().filter(|&&(_, bytes)| bytes > MAX_FILE);
    let large = large.map(|(name, bytes)| format!("{package}: {name} has {bytes} bytes"));
    lacking.chain(large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_tars_are_read() {
        let expected = Some(("src/lib.rs".to_string(), 4321));
        let gnu = "-rw-r--r-- 0/0            4321 2006-07-24 01:21 pqtree-1.1.0/src/lib.rs";
        let bsd = "-rw-r--r--  0 0      0        4321 Jul 24  2006 pqtree-1.1.0/src/lib.rs";
        assert_eq!([file(gnu), file(bsd)], [expected.clone(), expected]);
        assert_eq!(file("tar: an error"), None);
    }

    #[test]
    fn missing_and_large_files_are_faults() {
        let mut files = NEEDED.map(|name| (name.to_string(), 1)).to_vec();
        assert!(faults_of("a", &files).is_empty());
        files.remove(3);
        files.push(("tests/b".into(), MAX_FILE + 1));
        let expected = ["a lacks README.md", "a: tests/b has 200001 bytes"];
        assert_eq!(faults_of("a", &files), expected);
    }
}
