//! An NVIDIA device. Only this file and the files below `nvidia/` call the driver.

mod event;
mod memory;
mod program;
mod timed;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, CudaStream, sys};

use super::CudaError;
use super::compilation::OnCompile;
use super::device::{Device, Follows, Kernel, MemorySide, Properties, Source, TeamArguments};
use super::nvrtc;
use super::store::{Key, Store};
use super::team_pool::TeamPool;
use event::Event;
use memory::NvidiaMemory;
pub(crate) use program::NvidiaProgram;

/// The number of threads of a block: `THREADS` of `kernels/block.h`.
pub const THREADS: u32 = 256;

/// The minimum compute capability.
const OLDEST: (u32, u32) = (8, 0);

/// The time that a block waits at its team's barrier: a thousand times the longest wave.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);

/// A device and its streams.
#[derive(Debug)]
pub(crate) struct Nvidia {
    properties: Properties,
    /// The newest CUDA version that the driver supports, (major, minor).
    driver: (u32, u32),
    context: Arc<CudaContext>,
    /// The stream of copies and of the probe.
    stream: Arc<CudaStream>,
    /// The streams of launches of teams, created on first use.
    team_streams: Vec<OnceLock<Arc<CudaStream>>>,
    team_pool: TeamPool<NvidiaMemory>,
    store: Store,
}

/// The open devices of this process.
static OPEN: Mutex<BTreeMap<usize, Weak<Nvidia>>> = Mutex::new(BTreeMap::new());

impl Nvidia {
    /// Returns a device, which all users in the process share. Indices count from 0.
    ///
    /// # Errors
    /// Like [`new`](Self::new).
    pub(crate) fn open(index: usize, store: Store) -> Result<Arc<Self>, CudaError> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&index).and_then(Weak::upgrade) {
            return Ok(device);
        }
        let device = Arc::new(Self::new(index, store)?);
        open.insert(index, Arc::downgrade(&device));
        Ok(device)
    }

    /// Opens a device. Indices count from 0.
    ///
    /// # Errors
    /// If the driver or the device is missing or too old, or the driver reports an error.
    pub(crate) fn new(index: usize, store: Store) -> Result<Self, CudaError> {
        let driver = find_driver()?;
        let count = match result::init().and_then(|()| result::device::get_count()) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => 0,
            Err(error) => return Err(failed("starting the CUDA driver")(error)),
        };
        if index >= count {
            return Err(CudaError::NoDevice { index, count });
        }
        let context = CudaContext::new(index).map_err(failed("opening the device"))?;
        // SAFETY: none of cudarc's own memory types is used, so there is nothing to track.
        unsafe { context.disable_event_tracking() };
        let properties = properties(&context)?;
        let stream = context.new_stream().map_err(failed("creating a stream"))?;
        let team_streams = (0..properties.sms).map(|_| OnceLock::new()).collect();
        let team_pool = TeamPool::new(properties.sms, TIMEOUT);
        Ok(Self { properties, driver, context, stream, team_streams, team_pool, store })
    }

    /// Waits for all copies and for launches of the probe on their stream.
    pub(crate) fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(failed("waiting for the device"))
    }

    /// Binds the device's context to the calling thread.
    fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(failed("binding the device to a thread"))
    }

    fn load(&self, code: &[u8], kernel: Kernel) -> Result<NvidiaProgram, CudaError> {
        self.bind()?;
        // SAFETY: the code is the complete output of the compiler.
        let module = unsafe { result::module::load_data(code.as_ptr().cast()) };
        let module = module.map_err(failed("loading the kernels"))?;
        let mut program =
            NvidiaProgram { module, function: std::ptr::null_mut(), context: self.context.clone() };
        // SAFETY: the module was just loaded.
        let function = unsafe { result::module::get_function(module, kernel.name().into()) };
        program.function = function.map_err(failed("a function of the kernels"))?;
        if kernel != Kernel::Probe {
            use sys::CUfunction_attribute_enum as Attribute;
            let shared = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let max = self.properties.shared_bytes as i32;
            // SAFETY: the function was just found.
            let set =
                unsafe { result::function::set_function_attribute(program.function, shared, max) };
            set.map_err(failed("setting the shared memory of a block"))?;
        }
        Ok(program)
    }

    /// Returns a stream for launches of teams.
    fn team_stream(&self, stream: usize) -> Result<&CudaStream, CudaError> {
        // Teams in borrowed memory may outnumber the SMs.
        let place = &self.team_streams[stream % self.team_streams.len()];
        if place.get().is_none() {
            let new = self.context.new_stream().map_err(failed("creating a stream"))?;
            // Another thread may have set it first.
            let _ = place.set(new);
        }
        Ok(place.get().expect("set above"))
    }
}

