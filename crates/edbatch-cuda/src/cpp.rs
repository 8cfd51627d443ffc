//! The C++ compiler of the machine.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::CudaError;
use super::device::HEADERS;

/// The environment variable with the compiler's name and options.
const COMPILER: &str = "CXX";

/// Compiles a C++ text, which may include all kernel headers, in a folder. Returns the output's
/// path.
pub(super) fn compile(
    folder: &Path,
    text: &str,
    options: &[&str],
    to: &str,
) -> Result<PathBuf, CudaError> {
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).map_err(failed("a file for the compiler"))
    };
    HEADERS.iter().try_for_each(|(name, text)| write(name, text))?;
    write("kernels.cpp", text)?;
    let mut words = compiler().into_iter();
    let name = words.next().unwrap_or_default();
    let mut command = Command::new(&name);
    command.args(words).current_dir(folder);
    if cfg!(target_arch = "x86_64") {
        command.arg("-mfma");
    }
    command.args(options).args(["kernels.cpp", "-o", to]);
    let output = command.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => CudaError::NoCompiler {
            compiler: format!("C++ compiler `{}`", name.display()),
            advice: "install g++ or clang++, or name one in the variable CXX",
        },
        _ => failed("the C++ compiler")(error),
    })?;
    if !output.status.success() {
        return Err(CudaError::Compile { log: String::from_utf8_lossy(&output.stderr).into() });
    }
    Ok(folder.join(to))
}

/// Returns the compiler's name and options: the words of `CXX`, or `c++` if it is not set.
fn compiler() -> Vec<OsString> {
    let variable = env::var(COMPILER).unwrap_or_default();
    let words: Vec<OsString> = variable.split_whitespace().map(OsString::from).collect();
    if words.is_empty() { vec!["c++".into()] } else { words }
}

/// A new folder for temporary files, removed when dropped.
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("edbatch-{}-{number}", std::process::id()));
            // The name is taken by another process.
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|()| Self { path }),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover folder does no harm: the library is already loaded.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns a function that turns an error of the operation `what` into a [`CudaError`].
pub(super) fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> CudaError {
    move |error| CudaError::failed(what, error)
}
