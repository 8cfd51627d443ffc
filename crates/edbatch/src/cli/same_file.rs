//! Ensures that the outputs of a command replace neither its inputs nor each other.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::failure::Failure;

/// The identity of a file, the same for every path or link to it.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    /// An existing file: device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// A path without links.
    Path(PathBuf),
}

/// Rejects an output that is the same file as an input or as another output. Each file comes with
/// the words that describe it, such as `--output`.
pub(crate) fn check<'a>(
    inputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
    outputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
) -> Result<(), Failure> {
    let mut known: HashMap<Identity, (&str, &Path)> = HashMap::new();
    let identified = |(what, path): (&'a str, &'a Path)| Some((identity(path)?, (what, path)));
    known.extend(inputs.into_iter().filter_map(identified));
    for (file, (what, path)) in outputs.into_iter().filter_map(identified) {
        if let Some((other, same)) = known.insert(file, (what, path)) {
            let (path, same) = (path.display(), same.display());
            return Err(Failure::Usage(format!(
                "{what} {path} is the same file as {other} {same}: choose another name for {what}"
            )));
        }
    }
    Ok(())
}

/// Returns the identity of a file, which need not exist. Pipes and devices have none, because they
/// are not overwritten.
fn identity(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => None,
        #[cfg(unix)]
        Ok(metadata) => {
            use std::os::unix::fs::MetadataExt;
            Some(Identity::Inode(metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        Ok(_) => fs::canonicalize(path).ok().map(Identity::Path),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
            Some(Identity::Path(folder.join(path.file_name()?)))
        }
    }
}
