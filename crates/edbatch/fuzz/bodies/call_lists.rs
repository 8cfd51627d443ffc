//! Call lists as lines of JSON, for a network with every kind of operand.

use std::sync::Arc;

use edbatch::models::{CallList, CallLists, network_from_json};
use edbatch::{Engine, EngineOptions, RunOptions, interpret};
use edbatch_graph::Dag;
use edbatch_runtime::{Parameters, Precision};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The maximum number of calls of a list that is run.
const MAX_CALLS: usize = 200;

/// The network of all lists.
pub(crate) const NETWORK: &str = include_str!("network.json");

/// Reads each line. Valid lists survive a round trip, and run together as alone.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let network = Arc::new(network_from_json(NETWORK).expect("a network"));
    let model = CallLists::new(network.clone());
    let mut lists: Vec<CallList> = Vec::new();
    for line in text.lines().take(8) {
        match model.read(line) {
            Ok(list) => lists.push(list),
            Err(fault) => {
                assert!(fault.line == 1 && fault.column > 0);
                assert!(!fault.expected.is_empty() && !fault.got.is_empty(), "{fault}");
            }
        }
    }
    for list in &lists {
        let line = list.to_json().expect("read lists are finite");
        let again = model.read(&line).expect("written lists are valid");
        assert_eq!(&again, list);
        assert_eq!(again.to_json().as_ref(), Ok(&line));
    }
    lists.retain(|list| list.graph().nodes() <= MAX_CALLS);
    let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let options = EngineOptions::new().memory_limit(64 << 20);
    let mut engine = Engine::with_options(model.clone(), parameters.clone(), options)
        .expect("the network is small");
    let Ok(together) = engine.run_each(&lists, &RunOptions::new()) else { return };
    for (list, together) in lists.iter().zip(together) {
        let list = std::slice::from_ref(list);
        let alone = engine.run_each(list, &RunOptions::new()).expect("all of them fit in memory");
        let rows = |result: &Result<edbatch::Rows, _>| -> Vec<Vec<u32>> {
            let rows = result.as_ref().expect("the lists were checked when they were read");
            // All NaNs count as equal.
            let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
            rows.iter().map(|row| row.iter().map(bits).collect()).collect()
        };
        assert_eq!(rows(&alone[0]), rows(&together));
        let interpreted =
            interpret(&model, &parameters, list, Precision::F32).expect("the lists were checked");
        assert_eq!(interpreted.outputs[0].len(), alone[0].as_ref().map_or(0, |rows| rows.len()));
    }
}
