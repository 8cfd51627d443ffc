//! Files that appear whole, and what killed programs leave of them.
//!
//! A file is written beside its place, under a name of its own that tells whose it is and which
//! process writes it: `.out.jsonl.4711-0123456789abcdef.partial`. It is locked meanwhile. The
//! system drops the lock of a process that ends, however it ends, so that a partial file without a
//! lock is a leftover, and the next one to write the same file removes it. This holds over a
//! network too, where its file system has locks; where it has none, leftovers stay.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file that is not there until it is complete; dropped before that, it leaves nothing.
///
/// A pipe or a device is written to at once: there is nothing to put in its place.
///
/// ```
/// use std::io::Write;
///
/// use edbatch_datasets::WholeFile;
///
/// # let folder = std::env::temp_dir().join(format!("edbatch-whole-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let path = folder.join("out.txt");
/// let mut file = WholeFile::create(&path)?;
/// file.write_all(b"all of it\n")?;
/// assert!(!path.exists());
/// file.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "all of it\n");
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct WholeFile {
    writer: BufWriter<File>,
    /// Unless it is a pipe or a device.
    partial: Option<Partial>,
    path: PathBuf,
}

/// What is written beside its place, and is removed unless it has been renamed before.
#[derive(Debug)]
struct Partial(PathBuf);

impl WholeFile {
    /// Begins a file, and removes what killed programs have left of it.
    ///
    /// # Errors
    /// If no file can be made beside its place, or a folder is in that place.
    pub fn create(path: &Path) -> io::Result<Self> {
        let of = |file, partial| {
            let writer = BufWriter::with_capacity(1 << 16, file);
            Ok(Self { writer, partial, path: path.to_path_buf() })
        };
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                Err(io::Error::other("expected the name of a file, got a folder"))
            }
            Ok(metadata) if !metadata.is_file() => {
                of(File::options().write(true).open(path)?, None)
            }
            _ => {
                let name = path.file_name().unwrap_or_default();
                // A folder that can be written to need not be one that can be listed.
                let _ = remove_leftovers(folder_of(path), |target| target == name);
                let (file, partial) = create_locked(path)?;
                of(file, Some(partial))
            }
        }
    }

    /// Gives the file its name, once its bytes are on the disk.
    ///
    /// # Errors
    /// If the bytes cannot be written, or the place cannot be taken.
    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()?;
        let Some(partial) = &self.partial else { return Ok(()) };
        // Some systems find out only here that a disk is full.
        self.writer.get_ref().sync_all()?;
        fs::rename(&partial.0, &self.path)
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After success it is no longer there; after failure the error is already on its way.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a file at once, whole or not at all.
///
/// # Errors
/// As [`WholeFile::create`] and [`WholeFile::finish`].
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}

/// A new file beside a place, which nobody takes for a leftover.
fn create_locked(path: &Path) -> io::Result<(File, Partial)> {
    loop {
        let partial = beside(path);
        let file = match File::create_new(&partial) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        let locked = file.try_lock();
        // Whoever took it for a leftover, before it was locked, removes it.
        if matches!(locked, Err(TryLockError::WouldBlock)) || !partial.exists() {
            continue;
        }
        return Ok((file, Partial(partial)));
    }
}

/// A name in the same folder, so that renaming moves no data.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let process = std::process::id();
    // Other machines have processes of the same number.
    let unique = RandomState::new().hash_one(process);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{process}-{unique:016x}.partial"));
    path.with_file_name(name)
}

/// Removes what killed programs have left in a folder, of files and folders whose names
/// `are_meant`.
///
/// # Errors
/// If the folder cannot be listed, or a leftover cannot be removed.
pub fn remove_leftovers(folder: &Path, are_meant: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    for path in partial_files(folder, are_meant)? {
        let is_folder = path.is_dir();
        // Folders are not opened to be written to, and some systems lock what is, alone.
        let Ok(file) = File::options().read(is_folder).write(!is_folder).open(&path) else {
            continue;
        };
        // Its name is no other file's, ever: had it been completed since, it would not be found.
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

/// What is being written in a folder, or was left, of files whose names `are_meant`.
///
/// # Errors
/// If the folder cannot be listed.
pub fn partial_files(
    folder: &Path,
    are_meant: impl Fn(&OsStr) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().and_then(target_of).is_some_and(&are_meant) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Of which file this is the name of a partial one.
fn target_of(name: &OsStr) -> Option<&OsStr> {
    let name = name.to_str()?.strip_prefix('.')?.strip_suffix(".partial")?;
    let (target, whose) = name.rsplit_once('.')?;
    let (process, unique) = whose.split_once('-')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let is_unique = unique.len() == 16 && unique.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number && is_unique && !target.is_empty()).then_some(OsStr::new(target))
}

/// The folder that a path lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let name = format!("edbatch-whole-file-{test}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn names(&self) -> Vec<String> {
            let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let names = fs::read_dir(&self.0).unwrap().map(name);
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_next_one_removes_leftovers_of_its_own_file_alone() {
        let scratch = Scratch::new("leftovers");
        let others = [
            ".hidden",
            ".other.9-0123456789abcdef.partial",
            ".out.9-0123456789abcdeg.partial",
            ".out.9.partial",
            "out.9-0123456789abcdef.partial",
        ];
        let left = [".out.9-0123456789abcdef.partial", ".out.77-ffffffffffffffff.partial"];
        for name in others.iter().chain(&left) {
            fs::write(scratch.0.join(name), "half").unwrap();
        }
        let path = scratch.0.join("out");
        let first = WholeFile::create(&path).unwrap();
        let mut second = WholeFile::create(&path).unwrap();
        // Both are under way, and neither takes the other for a leftover.
        assert_eq!(partial_files(&scratch.0, |target| target == "out").unwrap().len(), 2);
        let process = format!(".out.{}-", std::process::id());
        let own = scratch.names().iter().filter(|name| name.starts_with(&process)).count();
        assert_eq!(own, 2, "{:?}", scratch.names());
        second.write_all(b"two").unwrap();
        second.finish().unwrap();
        drop(first);
        let mut expected: Vec<&str> = others.to_vec();
        expected.push("out");
        expected.sort_unstable();
        assert_eq!(scratch.names(), expected);
        assert_eq!(fs::read_to_string(path).unwrap(), "two");
    }

    #[test]
    fn what_is_there_stays_until_the_new_one_is_whole() {
        let scratch = Scratch::new("stays");
        let path = scratch.0.join("out");
        fs::write(&path, "old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(&[b'x'; 1 << 20]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(file);
        assert_eq!(
            (scratch.names(), fs::read_to_string(&path).unwrap()),
            (vec!["out".into()], "old".into())
        );
        assert!(WholeFile::create(&scratch.0).is_err(), "a folder");
        assert!(WholeFile::create(&scratch.0.join("none/out")).is_err(), "no folder");
    }

    #[test]
    #[cfg(unix)]
    fn devices_are_written_to_at_once() {
        let mut file = WholeFile::create(Path::new("/dev/null")).unwrap();
        file.write_all(b"gone").unwrap();
        file.finish().unwrap();
    }
}
