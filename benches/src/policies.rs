//! The policies that the bench compares by their numbers of batches, and the training set of those
//! that are learned.

use std::time::Instant;

use edbatch_graph::Graph;
use edbatch_policy::{
    Agenda, Beam, Critical, Depth, Fsm, LearningConfig, NamedEncoding, Outcome, Policy, Portfolio,
    Progress, Sufficient, TrainingSet, distill, improve, learn,
};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::workload::{MiniBatch, Part, Workload};

/// How much time policies may take to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// The paper's policies, and those of ours that are made in no time.
    Quick,
    /// Searches, and what is learned from them.
    Full,
}

/// The policies that are not learned, with their names.
#[must_use]
pub fn unlearned(effort: Effort) -> Vec<(String, Box<dyn Policy>)> {
    let mut policies: Vec<(String, Box<dyn Policy>)> = vec![
        ("depth".into(), Box::new(Depth::new())),
        ("agenda".into(), Box::new(Agenda::new())),
        ("sufficient".into(), Box::new(Sufficient::new())),
        ("critical".into(), Box::new(Critical::new())),
        ("portfolio".into(), Box::new(Portfolio::quick())),
    ];
    if effort == Effort::Full {
        policies.push(("thorough".into(), Box::new(Portfolio::thorough())));
        for width in [32, 1024] {
            policies.push((format!("beam:{width}"), Box::new(Beam::new(width))));
        }
    }
    policies
}

/// A learned policy, and what learning it took.
pub struct LearnedPolicy {
    /// Its encoding, or `ours`.
    pub name: String,
    /// The policy.
    pub fsm: Fsm,
    /// Its batches on held-out mini-batches, before and after learning.
    pub outcome: Outcome,
    /// The time that learning took, graphs built before.
    pub seconds: f64,
}

/// The graphs of a training set, from the training part of a workload.
pub struct TrainingGraphs {
    train: Vec<Graph>,
    held_out: Vec<Graph>,
    kinds: usize,
}

/// Mini-batches to learn on, as the paper does.
const TRAIN: usize = 4;
/// Mini-batches held out, which select the best episode.
const HELD_OUT: usize = 2;
/// Our own FSM learns on so many times as many mini-batches at most...
const MOST: usize = 12;
/// ...and at least so many times.
const LEAST: usize = 2;
/// Instances of all these mini-batches together: of small mini-batches there are more, since they
/// differ more and cost less.
const INSTANCES: usize = 2304;

impl TrainingGraphs {
    /// Builds the graphs of mini-batches of some size.
    #[must_use]
    pub fn new(workload: &dyn Workload, batch: usize) -> Self {
        Self::times(1, workload, batch)
    }

    /// As [`new`](Self::new), of so many times as many mini-batches.
    fn times(times: usize, workload: &dyn Workload, batch: usize) -> Self {
        let instances = workload.instances(Part::Train);
        let mini_batches = MiniBatch::spread(instances, batch, times * (TRAIN + HELD_OUT));
        let graphs = |mini_batches: &[MiniBatch]| {
            let unrolled = mini_batches.iter().flat_map(|&m| workload.unroll(Part::Train, m));
            unrolled.map(|unrolled| unrolled.graph).collect()
        };
        // Different mini-batches: what is learned must not be selected on what it has seen.
        let (train, held_out) = mini_batches.split_at(times * TRAIN);
        let kinds = workload.network().cells().len();
        Self { train: graphs(train), held_out: graphs(held_out), kinds }
    }

    fn set(&self) -> TrainingSet<'_, Graph> {
        TrainingSet::new(&self.train, &self.held_out).expect("there are mini-batches")
    }

    /// Learns an FSM by Q-learning, as in the paper.
    pub fn learn(
        &self,
        encoding: &NamedEncoding,
        progress: impl FnMut(&Progress),
    ) -> LearnedPolicy {
        self.timed(encoding.to_string(), encoding, || {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
            // The authors have no `Critical` to fall back on.
            let config = LearningConfig { or_critical: false, ..LearningConfig::default() };
            learn(&self.set(), encoding, &config, &mut rng, progress)
        })
    }

    /// Distills an FSM on the encoding of `Critical` from a beam search, and improves it.
    fn distill(&self) -> LearnedPolicy {
        let encoding = NamedEncoding::Critical(Box::default());
        self.timed("ours".into(), &encoding, || {
            let teacher = &mut Beam::new(32);
            let outcome = distill(&self.set(), &encoding, teacher);
            improve(&outcome, &self.set(), &encoding, 3)
        })
    }

    fn timed(
        &self,
        name: String,
        encoding: &NamedEncoding,
        learn: impl FnOnce() -> Outcome,
    ) -> LearnedPolicy {
        let started = Instant::now();
        let outcome = learn();
        let seconds = started.elapsed().as_secs_f64();
        LearnedPolicy { name, fsm: outcome.fsm(encoding.clone(), self.kinds), outcome, seconds }
    }
}

/// All learned policies: by Q-learning as in the paper, and, with all effort, our best.
pub fn learned(
    workload: &dyn Workload,
    batch: usize,
    effort: Effort,
    mut progress: impl FnMut(&str),
) -> Vec<LearnedPolicy> {
    let encodings = match effort {
        Effort::Quick => vec![NamedEncoding::Base, NamedEncoding::Max, NamedEncoding::Sort],
        Effort::Full => NamedEncoding::all().into(),
    };
    let papers = TrainingGraphs::new(workload, batch);
    let mut policies = Vec::new();
    for encoding in encodings {
        policies.push(papers.learn(&encoding, |at| {
            progress(&format!("{encoding}, episode {} of {}", at.episode, at.episodes));
        }));
    }
    if effort == Effort::Full {
        progress("distilling a beam search");
        let times = INSTANCES / (batch * (TRAIN + HELD_OUT));
        let more = TrainingGraphs::times(times.clamp(LEAST, MOST), workload, batch);
        policies.push(more.distill());
    }
    policies
}
