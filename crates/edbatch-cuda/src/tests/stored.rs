//! The cache of compiled kernels on disk.

use std::fs;
use std::path::PathBuf;

use crate::device::{Kernel, Source};
use crate::nvrtc::versions;
use crate::store::{Key, Store};

/// A folder for one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("edbatch-{test}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    /// The only file.
    fn file(&self) -> PathBuf {
        let mut files = fs::read_dir(&self.0).unwrap();
        let file = files.next().expect("a file").unwrap().path();
        assert!(files.next().is_none());
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn key(text: &str) -> Key {
    Key::new(
        &Source { text: text.to_string(), kernel: Kernel::Plan },
        &["--fast", "--loud"],
        (13, 0),
        "sm_90",
    )
}

#[test]
fn a_key_depends_on_source_options_version_and_architecture() {
    let source = |text: &str| Source { text: text.to_string(), kernel: Kernel::Plan };
    let keys = [
        key("a"),
        key("b"),
        Key::new(&source("a"), &["--fast"], (13, 0), "sm_90"),
        Key::new(&source("a"), &["--fast--loud"], (13, 0), "sm_90"),
        Key::new(&source("a"), &["--loud", "--fast"], (13, 0), "sm_90"),
        Key::new(&source("a"), &["--fast", "--loud"], (13, 1), "sm_90"),
        Key::new(&source("a"), &["--fast", "--loud"], (13, 0), "sm_80"),
    ];
    for (i, key) in keys.iter().enumerate() {
        assert!(!keys[..i].contains(key), "{i}");
    }
    assert_eq!(key("a"), keys[0]);
}

#[test]
fn stored_code_is_found() {
    let folder = Folder::new("found");
    // The folder is created when it is needed.
    let store = Store::at(folder.0.join("a/b"));
    assert_eq!(store.get(&key("a")), None);
    store.put(&key("a"), b"code").unwrap();
    store.put(&key("b"), b"").unwrap();
    store.put(&key("a"), b"better code").unwrap();
    assert_eq!(store.get(&key("a")).as_deref(), Some(&b"better code"[..]));
    assert_eq!(store.get(&key("b")).as_deref(), Some(&b""[..]));
    assert_eq!(fs::read_dir(folder.0.join("a/b")).unwrap().count(), 2);
}

#[test]
fn damaged_files_are_ignored() {
    let folder = Folder::new("changed");
    let store = Store::at(&folder.0);
    store.put(&key("a"), b"some code").unwrap();
    let file = folder.file();
    assert_eq!(file.extension().unwrap(), "cubin");
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        let mut other = whole.clone();
        other[at] ^= 1;
        fs::write(&file, other).unwrap();
        assert_eq!(store.get(&key("a")), None, "byte {at}");
        fs::write(&file, &whole[..at]).unwrap();
        assert_eq!(store.get(&key("a")), None, "{at} bytes");
    }
    // A valid file of another key, with this key's name.
    store.put(&key("b"), b"other code").unwrap();
    let others = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    fs::copy(others.into_iter().find(|path| *path != file).unwrap(), &file).unwrap();
    assert_eq!(store.get(&key("a")), None);
    store.put(&key("a"), b"some code").unwrap();
    assert_eq!(store.get(&key("a")).as_deref(), Some(&b"some code"[..]));
}

#[test]
fn folders_and_huge_files_are_ignored() {
    let folder = Folder::new("no-file");
    let store = Store::at(&folder.0);
    store.put(&key("a"), b"some code").unwrap();
    let file = folder.file();
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(store.get(&key("a")), None);
    store.put(&key("a"), b"some code").unwrap_err();
    // No temporary file is left.
    assert_eq!(folder.file(), file);
    // A sparse file that is larger than any program.
    fs::remove_dir(&file).unwrap();
    fs::File::create(&file).unwrap().set_len((64 << 20) + 1).unwrap();
    assert_eq!(store.get(&key("a")), None);
    let nowhere = Store::at(file.join("folder"));
    nowhere.put(&key("a"), b"some code").unwrap_err();
    assert_eq!(nowhere.get(&key("a")), None);
}

/// Kernels that load are found whichever compiler is present. A driver loads none of a later major
/// version.
#[test]
fn stored_kernels_of_pinned_versions_are_found() {
    let folder = Folder::new("pinned");
    let source = Source { text: String::new(), kernel: Kernel::Plan };
    let key = |version| Key::new(&source, &[], version, "sm_90");
    let (empty, store) = (Store::at(folder.0.join("empty")), Store::at(&folder.0));
    for (version, code) in [((13, 1), "13.1"), ((13, 0), "13.0"), ((12, 4), "12.4")] {
        store.put(&key(version), code.as_bytes()).unwrap();
    }
    for (present, driver, damaged, expected) in [
        (None, (13, 0), "", Ok("13.0")),
        (None, (12, 1), "", Ok("12.4")),
        (Some((13, 1)), (13, 2), "", Ok("13.1")),
        (Some((13, 1)), (13, 2), "13.1", Ok("13.0")),
        (Some((12, 9)), (13, 0), "", Ok("13.0")),
        (Some((12, 9)), (13, 0), "13.0", Ok("12.4")),
        (Some((13, 1)), (12, 4), "", Ok("12.4")),
        (Some((13, 1)), (12, 4), "12.4", Err(Some("refused"))),
    ] {
        let keys = || versions(present, driver).map(key);
        let load = |code: &[u8]| {
            let code = String::from_utf8(code.to_vec()).unwrap();
            if code == damaged { Err("refused") } else { Ok(code) }
        };
        let expected = expected.map(str::to_string);
        assert_eq!(store.first_usable(keys(), load), expected, "{present:?}, {driver:?}");
        assert_eq!(empty.first_usable(keys(), load), Err(None));
    }
}
