//! Fetches a set: downloads and unpacks to a working folder, compares the checksum, and then moves
//! each file into place.
//!
//! Uses the programs `curl`, `unzip` and `tar`. A file with its final name is always complete and
//! checked. The working folder `.fetch` is removed at the end.

use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::manifest::{Fetch, File, Set, State};
use crate::Failure;

/// Fetches the files of `set` that are not yet in `dir`. Does nothing for a set that is made by
/// hand.
pub(super) fn fetch(set: &Set, dir: &Path) -> Result<(), Failure> {
    if is_complete(set, dir) {
        println!("{}: all {} files are present", set.name, set.files.len());
        return Ok(());
    }
    match &set.fetch {
        Fetch::Manual { .. } => Ok(()),
        Fetch::Files { base } => {
            let work = Work::new(dir)?;
            for file in missing(set, dir) {
                let part = work.0.join("part");
                download(&format!("{base}/{}", member(file)), &part)?;
                install(file, &part, dir)?;
            }
            Ok(())
        }
        Fetch::Zip { url } => from_archive(set, url, &["unzip", "-p"], dir),
        Fetch::Tar { url } => from_archive(set, url, &["tar", "-xOf"], dir),
    }
}

/// Returns true if every file of `set` is in `dir` and matches the manifest.
pub(super) fn is_complete(set: &Set, dir: &Path) -> bool {
    missing(set, dir).next().is_none()
}

fn from_archive(set: &Set, url: &str, unpack: &[&str], dir: &Path) -> Result<(), Failure> {
    // Unpacks each member to standard output, so that no path in an archive is ever written to.
    let work = Work::new(dir)?;
    let (archive, part) = (work.0.join("archive"), work.0.join("part"));
    download(url, &archive)?;
    for file in missing(set, dir) {
        let mut command = Command::new(unpack[0]);
        command.args(&unpack[1..]).arg(&archive).arg(member(file)).stdout(fs::File::create(&part)?);
        succeed(&mut command)?;
        install(file, &part, dir)?;
    }
    Ok(())
}

fn missing<'a>(set: &'a Set, dir: &'a Path) -> impl Iterator<Item = &'a File> {
    set.files.iter().filter(move |file| !matches!(file.check(dir), State::Matches))
}

fn member(file: &File) -> &str {
    file.member.as_deref().unwrap_or(&file.path)
}

fn download(url: &str, to: &Path) -> Result<(), Failure> {
    println!("downloading {url}");
    let progress: &[&str] =
        if stderr().is_terminal() { &["--progress-bar"] } else { &["--silent", "--show-error"] };
    succeed(
        Command::new("curl")
            .args(["--fail", "--location", "--connect-timeout", "30"])
            // Fails if nothing arrives for a minute.
            .args(["--speed-limit", "1", "--speed-time", "60", "--output"])
            .arg(to)
            .args(progress)
            .arg(url),
    )
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} failed with {status}").into()),
        Err(error) => Err(format!("failed to start {program} ({error}); is it installed?").into()),
    }
}

/// Moves `part` to the place of `file`, if it matches the manifest.
fn install(file: &File, part: &Path, dir: &Path) -> Result<(), Failure> {
    match file.check_at(part) {
        State::Matches => {}
        State::Differs { bytes, sha256 } => {
            let (path, size, sum) = (&file.path, file.bytes, &file.sha256);
            let message = format!(
                "{path}: expected {size} bytes with SHA-256 {sum}, got {bytes} bytes with {sha256}"
            );
            return Err(message.into());
        }
        state => return Err(format!("{}: {state:?}", file.path).into()),
    }
    let target = dir.join(&file.path);
    fs::create_dir_all(target.parent().expect("a file is in its set's folder"))?;
    fs::rename(part, &target)?;
    println!("  {} ({} bytes)", target.display(), file.bytes);
    Ok(())
}

/// A working folder next to the sets, so that moving a file into place is a rename. Removed when
/// dropped.
struct Work(PathBuf);

