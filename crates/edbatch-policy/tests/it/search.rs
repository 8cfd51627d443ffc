//! Searches, compared with exhaustive search.

use std::time::Duration;

use edbatch_graph::{Dag, Kind, PlainDag};
use edbatch_policy::{
    Beam, Critical, Frontier, Policy, Sufficient, exhaustive, lower_bound, quotient, schedule,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::supersequence::{chains_of, random_strings};
use crate::support;

fn count(dag: &impl Dag, policy: &mut impl Policy) -> usize {
    let schedule = schedule(dag, policy);
    assert_eq!(schedule.check(dag), Ok(()));
    schedule.len()
}

proptest! {
    #[test]
    fn exact_search_finds_a_shortest_schedule(dag in support::dags(13, 3)) {
        let mut exact = Beam::exact();
        prop_assert_eq!(count(&dag, &mut exact), exhaustive(&dag).len());
        prop_assert!(exact.proved());
    }

    /// With any time limit the schedule is at most as long as `Critical`'s, and no proof is false.
    #[test]
    fn searches_respect_time_limits(dag in support::dags(30, 4), nanoseconds in 1_u64..200_000) {
        let time = Duration::from_nanos(nanoseconds);
        let by_critical = count(&dag, &mut Critical::new());
        prop_assert!(count(&dag, &mut Beam::new(8).within(time)) <= by_critical);
        let mut exact = Beam::exact().within(time);
        let found = count(&dag, &mut exact);
        prop_assert!(found <= by_critical);
        if exact.proved() {
            prop_assert_eq!(found, count(&dag, &mut Beam::exact()));
        }
    }

    /// Every order of kinds makes batches of the same sizes, by weight.
    #[test]
    fn quotient_has_the_same_schedules_as_the_graph(dag in support::dags(60, 4)) {
        let mut whole = Frontier::new(&dag);
        let mut quotient = quotient(&whole);
        let mut policy = Sufficient::new();
        policy.start(&quotient);
        while !quotient.is_done() {
            for kind in (0..dag.kinds()).map(Kind::new) {
                prop_assert_eq!(quotient.ready_count(kind), whole.ready(kind).len());
            }
            prop_assert_eq!(quotient.nodes_ran(), whole.nodes_ran());
            let kind = policy.next(&quotient);
            quotient.run(kind, quotient.ready(kind).len());
            whole.run(kind, whole.ready(kind).len());
        }
        prop_assert!(whole.is_done());
    }

    /// The length of a shortest common supersequence is the length of both strings minus the length
    /// of their longest common subsequence.
    #[test]
    fn two_chains_need_their_shortest_common_supersequence(seed in any::<u64>()) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let strings = random_strings(2, 7, 3, &mut rng);
        let shared = common_subsequence(&strings[0], &strings[1]);
        let dag = chains_of(&strings, 3);
        prop_assert_eq!(exhaustive(&dag).len(), 14 - shared);
        prop_assert_eq!(count(&dag, &mut Beam::exact()), 14 - shared);
    }
}

fn common_subsequence(p: &[Kind], q: &[Kind]) -> usize {
    match (p, q) {
        ([a, p @ ..], [b, q @ ..]) if a == b => 1 + common_subsequence(p, q),
        ([_, p_rest @ ..], [_, q_rest @ ..]) => {
            common_subsequence(p_rest, q).max(common_subsequence(p, q_rest))
        }
        _ => 0,
    }
}

#[test]
fn beam_search_beats_critical_on_random_strings() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let dag = chains_of(&random_strings(8, 40, 4, &mut rng), 4);
    let (critical, beam) = (count(&dag, &mut Critical::new()), count(&dag, &mut Beam::new(256)));
    assert!(beam < critical, "{beam} < {critical}");
    assert!(lower_bound(&dag) < beam);
}

#[test]
fn beam_search_is_at_least_as_good_as_critical_on_published_graphs() {
    for (name, dag) in support::published_graphs() {
        let by_beam = count(&dag, &mut Beam::new(4));
        assert!(
            lower_bound(&dag) <= by_beam && by_beam <= count(&dag, &mut Critical::new()),
            "{name}"
        );
    }
}

#[test]
fn exact_search_proves_schedules_that_exceed_the_bound() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let dag = chains_of(&random_strings(5, 6, 2, &mut rng), 2);
    let hour = Duration::from_secs(3600);
    let shortest = exhaustive(&dag).len();
    assert!(lower_bound(&dag) < shortest, "otherwise the bound would be the proof");
    let mut exact = Beam::exact().within(hour);
    assert_eq!((count(&dag, &mut exact), exact.proved()), (shortest, true));
}

#[test]
fn an_empty_graph_has_an_empty_schedule() {
    let dag = PlainDag::new(["a"]);
    assert_eq!(count(&dag, &mut Beam::new(3)), 0);
    assert_eq!((lower_bound(&dag), exhaustive(&dag).len()), (0, 0));
}
