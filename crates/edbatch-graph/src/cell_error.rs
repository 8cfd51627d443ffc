//! The error of an invalid declaration.

use std::fmt;

use crate::{Shape, Var};

/// The error of an invalid declaration: of a cell, a record, a parameter or an initial value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CellError {
    /// The cell, or empty if the error is not in a cell.
    pub cell: Box<str>,
    /// The declaration or the operation.
    pub at: At,
    /// The shapes of the operands.
    pub shapes: Vec<Shape>,
    /// The expected operands or names.
    pub expected: Box<str>,
    /// The operands or names instead, unless the shapes tell them.
    pub got: Option<Box<str>>,
}

/// The place of a [`CellError`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum At {
    /// A declaration, such as `port children`.
    Declaration(String),
    /// An operation.
    Operation {
        /// Its variable, unless the equations are written as Rust.
        var: Option<Var>,
        /// Its name and numbers.
        op: String,
    },
}

impl CellError {
    /// An error at a declaration or an operation. `expected` may end in `, got …`.
    #[must_use]
    pub fn new(cell: &str, at: impl Into<At>, shapes: &[Shape], expected: &str) -> Self {
        let (expected, got) = match expected.rsplit_once(", got ") {
            Some((expected, got)) => (expected, Some(got.into())),
            None => (expected, None),
        };
        let (cell, shapes) = (cell.into(), shapes.into());
        Self { cell, at: at.into(), shapes, expected: expected.into(), got }
    }
}

impl<S: Into<String>> From<S> for At {
    fn from(declaration: S) -> Self {
        Self::Declaration(declaration.into())
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declaration(what) | Self::Operation { var: None, op: what } => f.write_str(what),
            Self::Operation { var: Some(var), op } => write!(f, "{var}, {op}"),
        }
    }
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.cell.is_empty() {
            write!(f, "cell {}: ", self.cell)?;
        }
        write!(f, "{}", self.at)?;
        for (i, shape) in self.shapes.iter().enumerate() {
            write!(f, "{}{shape}", if i == 0 { " of " } else { " and " })?;
        }
        write!(f, ": expected {}", self.expected)?;
        self.got.as_ref().map_or(Ok(()), |got| write!(f, ", got {got}"))
    }
}

impl std::error::Error for CellError {}
