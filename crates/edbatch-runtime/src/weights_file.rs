//! Opens the bytes of a safetensors file, or says what they are instead; and reads its tensors.
//!
//! *Source*: the format of safetensors. Eight bytes are the length of the header, little-endian;
//! the header is a JSON object that begins with `{`; the elements of all tensors follow without
//! gaps.

use std::collections::{HashMap, HashSet};

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};

use crate::ParameterError;

/// Opens the bytes of a safetensors file.
///
/// # Errors
/// If `bytes` is not a valid safetensors file. The error says what it is, if that is a format that
/// is often found in this place, or how many bytes the header declares.
pub fn open_safetensors(bytes: &[u8]) -> Result<SafeTensors<'_>, ParameterError> {
    SafeTensors::deserialize(bytes).map_err(|error| {
        let what = match header(bytes) {
            Some((length, header)) => damage(bytes, length, header, &error),
            None => Some(other_format(bytes)),
        };
        what.map_or(ParameterError::Format(error), |what| ParameterError::File { what })
    })
}

/// Returns the bytes of a safetensors file with these tensors: the name, the type, the dimensions
/// and the bytes of each.
pub(crate) fn serialize<'t>(
    tensors: impl Iterator<Item = (&'t str, Dtype, &'t [usize], &'t [u8])>,
    metadata: Option<HashMap<String, String>>,
) -> Result<Vec<u8>, ParameterError> {
    let view = |(name, dtype, dims, bytes): (_, _, &[usize], _)| {
        Ok((name, TensorView::new(dtype, dims.into(), bytes)?))
    };
    let views = tensors.map(view).collect::<Result<Vec<(&str, _)>, _>>();
    views.and_then(|views| safetensors::serialize(views, metadata)).map_err(ParameterError::Format)
}

/// Returns the bytes of the elements of a tensor.
pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Converts the elements of a tensor to f32, exactly.
pub(crate) fn floats(name: &str, tensor: &TensorView<'_>) -> Result<Vec<f32>, ParameterError> {
    let data = tensor.data();
    match tensor.dtype() {
        Dtype::F32 => convert(name, data, f32::from_le_bytes),
        Dtype::F16 => convert(name, data, |bytes| half(u16::from_le_bytes(bytes))),
        Dtype::BF16 => {
            convert(name, data, |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
        }
        got => Err(ParameterError::Type { name: name.into(), got: format!("{got:?}") }),
    }
}

fn convert<const N: usize>(
    name: &str,
    data: &[u8],
    value: impl Fn([u8; N]) -> f32,
) -> Result<Vec<f32>, ParameterError> {
    let (elements, _) = data.as_chunks();
    let (mut values, bytes) = (Vec::new(), 4 * elements.len() as u64);
    let reserved = values.try_reserve_exact(elements.len());
    reserved.map_err(|_| ParameterError::Memory { name: format!("tensor {name}"), bytes })?;
    values.extend(elements.iter().map(|&bytes| value(bytes)));
    Ok(values)
}

/// Converts a 16-bit float of IEEE 754 (F16).
fn half(bits: u16) -> f32 {
    let (sign, rest) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7FFF) << 13);
    if bits & 0x7C00 == 0x7C00 {
        return f32::from_bits(sign | 0x7F80_0000 | rest);
    }
    // The exponent is biased by 15 in place of 127. The product is exact, of subnormals too.
    let shift = f32::from_bits((127 + 127 - 15) << 23);
    f32::from_bits(sign | rest) * shift
}

/// The maximum length of a header, which safetensors allows.
const MAX_HEADER: u64 = 100_000_000;

/// Returns the length that the header should have, and the part of it that is there. `None` if the
/// bytes do not begin like a safetensors file.
fn header(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = u64::from_le_bytes(*length);
    let is_header = length <= MAX_HEADER && rest.first().is_none_or(|&first| first == b'{');
    is_header.then(|| (length, &rest[..rest.len().min(length as usize)]))
}

