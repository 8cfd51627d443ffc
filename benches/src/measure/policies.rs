//! The policies whose numbers of batches are compared, and the part `learn`: training time of
//! learned policies, and their batches on unseen mini-batches.

use std::time::Instant;

use edbatch_graph::Graph;
use edbatch_policy::{
    Agenda, AnyPolicy, Beam, Comparison, Critical, Depth, Encoding, Fsm, LearningConfig, LookAhead,
    PairRule, Policy, Progress, Sufficient, TrainingSet, compare, learn, learn_rule,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::Failure;
use crate::measure::families::Family;
use crate::measure::workload::{MiniBatch, Part, Workload};
use crate::record::Learn;

/// The time that a comparison of policies may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// The paper's policies, and the fast ones of ours.
    Quick,
    /// Searches and all encodings, too.
    Full,
}

/// Returns the policies that are not learned, with their names.
pub fn unlearned(effort: Effort) -> Vec<(String, Box<dyn Policy>)> {
    let mut policies: Vec<(String, Box<dyn Policy>)> = vec![
        ("depth".into(), Box::new(Depth::new())),
        ("agenda".into(), Box::new(Agenda::new())),
        ("sufficient".into(), Box::new(Sufficient::new())),
        ("critical".into(), Box::new(Critical::new())),
        ("critical:pair".into(), Box::new(LookAhead::new(PairRule::pair()))),
        ("critical:soft".into(), Box::new(LookAhead::new(PairRule::soft()))),
    ];
    if effort == Effort::Full {
        for width in [32, 1024] {
            policies.push((format!("beam:{width}"), Box::new(Beam::new(width))));
        }
    }
    policies
}

/// A learned policy, and the cost of learning it.
pub struct LearnedPolicy<P = AnyPolicy> {
    /// The encoding of its states: one of the paper's, or our `pairs`. `pairs: critical:soft`
    /// means that no learned rule was better than `critical:soft`.
    pub name: String,
    /// The policy.
    pub policy: P,
    /// Mini-batches scheduled for learning.
    pub episodes: usize,
    /// States of a table, or weights of a rule.
    pub states: usize,
    /// Learning time, without building the graphs.
    pub seconds: f64,
}

/// Graphs of the training part of a workload.
pub struct TrainingGraphs {
    train: Vec<Graph>,
    held_out: Vec<Graph>,
    kinds: usize,
}

/// Mini-batches for learning, as in the paper.
const TRAIN: usize = 4;
/// Mini-batches held out to select the best episode.
const HELD_OUT: usize = 2;
/// Episodes of our own learner.
const EPISODES: usize = 3000;
/// Unseen mini-batches for the comparison with `critical`.
const UNSEEN: usize = 5;

impl TrainingGraphs {
    /// Builds the graphs of mini-batches of a size: fewer mini-batches if they would overlap.
    pub fn new(workload: &dyn Workload, batch: usize) -> Self {
        let instances = workload.instances(Part::Train);
        let count = (TRAIN + HELD_OUT).min(instances / batch).max(1);
        let mini_batches = MiniBatch::spread(instances, batch, count);
        // Disjoint parts, so that the best episode is selected on unseen mini-batches.
        let (train, held_out) = mini_batches.split_at((count * TRAIN).div_ceil(TRAIN + HELD_OUT));
        let graphs = |mini_batches| graphs(workload, Part::Train, mini_batches);
        let kinds = workload.network().cells().len();
        Self { train: graphs(train), held_out: graphs(held_out), kinds }
    }

    /// Learns an FSM by Q-learning like the paper.
    pub fn learn(&self, encoding: Encoding, progress: impl FnMut(&Progress)) -> LearnedPolicy<Fsm> {
        let set = TrainingSet::new(&self.train, &self.held_out).expect("there are mini-batches");
        let started = Instant::now();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let outcome = learn(&set, encoding, &LearningConfig::default(), &mut rng, progress);
        LearnedPolicy {
            name: encoding.to_string(),
            policy: outcome.fsm(encoding, self.kinds),
            episodes: outcome.episodes,
            states: outcome.table.len(),
            seconds: started.elapsed().as_secs_f64(),
        }
    }

    /// Learns the constants of our own rule, or selects a policy that needs no learning.
    fn learn_rule(&self, progress: impl FnMut(&Progress)) -> LearnedPolicy {
        let set = TrainingSet::new(&self.train, &self.held_out).expect("there are mini-batches");
        let started = Instant::now();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let outcome = learn_rule(&set, EPISODES, &mut rng, progress);
        let seconds = started.elapsed().as_secs_f64();
        let (best, _) = outcome.held_out.best_unlearned();
        let states = outcome.rule.as_ref().map_or(0, |rule| rule.weights.len());
        let (name, policy): (_, AnyPolicy) = match outcome.rule {
            Some(rule) => ("pairs".into(), Box::new(LookAhead::new(rule))),
            None => (format!("pairs: {best}"), best.open(&[""; 0]).expect("not a file")),
        };
        LearnedPolicy { name, policy, episodes: outcome.episodes, states, seconds }
    }
}

impl LearnedPolicy {
    /// Compares the policy with `critical` on unseen mini-batches.
    pub fn compare(&mut self, workload: &dyn Workload, batch: usize) -> Comparison {
        let mini_batches = MiniBatch::spread(workload.instances(Part::Test), batch, UNSEEN);
        compare(&graphs(workload, Part::Test, &mini_batches), &mut self.policy)
    }
}

fn graphs(workload: &dyn Workload, part: Part, mini_batches: &[MiniBatch]) -> Vec<Graph> {
    let unrolled = mini_batches.iter().flat_map(|&mini_batch| workload.unroll(part, mini_batch));
    unrolled.map(|unrolled| unrolled.graph).collect()
}

/// Learns all policies: by Q-learning with each encoding, and our rule.
pub fn learned(
    workload: &dyn Workload,
    batch: usize,
    effort: Effort,
    mut progress: impl FnMut(&str),
) -> Vec<LearnedPolicy> {
    let encodings = match effort {
        Effort::Quick => vec![Encoding::Base, Encoding::Max, Encoding::Sort],
        Effort::Full => Encoding::all().into(),
    };
    let graphs = TrainingGraphs::new(workload, batch);
    let mut policies = Vec::new();
    for encoding in encodings {
        let learned = graphs.learn(encoding, |at| {
            progress(&format!("{encoding}, episode {} of {}", at.episode, at.episodes));
        });
        let LearnedPolicy { name, policy, episodes, states, seconds } = learned;
        let policy: AnyPolicy = Box::new(policy);
        policies.push(LearnedPolicy { name, policy, episodes, states, seconds });
    }
    policies.push(graphs.learn_rule(|at| {
        progress(&format!("pairs, episode {} of {}", at.episode, at.episodes));
    }));
    policies
}

/// Learns with every encoding on mini-batches of a size.
pub fn learning(
    family: &Family,
    batch: usize,
    effort: Effort,
    progress: impl FnMut(&str),
) -> Result<Vec<Learn>, Failure> {
    // Learning does not depend on the size of vectors.
    let workload = family.at(8)?;
    let record = |mut policy: LearnedPolicy| {
        let compared = policy.compare(&*workload, batch);
        Learn {
            model: family.model.into(),
            input: family.input.into(),
            batch,
            encoding: policy.name,
            episodes: policy.episodes,
            seconds: policy.seconds,
            states: policy.states,
            before: compared.critical,
            after: compared.learned,
            bound: compared.bound,
        }
    };
    Ok(learned(&*workload, batch, effort, progress).into_iter().map(record).collect())
}
