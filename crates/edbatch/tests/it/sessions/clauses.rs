//! A network of clauses, as in a prover.

use std::sync::Arc;

use edbatch::models::{CallList, CallLists, Model};
use edbatch::{Engine, EngineOptions, Handle, Session, SessionOptions};
use edbatch_graph::{Kind, Network, RecordId, Shape};
use edbatch_runtime::Parameters;

use crate::fn_model::random;

/// The number of elements of a clause.
pub(crate) const WIDTH: usize = 24;
pub(crate) const CLAUSE: RecordId = RecordId(0);
pub(crate) const SCORED: RecordId = RecordId(1);
/// A clause from one of 20 rules and any number of parents.
pub(crate) const INFER: Kind = Kind(0);
/// The score of a clause.
pub(crate) const SCORE: Kind = Kind(1);
/// The handle of the only initial value, a clause.
pub(crate) const AXIOM: Handle = Handle::initial(0);

pub(crate) fn network() -> Arc<Network> {
    let mut network = Network::new();
    let clause = network.record("clause", [("h", Shape::Vector(WIDTH as u32))]).unwrap();
    let score = network.record("score", [("y", Shape::Vector(1))]).unwrap();
    network.initial(clause, &["axiom"]).unwrap();
    let infer = network.cell("infer", clause, |cell| {
        let x = cell.lookup("rule", "rules", &[20, WIDTH]);
        let many = cell.many("parents", clause);
        let ([sum], [max]) = (many.sum(), many.max());
        let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[WIDTH, WIDTH]));
        vec![(x + w.matmul(sum) + u.matmul(max)).tanh()]
    });
    let scored = network.cell("score", score, |cell| {
        let [h] = cell.one("clause", clause);
        vec![cell.parameter("out", &[1, WIDTH]).matmul(h)]
    });
    assert_eq!((infer, scored), (Ok(INFER), Ok(SCORE)));
    Arc::new(network)
}

pub(crate) fn parameters() -> (Arc<Network>, Parameters) {
    let network = network();
    let parameters = random(&network, 5);
    (network, parameters)
}

pub(crate) fn engine() -> Engine<CallLists> {
    engine_with(EngineOptions::new())
}

pub(crate) fn engine_with(options: EngineOptions) -> Engine<CallLists> {
    let (network, parameters) = parameters();
    Engine::with_options(CallLists::new(network), parameters, options).unwrap()
}

/// Inputs of a clause each.
pub(crate) fn lists(model: &CallLists, count: u32) -> Vec<CallList> {
    let list = |rule| {
        let mut list = CallList::new(model.network().clone());
        let axiom = model.network().initial_value(0).unwrap();
        let clause = list.call(INFER, &[rule % 20], &[axiom]).unwrap();
        list.emit(clause).unwrap();
        list
    };
    (0..count).map(list).collect()
}

/// Returns the bits of elements. All NaN have the same bits.
pub(crate) fn bits(elements: &[f32]) -> Vec<u32> {
    elements.iter().map(|x| if x.is_nan() { f32::NAN } else { *x }.to_bits()).collect()
}

/// An empty session.
pub(crate) fn session() -> Session {
    engine().session(SessionOptions::new()).unwrap()
}

/// Returns the bits of values of a session.
pub(crate) fn fetch(session: &Session, values: &[Handle]) -> Vec<u32> {
    let mut elements = Vec::new();
    session.fetch(values, &mut elements).unwrap();
    bits(&elements)
}

/// Adds a clause for each rule, computes them, and returns them.
pub(crate) fn clauses<const N: usize>(session: &mut Session, rules: [u32; N]) -> [Handle; N] {
    let clauses = rules.map(|rule| session.call(INFER, &[rule], &[AXIOM]).unwrap());
    session.run().unwrap();
    clauses
}
