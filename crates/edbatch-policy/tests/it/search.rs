//! Search, portfolio, bounds and costs, against the exhaustive oracle.

use std::time::Duration;

use edbatch_graph::{Dag, Kind, PlainDag};
use edbatch_policy::{
    Backwards, Beam, CostModel, Critical, Frontier, Line, LookAhead, PairRule, Policy, Portfolio,
    Sample, Sufficient, branch_and_bound, exhaustive, lower_bound, pair_bound, quotient, replay,
    schedule,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::supersequence::{chains_of, random_strings};
use crate::support;

fn batches(dag: &impl Dag, mut policy: impl Policy) -> usize {
    count(dag, &mut policy)
}

fn count(dag: &impl Dag, policy: &mut impl Policy) -> usize {
    let schedule = schedule(dag, policy);
    assert_eq!(schedule.check(dag), Ok(()));
    schedule.len()
}

proptest! {
    #[test]
    fn branch_and_bound_finds_the_shortest(dag in support::dags(13, 3)) {
        let found = branch_and_bound(&dag, None, |_| false);
        let best = exhaustive(&dag).len();
        prop_assert!(found.proved);
        prop_assert_eq!(found.cost, best as u64);
        let schedule = replay(&dag, &found.kinds);
        prop_assert_eq!(schedule.check(&dag), Ok(()));
        prop_assert_eq!(schedule.len(), best);
    }

    #[test]
    fn bounds_are_in_order(dag in support::dags(13, 3)) {
        prop_assert!(lower_bound(&dag) <= pair_bound(&dag));
        prop_assert!(pair_bound(&dag) <= exhaustive(&dag).len());
    }

    /// With costs: against a branch and bound of another kind, trying every order to the end.
    #[test]
    fn branch_and_bound_finds_the_cheapest(dag in support::dags(8, 3), costs in [1_u32..9, 1..9, 1..9]) {
        let found = branch_and_bound(&dag, Some(&costs), |_| false);
        prop_assert!(found.proved && found.bound <= found.cost);
        prop_assert_eq!(found.cost, cheapest(Frontier::new(&dag), &costs));
        for policy in [
            Box::new(Critical::new().with_costs(costs.to_vec())) as Box<dyn Policy>,
            Box::new(Portfolio::quick().with_costs(costs.to_vec())),
            Box::new(Beam::new(2).with_costs(costs.to_vec())),
        ] {
            let mut policy = policy;
            let schedule = schedule(&dag, &mut *policy);
            prop_assert_eq!(schedule.check(&dag), Ok(()));
        }
    }

    /// Stopped at once, it still has a legal schedule; a proof only if one is due.
    #[test]
    fn search_may_be_stopped_at_any_time(dag in support::dags(30, 4), budget in 0_u64..50) {
        let found = branch_and_bound(&dag, None, |states| states >= budget);
        prop_assert_eq!(replay(&dag, &found.kinds).check(&dag), Ok(()));
        if found.proved {
            prop_assert_eq!(found.cost, branch_and_bound(&dag, None, |_| false).cost);
        }
    }

    #[test]
    fn a_portfolio_is_never_worse_than_a_member(dag in support::dags(80, 5)) {
        let quick = batches(&dag, Portfolio::quick());
        prop_assert!(quick <= batches(&dag, Critical::new()));
        for rule in [PairRule::pair(), PairRule::soft()] {
            prop_assert!(quick <= batches(&dag, LookAhead::new(rule.clone())));
            prop_assert!(quick <= batches(&dag, Backwards::new(LookAhead::new(rule))));
        }
        prop_assert!(quick <= batches(&dag, Backwards::new(Critical::new())));
        let thorough = batches(&dag, Portfolio::thorough());
        prop_assert!(thorough <= quick && thorough <= batches(&dag, Beam::new(64)));
        prop_assert!(lower_bound(&dag) <= thorough);
    }

    /// A budget ends a search, and never leaves it without a schedule.
    #[test]
    fn searches_have_budgets(dag in support::dags(40, 5), nanoseconds in 1_u64..200_000) {
        let time = Duration::from_nanos(nanoseconds);
        let by_critical = batches(&dag, Critical::new());
        prop_assert!(batches(&dag, Beam::new(8).within(time)) <= by_critical);
        prop_assert!(batches(&dag, Beam::exact().within(time)) <= by_critical);
        prop_assert!(batches(&dag, Portfolio::within(time)) <= by_critical);
    }

    /// The quotient's nodes stand for several.
    #[test]
    fn backwards_also_schedules_a_quotient(dag in support::dags(40, 4)) {
        let mut frontier = quotient(&Frontier::new(&dag));
        let mut policy = Backwards::new(Critical::new());
        policy.start(&frontier);
        while !frontier.is_done() {
            let kind = policy.next(&frontier);
            prop_assert!(!frontier.run(kind, frontier.ready(kind).len()).is_empty());
        }
    }

    /// An order of kinds makes as many batches of the quotient as of the graph, of the same sizes.
    #[test]
    fn the_quotient_has_the_same_schedules(dag in support::dags(60, 4)) {
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

    /// The reduction: the shortest schedule of two chains is as long as their shortest common
    /// supersequence, which has as many letters as both strings less their longest common part.
    #[test]
    fn two_chains_need_their_shortest_common_supersequence(seed in any::<u64>()) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let strings = random_strings(2, 7, 3, &mut rng);
        let shared = common_subsequence(&strings[0], &strings[1]);
        let dag = chains_of(&strings, 3);
        prop_assert_eq!(exhaustive(&dag).len(), 14 - shared);
        prop_assert_eq!(branch_and_bound(&dag, None, |_| false).cost, 14 - shared as u64);
    }
}

fn cheapest(frontier: Frontier, costs: &[u32]) -> u64 {
    let kinds: Vec<_> = frontier.ready_kinds().collect();
    let after = |kind: Kind| {
        let mut frontier = frontier.clone();
        frontier.run(kind, frontier.ready(kind).len());
        u64::from(costs[kind.index()]) + cheapest(frontier, costs)
    };
    kinds.into_iter().map(after).min().unwrap_or(0)
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
fn random_strings_are_hard_and_the_search_beats_the_rules() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let dag = chains_of(&random_strings(8, 40, 4, &mut rng), 4);
    let (rule, search) = (batches(&dag, Critical::new()), batches(&dag, Beam::new(256)));
    assert!(search < rule, "{search} < {rule}");
    assert!(lower_bound(&dag) < pair_bound(&dag) && pair_bound(&dag) <= search);
}

/// Wasting batches of the cheap kind: more batches, less time.
#[test]
fn costs_change_a_schedule_for_the_better_in_time() {
    let line = |base, slope| Line { base, slope };
    // A batch of kind 0 costs 10 µs before its first node, one of kind 1 costs 1 µs.
    let lines = vec![line(10_000.0, 5.0), line(1_000.0, 90.0)];
    let model = CostModel { lines };
    let mut better = 0;
    for seed in 0..10 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let dag = chains_of(&random_strings(6, 10, 2, &mut rng), 2);
        let plan = |costs: Option<&[u32]>| {
            let found = branch_and_bound(&dag, costs, |states| states > 20_000);
            replay(&dag, &found.kinds)
        };
        let (fewest, cheapest) = (plan(None), plan(Some(&model.batch_costs())));
        assert!(fewest.len() <= cheapest.len());
        assert!(model.cost(&cheapest) <= model.cost(&fewest));
        better += u32::from(model.cost(&cheapest) < model.cost(&fewest));
    }
    assert!(better > 0, "in none of ten graphs a schedule of more batches was cheaper");
}

