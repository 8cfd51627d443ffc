//! NVRTC, NVIDIA's compiler as a library. It needs no device.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::fs;
use std::mem;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::CudaError;
use super::binary::Binary;
use super::compilation::{Compilation, OnCompile};
use super::device::{HEADERS, Source};

/// The environment variable with the folder of NVIDIA's libraries.
const FOLDER: &str = "EDBATCH_CUDA_LIBRARIES";

/// The library's file names, in order of preference.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// The oldest CUDA version that works, of the compiler and of the driver: the first in which a
/// kernel may have more than 4,096 bytes of arguments, like
/// [`TeamArguments`](super::device::TeamArguments).
pub(crate) const OLDEST: (u32, u32) = (12, 1);

/// A compiler version for each major version of drivers, and its Python package. Stored kernels
/// that these versions compiled are used whichever compiler is installed.
pub(crate) const PINNED: [((u32, u32), &str); 2] =
    [((13, 0), "nvidia-cuda-nvrtc==13.0.88"), ((12, 4), "nvidia-cuda-nvrtc-cu12==12.4.127")];

/// The first NVRTC version that compiles for Blackwell (sm_100 and later), and its Python package
/// for drivers of CUDA 12.
const BLACKWELL: ((u32, u32), &str) = ((12, 8), "nvidia-cuda-nvrtc-cu12==12.8.93");

/// Options, without the architecture. `--fmad=false`: only explicit multiply-adds are fused. `-v`
/// writes the resource usage of each function to the log. Generic lambdas need `-default-device`.
pub(crate) const OPTIONS: [&str; 4] =
    ["--std=c++17", "--fmad=false", "--ptxas-options=-v", "-default-device"];

/// The first NVRTC version that caches compiled code itself, where it finds the driver. It is not
/// documented that the log of cached code is complete, so that cache is not used.
const CACHES: (u32, u32) = (12, 9);

/// NVRTC, opened from a file. `Display` writes its version and the file.
#[derive(Debug)]
pub(crate) struct Compiler {
    /// The version of NVRTC, (major, minor).
    pub(crate) version: (u32, u32),
    file: PathBuf,
    functions: Functions,
    /// The libraries that `functions` point into and use.
    _libraries: (Library, Option<Library>),
}

/// Functions of `nvrtc.h`, without the prefix `nvrtc` of their names.
#[derive(Clone, Copy, Debug)]
struct Functions {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    get_error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    create_program: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy_program: unsafe extern "C" fn(*mut Handle) -> c_int,
    compile_program: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> c_int,
    get_log_size: Size,
    get_log: Get,
    get_code_size: Size,
    get_code: Get,
    get_ptx_size: Size,
    get_ptx: Get,
}

/// A source that NVRTC compiles: `nvrtcProgram` of `nvrtc.h`.
type Handle = *mut c_void;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

/// `NVRTC_ERROR_COMPILATION`: the source is wrong.
const ERROR_COMPILATION: c_int = 6;

/// Returns the compiler of this process.
///
/// # Errors
/// If it is not installed.
pub(crate) fn compiler() -> Result<&'static Compiler, CudaError> {
    static FOUND: OnceLock<Result<Compiler, CudaError>> = OnceLock::new();
    let find = || Compiler::find(&candidates(env::var_os(FOLDER).map(PathBuf::from).as_deref()));
    FOUND.get_or_init(find).as_ref().map_err(Clone::clone)
}

/// Returns the compiler versions whose stored kernels are used, in order of preference: the
/// installed one, then [`PINNED`]. Leaves out versions whose code the driver cannot load.
pub(crate) fn versions(
    present: Option<(u32, u32)>,
    driver: (u32, u32),
) -> impl Iterator<Item = (u32, u32)> {
    let all = present.into_iter().chain(PINNED.map(|(version, _)| version));
    all.filter(move |version| version.0 <= driver.0)
}

/// Returns true if an architecture is Blackwell or later, and the compiler older.
fn too_old(version: (u32, u32), architecture: &str) -> bool {
    let digits = architecture.trim_matches(|c: char| !c.is_ascii_digit());
    version < BLACKWELL.0 && digits.parse().is_ok_and(|number: u32| number >= 100)
}

/// Returns the files to try as NVRTC: those in `folder`, then names that the system looks up.
pub(crate) fn candidates(folder: Option<&Path>) -> Vec<PathBuf> {
    let inside = folder.into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    inside.chain(NAMES.map(PathBuf::from)).collect()
}

