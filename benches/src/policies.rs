//! The policies that are compared by their numbers of batches.

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

/// The policies that need no learning, and their names.
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

/// A learned policy.
pub struct Lesson {
    /// How it was learned, in a word.
    pub name: String,
    /// The policy.
    pub fsm: Fsm,
    /// How it fared on mini-batches held out.
    pub outcome: Outcome,
    /// The time that learning took, graphs built before.
    pub seconds: f64,
}

/// Graphs to learn on, of a workload's training part.
pub struct Lessons {
    train: Vec<Graph>,
    held_out: Vec<Graph>,
    kinds: usize,
}

/// Mini-batches to learn on.
const COURSES: usize = 4;
/// Mini-batches held out.
const HELD_OUT: usize = 2;
/// At most how many times as many our own FSM has.
const MOST: usize = 12;
/// At least how many.
const LEAST: usize = 2;
/// How many instances these may be together: small mini-batches differ more, and cost less.
const INSTANCES: usize = 2304;

impl Lessons {
    /// Builds the graphs of mini-batches of some size.
    #[must_use]
    pub fn new(workload: &dyn Workload, batch: usize) -> Self {
        Self::times(1, workload, batch)
    }

    /// So many times as many mini-batches.
    fn times(times: usize, workload: &dyn Workload, batch: usize) -> Self {
        let instances = workload.instances(Part::Train);
        let mini_batches = MiniBatch::spread(instances, batch, times * (COURSES + HELD_OUT));
        let graphs = |mini_batches: &[MiniBatch]| {
            let unrolled = mini_batches.iter().flat_map(|&m| workload.unroll(Part::Train, m));
            unrolled.map(|unrolled| unrolled.graph).collect()
        };
        let (train, held_out) = mini_batches.split_at(times * COURSES);
        let kinds = workload.network().cells().len();
        Self { train: graphs(train), held_out: graphs(held_out), kinds }
    }

    fn set(&self) -> TrainingSet<'_, Graph> {
        TrainingSet::new(&self.train, &self.held_out).expect("there are mini-batches")
    }

    /// An FSM by Q-learning as in the paper.
    pub fn learn(&self, encoding: &NamedEncoding, progress: impl FnMut(&Progress)) -> Lesson {
        self.lesson(encoding.to_string(), encoding, || {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
            // The authors have no `Critical` to fall back on.
            let config = LearningConfig { or_critical: false, ..LearningConfig::default() };
            learn(&self.set(), encoding, &config, &mut rng, progress)
        })
    }

    /// What `Critical` sees, distilled from a beam search and then improved.
    fn distill(&self) -> Lesson {
        let encoding = NamedEncoding::Critical(Box::default());
        self.lesson("ours".into(), &encoding, || {
            let teacher = &mut Beam::new(32);
            let outcome = distill(&self.set(), &encoding, teacher);
            improve(&outcome, &self.set(), &encoding, 3)
        })
    }

    fn lesson(
        &self,
        name: String,
        encoding: &NamedEncoding,
        learn: impl FnOnce() -> Outcome,
    ) -> Lesson {
        let started = Instant::now();
        let outcome = learn();
        let seconds = started.elapsed().as_secs_f64();
        Lesson { name, fsm: outcome.fsm(encoding.clone(), self.kinds), outcome, seconds }
    }
}

/// All learned policies: by Q-learning as in the paper, and, with all effort, our best.
pub fn learned(
    workload: &dyn Workload,
    batch: usize,
    effort: Effort,
    mut progress: impl FnMut(&str),
) -> Vec<Lesson> {
    let encodings = match effort {
        Effort::Quick => vec![NamedEncoding::Base, NamedEncoding::Max, NamedEncoding::Sort],
        Effort::Full => NamedEncoding::all().into(),
    };
    let papers = Lessons::new(workload, batch);
    let mut lessons = Vec::new();
    for encoding in encodings {
        lessons.push(papers.learn(&encoding, |at| {
            progress(&format!("{encoding}, episode {} of {}", at.episode, at.episodes));
        }));
    }
    if effort == Effort::Full {
        progress("distilling a beam search");
        let times = INSTANCES / (batch * (COURSES + HELD_OUT));
        let more = Lessons::times(times.clamp(LEAST, MOST), workload, batch);
        lessons.push(more.distill());
    }
    lessons
}
