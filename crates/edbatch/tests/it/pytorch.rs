//! Weights from PyTorch, checked against PyTorch's outputs.
//!
//! `fixtures/pytorch.py` created the file with torch 2.5.1: two-layer `nn.LSTM` and `nn.GRU` and a
//! bidirectional `nn.LSTM`, on six inputs of three elements.

use edbatch::Engine;
use edbatch::models::{Build, Model};
use edbatch_graph::{CellBuilder, Kind, Network, Shape, Tensor};
use edbatch_runtime::Parameters;
use edbatch_runtime::pytorch::{GRU, LSTM, Recurrent, split_gates};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::fn_model::FnModel;

const FILE: &[u8] = include_bytes!("../fixtures/pytorch.safetensors");
const STEPS: usize = 6;
const INPUTS: usize = 3;
const HIDDEN: usize = 5;

/// A step of `nn.LSTM`: computes h and c from x, h and c.
fn lstm<'c>(
    cell: &'c CellBuilder,
    name: &str,
    x: Tensor<'c>,
    [h, c]: [Tensor<'c>; 2],
) -> [Tensor<'c>; 2] {
    let gate = |gate: &str| {
        let [w, u, b] = parameters(cell, name, gate, x);
        w.matmul(x) + u.matmul(h) + b
    };
    let c = gate("f").sigmoid() * c + gate("i").sigmoid() * gate("g").tanh();
    [gate("o").sigmoid() * c.tanh(), c]
}

/// A step of `nn.GRU`, whose reset gate multiplies a product. The second field of the record is
/// unused.
fn gru<'c>(
    cell: &'c CellBuilder,
    name: &str,
    x: Tensor<'c>,
    [h, c]: [Tensor<'c>; 2],
) -> [Tensor<'c>; 2] {
    let gate = |gate: &str| {
        let [w, u, b] = parameters(cell, name, gate, x);
        (w.matmul(x) + u.matmul(h) + b).sigmoid()
    };
    let (r, z) = (gate("r"), gate("z"));
    let [w, u, b] = parameters(cell, name, "c", x);
    let d = cell.parameter(&format!("{name}.d_c"), &[HIDDEN]);
    let n = (w.matmul(x) + b + r * (u.matmul(h) + d)).tanh();
    let one = cell.constant(1.0, Shape::Vector(HIDDEN as u32));
    [(one - z) * n + z * h, c]
}

fn parameters<'c>(cell: &'c CellBuilder, name: &str, gate: &str, x: Tensor<'c>) -> [Tensor<'c>; 3] {
    [
        cell.parameter(&format!("{name}.w_{gate}"), &[HIDDEN, x.shape().elements()]),
        cell.parameter(&format!("{name}.u_{gate}"), &[HIDDEN, HIDDEN]),
        cell.parameter(&format!("{name}.b_{gate}"), &[HIDDEN]),
    ]
}

type Step = for<'c> fn(&'c CellBuilder, &str, Tensor<'c>, [Tensor<'c>; 2]) -> [Tensor<'c>; 2];

/// Returns layers of recurrent cells over the rows of a table.
fn stack(name: &str, layers: usize, step: Step, backward: bool) -> impl Model<Input = ()> + use<> {
    let mut network = Network::new();
    let hidden = Shape::Vector(HIDDEN as u32);
    let state = network.record("state", [("h", hidden), ("c", hidden)]).unwrap();
    let start = network.initial(state, &["zero", "zero"]).unwrap();
    let layers = (0..layers).map(|layer| {
        let name = format!("{name}.{layer}");
        let cell = network.cell(&name, state, |cell| {
            let before = cell.one("before", state);
            let x = match layer {
                0 => cell.lookup("row", "input", &[STEPS, INPUTS]),
                _ => cell.one::<2>("below", state)[0],
            };
            step(cell, &name, x, before).into()
        });
        cell.unwrap()
    });
    let layers: Vec<Kind> = layers.collect();
    FnModel::new(network, move |build: &Build<'_>, (): &()| {
        let mut states = vec![start; layers.len()];
        for step in 0..STEPS {
            let row = row(step, backward) as u32;
            let mut below = None;
            for (&layer, state) in layers.iter().zip(&mut states) {
                *state = match below {
                    None => build.call(layer, &[row], &[*state])?,
                    Some(below) => build.call(layer, &[], &[*state, below])?,
                };
                below = Some(*state);
            }
            build.emit(below.expect("at least one layer"));
        }
        Ok(())
    })
}

/// The row of the table that a step reads.
fn row(step: usize, backward: bool) -> usize {
    if backward { STEPS - 1 - step } else { step }
}

/// Runs a stack of cells with PyTorch's weights, and compares h of each step with columns of
/// PyTorch's output.
fn check((layers, step): (usize, Step), module: Recurrent<'_>, output: &str, first_column: usize) {
    let backward = !module.suffix.is_empty();
    let stack = stack(module.name, layers, step, backward);
    let file = SafeTensors::deserialize(FILE).unwrap();
    let zeros = [0; 4 * HIDDEN];
    let zero = TensorView::new(Dtype::F32, vec![HIDDEN], &zeros).unwrap();
    let mine = |name: &str| {
        let of = name.strip_prefix(module.module).is_some_and(|rest| rest.starts_with('.'));
        of && !name.ends_with("output") && name.ends_with("_reverse") == backward
    };
    let mut tensors: Vec<_> = file.tensors().into_iter().filter(|(name, _)| mine(name)).collect();
    tensors.push(("input".into(), file.tensor("input").unwrap()));
    tensors.push(("zero".into(), zero));
    let bytes = split_gates(&safetensors::serialize(tensors, None).unwrap(), &[module]).unwrap();
    let parameters = Parameters::from_safetensors(stack.network(), &bytes).unwrap();

    let expected = file.tensor(output).unwrap();
    let width = expected.shape()[1];
    let expected: Vec<f32> =
        expected.data().as_chunks().0.iter().copied().map(f32::from_le_bytes).collect();
    let got = &Engine::new(stack, parameters).unwrap().run(&[()]).unwrap()[0];
    assert_eq!(got.len(), STEPS);
    for (step, got) in got.iter().enumerate() {
        let expected = &expected[row(step, backward) * width + first_column..][..HIDDEN];
        for (got, expected) in got[..HIDDEN].iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "step {step}: {got}, expected {expected}");
        }
    }
}

#[test]
fn a_stack_of_lstms() {
    let module = Recurrent { module: "lstm", suffix: "", name: "lstm", gates: LSTM };
    check((2, lstm), module, "lstm.output", 0);
}

#[test]
fn a_stack_of_grus() {
    let module = Recurrent { module: "gru", suffix: "", name: "gru", gates: GRU };
    check((2, gru), module, "gru.output", 0);
}

#[test]
fn both_directions_of_an_lstm() {
    let forward = Recurrent { module: "both", suffix: "", name: "both", gates: LSTM };
    check((1, lstm), forward, "both.output", 0);
    let backward = Recurrent { suffix: "_reverse", ..forward };
    check((1, lstm), backward, "both.output", HIDDEN);
}
