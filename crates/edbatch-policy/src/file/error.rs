//! Errors of reading a learned policy, and of opening it for a graph.

use super::{FORMAT, MAX_ENTRIES, RULE, TABLE};

/// An error in the file of a learned policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text is not JSON, or a field is missing, unknown or of another type.
    #[error("not a learned policy: {0}")]
    Json(String),
    /// The field `format` does not name a learned policy.
    #[error("not a learned policy: expected \"format\": \"{FORMAT}\"")]
    OtherFormat,
    /// The version is missing or not supported.
    #[error(
        "expected \"version\": {TABLE} or {RULE}, got {}",
        got.map_or("none".into(), |got| format!("{got}: learn it again"))
    )]
    OtherVersion {
        /// The version in the file.
        got: Option<u64>,
    },
    /// The encoding is unknown.
    #[error("{0}")]
    Encoding(String),
    /// A kind is listed twice.
    #[error("kind `{0}` is listed twice")]
    KindTwice(String),
    /// A state mentions a kind that the file does not list.
    #[error("state {state}: `{name}` is not among the kinds")]
    UnknownKind {
        /// Index of the state.
        state: usize,
        /// The kind.
        name: String,
    },
    /// A state mentions a feature that its encoding does not have.
    #[error("state {state}: the encoding has no feature {feature}")]
    UnknownFeature {
        /// Index of the state.
        state: usize,
        /// The feature.
        feature: u16,
    },
    /// A constant of a rule is out of range.
    #[error("expected \"{name}\" from 0 to {max}, got {value}")]
    Constant {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The largest valid value; the smallest is 0.
        max: String,
    },
    /// The table would take too much memory.
    #[error("expected a table of at most {MAX_ENTRIES} entries")]
    TooLarge,
}

impl FileError {
    pub(super) fn json(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

/// A policy that was learned for other kinds than the graph's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the policy was learned for other kinds{}{}",
    listed("it does not know", unknown),
    listed("the graph lacks", missing)
)]
pub struct OtherKinds {
    /// Kinds that the policy was learned for and the graph does not have.
    pub missing: Vec<String>,
    /// Kinds of the graph that the policy was not learned for.
    pub unknown: Vec<String>,
}

fn listed(what: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; {what} `{}`", names.join("`, `")) }
}
