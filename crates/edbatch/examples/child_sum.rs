//! The child-sum TreeLSTM over trees of any arity, such as the syntax trees of Python programs.
//!
//! *Source*: Tai, Socher and Manning, ACL 2015, equations 2 to 8. Each child has its own forget
//! gate, which reads the parent's label, so a cell is called for each edge. A node sums the values
//! of its edges. A node without children reads a learned `none` instead.
//!
//! `cargo run --release -p edbatch --example child_sum -- [FILE]`. Without a file, it generates
//! trees:
//!
//! ```text
//! the first root: h = [0.2760, 0.1199, 0.1158] …
//! 552 calls, 33 batches
//! ```

use std::sync::Arc;

use edbatch::Engine;
use edbatch::models::{Build, BuildError, Model};
use edbatch_datasets::{Tree, Vocabulary, fixtures, read_nary_trees};
use edbatch_graph::{CellBuilder, CellError, Kind, Network, Shape, Tensor, Value};
use edbatch_runtime::Parameters;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const HIDDEN: usize = 32;

pub(crate) struct ChildSum {
    network: Arc<Network>,
    none: Value,
    edge: Kind,
    node: Kind,
}

impl ChildSum {
    pub(crate) fn new(labels: usize) -> Result<Self, CellError> {
        let hidden = Shape::Vector(HIDDEN as u32);
        let mut network = Network::new();
        let state = network.record("state", [("h", hidden), ("c", hidden)])?;
        let brought = network.record("brought", [("h", hidden), ("kept", hidden)])?;
        let none = network.initial(brought, &["none.h", "none.kept"])?;
        let edge = network.cell("edge", brought, |cell| {
            let x = cell.lookup("parent", "embed", &[labels, HIDDEN]);
            let [h, c] = cell.one("child", state);
            vec![h, gate(cell, "f", x, h).sigmoid() * c]
        })?;
        let node = network.cell("node", state, |cell| {
            let x = cell.lookup("label", "embed", &[labels, HIDDEN]);
            let [h, kept] = cell.many("children", brought).sum();
            let [i, o] = ["i", "o"].map(|g| gate(cell, g, x, h).sigmoid());
            let c = i * gate(cell, "u", x, h).tanh() + kept;
            vec![o * c.tanh(), c]
        })?;
        Ok(Self { network: Arc::new(network), none, edge, node })
    }
}

fn gate<'c>(cell: &'c CellBuilder, g: &str, x: Tensor<'c>, h: Tensor<'c>) -> Tensor<'c> {
    let [w, u] = ["w", "u"].map(|p| cell.parameter(&format!("{p}_{g}"), &[HIDDEN, HIDDEN]));
    w.matmul(x) + u.matmul(h) + cell.parameter(&format!("b_{g}"), &[HIDDEN])
}

impl Model for ChildSum {
    type Input = Tree<u32>;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, tree: &Tree<u32>) -> Result<(), BuildError> {
        let mut states: Vec<Value> = Vec::with_capacity(tree.len());
        for i in 0..tree.len() {
            let label = *tree.label(i);
            let child = |&child: &u32| build.call(self.edge, &[label], &[states[child as usize]]);
            let mut children = tree.children(i).iter().map(child).collect::<Result<Vec<_>, _>>()?;
            if children.is_empty() {
                children.push(self.none);
            }
            states.push(build.call(self.node, &[label], &children)?);
        }
        build.emit(states[tree.root()]);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let trees = match std::env::args().nth(1) {
        Some(file) => read_nary_trees(file)?,
        None => fixtures::nary_trees(),
    };
    let mut labels = Vocabulary::new();
    let ids: Vec<_> = trees.iter().map(|t| t.map(|l| labels.insert(l), |_| 0)).collect();
    let model = ChildSum::new(labels.len())?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut engine = Engine::new(model, parameters)?;
    let roots = engine.run(&ids)?;
    println!("the first root: h = {:.4?} …", &roots[0].row(0)[..3]);
    println!("{} calls, {} batches", engine.statistics().nodes, engine.statistics().batches);
    Ok(())
}
