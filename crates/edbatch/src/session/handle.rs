//! Names of a session's values.

use std::fmt;

/// A value of a [`Session`](super::Session): computed, given, or an initial value of the network.
///
/// A handle belongs to the session that returned it; another session may use the same handle for
/// another value. No later value gets the handle of a released one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Handle(i64);

/// The meaning of a handle.
pub(super) enum Named {
    /// The initial value with this index.
    Initial(usize),
    /// The value of an entry, if the entry has this generation.
    Entry { index: u32, generation: u32 },
}

impl Handle {
    /// Returns the initial value with this index in
    /// [`Network::initial_values`](edbatch_graph::Network::initial_values). It always exists, and
    /// cannot be released.
    ///
    /// # Panics
    /// If the index is 2⁶³ or more.
    #[must_use]
    pub const fn initial(index: usize) -> Self {
        assert!(index as u64 <= i64::MAX as u64, "an index of an initial value");
        Self(-1 - index as i64)
    }

    /// Returns the handle as a number: -1, -2, … for initial values, at least 2³² for others.
    #[must_use]
    pub const fn to_bits(self) -> i64 {
        self.0
    }

    /// Returns the handle with this number, whether or not it names a value.
    #[must_use]
    pub const fn from_bits(bits: i64) -> Self {
        Self(bits)
    }

    /// Creates the handle of an entry. `generation` is 1 to 2³¹ - 1.
    pub(super) fn of_entry(index: u32, generation: u32) -> Self {
        Self(i64::from(generation) << 32 | i64::from(index))
    }

    #[inline]
    pub(super) fn named(self) -> Named {
        match usize::try_from(-1 - self.0) {
            Ok(index) if self.0 < 0 => Named::Initial(index),
            _ => Named::Entry { index: self.0 as u32, generation: (self.0 >> 32) as u32 },
        }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
