//! Spans of what runs, for subscribers of the crate `tracing`.
//!
//! With the feature `tracing` a span is what that crate says: a load and a comparison where no
//! subscriber is installed, and its fields are not computed. Without the feature there is nothing.

/// Whose spans these are: what subscribers select them by.
#[doc(hidden)]
pub const SPAN_TARGET: &str = "edbatch";

/// `span!(LEVEL, name, fields…)`: a span from here to where the value is dropped.
#[cfg(feature = "tracing")]
#[doc(hidden)]
#[macro_export]
macro_rules! span {
    ($level:ident, $($fields:tt)+) => {
        $crate::tracing::span!(
            target: $crate::SPAN_TARGET,
            $crate::tracing::Level::$level,
            $($fields)+
        )
        .entered()
    };
}

/// Nothing, and none of its fields is computed.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! span {
    ($($fields:tt)+) => {
        $crate::NoSpan
    };
}

/// What stands where a span would be.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[derive(Debug)]
pub struct NoSpan;
