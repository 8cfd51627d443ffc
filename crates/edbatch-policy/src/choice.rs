//! Policies by name, as on the command line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::{Agenda, AnyPolicy, Beam, ByDepth, Critical, Depth, LookAhead, PairRule, Sufficient};

/// A policy by name: `depth`, `by-depth`, `agenda`, `sufficient`, `critical`, `critical:pair`,
/// `critical:soft`, `beam:WIDTH[:SECONDS]` or `exact[:SECONDS]`. Any other word is the path of a
/// learned policy.
///
/// ```
/// use edbatch_policy::PolicyChoice;
///
/// assert_eq!("beam:32".parse(), Ok(PolicyChoice::Beam(32, None)));
/// assert_eq!("tree.json".parse(), Ok(PolicyChoice::File("tree.json".into())));
/// let error = "beam:none".parse::<PolicyChoice>().unwrap_err();
/// let expected = "expected beam:WIDTH with a width of at least 1, got `beam:none`";
/// assert_eq!(error.to_string(), expected);
/// assert!("exact:0.5".parse::<PolicyChoice>().is_ok());
/// assert!("exact:1e-12".parse::<PolicyChoice>().is_err(), "less than a nanosecond");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PolicyChoice {
    /// [`Depth`](crate::Depth).
    Depth,
    /// [`ByDepth`](crate::ByDepth).
    ByDepth,
    /// [`Agenda`](crate::Agenda).
    Agenda,
    /// [`Sufficient`](crate::Sufficient).
    Sufficient,
    /// [`Critical`](crate::Critical).
    Critical,
    /// [`LookAhead`](crate::LookAhead) with [`PairRule::pair`].
    CriticalPair,
    /// [`LookAhead`](crate::LookAhead) with [`PairRule::soft`].
    CriticalSoft,
    /// A [beam search](Beam) of this width, with a time limit for each graph.
    Beam(usize, Option<Duration>),
    /// A [search](Beam::exact) for an optimal schedule, with a time limit for each graph.
    Exact(Option<Duration>),
    /// A [learned](crate::Learned) policy from a file.
    File(PathBuf),
}

/// The names without parameters.
const NAMES: [(&str, PolicyChoice); 7] = [
    ("depth", PolicyChoice::Depth),
    ("by-depth", PolicyChoice::ByDepth),
    ("agenda", PolicyChoice::Agenda),
    ("sufficient", PolicyChoice::Sufficient),
    ("critical", PolicyChoice::Critical),
    ("critical:pair", PolicyChoice::CriticalPair),
    ("critical:soft", PolicyChoice::CriticalSoft),
];

impl PolicyChoice {
    /// Creates the policy, or returns the file of a learned policy.
    pub(crate) fn known(&self) -> Result<AnyPolicy, &Path> {
        Ok(match self {
            Self::Depth => Box::new(Depth::new()),
            Self::ByDepth => Box::new(ByDepth::default()),
            Self::Agenda => Box::new(Agenda::new()),
            Self::Sufficient => Box::new(Sufficient::new()),
            Self::Critical => Box::new(Critical::new()),
            Self::CriticalPair => Box::new(LookAhead::new(PairRule::pair())),
            Self::CriticalSoft => Box::new(LookAhead::new(PairRule::soft())),
            Self::Beam(width, within) => Box::new(limited(Beam::new(*width), *within)),
            Self::Exact(within) => Box::new(limited(Beam::exact(), *within)),
            Self::File(path) => return Err(path),
        })
    }
}

fn limited(beam: Beam, within: Option<Duration>) -> Beam {
    within.into_iter().fold(beam, Beam::within)
}

impl FromStr for PolicyChoice {
    type Err = ChoiceError;

    fn from_str(word: &str) -> Result<Self, ChoiceError> {
        if let Some((_, choice)) = NAMES.into_iter().find(|(name, _)| *name == word) {
            return Ok(choice);
        }
        let mut parts = word.splitn(3, ':');
        let (name, first, second) = (parts.next().unwrap_or(""), parts.next(), parts.next());
        match (name, first, second) {
            ("", None, None) => Err(ChoiceError::Empty),
            ("critical", Some(_), _) => Err(ChoiceError::Critical(word.into())),
            ("beam", Some(width), within) => match width.parse() {
                Ok(width) if width > 0 => Ok(Self::Beam(width, seconds(word, within)?)),
                _ => Err(ChoiceError::Width(word.into())),
            },
            ("exact", within, None) => Ok(Self::Exact(seconds(word, within)?)),
            _ => Ok(Self::File(word.into())),
        }
    }
}

/// Parses a time limit: at least a nanosecond, at most a year.
fn seconds(word: &str, text: Option<&str>) -> Result<Option<Duration>, ChoiceError> {
    let Some(text) = text else { return Ok(None) };
    let seconds = text.parse().ok().filter(|seconds| (0.0..3.2e7).contains(seconds));
    match seconds.map(Duration::from_secs_f64) {
        // Shorter times round to zero.
        Some(within) if !within.is_zero() => Ok(Some(within)),
        _ => Err(ChoiceError::Seconds(word.into())),
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beam(width, _) => write!(f, "beam:{width}")?,
            Self::Exact(_) => f.write_str("exact")?,
            Self::File(path) => return write!(f, "{}", path.display()),
            named => {
                let (name, _) = NAMES.iter().find(|(_, choice)| choice == named).expect("a name");
                return f.write_str(name);
            }
        }
        match self {
            Self::Beam(_, Some(within)) | Self::Exact(Some(within)) => {
                write!(f, ":{}", within.as_secs_f64())
            }
            _ => Ok(()),
        }
    }
}

/// A word that names no policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The name is empty.
    #[error(
        "expected depth, by-depth, agenda, sufficient, critical, critical:pair, critical:soft, \
         beam:WIDTH[:SECONDS], exact[:SECONDS] or a learned policy's file"
    )]
    Empty,
    /// An unknown variant of `critical`.
    #[error("expected critical, critical:pair or critical:soft, got `{0}`")]
    Critical(String),
    /// The width of a beam is not a positive number.
    #[error("expected beam:WIDTH with a width of at least 1, got `{0}`")]
    Width(String),
    /// A time limit is not a number of seconds between a nanosecond and a year.
    #[error("expected a time limit in seconds at the end, from a nanosecond to a year, got `{0}`")]
    Seconds(String),
}
