//! Files that users have in place of weights, and damaged ones: the error says what they are.

use std::collections::HashMap;

use super::*;

fn error(bytes: &[u8]) -> String {
    open_safetensors(bytes).unwrap_err().to_string()
}

/// A file with this header and these bytes of elements.
fn with_header(header: &str, elements: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), elements].concat()
}

#[test]
fn other_formats_are_named_with_the_way_out() {
    let zip = |name: &str| {
        let mut zip = vec![0; 30];
        zip[..6].copy_from_slice(b"PK\x03\x04\x14\x00");
        zip[26] = name.len() as u8;
        [&zip, name.as_bytes(), &[7; 40]].concat()
    };
    let (torch, numpy) = ("safetensors.torch.save_file", "safetensors.numpy.save_file");
    let files: [(&[u8], &str, &str); 15] = [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            "Git LFS",
            "`git lfs pull`",
        ),
        (&zip("archive/data.pkl"), "zip archive, as torch.save", torch),
        (&zip("w.npy"), "NumPy (.npz)", numpy),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "pickle, as torch.save", torch),
        (b"\x80\x04\x95\x01\x00\x00\x00\x00\x00\x00\x00}", "pickle, as torch.save", torch),
        (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'", "NumPy (.npy)", numpy),
        (b"\x89HDF\r\n\x1a\n\x00\x00", "HDF5", numpy),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "gzip", "decompress"),
        (b"<!DOCTYPE html>\n<html>", "page of HTML", "download"),
        (b"\n <?xml version=\"1.0\"?><Error>", "XML", "download"),
        (
            b"Entry not found, caf\xc3\xa9",
            "text that begins with \"Entry not found, caf\u{e9}\"",
            "",
        ),
        (b"{\"weight_map\": {}}", "text that begins with \"{\\\"weight_map\\\"", ""),
        (b"", "empty", ""),
        (b"\x50\x00\x00", "cut off: expected 8 bytes, got 3", ""),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0d", "begins with [89, 50, 4E, 47, 0D, 0A, 1A, 0A", ""),
    ];
    for (bytes, what, advice) in files {
        let error = error(bytes);
        assert!(error.starts_with("not a readable safetensors file: it "), "{error}");
        assert!(error.contains(what) && error.contains(advice), "{error}");
    }
}

#[test]
fn files_that_are_cut_off_or_too_long_are_measured() {
    let data = [1; 24];
    let metadata = HashMap::from([("x".to_string(), "\"data_offsets\":[0,99]".to_string())]);
    let tensors = |metadata: Option<HashMap<_, _>>| {
        let view = |at: usize| TensorView::new(Dtype::F32, vec![3, 1], &data[at..at + 12]).unwrap();
        safetensors::serialize([("data_offsets", view(0)), ("w", view(12))], metadata).unwrap()
    };
    // As other programs write it, with white space.
    let spaced = "{ \"w\" : { \"dtype\" : \"F32\" , \"shape\" : [ 6 ] ,\n \"data_offsets\" : \
                  [ 0 , 24 ] } }";
    let files = [tensors(None), tensors(Some(metadata)), with_header(spaced, &data)];
    for file in files {
        assert!(open_safetensors(&file).is_ok());
        let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        for end in 8..file.len() {
            let declared = if end < header { header } else { file.len() };
            assert_eq!(
                error(&file[..end]),
                format!(
                    "not a readable safetensors file: it is cut off: expected {declared} bytes, as \
                     its header declares, got {end}; copy it again"
                )
            );
        }
        for surplus in [1, 4, 1000] {
            let error = error(&[&file[..], &vec![0; surplus]].concat());
            let (declared, there) = (file.len(), file.len() + surplus);
            assert_eq!(
                error,
                format!(
                    "not a readable safetensors file: it has {surplus} surplus bytes at its end: \
                     expected {declared} bytes, as its header declares, got {there}"
                )
            );
        }
    }
    let alone = error(&with_header("{}", &[0; 4]));
    assert!(alone.contains("4 surplus bytes"), "{alone}");
}

#[test]
fn a_name_that_occurs_twice_is_named() {
    let tensor = |name: &str, from: usize| {
        let to = from + 4;
        format!("{name}: {{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[{from},{to}]}}")
    };
    for name in ["\"w\"", "\"a\\\"w\\\\\"", "\"{\"", "\"dtype\"", "\"\u{e9}\""] {
        // In any order: the last one counts for the library.
        for (first, last) in [(0, 8), (8, 0), (4, 4)] {
            let header = [tensor(name, first), tensor("\"other\"", 4), tensor(name, last)];
            let error = error(&with_header(&format!("{{{}}}", header.join(",")), &[0; 12]));
            let expected = format!("its header names {name} twice");
            assert_eq!(error, format!("not a readable safetensors file: {expected}"));
        }
    }
    // Another damage keeps its own message.
    let header = [tensor("\"a\"", 0), tensor("\"b\"", 8)].join(",");
    let error = error(&with_header(&format!("{{{header}}}"), &[0; 12]));
    assert_eq!(error, "not a readable safetensors file: invalid offset for tensor `b`");
}

#[test]
fn floats_of_16_bits_are_read_exactly() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let read =
        |dtype| floats("w", &TensorView::new(dtype, vec![1 << 16], &bytes).unwrap()).unwrap();
    for (dtype, width, smallest) in [(Dtype::F16, 10, -24), (Dtype::BF16, 7, -133)] {
        let (hidden, special) = (1 << width, (1 << (15 - width)) - 1);
        for (bits, got) in (0..=u16::MAX).zip(read(dtype)) {
            let (exponent, mantissa) = (bits >> width & special, f64::from(bits & (hidden - 1)));
            let magnitude = match exponent {
                0 => mantissa * 2f64.powi(smallest),
                _ if exponent < special => {
                    (f64::from(hidden) + mantissa) * 2f64.powi(smallest + i32::from(exponent) - 1)
                }
                _ => {
                    if mantissa == 0.0 {
                        f64::INFINITY
                    } else {
                        f64::NAN
                    }
                }
            };
            let expected = (if bits >> 15 == 0 { magnitude } else { -magnitude }) as f32;
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan());
        }
    }
}
