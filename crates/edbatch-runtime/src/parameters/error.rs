//! Errors of weights.

use std::cmp::Reverse;
use std::collections::HashSet;

use edbatch_graph::Network;
use safetensors::SafeTensorError;

/// The error for weights that do not match a network, or cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The file is not a valid safetensors file.
    #[error("not a readable safetensors file: {0}")]
    Format(SafeTensorError),
    /// The file is of another format, or damaged.
    #[error("not a readable safetensors file: {what}")]
    File {
        /// A description of the file, and of what to do.
        what: String,
    },
    /// A tensor that the network declares is missing.
    #[error(
        "tensor {name} is missing; the model needs it with shape {dims:?}{}",
        similar.as_ref().map_or(String::new(), |other| {
            format!("; if {other} is this tensor, rename it to {name}")
        })
    )]
    Missing {
        /// The tensor's name.
        name: String,
        /// Its dimensions.
        dims: Vec<usize>,
        /// The name of a tensor that the network does not declare, and that ends alike.
        similar: Option<String>,
    },
    /// The network does not declare a tensor of the file.
    #[error("unexpected tensor {name} of shape {dims:?}: the model does not declare it")]
    Surplus {
        /// The tensor's name.
        name: String,
        /// Its dimensions.
        dims: Vec<usize>,
    },
    /// A tensor does not have the dimensions that the network declares.
    #[error("tensor {name}: the model expects shape {expected:?}, got {got:?}")]
    Shape {
        /// The tensor's name.
        name: String,
        /// The declared dimensions.
        expected: Vec<usize>,
        /// The tensor's dimensions.
        got: Vec<usize>,
    },
    /// A tensor is not of f32, f16 or bf16.
    #[error(
        "tensor {name}: expected F32, F16 or BF16, got {got}; convert it with `.float()` (PyTorch) \
         or `.astype(\"float32\")` (NumPy) before save_file"
    )]
    Type {
        /// The tensor's name.
        name: String,
        /// Its element type.
        got: String,
    },
    /// The gates of a recurrent module cannot be split or stacked.
    #[error("{what}")]
    Gates {
        /// A description of what is wrong, and of what to do.
        what: String,
    },
    /// Memory could not be allocated.
    #[error("out of memory: failed to allocate {:.1} MB for {name}", *bytes as f64 / 1e6)]
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
