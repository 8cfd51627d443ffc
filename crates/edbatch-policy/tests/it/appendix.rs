//! The case that the paper's FSM does not cover (its appendix A.4): two networks, one after the
//! other, with the kinds of inner and output nodes swapped.

use edbatch_graph::{Dag, Kind, NodeId, PlainDag};
use edbatch_policy::{
    Frontier, FsmTable, LearningConfig, NamedEncoding, TrainingSet, exhaustive, learn, schedule,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Two chains of five inner nodes with an output each: the least tree that shows it. The second
/// begins when all outputs of the first are there.
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
fn figure_10_no_table_over_base_max_or_sort_is_optimal() {
    let dag = swapped();
    let optimum = exhaustive(&dag).len();
    // Five I and all O; then five O and all I.
    assert_eq!(optimum, 12);
    for encoding in [NamedEncoding::Base, NamedEncoding::Max, NamedEncoding::Sort] {
        assert!(best_table(&dag, encoding) > optimum, "{encoding}");
    }
}

#[test]
fn figure_10_phase_solves_it() {
    let dag = swapped();
    let set = TrainingSet::new(std::slice::from_ref(&dag), &[]).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let phase = NamedEncoding::Phase;
    let learned = learn(&set, phase, &LearningConfig::default(), &mut rng, |_| ());
    assert_eq!(learned.after, 12);
    let mut fsm = learned.fsm(phase, dag.kinds());
    let schedule = schedule(&dag, &mut fsm);
    assert_eq!(schedule.check(&dag), Ok(()));
    assert_eq!((schedule.len(), fsm.unseen()), (12, 0));
}

/// The fewest batches of any table over an encoding: tries both kinds in every state as it is met.
fn best_table(dag: &PlainDag, encoding: NamedEncoding) -> usize {
    fn best(dag: &PlainDag, encoding: NamedEncoding, table: &mut FsmTable) -> usize {
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
