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
use crate::weights_file::{bytes_of, floats, open_safetensors, serialize};

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
/// `{name}.{k}.b_g [H]`; a GRU also has `{name}.{k}.d_c [H]`. A module without biases
/// (`bias=False`) gets none. Tensors of other modules are copied unchanged.
///
/// # Errors
/// If `bytes` is not a valid safetensors file, if a tensor of one of `modules` is not of 32-bit or
/// 16-bit floats or cannot be divided into gates, if one of two biases is missing or of another
/// shape than the other, if a module has projections, or if two tensors would get the same name.
///
/// [`Parameters::from_safetensors`]: crate::Parameters::from_safetensors
pub fn split_gates(bytes: &[u8], modules: &[Recurrent<'_>]) -> Result<Vec<u8>, ParameterError> {
    check_names(modules)?;
    let file = open_safetensors(bytes)?;
    let mut tensors = Tensors::default();
    for (name, tensor) in sorted(&file) {
        let found = modules.iter().find_map(|module| Some((module, module.part(name)?)));
        let Some((module, (part, layer))) = found else {
            tensors.copy(name, &tensor)?;
            continue;
        };
        let dims = tensor.shape().to_vec();
        let other = |part| {
            let name = module.stacked(part, layer);
            let other = file.tensor(&name).ok();
            let dims = dims.clone();
            other.ok_or(ParameterError::Missing { name, dims, similar: None })
        };
        let (letter, other) = match part {
            "weight_ih" => ("w", None),
            "weight_hh" => ("u", None),
            "bias_ih" => ("b", Some(other("bias_hh")?)),
            // Split together with the first bias.
            "bias_hh" => {
                other("bias_ih")?;
                continue;
            }
            _ => {
                let what = format!("tensor {name} is a projection (proj_size)");
                let what = what + ": expected an nn.LSTM without proj_size";
                return Err(ParameterError::Gates { what });
            }
        };
        let mut stacked = gates(name, &tensor, module.gates.len())?;
        let second = other.map(|other| {
            let name = module.stacked("bias_hh", layer);
            check_shape(&name, &dims, other.shape())?;
            gates(&name, &other, module.gates.len())
        });
        let second = second.transpose()?.unwrap_or_default();
        let mut dims = dims;
        dims[0] /= module.gates.len();
        let mut push = |letter: &str, gate: &str, values: &[f32]| {
            let new = format!("{}.{layer}.{letter}_{gate}", module.name);
            tensors.insert(new, name, Dtype::F32, dims.clone(), bytes_of(values))
        };
        for (index, &gate) in module.gates.iter().enumerate() {
            match second.get(index) {
                Some(second) if gate == "c" => push("d", gate, second)?,
                Some(second) => {
                    for (sum, b) in stacked[index].iter_mut().zip(second) {
                        let is_finite = sum.is_finite() && b.is_finite();
                        *sum += b;
                        if is_finite && !sum.is_finite() {
                            return Err(infinite(name));
                        }
                    }
                }
                None => {}
            }
            push(letter, gate, &stacked[index])?;
        }
    }
    tensors.serialize()
}

/// Rewrites a safetensors file with PyTorch's stacked gates: the inverse of [`split_gates`].
///
/// Each gate of an LSTM has one bias here. It becomes a part of `bias_ih`, and `bias_hh` is zero.
/// The same holds for a GRU, except that `d_c` becomes a part of `bias_hh`.
///
/// # Errors
/// If `bytes` is not a valid safetensors file, if a gate of one of `modules` is missing, is not of
/// floats, or does not have the shape of the other gates, or if two tensors would get the same
/// name.
pub fn stack_gates(bytes: &[u8], modules: &[Recurrent<'_>]) -> Result<Vec<u8>, ParameterError> {
    check_names(modules)?;
    let file = open_safetensors(bytes)?;
    let (mut tensors, mut stacks) = (Tensors::default(), BTreeMap::new());
    for (name, tensor) in sorted(&file) {
        let part = |(index, module): (usize, &Recurrent<'_>)| Some((index, module.letter(name)?));
        match modules.iter().enumerate().find_map(part) {
            Some(stack) => drop(stacks.insert(stack, tensor.shape().to_vec())),
            None => tensors.copy(name, &tensor)?,
        }
    }
    for ((module, (layer, letter)), mut dims) in stacks {
        let Recurrent { name, gates, .. } = modules[module];
        let first = format!("{name}.{layer}.{letter}_{}", gates[0]);
        if let Ok(first) = file.tensor(&first) {
            dims = first.shape().to_vec();
        }
        check_rows(&first, &dims, 1)?;
        let read = |letter: char, gate: &str| -> Result<Vec<u8>, ParameterError> {
            let name = format!("{name}.{layer}.{letter}_{gate}");
            let Ok(tensor) = file.tensor(&name) else {
                return Err(ParameterError::Missing { name, dims: dims.clone(), similar: None });
            };
            check_shape(&name, &dims, tensor.shape())?;
            Ok(bytes_of(&floats(&name, &tensor)?))
        };
        let values = gates.iter().map(|gate| read(letter, gate)).collect::<Result<Vec<_>, _>>()?;
        let other = gates.iter().map(|&gate| match gate {
            "c" => read('d', gate),
            _ => Ok(vec![0; 4 * dims.iter().product::<usize>()]),
        });
        let other = if letter == 'b' { other.collect() } else { Ok::<Vec<_>, _>(Vec::new()) }?;
        dims[0] *= gates.len();
        let mut push = |part: &str, data: Vec<Vec<u8>>| {
            let stacked = modules[module].stacked(part, layer);
            tensors.insert(stacked, &first, Dtype::F32, dims.clone(), data.concat())
        };
        match letter {
            'w' => push("weight_ih", values)?,
            'u' => push("weight_hh", values)?,
            _ => {
                push("bias_ih", values)?;
                push("bias_hh", other)?;
            }
        }
    }
    tensors.serialize()
}

/// Fails if two modules have the same new name.
fn check_names(modules: &[Recurrent<'_>]) -> Result<(), ParameterError> {
    for (index, module) in modules.iter().enumerate() {
        if let Some(other) = modules[..index].iter().find(|other| other.name == module.name) {
            let from = [other, module].map(|it| match it.suffix {
                "" => it.module.to_string(),
                suffix => format!("{} (…{suffix})", it.module),
            });
            return Err(twice(&format!("recurrent module {}", module.name), &from));
        }
    }
    Ok(())
}

fn infinite(name: &str) -> ParameterError {
    let what = format!("tensor {name}: its sum with bias_hh exceeds the range of 32-bit floats");
    ParameterError::Gates { what }
}

fn twice(name: &str, [one, other]: &[String; 2]) -> ParameterError {
    let what = format!("{name} would exist twice: from {one} and from {other}; rename one of them");
    ParameterError::Gates { what }
}

/// Returns the tensors of a file in the order of their names: the file's order depends on hashing.
fn sorted<'f>(file: &'f SafeTensors<'_>) -> BTreeMap<&'f str, TensorView<'f>> {
    file.iter().collect()
}

/// The tensors of a new file, by name, each with the name of the tensor that it comes from.
#[derive(Default)]
struct Tensors(BTreeMap<String, (String, Dtype, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn insert(
        &mut self,
        name: String,
        origin: &str,
        dtype: Dtype,
        dims: Vec<usize>,
        data: Vec<u8>,
    ) -> Result<(), ParameterError> {
        if let Some((other, ..)) = self.0.get(&name) {
            return Err(twice(&format!("tensor {name}"), &[other.clone(), origin.into()]));
        }
        self.0.insert(name, (origin.into(), dtype, dims, data));
        Ok(())
    }

    fn copy(&mut self, name: &str, tensor: &TensorView<'_>) -> Result<(), ParameterError> {
        let (dims, data) = (tensor.shape().into(), tensor.data().into());
        self.insert(name.into(), name, tensor.dtype(), dims, data)
    }

    fn serialize(&self) -> Result<Vec<u8>, ParameterError> {
        let tensors = self.0.iter();
        let tensors =
            tensors.map(|(name, (_, dtype, dims, data))| (&**name, *dtype, &**dims, &**data));
        serialize(tensors, None)
    }
}

impl Recurrent<'_> {
    /// Splits the name of one of this module's tensors into part and layer, such as `weight_ih` and
    /// 0.
    fn part<'n>(&self, name: &'n str) -> Option<(&'n str, usize)> {
        let name = name.strip_prefix(self.module)?;
        let name = if self.module.is_empty() { name } else { name.strip_prefix('.')? };
        let (part, layer) = name.strip_suffix(self.suffix)?.split_once("_l")?;
        let known = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"].contains(&part);
        Some((part, number(layer)?)).filter(|_| known && !self.gates.is_empty())
    }

    /// Returns the name of one of this module's tensors: the inverse of [`part`](Self::part).
    fn stacked(&self, part: &str, layer: usize) -> String {
        let dot = if self.module.is_empty() { "" } else { "." };
        format!("{}{dot}{part}_l{layer}{}", self.module, self.suffix)
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
        Some((number(layer)?, letter)).filter(|_| self.gates.contains(&gate))
    }
}

/// Parses the number of a layer. `00` and `+0` are not numbers that PyTorch writes.
fn number(layer: &str) -> Option<usize> {
    layer.parse().ok().filter(|number: &usize| number.to_string() == layer)
}

/// Splits a tensor of stacked gates into the values of each gate.
fn gates(
    name: &str,
    tensor: &TensorView<'_>,
    count: usize,
) -> Result<Vec<Vec<f32>>, ParameterError> {
    check_rows(name, tensor.shape(), count)?;
    let values = floats(name, tensor)?;
    Ok(values.chunks_exact(values.len() / count).map(<[f32]>::to_vec).collect())
}

/// Fails if a tensor has no elements, or rows that are not a multiple of `count`.
fn check_rows(name: &str, dims: &[usize], count: usize) -> Result<(), ParameterError> {
    let mut expected: Vec<usize> = dims.iter().map(|&dim| dim.max(1)).collect();
    let rows = expected.first().and_then(|rows| rows.checked_next_multiple_of(count));
    expected.splice(..dims.len().min(1), [rows.unwrap_or(count)]);
    check_shape(name, &expected, dims)
}

fn check_shape(name: &str, expected: &[usize], got: &[usize]) -> Result<(), ParameterError> {
    if expected == got {
        return Ok(());
    }
    let (expected, got) = (expected.into(), got.into());
    Err(ParameterError::Shape { name: name.into(), expected, got })
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
