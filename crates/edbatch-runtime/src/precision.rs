//! The precision of products of weights and vectors.

use std::fmt;
use std::str::FromStr;

/// The precision of the factors of products of weights and vectors: `MatMul` of a parameter, or of
/// the transpose of one, and a vector. All sums and all other operations are in `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// 32-bit floats.
    #[default]
    F32,
    /// Both factors are rounded to bf16, which has 8 bits of mantissa. The error of a sum of K
    /// terms w x is at most `(2⁻⁷ + 2⁻¹⁶ + K · 2⁻²⁴) · Σ |w x|`. Packed weights take half the
    /// memory.
    Bf16,
}

impl Precision {
    /// Returns the name: `f32` or `bf16`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that is not a precision.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a precision: choose f32 or bf16")]
pub struct UnknownPrecision(String);

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, UnknownPrecision> {
        let known = [Self::F32, Self::Bf16].into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| UnknownPrecision(name.to_owned()))
    }
}
