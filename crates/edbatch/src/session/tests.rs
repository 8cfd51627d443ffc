//! Plans of sessions are legal.

use std::cell::Cell;
use std::sync::Arc;

use edbatch_graph::Kind;
use edbatch_layout::{MiniBatch, Plan, check, check_store};
use edbatch_models::CallLists;
use edbatch_runtime::{GivenPlace, Parameters};
use edbatch_testing::cases;
use edbatch_testing::networks::{Random, random_network};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::Engine;

thread_local! {
    /// The number of plans that were checked, and of given values read from the store.
    static CHECKED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Checks the plan of a run. Every run of a session in the tests of this crate calls it.
pub(super) fn check_plan(plan: &Plan, mini_batch: &MiniBatch<'_>, places: &[GivenPlace]) {
    check(plan, mini_batch).unwrap_or_else(|error| panic!("{error}\n{plan}"));
    let first = mini_batch.graph.network().initial_values().len();
    assert_eq!(plan.given.len(), first + places.len(), "a place for each given value");
    let lines = places.iter().enumerate().filter_map(|(index, place)| match *place {
        GivenPlace::Host | GivenPlace::Borrowed(_) => None,
        GivenPlace::Stored(line) => Some((first + index, line)),
    });
    let lines: Vec<(usize, u32)> = lines.collect();
    check_store(plan, mini_batch.program, &lines).unwrap_or_else(|error| panic!("{error}\n{plan}"));
    CHECKED.with(|checked| {
        let (plans, read) = checked.get();
        checked.set((plans + 1, read + lines.len()));
    });
}

/// Adds a call of a random cell, or gives a value if none fits a port of the cell.
fn add(session: &mut Session, values: &[Handle], rng: &mut Random) -> Handle {
    let network = session.network().clone();
    let kind = Kind(rng.random_range(0..6));
    let cell = &network[kind];
    let mut arguments = Vec::new();
    for (position, port) in cell.ports().iter().enumerate() {
        let fits = |value: &Handle| session.record_of(*value).unwrap() == port.record;
        let fitting: Vec<Handle> = values.iter().copied().filter(fits).collect();
        let many = cell.is_variadic() && position + 1 == cell.ports().len();
        for _ in 0..if many { rng.random_range(1..4) } else { 1 } {
            let Some(&value) = fitting.choose(rng) else {
                let fields = network.fields(port.record).fields.iter();
                let elements = fields.map(|field| field.shape.elements()).sum();
                return session.give(port.record, &vec![0.5; elements]).unwrap();
            };
            arguments.push(value);
        }
    }
    let rows: Vec<u32> = cell.tables().iter().map(|_| 0).collect();
    session.call(kind, &rows, &arguments).unwrap()
}

#[test]
fn plans_of_random_sessions_are_legal_and_write_no_row_that_is_read() {
    CHECKED.set((0, 0));
    for seed in 0..u64::from(cases(40)) {
        let mut rng = Random::seed_from_u64(seed);
        let network = Arc::new(random_network(&mut rng).0);
        let parameters = Parameters::random(&network, &mut rng);
        let engine = Engine::new(CallLists::new(network), parameters).unwrap();
        let mut session = engine.session(SessionOptions::new()).unwrap();
        let mut values = vec![Handle::initial(0)];
        for _ in 0..300 {
            match rng.random_range(0..20) {
                0..11 => values.push(add(&mut session, &values, &mut rng)),
                11..17 if values.len() > 1 => {
                    let value = values.swap_remove(rng.random_range(1..values.len()));
                    session.release(&[value]).unwrap();
                }
                17 | 18 => session.run().unwrap(),
                _ if rng.random_bool(0.2) => {
                    session.discard();
                    values.retain(|&value| session.record_of(value).is_ok());
                }
                _ => {}
            }
            // A row is in use for each stored value, and for each released one that is still read.
            let bytes = |row: &StoredRow| session.store.bytes_of(row.record);
            let deferred: u64 = session.deferred.iter().map(bytes).sum();
            assert_eq!(session.store.bytes(), session.statistics().stored_bytes + deferred);
        }
    }
    let (plans, read) = CHECKED.get();
    assert!(plans > 10 * cases(40) as usize && read > plans, "{plans} plans read {read} values");
}