/// Loads the first library whose file name starts with `name`, from the folder that the environment
/// variable names. Opening it by name later then finds the loaded library.
pub(super) fn preload(name: &str) {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let files = files.filter(|file| file.file_name().to_string_lossy().starts_with(name));
    if let Some(path) = files.map(|file| file.path()).min() {
        // SAFETY: the user names the folder of NVIDIA's libraries, whose initialisers are safe to
        // run.
        if let Ok(library) = unsafe { Library::new(path) } {
            // It is found by name only while it is loaded.
            mem::forget(library);
        }
    }
}

impl Compiler {
    /// Opens the first of these files that is NVRTC, and not too old.
    ///
    /// # Errors
    /// If no candidate can be opened.
    pub(crate) fn find(candidates: &[PathBuf]) -> Result<Self, CudaError> {
        candidates.iter().find_map(|path| Self::open(path)).ok_or_else(|| {
            let looked: Vec<_> = candidates.iter().map(|path| path.to_string_lossy()).collect();
            CudaError::NoCompiler {
                compiler: format!("NVRTC 12.1 or later (looked for {})", looked.join(", ")),
                advice: "install the Python package nvidia-cuda-nvrtc==13.0.88, or for a driver of \
                         CUDA 12 nvidia-cuda-nvrtc-cu12==12.4.127, and name the library's folder \
                         in EDBATCH_CUDA_LIBRARIES",
            }
        })
    }

    fn open(path: &Path) -> Option<Self> {
        // SAFETY: the file is NVIDIA's compiler, whose initialisers are safe to run.
        let library = unsafe { Library::new(path) }.ok()?;
        let functions = Functions::of(&library).ok()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for writes.
        if unsafe { (functions.version)(&mut major, &mut minor) } != 0 {
            return None;
        }
        let version = (major.try_into().ok()?, minor.try_into().ok()?);
        if version < OLDEST {
            return None;
        }
        let file = match path.parent() {
            Some(folder) if folder == Path::new("") => mapped(functions.version as usize),
            _ => None,
        };
        let file = file.unwrap_or_else(|| path.to_path_buf());
        // NVRTC opens this library by name when it compiles, and then finds the loaded one.
        let builtins = file.with_file_name(format!("libnvrtc-builtins.so.{major}.{minor}"));
        // SAFETY: as above.
        let builtins = unsafe { Library::new(builtins) }.ok();
        Some(Self { version, file, functions, _libraries: (library, builtins) })
    }

    /// Fails if a driver cannot load this compiler's machine code, which needs a driver of the same
    /// major version or a later one. The error names a package that compiles for `architecture`.
    pub(crate) fn for_driver(
        &self,
        driver: (u32, u32),
        architecture: &str,
    ) -> Result<&Self, CudaError> {
        if self.version.0 <= driver.0 {
            return Ok(self);
        }
        let fits = PINNED.iter().find(|((major, _), _)| *major <= driver.0);
        let package = match fits {
            Some((version, _)) if too_old(*version, architecture) => BLACKWELL.1,
            fits => fits.map_or("", |(_, package)| package),
        };
        Err(CudaError::CompilerTooNew { compiler: self.to_string(), driver, package })
    }

    /// Compiles a source for an architecture, such as `sm_90`, and reports the compilation.
    ///
    /// # Errors
    /// If the compiler rejects the source or the architecture.
    pub(crate) fn compile(
        &self,
        source: &Source,
        architecture: &str,
        on_compile: OnCompile,
    ) -> Result<Binary, CudaError> {
        let compilation = Compilation {
            kernel: source.kernel.name().to_string_lossy().into(),
            architecture: architecture.to_string(),
            compiler: self.to_string(),
            took: None,
        };
        compilation.report(on_compile, || self.binary(source, architecture))
    }

    fn binary(&self, source: &Source, name: &str) -> Result<Binary, CudaError> {
        let program = Program::new(self, source)?;
        let architecture = format!("--gpu-architecture={name}");
        let no_cache = (self.version >= CACHES).then_some("--no-cache");
        let options = OPTIONS.into_iter().chain(no_cache).chain([architecture.as_str()]);
        let options = options.map(text).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program exists; there are this many options, terminated by a zero.
        let code = unsafe {
            (self.functions.compile_program)(
                program.handle,
                pointers.len() as c_int,
                pointers.as_ptr(),
            )
        };
        let log = program.bytes(self.functions.get_log_size, self.functions.get_log);
        let log = log.unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
        if code == ERROR_COMPILATION {
            return Err(CudaError::Compile { log: format!("{self}: {log}") });
        }
        let checked = self.check(code);
        checked.map_err(|why| {
            let advice = match too_old(self.version, name) {
                true => format!(
                    "; {name} needs NVRTC 12.8 or later: install the Python package {}, or \
                     nvidia-cuda-nvrtc==13.0.88 for a driver of CUDA 13",
                    BLACKWELL.1
                ),
                false => String::new(),
            };
            failed(format_args!("{why}, {architecture}: {}{advice}", log.trim_end()))
        })?;
        let code = program.bytes(self.functions.get_code_size, self.functions.get_code)?;
        let ptx = program.bytes(self.functions.get_ptx_size, self.functions.get_ptx);
        let ptx = String::from_utf8_lossy(&ptx.unwrap_or_default()).into_owned();
        Ok(Binary { code, log, ptx })
    }

