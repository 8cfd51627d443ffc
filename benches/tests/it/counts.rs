//! Numbers of batches by policy, on generated inputs.

use edbatch_benches::measure::counts::counts;
use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::policies::Effort;
use edbatch_benches::measure::sets::Source;
use edbatch_benches::record::Counts;

/// Returns the batches of each policy on mini-batches of 8, and the bound.
fn batches(model: &str) -> impl Fn(&str) -> f64 {
    let (_, with_set) = FAMILIES.iter().find(|(name, _)| *name == model).unwrap();
    let records = counts(&with_set(&Source::Generated).unwrap(), 8, Effort::Quick, |_| {}).unwrap();
    move |policy| match policy {
        "bound" => records[0].bound,
        _ => records.iter().find(|record| record.policy == policy).unwrap().batches,
    }
}

#[test]
fn trees_and_chains_reach_the_bound() {
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
    // On these few lattices no learned rule was better, and the name of the row says so.
    assert_eq!(batches("rule-pairs: critical:pair"), batches("critical:pair"));
    assert!(batches("bound") <= batches("critical:pair"));
}

#[test]
fn batches_of_growing_graphs_add_up() {
    let (_, with_set) = FAMILIES.iter().find(|(name, _)| *name == "lstm_nmt").unwrap();
    let records = counts(&with_set(&Source::Generated).unwrap(), 2, Effort::Quick, |_| {}).unwrap();
    let Counts { nodes, bound, mini_batches, .. } = records[0];
    // One batch for each step of the encoder, two for each step of the decoder.
    assert!(mini_batches >= 5 && bound > 20.0 && nodes > bound, "{:?}", records[0]);
    for policy in ["sufficient", "critical", "fsm-base"] {
        let record = records.iter().find(|record| record.policy == policy).unwrap();
        assert_eq!(record.batches, bound, "{policy}");
    }
}
