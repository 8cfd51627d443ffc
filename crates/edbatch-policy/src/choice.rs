//! A policy by its word, as on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// `depth`, `agenda`, `sufficient`, `critical`, `beam:WIDTH`, or else the path of a learned policy.
///
/// ```
/// use edbatch_policy::PolicyChoice;
///
/// assert_eq!("beam:32".parse(), Ok(PolicyChoice::Beam(32)));
/// assert_eq!("tree.json".parse(), Ok(PolicyChoice::File("tree.json".into())));
/// let error = "beam:none".parse::<PolicyChoice>().unwrap_err();
/// assert_eq!(error.to_string(), "expected beam:WIDTH with a width of at least 1, got `beam:none`");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyChoice {
    /// [`Depth`](crate::Depth).
    Depth,
    /// [`Agenda`](crate::Agenda).
    Agenda,
    /// [`Sufficient`](crate::Sufficient).
    Sufficient,
    /// [`Critical`](crate::Critical).
    Critical,
    /// A beam search of this width.
    Beam(usize),
    /// [`Learned`](crate::Learned), from a file.
    File(PathBuf),
}

impl FromStr for PolicyChoice {
    type Err = ChoiceError;

    fn from_str(word: &str) -> Result<Self, ChoiceError> {
        match word {
            "" => Err(ChoiceError::Empty),
            "depth" => Ok(Self::Depth),
            "agenda" => Ok(Self::Agenda),
            "sufficient" => Ok(Self::Sufficient),
            "critical" => Ok(Self::Critical),
            _ => match word.strip_prefix("beam:") {
                None => Ok(Self::File(word.into())),
                Some(width) => match width.parse() {
                    Ok(width) if width > 0 => Ok(Self::Beam(width)),
                    _ => Err(ChoiceError::Width(word.into())),
                },
            },
        }
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Depth => f.write_str("depth"),
            Self::Agenda => f.write_str("agenda"),
            Self::Sufficient => f.write_str("sufficient"),
            Self::Critical => f.write_str("critical"),
            Self::Beam(width) => write!(f, "beam:{width}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A word that names no policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChoiceError {
    /// There is no word.
    Empty,
    /// The width of a beam is not a positive number.
    Width(String),
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str(
                "expected depth, agenda, sufficient, critical, beam:WIDTH or a learned policy's file",
            ),
            Self::Width(word) => {
                write!(
                    f,
                    "expected beam:WIDTH with a width of at least 1, got `{word}`"
                )
            }
        }
    }
}

impl std::error::Error for ChoiceError {}
