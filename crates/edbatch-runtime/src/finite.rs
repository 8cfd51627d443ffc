//! NaN and infinities in weights.

use std::fmt;
use std::ops::Range;

use edbatch_graph::ParameterId;

use crate::Parameters;

/// An element that is NaN or infinite.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NotFinite {
    /// Not a number.
    NaN,
    /// Positive infinity.
    Infinity,
    /// Negative infinity.
    MinusInfinity,
}

impl NotFinite {
    /// Returns the index and the kind of the first element that is not finite.
    ///
    /// ```
    /// use edbatch_runtime::NotFinite;
    ///
    /// let found = NotFinite::first([1.0, f32::MAX, -f32::INFINITY, f32::NAN]);
    /// assert_eq!(found, Some((2, NotFinite::MinusInfinity)));
    /// ```
    #[must_use]
    pub fn first(elements: impl IntoIterator<Item = f32>) -> Option<(usize, Self)> {
        let (index, element) =
            elements.into_iter().enumerate().find(|(_, element)| !element.is_finite())?;
        let kind = match element {
            _ if element.is_nan() => Self::NaN,
            _ if element > 0.0 => Self::Infinity,
            _ => Self::MinusInfinity,
        };
        Some((index, kind))
    }
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NaN => "NaN",
            Self::Infinity => "inf",
            Self::MinusInfinity => "-inf",
        })
    }
}

/// An element of a weight tensor that is not finite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFiniteWeight {
    /// The tensor's name.
    pub name: String,
    /// The element's index in each dimension.
    pub index: Vec<usize>,
    /// The element.
    pub value: NotFinite,
}

impl fmt::Display for NotFiniteWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, index, value } = self;
        write!(f, "tensor {name}, which is {value} at {index:?}")
    }
}

impl Parameters {
    /// Returns the first element that is NaN or infinite. Tensors are searched in declaration
    /// order.
    #[must_use]
    pub fn not_finite(&self) -> Option<NotFiniteWeight> {
        let ids = (0..self.declared().len()).map(|id| ParameterId(id as u32));
        ids.into_iter().find_map(|id| self.not_finite_within(id, 0..self.get(id).len()))
    }

    /// Returns the first element that is not finite in a range of a row-major tensor.
    ///
    /// # Panics
    /// If the range ends after the last element.
    #[must_use]
    pub fn not_finite_within(
        &self,
        id: ParameterId,
        elements: Range<usize>,
    ) -> Option<NotFiniteWeight> {
        let start = elements.start;
        let (index, value) = NotFinite::first(self.get(id)[elements].iter().copied())?;
        let parameter = &self.declared()[id.0 as usize];
        let index = index_in(&parameter.dims, start + index);
        Some(NotFiniteWeight { name: parameter.name.clone(), index, value })
    }
}

/// Converts the position of an element in a row-major tensor to its index in each dimension.
fn index_in(dims: &[usize], mut element: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (index, dim) in index.iter_mut().zip(dims).rev() {
        (*index, element) = (element % dim, element / dim);
    }
    index
}
