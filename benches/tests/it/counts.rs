//! Numbers of batches by policy, on generated inputs.

use edbatch_benches::counts::counts;
use edbatch_benches::families::FAMILIES;
use edbatch_benches::policies::Effort;
use edbatch_benches::record::Counts;
use edbatch_benches::sets::Source;

/// The batches of each policy on mini-batches of 8, and the bound.
fn batches(model: &str) -> impl Fn(&str) -> f64 {
    let (_, meet) = FAMILIES.iter().find(|(name, _)| *name == model).unwrap();
    let records = counts(&meet(&Source::Generated).unwrap(), 8, Effort::Quick, |_| {}).unwrap();
    move |policy| match policy {
        "bound" => records[0].bound,
        _ => records.iter().find(|record| record.policy == policy).unwrap().batches,
    }
}

#[test]
fn trees_and_chains_meet_the_bound() {
    for model in ["tree_lstm", "bilstm_tagger"] {
        let batches = batches(model);
        for policy in ["sufficient", "critical", "fsm-base"] {
            assert_eq!(batches(policy), batches("bound"), "{policy} on {model}");
        }
        assert!(batches("agenda") > batches("bound") && batches("depth") > batches("agenda"));
    }
}

#[test]
fn lattices_gain_from_learning() {
    let batches = batches("lattice_lstm");
    assert!(batches("fsm-sort") < 0.9 * batches("agenda"));
    assert!(batches("agenda") < batches("depth"));
    assert!(batches("critical") <= batches("fsm-sort"));
    // What is ours is learned, and no fallback.
    assert!(batches("rule-pairs") <= batches("critical"));
    assert!(batches("bound") <= batches("rule-pairs"));
}

#[test]
fn graphs_that_grow_are_summed() {
    let (_, meet) = FAMILIES.iter().find(|(name, _)| *name == "lstm_nmt").unwrap();
    let records = counts(&meet(&Source::Generated).unwrap(), 2, Effort::Quick, |_| {}).unwrap();
    let Counts { nodes, bound, mini_batches, .. } = records[0];
    // A batch for each step of the encoder, two for each of the decoder.
    assert!(mini_batches >= 5 && bound > 20.0 && nodes > bound, "{:?}", records[0]);
    for policy in ["sufficient", "critical", "fsm-base"] {
        let record = records.iter().find(|record| record.policy == policy).unwrap();
        assert_eq!(record.batches, bound, "{policy}");
    }
}