#[test]
fn a_line_is_fitted_per_kind() {
    let at = |kind, nodes, nanoseconds| Sample { kind: Kind(kind), nodes, nanoseconds };
    let samples = [
        at(0, 1, 130.0),
        at(0, 10, 400.0),
        at(0, 100, 3100.0), // 100 + 30 n
        at(1, 8, 50.0),
        at(1, 8, 70.0), // one size: no slope
        at(2, 1, 10.0),
        at(2, 3, 90.0), // would start below zero
    ];
    let lines = CostModel::fit(4, &samples).lines;
    assert!((lines[0].base - 100.0).abs() < 1e-6 && (lines[0].slope - 30.0).abs() < 1e-6);
    assert_eq!(lines[1], Line { base: 60.0, slope: 0.0 });
    assert_eq!(lines[2], Line { base: 0.0, slope: 28.0 });
    assert_eq!(lines[3], Line::default());
    assert_eq!(CostModel { lines }.batch_costs(), [100, 60, 1, 1]);
}

#[test]
fn published_graphs_are_searched_and_never_worse() {
    for (name, dag) in support::published_graphs() {
        let mut quick = Portfolio::quick();
        let by_quick = count(&dag, &mut quick);
        assert!(by_quick <= batches(&dag, edbatch_policy::Agenda::new()), "{name}");
        assert!(by_quick <= batches(&dag, edbatch_policy::Depth::new()), "{name}");
        assert_eq!(quick.tried().map(|(_, cost, _)| cost).min(), Some(by_quick as u64));
        let by_beam = batches(&dag, Beam::new(4));
        assert!(
            lower_bound(&dag) <= by_beam && by_beam <= batches(&dag, Critical::new()),
            "{name}"
        );
    }
}

