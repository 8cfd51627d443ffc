//! NVRTC, NVIDIA's compiler as a library. It needs no device.

use std::env;
use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use super::CudaError;
use super::device::{HEADERS, Source};

/// The environment variable with the folder of NVIDIA's libraries, if the system does not find
/// them.
const FOLDER: &str = "EDBATCH_CUDA_LIBRARIES";

/// Machines without a compiler use kernels that this version has compiled elsewhere.
pub(crate) const PINNED: (u32, u32) = (13, 0);

/// Options, without the architecture. `--fmad=false`: only explicit multiply-adds are fused. `-v`
/// writes the resource usage of the kernel to the log.
pub(crate) const OPTIONS: [&str; 3] = ["--std=c++17", "--fmad=false", "--ptxas-options=-v"];

/// Machine code for one architecture.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    /// The cubin.
    pub(crate) code: Vec<u8>,
    /// The output of the compiler.
    pub(crate) log: String,
}

/// The resource usage of a kernel, from the compiler's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Usage {
    /// Registers per thread.
    pub(crate) registers: usize,
    /// Bytes of registers per thread that are spilled to memory.
    pub(crate) spilled: usize,
    /// Bytes of the stack frame of a thread.
    pub(crate) stack: usize,
}

impl Binary {
    /// Returns the resource usage of its kernel, or `None` if the log does not contain it.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let before = |what: &str| {
            let words = self.log.split(what).next().filter(|text| text.len() < self.log.len())?;
            words.split_whitespace().next_back()?.parse().ok()
        };
        let [stores, loads] = [" bytes spill stores", " bytes spill loads"].map(before);
        Some(Usage {
            registers: before(" registers")?,
            spilled: stores?.max(loads?),
            stack: before(" bytes stack frame")?,
        })
    }
}

/// Returns the compiler's version, (major, minor).
///
/// # Errors
/// If the compiler is not installed.
pub(crate) fn version() -> Result<(u32, u32), CudaError> {
    static VERSION: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    VERSION.get_or_init(find).ok_or_else(|| CudaError::NoCompiler {
        compiler: "NVRTC (libnvrtc.so.13)".to_string(),
        advice: "install the CUDA toolkit 13.0 or the package nvidia-cuda-nvrtc==13.0.88, and name \
                 the libraries' folder in EDBATCH_CUDA_LIBRARIES",
    })
}

/// Loads the library and returns its version, or `None` if it is not installed.
fn find() -> Option<(u32, u32)> {
    preload(&["libnvrtc-builtins.so", "libnvrtc.so"]);
    // SAFETY: the library is NVIDIA's compiler, whose initialisers are safe to run.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are valid for writes.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().ok()?;
    Some((major.try_into().ok()?, minor.try_into().ok()?))
}

/// Loads the libraries with these prefixes, in order, from the folder of the environment variable.
/// Opening them by name then finds the loaded ones.
pub(super) fn preload(names: &[&str]) {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else { return };
    let path = |name: &&str| first_file(&folder, name);
    for path in names.iter().filter_map(path) {
        // SAFETY: the user names the folder of NVIDIA's libraries, whose initialisers are safe to
        // run.
        if let Ok(library) = unsafe { libloading::Library::new(path) } {
            // It is found by name only while it is loaded.
            mem::forget(library);
        }
    }
}

/// Returns the first file of a folder with a prefix.
fn first_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name)))
        .min()
}

/// Compiles a source for an architecture, such as `sm_90a`.
///
/// # Errors
/// If the compiler is not installed, or rejects the source or the architecture.
pub(crate) fn compile(source: &Source, architecture: &str) -> Result<Binary, CudaError> {
    version()?;
    let program = Program::new(source)?;
    let options = OPTIONS.map(str::to_string).into_iter();
    let options: Vec<_> = options.chain([format!("--gpu-architecture={architecture}")]).collect();
    // SAFETY: the program exists.
    let compiled = unsafe { result::compile_program(program.handle, &options) };
    let log = program.log().map_err(failed)?;
    match compiled {
        Ok(()) => Ok(Binary { code: program.code().map_err(failed)?, log }),
        Err(NvrtcError(sys::nvrtcResult::NVRTC_ERROR_COMPILATION)) => {
            Err(CudaError::Compile { log })
        }
        Err(error) => {
            let why = format!("{error} for {architecture}: {}", log.trim_end());
            Err(CudaError::failed("NVRTC", why))
        }
    }
}

/// An NVRTC program.
struct Program {
    handle: sys::nvrtcProgram,
    /// Texts that the handle refers to.
    _texts: Vec<CString>,
}

impl Program {
    fn new(source: &Source) -> Result<Self, CudaError> {
        let text = |text: &str| {
            CString::new(text).map_err(|error| CudaError::Compile { log: error.to_string() })
        };
        let names = HEADERS.iter().map(|(name, _)| text(name));
        let headers = HEADERS.iter().map(|(_, header)| text(header));
        let texts = names.chain(headers).chain([text(&source.text), text("kernels.cu")]);
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let (names, rest) = pointers.split_at(HEADERS.len());
        let (headers, own) = rest.split_at(HEADERS.len());
        let count = HEADERS.len() as c_int;
        let mut handle = ptr::null_mut();
        // SAFETY: all strings are terminated by a zero and outlive the program; there are `count`
        // names and headers.
        let created = unsafe {
            sys::nvrtcCreateProgram(
                &mut handle,
                own[0],
                own[1],
                count,
                headers.as_ptr(),
                names.as_ptr(),
            )
        };
        created.result().map_err(failed)?;
        Ok(Self { handle, _texts: texts })
    }

    fn log(&self) -> Result<String, NvrtcError> {
        // SAFETY: the program exists.
        let log = unsafe { result::get_program_log(self.handle) }?;
        let bytes: Vec<u8> = log.into_iter().map(|c| c as u8).take_while(|&c| c != 0).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn code(&self) -> Result<Vec<u8>, NvrtcError> {
        let mut bytes = 0;
        // SAFETY: the program exists and was compiled for a real architecture.
        unsafe { sys::nvrtcGetCUBINSize(self.handle, &mut bytes) }.result()?;
        let mut code = vec![0u8; bytes];
        // SAFETY: as above; the vector has the size of the code.
        unsafe { sys::nvrtcGetCUBIN(self.handle, code.as_mut_ptr().cast()) }.result()?;
        Ok(code)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program exists, and nothing uses it. A destructor cannot report an error.
        let _ = unsafe { result::destroy_program(self.handle) };
    }
}

fn failed(error: NvrtcError) -> CudaError {
    CudaError::failed("NVRTC", error)
}
