//! Splits the stacked gates of PyTorch's `nn.LSTM` and `nn.GRU` into separate parameters, and
//! stacks them again.
//!
//! *Source*: the documentation of `torch.nn.LSTM` and `torch.nn.GRU`. Layer `k` of a module has
//! `weight_ih_l{k} [gates × H, in]`, `weight_hh_l{k} [gates × H, H]` and two biases of `gates × H`;
//! an LSTM has the gates i, f, g, o, a GRU the gates r, z, n.
//!
//! The two biases of a gate are summed, since only their sum matters. The exception is gate n of a
//! GRU. In PyTorch, the reset gate multiplies the product:
//! `n = tanh(w_c x + b_c + r ∘ (u_c h + d_c))`. In the GRUs of the model zoo and of the ED-Batch
//! authors, it multiplies the state: `tanh(w_c x + u_c (r ∘ h) + b_c)`. These are different
//! functions of the same weights: for weights trained in PyTorch, write a cell of the first form.

use std::collections::BTreeMap;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::ParameterError;

/// A recurrent module of a PyTorch model, or one direction of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recurrent<'a> {
    /// The module's name in the file; empty if the file contains only this module.
    pub module: &'a str,
    /// The suffix of the tensor names: `_reverse` for the backward direction of a bidirectional
    /// module, otherwise empty.
    pub suffix: &'a str,
    /// The prefix of the new names: parameters of layer `k` become `{name}.{k}.w_i` and so on.
    pub name: &'a str,
    /// The letters of the gates, in PyTorch's order: [`LSTM`] or [`GRU`].
    pub gates: &'a [&'a str],
}

/// The gates of `nn.LSTM`.
pub const LSTM: &[&str] = &["i", "f", "g", "o"];

/// The gates of `nn.GRU`. Gate n of PyTorch is called c here.
pub const GRU: &[&str] = &["r", "z", "c"];

