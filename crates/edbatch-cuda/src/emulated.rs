//! An emulated device: runs the kernels on the host, compiled by the machine's C++ compiler.
//!
//! The blocks of a launch run in a shuffled order, as do the threads of a block between two of its
//! barriers. Memory holds NaN until it is written. So a result that depends on the order, or on
//! memory that was never written, differs from launch to launch or is NaN. Teams are at different
//! waves at the same time, as on a GPU.

mod launch;
mod memory;

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libloading::Library;

use super::CudaError;
use super::compilation::OnCompile;
use super::cpp::{Folder, compile, failed};
use super::device::{
    AHEAD_BYTES, Device, Follows, Kernel, MemorySide, Properties, ROW_BYTES, Source, TeamArguments,
};
use super::team_pool::TeamPool;

pub(crate) use launch::EmulatedProgram;
use launch::{Call, Launch, Pending};
pub(crate) use memory::HostMemory;

/// Options of the compiler. Only explicit multiply-adds are fused, as on a GPU.
const OPTIONS: [&str; 6] =
    ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-fast-math", "-fPIC", "-shared"];

/// The emulated device.
#[derive(Debug)]
pub(crate) struct Emulated {
    properties: Properties,
    /// The seed for the order of blocks and threads in the next launch.
    seed: AtomicU32,
    /// Additional options of the compiler.
    options: Vec<&'static str>,
    team_pool: TeamPool<HostMemory>,
    /// The number of driver calls, except polls for the end of a launch.
    calls: AtomicU64,
    /// The number of launches.
    launches: AtomicU64,
    /// The index of a block that never ends, or [`NONE`], and the number of the launch in which
    /// that happens; or `u64::MAX` if it happens in every launch.
    absent: AtomicU32,
    absent_in: AtomicU64,
    /// The maximum size of an allocation, in bytes, and the number of further ones that succeed.
    max_bytes: AtomicUsize,
    allocations: AtomicUsize,
    /// The launches that have not run yet, if they run late.
    late: Mutex<Option<VecDeque<Pending<'static>>>>,
}

/// The value of `absent` if every block ends.
const NONE: u32 = u32::MAX;

