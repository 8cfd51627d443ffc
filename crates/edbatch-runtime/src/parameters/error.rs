//! Errors of weights.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;

use edbatch_graph::Network;
use safetensors::SafeTensorError;

/// The error for weights that do not match a network, or cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ParameterError {
    /// The file is not a valid safetensors file.
    Format(SafeTensorError),
    /// The file is of another format, or damaged.
    File {
        /// A description of the file, and of what to do.
        what: String,
    },
    /// A tensor that the network declares is missing.
    Missing {
        /// The tensor's name.
        name: String,
        /// Its dimensions.
        dims: Vec<usize>,
        /// The name of a tensor that the network does not declare, and that ends alike.
        similar: Option<String>,
    },
    /// The network does not declare a tensor of the file.
    Surplus {
        /// The tensor's name.
        name: String,
        /// Its dimensions.
        dims: Vec<usize>,
    },
    /// A tensor does not have the dimensions that the network declares.
    Shape {
        /// The tensor's name.
        name: String,
        /// The declared dimensions.
        expected: Vec<usize>,
        /// The tensor's dimensions.
        got: Vec<usize>,
    },
    /// A tensor is not of f32, f16 or bf16.
    Type {
        /// The tensor's name.
        name: String,
        /// Its element type.
        got: String,
    },
    /// The gates of a recurrent module cannot be split or stacked.
    Gates {
        /// A description of what is wrong, and of what to do.
        what: String,
    },
    /// Memory could not be allocated.
    Memory {
        /// The purpose, such as `tensor embed.weight`.
        name: String,
        /// The requested size in bytes.
        bytes: u64,
    },
}

impl ParameterError {
    /// Adds to a missing tensor the undeclared one whose name has the most last parts in common.
    pub(super) fn with_similar<'a>(
        mut self,
        network: &Network,
        names: impl Iterator<Item = &'a str>,
    ) -> Self {
        if let Self::Missing { name, similar, .. } = &mut self {
            let declared: HashSet<&str> =
                network.parameters().iter().map(|parameter| parameter.name.as_str()).collect();
            let common = |other: &str| {
                let parts = name.rsplit('.').zip(other.rsplit('.'));
                parts.take_while(|(a, b)| a == b).count()
            };
            let others = names.filter(|other| !declared.contains(other) && common(other) > 0);
            // Of equals the first by name: the order of a file depends on hashing.
            let best = others.min_by_key(|other| (Reverse(common(other)), *other));
            *similar = best.map(Into::into);
        }
        self
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => write!(f, "not a readable safetensors file: {error}"),
            Self::File { what } => write!(f, "not a readable safetensors file: {what}"),
            Self::Missing { name, dims, similar } => {
                write!(f, "tensor {name} is missing; the model needs it with shape {dims:?}")?;
                match similar {
                    Some(other) => write!(f, "; if {other} is this tensor, rename it to {name}"),
                    None => Ok(()),
                }
            }
            Self::Surplus { name, dims } => write!(
                f,
                "unexpected tensor {name} of shape {dims:?}: the model does not declare it"
            ),
            Self::Shape { name, expected, got } => {
                write!(f, "tensor {name}: the model expects shape {expected:?}, got {got:?}")
            }
            Self::Type { name, got } => write!(
                f,
                "tensor {name}: expected F32, F16 or BF16, got {got}; convert it with `.float()` \
                 (PyTorch) or `.astype(\"float32\")` (NumPy) before save_file"
            ),
            Self::Gates { what } => f.write_str(what),
            Self::Memory { name, bytes } => write!(
                f,
                "out of memory: failed to allocate {:.1} MB for {name}",
                *bytes as f64 / 1e6
            ),
        }
    }
}

impl std::error::Error for ParameterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Format(error) => Some(error),
            _ => None,
        }
    }
}
