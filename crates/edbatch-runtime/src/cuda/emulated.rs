//! A device that is the host: the same source, compiled by the C++ compiler of the machine.
//!
//! Blocks of a launch run one after the other in a shuffled order, the threads of each stage
//! likewise, and memory holds NaN until it is written: what a device might compute by chance
//! differs from launch to launch, or is NaN.

use std::alloc::{self, Layout};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::Library;

use super::CudaError;
use super::device::{Arguments, Device, Facts, HEADERS, Side, Source};

/// The variable with the compiler's name, and options for it if there are any.
const COMPILER: &str = "CXX";

/// Nothing is contracted but what is written so: a chain has the same bits as on a device.
const OPTIONS: [&str; 6] =
    ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-fast-math", "-fPIC", "-shared"];

/// The host as a device.
#[derive(Debug)]
pub(crate) struct Emulated {
    facts: Facts,
    /// Of the first launch; each one after it has the next.
    seed: AtomicU32,
    /// Further options of the compiler.
    options: Vec<&'static str>,
}

impl Emulated {
    /// A device whose orders of threads and blocks depend on `seed`.
    pub(crate) fn new(seed: u32) -> Self {
        Self::with_options(seed, &[])
    }

    /// The same, with further options of the compiler: sanitizers, or none of the promises kept.
    pub(crate) fn with_options(seed: u32, options: &[&'static str]) -> Self {
        let facts = Facts {
            name: "emulated on the host".to_string(),
            architecture: env::consts::ARCH.to_string(),
            processors: 4,
            shared_bytes: 48 << 10,
        };
        // Seeds side by side begin sequences of their own.
        let seed = AtomicU32::new(seed.wrapping_mul(0x9E37_79B9));
        Self { facts, seed, options: options.to_vec() }
    }
}

/// `wave_kernel` of `kernels/launch.h` on the host: all blocks of a launch, for a seed.
type Launch = unsafe extern "C" fn(*const Arguments, u32, u32);

/// A loaded library.
#[derive(Debug)]
pub(crate) struct EmulatedProgram {
    launch: Launch,
    /// Holds what `launch` points into.
    _library: Library,
}

impl Device for Emulated {
    type Memory = HostMemory;
    type Program = EmulatedProgram;

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn compile(&self, source: &Source) -> Result<EmulatedProgram, CudaError> {
        let folder = Folder::new().map_err(failed("a folder for the compiler"))?;
        let path = build(&folder.path, source, &self.options)?;
        // SAFETY: the library was built just now from our headers; it has no initialisers but the
        // compiler's own.
        let library = unsafe { Library::new(&path) };
        let library = library.map_err(failed("the compiled kernels"))?;
        // SAFETY: `launch.h` defines it, as `Launch` has it.
        let launch = unsafe { library.get::<Launch>(b"wave_kernel\0") };
        let launch = *launch.map_err(failed("`wave_kernel` of the compiled kernels"))?;
        Ok(EmulatedProgram { launch, _library: library })
    }

    fn memory(&self, bytes: usize, side: Side) -> Result<HostMemory, CudaError> {
        HostMemory::new(bytes, side).ok_or(CudaError::Memory { what: "the host", bytes })
    }

    fn fill(&self, memory: &HostMemory, bytes: &[u8]) -> Result<(), CudaError> {
        let expected = memory.words * size_of::<u32>();
        if bytes.len() > expected {
            let what = "bytes to fill memory with";
            return Err(CudaError::Refused { what, expected, got: bytes.len() });
        }
        // SAFETY: so many bytes were allocated there, and nothing refers to them: by the contract
        // of `Device`, no slice of `host` is in use while memory is filled.
        unsafe { memory.start.cast::<u8>().copy_from(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(())
    }

    fn host<'a>(&self, memory: &'a HostMemory) -> &'a [u32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: so many words were allocated and written; by the contract of `Device` no launch
        // writes them while the slice is in use.
        unsafe { slice::from_raw_parts(start, memory.words) }
    }

