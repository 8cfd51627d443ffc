//! Replays the derivation of a theorem prover, and scores the clauses while they are derived.
//!
//! `cargo run --release -p edbatch --example derivations -- [FILE]` prints times, compares the bits
//! of the scores, and shows the memory. FILE (or the variable `EDBATCH_DERIVATIONS`) has a clause a
//! line, as `derive.py` writes it. Without one, `family.tsv` is replayed, which is included.
//!
//! `benches/showcases/derivations_in_torch.py` starts it with `--laps`, to compare with PyTorch.

pub(crate) mod laps;
mod measure;

use std::error::Error;
use std::sync::Arc;

use edbatch::graph::{CellError, Kind, Network, RecordId, Shape};
use edbatch::models::CallLists;
use edbatch::runtime::Parameters;
use edbatch::{Engine, Handle, Session, SessionError, SessionOptions};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const RULES: usize = 32;
pub(crate) const FAMILY: &str = include_str!("family.tsv");

/// A clause: its rule, the earlier clauses that it follows from, four numbers that describe it, and
/// the clauses that nothing reads after it.
pub(crate) struct Clause {
    rule: u32,
    parents: Vec<usize>,
    numbers: [f32; 4],
    ended: Vec<usize>,
}

/// Reads a clause a line: rule, parents, numbers, a column that is not used, and the last child.
pub(crate) fn parse(text: &str) -> Option<Vec<Clause>> {
    let (mut rules, mut lasts, mut clauses) = (Vec::new(), Vec::new(), Vec::<Clause>::new());
    for line in text.lines() {
        let columns: [&str; 5] = line.split('\t').take(5).collect::<Vec<_>>().try_into().ok()?;
        let rule = rules.iter().position(|&rule| rule == columns[0]).unwrap_or(rules.len());
        if rule == rules.len() {
            rules.push(columns[0]);
        }
        let parents = columns[1].split(',').filter(|number| !number.is_empty());
        let parents = parents.map(|number| number.parse().ok()).collect::<Option<Vec<usize>>>()?;
        let numbers = columns[2].split(' ').map(|number| number.parse::<f32>().ok());
        let numbers = numbers.map(|number| Some(number? / 10.0)).collect::<Option<Vec<_>>>()?;
        let numbers = numbers.try_into().ok()?;
        if rule == RULES || parents.iter().any(|&parent| parent >= clauses.len()) {
            return None;
        }
        lasts.push(columns[4].parse().ok()?);
        clauses.push(Clause { rule: rule as u32, parents, numbers, ended: Vec::new() });
    }
    for (clause, last) in lasts.into_iter().enumerate() {
        clauses.get_mut(clause.max(last))?.ended.push(clause);
    }
    Some(clauses)
}

/// A network for clauses: two cells, and a record for what the prover gives.
#[derive(Clone)]
pub(crate) struct Prover {
    pub(crate) network: Arc<Network>,
    infer: Kind,
    score: Kind,
    feature: RecordId,
}

impl Prover {
    pub(crate) fn new(width: usize) -> Result<Self, CellError> {
        let mut network = Network::new();
        let clause = network.record("clause", [("h", Shape::Vector(width as u32))])?;
        let feature = network.record("feature", [("x", Shape::Vector(4))])?;
        let scored = network.record("scored", [("y", Shape::Vector(1))])?;
        network.initial(clause, &["none"])?;
        let infer = network.cell("infer", clause, |cell| {
            let rule = cell.lookup("rule", "rules", &[RULES, width]);
            let [x] = cell.one("feature", feature);
            let parents = cell.many("parents", clause);
            let ([sum], [max]) = (parents.sum(), parents.max());
            let v = cell.parameter("v", &[width, 4]);
            let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[width, width]));
            vec![(rule + v.matmul(x) + w.matmul(sum) + u.matmul(max)).tanh()]
        })?;
        let score = network.cell("score", scored, |cell| {
            let [h] = cell.one("clause", clause);
            vec![cell.parameter("out", &[1, width]).matmul(h)]
        })?;
        Ok(Self { network: Arc::new(network), infer, score, feature })
    }

    /// Adds clauses in waves, and computes each wave with the scores of its clauses. Returns all
    /// scores, and the bytes of the session after each wave. A clause is released after its last
    /// child was added, if `release` is true.
    pub(crate) fn replay(
        &self,
        session: &mut Session,
        clauses: &[Clause],
        wave: usize,
        release: bool,
    ) -> Result<(Vec<f32>, Vec<u64>), SessionError> {
        session.clear();
        let mut values: Vec<Handle> = Vec::with_capacity(clauses.len());
        let (mut elements, mut held) = (Vec::with_capacity(clauses.len()), Vec::new());
        let (mut scores, mut of) = (Vec::with_capacity(wave), Vec::new());
        for wave in clauses.chunks(wave) {
            for Clause { rule, parents, numbers, ended } in wave {
                of.clear();
                of.push(session.give(self.feature, numbers)?);
                of.extend(parents.iter().map(|&parent| values[parent]));
                if parents.is_empty() {
                    of.push(Handle::initial(0));
                }
                let clause = session.call(self.infer, &[*rule], &of)?;
                scores.push(session.call(self.score, &[], &[clause])?);
                // Pending calls still read what is released.
                session.release(&of[..1])?;
                values.push(clause);
                for &ended in ended.iter().filter(|_| release) {
                    session.release(&[values[ended]])?;
                }
            }
            session.run()?;
            session.fetch(&scores, &mut elements)?;
            session.release(&scores)?;
            scores.clear();
            held.push(session.statistics().held_bytes);
        }
        Ok((elements, held))
    }
}

/// A prover with random weights, and a session.
pub(crate) fn open(width: usize) -> Result<(Prover, Parameters, Session), Box<dyn Error>> {
    let prover = Prover::new(width)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let weights = Parameters::random(&prover.network, &mut rng);
    let engine = Engine::new(CallLists::new(prover.network.clone()), weights.clone())?;
    Ok((prover, weights, engine.session(SessionOptions::new())?))
}

fn main() -> Result<(), Box<dyn Error>> {
    measure::start()
}
