//! Checks that a version can be published, and stops before anything is uploaded.

use std::fs;
use std::process::Command;

use crate::ci::{packages, versions};
use crate::{Failure, root};

/// Check that a version can be published. Nothing is uploaded
///
/// With a version, first writes it into the manifest. Then checks the working tree, the changelogs,
/// the address of the repository, the public API by semantic versioning, and every crate as it
/// would be built from the registry. Prints the commands that publish it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask release        check the current version\n  \
                        cargo xtask release 0.5.0  set the version, then check it")]
pub(crate) struct Args {
    /// The version to set, such as 0.5.0
    version: Option<Version>,
}

/// Major, minor and patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u64; 3]);

impl std::str::FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
        let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
        numbers.map(Self).ok_or_else(|| format!("expected a version such as 0.5.0, got {text}"))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
    };
    if let Some(version) = args.version {
        fs::write(root().join("Cargo.toml"), with_version(&read("Cargo.toml")?, version)?)?;
        println!("Cargo.toml: {version}. Commit it, and run `cargo xtask release`");
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
    println!("The workflows publish.yml and wheels.yml then upload. By hand:");
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
fn with_version(manifest: &str, version: Version) -> Result<String, String> {
    let text = string_of(manifest, "version")?;
    let old: Version = text.parse()?;
    if version <= old {
        return Err(format!("expected a version after {old}, got {version}"));
    }
    let quoted = |version| format!("version = \"{version}\"");
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
        let set = |text: &str| with_version(MANIFEST, text.parse()?);
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
