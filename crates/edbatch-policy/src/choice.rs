//! A policy by its word, as on the command line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Agenda, AnyPolicy, Beam, Critical, Depth, FileError, Learned, OtherKinds, Sufficient};

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

impl PolicyChoice {
    /// The policy, for graphs whose kinds have these names. A learned one must have been learned
    /// for exactly these kinds.
    ///
    /// # Errors
    /// If a learned policy cannot be read, or was learned for other kinds.
    pub fn open(&self, kinds: &[impl AsRef<str>]) -> Result<AnyPolicy, OpenError> {
        let fsm = |learned: Learned| learned.fsm(kinds).map_err(OpenErrorKind::Kinds);
        self.open_with(|learned| Ok(Box::new(fsm(learned)?)))
    }

    /// As [`open`](Self::open), but a learned policy may have been learned for other kinds: states
    /// with a kind that it does not know go to [`Critical`].
    ///
    /// # Errors
    /// If a learned policy cannot be read.
    pub fn open_where_known(&self, kinds: &[impl AsRef<str>]) -> Result<AnyPolicy, OpenError> {
        self.open_with(|learned| Ok(Box::new(learned.fsm_where_known(kinds))))
    }

    fn open_with(
        &self,
        fsm: impl FnOnce(Learned) -> Result<AnyPolicy, OpenErrorKind>,
    ) -> Result<AnyPolicy, OpenError> {
        Ok(match self {
            Self::Depth => Box::new(Depth::new()),
            Self::Agenda => Box::new(Agenda::new()),
            Self::Sufficient => Box::new(Sufficient::new()),
            Self::Critical => Box::new(Critical::new()),
            Self::Beam(width) => Box::new(Beam::new(*width)),
            Self::File(path) => std::fs::read_to_string(path)
                .map_err(OpenErrorKind::Read)
                .and_then(|text| Learned::from_json(&text).map_err(OpenErrorKind::File))
                .and_then(fsm)
                .map_err(|kind| OpenError { path: path.clone(), kind })?,
        })
    }
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
#[non_exhaustive]
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

/// A learned policy that cannot be used.
#[derive(Debug)]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub kind: OpenErrorKind,
}

/// Why a learned policy cannot be used.
#[derive(Debug)]
pub enum OpenErrorKind {
    /// The file cannot be read.
    Read(std::io::Error),
    /// It is no learned policy.
    File(FileError),
    /// It was learned for other kinds.
    Kinds(OtherKinds),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}: ", self.path.display())?;
        match &self.kind {
            OpenErrorKind::Read(error) => write!(f, "{error}"),
            OpenErrorKind::File(error) => write!(f, "{error}"),
            OpenErrorKind::Kinds(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for OpenError {}
