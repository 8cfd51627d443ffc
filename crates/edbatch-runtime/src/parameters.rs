//! The trained tensors of a network: read from a file, written to a file, or drawn at random.

mod error;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use edbatch_graph::{Network, Parameter, ParameterId};
use edbatch_layout::Weight;
use rand::{Rng, RngExt};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use crate::kernels::{OutOfMemory, trial};
use crate::weights_file::{bytes_of, floats, open_safetensors, serialize};

pub use error::ParameterError;

/// The values of all parameters of a network: row-major `f32`, immutable and shared by clones.
///
/// [`for_network`](Self::for_network) matches tensors by name. So cells may be declared in a
/// different order than when the weights were created:
///
/// ```
/// use edbatch_graph::{Network, Shape};
/// use edbatch_runtime::Parameters;
/// # use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
///
/// let network = |names: [&str; 2]| {
///     let mut network = Network::new();
///     names.map(|name| network.add_parameter(name, &[3]).unwrap());
///     network
/// };
/// let (one, reversed) = (network(["a", "b"]), network(["b", "a"]));
/// # let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
/// let weights = Parameters::random(&one, &mut rng);
/// assert_eq!(weights.for_network(&reversed)?.named("a"), weights.named("a"));
///
/// let error = weights.for_network(&network(["a", "c"])).unwrap_err();
/// assert_eq!(error.to_string(), "tensor c is missing; the model needs it with shape [3]");
/// # Ok::<(), edbatch_runtime::ParameterError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// Names and dimensions, in the order of `values`.
    declared: Arc<[Parameter]>,
    values: Vec<Arc<Vec<f32>>>,
}

impl Parameters {
    /// Reads the tensors that a network declares from the bytes of a safetensors file.
    ///
    /// # Errors
    /// If `bytes` is not a valid safetensors file, the file lacks a tensor or has one that is not
    /// declared, a tensor has the wrong shape or is not of f32, f16 or bf16, or memory is
    /// insufficient.
    pub fn from_safetensors(network: &Network, bytes: &[u8]) -> Result<Self, ParameterError> {
        let file = open_safetensors(bytes)?;
        let values = network
            .parameters()
            .iter()
            .map(|parameter| read(parameter, &file))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| error.with_similar(network, file.names().into_iter()))?;
        let names = file.names();
        let dims = |name: &str| file.tensor(name).map_or(Vec::new(), |it| it.shape().to_vec());
        no_surplus(network, names.into_iter(), dims)?;
        Ok(Self { declared: network.parameters().into(), values })
    }

    /// Creates parameters from the values of all tensors, row-major, in the order in which
    /// `network` declares them.
    ///
    /// # Errors
    /// If there are not as many values as the network declares.
    pub fn from_values(network: &Network, values: Vec<Vec<f32>>) -> Result<Self, ParameterError> {
        Self::from_shared(network, values.into_iter().map(Arc::new).collect())
    }

    /// Like [`from_values`](Self::from_values), without copies of values that others share.
    ///
    /// # Errors
    /// If there are not as many values as the network declares.
    pub fn from_shared(
        network: &Network,
        values: Vec<Arc<Vec<f32>>>,
    ) -> Result<Self, ParameterError> {
        let declared = network.parameters();
        for (index, Parameter { name, dims }) in declared.iter().enumerate() {
            let (name, expected) = (name.clone(), dims.clone());
            match values.get(index) {
                None => {
                    return Err(ParameterError::Missing { name, dims: expected, similar: None });
                }
                Some(values) if values.len() != declared[index].elements() => {
                    return Err(ParameterError::Shape { name, expected, got: vec![values.len()] });
                }
                Some(_) => {}
            }
        }
        if let Some(values) = values.get(declared.len()) {
            let name = format!("number {}", declared.len());
            return Err(ParameterError::Surplus { name, dims: vec![values.len()] });
        }
        Ok(Self { declared: declared.into(), values })
    }

    /// Creates parameters that share the memory of `values`, which have the declared shapes.
    pub(crate) fn of_values(declared: Arc<[Parameter]>, values: Vec<Arc<Vec<f32>>>) -> Self {
        Self { declared, values }
    }

    /// Returns the same tensors in the order in which `network` declares them. The values are not
    /// copied.
    ///
    /// # Errors
    /// If a tensor is missing, not declared, or of the wrong shape.
    pub fn for_network(&self, network: &Network) -> Result<Self, ParameterError> {
        if self.are_of(network) {
            return Ok(self.clone());
        }
        let values = network.parameters().iter().map(|Parameter { name, dims }| {
            let (name, expected) = (name.clone(), dims.clone());
            let Some(index) = self.index_of(&name) else {
                let names = self.declared.iter().map(|parameter| parameter.name.as_str());
                let missing = ParameterError::Missing { name, dims: expected, similar: None };
                return Err(missing.with_similar(network, names));
            };
            let got = &self.declared[index].dims;
            if *got != expected {
                return Err(ParameterError::Shape { name, expected, got: got.clone() });
            }
            Ok(self.values[index].clone())
        });
        let values = values.collect::<Result<_, _>>()?;
        let names = self.declared.iter().map(|parameter| parameter.name.as_str());
        let dims = |name: &str| {
            self.index_of(name).map_or(Vec::new(), |index| self.declared[index].dims.clone())
        };
        no_surplus(network, names, dims)?;
        Ok(Self { declared: network.parameters().into(), values })
    }

    /// Returns true if `network` declares these tensors in this order, as [`get`](Self::get)
    /// requires.
    pub(crate) fn are_of(&self, network: &Network) -> bool {
        *self.declared == *network.parameters()
    }

    fn index_of(&self, name: &str) -> Option<usize> {
        self.declared.iter().position(|parameter| parameter.name == name)
    }

    /// Returns the bytes of a safetensors file with all tensors of a network.
    ///
    /// # Errors
    /// If the tensors are not those that `network` declares, or serialization fails.
    pub fn to_safetensors(&self, network: &Network) -> Result<Vec<u8>, ParameterError> {
        let this = self.for_network(network)?;
        try_bytes("the bytes of the weights", this.values.iter().map(|values| values.len()).sum())?;
        let bytes: Vec<Vec<u8>> = this.values.iter().map(|values| bytes_of(values)).collect();
        let tensors = network.parameters().iter().zip(&bytes);
        serialize(tensors.map(|(of, bytes)| (&*of.name, Dtype::F32, &*of.dims, &**bytes)), None)
    }

    /// Draws every element uniformly between ±1/√c, where c is the last dimension of its tensor.
    /// Tensors are drawn in the order of declaration.
    #[must_use]
    pub fn random(network: &Network, rng: &mut impl Rng) -> Self {
        let values = network.parameters().iter().map(|parameter| {
            let columns = parameter.dims.last().copied().expect("at least one dimension");
            let bound = 1.0 / (columns as f32).sqrt();
            let elements = (0..parameter.elements()).map(|_| rng.random_range(-bound..=bound));
            Arc::new(elements.collect())
        });
        Self { declared: network.parameters().into(), values: values.collect() }
    }

    /// Returns the values of the tensor with this name, row-major.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Vec<f32>>> {
        Some(&self.values[self.index_of(name)?])
    }

    /// Returns the names and dimensions of the tensors.
    pub(crate) fn declared(&self) -> &Arc<[Parameter]> {
        &self.declared
    }

    /// Returns the values of a parameter, row-major. `id` must come from a network with the same
    /// declarations, see [`for_network`](Self::for_network).
    #[must_use]
    pub fn get(&self, id: ParameterId) -> &Arc<Vec<f32>> {
        &self.values[id.0 as usize]
    }

    /// Returns the values of a parameter or of its transpose, row-major. `network` must declare the
    /// same parameters in the same order, as for [`get`](Self::get).
    ///
    /// # Panics
    /// If the weight is the transpose of a parameter that is not a matrix.
    #[must_use]
    pub fn weight(&self, network: &Network, weight: Weight) -> Cow<'_, [f32]> {
        let (id, values) = (weight.parameter(), self.get(weight.parameter()));
        if weight == Weight::AsIs(id) {
            return Cow::Borrowed(values);
        }
        let shape = weight.rows_and_columns(&network.parameter(id).dims);
        let (rows, _) = shape.expect("only matrices are transposed");
        let mut transposed = Vec::with_capacity(values.len());
        let column = |column| values.iter().copied().skip(column).step_by(rows);
        transposed.extend((0..rows).flat_map(column));
        Cow::Owned(transposed)
    }

    /// Returns the values of all parameters, by [`ParameterId`], row-major.
    #[must_use]
    pub fn slices(&self) -> Vec<&[f32]> {
        self.values.iter().map(|values| values.as_slice()).collect()
    }

    /// Returns the size of all values in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.values.iter().map(|values| size_of_val(values.as_slice())).sum()
    }
}

