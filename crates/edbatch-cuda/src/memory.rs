//! The memory of plans, reused from plan to plan.

use std::mem;

use edbatch_runtime::BackendError;

use super::CudaError;
use super::device::{Device, MemorySide};

/// The memory of a slot. Buffers grow by half, so a steady state allocates nothing.
pub(super) struct PlanMemory<D: Device> {
    pub(super) commands: Buffer<D>,
    /// The device's copy of the command list.
    pub(super) device_commands: Buffer<D>,
    pub(super) given: Buffer<D>,
    pub(super) arenas: Arenas<D>,
    /// Rows that outlive a plan.
    pub(super) store: Buffer<D>,
    pub(super) outputs: Buffer<D>,
    pub(super) indices: Buffer<D>,
}

impl<D: Device> PlanMemory<D> {
    pub(super) fn new() -> Self {
        Self {
            commands: Buffer::new(MemorySide::Host, "a command list in pinned memory"),
            device_commands: Buffer::new(MemorySide::Device, "a command list on the device"),
            given: Buffer::new(MemorySide::Host, "given rows in pinned memory"),
            arenas: Arenas::new(),
            store: Buffer::new(MemorySide::Device, "the stored values on the device"),
            outputs: Buffer::new(MemorySide::Host, "outputs in pinned memory"),
            indices: Buffer::new(MemorySide::Host, "outputs in pinned memory"),
        }
    }
}

/// The arenas of a slot. Plans use them in turn if readers wait for each row until it is written: a
/// plan then needs an arena without old values, and its launch clears the other arena.
pub(super) struct Arenas<D: Device> {
    both: [Buffer<D>; 2],
    /// The arena of the last plan, and the floats that it has used of it.
    current: usize,
    used: usize,
    /// The floats of each arena that may have been written since it was cleared, or `None` for all;
    /// and the same after the launch that has begun, if it ends well.
    written: [Option<usize>; 2],
    after: [Option<usize>; 2],
}

/// The most floats that a launch clears.
const MAX_CLEARED: usize = 1 << 30;

impl<D: Device> Arenas<D> {
    fn new() -> Self {
        let arena = || Buffer::new(MemorySide::Device, "the arena of a mini-batch on the device");
        Self { both: [arena(), arena()], current: 0, used: 0, written: [None; 2], after: [None; 2] }
    }

    /// Allocates at least `floats` floats for a plan; if `waits`, in a cleared arena.
    pub(super) fn reserve(
        &mut self,
        device: &D,
        floats: usize,
        waits: bool,
    ) -> Result<(), BackendError> {
        self.used = floats.next_multiple_of(4);
        if waits {
            self.current = 1 - self.current;
        }
        let arena = &mut self.both[self.current];
        if arena.words < self.used {
            self.written[self.current] = None;
        }
        let memory = arena.reserve(device, self.used)?;
        if waits && self.written[self.current] != Some(0) {
            device.clear(memory)?;
            self.written[self.current] = Some(0);
        }
        Ok(())
    }

    /// Allocates at least `floats` floats for a step of the last plan, in the same arena if that is
    /// large enough.
    pub(super) fn reserve_again(&mut self, device: &D, floats: usize) -> Result<(), BackendError> {
        let used = self.used.max(floats.next_multiple_of(4));
        self.reserve(device, used, false)
    }

    /// Begins a launch: returns the other arena and the number of its floats to clear, during the
    /// first wave if there are `waves`. Until [`ended`](Self::ended), both arenas may contain
    /// anything.
    pub(super) fn begin(&mut self, device: &D, waves: usize) -> (u64, u32) {
        let other = 1 - self.current;
        let can_clear = |&floats: &usize| waves > 0 && floats <= MAX_CLEARED;
        let clear = self.written[other].filter(can_clear);
        self.after[self.current] = self.written[self.current].map(|_| self.used);
        self.after[other] = clear.map(|_| 0);
        self.written = [None; 2];
        (self.both[other].address(device), clear.unwrap_or(0) as u32)
    }

    /// Ends a launch that has cleared the other arena.
    pub(super) fn ended(&mut self) {
        self.written = self.after;
    }

    /// Returns the address of the last plan's arena.
    pub(super) fn address(&self, device: &D) -> u64 {
        self.both[self.current].address(device)
    }

    /// Returns the words of both arenas.
    pub(super) fn words(&self) -> usize {
        self.both.iter().map(|arena| arena.words).sum()
    }
}

/// The arena of a program for training: the arenas of all parts of a mini-batch, in order, so
/// that sums over all of them have one memory.
pub(super) struct SharedArena<D: Device> {
    buffer: Buffer<D>,
    /// True if nothing but the plans of the last round has been written.
    pub(super) is_clear: bool,
    /// The floats in use.
    pub(super) used: usize,
}

impl<D: Device> SharedArena<D> {
    pub(super) fn new() -> Self {
        let buffer = Buffer::new(MemorySide::Device, "the arena of a mini-batch on the device");
        Self { buffer, is_clear: false, used: 0 }
    }

    /// Begins a round with an arena of at least `floats` floats, which is clear if its readers wait
    /// for rows. Nothing else is kept.
    pub(super) fn begin(
        &mut self,
        device: &D,
        floats: usize,
        waits: bool,
    ) -> Result<(), BackendError> {
        self.reserve(device, floats)?;
        if waits {
            device.clear(self.buffer.memory.as_ref().expect("reserved above"))?;
        }
        self.is_clear = waits;
        Ok(())
    }

    /// Begins a round with an arena of at least `floats` floats, with any contents.
    pub(super) fn reserve(&mut self, device: &D, floats: usize) -> Result<(), BackendError> {
        (self.used, self.is_clear) = (floats, false);
        self.buffer.reserve(device, floats)?;
        Ok(())
    }

