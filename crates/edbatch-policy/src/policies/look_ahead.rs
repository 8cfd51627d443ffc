//! `LookAhead`: `Critical` that also considers the batch after the next one.
//!
//! *Source*: our own.
//!
//! [`Critical`] compares kinds by the urgency of *one* batch. Running A and then B, or B and then
//! A, has the same sum of urgencies. The difference is the number of nodes that the first batch
//! adds to the second. So compare the nodes of B that a batch of A releases with the nodes of A
//! that a batch of B releases, and **first run the kind whose batch fills the other batch**. This
//! is look-ahead of depth two in weighted majority merge, an approximation of shortest common
//! supersequences, and it does not run any batch to find out:
//!
//! ```text
//! U(t)           sum of the urgencies of the ready nodes of kind t
//! released(t, s) sum of the urgencies of the users of kind s that wait only for a ready node of t
//! score(t)       U(t) + max(released(t, t), max over s ≠ t of U(s) + released(t, s))
//! ```
//!
//! * [`PairRule::pair`]: if exactly one kind lowers the bound, it runs, as with [`Critical`].
//!   Otherwise the kind with the largest score runs, among the kinds that lower the bound, or among
//!   all ready kinds if none lowers it.
//! * [`PairRule::soft`]: the ready kind with the largest score runs. The score is multiplied by 1.2
//!   if the kind lowers the bound.
//! * A learned rule ([`learn_rule`](fn@crate::learn_rule)): like soft, with learned constants and a
//!   weight for `released` of each pair of kinds.
//!
//! Ties go to the kind with the larger urgency, then to the smaller kind. A user that reads the
//! same node twice waits for two arguments and is not counted.
//!
//! *Cost*: like [`Critical`], and visits to the users of the ready nodes of the kinds that compete.
//! Of a kind with many ready nodes, a regular sample of at most 256 is visited; of many kinds, only
//! the 64 most urgent. The most urgent kind is visited first, unless it wins even if it releases
//! nothing. Another kind is visited only if it would win by releasing as much as its own urgency. A
//! visit is O(users + kinds).

use edbatch_graph::{Kind, NodeId};

use crate::{AnyPolicy, Critical, Frontier, PairRule, Policy};

/// Runs the kind that begins the best pair of batches. Its memory is reused.
#[derive(Clone, Debug, Default)]
pub struct LookAhead {
    rule: PairRule,
    critical: Critical,
    /// The urgency of a node, indexed by its [needs](crate::Chains::needs).
    urgencies: Vec<f64>,
    candidates: Vec<Candidate>,
    /// The largest and the second largest urgency of a ready kind.
    max: f64,
    second_max: f64,
    /// By kind: the urgency of its nodes that a candidate's batch releases. Zeros between
    /// candidates.
    released: Vec<f64>,
    /// By kind: the sum of the urgencies of its ready nodes.
    ready: Vec<f64>,
    /// The rule's weights as a matrix of kinds; empty if all weights are 1.
    weights: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    kind: Kind,
    urgency: f64,
    /// The factor by which the candidate's score is multiplied.
    factor: f64,
}

/// The maximum number of ready nodes of a kind that are visited.
const MAX_SAMPLE: usize = 256;

/// The maximum number of kinds that are compared.
const MAX_CANDIDATES: usize = 64;

