//! Predicts the times of candidate plans of database queries, which have many subplans in common.
//!
//! `cargo run --release -p edbatch --example plans -- [FILE]` prints the time of a query, and
//! compares the bits of each plan's score alone and among the others. FILE (or the variable
//! `EDBATCH_PLANS`) has a query a line, as `plans.py` writes it; `plans.jsonl` is included.
//! `benches/showcases/plans_in_torch.py` starts it with `--laps`, to compare with PyTorch.

#[path = "../derivations/laps.rs"]
pub(crate) mod laps;
pub(crate) mod measure;

use std::error::Error;
use std::sync::Arc;

use edbatch::graph::{CellBuilder, CellError, Kind, Network, RecordId, Shape, Tensor};
use edbatch::models::CallLists;
use edbatch::runtime::Parameters;
use edbatch::{Engine, Session, SessionError, SessionOptions};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use serde_json::Value;

const OPERATORS: usize = 32;
pub(crate) const QUERIES: &str = include_str!("plans.jsonl");

/// A node of a plan. Nodes of equal subplans of a query have the same `share`.
pub(crate) struct Node {
    operator: u32,
    estimates: [f32; 3],
    children: Vec<usize>,
    share: usize,
}

/// The plans of a query: nodes after their children, the root last.
pub(crate) type Query = Vec<Vec<Node>>;

/// Reads a query a line. Operators are numbered as they first appear.
pub(crate) fn parse(text: &str) -> Option<Vec<Query>> {
    let mut operators = Vec::new();
    let mut node = |node: &Value| {
        let name = node["op"].as_str()?.to_owned();
        let operator = operators.iter().position(|other| *other == name).unwrap_or(operators.len());
        if operator == operators.len() {
            operators.push(name);
        }
        let children = node["children"].as_array()?.iter().map(Value::as_u64);
        let children = children.map(|child| Some(child? as usize)).collect::<Option<_>>()?;
        let number = |key| Some((node[key].as_f64()? as f32).ln_1p() / 10.0);
        let estimates = [number("rows")?, number("width")?, number("cost")?];
        let share = node["share"].as_u64()? as usize;
        let known = operator < OPERATORS && share < 1 << 20;
        known.then_some(Node { operator: operator as u32, estimates, children, share })
    };
    let mut plan = |plan: &Value| {
        let plan = plan.as_array()?.iter().map(&mut node).collect::<Option<Vec<_>>>()?;
        let mut nodes = plan.iter().enumerate();
        let ordered = nodes.all(|(at, node)| node.children.iter().all(|&child| child < at));
        (ordered && !plan.is_empty()).then_some(plan)
    };
    let query = |line| {
        let query: Value = serde_json::from_str(line).ok()?;
        query["plans"].as_array()?.iter().map(&mut plan).collect()
    };
    text.lines().map(query).collect()
}

/// A network for plans: a cell for scans, which have no children, one for joins, one for all
/// others, and one for the time of a plan.
pub(crate) struct Planner {
    pub(crate) network: Arc<Network>,
    cells: [Kind; 4],
    estimate: RecordId,
}

/// The part of a node that does not depend on its children: its operator and the estimates.
fn own<'c>(cell: &'c CellBuilder, width: usize, estimate: RecordId) -> Tensor<'c> {
    let operator = cell.lookup("operator", "operators", &[OPERATORS, width]);
    let [x] = cell.one("estimate", estimate);
    operator + cell.parameter("v", &[width, 3]).matmul(x)
}

impl Planner {
    pub(crate) fn new(width: usize) -> Result<Self, CellError> {
        let mut network = Network::new();
        let state = network.record("state", [("h", Shape::Vector(width as u32))])?;
        let estimate = network.record("estimate", [("x", Shape::Vector(3))])?;
        let seconds = network.record("seconds", [("y", Shape::Vector(1))])?;
        let scan = network.cell("scan", state, |cell| vec![own(cell, width, estimate).tanh()])?;
        let join = network.cell("join", state, |cell| {
            let own = own(cell, width, estimate);
            let ([left], [right]) = (cell.one("left", state), cell.one("right", state));
            let [l, r] = ["l", "r"].map(|name| cell.parameter(name, &[width, width]));
            vec![(own + l.matmul(left) + r.matmul(right)).tanh()]
        })?;
        let other = network.cell("other", state, |cell| {
            let own = own(cell, width, estimate);
            let children = cell.many("children", state);
            let ([sum], [max]) = (children.sum(), children.max());
            let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[width, width]));
            vec![(own + w.matmul(sum) + u.matmul(max)).tanh()]
        })?;
        let time = network.cell("time", seconds, |cell| {
            let [h] = cell.one("plan", state);
            vec![cell.parameter("out", &[1, width]).matmul(h)]
        })?;
        Ok(Self { network: Arc::new(network), cells: [scan, join, other, time], estimate })
    }

    /// Computes the logarithms of the times of plans. Equal subplans are added once.
    pub(crate) fn times(
        &self,
        session: &mut Session,
        plans: &[Vec<Node>],
    ) -> Result<Vec<f32>, SessionError> {
        let shares = plans.iter().flatten().map(|node| node.share + 1).max().unwrap_or(0);
        let mut known = vec![None; shares];
        let (mut of, mut scores, mut times) = (Vec::new(), Vec::new(), Vec::new());
        let mut unread = Vec::new();
        for plan in plans {
            for node in plan {
                if known[node.share].is_some() {
                    continue;
                }
                of.clear();
                of.push(session.give(self.estimate, &node.estimates)?);
                of.extend(node.children.iter().filter_map(|&child| known[plan[child].share]));
                // By the number of children: a scan, another node of one, a join, another node.
                let cell = self.cells[[0, 2, 1, 2][node.children.len().min(3)]];
                let state = session.call(cell, &[node.operator], &of)?;
                known[node.share] = Some(state);
                unread.extend([of[0], state]);
            }
            let root = known[plan[plan.len() - 1].share].expect("a plan has a root");
            scores.push(session.call(self.cells[3], &[], &[root])?);
        }
        // The run computes them, and stores the scores alone.
        session.release(&unread)?;
        session.run()?;
        session.fetch(&scores, &mut times)?;
        session.release(&scores)?;
        Ok(times)
    }
}

/// A planner with random weights, and a session.
pub(crate) fn open(width: usize) -> Result<(Planner, Parameters, Session), Box<dyn Error>> {
    let planner = Planner::new(width)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let weights = Parameters::random(&planner.network, &mut rng);
    let engine = Engine::new(CallLists::new(planner.network.clone()), weights.clone())?;
    Ok((planner, weights, engine.session(SessionOptions::new())?))
}

fn main() -> Result<(), Box<dyn Error>> {
    measure::start()
}