/// With time enough, they prove what the bound cannot: a third search member closes.
#[test]
fn exact_searches_say_what_they_proved() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let dag = chains_of(&random_strings(5, 6, 2, &mut rng), 2);
    let hour = Duration::from_secs(3600);
    let shortest = exhaustive(&dag).len();
    assert!(lower_bound(&dag) < shortest, "or the bound would be the proof");
    let mut exact = Beam::exact().within(hour);
    assert_eq!((count(&dag, &mut exact), exact.proved()), (shortest, true));
    let mut portfolio = Portfolio::within(hour);
    assert_eq!((count(&dag, &mut portfolio), portfolio.proved()), (shortest, true));
    let tried: Vec<_> = portfolio.tried().collect();
    assert_eq!((tried.len(), tried[6].0, tried[6].1), (7, "beam", shortest as u64));
    assert!(tried.iter().all(|&(_, _, time)| time > Duration::ZERO && time < hour));
}

/// What is learned may be a member.
#[test]
fn a_portfolio_holds_what_is_learned() {
    let dag = support::lattices(1, 8);
    let learned = PairRule { power: 9, lowering: Some(1.1), ..PairRule::soft() };
    let mut portfolio = Portfolio::quick().with("learned", LookAhead::new(learned.clone()));
    assert!(count(&dag, &mut portfolio) <= batches(&dag, LookAhead::new(learned)));
    assert_eq!(portfolio.tried().last().map(|(name, ..)| name), Some("learned"));
}

#[test]
fn an_empty_graph_has_an_empty_schedule() {
    let dag = PlainDag::new(["a"]);
    assert_eq!(batches(&dag, Beam::new(3)), 0);
    assert_eq!(batches(&dag, Portfolio::thorough()), 0);
    assert_eq!((lower_bound(&dag), pair_bound(&dag), exhaustive(&dag).len()), (0, 0, 0));
}

/// A member may be gathered apart by more than its count: the plan followed is the best one's.
#[test]
fn the_plan_followed_is_the_best_ones() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let dag = chains_of(&random_strings(6, 20, 3, &mut rng), 3);
    let mut portfolio = Portfolio::thorough();
    let followed = count(&dag, &mut portfolio);
    assert_eq!(Some(followed as u64), portfolio.tried().map(|(_, cost, _)| cost).min());
}
