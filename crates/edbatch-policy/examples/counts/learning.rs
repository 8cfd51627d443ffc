//! Ways to learn an FSM, compared on mini-batches that none of them saw.

use std::time::Instant;

use edbatch_graph::PlainDag;
use edbatch_policy::{
    Beam, LearningConfig, NamedEncoding, Outcome, TrainingSet, distill, improve, learn, schedule,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// A line a way: states, learning time, mean batches on unseen mini-batches.
pub(crate) fn compare(set: &TrainingSet<'_, PlainDag>, test: &[PlainDag]) {
    let kinds = edbatch_graph::Dag::kinds(&set.train()[0]);
    let show = |how: &str, encoding: &NamedEncoding, outcome: &Outcome, start: Instant| {
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let batches = test.iter().map(|dag| {
            let mut fsm = outcome.fsm(encoding.clone(), kinds);
            schedule(dag, &mut fsm).len()
        });
        let mean = batches.sum::<usize>() as f64 / test.len() as f64;
        let word = encoding.to_string();
        let (states, episodes) = (outcome.table.len(), outcome.episodes);
        println!(
            "    {how:10} {word:9} {states:5} states {episodes:5} episodes {milliseconds:8.1} ms {mean:7.1} batches"
        );
    };
    for encoding in NamedEncoding::all() {
        let start = Instant::now();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        // What the encoding gives, even where `Critical` alone does better.
        let config = LearningConfig { or_critical: false, ..LearningConfig::default() };
        let outcome = learn(set, &encoding, &config, &mut rng, |_| ());
        show("q-learning", &encoding, &outcome, start);
        let outcome = improve(&outcome, set, &encoding, 3);
        show("  improved", &encoding, &outcome, start);
        let start = Instant::now();
        let outcome = distill(set, &encoding, &mut Beam::new(32));
        show("distilled", &encoding, &outcome, start);
        let outcome = improve(&outcome, set, &encoding, 3);
        show("  improved", &encoding, &outcome, start);
    }
}
