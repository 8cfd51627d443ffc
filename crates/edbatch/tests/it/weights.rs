//! Weights files that do not match a model are errors, which name the tensor and the mismatch.

use std::path::Path;

use edbatch::models::{Folder, FolderModel, Model};
use edbatch_runtime::{ParameterError, Parameters};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::small::goldens;

/// A tensor of a file: name, type, shape, bytes.
type Entry = (String, Dtype, Vec<usize>, Vec<u8>);

/// A model, and the tensors of its weights file.
fn model() -> (FolderModel, Vec<Entry>) {
    let folder = Folder::read(goldens().join("tree_lstm")).unwrap();
    let bytes = std::fs::read(folder.weights()).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let entry = |(name, view): (&str, TensorView<'_>)| {
        (name.into(), view.dtype(), view.shape().into(), view.data().into())
    };
    (folder.model().unwrap(), file.iter().map(entry).collect())
}

fn read(model: &FolderModel, entries: &[Entry]) -> Result<Parameters, ParameterError> {
    let views = entries.iter().map(|(name, dtype, shape, bytes)| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    let file = safetensors::serialize(views, None).unwrap();
    Parameters::from_safetensors(model.network(), &file)
}

/// Returns the error message for the file after a change.
fn error_after(change: impl FnOnce(&mut Vec<Entry>)) -> String {
    let (model, mut entries) = model();
    change(&mut entries);
    read(&model, &entries).expect_err("the file does not match").to_string()
}

fn tensor<'a>(entries: &'a mut [Entry], name: &str) -> &'a mut Entry {
    entries.iter_mut().find(|(other, ..)| other == name).expect("the model has it")
}

#[test]
fn declared_tensors_are_read_bit_by_bit() {
    let (model, entries) = model();
    let parameters = read(&model, &entries).unwrap();
    let network = model.network();
    assert_eq!(entries.len(), network.parameters().len());
    let written = parameters.to_safetensors(network).unwrap();
    let written = SafeTensors::deserialize(&written).unwrap();
    for (name, dtype, shape, bytes) in &entries {
        let view = written.tensor(name).unwrap();
        assert_eq!((view.dtype(), view.shape(), view.data()), (*dtype, &shape[..], &bytes[..]));
    }
}

#[test]
fn undeclared_tensors_are_an_error_that_names_the_first_by_name() {
    let undeclared = |name: &str| (name.to_string(), Dtype::F32, vec![2, 3], vec![0; 24]);
    let alone = error_after(|entries| entries.push(undeclared("optimizer.step")));
    assert_eq!(
        alone,
        "unexpected tensor optimizer.step of shape [2, 3]: the model does not declare it"
    );
    // In any order in the file.
    for names in [["x.late", "b.early"], ["b.early", "x.late"]] {
        let both = error_after(|entries| entries.extend(names.map(undeclared)));
        assert!(both.starts_with("unexpected tensor b.early of shape"), "{both}");
    }
}

#[test]
fn tensors_of_other_types_are_an_error_that_says_how_to_convert_them() {
    for (dtype, bytes, name) in
        [(Dtype::F64, 8, "F64"), (Dtype::I32, 4, "I32"), (Dtype::U8, 1, "U8")]
    {
        let message = error_after(|entries| {
            let (_, element, shape, data) = tensor(entries, "out.bias");
            (*element, *data) = (dtype, vec![0; bytes * shape[0]]);
        });
        let expected = format!(
            "tensor out.bias: expected F32, F16 or BF16, got {name}; convert it with `.float()` \
             (PyTorch) or `.astype(\"float32\")` (NumPy) before save_file"
        );
        assert_eq!(message, expected);
    }
}

#[test]
fn tensors_of_16_bits_are_read() {
    let (model, mut entries) = model();
    let (_, dtype, shape, data) = tensor(&mut entries, "out.bias");
    assert_eq!(*shape, [5]);
    (*dtype, *data) = (Dtype::F16, vec![0, 0x3C, 0, 0xC0, 1, 0, 0, 0x7C, 0, 0x80]);
    let expected = [1.0, -2.0, 2f32.powi(-24), f32::INFINITY, -0.0].map(f32::to_bits);
    let read = read(&model, &entries).unwrap();
    let bits: Vec<u32> = read.named("out.bias").unwrap().iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, expected);
}

