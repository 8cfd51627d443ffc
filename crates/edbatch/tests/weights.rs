//! Weights files that do not match a model are errors, which name the tensor and the mismatch.

use std::path::Path;

use edbatch_models::{Folder, Model, Zoo};
use edbatch_runtime::{ParameterError, Parameters};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

/// A tensor of a file: name, type, shape, bytes.
type Entry = (String, Dtype, Vec<usize>, Vec<u8>);

/// A model, and the tensors of its weights file.
fn model() -> (Zoo, Vec<Entry>) {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens-small");
    let folder = Folder::read(goldens.join("tree_lstm")).unwrap();
    let bytes = std::fs::read(folder.weights()).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let entry = |(name, view): (&str, TensorView<'_>)| {
        (name.into(), view.dtype(), view.shape().into(), view.data().into())
    };
    (folder.model().unwrap(), file.iter().map(entry).collect())
}

fn read(model: &Zoo, entries: &[Entry]) -> Result<Parameters, ParameterError> {
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
fn tensors_that_are_not_f32_are_an_error_with_their_type() {
    for (dtype, bytes, name) in [
        (Dtype::F64, 8, "F64"),
        (Dtype::F16, 2, "F16"),
        (Dtype::BF16, 2, "BF16"),
        (Dtype::I32, 4, "I32"),
        (Dtype::U8, 1, "U8"),
    ] {
        let message = error_after(|entries| {
            let (_, element, shape, data) = tensor(entries, "out.bias");
            (*element, *data) = (dtype, vec![0; bytes * shape[0]]);
        });
        assert_eq!(message, format!("tensor out.bias: expected F32, got {name}"));
    }
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
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens-small");
    let bytes = std::fs::read(goldens.join("tree_lstm/weights.safetensors")).unwrap();
    let (model, _) = model();
    for end in (0..bytes.len()).step_by(97) {
        let error = Parameters::from_safetensors(model.network(), &bytes[..end]).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("not a readable safetensors file: "), "{end}: {message}");
    }
}
