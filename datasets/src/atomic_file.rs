//! Files that appear complete or not at all, and the cleanup after killed processes.
//!
//! A file is written next to its destination under a temporary name such as
//! `.out.jsonl.f3GkQ9ZbX0aLw7Ty.partial`, and is locked while its process runs. The system releases
//! the lock when the process ends, for whatever reason, so a partial file without a lock is a
//! leftover. The next process that writes the same file removes it. This works on network file
//! systems that support locks; on those that do not, leftovers remain.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempPath};

const SUFFIX: &str = ".partial";

/// The number of random letters and digits in a temporary name.
const RANDOM: usize = 16;

/// A file that appears at its path when it is complete. Dropping it before [`finish`](Self::finish)
/// removes the partial file.
///
/// Pipes and devices are written directly.
///
/// ```
/// use std::io::Write;
///
/// use edbatch_datasets::AtomicFile;
///
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path();
/// let path = folder.join("out.txt");
/// let mut file = AtomicFile::create(&path)?;
/// file.write_all(b"all of it\n")?;
/// assert!(!path.exists());
/// file.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "all of it\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    writer: BufWriter<File>,
    /// `None` for a pipe or a device.
    partial: Option<TempPath>,
    path: PathBuf,
}

impl AtomicFile {
    /// Creates a partial file, after removing leftovers of the same file.
    ///
    /// # Errors
    /// If the partial file cannot be created, or `path` is a folder.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (file, partial) = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(io::Error::other("expected the name of a file, got a folder"));
            }
            Ok(metadata) if !metadata.is_file() => (File::options().write(true).open(path)?, None),
            _ => {
                let (file, partial) = create_locked(path)?;
                (file, Some(partial))
            }
        };
        let writer = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { writer, partial, path: path.to_path_buf() })
    }

    /// Syncs the file to disk and renames it to its path, replacing an existing file.
    ///
    /// # Errors
    /// If writing, syncing or renaming fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()?;
        let Some(partial) = self.partial else { return Ok(()) };
        // Some file systems report a full disk only here.
        self.writer.get_ref().sync_all()?;
        Ok(partial.persist(&self.path)?)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Writes a file, complete or not at all.
///
/// # Errors
/// If [`AtomicFile::create`], writing, or [`AtomicFile::finish`] fails.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// Creates a file next to `path` and locks it, so that no process takes it for a leftover.
fn create_locked(path: &Path) -> io::Result<(File, TempPath)> {
    let create = |partial: &Path| {
        let file = File::create_new(partial)?;
        let locked = file.try_lock();
        // Another process may have taken the file for a leftover before it was locked.
        let swept = matches!(locked, Err(TryLockError::WouldBlock)) || !partial.exists();
        // For this kind of error, `make_in` tries another name.
        if swept { Err(ErrorKind::AlreadyExists.into()) } else { Ok(file) }
    };
    let (prefix, folder) = prepare(path);
    Ok(named(&prefix).make_in(folder, create)?.into_parts())
}

/// Removes the leftovers of `path`. Returns the prefix of its temporary names, and its folder.
pub(crate) fn prepare(path: &Path) -> (OsString, &Path) {
    let name = path.file_name().unwrap_or_default();
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Errors are ignored, because a folder can be writable but not listable.
    let _ = remove_leftovers(folder, |target| target == name);
    let prefix = [OsStr::new("."), name, OsStr::new(".")];
    (prefix.into_iter().collect(), folder)
}

/// Returns a builder of temporary names. They are used in the destination's folder, so that
/// renaming copies nothing.
pub(crate) fn named(prefix: &OsStr) -> Builder<'_, 'static> {
    let mut builder = Builder::new();
    builder.prefix(prefix).suffix(SUFFIX).rand_bytes(RANDOM);
    builder
}

/// Removes the leftovers of killed processes in `folder`: partial files and folders that are not
/// locked, and whose final name `is_target` accepts.
///
/// # Errors
/// If the folder cannot be listed, or a leftover cannot be removed.
pub fn remove_leftovers(folder: &Path, is_target: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    for path in partial_files(folder, is_target)? {
        let is_folder = path.is_dir();
        // Folders cannot be opened for writing. Some systems can only lock files that are open for
        // writing.
        let Ok(file) = File::options().read(is_folder).write(!is_folder).open(&path) else {
            continue;
        };
        // Names are never reused: if the file has been renamed meanwhile, nothing is removed.
        if file.try_lock().is_ok() {
            let removed =
                if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Lists the partial files and folders in `folder` whose final name `is_target` accepts: files that
/// are being written, and leftovers.
///
/// # Errors
/// If the folder cannot be listed.
pub fn partial_files(
    folder: &Path,
    is_target: impl Fn(&OsStr) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().and_then(target_of).is_some_and(&is_target) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Returns the final name of a partial file, or `None` if `name` is not a temporary name.
fn target_of(name: &OsStr) -> Option<&OsStr> {
    let name = name.to_str()?.strip_prefix('.')?.strip_suffix(SUFFIX)?;
    let (target, random) = name.rsplit_once('.')?;
    let is_random = random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_random && !target.is_empty()).then_some(OsStr::new(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(folder).unwrap().map(name);
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn leftovers_of_the_same_file_are_removed_and_others_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let others = [
            ".hidden",
            ".other.0123456789abcdef.partial",
            ".out.012345678-abcdef.partial",
            ".out.9.partial",
            "out.0123456789abcdef.partial",
        ];
        let left = [".out.0123456789abcdef.partial", ".out.ZZZZZZZZZZZZZZZZ.partial"];
        for name in others.iter().chain(&left) {
            fs::write(folder.join(name), "half").unwrap();
        }
        let path = folder.join("out");
        let first = AtomicFile::create(&path).unwrap();
        let mut second = AtomicFile::create(&path).unwrap();
        let under_way = partial_files(folder, |target| target == "out").unwrap();
        assert_eq!(under_way.len(), 2, "neither is taken for a leftover: {under_way:?}");
        assert!(left.iter().all(|name| !folder.join(name).exists()));
        second.write_all(b"two").unwrap();
        second.finish().unwrap();
        drop(first);
        let mut expected: Vec<&str> = others.to_vec();
        expected.push("out");
        expected.sort_unstable();
        assert_eq!(names(folder), expected);
        assert_eq!(fs::read_to_string(path).unwrap(), "two");
    }

    #[test]
    fn existing_file_survives_an_unfinished_write() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(&[b'x'; 1 << 20]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(file);
        assert_eq!(names(scratch.path()), ["out"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert!(AtomicFile::create(scratch.path()).is_err(), "a folder");
        assert!(AtomicFile::create(&scratch.path().join("none/out")).is_err(), "no folder");
    }

    #[test]
    #[cfg(unix)]
    fn permissions_follow_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        let (whole, plain) = (scratch.path().join("whole"), scratch.path().join("plain"));
        write_atomic(&whole, b"").unwrap();
        fs::write(&plain, "").unwrap();
        assert_eq!(mode(&whole), mode(&plain));
    }

    #[test]
    #[cfg(unix)]
    fn devices_are_written_directly() {
        let mut file = AtomicFile::create(Path::new("/dev/null")).unwrap();
        file.write_all(b"gone").unwrap();
        file.finish().unwrap();
    }
}