/// Returns the newest CUDA version that the driver supports. Fails if the driver is missing or too
/// old.
fn find_driver() -> Result<(u32, u32), CudaError> {
    nvrtc::preload("libcuda.so");
    // SAFETY: the library is NVIDIA's driver, whose initialisers are safe to run.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: the pointer is valid for a write.
    let asked = unsafe { sys::cuDriverGetVersion(&mut version) };
    asked.result().map_err(failed("reading the driver's version"))?;
    let version = u32::try_from(version).unwrap_or(0);
    let got = (version / 1000, version % 1000 / 10);
    if got < nvrtc::OLDEST {
        return Err(CudaError::DriverTooOld { got, needed: nvrtc::OLDEST });
    }
    Ok(got)
}

fn properties(context: &CudaContext) -> Result<Properties, CudaError> {
    use sys::CUdevice_attribute_enum as Attribute;
    let attribute = |attribute| {
        let value =
            context.attribute(attribute).map_err(failed("reading the device's attributes"))?;
        Ok::<u32, CudaError>(u32::try_from(value).unwrap_or(0))
    };
    let name = context.name().map_err(failed("reading the device's name"))?;
    let got = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    if got < OLDEST {
        return Err(CudaError::Architecture { name, got });
    }
    let shared = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    Ok(Properties {
        name,
        architecture: architecture(got),
        sms: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes: shared as usize,
    })
}

/// Returns the compiler's name of a compute capability, such as `sm_80`.
pub(super) fn architecture((major, minor): (u32, u32)) -> String {
    format!("sm_{major}{minor}")
}

impl Device for Nvidia {
    type Memory = NvidiaMemory;
    type Program = NvidiaProgram;

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn compile(&self, source: &Source, on_compile: OnCompile) -> Result<NvidiaProgram, CudaError> {
        let architecture = &self.properties.architecture;
        let compiler = nvrtc::compiler();
        let present = compiler.as_ref().ok().map(|compiler| compiler.version);
        let key = |version| Key::new(source, &nvrtc::OPTIONS, version, architecture);
        let keys = nvrtc::versions(present, self.driver).map(key);
        let load = |code: &[u8]| self.load(code, source.kernel);
        let refused = match self.store.first_usable(keys, load) {
            Ok(program) => return Ok(program),
            Err(refused) => refused,
        };
        // Report why the stored kernels failed to load, not the missing compiler.
        let compiler = compiler.map_err(|missing| refused.unwrap_or(missing))?;
        let compiler = compiler.for_driver(self.driver, architecture)?;
        let binary = compiler.compile(source, architecture, on_compile)?;
        let program = self.load(&binary.code, source.kernel)?;
        // If this fails, the kernels are compiled again next time.
        let _ = self.store.put(&key(compiler.version), &binary.code);
        Ok(program)
    }

    fn memory(&self, bytes: usize, side: MemorySide) -> Result<NvidiaMemory, CudaError> {
        self.bind()?;
        NvidiaMemory::new(&self.context, bytes, side)
    }

