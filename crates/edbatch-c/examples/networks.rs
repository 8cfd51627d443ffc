//! Writes the networks of the programs in C beside this file, with random weights:
//! `cargo run --release -p edbatch-c --example networks -- [FOLDER]`.
//!
//! FOLDER, by default the current one, gets the folders `clauses` (for the programs of
//! `docs/c.md`), `prover` and `plans`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use edbatch::graph::{CellError, Network, Shape};
use edbatch::models::network_to_json;
use edbatch::runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

#[allow(dead_code, reason = "the tests include this file")]
fn main() -> Result<(), Box<dyn Error>> {
    write_all(&std::env::args_os().nth(1).map_or(".".into(), PathBuf::from))
}

/// Writes all networks into a folder.
pub(crate) fn write_all(to: &Path) -> Result<(), Box<dyn Error>> {
    for (name, network) in [("clauses", clauses()?), ("prover", prover()?), ("plans", plans()?)] {
        let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        let folder = to.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        fs::write(folder.join("network.json"), network_to_json(&network)?)?;
        let weights = parameters.to_safetensors(&network)?;
        fs::write(folder.join("weights.safetensors"), weights)?;
    }
    Ok(())
}

/// The network of `docs/c.md` and of the tests: a clause has two fields.
fn clauses() -> Result<Network, CellError> {
    let mut network = Network::new();
    let feature = network.record("feature", [("x", Shape::Vector(4))])?;
    let fields = [("h", Shape::Vector(8)), ("m", Shape::Matrix(2, 3))];
    let clause = network.record("clause", fields)?;
    let score = network.record("score", [("y", Shape::Vector(1))])?;
    network.initial(clause, &["axiom.h", "axiom.m"])?;
    network.initial(feature, &["zeros"])?;
    network.cell("infer", clause, |cell| {
        let rule = cell.lookup("rule", "rules", &[20, 8]);
        let [x] = cell.one("numbers", feature);
        let [h, m] = cell.many("parents", clause).sum();
        let from = cell.parameter("w", &[8, 8]).matmul(h) + cell.parameter("u", &[8, 4]).matmul(x);
        vec![(rule + from).tanh(), m.tanh()]
    })?;
    network.cell("rate", score, |cell| {
        let [h, _] = cell.one("clause", clause);
        vec![cell.parameter("out", &[1, 8]).matmul(h)]
    })?;
    Ok(network)
}

/// The network of `examples/prover.c`.
fn prover() -> Result<Network, CellError> {
    let mut network = Network::new();
    let feature = network.record("feature", [("x", Shape::Vector(4))])?;
    let clause = network.record("clause", [("h", Shape::Vector(16))])?;
    let score = network.record("score", [("y", Shape::Vector(1))])?;
    network.initial(clause, &["axiom"])?;
    network.cell("infer", clause, |cell| {
        let rule = cell.lookup("rule", "rules", &[32, 16]);
        let [x] = cell.one("numbers", feature);
        let [h] = cell.many("parents", clause).sum();
        let from =
            cell.parameter("w", &[16, 16]).matmul(h) + cell.parameter("u", &[16, 4]).matmul(x);
        vec![(rule + from).tanh()]
    })?;
    network.cell("score", score, |cell| {
        let [h] = cell.one("clause", clause);
        vec![cell.parameter("out", &[1, 16]).matmul(h)]
    })?;
    Ok(network)
}

/// The network of `examples/plans.c`.
fn plans() -> Result<Network, CellError> {
    let mut network = Network::new();
    let estimate = network.record("estimate", [("x", Shape::Vector(3))])?;
    let node = network.record("node", [("h", Shape::Vector(16))])?;
    let cost = network.record("cost", [("log", Shape::Vector(1))])?;
    network.initial(node, &["nothing"])?;
    for name in ["scan", "join", "other"] {
        network.cell(name, node, |cell| {
            let operator = cell.lookup("operator", &format!("{name}.operators"), &[16, 16]);
            let [x] = cell.one("estimates", estimate);
            let [h] = cell.many("inputs", node).sum();
            let w = cell.parameter(&format!("{name}.w"), &[16, 16]);
            let u = cell.parameter(&format!("{name}.u"), &[16, 3]);
            vec![(operator + w.matmul(h) + u.matmul(x)).tanh()]
        })?;
    }
    network.cell("cost", cost, |cell| {
        let [h] = cell.one("plan", node);
        vec![cell.parameter("out", &[1, 16]).matmul(h)]
    })?;
    Ok(network)
}
