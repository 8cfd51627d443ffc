//! Parameters that a network reads in several ways: as a table, as a matrix, as an initial value.

use std::sync::Arc;

use edbatch::TrainerOptions;
use edbatch::models::CallList;
use edbatch_graph::{Network, Shape};

use super::differences::{Examples, check, trainer};

/// Returns a network that reads the parameter `tied` in these ways, and inputs.
fn tied(as_table: bool, as_matrix: bool, as_initial: bool) -> (Arc<Network>, Examples) {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(3))]).unwrap();
    let whole = network.record("whole", [("m", Shape::Matrix(5, 3))]).unwrap();
    let name = |is_tied, own| if is_tied { "tied" } else { own };
    let (table, matrix) = (name(as_table, "table"), name(as_matrix, "matrix"));
    let start = network.initial(whole, &[name(as_initial, "initial")]).unwrap();
    let leaf = network.cell("leaf", state, |cell| vec![cell.lookup("word", table, &[5, 3]).tanh()]);
    let step = network.cell("step", state, |cell| {
        let ([h], [m]) = (cell.one("previous", state), cell.one("whole", whole));
        let product = cell.parameter(matrix, &[5, 3]).matmul(h).tanh();
        vec![m.transpose().matmul(product).tanh() + h]
    });
    let (leaf, step) = (leaf.unwrap(), step.unwrap());
    let network = Arc::new(network);
    let input = |rows: &[u32]| {
        let mut list = CallList::new(network.clone());
        for &row in rows {
            let leaf = list.call(leaf, &[row], &[]).unwrap();
            let step = list.call(step, &[], &[leaf, start]).unwrap();
            list.emit(step).unwrap();
        }
        list
    };
    let inputs = [&[4][..], &[1, 3, 1]].map(input);
    let targets = vec![vec![Some(2)], vec![Some(0), None, Some(1)]];
    (network.clone(), (inputs.into(), targets))
}

const WAYS: [[bool; 3]; 5] = [
    [true, true, false],
    [true, false, true],
    [false, true, true],
    [true, true, true],
    [false, false, false],
];

#[test]
fn gradients_of_tied_parameters_equal_central_differences() {
    for ways @ [table, matrix, initial] in WAYS {
        let (network, examples) = tied(table, matrix, initial);
        check(&format!("{ways:?}"), &network, &examples);
    }
}

#[test]
fn gradients_can_be_read_twice_and_added_to_afterwards() {
    for ways @ [table, matrix, initial] in WAYS {
        let (network, (inputs, targets)) = tied(table, matrix, initial);
        let mut trainer = trainer(&network, TrainerOptions::new());
        trainer.accumulate(&inputs, &targets, 1.0).unwrap();
        let first = trainer.gradients().unwrap();
        assert_eq!(trainer.gradients().unwrap(), first, "{ways:?}: read twice");
        trainer.accumulate(&inputs, &targets, 1.0).unwrap();
        let doubled = trainer.gradients().unwrap().to_dense(&network);
        let first = first.to_dense(&network);
        for (once, twice) in first.iter().flatten().zip(doubled.iter().flatten()) {
            let error = (2.0 * once - twice).abs();
            assert!(error <= 1e-5 * once.abs().max(1.0), "{ways:?}: {once}, then {twice}");
        }
    }
}