    fn fill(&self, memory: &NvidiaMemory, words: &[u32]) -> Result<(), CudaError> {
        CudaError::check_range("words to fill memory with", memory.words, words.len())?;
        if let Some(host) = memory.host {
            self.wait()?;
            // SAFETY: the allocation has at least this many words, and nothing refers to them: all
            // launches have ended, and by the contract of `Device` no slice of `host` is in use.
            unsafe { host.copy_from(NonNull::from(words).cast(), words.len()) };
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the allocation has at least this many words, and `words` outlive the copy,
        // because the stream is waited for below.
        let copied =
            unsafe { result::memcpy_htod_async(memory.address, words, self.stream.cu_stream()) };
        copied.map_err(failed("copying to the device"))?;
        self.wait()
    }

    fn clear(&self, memory: &NvidiaMemory) -> Result<(), CudaError> {
        self.bind()?;
        let (address, words) = (memory.address, memory.words);
        // SAFETY: the allocation has this many words, and by the contract of `Device` no launch
        // accesses them. It outlives the operation, because the stream is waited for below.
        let set = unsafe {
            sys::cuMemsetD32Async(address, u32::MAX, words, self.stream.cu_stream()).result()
        };
        set.map_err(failed("clearing memory of the device"))?;
        self.wait()
    }

    fn copy(&self, from: &NvidiaMemory, to: &NvidiaMemory, words: usize) -> Result<(), CudaError> {
        CudaError::check_range("words to copy", from.words.min(to.words), words)?;
        self.bind()?;
        let (bytes, stream) = (4 * words, self.stream.cu_stream());
        // SAFETY: both allocations have at least this many words, and by the contract of `Device`
        // no launch accesses them. They outlive the copy, because the stream is waited for below.
        let copied = unsafe { result::memcpy_dtod_async(to.address, from.address, bytes, stream) };
        copied.map_err(failed("copying on the device"))?;
        self.wait()
    }

    fn read(&self, memory: &NvidiaMemory, first: usize, to: &mut [u32]) -> Result<(), CudaError> {
        let end = first.saturating_add(to.len());
        CudaError::check_range("words to read", memory.words, end)?;
        self.bind()?;
        let (from, stream) = (memory.address + 4 * first as u64, self.stream.cu_stream());
        // SAFETY: the words are within the allocation, and `to` outlives the copy, because the
        // stream is waited for below.
        let copied = unsafe { result::memcpy_dtoh_async(to, from, stream) };
        copied.map_err(failed("copying from the device"))?;
        self.wait()
    }

    fn host<'a>(&self, memory: &'a NvidiaMemory) -> &'a [u32] {
        // SAFETY: the allocation has this many initialised words; by the contract of `Device` no
        // launch writes them while the slice is in use.
        unsafe { slice::from_raw_parts(memory.of_host().as_ptr(), memory.words) }
    }

    fn host_mut<'a>(&self, memory: &'a mut NvidiaMemory) -> &'a mut [u32] {
        // SAFETY: as for `host`, and `memory` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(memory.of_host().as_ptr(), memory.words) }
    }

    fn host_floats<'a>(&self, memory: &'a NvidiaMemory) -> &'a [f32] {
        // SAFETY: as for `host`; any bits are a valid float, with a word's size and alignment.
        unsafe { slice::from_raw_parts(memory.of_host().as_ptr().cast(), memory.words) }
    }

    fn host_floats_mut<'a>(&self, memory: &'a mut NvidiaMemory) -> &'a mut [f32] {
        // SAFETY: as for `host_mut`; any bits are a valid float.
        unsafe { slice::from_raw_parts_mut(memory.of_host().as_ptr().cast(), memory.words) }
    }

    fn address(&self, memory: &NvidiaMemory) -> u64 {
        memory.address
    }

    fn word(&self, memory: &NvidiaMemory, index: usize) -> u32 {
        assert!(index < memory.words, "word {index} of {}", memory.words);
        // SAFETY: the word is allocated and aligned; the device writes whole words.
        unsafe { AtomicU32::from_ptr(memory.of_host().as_ptr().add(index)) }.load(Ordering::Acquire)
    }

    fn team_pool(&self) -> &TeamPool<NvidiaMemory> {
        &self.team_pool
    }

    fn launch_teams(
        &self,
        program: &NvidiaProgram,
        stream: usize,
        teams: usize,
        shared_bytes: usize,
        arguments: &TeamArguments,
    ) -> Result<(), CudaError> {
        self.bind()?;
        let stream = self.team_stream(stream)?;
        let parameter: *const TeamArguments = arguments;
        // SAFETY: the kernel takes one parameter, which has the layout of `team.h` and is copied
        // before the call returns. By the contract of `Device` the memory that it points to lives
        // until the launch has ended.
        let launched = unsafe {
            result::launch_cooperative_kernel(
                program.function,
                (teams as u32 * arguments.blocks, 1, 1),
                (THREADS, 1, 1),
                shared_bytes as u32,
                stream.cu_stream(),
                &mut [parameter.cast_mut().cast::<c_void>()],
            )
        };
        launched.map_err(failed("a launch of teams"))
    }

    fn launch_grid(
        &self,
        program: &NvidiaProgram,
        stream: usize,
        blocks: usize,
        shared_bytes: usize,
        arguments: &[u64],
    ) -> Result<(), CudaError> {
        self.bind()?;
        let stream = self.team_stream(stream)?.cu_stream();
        let (grid, threads) = ((blocks as u32, 1, 1), (THREADS, 1, 1));
        let (parameter, shared) = (arguments.as_ptr(), shared_bytes as u32);
        let parameters = &mut [parameter.cast_mut().cast::<c_void>()];
        // SAFETY: the kernel takes one parameter, which has the layout of its `Work` and is copied
        // before the call returns. By the contract of `Device` the memory that it points to lives
        // until the launch has ended.
        let launched = unsafe {
            result::launch_kernel(program.function, grid, threads, shared, stream, parameters)
        };
        launched.map_err(failed("a launch of a grid"))
    }

    fn enqueue_copy(
        &self,
        stream: usize,
        from: u64,
        to: u64,
        words: usize,
    ) -> Result<(), CudaError> {
        self.bind()?;
        let stream = self.team_stream(stream)?.cu_stream();
        // SAFETY: by the contract of `Device` both addresses have this many words, until the copy
        // has ended.
        let copied = unsafe { sys::cuMemcpyAsync(to, from, 4 * words, stream) };
        copied.result().map_err(failed("copying on the device"))
    }

    fn order(&self, stream: usize, other: u64, follows: Follows) -> Result<(), CudaError> {
        self.bind()?;
        let own = self.team_stream(stream)?.cu_stream();
        let other = other as sys::CUstream;
        let (first, second) = match follows {
            Follows::Own => (other, own),
            Follows::Other => (own, other),
        };
        Event::new(&self.context, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?.order(first, second)
    }

    fn is_idle(&self, stream: usize) -> Result<bool, CudaError> {
        self.bind()?;
        let stream = self.team_stream(stream)?;
        // SAFETY: the stream exists.
        match unsafe { sys::cuStreamQuery(stream.cu_stream()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => other.result().map(|()| true).map_err(failed("waiting for the device")),
        }
    }
}

fn failed(what: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |error| CudaError::failed(what, error)
}
