//! Files that no module of PyTorch writes: an error, or the values that the names promise.

use proptest::prelude::*;

use super::tests::file;
use super::*;

const ENC: Recurrent<'_> = Recurrent { module: "enc", suffix: "", name: "rnn", gates: LSTM };
const BACK: Recurrent<'_> =
    Recurrent { module: "enc", suffix: "_reverse", name: "rnn_reverse", gates: LSTM };
const DEC: Recurrent<'_> = Recurrent { module: "dec", suffix: "", name: "rnn", gates: GRU };

/// The result of a conversion as text: the names of the tensors, or the error.
fn names(result: Result<Vec<u8>, ParameterError>) -> String {
    let bytes = match result {
        Ok(bytes) => bytes,
        Err(error) => return error.to_string(),
    };
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut names = file.names();
    names.sort_unstable();
    names.join(" ")
}

fn split(tensors: &[(&str, &[usize])], modules: &[Recurrent<'_>]) -> String {
    names(split_gates(&file(tensors), modules))
}

fn stack(tensors: &[(&str, &[usize])], modules: &[Recurrent<'_>]) -> String {
    names(stack_gates(&file(tensors), modules))
}

#[test]
fn a_name_that_would_exist_twice_is_an_error_with_both_origins() {
    let weight = |name| (name, [8_usize, 2]);
    for (first, second, modules, expected) in [
        (
            weight("enc.weight_ih_l0"),
            weight("rnn.0.w_i"),
            &[ENC][..],
            "tensor rnn.0.w_i would exist twice: from enc.weight_ih_l0 and from rnn.0.w_i; rename \
             one of them",
        ),
        (
            weight("dec.weight_ih_l0"),
            weight("enc.weight_ih_l0"),
            &[ENC, DEC],
            "recurrent module rnn would exist twice: from enc and from dec; rename one of them",
        ),
        (
            weight("dec.weight_ih_l0"),
            weight("enc.weight_ih_l0_reverse"),
            &[BACK, Recurrent { name: "rnn_reverse", ..DEC }],
            "recurrent module rnn_reverse would exist twice: from enc (…_reverse) and from dec; \
             rename one of them",
        ),
        (
            weight("enc.weight_ih_l0_reverse"),
            weight("rnn_reverse.0.w_o"),
            &[BACK],
            "tensor rnn_reverse.0.w_o would exist twice: from enc.weight_ih_l0_reverse and from \
             rnn_reverse.0.w_o; rename one of them",
        ),
    ] {
        let tensors = [(first.0, &first.1[..]), (second.0, &second.1)];
        assert_eq!(split(&tensors, modules), expected);
    }
}

#[test]
fn a_stack_that_would_exist_twice_is_an_error_with_both_origins() {
    let gates = ["rnn.0.u_f", "rnn.0.u_g", "rnn.0.u_i", "rnn.0.u_o"];
    let mut tensors: Vec<(&str, &[usize])> = gates.map(|name| (name, &[2, 2][..])).into();
    tensors.push(("enc.weight_hh_l0", &[1]));
    assert_eq!(
        stack(&tensors, &[ENC]),
        "tensor enc.weight_hh_l0 would exist twice: from enc.weight_hh_l0 and from rnn.0.u_i; \
         rename one of them"
    );
    assert_eq!(
        stack(&tensors, &[ENC, Recurrent { module: "dec", ..ENC }]),
        "recurrent module rnn would exist twice: from enc and from dec; rename one of them"
    );
    // Two modules of one name in PyTorch, one of them the backward half of the other.
    let other = gates.map(|name| name.replace("rnn", "other"));
    tensors.pop();
    tensors.extend(other.iter().map(|name| (name.as_str(), &[2, 2][..])));
    assert_eq!(
        stack(&tensors, &[ENC, Recurrent { name: "other", ..ENC }]),
        "tensor enc.weight_hh_l0 would exist twice: from rnn.0.u_i and from other.0.u_i; rename \
         one of them"
    );
}

#[test]
fn both_biases_have_one_shape() {
    for got in [vec![20], vec![8], vec![4], vec![7], vec![16, 1], vec![1, 16], vec![], vec![0]] {
        assert_eq!(
            split(&[("enc.bias_ih_l0", &[16]), ("enc.bias_hh_l0", &got)], &[ENC]),
            format!("tensor enc.bias_hh_l0: the model expects shape [16], got {got:?}")
        );
    }
}

#[test]
fn one_bias_without_the_other_is_an_error() {
    for (there, missing) in [("bias_ih", "bias_hh"), ("bias_hh", "bias_ih")] {
        // The bias of another layer or half does not count.
        let names = [
            format!("enc.{there}_l0"),
            format!("enc.{missing}_l1"),
            format!("enc.{there}_l1"),
            format!("enc.{missing}_l0_reverse"),
        ];
        let tensors = names.each_ref().map(|name| (name.as_str(), &[8][..]));
        assert_eq!(
            split(&tensors, &[ENC]),
            format!("tensor enc.{missing}_l0 is missing; the model needs it with shape [8]")
        );
    }
}

#[test]
fn a_module_may_have_the_name_of_a_part() {
    let module = Recurrent { module: "bias_ih", ..ENC };
    let tensors: [(&str, &[usize]); 2] =
        [("bias_ih.bias_ih_l0", &[4]), ("bias_ih.bias_hh_l0", &[4])];
    assert_eq!(split(&tensors, &[module]), "rnn.0.b_f rnn.0.b_g rnn.0.b_i rnn.0.b_o");
}

#[test]
fn projections_are_an_error_that_names_them() {
    let tensors: [(&str, &[usize]); 3] = [
        ("enc.weight_ih_l0", &[12, 3]),
        ("enc.weight_hh_l0", &[12, 4]),
        ("enc.weight_hr_l0", &[4, 3]),
    ];
    let expected = "tensor enc.weight_hr_l0 is a projection (proj_size): expected an nn.LSTM \
                    without proj_size";
    assert_eq!(split(&tensors, &[ENC]), expected);
    assert_eq!(split(&tensors, &[Recurrent { gates: GRU, ..ENC }]), expected);
}

#[test]
fn layers_are_written_as_pytorch_writes_them() {
    for layer in ["00", "+0", "-0", "0_", "", " 0", "٠", "18446744073709551616"] {
        let name = format!("enc.weight_ih_l{layer}");
        assert_eq!(split(&[(&name, &[8, 1])], &[ENC]), name);
        let gates = ["i", "f", "g", "o"].map(|gate| format!("rnn.{layer}.w_{gate}"));
        let mut tensors = gates.each_ref().map(|name| (name.as_str(), &[1_usize, 1][..]));
        tensors.sort_unstable();
        assert_eq!(stack(&tensors, &[ENC]), tensors.map(|(name, _)| name).join(" "));
    }
}

#[test]
fn tensors_without_rows_or_elements_are_errors() {
    for (got, expected) in
        [(vec![], "[4]"), (vec![0], "[4]"), (vec![4, 0], "[4, 1]"), (vec![0, 3], "[4, 3]")]
    {
        let error = split(&[("enc.weight_ih_l0", &got)], &[ENC]);
        let start = "tensor enc.weight_ih_l0: the model expects shape";
        assert_eq!(error, format!("{start} {expected}, got {got:?}"));
    }
    for (got, expected) in [(vec![], "[1]"), (vec![0], "[1]"), (vec![1 << 62, 0], "[1, 1]")] {
        for letter in ["w", "u", "b"] {
            let gates = ["i", "f", "g", "o"].map(|gate| format!("rnn.0.{letter}_{gate}"));
            let error = stack(&gates.each_ref().map(|name| (name.as_str(), &got[..])), &[ENC]);
            let start = format!("tensor rnn.0.{letter}_i: the model expects shape");
            assert!(
                error.starts_with(&start) && error.ends_with(&format!("got {got:?}")),
                "{error}"
            );
            assert!(got.len() == 2 || error.contains(expected), "{error}");
        }
    }
    // A module without gates has no parts.
    let none = Recurrent { gates: &[], ..ENC };
    assert_eq!(split(&[("enc.weight_ih_l0", &[4, 1])], &[none]), "enc.weight_ih_l0");
    assert_eq!(stack(&[("rnn.0.w_i", &[4, 1])], &[none]), "rnn.0.w_i");
}

#[test]
fn halves_of_floats_are_split_as_floats() {
    let tensor = |dtype, data: &[u8]| {
        let view = TensorView::new(dtype, vec![4], data).unwrap();
        let views = [("enc.bias_ih_l0", view.clone()), ("enc.bias_hh_l0", view)];
        let file = safetensors::serialize(views, None).unwrap();
        let split = split_gates(&file, &[ENC]).map_err(|error| error.to_string())?;
        let split = SafeTensors::deserialize(&split).unwrap();
        Ok::<_, String>(["i", "f", "g", "o"].map(|gate| {
            let bytes = split.tensor(&format!("rnn.0.b_{gate}")).unwrap().data().to_vec();
            f32::from_le_bytes(bytes.try_into().unwrap())
        }))
    };
    // 1, 2, 3 and -0.5.
    let expected = Ok([2.0, 4.0, 6.0, -1.0]);
    assert_eq!(tensor(Dtype::F16, &[0, 0x3C, 0, 0x40, 0, 0x42, 0, 0xB8]), expected);
    assert_eq!(tensor(Dtype::BF16, &[0x80, 0x3F, 0, 0x40, 0x40, 0x40, 0, 0xBF]), expected);
    let error = tensor(Dtype::F32, &3e38_f32.to_le_bytes().repeat(4)).unwrap_err();
    assert!(error.starts_with("tensor enc.bias_ih_l0: its sum with bias_hh exceeds"), "{error}");
    let error = tensor(Dtype::F64, &[0; 32]).unwrap_err();
    assert!(error.starts_with("tensor enc.bias_ih_l0: expected F32"), "{error}");
}

/// Names of tensors that are, or nearly are, of a recurrent module.
fn name() -> impl Strategy<Value = String> {
    let (module, layer) = (r"((enc|dec|rnn|rnn_reverse|enc\.rnn)\.)?", r"(0|1|00|\+0)?");
    let stacked = format!(r"{module}(weight|bias)_(ih|hh|hr)_l{layer}(_reverse|\.)?");
    let split = format!(r"{module}{layer}\.([wubd]_|w)[ifgorzc]?");
    let [stacked, split] = [stacked, split].map(|it| prop::string::string_regex(&it).unwrap());
    prop_oneof![stacked, split, ".{0,4}"]
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    let one = prop_oneof![4 => Just(vec![4]), 1 => Just(vec![12]), 1 => Just(vec![])];
    prop_oneof![one, prop::collection::vec(prop::sample::select(vec![0, 1, 3, 4, 8]), 1..4)]
}

fn modules() -> impl Strategy<Value = Vec<Recurrent<'static>>> {
    let name = || prop::sample::select(vec!["", "enc", "dec", "rnn", "rnn_reverse"]);
    let suffix = prop::sample::select(vec!["", "_reverse"]);
    let gates = prop::sample::select(vec![LSTM, GRU, &[], &["i", "i"]]);
    let module = (name(), suffix, name(), gates)
        .prop_map(|(module, suffix, name, gates)| Recurrent { module, suffix, name, gates });
    prop::collection::vec(module, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_names_and_shapes_give_a_file_or_an_error(
        tensors in prop::collection::btree_map(name(), shape(), 0..12),
        modules in modules(),
    ) {
        let tensors: Vec<(&str, &[usize])> =
            tensors.iter().map(|(name, dims)| (name.as_str(), &dims[..])).collect();
        let bytes = file(&tensors);
        let results = [split_gates(&bytes, &modules), stack_gates(&bytes, &modules)];
        for bytes in results.into_iter().flatten() {
            prop_assert!(SafeTensors::deserialize(&bytes).is_ok());
        }
    }

    /// Splitting reads each weight from the rows of its own gate, or fails.
    #[test]
    fn weights_are_those_of_the_gate_in_the_name(
        hidden in 1_usize..4,
        columns in 1_usize..4,
        others in prop::collection::btree_map(name(), shape(), 0..6),
    ) {
        let stack = [4 * hidden, columns];
        let mut tensors: Vec<(&str, &[usize])> = vec![("enc.weight_ih_l0", &stack)];
        let others: Vec<(&str, &[usize])> =
            others.iter().map(|(name, dims)| (name.as_str(), &dims[..])).collect();
        tensors.extend(others.iter().filter(|(name, _)| *name != "enc.weight_ih_l0"));
        if let Ok(bytes) = split_gates(&file(&tensors), &[ENC, BACK]) {
            let file = SafeTensors::deserialize(&bytes).unwrap();
            for (index, gate) in LSTM.iter().enumerate() {
                let tensor = file.tensor(&format!("rnn.0.w_{gate}")).unwrap();
                prop_assert_eq!(tensor.shape(), [hidden, columns]);
                let first = f32::from_le_bytes(tensor.data()[..4].try_into().unwrap());
                prop_assert_eq!(first, (index * hidden * columns) as f32);
            }
        }
    }
}