/// Describes the damage of a file with a header.
fn damage(bytes: &[u8], length: u64, header: &[u8], error: &SafeTensorError) -> Option<String> {
    let (there, header) = (bytes.len() as u64, String::from_utf8_lossy(header));
    if let Some(name) = twice(&header) {
        return Some(format!("its header names \"{name}\" twice"));
    }
    let end = match error {
        SafeTensorError::InvalidHeaderLength => 0,
        SafeTensorError::MetadataIncompleteBuffer => data_end(&header),
        _ => return None,
    };
    let declared = end.saturating_add(8 + length);
    let expected = format!("expected {declared} bytes, as its header declares, got {there}");
    Some(match there.checked_sub(declared) {
        None => format!("it is cut off: {expected}; copy it again"),
        Some(surplus) => format!("it has {surplus} surplus bytes at its end: {expected}"),
    })
}

/// Returns the number of bytes of all elements: the greatest end of `data_offsets`.
fn data_end(header: &str) -> u64 {
    let ends = header.split("\"data_offsets\"").skip(1).filter_map(|rest| {
        let (_, end) = rest.split_once(']')?.0.split_once(',')?;
        end.trim().parse().ok()
    });
    ends.max().unwrap_or(0)
}

/// Returns the name of a tensor that occurs twice in a header, as it is written there.
fn twice(header: &str) -> Option<&str> {
    let (mut names, mut depth, mut rest) = (HashSet::new(), 0, header);
    while let Some(at) = rest.find(['{', '}', '"']) {
        let after = &rest[at + 1..];
        match rest.as_bytes()[at] {
            b'{' => (rest, depth) = (after, depth + 1),
            b'}' => (rest, depth) = (after, depth - 1),
            _ => {
                let mut is_escaped = false;
                let is_end = |c| {
                    let is_end = c == '"' && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    is_end
                };
                let (name, after) = after.split_at(after.find(is_end)?);
                if depth == 1 && !names.insert(name) {
                    return Some(name);
                }
                rest = &after[1..];
            }
        }
    }
    None
}

/// Describes a file that does not begin with a header.
fn other_format(bytes: &[u8]) -> String {
    const TORCH: &str = "as torch.save writes: load it in PyTorch, and write its tensors with \
                         safetensors.torch.save_file";
    const NUMPY: &str = "write its arrays with safetensors.numpy.save_file";
    const LFS: &str = "a pointer of Git LFS: run `git lfs pull` to get the file itself";
    let shown = &bytes[..bytes.len().min(40)];
    let text = shown.utf8_chunks().next().map_or("", |chunk| chunk.valid()).trim_start();
    // The name of the first file of a zip archive follows 30 bytes. NumPy's end with `.npy`.
    let is_numpy = bytes.windows(4).skip(30).take(250).any(|name| name == b".npy");
    match bytes {
        [] => "it is empty".into(),
        [b'P', b'K', 3, 4, ..] if is_numpy => format!("it is an archive of NumPy (.npz): {NUMPY}"),
        [b'P', b'K', 3, 4, ..] => format!("it is a zip archive, {TORCH}"),
        [0x80, 0..=5, ..] => format!("it is a pickle, {TORCH}"),
        [0x93, b'N', b'U', b'M', ..] => format!("it is an array of NumPy (.npy): {NUMPY}"),
        [0x89, b'H', b'D', b'F', ..] => format!("it is an HDF5 file: {NUMPY}"),
        [0x1F, 0x8B, ..] => "it is compressed by gzip: decompress it".into(),
        _ if text.starts_with("version https://git-lfs") => format!("it is {LFS}"),
        _ if text.starts_with('<') => "it is a page of HTML or XML: download the file".into(),
        _ if bytes.len() < 8 => format!("it is cut off: expected 8 bytes, got {}", bytes.len()),
        _ if text.len() > 8 && !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            format!("it is a text that begins with {text:?}")
        }
        _ => format!("it begins with {shown:02X?}, not with the length of its header"),
    }
}

#[cfg(test)]
mod tests;
