//! Weights from and to the state of PyTorch's modules. PyTorch itself is not imported.

use std::collections::{BTreeMap, BTreeSet};

use edbatch::graph::Network;
use edbatch::runtime::Parameters;
use edbatch::runtime::pytorch::{GRU, LSTM, Recurrent, split_gates, stack_gates};
use numpy::{PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::arrays;
use crate::errors::{self, WeightsError};

/// Pairs of names: prefixes and their replacements, or modules and their new names.
pub(crate) type Names = BTreeMap<String, String>;

/// Dimensions and little-endian bytes.
type Tensor = (Vec<usize>, Vec<u8>);

/// Reads a mapping from names to arrays or tensors. Prefixes are replaced first, then the gates of
/// recurrent modules are split.
pub(crate) fn read(
    network: &Network,
    state: &Bound<'_, PyAny>,
    rename: &Names,
    recurrent: &Names,
) -> PyResult<Parameters> {
    let mut tensors = renamed(state, rename)?;
    let found = modules(recurrent, |module, suffix, _| {
        let dims = tensors.get(&format!("{}weight_hh_l0{suffix}", prefix(module)));
        dims.map(|(dims, _)| dims.clone())
    });
    found.iter().for_each(|half| half.add_zeros(network, &mut tensors));
    let views = tensors
        .iter()
        .map(|(name, (dims, bytes))| Ok((name, TensorView::new(Dtype::F32, dims.clone(), bytes)?)));
    let views = views.collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    let bytes = safetensors::serialize(views, None).map_err(invalid)?;
    if let Some(module) = recurrent.keys().find(|&name| !found.iter().any(|it| it.module == *name))
    {
        let name = format!("{}weight_hh_l0", prefix(module));
        let names: Vec<&String> = tensors.keys().filter(|it| it.contains("weight_hh_l0")).collect();
        return Err(WeightsError::new_err(format!(
            "recurrent={{{module:?}: …}}: there is no tensor {name}; those of recurrent modules: \
             {names:?}"
        )));
    }
    let bytes = split_gates(&bytes, &recurrents(&found)?).map_err(errors::weights)?;
    drop(tensors);
    Parameters::from_safetensors(network, &bytes).map_err(errors::weights)
}

/// Returns the state of PyTorch's modules, as arrays: the gates of recurrent modules are stacked.
pub(crate) fn write<'py>(
    py: Python<'py>,
    network: &Network,
    parameters: &Parameters,
    recurrent: &Names,
) -> PyResult<Bound<'py, PyDict>> {
    let dims = |name: String| {
        let found = network.parameters().iter().find(|parameter| parameter.name == name);
        found.map(|parameter| parameter.dims.clone())
    };
    // A square matrix for each gate: an LSTM has an input gate, a GRU a reset gate.
    let found = modules(recurrent, |_, _, name| {
        let [lstm, gru] = ["i", "r"].map(|gate| dims(format!("{name}.0.u_{gate}")));
        let (mut dims, gates) = lstm.map(|dims| (dims, 4)).or(gru.map(|dims| (dims, 3)))?;
        dims[0] *= gates;
        Some(dims)
    });
    if let Some((module, name)) =
        recurrent.iter().find(|(module, _)| !found.iter().any(|it| it.module == **module))
    {
        return Err(WeightsError::new_err(format!(
            "recurrent={{{module:?}: {name:?}}}: there is no tensor {name}.0.u_i (an LSTM) or \
             {name}.0.u_r (a GRU)"
        )));
    }
    let bytes = parameters.to_safetensors(network).map_err(errors::weights)?;
    let bytes = stack_gates(&bytes, &recurrents(&found)?).map_err(errors::weights)?;
    let state = PyDict::new(py);
    for (name, tensor) in SafeTensors::deserialize(&bytes).map_err(invalid)?.iter() {
        let (elements, _) = tensor.data().as_chunks();
        let values: Vec<f32> = elements.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        state.set_item(name, PyArray1::from_vec(py, values).reshape(tensor.shape())?)?;
    }
    Ok(state)
}

/// Half of a recurrent module, or all of it.
struct Half {
    module: String,
    suffix: &'static str,
    name: String,
    /// The dimensions of `weight_hh` of layer 0.
    dims: Vec<usize>,
}