impl LookAhead {
    /// Creates the policy with this rule.
    #[must_use]
    pub fn new(rule: PairRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Collects the kinds that may run, and the urgencies of the ready kinds.
    fn gather(&mut self, frontier: &Frontier) {
        let Self { critical, candidates, rule, max, second_max, ready, .. } = self;
        candidates.clear();
        (*max, *second_max) = (0.0, 0.0);
        ready.fill(0.0);
        let mut any_lowers = false;
        for kind in frontier.ready_kinds() {
            let (lowers, urgency) = (critical.lowers(kind), critical.urgency(kind));
            ready[kind.index()] = urgency;
            *second_max = second_max.max(max.min(urgency));
            *max = max.max(urgency);
            let factor = match rule.lowering {
                Some(factor) if lowers => factor,
                None if any_lowers && !lowers => continue,
                None if lowers && !any_lowers => {
                    candidates.clear();
                    1.0
                }
                _ => 1.0,
            };
            any_lowers |= lowers;
            candidates.push(Candidate { kind, urgency, factor });
        }
    }

    /// The candidate with the largest score.
    fn best(&mut self, frontier: &Frontier) -> Kind {
        // The most urgent kind first: then most of the others need no visit.
        let urgent = |a: &Candidate, b: &Candidate| {
            b.urgency.total_cmp(&a.urgency).then(a.kind.cmp(&b.kind))
        };
        self.candidates.sort_unstable_by(urgent);
        self.candidates.truncate(MAX_CANDIDATES);
        let (mut best, mut largest) = (self.candidates[0].kind, self.min_score());
        if self.candidates[1..].iter().all(|candidate| largest >= self.optimistic_score(candidate))
        {
            return best;
        }
        for index in 0..self.candidates.len() {
            if index > 0 && largest >= self.optimistic_score(&self.candidates[index]) {
                continue;
            }
            let Candidate { kind, urgency, factor } = self.candidates[index];
            let score = factor * (urgency + self.second(frontier, kind));
            if score > largest {
                (best, largest) = (kind, score);
            }
        }
        best
    }

    /// The score of the most urgent candidate if it releases nothing.
    fn min_score(&self) -> f64 {
        let Candidate { urgency, factor, .. } = self.candidates[0];
        let other = if urgency == self.max { self.second_max } else { self.max };
        factor * (urgency + self.rule.second * other)
    }

    /// The score of a candidate if it releases as much as its own urgency.
    fn optimistic_score(&self, candidate: &Candidate) -> f64 {
        candidate.factor * (2.0 * candidate.urgency + self.rule.second * self.max)
    }

    /// The value of the best batch after a batch of this kind.
    fn second(&mut self, frontier: &Frontier, kind: Kind) -> f64 {
        let step = frontier.ready(kind).len().div_ceil(MAX_SAMPLE).max(1);
        self.release(frontier, kind, step);
        let own = std::mem::take(&mut self.ready[kind.index()]);
        let mut second = 0.0;
        let mut compare = |released: &mut f64, ready: f64, weight: f64| {
            let released = std::mem::take(released) * step as f64;
            let value = self.rule.second * ready + released * weight;
            if value > second {
                second = value;
            }
        };
        let kinds = self.released.iter_mut().zip(self.ready.iter().copied());
        if self.weights.is_empty() {
            kinds.for_each(|(released, ready)| compare(released, ready, 1.0));
        } else {
            let weights = &self.weights[kind.index() * self.ready.len()..];
            let kinds = kinds.zip(weights);
            kinds.for_each(|((released, ready), &weight)| compare(released, ready, weight));
        }
        self.ready[kind.index()] = own;
        second
    }

    /// Sums the urgencies of the nodes that a batch of this kind releases. Visits every `step`-th
    /// node of the batch.
    fn release(&mut self, frontier: &Frontier, kind: Kind, step: usize) {
        // Slices, because the compiler reloads the pointer of a `Vec` after each write that might
        // alias it.
        let (urgencies, released) = (self.urgencies.as_slice(), self.released.as_mut_slice());
        let chains = self.critical.chains();
        let ready = frontier.ready(kind).iter().step_by(step);
        // Check for weights and long chains once, not for each user.
        match chains.narrow().filter(|_| !frontier.has_weights()) {
            Some(narrow) => {
                sum_released(frontier, ready, kind, released, |user| urgencies[narrow.needs(user)])
            }
            None => sum_released(frontier, ready, kind, released, |user| {
                urgencies[chains.needs(user) as usize] * f64::from(frontier.weight(user))
            }),
        }
    }

    /// Writes the rule's weights as a matrix.
    fn fill_weights(&mut self, kinds: usize) {
        self.weights.clear();
        if !self.rule.weights.is_empty() && kinds <= PairRule::MAX_KINDS {
            self.weights.resize(kinds * kinds, 1.0);
            for &(first, second, weight) in &self.rule.weights {
                if first.index().max(second.index()) < kinds {
                    self.weights[first.index() * kinds + second.index()] = weight;
                }
            }
        }
    }
}

/// Sums the urgencies of the users that ready nodes of a kind release, by the kind of the user.
#[inline]
fn sum_released<'a>(
    frontier: &Frontier,
    ready: impl Iterator<Item = &'a NodeId>,
    kind: Kind,
    released: &mut [f64],
    urgency: impl Fn(NodeId) -> f64,
) {
    // Sum in a register while the kind is the same: a sum in memory would make each node wait for
    // the node before it.
    let (mut last, mut sum) = (kind, 0.0);
    frontier.for_each_released(ready, |user, kind| {
        if kind != last {
            released[last.index()] += sum;
            (last, sum) = (kind, 0.0);
        }
        sum += urgency(user);
    });
    released[last.index()] += sum;
}

impl Policy for LookAhead {
    fn start(&mut self, frontier: &Frontier) {
        self.critical.start(frontier);
        if self.released.len() != frontier.kinds() {
            self.released.resize(frontier.kinds(), 0.0);
            self.ready.resize(frontier.kinds(), 0.0);
            self.fill_weights(frontier.kinds());
        }
        // The needs of a node are at most the bound of the whole graph.
        for needs in self.urgencies.len()..=self.critical.chains().bound() {
            self.urgencies.push(self.rule.urgency(NodeId::new(needs).0));
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        let urgencies = &self.urgencies;
        self.critical.update(frontier, |chains, node| urgencies[chains.needs(node) as usize]);
        self.gather(frontier);
        match self.candidates.as_slice() {
            [only] => only.kind,
            _ => self.best(frontier),
        }
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
