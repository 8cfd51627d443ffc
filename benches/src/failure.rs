//! The error of everything that measures or renders.

/// A message for the user, from any cause.
pub type Failure = Box<dyn std::error::Error>;
