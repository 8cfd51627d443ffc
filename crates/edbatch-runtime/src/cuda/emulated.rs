//! A device that is the host: the same source, compiled by the C++ compiler of the machine.
//!
//! Blocks of a launch run one after the other in a shuffled order, the threads of each superstep
//! likewise, and memory holds NaN until it is written: what a device might compute by chance
//! differs from launch to launch, or is NaN. Teams are at waves of their own, as on a device.

use std::alloc::{self, Layout};
use std::env;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use libloading::Library;

use super::CudaError;
use super::cpp::{Folder, compile, failed};
use super::device::{Arguments, Device, Facts, Kernel, ROW_BYTES, Side, Source, TeamArguments};
use super::slots::Slots;

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
    slots: Slots<HostMemory>,
    /// How often a driver would have been called, but for waiting.
    calls: AtomicU64,
    /// Of these, launches.
    launches: AtomicU64,
    /// A block that never arrives where the others meet; [`NONE`] if all do.
    absent: AtomicU32,
    /// The most bytes that are given at once.
    most_bytes: AtomicUsize,
}

/// No block.
const NONE: u32 = u32::MAX;

/// What a launch of teams never waits for.
const PATIENCE: Duration = Duration::from_secs(1);

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
            processors: 12,
            shared_bytes: ROW_BYTES + (48 << 10),
        };
        let slots = Slots::new(facts.processors, PATIENCE);
        // Seeds side by side begin sequences of their own.
        let seed = AtomicU32::new(seed.wrapping_mul(0x9E37_79B9));
        let (calls, launches) = (AtomicU64::new(0), AtomicU64::new(0));
        let (absent, most_bytes) = (AtomicU32::new(NONE), AtomicUsize::new(usize::MAX));
        let options = options.to_vec();
        Self { facts, seed, options, slots, calls, launches, absent, most_bytes }
    }

    /// The same with so many processors, and so many bytes of shared memory for what a block keeps.
    pub(crate) fn with_size(self, processors: u32, kept_bytes: usize) -> Self {
        let shared_bytes = ROW_BYTES + kept_bytes;
        let facts = Facts { processors, shared_bytes, ..self.facts };
        Self { facts, slots: Slots::new(processors, PATIENCE), ..self }
    }

    /// How often a driver would have been called, but for waiting.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Of these, launches.
    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// From now on a block of each launch of teams never arrives where the others meet; or all do.
    #[cfg(test)]
    pub(crate) fn set_absent(&self, block: Option<u32>) {
        self.absent.store(block.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// From now on more bytes than these are not given at once.
    #[cfg(test)]
    pub(crate) fn set_most_bytes(&self, bytes: usize) {
        self.most_bytes.store(bytes, Ordering::Relaxed);
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// The seed of a launch.
    fn next_seed(&self) -> u32 {
        self.call();
        self.launches.fetch_add(1, Ordering::Relaxed);
        self.seed.fetch_add(1, Ordering::Relaxed)
    }
}

/// `wave_kernel` of `kernels/launch.h` on the host: all blocks of a launch, for a seed.
type Launch = unsafe extern "C" fn(*const Arguments, u32, u32);

/// `plan_kernel` of `kernels/team.h` on the host: so many teams, with so many bytes of shared
/// memory for each block, for a seed; and the block that never arrives.
type LaunchTeams = unsafe extern "C" fn(*const TeamArguments, u32, u32, u32, u32);

/// The kernel of a library.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Wave(Launch),
    Plan(LaunchTeams),
}

/// A loaded library.
#[derive(Debug)]
pub(crate) struct EmulatedProgram {
    entry: Entry,
    /// Holds what `entry` points into.
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
        let name = source.kernel.name().to_bytes_with_nul();
        let entry = match source.kernel {
            // SAFETY: `launch.h` defines it, as `Launch` has it.
            Kernel::Wave => unsafe { library.get(name) }.map(|found| Entry::Wave(*found)),
            // SAFETY: `team.h` defines it, as `LaunchTeams` has it.
            Kernel::Plan => unsafe { library.get(name) }.map(|found| Entry::Plan(*found)),
            Kernel::Probe => return Err(other_kernel()),
        };
        let entry = entry.map_err(failed("a function of the compiled kernels"))?;
        Ok(EmulatedProgram { entry, _library: library })
    }

    fn memory(&self, bytes: usize, side: Side) -> Result<HostMemory, CudaError> {
        self.call();
        let memory = (bytes <= self.most_bytes.load(Ordering::Relaxed))
            .then(|| HostMemory::new(bytes, side))
            .flatten();
        memory.ok_or(CudaError::Memory { what: "the host", bytes })
    }

    fn fill(&self, memory: &HostMemory, words: &[u32]) -> Result<(), CudaError> {
        if words.len() > memory.words {
            let (what, expected) = ("words to fill memory with", memory.words);
            return Err(CudaError::Refused { what, expected, got: words.len() });
        }
        self.call();
        // SAFETY: so many words were allocated there, and nothing refers to them: by the contract
        // of `Device`, no slice of `host` is in use while memory is filled.
        unsafe { memory.start.copy_from(NonNull::from(words).cast(), words.len()) };
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

    fn word(&self, memory: &HostMemory, index: usize) -> u32 {
        assert!(index < memory.words, "word {index} of {}", memory.words);
        // SAFETY: so many words were allocated, and aligned; launches on other threads write it
        // like this.
        unsafe { AtomicU32::from_ptr(memory.of_host().as_ptr().add(index)) }.load(Ordering::Acquire)
    }

    fn slots(&self) -> &Slots<HostMemory> {
        &self.slots
    }

    fn launch_teams(
        &self,
        program: &EmulatedProgram,
        _stream: usize,
        teams: usize,
        shared_bytes: usize,
        arguments: &TeamArguments,
    ) -> Result<(), CudaError> {
        let Facts { processors, shared_bytes: most, .. } = self.facts;
        let (blocks, processors) = (teams * arguments.blocks as usize, processors as usize);
        if blocks > processors {
            let what = "blocks that run at the same time";
            return Err(CudaError::Refused { what, expected: processors, got: blocks });
        }
        if shared_bytes > most {
            let what = "bytes of shared memory";
            return Err(CudaError::Refused { what, expected: most, got: shared_bytes });
        }
        let Entry::Plan(launch) = program.entry else { return Err(other_kernel()) };
        let (seed, absent) = (self.next_seed(), self.absent.load(Ordering::Relaxed));
        // SAFETY: the arguments lie as `team.h` has them, with so many parts, and by the contract
        // of `Device` the source reads and writes inside of the memory that they name.
        unsafe { launch(arguments, teams as u32, shared_bytes as u32, seed, absent) };
        Ok(())
    }

    fn is_idle(&self, _stream: usize) -> Result<bool, CudaError> {
        // A launch returns when it is done.
        Ok(true)
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
        let Entry::Wave(launch) = program.entry else { return Err(other_kernel()) };
        // SAFETY: the arguments lie as `block.h` has them, and by the contract of `Device` the
        // source reads and writes inside of the memory that they name.
        unsafe { launch(arguments, blocks, self.next_seed()) };
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
    let options = [&OPTIONS[..], options].concat();
    compile(folder, &source.text, &options, "kernels.so")
}

fn other_kernel() -> CudaError {
    CudaError::failed("a launch", "the program has another kernel")
}
