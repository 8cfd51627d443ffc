//! Waves and phases of plans of gradients.

use std::sync::Arc;

use edbatch_graph::{Dag, Network, NodeId, training_network};
use edbatch_layout::{Lifetimes, MiniBatch, Planner, Program, TrainingPlan, Want, check_training};
use edbatch_testing::Subject;
use edbatch_testing::networks::Random;
use edbatch_zoo::Stop;
use rand::{RngExt, SeedableRng};

use super::levels::{Emitting, graphs};
use crate::{check_training_waves, waves};

/// The graphs of the nine models, and those of random networks, whose loss depends on some of the
/// values.
fn subjects() -> impl Iterator<Item = (String, Emitting)> {
    let nine = graphs(16, Stop::Forced([0; 5].into())).unwrap();
    let nine = nine.into_iter().map(|(name, of)| (name.to_owned(), of));
    let random = (0..48).map(|seed| {
        let graph = Subject::random(seed).graph;
        let mut rng = Random::seed_from_u64(seed);
        let nodes = (0..graph.nodes()).filter(|_| rng.random_bool(0.3));
        let emitted = nodes.map(|node| NodeId::new(node).into()).collect();
        (format!("random network {seed}"), (graph, emitted))
    });
    nine.chain(random)
}

fn for_training(network: &Network) -> Program {
    let training = training_network(network, |_| true, |_| true).unwrap();
    Program::for_training(Arc::new(training)).unwrap()
}

/// Returns a plan of the gradients of all emitted values, with batches by depth, and the waves of
/// both ways. The plan is legal, and no step can be in an earlier wave.
fn planned(program: &Program, (graph, emitted): &Emitting) -> (TrainingPlan, [Vec<u32>; 2]) {
    let (network, mut rng) = (graph.network().clone(), Random::seed_from_u64(1));
    let Subject { graph, schedule, .. } = &Subject::of(network, graph.clone(), &mut rng);
    let wanted: Vec<_> = emitted.iter().map(|&value| (value, Want::Elements)).collect();
    let mini_batch = MiniBatch { program, graph, schedule, wanted: &wanted };
    let mut plan = TrainingPlan::default();
    let has_gradient = vec![true; wanted.len()];
    let mut planner = Planner::new(Lifetimes::Distinct);
    planner.plan_training(&mini_batch, &has_gradient, &mut plan).unwrap();
    check_training(&plan, &mini_batch, &has_gradient).unwrap();
    let of = [&plan.forward, &plan.back].map(|plan| waves(program, plan));
    check_training_waves(&plan, [&of[0], &of[1]], &mini_batch).unwrap();
    for (way, first) in [0, plan.forward.steps.len()].into_iter().enumerate() {
        for step in (0..of[way].len()).filter(|&step| of[way][step] > 0) {
            let mut earlier = of.clone();
            earlier[way][step] -= 1;
            let checked = check_training_waves(&plan, [&earlier[0], &earlier[1]], &mini_batch);
            let error = checked.expect_err("the step is before an operand");
            assert_eq!(error.step, first + step, "{error:?}");
        }
    }
    (plan, of)
}

#[test]
fn waves_of_gradients_are_legal_and_as_early_as_possible() {
    for (name, emitting) in subjects() {
        let program = for_training(emitting.0.network());
        let (plan, _) = planned(&program, &emitting);
        assert!(!plan.back.steps.is_empty() || emitting.1.is_empty(), "{name}");
    }
}
