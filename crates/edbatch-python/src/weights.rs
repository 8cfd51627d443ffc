//! Weights: the values of a network's parameters, by name.

use std::path::PathBuf;

use edbatch::graph;
use edbatch::runtime::{ParameterError, Parameters, open_safetensors};
use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyTuple};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::arrays;
use crate::errors::{self, WeightsError};
use crate::network::Network;
use crate::state_dict::{self, Names};

/// The values of a network's parameters: a mapping from names to arrays of float32. Reading an
/// array copies it.
#[pyclass(frozen, mapping, module = "edbatch")]
pub(crate) struct Weights {
    /// A network that declares the tensors, and nothing else.
    declared: graph::Network,
    parameters: Parameters,
}

impl Weights {
    pub(crate) fn of(parameters: &[graph::Parameter], values: Vec<Vec<f32>>) -> PyResult<Self> {
        let declared = declare(parameters)?;
        let parameters = Parameters::from_values(&declared, values).map_err(errors::weights)?;
        Ok(Self { declared, parameters })
    }

    /// The parameters of a network.
    pub(crate) fn of_network(network: &graph::Network, parameters: &Parameters) -> PyResult<Self> {
        let declared = declare(network.parameters())?;
        let parameters = parameters.for_network(&declared).map_err(errors::weights)?;
        Ok(Self { declared, parameters })
    }

    /// Returns the tensors in the order in which a network declares them.
    pub(crate) fn for_network(&self, network: &graph::Network) -> PyResult<Parameters> {
        self.parameters.for_network(network).map_err(errors::weights)
    }

    fn from_safetensors(bytes: &[u8]) -> Result<Self, PyErr> {
        let format = |error| errors::weights(ParameterError::Format(error));
        let file = open_safetensors(bytes).map_err(errors::weights)?;
        let mut names = file.names();
        names.sort_unstable();
        let parameters = names.into_iter().map(|name| {
            let dims = file.tensor(name).map_err(format)?.shape().to_vec();
            Ok(graph::Parameter { name: name.into(), dims })
        });
        let declared = declare(&parameters.collect::<PyResult<Vec<_>>>()?)?;
        let parameters = Parameters::from_safetensors(&declared, bytes).map_err(errors::weights)?;
        Ok(Self { declared, parameters })
    }

    fn bytes(&self) -> PyResult<Vec<u8>> {
        self.parameters.to_safetensors(&self.declared).map_err(errors::weights)
    }
}

/// Declares tensors in a network of their own.
fn declare(parameters: &[graph::Parameter]) -> PyResult<graph::Network> {
    let mut network = graph::Network::new();
    for graph::Parameter { name, dims } in parameters {
        let declared = network.add_parameter(name, dims);
        declared.map_err(|error| {
            let got = error.got.map_or(String::new(), |got| format!(", got {got}"));
            WeightsError::new_err(format!("tensor {name}: expected {}{got}", error.expected))
        })?;
    }
    Ok(network)
}

#[pymethods]
impl Weights {
    /// Makes weights from a mapping of names to arrays, or tensors of PyTorch. They are copied as
    /// float32.
    ///
    /// Raises WeightsError with the name of a tensor if an element is no number or beyond the range
    /// of float32, or if it has no elements, or not one to three dimensions.
    #[new]
    #[pyo3(signature = (tensors, /))]
    fn new(tensors: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (mut parameters, mut values) = (vec![], vec![]);
        for (name, array) in arrays::items("Weights", tensors)? {
            let array = arrays::floats::<WeightsError>(&array, || format!("tensor {name}"))?;
            parameters.push(graph::Parameter { name, dims: array.shape().to_vec() });
            values.push(array.as_slice().expect("contiguous").to_vec());
        }
        Self::of(&parameters, values)
    }

    /// Reads a safetensors file. Tensors must be float32, float16 or bfloat16.
    ///
    /// Raises FileError if the file cannot be read, and WeightsError if it is not such a file.
    #[staticmethod]
    #[pyo3(signature = (path, /))]
    fn load(path: PathBuf) -> PyResult<Self> {
        let bytes = std::fs::read(&path).map_err(errors::system(&path, "a readable file"))?;
        Self::from_safetensors(&bytes).map_err(|error| {
            let name = path.display();
            WeightsError::new_err(Python::attach(|py| format!("{name}: {}", error.value(py))))
        })
    }

