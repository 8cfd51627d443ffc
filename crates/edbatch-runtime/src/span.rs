//! Spans of what runs, for subscribers of the crate `tracing`.
//!
//! With the feature `tracing` a span is what that crate says. Where no subscriber is installed it
//! is a load and a comparison: its fields are not computed, and the code that would compute them
//! lies elsewhere, so that loops over small batches still fit in the cache of instructions. Without
//! the feature there is nothing.

/// Whose spans these are: what subscribers select them by.
#[doc(hidden)]
pub const SPAN_TARGET: &str = "edbatch";

/// `span!(LEVEL, name, fields…)`: a span from here to where the value is dropped.
#[cfg(feature = "tracing")]
#[doc(hidden)]
#[macro_export]
macro_rules! span {
    ($level:ident, $($fields:tt)+) => {
        $crate::SpanGuard::new($crate::tracing::Level::$level, || {
            $crate::tracing::span!(
                target: $crate::SPAN_TARGET,
                $crate::tracing::Level::$level,
                $($fields)+
            )
        })
    };
}

/// Nothing, and none of its fields is computed.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! span {
    ($($fields:tt)+) => {
        $crate::SpanGuard {}
    };
}

/// A span, if anybody listens, until this is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct SpanGuard {
    #[cfg(feature = "tracing")]
    span: Option<Box<tracing::span::EnteredSpan>>,
}

#[cfg(feature = "tracing")]
impl SpanGuard {
    /// Enters a span of a level, which is made only if anybody listens.
    #[inline(always)]
    #[must_use]
    pub fn new(level: tracing::Level, span: impl FnOnce() -> tracing::Span) -> Self {
        use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

        let heard = level <= STATIC_MAX_LEVEL && level <= LevelFilter::current();
        if heard { Self::enter(span) } else { Self { span: None } }
    }

    #[cold]
    #[inline(never)]
    fn enter(span: impl FnOnce() -> tracing::Span) -> Self {
        Self { span: Some(Box::new(span().entered())) }
    }
}

#[cfg(feature = "tracing")]
impl Drop for SpanGuard {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            leave(span);
        }
    }
}

#[cfg(feature = "tracing")]
#[cold]
#[inline(never)]
fn leave(span: Box<tracing::span::EnteredSpan>) {
    drop(span);
}
