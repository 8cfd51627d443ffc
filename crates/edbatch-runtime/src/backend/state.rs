//! The state of training, in memory and as bytes.

use std::collections::HashMap;
use std::sync::Arc;

use edbatch_graph::{Network, Parameter};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use super::{BackendError, UpdateRule};
use crate::parameters::{read, try_bytes};
use crate::weights_file::{bytes_of, open_safetensors, serialize};
use crate::{ParameterError, Parameters};

/// The parameters and moments of a backend. Clones share their memory.
#[derive(Clone, PartialEq, Debug)]
pub struct TrainingState {
    /// The parameters.
    pub parameters: Parameters,
    /// By parameter, its [moments](UpdateRule::moments): row-major, of the parameter's shape. Empty
    /// before the first update, and if the parameter is not trained.
    pub moments: Vec<Vec<Arc<Vec<f32>>>>,
}

impl TrainingState {
    /// Returns the parameters in the order in which a network declares them, for a backend that
    /// takes over this state.
    ///
    /// # Errors
    /// If a parameter or a moment does not have the shape that the network declares.
    pub fn for_network(&self, network: &Network) -> Result<Parameters, BackendError> {
        let parameters = self.parameters.for_network(network)?;
        let expected = network.parameters();
        let is_of = |(moments, parameter): (&Vec<Arc<Vec<f32>>>, &Parameter)| {
            moments.len() <= 3 && moments.iter().all(|it| it.len() == parameter.elements())
        };
        if self.moments.len() != expected.len() || !self.moments.iter().zip(expected).all(is_of) {
            let why = "moments do not have the shapes of the parameters".to_owned();
            return Err(BackendError::Weights { why });
        }
        Ok(parameters)
    }

    /// Returns the bytes of a safetensors file with a tensor `parameters/NAME` for each parameter,
    /// and a tensor such as `momentum/NAME` for each moment that `rule` keeps. Its metadata has
    /// `text` under one key, since the order of several keys would depend on hashing.
    ///
    /// # Errors
    /// If the parameters are not those that `network` declares, or serialization fails.
    pub fn to_safetensors(
        &self,
        network: &Network,
        rule: &UpdateRule,
        text: String,
    ) -> Result<Vec<u8>, ParameterError> {
        let parameters = self.parameters.for_network(network)?;
        let all = parameters.slices().into_iter().map(<[f32]>::len);
        let moments = self.moments.iter().flatten().map(|moment| moment.len());
        try_bytes("the bytes of the training state", all.chain(moments).sum())?;
        let mut tensors = Vec::new();
        for (index, (declared, values)) in
            network.parameters().iter().zip(parameters.slices()).enumerate()
        {
            let moments = self.moments.get(index).map_or(&[][..], Vec::as_slice);
            let moments = rule.moments().iter().zip(moments).map(|(name, it)| (*name, &***it));
            for (group, values) in [(PARAMETERS, values)].into_iter().chain(moments) {
                let name = format!("{group}/{}", declared.name);
                tensors.push((name, &*declared.dims, bytes_of(values)));
            }
        }
        let metadata = HashMap::from([(TEXT.to_owned(), text)]);
        let tensors = tensors.iter();
        let tensors = tensors.map(|(name, dims, bytes)| (&**name, Dtype::F32, *dims, &**bytes));
        serialize(tensors, Some(metadata))
    }

    /// Reads what [`to_safetensors`](Self::to_safetensors) returned for the same network and rule.
    ///
    /// # Errors
    /// If `bytes` is not a valid safetensors file, a tensor is missing or is not expected, a tensor
    /// has the wrong shape or is not f32, or memory is insufficient.
    pub fn from_safetensors(
        network: &Network,
        rule: &UpdateRule,
        bytes: &[u8],
    ) -> Result<Self, ParameterError> {
        let file = open_safetensors(bytes)?;
        let named = |group: &str, declared: &Parameter| Parameter {
            name: format!("{group}/{}", declared.name),
            dims: declared.dims.clone(),
        };
        let (mut values, mut all) = (Vec::new(), Vec::new());
        for declared in network.parameters() {
            values.push(read(&named(PARAMETERS, declared), &file)?);
            let names = || rule.moments().iter().map(|moment| named(moment, declared));
            let has_moments = names().any(|moment| file.tensor(&moment.name).is_ok());
            let moments = names().filter(|_| has_moments).map(|moment| read(&moment, &file));
            all.push(moments.collect::<Result<Vec<_>, _>>()?);
        }
        let count = values.len() + all.iter().map(Vec::len).sum::<usize>();
        if file.len() > count {
            let expected = network.parameters().iter().flat_map(|declared| {
                let groups = [PARAMETERS].into_iter().chain(rule.moments().iter().copied());
                groups.map(|group| named(group, declared).name)
            });
            let expected: Vec<String> = expected.collect();
            let surplus =
                file.names().into_iter().filter(|name| !expected.iter().any(|e| e == name));
            let name = surplus.min().expect("there are more tensors").to_owned();
            let dims = file.tensor(&name).map_or(Vec::new(), |it| it.shape().to_vec());
            return Err(ParameterError::Surplus { name, dims });
        }
        let parameters = Parameters::of_values(network.parameters().into(), values);
        Ok(Self { parameters, moments: all })
    }

    /// Returns the text that was passed to [`to_safetensors`](Self::to_safetensors); an empty one
    /// if the file has none.
    ///
    /// # Errors
    /// If `bytes` is not a valid safetensors file.
    pub fn text(bytes: &[u8]) -> Result<String, ParameterError> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(ParameterError::Format)?;
        let text = header.metadata().as_ref().and_then(|metadata| metadata.get(TEXT));
        Ok(text.cloned().unwrap_or_default())
    }
}

/// The key of the metadata.
const TEXT: &str = "training";

/// The prefix of the names of parameters.
const PARAMETERS: &str = "parameters";
