//! Names of policies, and files of learned policies.

use edbatch_graph::{Dag, parse_text};
use edbatch_policy::{Learned, PolicyChoice, schedule};

/// Two kinds that read each other, so that policies have a choice.
const GRAPH: &str = "8\n0 0\n1 0\n0 1 0\n1 1 1\n0 2 2 3\n1 2 3 4\n0 1 1\n1 2 5 6\n";

/// Reads a policy. Checks that a valid one survives a round trip and makes a legal schedule.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(choice) = text.parse::<PolicyChoice>() {
        assert_eq!(choice.to_string().parse(), Ok(choice));
    }
    let learned = match Learned::from_json(text) {
        Ok(learned) => learned,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = Learned::from_json(&learned.to_json()).expect("a written file is valid");
    assert_eq!(again, learned);
    assert_eq!(again.to_json(), learned.to_json());
    let graph = parse_text(GRAPH).expect("a graph");
    let mut policy = learned.open_where_known(graph.kind_names());
    let schedule = schedule(&graph, &mut policy);
    schedule.check(&graph).expect("a policy picks ready kinds");
    assert!(schedule.len() <= graph.nodes());
}