#[test]
fn a_missing_tensor_is_shown_with_the_one_that_ends_alike() {
    let missing = "tensor embed.weight is missing; the model needs it with shape";
    for (name, other) in [
        ("module.embed.weight", "module.embed.weight"),
        ("model.encoder.embed.weight", "model.encoder.embed.weight"),
        ("embed", ""),
        ("embed.weights", ""),
    ] {
        let message = error_after(|entries| tensor(entries, "embed.weight").0 = name.into());
        let expected = match other {
            "" => "]".into(),
            _ => format!("; if {other} is this tensor, rename it to embed.weight"),
        };
        assert!(message.starts_with(missing) && message.ends_with(&expected), "{message}");
    }
    // All names have the prefix. The one with more equal parts is nearer, whatever the order.
    let message = error_after(|entries| {
        entries.iter_mut().for_each(|(name, ..)| name.insert_str(0, "module."));
        let (_, dtype, shape, data) = tensor(entries, "module.embed.weight").clone();
        entries.push(("a.embed.weight".into(), dtype, shape, data));
    });
    assert!(
        message.ends_with("if a.embed.weight is this tensor, rename it to embed.weight"),
        "{message}"
    );
    let message = error_after(|entries| {
        tensor(entries, "leaf.w_i").0 = "module.leaf.w_i".into();
        let (_, dtype, shape, data) = tensor(entries, "embed.weight").clone();
        entries.push(("a.w_i".into(), dtype, shape, data));
    });
    assert!(message.ends_with("if module.leaf.w_i is this tensor, rename it to leaf.w_i"));
}

/// The error of `load` for the small tree model after a change of its files.
fn load_error(change: impl FnOnce(&Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "vocab.txt", "weights.safetensors"] {
        std::fs::copy(goldens().join("tree_lstm").join(file), folder.path().join(file)).unwrap();
    }
    change(folder.path());
    edbatch::load(folder.path()).unwrap_err().to_string()
}

#[test]
fn a_shape_that_does_not_fit_is_shown_with_the_sizes_of_the_folder() {
    let with = |from: &str, to: &str| {
        load_error(|folder| {
            let file = folder.join("config.json");
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.contains(from), "{text}");
            std::fs::write(file, text.replace(from, to)).unwrap();
        })
    };
    let message = with("\"hidden\": 5", "\"hidden\": 7");
    let expected = "shape [7, 4], got [5, 4]; that follows from \"hidden\" of config.json, 7";
    assert!(message.ends_with(expected), "{message}");
    let message = load_error(|folder| {
        let file = folder.join("vocab.txt");
        let text = std::fs::read_to_string(&file).unwrap() + "zebra\n";
        std::fs::write(file, text).unwrap();
    });
    assert!(message.contains("tensor embed.weight: ") && message.contains("lines of vocab.txt, "));
}

#[test]
fn wrong_shapes_are_errors_even_with_the_right_number_of_elements() {
    let message = error_after(|entries| tensor(entries, "leaf.w_i").2.reverse());
    assert_eq!(message, "tensor leaf.w_i: the model expects shape [5, 4], got [4, 5]");
    let message = error_after(|entries| tensor(entries, "out.bias").2.push(1));
    assert_eq!(message, "tensor out.bias: the model expects shape [5], got [5, 1]");
}

#[test]
fn truncated_files_are_errors() {
    let bytes = std::fs::read(goldens().join("tree_lstm/weights.safetensors")).unwrap();
    let (model, _) = model();
    for end in (0..bytes.len()).step_by(97) {
        let error = Parameters::from_safetensors(model.network(), &bytes[..end]).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("not a readable safetensors file: "), "{end}: {message}");
    }
}
