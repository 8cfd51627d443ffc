//! A device of NVIDIA's, by its driver: the only file that names the driver's functions.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::{CudaContext, CudaStream, sys};

use super::CudaError;
use super::device::{Arguments, Device, Facts, Side, Source};
use super::nvrtc;
use super::store::{Key, Store};

/// Threads of a block: `THREADS` of `kernels/block.h`.
const THREADS: u32 = 256;

/// The oldest generation whose instructions the kernels use.
const OLDEST: (u32, u32) = (8, 0);

/// A device, and one stream of launches.
#[derive(Debug)]
pub(crate) struct Nvidia {
    facts: Facts,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    store: Store,
}

impl Nvidia {
    /// Opens a device, counted from 0.
    ///
    /// # Errors
    /// If the driver, or the device, is missing or too old, or the driver reports an error.
    pub(crate) fn new(index: usize, store: Store) -> Result<Self, CudaError> {
        find_driver()?;
        let count = match result::init().and_then(|()| result::device::get_count()) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => 0,
            Err(error) => return Err(failed("starting the CUDA driver")(error)),
        };
        if index >= count {
            return Err(CudaError::NoDevice { index, count });
        }
        let context = CudaContext::new(index).map_err(failed("opening the device"))?;
        // SAFETY: no memory of the library's own is used, so that there is nothing to track.
        unsafe { context.disable_event_tracking() };
        let facts = facts(&context)?;
        let stream = context.new_stream().map_err(failed("a stream of launches"))?;
        Ok(Self { facts, context, stream, store })
    }

    /// Makes the device that of the calling thread.
    fn bind(&self) -> Result<(), CudaError> {
        self.context.bind_to_thread().map_err(failed("using the device on another thread"))
    }

    fn load(&self, code: &[u8]) -> Result<NvidiaProgram, CudaError> {
        self.bind()?;
        // SAFETY: the code is the compiler's, as a whole.
        let module = unsafe { result::module::load_data(code.as_ptr().cast()) };
        let module = module.map_err(failed("loading the kernels"))?;
        let mut program =
            NvidiaProgram { module, function: std::ptr::null_mut(), context: self.context.clone() };
        // SAFETY: the module was loaded just now.
        let function = unsafe { result::module::get_function(module, c"wave_kernel".into()) };
        program.function = function.map_err(failed("`wave_kernel` of the kernels"))?;
        Ok(program)
    }
}

/// Whether the driver is there, and new enough for what the compiler makes.
fn find_driver() -> Result<(), CudaError> {
    nvrtc::preload(&["libcuda.so"]);
    // SAFETY: the library's initialisers are NVIDIA's.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: it is a place for a number.
    let asked = unsafe { sys::cuDriverGetVersion(&mut version) };
    asked.result().map_err(failed("the driver's version"))?;
    let version = u32::try_from(version).unwrap_or(0);
    let got = (version / 1000, version % 1000 / 10);
    if got < nvrtc::PINNED {
        return Err(CudaError::DriverTooOld { got, needed: nvrtc::PINNED });
    }
    Ok(())
}

fn facts(context: &CudaContext) -> Result<Facts, CudaError> {
    use sys::CUdevice_attribute_enum as Attribute;
    let attribute = |attribute| {
        let value = context.attribute(attribute).map_err(failed("the device's attributes"))?;
        Ok::<u32, CudaError>(u32::try_from(value).unwrap_or(0))
    };
    let name = context.name().map_err(failed("the device's name"))?;
    let got = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    if got < OLDEST {
        return Err(CudaError::Architecture { name, got });
    }
    let shared = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    Ok(Facts {
        name,
        architecture: architecture(got),
        processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_bytes: shared as usize,
    })
}

/// What the compiler calls a generation. That of 9.0 has instructions which no later one has.
pub(super) fn architecture((major, minor): (u32, u32)) -> String {
    let own = if (major, minor) == (9, 0) { "a" } else { "" };
    format!("sm_{major}{minor}{own}")
}

impl Device for Nvidia {
    type Memory = NvidiaMemory;
    type Program = NvidiaProgram;

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn compile(&self, source: &Source) -> Result<NvidiaProgram, CudaError> {
        let architecture = &self.facts.architecture;
        // Without the compiler, what the pinned one made elsewhere may be stored.
        let version = nvrtc::version().unwrap_or(nvrtc::PINNED);
        let key = Key::new(source, &nvrtc::OPTIONS, version, architecture);
        let stored = self.store.get(&key).map(|code| self.load(&code));
        if let Some(Ok(program)) = stored {
            return Ok(program);
        }
        let binary = nvrtc::compile(source, architecture)?;
        let program = self.load(&binary.code)?;
        // Where nothing can be stored, it is compiled again the next time.
        let _ = self.store.put(&key, &binary.code);
        Ok(program)
    }

    fn memory(&self, bytes: usize, side: Side) -> Result<NvidiaMemory, CudaError> {
        self.bind()?;
        NvidiaMemory::new(&self.context, bytes, side)
    }

    fn fill(&self, memory: &NvidiaMemory, bytes: &[u8]) -> Result<(), CudaError> {
        let expected = memory.words * size_of::<u32>();
        if bytes.len() > expected {
            let what = "bytes to fill memory with";
            return Err(CudaError::Refused { what, expected, got: bytes.len() });
        }
        self.bind()?;
        // SAFETY: so many bytes were allocated there, and `bytes` stay until the stream is waited
        // for.
        let copied =
            unsafe { result::memcpy_htod_async(memory.address, bytes, self.stream.cu_stream()) };
        copied.map_err(failed("copying to the device"))?;
        self.wait()
    }

