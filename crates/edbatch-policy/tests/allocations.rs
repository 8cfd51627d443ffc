//! Scheduling allocates nothing once its memory has seen the largest mini-batch.

use std::iter;

use edbatch_graph::{Dag, PlainDag, Schedule};
use edbatch_policy::{
    Agenda, AnyPolicy, Critical, Depth, Fsm, LearningConfig, LookAhead, NamedEncoding, PairRule,
    Scheduler, Sufficient, TrainingSet, learn, schedule,
};
use edbatch_testing::{CountingAllocator, allocations};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "it/support.rs"]
mod support;

use support::{lattices, trees};

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// How often it allocates, mini-batch after mini-batch.
fn counts(mut scheduler: Scheduler, mini_batches: &[PlainDag]) -> Vec<usize> {
    let mut schedule = Schedule::new();
    let mut run = |dag| allocations(|| scheduler.schedule(dag, &mut schedule));
    mini_batches.iter().map(&mut run).collect()
}

/// A large mini-batch, smaller ones, and the large one again.
fn mini_batches(make: fn(u64, usize) -> PlainDag) -> Vec<PlainDag> {
    let smaller = (2..10).map(|seed| make(seed, 8));
    iter::once(make(1, 64)).chain(smaller).chain(iter::once(make(1, 64))).collect()
}

#[test]
fn a_scheduler_that_has_seen_the_largest_graph_allocates_nothing() {
    // Kinds in an order, so that the default is `InOrder`; and without one.
    for make in [trees as fn(u64, usize) -> PlainDag, lattices] {
        let mini_batches = mini_batches(make);
        let policies: [AnyPolicy; 7] = [
            Box::new(Critical::new()),
            Box::new(LookAhead::new(PairRule::pair())),
            Box::new(LookAhead::new(PairRule::soft())),
            Box::new(Sufficient::new()),
            Box::new(Agenda::new()),
            Box::new(Depth::new()),
            // It knows no state, and so falls to `Critical` all the time.
            Box::new(Fsm::new(NamedEncoding::Sort, mini_batches[0].kinds())),
        ];
        let schedulers = policies.into_iter().map(Scheduler::by).chain([Scheduler::default()]);
        for (number, scheduler) in schedulers.enumerate() {
            let counts = counts(scheduler, &mini_batches);
            assert!(counts[0] > 0, "scheduler {number}: the first time");
            assert_eq!(counts[1..], [0; 9], "scheduler {number}");
        }
    }
}

/// An FSM that knows every state that it meets on these graphs: it learns at a rate of 0, so it runs
/// the smallest kind in each.
fn complete_fsm(dags: &[PlainDag], encoding: NamedEncoding) -> Fsm {
    let config = LearningConfig {
        episodes: dags.len(),
        rate: 0.0,
        epsilon: 0.0,
        epsilon_least: 0.0,
        good_enough: 0.0,
        ..LearningConfig::default()
    };
    let set = TrainingSet::new(dags, &[]).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut fsm = learn(&set, encoding, &config, &mut rng, |_| ()).fsm(encoding, dags[0].kinds());
    for dag in dags {
        schedule(dag, &mut fsm).check(dag).unwrap();
        assert_eq!(fsm.unseen(), 0, "{encoding}");
    }
    fsm
}

/// With all states that it meets in its table.
#[test]
fn a_learned_fsm_allocates_nothing() {
    for make in [trees as fn(u64, usize) -> PlainDag, lattices] {
        let mini_batches = mini_batches(make);
        for encoding in NamedEncoding::all() {
            let fsm = complete_fsm(&mini_batches, encoding);
            let counts = counts(Scheduler::by(Box::new(fsm)), &mini_batches);
            assert_eq!(counts[1..], [0; 9], "{encoding}");
        }
    }
}
