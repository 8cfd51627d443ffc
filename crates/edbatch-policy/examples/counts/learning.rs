//! Learning methods, compared on unseen mini-batches.

use std::time::Instant;

use edbatch_graph::{Dag, PlainDag};
use edbatch_policy::{Encoding, LearningConfig, LookAhead, Policy, TrainingSet, learn, learn_rule};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::counted;

/// Prints a line for each method: its batches on unseen mini-batches, states and learning time.
pub(crate) fn compare(set: &TrainingSet<'_, PlainDag>, test: &[PlainDag]) {
    let kinds = set.train()[0].kinds();
    let show = |how: &str, states: usize, start: Instant, policy: &mut dyn Policy| {
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let counted = counted(test, policy);
        println!("    {how:24} {counted}, {states} states, learned in {milliseconds:.0} ms");
    };
    for encoding in Encoding::all() {
        let start = Instant::now();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let outcome = learn(set, encoding, &LearningConfig::default(), &mut rng, |_| ());
        let mut fsm = outcome.fsm(encoding, kinds);
        show(&format!("q-learning, {encoding}"), outcome.table.len(), start, &mut fsm);
    }
    let start = Instant::now();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let train = [set.train(), set.held_out()].concat();
    let outcome = learn_rule(&train, 3000, &mut rng, |_| ()).expect("there are mini-batches");
    let states = outcome.rule.weights.len();
    show("pairs", states, start, &mut LookAhead::new(outcome.rule));
}