/// Rewrites a safetensors file with separate gates, for [`Parameters::from_safetensors`].
///
/// Gate `g` of layer `k` becomes `{name}.{k}.w_g [H, in]`, `{name}.{k}.u_g [H, H]` and
/// `{name}.{k}.b_g [H]`; a GRU also has `{name}.{k}.d_c [H]`. Tensors of other modules are copied
/// unchanged.
///
/// # Errors
/// If `bytes` is not a valid safetensors file, if a tensor of one of `modules` is not f32 or cannot
/// be divided into gates, or if a tensor `bias_ih` has no tensor `bias_hh`.
///
/// [`Parameters::from_safetensors`]: crate::Parameters::from_safetensors
pub fn split_gates(bytes: &[u8], modules: &[Recurrent<'_>]) -> Result<Vec<u8>, ParameterError> {
    let file = SafeTensors::deserialize(bytes).map_err(ParameterError::Format)?;
    let mut tensors = Vec::new();
    for (name, tensor) in file.iter() {
        let found = modules.iter().find_map(|module| Some((module, module.part(name)?)));
        let Some((module, (part, layer))) = found else {
            tensors.push(copy(name, &tensor));
            continue;
        };
        let stacked = gates(name, &tensor, module.gates.len())?;
        let other = (part == "bias_ih").then(|| name.replace("bias_ih", "bias_hh"));
        let other = other.map(|name| {
            let dims = tensor.shape().into();
            let other = file.tensor(&name);
            let other = other.map_err(|_| ParameterError::Missing { name: name.clone(), dims })?;
            gates(&name, &other, module.gates.len())
        });
        let other = other.transpose()?;
        for (index, (gate, mut values)) in module.gates.iter().zip(stacked).enumerate() {
            let two_biases = *gate == "c";
            let letter = match part {
                "weight_ih" => "w",
                "weight_hh" => "u",
                "bias_ih" => "b",
                _ if two_biases => "d",
                _ => continue,
            };
            if let Some(other) = other.as_ref().filter(|_| !two_biases) {
                values.iter_mut().zip(&other[index]).for_each(|(a, b)| *a += b);
            }
            let mut dims = tensor.shape().to_vec();
            dims[0] /= module.gates.len();
            let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let name = format!("{}.{layer}.{letter}_{gate}", module.name);
            tensors.push((name, Dtype::F32, dims, data));
        }
    }
    serialize(&tensors)
}

/// Rewrites a safetensors file with PyTorch's stacked gates: the inverse of [`split_gates`].
///
/// Each gate of an LSTM has one bias here. It becomes a part of `bias_ih`, and `bias_hh` is zero.
/// The same holds for a GRU, except that `d_c` becomes a part of `bias_hh`.
///
/// # Errors
/// If `bytes` is not a valid safetensors file, or if a gate of one of `modules` is missing, is not
/// f32, or does not have the shape of the other gates.
pub fn stack_gates(bytes: &[u8], modules: &[Recurrent<'_>]) -> Result<Vec<u8>, ParameterError> {
    let file = SafeTensors::deserialize(bytes).map_err(ParameterError::Format)?;
    let (mut tensors, mut stacks) = (Vec::new(), BTreeMap::new());
    for (name, tensor) in file.iter() {
        let part = |(index, module): (usize, &Recurrent<'_>)| Some((index, module.letter(name)?));
        match modules.iter().enumerate().find_map(part) {
            Some(stack) => drop(stacks.insert(stack, tensor.shape().to_vec())),
            None => tensors.push(copy(name, &tensor)),
        }
    }
    for ((module, (layer, letter)), mut dims) in stacks {
        let Recurrent { module, suffix, name, gates } = modules[module];
        if let Ok(first) = file.tensor(&format!("{name}.{layer}.{letter}_{}", gates[0])) {
            dims = first.shape().to_vec();
        }
        let read = |letter: char, gate: &str| -> Result<Vec<u8>, ParameterError> {
            let name = format!("{name}.{layer}.{letter}_{gate}");
            let Ok(tensor) = file.tensor(&name) else {
                return Err(ParameterError::Missing { name, dims: dims.clone() });
            };
            if tensor.dtype() != Dtype::F32 {
                return Err(ParameterError::Type { name, got: format!("{:?}", tensor.dtype()) });
            }
            if tensor.shape() != dims {
                let (expected, got) = (dims.clone(), tensor.shape().into());
                return Err(ParameterError::Shape { name, expected, got });
            }
            Ok(tensor.data().into())
        };
        let values = gates.iter().map(|gate| read(letter, gate)).collect::<Result<Vec<_>, _>>()?;
        let other = gates.iter().map(|&gate| match gate {
            "c" => read('d', gate),
            _ => Ok(vec![0; 4 * dims.iter().product::<usize>()]),
        });
        let other = if letter == 'b' { other.collect() } else { Ok::<Vec<_>, _>(Vec::new()) }?;
        dims[0] *= gates.len();
        let dot = if module.is_empty() { "" } else { "." };
        let mut push = |part: &str, data: Vec<Vec<u8>>| {
            let name = format!("{module}{dot}{part}_l{layer}{suffix}");
            tensors.push((name, Dtype::F32, dims.clone(), data.concat()));
        };
        match letter {
            'w' => push("weight_ih", values),
            'u' => push("weight_hh", values),
            _ => {
                push("bias_ih", values);
                push("bias_hh", other);
            }
        }
    }
    serialize(&tensors)
}

/// The name, element type, dimensions and bytes of a tensor.
type Tensor = (String, Dtype, Vec<usize>, Vec<u8>);

fn copy(name: &str, tensor: &TensorView<'_>) -> Tensor {
    (name.into(), tensor.dtype(), tensor.shape().into(), tensor.data().into())
}

fn serialize(tensors: &[Tensor]) -> Result<Vec<u8>, ParameterError> {
    let views = tensors.iter().map(|(name, dtype, dims, data)| {
        Ok((name.as_str(), TensorView::new(*dtype, dims.clone(), data)?))
    });
    let views = views.collect::<Result<Vec<_>, _>>().map_err(ParameterError::Format)?;
    safetensors::serialize(views, None).map_err(ParameterError::Format)
}

impl Recurrent<'_> {
    /// Splits the name of one of this module's tensors into part and layer, such as `weight_ih` and
    /// 0.
    fn part<'n>(&self, name: &'n str) -> Option<(&'n str, usize)> {
        let name = name.strip_prefix(self.module)?;
        let name = if self.module.is_empty() { name } else { name.strip_prefix('.')? };
        let (part, layer) = name.strip_suffix(self.suffix)?.split_once("_l")?;
        let known = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].contains(&part);
        Some((part, layer.parse().ok()?)).filter(|_| known)
    }

    /// Splits the name of a gate's tensor into layer and letter: w, u or b. The second bias of a
    /// gate, d, counts as b, because both become biases.
    fn letter(&self, name: &str) -> Option<(usize, char)> {
        let name = name.strip_prefix(self.name)?.strip_prefix('.')?;
        let (layer, part) = name.split_once('.')?;
        let (letter, gate) = part.split_once('_')?;
        let letter = match letter {
            "w" => 'w',
            "u" => 'u',
            "b" => 'b',
            "d" if gate == "c" => 'b',
            _ => return None,
        };
        Some((layer.parse().ok()?, letter)).filter(|_| self.gates.contains(&gate))
    }
}

