//! Launches of the probe kernel, timed by the device, and attributes of a device.

use std::ffi::c_void;
use std::ops::Range;

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{result, sys};

use super::event::Event;
use super::{Nvidia, NvidiaMemory, NvidiaProgram, THREADS, failed};
use crate::CudaError;
use crate::device::Properties;
use crate::measure::{Hardware, Launching, ProbeArguments};

impl Nvidia {
    /// Returns attributes of the device.
    pub(crate) fn hardware(&self) -> Result<Hardware, CudaError> {
        let attribute = |attribute| {
            let value = self.context.attribute(attribute);
            let value = value.map_err(failed("reading the device's attributes"))?;
            Ok::<u32, CudaError>(u32::try_from(value).unwrap_or(0))
        };
        let Properties { name, architecture, sms, shared_bytes, .. } = self.properties.clone();
        Ok(Hardware {
            name,
            architecture,
            sms,
            shared_bytes,
            driver: self.driver,
            clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            memory_clock_khz: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            cache_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        })
    }

    /// Launches the probe kernel after all earlier launches of a stream: stream number `stream` of
    /// teams, or the probe's own if that is `None`.
    pub(crate) fn launch_probe(
        &self,
        program: &NvidiaProgram,
        stream: Option<usize>,
        blocks: u32,
        how: Launching,
        arguments: &ProbeArguments,
    ) -> Result<(), CudaError> {
        self.bind()?;
        let parameter: *const ProbeArguments = arguments;
        let parameters = &mut [parameter.cast_mut().cast::<c_void>()];
        let (grid, threads) = ((blocks, 1, 1), (THREADS, 1, 1));
        let stream = stream.map_or(Ok(&*self.stream), |stream| self.team_stream(stream))?;
        let (function, stream) = (program.function, stream.cu_stream());
        // SAFETY: the kernel takes one parameter, which has the layout of `probe.cu` and is copied
        // before the call returns. The memory that it points to lives until the caller has waited.
        let launched = unsafe {
            match how {
                Launching::Plain => {
                    result::launch_kernel(function, grid, threads, 0, stream, parameters)
                }
                Launching::Cooperative => result::launch_cooperative_kernel(
                    function, grid, threads, 0, stream, parameters,
                ),
            }
        };
        launched.map_err(failed("a launch of the probe kernel"))
    }

    /// Copies words of memory to the host, after all earlier launches on the probe's stream.
    pub(crate) fn read(
        &self,
        memory: &NvidiaMemory,
        words: Range<usize>,
    ) -> Result<Vec<u32>, CudaError> {
        self.bind()?;
        self.wait()?;
        assert!(words.end <= memory.words, "words {words:?} of {}", memory.words);
        let mut read = vec![0; words.len()];
        let address = memory.address + 4 * words.start as u64;
        // SAFETY: the allocation has these words, and the copy has ended when the call returns.
        let copied = unsafe { result::memcpy_dtoh_sync(&mut read, address) };
        copied.map(|()| read).map_err(failed("copying from the device"))
    }

    /// Returns the nanoseconds between the start and the end of the launches that `launch` makes,
    /// measured by the device.
    pub(crate) fn timed(
        &self,
        launch: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<f64, CudaError> {
        self.bind()?;
        let event = || Event::new(&self.context, sys::CUevent_flags::CU_EVENT_DEFAULT);
        let (before, after) = (event()?, event()?);
        before.record(self.stream.cu_stream())?;
        launch()?;
        after.record(self.stream.cu_stream())?;
        // SAFETY: both events exist and have been recorded.
        let elapsed = unsafe {
            result::event::synchronize(after.0)
                .and_then(|()| result::event::elapsed(before.0, after.0))
        };
        Ok(f64::from(elapsed.map_err(failed("reading the time between two events"))?) * 1e6)
    }
}