impl Half {
    /// Adds zeros as both biases of each layer that has none (`bias=False`), if the network
    /// declares biases of the layer.
    fn add_zeros(&self, network: &Network, tensors: &mut BTreeMap<String, Tensor>) {
        let name = |part, layer| format!("{}{part}_l{layer}{}", prefix(&self.module), self.suffix);
        for layer in 0.. {
            // `split_gates` refuses a tensor without elements.
            let hidden = tensors.get(&name("weight_hh", layer)).filter(|(_, it)| !it.is_empty());
            let Some(rows) = hidden.map(|(dims, _)| dims.first().copied().unwrap_or(1)) else {
                return;
            };
            let biases = ["bias_ih", "bias_hh"].map(|part| name(part, layer));
            let new = format!("{}.{layer}.b_", self.name);
            if network.parameters().iter().any(|it| it.name.starts_with(&new))
                && !biases.iter().any(|bias| tensors.contains_key(bias))
            {
                tensors.extend(biases.map(|bias| (bias, (vec![rows], vec![0; 4 * rows]))));
            }
        }
    }
}

/// Returns the halves of these modules for which `dims_of(module, suffix, name)` finds `weight_hh`.
fn modules(
    recurrent: &Names,
    dims_of: impl Fn(&str, &str, &str) -> Option<Vec<usize>>,
) -> Vec<Half> {
    let halves = recurrent.iter().flat_map(|(module, name)| {
        ["", "_reverse"].map(|suffix| {
            let name = format!("{name}{suffix}");
            let dims = dims_of(module, suffix, &name)?;
            Some(Half { module: module.clone(), suffix, name, dims })
        })
    });
    halves.flatten().collect()
}

fn recurrents(halves: &[Half]) -> PyResult<Vec<Recurrent<'_>>> {
    let gates_of = |half: &Half| match half.dims[..] {
        [rows, hidden] if rows == 4 * hidden => Ok(LSTM),
        [rows, hidden] if rows == 3 * hidden => Ok(GRU),
        _ => Err(WeightsError::new_err(format!(
            "tensor {}weight_hh_l0{} of shape {:?}: expected (4 H, H), an LSTM, or (3 H, H), a \
             GRU, without projections (proj_size)",
            prefix(&half.module),
            half.suffix,
            half.dims
        ))),
    };
    let recurrents = halves.iter().map(|half| {
        let Half { module, suffix, name, .. } = half;
        Ok(Recurrent { module, suffix, name, gates: gates_of(half)? })
    });
    recurrents.collect()
}

/// The prefix of a module's tensors.
fn prefix(module: &str) -> String {
    if module.is_empty() { String::new() } else { format!("{module}.") }
}

/// Reads all tensors as float32. The longest prefix of a name that is to be replaced is.
fn renamed(state: &Bound<'_, PyAny>, rename: &Names) -> PyResult<BTreeMap<String, Tensor>> {
    let (mut tensors, mut used) = (BTreeMap::new(), BTreeSet::new());
    for (old, value) in arrays::items("from_state_dict", state)? {
        let prefixes = rename.iter().filter(|(prefix, _)| old.starts_with(prefix.as_str()));
        let name = match prefixes.max_by_key(|(prefix, _)| prefix.len()) {
            Some((prefix, new)) => {
                used.insert(prefix);
                format!("{new}{}", &old[prefix.len()..])
            }
            None => old.clone(),
        };
        let array = arrays::floats::<WeightsError>(&value, || format!("tensor {old}"))?;
        let bytes = array.as_slice()?.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = (array.shape().to_vec(), bytes);
        if name == "__metadata__" {
            let text =
                format!("tensor {old}: expected a name other than {name}, which is reserved");
            return Err(WeightsError::new_err(text));
        }
        if tensors.insert(name.clone(), tensor).is_some() {
            let text = format!("rename: two tensors become {name}, one of them {old}");
            return Err(WeightsError::new_err(text));
        }
    }
    match rename.keys().find(|&prefix| !used.contains(prefix)) {
        Some(unused) => Err(WeightsError::new_err(format!(
            "rename={{{unused:?}: …}}: no tensor has a name that begins so"
        ))),
        None => Ok(tensors),
    }
}

fn invalid(error: safetensors::SafeTensorError) -> PyErr {
    WeightsError::new_err(error.to_string())
}
