//! Weights created for another network: tensors are matched by name, or there is an error.

use std::sync::Arc;

use edbatch::models::{Build, BuildError, Model};
use edbatch::{Engine, interpret};
use edbatch_graph::{Kind, Network, Shape};
use edbatch_runtime::{Parameters, Precision};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Computes (a - b) x, where x is the embedding of a word. The matrices a and b are declared in a
/// given order.
#[derive(Clone)]
struct Difference {
    network: Arc<Network>,
    cell: Kind,
}

impl Difference {
    fn new(order: &[&str], rows: usize) -> Self {
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
        Self { network: Arc::new(network), cell: cell.unwrap() }
    }

    fn weights(&self) -> Parameters {
        Parameters::random(&self.network, &mut Xoshiro256PlusPlus::seed_from_u64(3))
    }
}

impl Model for Difference {
    type Input = u32;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, &word: &u32) -> Result<(), BuildError> {
        build.emit(build.call(self.cell, &[word], &[])?);
        Ok(())
    }
}

#[test]
fn the_order_of_declarations_does_not_matter() {
    let (one, reversed) = (Difference::new(&["a", "b"], 2), Difference::new(&["b", "a"], 2));
    let weights = one.weights();
    let inputs = [2, 0, 3];
    let expected = Engine::new(one, weights.clone()).unwrap().run(&inputs).unwrap();
    assert_eq!(interpret(&reversed, &weights, &inputs, Precision::F32).unwrap().outputs, expected);
    let file = weights.to_safetensors(&reversed.network).unwrap();
    assert_eq!(Engine::new(reversed, weights.clone()).unwrap().run(&inputs).unwrap(), expected);
    let read = Parameters::from_safetensors(&Difference::new(&["a", "b"], 2).network, &file);
    assert_eq!(read.unwrap(), weights);
}

#[test]
fn wrong_tensors_are_errors() {
    let model = Difference::new(&["a", "b"], 2);
    for (other, why) in [
        (Difference::new(&[], 5), "tensor a: the model expects shape [2, 3], got [5, 3]"),
        (
            Difference::new(&["c"], 2),
            "unexpected tensor c of shape [2, 3]: the model does not declare it",
        ),
    ] {
        let weights = other.weights();
        let expected = format!("the weights do not fit the model: {why}");
        let error = Engine::new(model.clone(), weights.clone()).err().unwrap();
        assert_eq!(error.to_string(), expected);
        let error = interpret(&model, &weights, &[1], Precision::F32).err().unwrap();
        assert_eq!(error.to_string(), expected);
        assert_eq!(weights.to_safetensors(&model.network).unwrap_err().to_string(), why);
    }
    let missing = Engine::new(Difference::new(&["c"], 2), model.weights()).err().unwrap();
    let why = "tensor c is missing; the model needs it with shape [2, 3]";
    assert_eq!(missing.to_string(), format!("the weights do not fit the model: {why}"));
}
