//! The structs of the header, whose sizes differ between versions.

use std::mem::offset_of;
use std::ptr;

use super::{Plain, check};
use crate::status::{Code, Failure};
use crate::structs::{edbatch_calls, edbatch_options, edbatch_session_statistics};

// SAFETY: numbers and pointers, without padding.
unsafe impl Plain for edbatch_calls {}

/// A struct whose first member is its size in the program of the caller. Later versions add members
/// at the end, so the sizes of the caller and of this library may differ.
///
/// # Safety
/// The first member is a `usize`. There is no padding, and no member lies across a multiple of 8
/// bytes. All bit patterns are values.
unsafe trait Versioned: Copy {}

// SAFETY: by the assertions below; numbers and pointers.
unsafe impl Versioned for edbatch_options {}
// SAFETY: likewise.
unsafe impl Versioned for edbatch_session_statistics {}

const _: () = {
    assert!(offset_of!(edbatch_options, size) == 0 && size_of::<edbatch_options>() == 5 * 8);
    assert!(offset_of!(edbatch_session_statistics, size) == 0);
    assert!(size_of::<edbatch_session_statistics>() == 9 * size_of::<u64>());
};

/// Fails if the size of a struct cannot be right. Returns the bytes of whole members that the
/// caller and this library know.
fn known<T: Versioned>(size: usize) -> Result<usize, Failure> {
    if !(16..=4096).contains(&size) {
        let message = format!(
            "size: expected 16 to 4096, sizeof of the struct, got {size}: set it, of options by \
             edbatch_options_init"
        );
        return Err(Failure::new(Code::Argument, message));
    }
    Ok(size.min(size_of::<T>()) / 8 * 8)
}

/// Copies the known members of a struct of the caller over `defaults`.
///
/// # Safety
/// `from` is not NULL, aligned, and by the promise readable for as many bytes as its first member.
unsafe fn read_known<T: Versioned>(from: *const T, defaults: T) -> Result<T, Failure> {
    // SAFETY: by the function's condition.
    let known = known::<T>(unsafe { from.cast::<usize>().read() })?;
    let mut read = defaults;
    // SAFETY: `known` is at most the caller's size and the size of `T`, whose bits are arbitrary.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut read).cast::<u8>(), known) };
    Ok(read)
}

/// Options that are read, or NULL.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Options(pub(super) *const edbatch_options);

impl Options {
    /// Returns the options of the caller, with defaults for members that its header did not have.
    pub(crate) fn read(&self) -> Result<edbatch_options, Failure> {
        if self.0.is_null() {
            return Ok(edbatch_options::DEFAULT);
        }
        check("options", self.0)?;
        // SAFETY: just checked.
        unsafe { read_known(self.0, edbatch_options::DEFAULT) }
    }
}

/// Options that are set.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct NewOptions(pub(super) *mut edbatch_options);

impl NewOptions {
    /// Sets the defaults, and members that this library does not know to zero.
    pub(crate) fn set_defaults(&self, size: usize) -> Result<(), Failure> {
        check("options", self.0.cast_const())?;
        let known = known::<edbatch_options>(size)?;
        let defaults = edbatch_options { size, ..edbatch_options::DEFAULT };
        let to = self.0.cast::<u8>();
        // SAFETY: not NULL; by the promise `size` bytes are writable. `known` is at most `size` and
        // the size of the defaults.
        unsafe {
            ptr::write_bytes(to, 0, size);
            ptr::copy_nonoverlapping((&raw const defaults).cast::<u8>(), to, known);
        }
        Ok(())
    }
}

/// Statistics that are filled in.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct NewStatistics(pub(super) *mut edbatch_session_statistics);

impl NewStatistics {
    /// Returns the size that the caller has set, after a check.
    pub(crate) fn size(&self) -> Result<usize, Failure> {
        check("statistics", self.0.cast_const())?;
        // SAFETY: just checked; by the promise the first member is readable.
        let size = unsafe { self.0.cast::<usize>().read() };
        known::<edbatch_session_statistics>(size).map(|_| size)
    }

    /// Fills in the members that the caller's header has.
    pub(crate) fn set(&self, statistics: &edbatch_session_statistics) -> Result<(), Failure> {
        let size = self.size()?;
        let known = known::<edbatch_session_statistics>(size)?;
        let statistics = edbatch_session_statistics { size, ..*statistics };
        let from = (&raw const statistics).cast::<u8>();
        // SAFETY: `size` has checked the pointer; by the promise `size` bytes are writable, and
        // `known` is at most that and the size of the statistics.
        unsafe { ptr::copy_nonoverlapping(from, self.0.cast::<u8>(), known) };
        Ok(())
    }
}