    /// Writes a safetensors file.
    ///
    /// Raises FileError if the file cannot be written.
    #[pyo3(signature = (path, /))]
    pub(crate) fn save(&self, path: PathBuf) -> PyResult<()> {
        std::fs::write(&path, self.bytes()?).map_err(errors::system(&path, "a writable file"))
    }

    /// Draws all parameters of a network: uniformly between ±1/√c, where c is the last dimension.
    #[staticmethod]
    #[pyo3(signature = (network, /, seed=0))]
    fn random(network: &Bound<'_, Network>, seed: u64) -> PyResult<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        network
            .get()
            .with(|network| Self::of_network(network, &Parameters::random(network, &mut rng)))
    }

    /// Reads the state of a module of PyTorch: a mapping from names to tensors or arrays of any
    /// type of floats. `rename` replaces prefixes of names. `recurrent` splits the gates of
    /// `nn.LSTM` and `nn.GRU`: with `{"lstm": "rnn"}`, layer k of the module `lstm` gets the prefix
    /// `rnn.{k}`, its backward half `rnn_reverse.{k}`, as `edbatch.cells` names parameters.
    ///
    /// Raises WeightsError if a tensor is missing, surplus, or of another shape.
    #[staticmethod]
    #[pyo3(signature = (network, state, /, rename=None, recurrent=None))]
    fn from_state_dict(
        network: &Bound<'_, Network>,
        state: &Bound<'_, PyAny>,
        rename: Option<Names>,
        recurrent: Option<Names>,
    ) -> PyResult<Self> {
        let (rename, recurrent) = (rename.unwrap_or_default(), recurrent.unwrap_or_default());
        let network = network.get().with(Clone::clone);
        let parameters = state_dict::read(&network, state, &rename, &recurrent)?;
        Self::of_network(&network, &parameters)
    }

    /// Returns arrays for a module of PyTorch, by name. `recurrent` stacks the gates again that
    /// `from_state_dict` split.
    ///
    /// Raises WeightsError if a gate is missing.
    #[pyo3(signature = (*, recurrent=None))]
    fn to_state_dict<'py>(
        &self,
        py: Python<'py>,
        recurrent: Option<Names>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let recurrent = recurrent.unwrap_or_default();
        state_dict::write(py, &self.declared, &self.parameters, &recurrent)
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let found = self.declared.parameters().iter().find(|declared| declared.name == name);
        let Some(declared) = found else { return Err(PyKeyError::new_err(name.to_string())) };
        let values = self.parameters.named(name).expect("a declared tensor");
        Ok(arrays::shaped(py, values.to_vec(), &declared.dims))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        let name: Result<String, _> = name.extract();
        name.is_ok_and(|name| self.parameters.named(&name).is_some())
    }

    fn __len__(&self) -> usize {
        self.declared.parameters().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// The names of all tensors.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.shapes(py)?.call_method0("keys")
    }

    /// Copies of all tensors.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.declared.parameters().iter();
        let arrays = names.map(|declared| self.__getitem__(py, &declared.name));
        PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)
    }

    /// The names and copies of all tensors.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.declared.parameters().iter();
        let pairs =
            names.map(|declared| Ok((&declared.name, self.__getitem__(py, &declared.name)?)));
        PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
    }

    /// A copy of a tensor, or the default if it does not exist.
    #[pyo3(signature = (name, default=None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let known = self.parameters.named(name);
        known.map_or(Ok(default), |_| self.__getitem__(py, name).map(Some))
    }

    /// The shapes of all tensors by name.
    #[getter]
    fn shapes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shapes = PyDict::new(py);
        for declared in self.declared.parameters() {
            shapes.set_item(&declared.name, PyTuple::new(py, &declared.dims)?)?;
        }
        Ok(shapes)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| {
            let other = other.get();
            let same = other.parameters.for_network(&self.declared);
            same.is_ok_and(|same| same == self.parameters)
        })
    }

    fn __repr__(&self) -> String {
        let tensors = self.declared.parameters().len();
        let elements: usize = self.declared.parameters().iter().map(|d| d.elements()).sum();
        format!("<edbatch.Weights: {tensors} tensors, {elements} elements>")
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let read = slf.get_type().getattr("_from_bytes")?;
        Ok((read, (PyBytes::new(slf.py(), &slf.get().bytes()?),)))
    }

    #[staticmethod]
    fn _from_bytes(bytes: &Bound<'_, PyBytes>) -> PyResult<Self> {
        Self::from_safetensors(bytes.as_bytes())
    }
}
