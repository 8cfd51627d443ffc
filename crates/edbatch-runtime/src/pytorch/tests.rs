//! Splitting and stacking gates: names, shapes, values, and hostile files.

use super::*;

/// A file of these tensors, each with the values 0, 1, 2, …
pub(super) fn file(tensors: &[(&str, &[usize])]) -> Vec<u8> {
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
    let biases: [(&str, &[usize]); 3] = [("x.0.b_r", &[2]), ("x.0.b_z", &[2]), ("x.0.b_c", &[2])];
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
