//! Checks that a version can be published, and stops before anything is uploaded.

use std::fs;
use std::process::Command;

use crate::ci::{packages, versions};
use crate::{Failure, root};

/// Checks that the current version can be published, and uploads nothing. With a version, only
/// writes it into the files that name one.
///
/// The checks: all is committed, the changelogs and the citation have the version, the repository
/// has an address, the public API fits the version, and each crate builds as from the registry.
/// Then prints the commands that publish it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask release        check the current version\n  \
                        cargo xtask release 0.5.0  write the next version")]
pub(crate) struct Args {
    /// The version to write, such as 0.5.0
    version: Option<String>,
}

/// Major, minor and patch of a version.
fn numbers(version: &str) -> Result<[u64; 3], String> {
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| format!("expected a version such as 0.5.0, got {version}"))
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
    };
    if let Some(version) = args.version {
        let (manifest, citation) = (read("Cargo.toml")?, read("CITATION.cff")?);
        let old = format!("\nversion: {}\n", string_of(&manifest, "version")?);
        let citation = citation.replace(&old, &format!("\nversion: {version}\n"));
        fs::write(root().join("Cargo.toml"), with_version(&manifest, &version)?)?;
        fs::write(root().join("CITATION.cff"), citation)?;
        let mut lock = Command::new("cargo");
        if !lock.args(["update", "--workspace"]).current_dir(root()).status()?.success() {
            return Err("Cargo.lock was not changed".into());
        }
        println!("Cargo.toml, Cargo.lock and CITATION.cff have version {version}.");
        println!("Write it into CHANGELOG.md, commit, and run `cargo xtask release`.");
        return Ok(());
    }
    let (manifest, pqtree) = (read("Cargo.toml")?, read("crates/pqtree/Cargo.toml")?);
    let version = string_of(&manifest, "version")?;
    let mut faults = Vec::new();
    for (path, version) in
        [("CHANGELOG.md", version), ("crates/pqtree/CHANGELOG.md", string_of(&pqtree, "version")?)]
    {
        faults.extend(fault_of_changelog(&read(path)?, version).map(|f| format!("{path}: {f}")));
    }
    if !read("CITATION.cff")?.contains(&format!("\nversion: {version}\n")) {
        faults.push(format!("CITATION.cff: expected version: {version}"));
    }
    if string_of(&manifest, "repository")?.is_empty() {
        faults.push("Cargo.toml: `repository` is empty: registries refuse that".into());
    }
    let mut git = Command::new("git");
    let changed = git.args(["status", "--porcelain"]).current_dir(root()).output()?;
    if !changed.stdout.is_empty() {
        let files = String::from_utf8_lossy(&changed.stdout).into_owned();
        faults.push(format!("files are not committed:\n{}", files.trim_end()));
    }
    if !faults.is_empty() {
        return Err(format!("{version} cannot be published yet:\n{}", faults.join("\n")).into());
    }
    if !versions::numbers_tell()? {
        return Err("the public API has changed more than the version tells".into());
    }
    if !packages::pass(true)? {
        return Err("a crate does not build from its package".into());
    }
    println!("\nReady. To publish it:\n  git tag v{version} && git push origin v{version}");
    println!(
        "The workflows publish.yml and wheels.yml upload it, if the owner set PUBLISH. By hand:"
    );
    println!("  cargo publish --workspace");
    Ok(())
}

/// The value of the first line `key = "value"` of a manifest.
fn string_of<'m>(manifest: &'m str, key: &str) -> Result<&'m str, String> {
    let value = |line: &'m str| line.strip_prefix(key)?.trim_start().strip_prefix('=');
    let value = manifest.lines().find_map(value).map(|value| value.trim().trim_matches('"'));
    value.ok_or_else(|| format!("the manifest has no {key}"))
}

/// Sets the version of the workspace, and the version in which its crates depend on each other.
fn with_version(manifest: &str, version: &str) -> Result<String, String> {
    let old = string_of(manifest, "version")?;
    if numbers(version)? <= numbers(old)? {
        return Err(format!("expected a version after {old}, got {version}"));
    }
    let quoted = |version: &str| format!("version = \"{version}\"");
    let line = |line: &str| match line.starts_with("version") || line.contains("path = ") {
        true => line.replace(&quoted(old), &quoted(version)) + "\n",
        false => line.to_string() + "\n",
    };
    Ok(manifest.lines().map(line).collect())
}

/// Returns the reason why a changelog does not fit a version that is published.
fn fault_of_changelog(text: &str, version: &str) -> Option<String> {
    let section = text.split("\n## ").nth(1).unwrap_or("none");
    let (heading, changes) = section.split_once('\n').unwrap_or((section, ""));
    if heading.trim() != version {
        return Some(format!("expected a first section {version}, got {heading}"));
    }
    let unreleased = changes.trim_start().starts_with("Not released yet");
    unreleased.then(|| format!("says that {version} is not released yet: write the date"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.package]\nversion = \"0.4.0\"\nrepository = \"\"\n\
                            [workspace.dependencies]\n\
                            edbatch = { version = \"0.4.0\", path = \"crates/edbatch\" }\n\
                            pqtree = { version = \"1.1.0\", path = \"crates/pqtree\" }\n\
                            other = { version = \"0.4.0\" }\n";

    #[test]
    fn a_version_is_set_in_our_crates_alone() {
        let set = |version| with_version(MANIFEST, version);
        let expected = MANIFEST.replacen("0.4.0", "0.5.0", 2);
        assert_eq!(set("0.5.0").unwrap(), expected);
        assert_eq!(string_of(&expected, "version"), Ok("0.5.0"));
        assert_eq!(string_of(MANIFEST, "repository"), Ok(""));
        assert_eq!(set("0.4.0").unwrap_err(), "expected a version after 0.4.0, got 0.4.0");
        for text in ["0.5", "0.5.0.0", "v0.5.0", "0.5.-1", ""] {
            assert!(set(text).unwrap_err().starts_with("expected a version such as"), "{text}");
        }
    }

    #[test]
    fn a_changelog_begins_with_the_version_and_its_date() {
        let fault = |section: &str| fault_of_changelog(&format!("# Changelog\n{section}"), "0.5.0");
        assert_eq!(fault("\n## 0.5.0\n\nReleased on 2026-12-01.\n"), None);
        let text = "says that 0.5.0 is not released yet: write the date";
        assert_eq!(fault("\n## 0.5.0\n\nNot released yet. Faster.\n").as_deref(), Some(text));
        let text = "expected a first section 0.5.0, got 0.4.0";
        assert_eq!(fault("\n## 0.4.0\n\nOlder.\n").as_deref(), Some(text));
        assert_eq!(fault("").as_deref(), Some("expected a first section 0.5.0, got none"));
    }
}
