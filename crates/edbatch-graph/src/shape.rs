//! Shapes of tensors inside a cell: vectors and matrices, never empty.

use std::fmt;

/// The shape of a tensor inside a cell. Matrices are row-major.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Shape {
    /// A column vector, with its number of elements.
    Vector(u32),
    /// A matrix, with its numbers of rows and columns.
    Matrix(u32, u32),
}

impl Shape {
    /// Returns the shape with these dimensions: `[n]` or `[rows, columns]`.
    ///
    /// `None` unless there are one or two nonzero dimensions and fewer than 2³¹ elements.
    #[must_use]
    pub fn new(dims: &[usize]) -> Option<Self> {
        let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
        if elements == 0 || elements >= 1 << 31 {
            return None;
        }
        match *dims {
            [n] => Some(Self::Vector(n as u32)),
            [rows, columns] => Some(Self::Matrix(rows as u32, columns as u32)),
            _ => None,
        }
    }

    /// Returns false for sizes that [`Shape::new`] rejects; the public variants can hold them.
    pub(crate) fn is_valid(self) -> bool {
        let elements = match self {
            Self::Vector(n) => u64::from(n),
            Self::Matrix(rows, columns) => u64::from(rows) * u64::from(columns),
        };
        elements > 0 && elements < 1 << 31
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn elements(self) -> usize {
        match self {
            Self::Vector(n) => n as usize,
            Self::Matrix(rows, columns) => rows as usize * columns as usize,
        }
    }

    /// Returns the numbers of rows and columns. A vector is a single column.
    #[must_use]
    pub fn rows_and_columns(self) -> (usize, usize) {
        match self {
            Self::Vector(n) => (n as usize, 1),
            Self::Matrix(rows, columns) => (rows as usize, columns as usize),
        }
    }
}

/// `[64]` or `[64, 32]`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(n) => write!(f, "[{n}]"),
            Self::Matrix(rows, columns) => write!(f, "[{rows}, {columns}]"),
        }
    }
}
