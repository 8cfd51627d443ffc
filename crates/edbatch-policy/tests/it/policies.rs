//! Every policy on random graphs, on the paper's examples, and on the published graphs.

use crate::support;

use edbatch_graph::{Dag, Kind, NodeId, PlainDag, Schedule, parse_text};
use edbatch_policy::{
    Agenda, Beam, Critical, Depth, Encoding, Frontier, Fsm, LearningConfig, LookAhead, PairRule,
    Policy, Sufficient, Symbol, TrainingSet, exhaustive, learn, lower_bound, schedule,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// All policies that need no training, and an FSM without states.
fn policies(dag: &impl Dag) -> Vec<(&'static str, Box<dyn Policy>)> {
    vec![
        ("depth", Box::new(Depth::new())),
        ("agenda", Box::new(Agenda::new())),
        ("sufficient", Box::new(Sufficient::new())),
        ("critical", Box::new(Critical::new())),
        ("pair", Box::new(LookAhead::new(PairRule::pair()))),
        ("soft", Box::new(LookAhead::new(PairRule::soft()))),
        ("empty fsm", Box::new(Fsm::new(Encoding::Sort, dag.kinds()))),
    ]
}

fn learned(dag: &PlainDag, encoding: Encoding, episodes: usize) -> Fsm {
    let config = LearningConfig::new(episodes);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let dags = std::slice::from_ref(dag);
    let set = TrainingSet::new(dags, &[]).unwrap();
    learn(&set, encoding, &config, &mut rng, |_| ()).fsm(encoding, dag.kinds())
}

const PAPERS: [Encoding; 3] = [Encoding::Base, Encoding::Max, Encoding::Sort];

/// The second kind replaces the first, even if the FSM is still in that state.
#[test]
fn fsm_runs_the_kind_that_was_inserted_last() {
    let mut dag = PlainDag::new(["a", "b"]);
    for kind in [0, 0, 1] {
        dag.push(Kind(kind), &[]).unwrap();
    }
    let frontier = Frontier::new(&dag);
    let mut fsm = Fsm::new(Encoding::Sort, dag.kinds());
    fsm.start(&frontier);
    fsm.next(&frontier);
    assert_eq!(fsm.unseen(), 1);
    let state = [0, 1].map(|kind| Symbol::Kind(Kind(kind)));
    for kind in [Kind(1), Kind(0), Kind(1)] {
        fsm.insert(&state, kind);
        assert_eq!(fsm.next(&frontier), kind);
        assert_eq!(fsm.next(&frontier), kind);
    }
    assert_eq!(fsm.unseen(), 1);
}

proptest! {
    #[test]
    fn forks_make_the_same_choices(
        dag in support::dags(40, 5),
        before in support::dags(40, 5),
    ) {
        let mut all = policies(&dag);
        all.push(("learned", Box::new(learned(&dag, Encoding::Sort, 20))));
        all.push(("beam", Box::new(Beam::new(4))));
        for (name, mut policy) in all {
            if dag.kinds() == before.kinds() {
                _ = schedule(&before, &mut *policy);
            }
            let by_fork = schedule(&dag, &mut policy.fork());
            prop_assert_eq!(by_fork, schedule(&dag, &mut *policy), "{}", name);
        }
    }

    #[test]
    fn schedules_are_valid_and_not_shorter_than_the_bound(dag in support::dags(60, 6)) {
        for (name, mut policy) in policies(&dag) {
            let schedule = schedule(&dag, &mut *policy);
            prop_assert_eq!(schedule.check(&dag), Ok(()), "{}", name);
            prop_assert!(lower_bound(&dag) <= schedule.len(), "{}", name);
        }
        for encoding in PAPERS {
            let schedule = schedule(&dag, &mut learned(&dag, encoding, 5));
            prop_assert_eq!(schedule.check(&dag), Ok(()), "{}", encoding);
        }
    }

    #[test]
    fn exhaustive_search_is_between_the_bound_and_all_policies(dag in support::dags(13, 3)) {
        let best = exhaustive(&dag);
        prop_assert_eq!(best.check(&dag), Ok(()));
        prop_assert!(lower_bound(&dag) <= best.len());
        for (name, mut policy) in policies(&dag) {
            prop_assert!(best.len() <= schedule(&dag, &mut *policy).len(), "{}", name);
        }
    }

    /// The paper's lemma: a kind whose ratio is 1 begins some shortest schedule.
    #[test]
    fn a_ratio_of_one_begins_a_shortest_schedule(dag in support::dags(12, 3)) {
        let kind_frontiers = support::kind_frontiers(&dag, &vec![false; dag.nodes()]);
        let frontier = Frontier::new(&dag);
        for kind in frontier.ready_kinds() {
            if frontier.ready(kind).len() == kind_frontiers[kind.index()] {
                let rest = without(&dag, frontier.ready(kind));
                prop_assert_eq!(1 + exhaustive(&rest).len(), exhaustive(&dag).len());
            }
        }
    }

    #[test]
    fn schedules_do_not_depend_on_reused_memory(
        a in support::dags(30, 4), b in support::dags(50, 5)
    ) {
        let fresh = policies(&b).into_iter().map(|(_, mut p)| schedule(&b, &mut *p));
        let fresh: Vec<_> = fresh.collect();
        let mut frontier = Frontier::default();
        let mut into = Schedule::new();
        for ((name, mut policy), fresh) in policies(&b).into_iter().zip(fresh) {
            edbatch_policy::schedule_into(&a, &mut *policy, &mut frontier, &mut into);
            edbatch_policy::schedule_into(&b, &mut *policy, &mut frontier, &mut into);
            prop_assert_eq!(&into, &fresh, "{}", name);
        }
    }
}

/// The rest of a graph after a first batch.
fn without(dag: &PlainDag, batch: &[NodeId]) -> PlainDag {
    let mut rest = PlainDag::new(dag.kind_names().to_vec());
    let mut renamed = vec![None; dag.nodes()];
    for node in (0..dag.nodes()).map(NodeId::new) {
        if !batch.contains(&node) {
            let arguments: Vec<_> =
                dag.arguments(node).filter_map(|a| renamed[a.index()]).collect();
            renamed[node.index()] = Some(rest.push(dag.kind(node), &arguments).unwrap());
        }
    }
    rest
}

/// Fig. 1 of the paper: a parse tree of inner nodes (I, leaves included), an output for each (O),
/// and their sum (R). The depths of the inner nodes are 0 0 0 0 1 2 3, and one more for their
/// outputs.
fn figure_1() -> PlainDag {
    parse_text(
        "22\n0 0\n0 0\n0 0\n0 0\n0 2 0 1\n0 2 4 2\n0 2 5 3\n\
         1 1 0\n1 1 1\n1 1 2\n1 1 3\n1 1 4\n1 1 5\n1 1 6\n\
         2 1 7\n2 2 14 8\n2 2 15 9\n2 2 16 10\n2 2 17 11\n2 2 18 12\n2 2 19 13\n2 1 20\n",
    )
    .unwrap()
}

/// The numbers of batches of kind 1 by depth, agenda, sufficient, critical and a learned table.
fn batches_of_kind_1(dag: &PlainDag, encoding: Encoding) -> [usize; 5] {
    let of = |policy: &mut dyn Policy| {
        schedule(dag, policy).batches().filter(|batch| batch.kind == Kind(1)).count()
    };
    let mut fsm = learned(dag, encoding, 200);
    let batches = [
        of(&mut Depth::new()),
        of(&mut Agenda::new()),
        of(&mut Sufficient::new()),
        of(&mut Critical::new()),
        of(&mut fsm),
    ];
    assert_eq!(fsm.unseen(), 0, "the table decides, not the fallback");
    batches
}

#[test]
fn figure_1_outputs_wait_for_all_inner_nodes() {
    let dag = figure_1();
    // The outputs need only one batch.
    assert_eq!(batches_of_kind_1(&dag, Encoding::Base), [4, 2, 1, 1, 1]);
    assert_eq!(schedule(&dag, &mut Critical::new()).len(), lower_bound(&dag));
}

#[test]
fn figure_2_ratios_of_the_second_iteration_are_five_sevenths_and_one() {
    let dag = figure_1();
    let mut frontier = Frontier::new(&dag);
    frontier.run(Kind(0), 4);
    frontier.run(Kind(0), 1);
    let mut kind_frontiers = edbatch_policy::KindFrontiers::default();
    kind_frontiers.update(&frontier, &edbatch_policy::Chains::new(&frontier));
    let ratio = |kind| (frontier.ready(kind).len(), kind_frontiers.size(kind));
    assert_eq!(ratio(Kind(1)), (5, 7));
    assert_eq!(ratio(Kind(0)), (1, 1));
}

/// Fig. 7 of the paper: a chain of character cells with jump links of word cells. Both words can
/// run in one batch after half of the characters. Depth and mean depth miss that.
#[test]
fn figure_7_words_wait_for_each_other() {
    let mut dag = PlainDag::new(["char", "word"]);
    let mut states: Vec<Vec<NodeId>> = vec![vec![]];
    for end in 1..=8 {
        let mut arcs = vec![dag.push(Kind(0), &states[end - 1]).unwrap()];
        // One word from state 1 to state 4, another one from state 3 to state 6.
        if let Some(start) = [(4, 1), (6, 3)].iter().find(|word| word.0 == end) {
            arcs.push(dag.push(Kind(1), &states[start.1]).unwrap());
        }
        states.push(arcs);
    }
    assert_eq!(batches_of_kind_1(&dag, Encoding::Sort), [2, 2, 1, 1, 1]);
    assert_eq!(schedule(&dag, &mut Critical::new()).len(), exhaustive(&dag).len());
}

#[test]
fn published_graphs_schedule_with_every_policy() {
    for (name, dag) in support::published_graphs() {
        let mut batches = Vec::new();
        for (policy_name, mut policy) in policies(&dag) {
            let schedule = schedule(&dag, &mut *policy);
            assert_eq!(schedule.check(&dag), Ok(()), "{name}, {policy_name}");
            batches.push(schedule.len());
        }
        for encoding in PAPERS {
            let schedule = schedule(&dag, &mut learned(&dag, encoding, 3));
            assert_eq!(schedule.check(&dag), Ok(()), "{name}, {encoding}");
        }
        let [depth, agenda, _, critical, ..] = batches[..] else { unreachable!() };
        assert!(critical <= depth.min(agenda), "{name}: {batches:?}");
        if name == "lattice-B64-G1.txt.gz" {
            assert_eq!(lower_bound(&dag), 239);
        }
    }
}
