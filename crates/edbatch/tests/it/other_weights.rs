//! Weights created for another network: tensors are matched by name, or there is an error.

use edbatch::models::Model;
use edbatch::{Engine, interpret};
use edbatch_graph::{Network, Shape};
use edbatch_runtime::{Parameters, Precision};

use crate::fn_model::{random, word_model};

/// Computes (a - b) x, where x is the embedding of a word. The matrices a and b are declared in a
/// given order.
fn difference(order: &[&str], rows: usize) -> impl Model<Input = Vec<u32>> + Clone + use<> {
    let mut network = Network::new();
    for name in order {
        network.add_parameter(name, &[rows, 3]).unwrap();
    }
    let record = network.record("difference", [("y", Shape::Vector(rows as u32))]).unwrap();
    let cell = network.cell("difference", record, |cell| {
        let x = cell.lookup("word", "embed", &[4, 3]);
        let [a, b] = ["a", "b"].map(|name| cell.parameter(name, &[rows, 3]));
        vec![a.matmul(x) - b.matmul(x)]
    });
    word_model(network, cell.unwrap())
}

#[test]
fn the_order_of_declarations_does_not_matter() {
    let (one, reversed) = (difference(&["a", "b"], 2), difference(&["b", "a"], 2));
    let weights = random(one.network(), 3);
    let inputs = [2, 0, 3].map(|word| vec![word]);
    let expected = Engine::new(one, weights.clone()).unwrap().run(&inputs).unwrap();
    assert_eq!(interpret(&reversed, &weights, &inputs, Precision::F32).unwrap().outputs, expected);
    let file = weights.to_safetensors(reversed.network()).unwrap();
    assert_eq!(Engine::new(reversed, weights.clone()).unwrap().run(&inputs).unwrap(), expected);
    let read = Parameters::from_safetensors(difference(&["a", "b"], 2).network(), &file);
    assert_eq!(read.unwrap(), weights);
}

#[test]
fn wrong_tensors_are_errors() {
    let model = difference(&["a", "b"], 2);
    for (other, why) in [
        (difference(&[], 5), "tensor a: the model expects shape [2, 3], got [5, 3]"),
        (
            difference(&["c"], 2),
            "unexpected tensor c of shape [2, 3]: the model does not declare it",
        ),
    ] {
        let weights = random(other.network(), 3);
        let expected = format!("the weights do not fit the model: {why}");
        let error = Engine::new(model.clone(), weights.clone()).err().unwrap();
        assert_eq!(error.to_string(), expected);
        let error = interpret(&model, &weights, &[vec![1]], Precision::F32).err().unwrap();
        assert_eq!(error.to_string(), expected);
        assert_eq!(weights.to_safetensors(model.network()).unwrap_err().to_string(), why);
    }
    let missing = Engine::new(difference(&["c"], 2), random(model.network(), 3)).err().unwrap();
    let why = "tensor c is missing; the model needs it with shape [2, 3]";
    assert_eq!(missing.to_string(), format!("the weights do not fit the model: {why}"));
}
