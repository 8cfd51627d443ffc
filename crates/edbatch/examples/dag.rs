//! DAGs as inputs: logic circuits, in which any number of gates may read a signal.
//!
//! Each type of gate is a cell with its own parameters, which reads the sum of its operands. A
//! signal is computed once, however many gates read it. The circuits are ripple-carry adders of 1,
//! 4 and 16 bits.
//!
//! `cargo run --release -p edbatch --example dag`:
//!
//! ```text
//! the carry out of 16 bits: [0.1836, 0.3163, 0.0362] …
//! 150 calls, 34 batches
//! ```

use std::sync::Arc;

use edbatch::Engine;
use edbatch::models::{Build, BuildError, Model};
use edbatch_graph::{CellError, Kind, Network, Shape, Value};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const HIDDEN: usize = 32;

/// A gate. Operands are indices of earlier gates.
pub(crate) enum Gate {
    Wire(u32),
    And(usize, usize),
    Xor(usize, usize),
}

pub(crate) struct Circuits {
    network: Arc<Network>,
    wire: Kind,
    and: Kind,
    xor: Kind,
}

impl Circuits {
    pub(crate) fn new(wires: usize) -> Result<Self, CellError> {
        let mut network = Network::new();
        let signal = network.record("signal", [("h", Shape::Vector(HIDDEN as u32))])?;
        let wire = network
            .cell("wire", signal, |cell| vec![cell.lookup("wire", "embed", &[wires, HIDDEN])])?;
        let mut gate = |name: &str| {
            network.cell(name, signal, |cell| {
                let [h] = cell.many("operands", signal).sum();
                let w = cell.parameter(&format!("{name}.w"), &[HIDDEN, HIDDEN]);
                vec![(w.matmul(h) + cell.parameter(&format!("{name}.b"), &[HIDDEN])).tanh()]
            })
        };
        let (and, xor) = (gate("and")?, gate("xor")?);
        Ok(Self { network: Arc::new(network), wire, and, xor })
    }
}

impl Model for Circuits {
    type Input = Vec<Gate>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, circuit: &Vec<Gate>) -> Result<(), BuildError> {
        let mut signals: Vec<Value> = Vec::with_capacity(circuit.len());
        for gate in circuit {
            signals.push(match *gate {
                Gate::Wire(wire) => build.call(self.wire, &[wire], &[])?,
                Gate::And(a, b) => build.call(self.and, &[], &[signals[a], signals[b]])?,
                Gate::Xor(a, b) => build.call(self.xor, &[], &[signals[a], signals[b]])?,
            });
        }
        build.emit(*signals.last().ok_or(BuildError::Input("a circuit without gates".into()))?);
        Ok(())
    }
}

/// An adder of two numbers with `bits` bits. The last gate computes the carry, with XOR in place of
/// OR.
fn adder(bits: u32) -> Vec<Gate> {
    let mut gates = vec![Gate::Wire(0)];
    let mut carry = 0;
    for bit in 0..bits {
        let a = gates.len();
        gates.extend([Gate::Wire(2 * bit + 1), Gate::Wire(2 * bit + 2)]);
        gates.extend([Gate::Xor(a, a + 1), Gate::And(a, a + 1)]);
        gates.extend([Gate::Xor(a + 2, carry), Gate::And(a + 2, carry), Gate::Xor(a + 3, a + 5)]);
        carry = a + 6;
    }
    gates
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Circuits::new(33)?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut engine = Engine::new(model, parameters)?;
    let carries = engine.run(&[1, 4, 16].map(adder))?;
    println!("the carry out of 16 bits: {:.4?} …", &carries[2].row(0)[..3]);
    println!("{} calls, {} batches", engine.statistics().nodes, engine.statistics().batches);
    Ok(())
}
