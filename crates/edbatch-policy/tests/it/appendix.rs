//! The case that the paper's FSM cannot solve (its appendix A.4): two networks in sequence, with
//! the kinds of inner and output nodes swapped.

use edbatch_graph::{Dag, Kind, NodeId, PlainDag};
use edbatch_policy::{
    Encoding, Frontier, FsmTable, LearningConfig, TrainingSet, exhaustive, learn, schedule,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Two chains of five inner nodes, each with an output: the smallest example. The second chain
/// reads all outputs of the first.
fn swapped() -> PlainDag {
    let mut dag = PlainDag::new(["I", "O"]);
    let mut network = |inner: Kind, output: Kind, start: &[NodeId]| -> Vec<NodeId> {
        let mut outputs = Vec::new();
        let mut last = start.to_vec();
        for _ in 0..5 {
            last = vec![dag.push(inner, &last).unwrap()];
            outputs.push(dag.push(output, &last).unwrap());
        }
        outputs
    };
    let first = network(Kind(0), Kind(1), &[]);
    network(Kind(1), Kind(0), &first);
    dag
}

#[test]
fn figure_10_no_table_with_base_max_or_sort_is_optimal() {
    let dag = swapped();
    let optimum = exhaustive(&dag).len();
    // Five batches of I and one of O, then five batches of O and one of I.
    assert_eq!(optimum, 12);
    for encoding in [Encoding::Base, Encoding::Max, Encoding::Sort] {
        assert!(best_table(&dag, encoding) > optimum, "{encoding}");
    }
}

#[test]
fn figure_10_a_table_with_phase_is_optimal() {
    let dag = swapped();
    let set = TrainingSet::new(std::slice::from_ref(&dag), &[]).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let phase = Encoding::Phase;
    let learned = learn(&set, phase, &LearningConfig::default(), &mut rng, |_| ());
    assert_eq!(learned.after, 12);
    let mut fsm = learned.fsm(phase, dag.kinds());
    let schedule = schedule(&dag, &mut fsm);
    assert_eq!(schedule.check(&dag), Ok(()));
    assert_eq!((schedule.len(), fsm.unseen()), (12, 0));
}

/// The minimum number of batches of all tables for an encoding: tries both kinds in each new state.
fn best_table(dag: &PlainDag, encoding: Encoding) -> usize {
    fn best(dag: &PlainDag, encoding: Encoding, table: &mut FsmTable) -> usize {
        let mut frontier = Frontier::new(dag);
        let mut batches = 0;
        while !frontier.is_done() {
            let mut word = Vec::new();
            encoding.encode(&frontier, &mut word);
            let Some(&(_, kind)) = table.iter().find(|(known, _)| *known == word) else {
                let kinds: Vec<_> = frontier.ready_kinds().collect();
                let tries = kinds.into_iter().map(|kind| {
                    table.push((word.clone(), kind));
                    let batches = best(dag, encoding, table);
                    table.pop();
                    batches
                });
                return tries.min().unwrap();
            };
            frontier.run(kind, frontier.ready(kind).len());
            batches += 1;
        }
        batches
    }
    best(dag, encoding, &mut Vec::new())
}