/// Fails unless memory for the bytes of a file with these elements can be allocated. `safetensors`
/// cannot report a failure, and reads another copy of the bytes.
pub(crate) fn try_bytes(what: &'static str, elements: usize) -> Result<(), ParameterError> {
    let memory = |OutOfMemory { bytes }| ParameterError::Memory { name: what.into(), bytes };
    trial(2 * elements * size_of::<f32>()).map_err(memory)
}

/// Fails if there is a tensor that the network does not declare.
fn no_surplus<'a>(
    network: &Network,
    names: impl ExactSizeIterator<Item = &'a str>,
    dims: impl Fn(&str) -> Vec<usize>,
) -> Result<(), ParameterError> {
    let declared = network.parameters();
    if names.len() <= declared.len() {
        return Ok(());
    }
    let declared: HashSet<&str> = declared.iter().map(|p| p.name.as_str()).collect();
    // The first by name: the file's order depends on hashing.
    let surplus = names.filter(|name| !declared.contains(name)).min();
    surplus
        .map_or(Ok(()), |name| Err(ParameterError::Surplus { name: name.into(), dims: dims(name) }))
}

/// Reads a tensor of a file.
pub(crate) fn read(
    parameter: &Parameter,
    file: &SafeTensors<'_>,
) -> Result<Arc<Vec<f32>>, ParameterError> {
    let name = parameter.name.clone();
    let Ok(tensor) = file.tensor(&name) else {
        let dims = parameter.dims.clone();
        return Err(ParameterError::Missing { name, dims, similar: None });
    };
    if tensor.shape() != parameter.dims {
        let (expected, got) = (parameter.dims.clone(), tensor.shape().into());
        return Err(ParameterError::Shape { name, expected, got });
    }
    floats(&name, &tensor).map(Arc::new)
}