    /// Fails with NVRTC's description of an error code, unless the code means success.
    fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function accepts any code and returns a text that is never freed.
        let error = unsafe { CStr::from_ptr((self.functions.get_error_string)(code)) };
        Err(format!("{self}: {}", error.to_string_lossy()))
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}.{} ({})", self.version.0, self.version.1, self.file.display())
    }
}

impl Functions {
    fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: the functions have these types in `nvrtc.h` of all versions.
        unsafe {
            Ok(Self {
                version: *library.get(b"nvrtcVersion\0")?,
                get_error_string: *library.get(b"nvrtcGetErrorString\0")?,
                create_program: *library.get(b"nvrtcCreateProgram\0")?,
                destroy_program: *library.get(b"nvrtcDestroyProgram\0")?,
                compile_program: *library.get(b"nvrtcCompileProgram\0")?,
                get_log_size: *library.get(b"nvrtcGetProgramLogSize\0")?,
                get_log: *library.get(b"nvrtcGetProgramLog\0")?,
                get_code_size: *library.get(b"nvrtcGetCUBINSize\0")?,
                get_code: *library.get(b"nvrtcGetCUBIN\0")?,
                get_ptx_size: *library.get(b"nvrtcGetPTXSize\0")?,
                get_ptx: *library.get(b"nvrtcGetPTX\0")?,
            })
        }
    }
}

/// Returns the file from which the code at an address was loaded, on Linux.
fn mapped(address: usize) -> Option<PathBuf> {
    let number = |text| usize::from_str_radix(text, 16).ok();
    fs::read_to_string("/proc/self/maps").ok()?.lines().find_map(|line| {
        let (start, rest) = line.split_once('-')?;
        let (end, rest) = rest.split_once(' ')?;
        let is_inside = (number(start)?..number(end)?).contains(&address);
        is_inside.then_some(PathBuf::from(&rest[rest.find('/')?..]))
    })
}

/// A source that the compiler compiles, and its log and code.
struct Program<'a> {
    compiler: &'a Compiler,
    handle: Handle,
    /// Texts that the handle refers to.
    _texts: Vec<CString>,
}

impl<'a> Program<'a> {
    fn new(compiler: &'a Compiler, source: &Source) -> Result<Self, CudaError> {
        let names = HEADERS.iter().map(|(name, _)| text(name));
        let headers = HEADERS.iter().map(|(_, header)| text(header));
        let texts = names.chain(headers).chain([text(&source.text), text("kernels.cu")]);
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let (names, rest) = pointers.split_at(HEADERS.len());
        let (headers, own) = rest.split_at(HEADERS.len());
        let count = HEADERS.len() as c_int;
        let (mut handle, create) = (ptr::null_mut(), compiler.functions.create_program);
        // SAFETY: all strings are terminated by a zero and outlive the program; there are `count`
        // names and headers.
        let created =
            unsafe { create(&mut handle, own[0], own[1], count, headers.as_ptr(), names.as_ptr()) };
        compiler.check(created).map_err(failed)?;
        Ok(Self { compiler, handle, _texts: texts })
    }

    /// Returns the program's log or code, given the functions that return its size and its bytes.
    fn bytes(&self, size: Size, get: Get) -> Result<Vec<u8>, CudaError> {
        let mut count = 0;
        // SAFETY: the program exists and was compiled.
        self.compiler.check(unsafe { size(self.handle, &mut count) }).map_err(failed)?;
        let mut bytes = vec![0u8; count];
        // SAFETY: as above; the vector has the right size.
        let got = unsafe { get(self.handle, bytes.as_mut_ptr().cast()) };
        self.compiler.check(got).map_err(failed)?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: the program exists, and nothing uses it. A destructor cannot report an error.
        let _ = unsafe { (self.compiler.functions.destroy_program)(&mut self.handle) };
    }
}

fn text(text: &str) -> Result<CString, CudaError> {
    CString::new(text).map_err(|error| CudaError::Compile { log: error.to_string() })
}

fn failed(error: impl fmt::Display) -> CudaError {
    CudaError::failed("the compiler", error)
}
