//! Spans for subscribers of the crate `tracing`.
//!
//! Without the feature `tracing`, spans compile to nothing. With it, but without a subscriber, a
//! span costs a load and a comparison: its fields are not computed, and the code that computes them
//! is out of line, so that loops over small batches fit in the instruction cache.

/// The target of all spans, by which subscribers select them.
#[doc(hidden)]
pub const SPAN_TARGET: &str = "edbatch";

/// `span!(LEVEL, name, fields…)` starts a span, which ends when the result is dropped.
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

/// Expands to an empty guard: the fields are not computed.
#[cfg(not(feature = "tracing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! span {
    ($($fields:tt)+) => {
        $crate::SpanGuard {}
    };
}

/// Ends its span, if any, when dropped. There is a span only if a subscriber is interested.
#[doc(hidden)]
#[derive(Debug)]
pub struct SpanGuard {
    #[cfg(feature = "tracing")]
    span: Option<Box<tracing::span::EnteredSpan>>,
}

#[cfg(feature = "tracing")]
impl SpanGuard {
    /// Enters a span if a subscriber is interested in its level.
    #[inline(always)]
    #[must_use]
    pub fn new(level: tracing::Level, span: impl FnOnce() -> tracing::Span) -> Self {
        use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

        let enabled = level <= STATIC_MAX_LEVEL && level <= LevelFilter::current();
        if enabled { Self::enter(span) } else { Self { span: None } }
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
