//! Policies by name, opened: a learned one is read from its file.

use std::path::PathBuf;

use crate::{AnyPolicy, FileError, Learned, OtherKinds, PolicyChoice};

impl PolicyChoice {
    /// Creates the policy for graphs whose kinds have these names. A learned policy must have been
    /// learned for exactly these kinds.
    ///
    /// # Errors
    /// If a learned policy cannot be read, or was learned for other kinds.
    pub fn open(&self, kinds: &[impl AsRef<str>]) -> Result<AnyPolicy, OpenError> {
        self.open_with(|learned| learned.open(kinds).map_err(OpenErrorKind::Kinds))
    }

    /// Like [`open`](Self::open), but accepts a policy that was learned for other kinds: see
    /// [`Learned::open_where_known`](crate::Learned::open_where_known).
    ///
    /// # Errors
    /// If a learned policy cannot be read.
    pub fn open_where_known(&self, kinds: &[impl AsRef<str>]) -> Result<AnyPolicy, OpenError> {
        self.open_with(|learned| Ok(learned.open_where_known(kinds)))
    }

    fn open_with(
        &self,
        learned: impl FnOnce(Learned) -> Result<AnyPolicy, OpenErrorKind>,
    ) -> Result<AnyPolicy, OpenError> {
        self.known().or_else(|path| {
            std::fs::read_to_string(path)
                .map_err(OpenErrorKind::Read)
                .and_then(|text| Learned::from_json(&text).map_err(OpenErrorKind::File))
                .and_then(learned)
                .map_err(|kind| OpenError { path: path.into(), kind })
        })
    }
}

/// An error while opening a learned policy.
#[derive(Debug, thiserror::Error)]
#[error("policy {path}: {kind}")]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub kind: OpenErrorKind,
}

/// The cause of an [`OpenError`].
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum OpenErrorKind {
    /// The file cannot be read.
    Read(std::io::Error),
    /// The file is not a learned policy.
    File(FileError),
    /// The policy was learned for other kinds.
    Kinds(OtherKinds),
}
