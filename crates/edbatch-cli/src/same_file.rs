//! Ensures that the outputs of a command replace neither its inputs, nor each other, nor the files
//! of a model.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use edbatch::models::Folder;

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

/// Rejects an output that is the same file as an input, as another output, or as a file of a
/// model's folder. Each file comes with the words that describe it, such as `--output`. `model` is
/// the folder whose files the command reads.
pub(crate) fn check<'a>(
    model: Option<&Folder>,
    inputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
    outputs: impl IntoIterator<Item = (&'a str, &'a Path)> + Clone,
) -> Result<(), Failure> {
    let of_model = model.into_iter().flat_map(|folder| {
        let target = folder.config().and_then(|config| config.target.as_ref());
        let target = target.map(|target| folder.path().join(target));
        Folder::files(folder.path()).chain([folder.input()]).chain(target)
    });
    let of_model = of_model.map(|path| ("the model's", path));
    let inputs = inputs.into_iter().map(|(what, path)| (what, path.to_path_buf()));
    distinct(of_model.chain(inputs), outputs.clone())?;
    for (what, path) in outputs {
        let file = resolve(path, MAX_LINKS);
        let folder = file.parent().unwrap_or(Path::new("."));
        let is_model =
            [Folder::CONFIG, Folder::NETWORK].iter().any(|name| folder.join(name).exists());
        if is_model
            && folder.join(Folder::WEIGHTS).exists()
            && Folder::files(folder).any(|of_model| of_model == file)
        {
            let (path, folder) = (path.display(), folder.display());
            return Err(Failure::Usage(format!(
                "{what} {path} is a file of the model in {folder}: choose another name for {what}"
            )));
        }
    }
    Ok(())
}

/// Rejects an output that is the same file as an input or as another output.
pub(crate) fn distinct<'a>(
    inputs: impl IntoIterator<Item = (&'a str, PathBuf)>,
    outputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
) -> Result<(), Failure> {
    let inputs = inputs.into_iter();
    let identified = inputs.filter_map(|(what, path)| Some((identity(&path)?, (what, path))));
    let mut known: HashMap<Identity, (&str, PathBuf)> = identified.collect();
    for (what, path) in outputs {
        let Some(file) = identity(path) else { continue };
        if let Some((other, same)) = known.insert(file, (what, path.into())) {
            let (path, same) = (path.display(), same.display());
            return Err(Failure::Usage(format!(
                "{what} {path} is the same file as {other} {same}: choose another name for {what}"
            )));
        }
    }
    Ok(())
}

/// Returns true if a file is directly in a folder. Both need not exist.
pub(crate) fn is_in(file: &Path, folder: &Path) -> bool {
    resolve(file, MAX_LINKS).parent() == Some(&resolve(folder, MAX_LINKS))
}

/// Returns the identity of a file or folder, which need not exist. Pipes and devices have none,
/// because they are not overwritten.
fn identity(path: &Path) -> Option<Identity> {
    let path = resolve(path, MAX_LINKS);
    match fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => None,
        #[cfg(unix)]
        Ok(metadata) => {
            use std::os::unix::fs::MetadataExt;
            Some(Identity::Inode(metadata.dev(), metadata.ino()))
        }
        _ => Some(Identity::Path(path)),
    }
}

/// The maximum number of dangling links to follow, so that a circle of links has an end.
const MAX_LINKS: u32 = 40;

/// Returns a path without links. The file, and folders of its path, need not exist.
fn resolve(path: &Path, links: u32) -> PathBuf {
    if let Ok(path) = fs::canonicalize(path) {
        return path;
    }
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return path.into(),
    };
    match (fs::read_link(path), path.file_name()) {
        (Ok(target), _) if links > 0 => resolve(&parent.join(target), links - 1),
        (_, Some(name)) => resolve(parent, links).join(name),
        // The path ends in `..`.
        (_, None) => resolve(parent, links).parent().unwrap_or(Path::new("/")).into(),
    }
}
