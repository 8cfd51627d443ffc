//! Why a learned policy cannot be read, or not be used.

use std::fmt;

use super::FORMAT;

/// Why a text is no learned policy.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FileError {
    /// It is no JSON, or not of this shape.
    Json(String),
    /// It does not say that it is a learned policy.
    OtherFormat,
    /// It is of a version that this program does not read.
    OtherVersion {
        /// The version that this sort of policy has.
        expected: u64,
        /// The version.
        got: Option<u64>,
    },
    /// Its encoding is unknown.
    Encoding(String),
    /// A kind is named twice.
    KindTwice(String),
    /// A state mentions a kind that is not among the kinds.
    UnknownKind {
        /// Index of the state.
        state: usize,
        /// The kind.
        name: String,
    },
    /// A state mentions a feature that its encoding does not have.
    UnknownFeature {
        /// Index of the state.
        state: usize,
        /// The feature.
        feature: u16,
    },
    /// A constant of a rule is out of range.
    Constant {
        /// Which.
        name: &'static str,
        /// What it is.
        value: String,
        /// The most that it may be; the least is 0.
        most: String,
    },
    /// Its table would take an absurd amount of memory.
    TooLarge,
}

impl FileError {
    pub(crate) fn json(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a learned policy: {error}"),
            Self::OtherFormat => {
                write!(f, "not a learned policy: expected \"format\": \"{FORMAT}\"")
            }
            Self::OtherVersion { expected, got: None } => {
                write!(f, "expected \"version\": {expected}")
            }
            Self::OtherVersion { expected, got: Some(got) } => {
                write!(f, "expected \"version\": {expected}, got {got}: learn it again")
            }
            Self::Encoding(error) => write!(f, "{error}"),
            Self::KindTwice(name) => write!(f, "kind `{name}` is named twice"),
            Self::UnknownKind { state, name } => {
                write!(f, "state {state}: `{name}` is not among the kinds")
            }
            Self::UnknownFeature { state, feature } => {
                write!(f, "state {state}: the encoding has no feature {feature}")
            }
            Self::Constant { name, value, most } => {
                write!(f, "expected \"{name}\" from 0 to {most}, got {value}")
            }
            Self::TooLarge => write!(f, "the table is too large to be one that was learned"),
        }
    }
}

impl std::error::Error for FileError {}

/// A policy was learned for other kinds than the graph's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OtherKinds {
    /// Kinds that it was learned for and the graph does not have.
    pub missing: Vec<String>,
    /// Kinds of the graph that it was not learned for.
    pub unknown: Vec<String>,
}

impl fmt::Display for OtherKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the policy was learned for other kinds")?;
        for (what, names) in
            [("it does not know", &self.unknown), ("the graph lacks", &self.missing)]
        {
            if !names.is_empty() {
                write!(f, "; {what} `{}`", names.join("`, `"))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for OtherKinds {}