    fn host_mut<'a>(&self, memory: &'a mut HostMemory) -> &'a mut [u32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: likewise, and `memory` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(start, memory.words) }
    }

    fn host_floats<'a>(&self, memory: &'a HostMemory) -> &'a [f32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: as for `host`; all bits are a float, as large and aligned as a word.
        unsafe { slice::from_raw_parts(start.cast(), memory.words) }
    }

    fn host_floats_mut<'a>(&self, memory: &'a mut HostMemory) -> &'a mut [f32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: as for `host_mut`; likewise.
        unsafe { slice::from_raw_parts_mut(start.cast(), memory.words) }
    }

    fn address(&self, memory: &HostMemory) -> u64 {
        memory.start.as_ptr().expose_provenance() as u64
    }

    fn launch(
        &self,
        program: &EmulatedProgram,
        blocks: u32,
        arguments: &Arguments,
    ) -> Result<(), CudaError> {
        if blocks == 0 {
            return Err(CudaError::failed("a launch", "it needs a block at least"));
        }
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the arguments lie as `block.h` has them, and by the contract of `Device` the
        // source reads and writes inside of the memory that they name.
        unsafe { (program.launch)(arguments, blocks, seed) };
        Ok(())
    }

    fn wait(&self) -> Result<(), CudaError> {
        // A launch returns when it is done.
        Ok(())
    }
}

/// Words of the host's memory, all NaN until they are written, at a multiple of a cache line.
#[derive(Debug)]
pub(crate) struct HostMemory {
    start: NonNull<u32>,
    words: usize,
    side: Side,
}

// SAFETY: it is memory of its own, like a `Box`; who may read and write it when is the contract of
// `Device`.
unsafe impl Send for HostMemory {}
// SAFETY: likewise.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// `None` if the system does not give so much.
    fn new(bytes: usize, side: Side) -> Option<Self> {
        let words = bytes.div_ceil(size_of::<u32>());
        let layout = Self::layout(words)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc::alloc(layout) })?.cast::<u32>();
        for word in 0..words {
            // SAFETY: so many words were allocated.
            unsafe { start.add(word).write(f32::NAN.to_bits()) };
        }
        Some(Self { start, words, side })
    }

    /// Never empty.
    fn layout(words: usize) -> Option<Layout> {
        const CACHE_LINE: usize = 64;
        Layout::array::<u32>(words.max(1)).ok()?.align_to(CACHE_LINE).ok()
    }

    fn of_host(&self) -> NonNull<u32> {
        assert_eq!(self.side, Side::Host, "the host reads and writes its own memory");
        self.start
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let layout = Self::layout(self.words).expect("it was allocated with it");
        // SAFETY: it was allocated with this layout, and nothing refers to it any more.
        unsafe { alloc::dealloc(self.start.as_ptr().cast(), layout) };
    }
}

/// Builds a shared library from a source in a folder.
fn build(folder: &Path, source: &Source, options: &[&str]) -> Result<PathBuf, CudaError> {
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).map_err(failed("a file for the compiler"))
    };
    HEADERS.iter().try_for_each(|(name, text)| write(name, text))?;
    write("kernels.cpp", &source.text)?;
    let mut words = compiler().into_iter();
    let name = words.next().unwrap_or_default();
    let mut command = Command::new(&name);
    command.args(words).args(OPTIONS).current_dir(folder);
    if cfg!(target_arch = "x86_64") {
        command.arg("-mfma");
    }
    command.args(options).args(["kernels.cpp", "-o", "kernels.so"]);
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
    Ok(folder.join("kernels.so"))
}

/// The words of the variable, or what every system calls its compiler.
fn compiler() -> Vec<OsString> {
    let variable = env::var(COMPILER).unwrap_or_default();
    let words: Vec<OsString> = variable.split_whitespace().map(OsString::from).collect();
    if words.is_empty() { vec!["c++".into()] } else { words }
}

/// A folder of our own for temporary files, removed when dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("edbatch-{}-{number}", std::process::id()));
            // What exists already, for whatever reason, is not ours.
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return created.map(|()| Self { path }),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system: the library is loaded all the same.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn failed<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> CudaError {
    move |error| CudaError::failed(what, error)
}