impl Work {
    fn new(dir: &Path) -> Result<Self, Failure> {
        let work = dir.join(".fetch");
        if work.exists() {
            fs::remove_dir_all(&work)?;
        }
        fs::create_dir_all(&work)?;
        Ok(Work(work))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// A set of one file, `set/abc` with the contents `abc`, named `member` at its source.
    fn set(fetch: Fetch, member: &str) -> Set {
        let text = String::new;
        let file = File {
            path: "set/abc".into(),
            member: Some(member.into()),
            bytes: 3,
            sha256: ABC.into(),
        };
        let (description, format, licence, source) = (text(), text(), text(), text());
        Set { name: "set".into(), description, format, licence, source, fetch, files: vec![file] }
    }

    /// A folder with `source/abc`, and the path of its `full` folder. Removed after the test.
    fn folder(test: &str) -> (Work, PathBuf) {
        let folder = std::env::temp_dir().join(format!("xtask-{}-{test}", std::process::id()));
        fs::create_dir_all(folder.join("source")).unwrap();
        fs::write(folder.join("source/abc"), "abc").unwrap();
        let full = folder.join("full");
        (Work(folder), full)
    }

    fn has(program: &str) -> bool {
        let found = Command::new(program)
            .arg("--help")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok();
        if !found {
            edbatch_testing::skip(&format!("the program {program} is not installed"));
        }
        found
    }

    /// The entries of `full`, including hidden ones.
    fn entries(full: &Path) -> Vec<String> {
        let entries = fs::read_dir(full)
            .map(|dir| dir.map(|e| e.unwrap().file_name().into_string().unwrap()).collect());
        entries.unwrap_or_default()
    }

    #[test]
    fn a_complete_set_is_not_fetched_again() {
        if !has("curl") {
            return;
        }
        let (folder, full) = folder("files");
        let set = set(
            Fetch::Files { base: format!("file://{}", folder.0.join("source").display()) },
            "abc",
        );
        fetch(&set, &full).unwrap();
        assert_eq!(fs::read(full.join("set/abc")).unwrap(), b"abc");
        assert_eq!(entries(&full), ["set"]);
        fs::remove_file(folder.0.join("source/abc")).unwrap();
        fetch(&set, &full).expect("the set is complete");
    }

    #[test]
    fn a_wrong_checksum_or_address_leaves_no_file() {
        if !has("curl") {
            return;
        }
        let (folder, full) = folder("wrong");
        let base = format!("file://{}", folder.0.join("source").display());
        let gone = fetch(&set(Fetch::Files { base: base.clone() }, "gone"), &full)
            .unwrap_err()
            .to_string();
        assert!(gone.starts_with("curl failed"), "{gone}");
        fs::write(folder.0.join("source/abc"), "abd").unwrap();
        let other = fetch(&set(Fetch::Files { base }, "abc"), &full).unwrap_err().to_string();
        assert!(other.starts_with("set/abc: expected 3 bytes with SHA-256 ba78"), "{other}");
        assert!(entries(&full).is_empty(), "{:?}", entries(&full));
    }

    #[test]
    fn members_of_a_tar_archive_are_unpacked() {
        if !has("curl") || !has("tar") {
            return;
        }
        let (folder, full) = folder("tar");
        let archive = folder.0.join("sets.tar.gz");
        let mut tar = Command::new("tar");
        succeed(tar.arg("-czf").arg(&archive).arg("-C").arg(&folder.0).arg("source")).unwrap();
        fetch(
            &set(Fetch::Tar { url: format!("file://{}", archive.display()) }, "source/abc"),
            &full,
        )
        .unwrap();
        assert_eq!(fs::read(full.join("set/abc")).unwrap(), b"abc");
        assert_eq!(entries(&full), ["set"]);
    }

    #[test]
    fn members_of_a_zip_archive_are_unpacked() {
        if !has("curl") || !has("unzip") {
            return;
        }
        let (folder, full) = folder("zip");
        let archive = folder.0.join("sets.zip");
        fs::write(&archive, zip("source/abc", b"abc")).unwrap();
        let url = format!("file://{}", archive.display());
        fetch(&set(Fetch::Zip { url: url.clone() }, "source/abc"), &full).unwrap();
        assert_eq!(fs::read(full.join("set/abc")).unwrap(), b"abc");
        fs::remove_dir_all(&full).unwrap();
        assert!(fetch(&set(Fetch::Zip { url }, "source/gone"), &full).is_err());
        assert!(entries(&full).is_empty(), "{:?}", entries(&full));
    }

    /// A zip archive with one uncompressed member: local header, contents, directory, end record.
    fn zip(name: &str, contents: &[u8]) -> Vec<u8> {
        let mut crc = flate2::Crc::new();
        crc.update(contents);
        let size = (contents.len() as u32).to_le_bytes();
        let crc = crc.sum().to_le_bytes();
        let name_length = (name.len() as u16).to_le_bytes();
        // Version 2.0, no flags, no compression, no time, the checksum, both sizes, the length of
        // the name, no extra field.
        let common =
            [&[20, 0, 0, 0, 0, 0, 0, 0, 33, 0][..], &crc, &size, &size, &name_length, &[0, 0]]
                .concat();
        let local = [b"PK\x03\x04", &common[..], name.as_bytes(), contents].concat();
        let directory = [b"PK\x01\x02\x14\x00", &common[..], &[0; 14], name.as_bytes()].concat();
        let sizes =
            [(directory.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes()].concat();
        let end = [b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &sizes[..], &[0, 0]].concat();
        [local, directory, end].concat()
    }
}