/// The timeout named in errors of barriers. An emulated launch never waits.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Emulated {
    /// A device. The orders of threads and blocks depend on `seed`.
    pub(crate) fn new(seed: u32) -> Self {
        Self::with_options(seed, &[])
    }

    /// A device with additional compiler options, such as sanitizers.
    pub(crate) fn with_options(seed: u32, options: &[&'static str]) -> Self {
        let properties = Properties {
            name: "emulated on the host".to_string(),
            architecture: env::consts::ARCH.to_string(),
            sms: 12,
            shared_bytes: 80 << 10,
        };
        let team_pool = TeamPool::new(properties.sms, TIMEOUT);
        // Consecutive seeds start different sequences.
        let seed = AtomicU32::new(seed.wrapping_mul(0x9E37_79B9));
        let (calls, launches) = (AtomicU64::new(0), AtomicU64::new(0));
        let (absent, max_bytes) = (AtomicU32::new(NONE), AtomicUsize::new(usize::MAX));
        let allocations = AtomicUsize::new(usize::MAX);
        let (absent_in, options) = (AtomicU64::new(u64::MAX), options.to_vec());
        Self {
            properties,
            seed,
            options,
            team_pool,
            calls,
            launches,
            absent,
            absent_in,
            max_bytes,
            allocations,
            late: Mutex::new(None),
        }
    }

    /// Sets the number of SMs, and the bytes of shared memory of a block besides what all kernels
    /// need.
    pub(crate) fn with_size(self, sms: u32, resident_bytes: usize) -> Self {
        let shared_bytes = AHEAD_BYTES + ROW_BYTES + resident_bytes;
        let properties = Properties { sms, shared_bytes, ..self.properties };
        Self { properties, team_pool: TeamPool::new(sms, TIMEOUT), ..self }
    }

    /// Returns the number of driver calls, except polls for the end of a launch.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of launches.
    pub(crate) fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Sets a block that never arrives at its barrier, or never ends, in the following launches.
    #[cfg(test)]
    pub(crate) fn set_absent(&self, block: Option<u32>) {
        self.absent_in.store(u64::MAX, Ordering::Relaxed);
        self.absent.store(block.unwrap_or(NONE), Ordering::Relaxed);
    }

    /// Sets a block that never ends in one of the following launches, counted from 0.
    #[cfg(test)]
    pub(crate) fn set_absent_in(&self, launch: u64, block: u32) {
        self.absent_in.store(self.launches() + launch, Ordering::Relaxed);
        self.absent.store(block, Ordering::Relaxed);
    }

    /// Sets the maximum size of an allocation, in bytes.
    #[cfg(test)]
    pub(crate) fn set_max_bytes(&self, bytes: usize) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets the number of further allocations that succeed.
    #[cfg(test)]
    pub(crate) fn set_max_allocations(&self, count: Option<usize>) {
        self.allocations.store(count.unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    /// Sets whether launches run late: only when the host waits for them, one each time it looks.
    #[cfg(test)]
    pub(crate) fn set_late(&self, is_late: bool) {
        *self.late() = is_late.then(VecDeque::new);
    }

    /// Returns the number of late launches that have not run yet.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> usize {
        self.late().as_ref().map_or(0, VecDeque::len)
    }

    fn late(&self) -> MutexGuard<'_, Option<VecDeque<Pending<'static>>>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches a kernel, now or late.
    fn launch(
        &self,
        program: &Arc<EmulatedProgram>,
        call: Call<'_>,
        shared_bytes: usize,
    ) -> Result<(), CudaError> {
        let ((seed, absent), program) = (self.next_launch(), program.clone());
        let shared_bytes = shared_bytes as u32;
        self.enqueue(Pending::Launch { program, call, shared_bytes, seed, absent })
    }

    /// Runs a launch or a copy, now or late.
    fn enqueue(&self, work: Pending<'_>) -> Result<(), CudaError> {
        if let Some(late) = &mut *self.late() {
            late.push_back(work.into_owned());
            return Ok(());
        }
        work.run()
    }

    /// Runs the first of the late launches. Returns false if there is none.
    fn run_late(&self) -> Result<bool, CudaError> {
        let first = self.late().as_mut().and_then(VecDeque::pop_front);
        first.map_or(Ok(false), |launch| launch.run().map(|()| true))
    }

    fn call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a launch and returns its seed and its absent block.
    fn next_launch(&self) -> (u32, u32) {
        self.call();
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        let absent_in = self.absent_in.load(Ordering::Relaxed);
        let is_complete = absent_in != u64::MAX && absent_in != number;
        let absent = if is_complete { NONE } else { self.absent.load(Ordering::Relaxed) };
        (self.seed.fetch_add(1, Ordering::Relaxed), absent)
    }
}

/// The text of a source, and the options of the compiler.
type Key = (String, Vec<&'static str>);

impl Device for Emulated {
    type Memory = HostMemory;
    type Program = Arc<EmulatedProgram>;

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn compile(&self, source: &Source, _: OnCompile) -> Result<Arc<EmulatedProgram>, CudaError> {
        // Kernels that this process has compiled. They have no state, so all devices share them.
        static KNOWN: Mutex<BTreeMap<Key, Arc<EmulatedProgram>>> = Mutex::new(BTreeMap::new());
        const MAX_KNOWN: usize = 64;
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (source.text.clone(), self.options.clone());
        if let Some(known) = known().get(&key) {
            return Ok(known.clone());
        }
        let folder = Folder::new().map_err(failed("a folder for the compiler"))?;
        let path = build(&folder.path, source, &self.options)?;
        // SAFETY: the library was just built from our headers; its only initialisers are the
        // compiler's.
        let library = unsafe { Library::new(&path) };
        let library = library.map_err(failed("the compiled kernels"))?;
        let name = source.kernel.name().to_bytes_with_nul();
        // SAFETY: `team.h` and `grid.h` define the functions with these types.
        let launch = unsafe {
            match source.kernel {
                Kernel::Grid => library.get(name).map(|found| Launch::Grid(*found)),
                _ => library.get(name).map(|found| Launch::Teams(*found)),
            }
        };
        let launch = launch.map_err(failed("a function of the compiled kernels"))?;
        let program = Arc::new(EmulatedProgram { launch, _library: library });
        let mut known = known();
        if known.len() == MAX_KNOWN {
            known.clear();
        }
        known.insert(key, program.clone());
        Ok(program)
    }

    fn memory(&self, bytes: usize, side: MemorySide) -> Result<HostMemory, CudaError> {
        self.call();
        let left = self.allocations.load(Ordering::Relaxed);
        self.allocations
            .store(left.saturating_sub(usize::from(left < usize::MAX)), Ordering::Relaxed);
        let memory = (bytes <= self.max_bytes.load(Ordering::Relaxed) && left > 0)
            .then(|| HostMemory::new(bytes, side))
            .flatten();
        memory.ok_or(CudaError::Memory { what: "the host", bytes })
    }

    fn fill(&self, memory: &HostMemory, words: &[u32]) -> Result<(), CudaError> {
        CudaError::check_range("words to fill memory with", memory.words, words.len())?;
        self.call();
        // SAFETY: the allocation has at least this many words, and nothing refers to them: by the
        // contract of `Device`, no slice of `host` is in use while memory is filled.
        unsafe { memory.start.copy_from(NonNull::from(words).cast(), words.len()) };
        Ok(())
    }

    fn clear(&self, memory: &HostMemory) -> Result<(), CudaError> {
        self.call();
        // SAFETY: the allocation has this many words, and by the contract of `Device` no launch
        // accesses them.
        unsafe { memory.start.write_bytes(0xff, memory.words) };
        Ok(())
    }

    fn copy(&self, from: &HostMemory, to: &HostMemory, words: usize) -> Result<(), CudaError> {
        CudaError::check_range("words to copy", from.words.min(to.words), words)?;
        self.call();
        // SAFETY: both allocations have at least this many words, and by the contract of `Device`
        // no launch accesses them.
        unsafe { to.start.copy_from(from.start, words) };
        Ok(())
    }

    fn read(&self, memory: &HostMemory, first: usize, to: &mut [u32]) -> Result<(), CudaError> {
        let end = first.saturating_add(to.len());
        CudaError::check_range("words to read", memory.words, end)?;
        self.call();
        // SAFETY: the words are within the allocation, and by the contract of `Device` no launch
        // writes them.
        unsafe { NonNull::from(to).cast().copy_from(memory.start.add(first), end - first) };
        Ok(())
    }

    fn host<'a>(&self, memory: &'a HostMemory) -> &'a [u32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: the allocation has this many initialised words; by the contract of `Device` no
        // launch writes them while the slice is in use.
        unsafe { slice::from_raw_parts(start, memory.words) }
    }

    fn host_mut<'a>(&self, memory: &'a mut HostMemory) -> &'a mut [u32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: as for `host`, and `memory` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(start, memory.words) }
    }

    fn host_floats<'a>(&self, memory: &'a HostMemory) -> &'a [f32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: as for `host`; any bits are a valid float, with a word's size and alignment.
        unsafe { slice::from_raw_parts(start.cast(), memory.words) }
    }

    fn host_floats_mut<'a>(&self, memory: &'a mut HostMemory) -> &'a mut [f32] {
        let start = memory.of_host().as_ptr();
        // SAFETY: as for `host_mut`; any bits are a valid float.
        unsafe { slice::from_raw_parts_mut(start.cast(), memory.words) }
    }

    fn address(&self, memory: &HostMemory) -> u64 {
        memory.start.as_ptr().expose_provenance() as u64
    }

    fn word(&self, memory: &HostMemory, index: usize) -> u32 {
        assert!(index < memory.words, "word {index} of {}", memory.words);
        // An error of a late launch is reported by `is_idle`: nothing after it ends.
        let _ = self.run_late();
        // SAFETY: the word is allocated and aligned; launches on other threads write it atomically.
        unsafe { AtomicU32::from_ptr(memory.of_host().as_ptr().add(index)) }.load(Ordering::Acquire)
    }

    fn team_pool(&self) -> &TeamPool<HostMemory> {
        &self.team_pool
    }

    fn launch_teams(
        &self,
        program: &Arc<EmulatedProgram>,
        _stream: usize,
        teams: usize,
        shared_bytes: usize,
        arguments: &TeamArguments,
    ) -> Result<(), CudaError> {
        let Properties { sms, shared_bytes: max, .. } = self.properties;
        let (blocks, sms) = (teams * arguments.blocks as usize, sms as usize);
        CudaError::check_range("blocks that run at the same time", sms, blocks)?;
        CudaError::check_range("bytes of shared memory", max, shared_bytes)?;
        self.launch(
            program,
            Call::Teams(slice::from_ref(arguments).into(), teams as u32),
            shared_bytes,
        )
    }

    fn launch_grid(
        &self,
        program: &Arc<EmulatedProgram>,
        _stream: usize,
        blocks: usize,
        shared_bytes: usize,
        arguments: &[u64],
    ) -> Result<(), CudaError> {
        CudaError::check_range(
            "bytes of shared memory",
            self.properties.shared_bytes,
            shared_bytes,
        )?;
        self.launch(program, Call::Grid(arguments.into(), blocks as u32), shared_bytes)
    }

    fn enqueue_copy(
        &self,
        _stream: usize,
        from: u64,
        to: u64,
        words: usize,
    ) -> Result<(), CudaError> {
        self.call();
        self.enqueue(Pending::Copy { from, to, words })
    }

    fn order(&self, _stream: usize, _other: u64, _follows: Follows) -> Result<(), CudaError> {
        // All streams are one.
        self.call();
        Ok(())
    }

    fn is_idle(&self, _stream: usize) -> Result<bool, CudaError> {
        // A launch returns when it is done.
        Ok(!self.run_late()?)
    }
}

/// Builds a shared library from a source, in a folder.
fn build(folder: &Path, source: &Source, options: &[&str]) -> Result<PathBuf, CudaError> {
    let options = [&OPTIONS[..], options].concat();
    compile(folder, &source.text, &options, "kernels.so")
}
