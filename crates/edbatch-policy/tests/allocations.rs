//! Scheduling allocates nothing after the largest mini-batch.

use std::iter;

use edbatch_graph::{Dag, PlainDag, Schedule};
use edbatch_policy::{
    Agenda, AnyPolicy, Critical, Depth, Encoding, Fsm, LearningConfig, LookAhead, PairRule,
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

/// The number of allocations for each mini-batch.
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
fn schedulers_allocate_nothing_after_the_largest_graph() {
    // Kinds with an order, for which the default is `InOrder`, and without one.
    for make in [trees as fn(u64, usize) -> PlainDag, lattices] {
        let mini_batches = mini_batches(make);
        let policies: [AnyPolicy; 7] = [
            Box::new(Critical::new()),
            Box::new(LookAhead::new(PairRule::pair())),
            Box::new(LookAhead::new(PairRule::soft())),
            Box::new(Sufficient::new()),
            Box::new(Agenda::new()),
            Box::new(Depth::new()),
            // Without states, so `Critical` always decides.
            Box::new(Fsm::new(Encoding::Sort, mini_batches[0].kinds())),
        ];
        let schedulers = policies.into_iter().map(Scheduler::by).chain([Scheduler::default()]);
        for (number, scheduler) in schedulers.enumerate() {
            let counts = counts(scheduler, &mini_batches);
            assert!(counts[0] > 0, "scheduler {number}: the first mini-batch");
            assert_eq!(counts[1..], [0; 9], "scheduler {number}");
        }
    }
}

/// An FSM with all states that occur on these graphs. It is trained with a learning rate of 0 and
/// without random choices, so it runs the smallest kind in each state.
fn complete_fsm(dags: &[PlainDag], encoding: Encoding) -> Fsm {
    let mut config = LearningConfig::new(dags.len());
    (config.rate, config.epsilon, config.min_epsilon, config.good_enough) = (0.0, 0.0, 0.0, 0.0);
    let set = TrainingSet::new(dags, &[]).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut fsm = learn(&set, encoding, &config, &mut rng, |_| ()).fsm(encoding, dags[0].kinds());
    for dag in dags {
        schedule(dag, &mut fsm).check(dag).unwrap();
        assert_eq!(fsm.unseen(), 0, "{encoding}");
    }
    fsm
}

#[test]
fn fsm_allocates_nothing_after_the_largest_graph() {
    for make in [trees as fn(u64, usize) -> PlainDag, lattices] {
        let mini_batches = mini_batches(make);
        for encoding in Encoding::all() {
            let fsm = complete_fsm(&mini_batches, encoding);
            let counts = counts(Scheduler::by(Box::new(fsm)), &mini_batches);
            assert_eq!(counts[1..], [0; 9], "{encoding}");
        }
    }
}