    fn host<'a>(&self, memory: &'a NvidiaMemory) -> &'a [u32] {
        // SAFETY: so many words were allocated and written; by the contract of `Device` no launch
        // writes them while the slice is in use.
        unsafe { slice::from_raw_parts(memory.of_host().as_ptr(), memory.words) }
    }

    fn host_mut<'a>(&self, memory: &'a mut NvidiaMemory) -> &'a mut [u32] {
        // SAFETY: likewise, and `memory` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(memory.of_host().as_ptr(), memory.words) }
    }

    fn host_floats<'a>(&self, memory: &'a NvidiaMemory) -> &'a [f32] {
        // SAFETY: as for `host`; all bits are a float, as large and aligned as a word.
        unsafe { slice::from_raw_parts(memory.of_host().as_ptr().cast(), memory.words) }
    }

    fn host_floats_mut<'a>(&self, memory: &'a mut NvidiaMemory) -> &'a mut [f32] {
        // SAFETY: as for `host_mut`; likewise.
        unsafe { slice::from_raw_parts_mut(memory.of_host().as_ptr().cast(), memory.words) }
    }

    fn address(&self, memory: &NvidiaMemory) -> u64 {
        memory.address
    }

    fn launch(
        &self,
        program: &NvidiaProgram,
        blocks: u32,
        arguments: &Arguments,
    ) -> Result<(), CudaError> {
        self.bind()?;
        let mut arguments = *arguments;
        let parameter: *mut Arguments = &mut arguments;
        // SAFETY: the kernel takes one parameter, which lies as `block.h` has it and is copied
        // before the call returns; what it points to is by the contract of `Device` there until
        // `wait`.
        let launched = unsafe {
            result::launch_kernel(
                program.function,
                (blocks, 1, 1),
                (THREADS, 1, 1),
                0,
                self.stream.cu_stream(),
                &mut [parameter.cast::<c_void>()],
            )
        };
        launched.map_err(failed("a launch"))
    }

    fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(failed("waiting for the device"))
    }
}

/// A loaded module and its kernel.
#[derive(Debug)]
pub(crate) struct NvidiaProgram {
    module: sys::CUmodule,
    function: sys::CUfunction,
    context: Arc<CudaContext>,
}

// SAFETY: the driver's functions may be called on any thread that the context is bound to.
unsafe impl Send for NvidiaProgram {}
// SAFETY: likewise; nothing changes a module.
unsafe impl Sync for NvidiaProgram {}

impl Drop for NvidiaProgram {
    fn drop(&mut self) {
        // Errors of a device that is gone cannot be helped here.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: the module was loaded, and by the contract of `Device` no launch uses it.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

/// Memory of the device, or of the host where the device sees it.
#[derive(Debug)]
pub(crate) struct NvidiaMemory {
    address: u64,
    words: usize,
    /// Where the host finds it, if it is the host's.
    host: Option<NonNull<u32>>,
    context: Arc<CudaContext>,
}

// SAFETY: it is memory of its own, like a `Box`; who may read and write it when is the contract of
// `Device`.
unsafe impl Send for NvidiaMemory {}
// SAFETY: likewise.
unsafe impl Sync for NvidiaMemory {}

impl NvidiaMemory {
    fn new(context: &Arc<CudaContext>, bytes: usize, side: Side) -> Result<Self, CudaError> {
        let words = bytes.div_ceil(size_of::<u32>());
        // The driver has no memory of no bytes.
        let bytes = words.max(1).saturating_mul(size_of::<u32>());
        let (address, host) = match side {
            Side::Device => (on_device(bytes)?, None),
            Side::Host => {
                let (address, host) = on_host(bytes)?;
                (address, Some(host))
            }
        };
        Ok(Self { address, words, host, context: context.clone() })
    }

    fn of_host(&self) -> NonNull<u32> {
        self.host.expect("the host reads and writes its own memory")
    }
}

impl Drop for NvidiaMemory {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was allocated so, and by the contract of `Device` no launch uses it.
            // Errors cannot be helped here.
            let _ = unsafe {
                match self.host {
                    Some(host) => result::free_host(host.as_ptr().cast()),
                    None => result::free_sync(self.address),
                }
            };
        }
    }
}

/// Memory of the device that the thread is bound to.
fn on_device(bytes: usize) -> Result<u64, CudaError> {
    // SAFETY: any bits are a word.
    unsafe { result::malloc_sync(bytes) }.map_err(no_memory("the device", bytes))
}

/// Zeroed memory of the host that stays where it is, where the device sees it and where the host
/// does.
fn on_host(bytes: usize) -> Result<(u64, NonNull<u32>), CudaError> {
    let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: it is written before it is read, just below.
    let start = unsafe { result::malloc_host(bytes, flags) };
    let start = start.map_err(no_memory("the host (pinned)", bytes))?;
    let host = NonNull::new(start.cast::<u32>()).expect("the driver reported success");
    // SAFETY: so many bytes were allocated.
    unsafe { start.cast::<u8>().write_bytes(0, bytes) };
    let mut address = 0;
    // SAFETY: the memory was allocated to be seen by the device.
    let mapped = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, start, 0) };
    match mapped.result() {
        Ok(()) => Ok((address, host)),
        Err(error) => {
            // SAFETY: it was allocated so, and nothing uses it.
            let _ = unsafe { result::free_host(start) };
            Err(failed("the device's view of the host's memory")(error))
        }
    }
}

fn no_memory(what: &'static str, bytes: usize) -> impl Fn(DriverError) -> CudaError {
    move |error| match error {
        DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => CudaError::Memory { what, bytes },
        error => failed(what)(error),
    }
}

fn failed(what: &'static str) -> impl Fn(DriverError) -> CudaError {
    move |error| CudaError::failed(what, error)
}
