//! The pointers of C callers, with a check before each use.
//!
//! The types of this file are the arguments of the exported functions, each with the layout of the
//! pointer that it holds. No code of Rust can make one: they come from C. The header states what a
//! caller promises, and every `SAFETY` comment below refers to it:
//!
//! *The promise*: a pointer that is neither NULL nor misaligned points to memory of its type and of
//! the length that is passed with it. The memory is valid during the call, and nothing else writes
//! to it meanwhile. Pointers to objects are those that this library returned, and were not freed.

pub(crate) mod versioned;

use std::ffi::{CStr, c_char};
use std::{ptr, slice};

use edbatch::Handle;
use edbatch::graph::Kind;

use crate::status::Failure;

/// A type that C and Rust share.
///
/// # Safety
/// All bit patterns are values of it.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($Type:ty)*) => { $(
        // SAFETY: numbers, transparent wrappers of numbers, and structs of numbers and pointers.
        unsafe impl Plain for $Type {}
    )* };
}

plain!(u8 u16 u32 i32 i64 usize f32 Kind Handle);

/// Fails if a pointer is NULL or misaligned. `what` names the argument in errors.
#[inline]
fn check<T>(what: &str, pointer: *const T) -> Result<(), Failure> {
    match pointer.is_null() {
        true => Err(invalid(what, format_args!("expected a pointer, got NULL"))),
        false => check_alignment(what, pointer),
    }
}

#[inline]
fn check_alignment<T>(what: &str, pointer: *const T) -> Result<(), Failure> {
    let align = align_of::<T>();
    match pointer.is_aligned() {
        true => Ok(()),
        false => Err(invalid(what, format_args!("the pointer is not aligned to {align} bytes"))),
    }
}

/// Fails if no array can have this length.
#[inline]
fn check_length<T>(what: &str, length: usize) -> Result<(), Failure> {
    match length.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(invalid(what, format_args!("{length} elements exceed the address space"))),
    }
}

#[cold]
fn invalid(what: &str, problem: std::fmt::Arguments<'_>) -> Failure {
    Failure::argument(&format!("{what}: {problem}"))
}

/// An array that is read.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Array<T>(*const T);

impl<T: Plain> Array<T> {
    /// Returns the elements. `length` is the argument of the caller that belongs to the array, and
    /// `what` is the array's name in errors.
    #[inline]
    pub(crate) fn slice(&self, what: &str, length: usize) -> Result<&[T], Failure> {
        if length == 0 {
            check_alignment(what, self.0)?;
            return Ok(&[]);
        }
        check(what, self.0)?;
        check_length::<T>(what, length)?;
        // SAFETY: not NULL, aligned, and at most `isize::MAX` bytes, as was just checked. By the
        // promise there are `length` elements, which live longer than `self`, an argument.
        Ok(unsafe { slice::from_raw_parts(self.0, length) })
    }
}

/// The bytes of a file.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct FileBytes(Array<u8>);

impl FileBytes {
    pub(crate) fn slice(&self, what: &str, length: usize) -> Result<&[u8], Failure> {
        self.0.slice(what, length)
    }
}

/// An array that is written, or a single result. Its elements need not be initialized.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// Checked memory for results, which are not yet written.
pub(crate) struct Room<T> {
    /// *Invariant*: NULL if `length` is 0, else writable for `length` elements.
    pointer: *mut T,
    length: usize,
}

impl<T: Plain> Out<T> {
    /// Returns the memory for `length` elements. `length` is 1 for a single result, and otherwise
    /// the argument of the caller that belongs to the array.
    #[inline]
    pub(crate) fn room(&self, what: &str, length: usize) -> Result<Room<T>, Failure> {
        if length == 0 {
            check_alignment(what, self.0)?;
            return Ok(Room { pointer: ptr::null_mut(), length });
        }
        check(what, self.0)?;
        check_length::<T>(what, length)?;
        Ok(Room { pointer: self.0, length })
    }