/// Splits a tensor of stacked gates into the values of each gate.
fn gates(
    name: &str,
    tensor: &TensorView<'_>,
    count: usize,
) -> Result<Vec<Vec<f32>>, ParameterError> {
    let (name, dims) = (name.to_string(), tensor.shape());
    if tensor.dtype() != Dtype::F32 {
        return Err(ParameterError::Type { name, got: format!("{:?}", tensor.dtype()) });
    }
    let rows = dims.first().copied().unwrap_or(0);
    if rows == 0 || rows % count != 0 || tensor.data().is_empty() {
        let mut expected = dims.to_vec();
        expected.iter_mut().take(1).for_each(|rows| *rows = (*rows).max(1).next_multiple_of(count));
        return Err(ParameterError::Shape { name, expected, got: dims.into() });
    }
    let (elements, _) = tensor.data().as_chunks();
    let values: Vec<f32> = elements.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    Ok(values.chunks_exact(values.len() / count).map(<[f32]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of these tensors, each with the values 0, 1, 2, …
    fn file(tensors: &[(&str, &[usize])]) -> Vec<u8> {
        let data: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, dims)| {
                let values = 0..dims.iter().product::<usize>();
                values.flat_map(|value| (value as f32).to_le_bytes()).collect()
            })
            .collect();
        let views = tensors.iter().zip(&data).map(|((name, dims), data)| {
            (*name, TensorView::new(Dtype::F32, dims.to_vec(), data).unwrap())
        });
        safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap()
    }

    fn check(tensors: &[(&str, &[usize])], module: Recurrent<'_>, expected: &[&str]) {
        let text = match split_gates(&file(tensors), &[module]) {
            Ok(bytes) => {
                let file = SafeTensors::deserialize(&bytes).unwrap();
                let line = |(name, tensor): (&str, TensorView<'_>)| {
                    let (elements, _) = tensor.data().as_chunks();
                    let values = elements.iter().map(|&bytes| f32::from_le_bytes(bytes));
                    format!("{name} {:?} {:?}", tensor.shape(), values.collect::<Vec<_>>())
                };
                let mut lines: Vec<String> = file.iter().map(line).collect();
                lines.sort_unstable();
                lines
            }
            Err(error) => vec![error.to_string()],
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn gates_of_an_lstm_are_split() {
        let module = Recurrent { module: "rnn", suffix: "_reverse", name: "bwd", gates: LSTM };
        check(
            &[
                ("rnn.weight_ih_l1_reverse", &[4, 2]),
                ("rnn.bias_ih_l1_reverse", &[4]),
                ("rnn.bias_hh_l1_reverse", &[4]),
                ("rnn.bias_hh_l1", &[1]),
            ],
            module,
            &[
                "bwd.1.b_f [1] [2.0]",
                "bwd.1.b_g [1] [4.0]",
                "bwd.1.b_i [1] [0.0]",
                "bwd.1.b_o [1] [6.0]",
                "bwd.1.w_f [1, 2] [2.0, 3.0]",
                "bwd.1.w_g [1, 2] [4.0, 5.0]",
                "bwd.1.w_i [1, 2] [0.0, 1.0]",
                "bwd.1.w_o [1, 2] [6.0, 7.0]",
                "rnn.bias_hh_l1 [1] [0.0]",
            ],
        );
    }

    #[test]
    fn the_second_bias_of_the_reset_product_of_a_gru_is_kept() {
        let module = Recurrent { module: "", suffix: "", name: "char", gates: GRU };
        check(
            &[("weight_hh_l0", &[3, 1]), ("bias_ih_l0", &[3]), ("bias_hh_l0", &[3])],
            module,
            &[
                "char.0.b_c [1] [2.0]",
                "char.0.b_r [1] [0.0]",
                "char.0.b_z [1] [2.0]",
                "char.0.d_c [1] [2.0]",
                "char.0.u_c [1, 1] [2.0]",
                "char.0.u_r [1, 1] [0.0]",
                "char.0.u_z [1, 1] [1.0]",
            ],
        );
    }

    #[test]
    fn stacked_gates_are_those_that_were_split() {
        let lstm = Recurrent { module: "rnn", suffix: "_reverse", name: "back", gates: LSTM };
        let gru = Recurrent { module: "", suffix: "", name: "char", gates: GRU };
        let mut tensors: Vec<(&str, &[usize])> = vec![
            ("rnn.weight_ih_l1_reverse", &[8, 3]),
            ("rnn.weight_hh_l1_reverse", &[8, 2]),
            ("rnn.bias_ih_l1_reverse", &[8]),
            ("rnn.bias_hh_l1_reverse", &[8]),
            ("weight_ih_l0", &[6, 1]),
            ("bias_ih_l0", &[6]),
            ("bias_hh_l0", &[6]),
            ("other", &[2]),
        ];
        let split = split_gates(&file(&tensors), &[lstm, gru]).unwrap();
        let stacked = stack_gates(&split, &[lstm, gru]).unwrap();
        // The second biases are zero, but splitting adds the two.
        assert_eq!(split_gates(&stacked, &[lstm, gru]).unwrap(), split);
        let stacked = SafeTensors::deserialize(&stacked).unwrap();
        tensors.sort_unstable();
        let mut names = stacked.names();
        names.sort_unstable();
        assert_eq!(names, tensors.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert!(tensors.iter().all(|(name, dims)| stacked.tensor(name).unwrap().shape() == *dims));
    }

    #[test]
    fn gates_that_cannot_be_stacked_are_errors() {
        let module = Recurrent { module: "m", suffix: "", name: "x", gates: GRU };
        let error = |tensors: &[(&str, &[usize])]| {
            stack_gates(&file(tensors), &[module]).unwrap_err().to_string()
        };
        assert_eq!(
            error(&[("x.0.w_z", &[2, 1])]),
            "tensor x.0.w_r is missing; the model needs it with shape [2, 1]"
        );
        assert_eq!(
            error(&[("x.0.u_r", &[2, 2]), ("x.0.u_z", &[2, 2]), ("x.0.u_c", &[3, 3])]),
            "tensor x.0.u_c: the model expects shape [2, 2], got [3, 3]"
        );
        let biases: [(&str, &[usize]); 3] =
            [("x.0.b_r", &[2]), ("x.0.b_z", &[2]), ("x.0.b_c", &[2])];
        assert!(error(&biases).starts_with("tensor x.0.d_c is missing"));
    }

    #[test]
    fn wrong_shapes_and_missing_biases_are_errors() {
        let module = Recurrent { module: "", suffix: "", name: "x", gates: GRU };
        check(
            &[("weight_ih_l0", &[4, 1])],
            module,
            &["tensor weight_ih_l0: the model expects shape [6, 1], got [4, 1]"],
        );
        check(
            &[("bias_ih_l0", &[3])],
            module,
            &["tensor bias_hh_l0 is missing; the model needs it with shape [3]"],
        );
    }
}