    /// Grows the arena to at least `floats` floats, and keeps its contents. What is new is clear.
    pub(super) fn grow(&mut self, device: &D, floats: usize) -> Result<(), BackendError> {
        self.buffer.grow_with(device, floats, |memory| device.clear(memory))?;
        self.used = floats;
        Ok(())
    }

    pub(super) fn address(&self, device: &D) -> u64 {
        self.buffer.address(device)
    }

    pub(super) fn words(&self) -> usize {
        self.buffer.words
    }

    /// Reads elements of the arena.
    pub(super) fn read(&self, device: &D, at: usize, to: &mut [u32]) -> Result<(), CudaError> {
        device.read(self.buffer.memory.as_ref().expect("a plan has run"), at, to)
    }
}

/// A growable buffer.
pub(super) struct Buffer<D: Device> {
    side: MemorySide,
    /// The use of the memory, which errors name.
    what: &'static str,
    pub(super) words: usize,
    pub(super) memory: Option<D::Memory>,
}

impl<D: Device> Buffer<D> {
    pub(super) fn new(side: MemorySide, what: &'static str) -> Self {
        Self { side, what, words: 0, memory: None }
    }

    /// Grows the memory to at least `words` words; its contents may be lost. No running launch may
    /// use the memory.
    pub(super) fn reserve(
        &mut self,
        device: &D,
        words: usize,
    ) -> Result<&mut D::Memory, BackendError> {
        if self.words < words || self.memory.is_none() {
            // Freed first, so that the old and the new memory do not exist at the same time.
            self.memory = None;
            let before = mem::take(&mut self.words);
            let (words, memory) = self.allocate(device, words.max(16), before + before / 2)?;
            (self.words, self.memory) = (words, Some(memory));
        }
        Ok(self.memory.as_mut().expect("allocated above"))
    }

    /// Grows memory of the device to at least `words` words and keeps its contents. If this fails,
    /// the buffer is as it was. No running launch may use the memory.
    pub(super) fn grow(&mut self, device: &D, words: usize) -> Result<(), BackendError> {
        self.grow_with(device, words, |_| Ok(()))
    }

    /// Like [`grow`](Self::grow); new memory is filled before the contents are copied.
    fn grow_with(
        &mut self,
        device: &D,
        words: usize,
        fill: impl FnOnce(&D::Memory) -> Result<(), CudaError>,
    ) -> Result<(), BackendError> {
        if self.words < words {
            let (words, memory) = self.allocate(device, words, self.words.saturating_mul(2))?;
            fill(&memory)?;
            if let Some(before) = &self.memory {
                device.copy(before, &memory, self.words)?;
            }
            (self.words, self.memory) = (words, Some(memory));
        }
        Ok(())
    }

    /// Allocates `ample` words, if that is more than needed and there is enough memory, or else
    /// the needed ones. Returns the number of words.
    fn allocate(
        &self,
        device: &D,
        needed: usize,
        ample: usize,
    ) -> Result<(usize, D::Memory), BackendError> {
        let ample = needed.max(ample);
        let allocate =
            |words: usize| Ok((words, device.memory(words.saturating_mul(4), self.side)?));
        let allocated = match allocate(ample) {
            Err(CudaError::Memory { .. }) if ample > needed => allocate(needed),
            allocated => allocated,
        };
        allocated.map_err(|error| match error {
            CudaError::Memory { bytes, .. } => {
                BackendError::Memory { what: self.what, bytes: bytes as u64 }
            }
            error => error.into(),
        })
    }

    /// Returns the address of the memory, or 0 if nothing is allocated.
    pub(super) fn address(&self, device: &D) -> u64 {
        self.memory.as_ref().map_or(0, |memory| device.address(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::super::emulated::Emulated;
    use super::*;

    #[test]
    fn a_failed_allocation_leaves_a_usable_buffer() {
        let device = Emulated::new(1);
        device.set_max_bytes(4 * 1000);
        let mut buffer = Buffer::new(MemorySide::Device, "values");
        buffer.reserve(&device, 800).unwrap();
        // Growing by half fails, but the needed size fits.
        buffer.reserve(&device, 900).unwrap();
        assert_eq!(buffer.words, 900);
        let error = buffer.reserve(&device, 1001).err();
        assert!(
            matches!(error, Some(BackendError::Memory { what: "values", bytes: 4004 })),
            "{error:?}"
        );
        assert_eq!((buffer.words, buffer.address(&device)), (0, 0));
        buffer.reserve(&device, 20).unwrap();
        assert_eq!(buffer.words, 20);
    }

    #[test]
    fn a_grown_buffer_keeps_its_contents_also_if_growing_fails() {
        let device = Emulated::new(1);
        device.set_max_bytes(4 * 100);
        let mut buffer = Buffer::new(MemorySide::Device, "values");
        let words: Vec<u32> = (0..60).collect();
        for (grown, expected) in [(20, 20), (30, 40), (60, 80), (90, 90)] {
            buffer.grow(&device, grown).unwrap();
            assert_eq!(buffer.words, expected);
            if grown == 60 {
                device.fill(buffer.memory.as_ref().unwrap(), &words).unwrap();
            }
        }
        let error = buffer.grow(&device, 101).unwrap_err();
        assert!(matches!(error, BackendError::Memory { what: "values", bytes: 404 }), "{error}");
        let (mut read, memory) = (vec![0; 60], buffer.memory.as_ref().unwrap());
        device.read(memory, 0, &mut read).unwrap();
        assert_eq!((buffer.words, read), (90, words));
        assert!(device.read(memory, 31, &mut [0; 60]).is_err(), "91 words");
    }
}