    /// Returns the memory for a single result that the caller may leave out.
    #[inline]
    pub(crate) fn optional(&self, what: &str) -> Result<Room<T>, Failure> {
        self.room(what, usize::from(!self.0.is_null()))
    }
}

impl<T: Plain> Room<T> {
    /// Writes elements from `start` on.
    ///
    /// # Panics
    /// If there is no room for them.
    #[inline]
    pub(crate) fn write(&self, start: usize, elements: &[T]) {
        assert!(start <= self.length && elements.len() <= self.length - start, "checked before");
        if elements.is_empty() {
            return;
        }
        // SAFETY: the assertion, and the invariant. The elements are in memory of this library, so
        // they do not overlap.
        unsafe {
            ptr::copy_nonoverlapping(elements.as_ptr(), self.pointer.add(start), elements.len());
        }
    }

    /// Writes a single result, if the caller wants it.
    #[inline]
    pub(crate) fn set(&self, value: T) {
        if self.length > 0 {
            // SAFETY: the invariant: there is room for an element.
            unsafe { self.pointer.write(value) };
        }
    }
}

/// A string that ends in a zero byte.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// NULL.
    pub(crate) const NULL: Self = Self(ptr::null());

    /// Returns the string. `what` names it in errors.
    pub(crate) fn read(&self, what: &str) -> Result<&str, Failure> {
        let text = self.optional(what)?;
        text.ok_or_else(|| Failure::argument(&format!("{what}: expected a string, got NULL")))
    }

    /// Returns the string, or `None` for NULL.
    pub(crate) fn optional(&self, what: &str) -> Result<Option<&str>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: not NULL. By the promise it ends in a zero byte and lives longer than `self`.
        let text = unsafe { CStr::from_ptr(self.0) };
        let text = text.to_str().map_err(|error| {
            Failure::argument(&format!("{what}: expected a string in UTF-8: {error}"))
        })?;
        Ok(Some(text))
    }
}

/// An object of this library. The function uses only the part of it that never changes.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct ConstObject<T>(*const T);

/// An object of this library. The function may change it, if no other thread uses it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Object<T>(ConstObject<T>);

impl<T: Sync> ConstObject<T> {
    #[inline]
    pub(crate) fn get(&self, what: &str) -> Result<&T, Failure> {
        check(what, self.0)?;
        // SAFETY: not NULL and aligned. By the promise it is an object that is not freed during the
        // call. Objects are `Sync`, so threads may share the reference.
        Ok(unsafe { &*self.0 })
    }
}

impl<T: Sync> Object<T> {
    #[inline]
    pub(crate) fn get(&self, what: &str) -> Result<&T, Failure> {
        self.0.get(what)
    }
}

/// An object that is about to be freed, or NULL.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Freed<T>(*mut T);

impl<T> Freed<T> {
    /// Returns the object. The caller promises that it does not use it again.
    pub(crate) fn take(self) -> Option<Box<T>> {
        check("", self.0.cast_const()).ok()?;
        // SAFETY: by the promise it is an object that this library returned, by `Made::set`, so it
        // was a box. No other call on it runs or follows.
        Some(unsafe { Box::from_raw(self.0) })
    }
}

/// The place for a new object.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Made<T>(*mut *mut T);

impl<T> Made<T> {
    /// Sets the place to NULL. Call it first, so that it is NULL after every failure.
    pub(crate) fn clear(&self, what: &str) -> Result<(), Failure> {
        check(what, self.0.cast_const())?;
        // SAFETY: not NULL and aligned; by the promise it is writable.
        unsafe { self.0.write(ptr::null_mut()) };
        Ok(())
    }

    /// Hands an object over to the caller. The place must have been [cleared](Self::clear).
    pub(crate) fn set(&self, object: T) {
        assert!(!self.0.is_null() && self.0.is_aligned(), "cleared before");
        // SAFETY: as in `clear`.
        unsafe { self.0.write(Box::into_raw(Box::new(object))) };
    }
}

#[cfg(test)]
mod tests;
