//! `Critical` that looks one batch further: which kind makes the best first batch of two?
//!
//! *Source*: our own.
//!
//! [`Critical`] decides among kinds by the urgency of *one* batch. Of two kinds A and B the sum of
//! urgencies is the same in either order; what differs is how much the first batch adds to the
//! second. So compare what the batch of A releases of B with what the batch of B releases of A:
//! **first run the kind whose batch fills the other's**. It is look-ahead of depth two in weighted
//! majority merge (an approximation of shortest common supersequences), without running anything:
//!
//! ```text
//! U(t)           Σ urgency of the ready nodes of kind t
//! released(t, s) Σ urgency of the users of kind s of ready nodes of t that wait for one argument
//! score(t)       U(t) + max(released(t, t), max over s ≠ t of U(s) + released(t, s))
//! ```
//!
//! * [`PairRule::pair`]: a kind that alone lowers the bound runs, as with [`Critical`]. Else the
//!   largest score among those that lower it, or, if none does, among all that are ready.
//! * [`PairRule::soft`]: the largest score among all kinds that are ready, where a kind that lowers
//!   the bound scores 1.2 times as much.
//! * A rule that was learned ([`learn_rule`](fn@crate::learn_rule)): as soft, with constants of its
//!   own, and with a weight for what each kind releases of each other.
//!
//! A tie goes to the more urgent kind, then to the smaller one. A user that reads a node twice
//! waits for two arguments, and is not counted.
//!
//! *Cost*: as [`Critical`], and a look at the users of the ready nodes of contested kinds. Of a
//! kind with many ready nodes every n-th is looked at, 256 at most; of many kinds, the 64 most
//! urgent. The most urgent one is looked at first, unless it wins without releasing anything;
//! another one only if it could win by releasing as much as it is worth itself. A look is O(users +
//! kinds).

use edbatch_graph::{Kind, NodeId};

use crate::{AnyPolicy, Critical, Frontier, PairRule, Policy};

/// Runs the kind that begins the best two batches. Reusable memory.
#[derive(Clone, Debug, Default)]
pub struct LookAhead {
    rule: PairRule,
    critical: Critical,
    /// The urgency of a node by its [needs](crate::Chains::needs).
    urgencies: Vec<f64>,
    candidates: Vec<Candidate>,
    /// The largest urgency of a ready kind, and the next.
    most: f64,
    next: f64,
    /// By kind, what the batch of a candidate releases; zeros in between.
    released: Vec<f64>,
    /// By kind, the urgency of its ready nodes; of a kind without any, zero.
    ready: Vec<f64>,
    /// The rule's weights by kind and kind, if there are any, and few kinds.
    weights: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    kind: Kind,
    urgency: f64,
    /// By what its score is multiplied.
    factor: f64,
}

/// So many ready nodes of a kind are looked at, at most.
const SAMPLE: usize = 256;

/// So many kinds are looked at, at most.
const CANDIDATES: usize = 64;

impl LookAhead {
    /// A policy without memory yet, by this rule.
    #[must_use]
    pub fn new(rule: PairRule) -> Self {
        Self { rule, ..Self::default() }
    }

    /// By what it decides.
    #[must_use]
    pub fn rule(&self) -> &PairRule {
        &self.rule
    }

    /// Gathers the kinds that may run, and the most urgent of those that are ready.
    fn gather(&mut self, frontier: &Frontier) {
        let Self { critical, candidates, rule, most, next, ready, .. } = self;
        candidates.clear();
        (*most, *next) = (0.0, 0.0);
        ready.fill(0.0);
        let mut any_lowers = false;
        for kind in frontier.ready_kinds() {
            let (lowers, urgency) = (critical.lowers(kind), critical.urgency(kind));
            ready[kind.index()] = urgency;
            *next = next.max(most.min(urgency));
            *most = most.max(urgency);
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
        // The most urgent first: the others mostly need no look.
        let urgent = |a: &Candidate, b: &Candidate| {
            b.urgency.total_cmp(&a.urgency).then(a.kind.cmp(&b.kind))
        };
        self.candidates.sort_unstable_by(urgent);
        self.candidates.truncate(CANDIDATES);
        let (mut best, mut largest) = (self.candidates[0].kind, self.least());
        if self.candidates[1..].iter().all(|candidate| largest >= self.hoped(candidate)) {
            return best;
        }
        for index in 0..self.candidates.len() {
            if index > 0 && largest >= self.hoped(&self.candidates[index]) {
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

    /// What the most urgent candidate scores at least: if it releases nothing.
    fn least(&self) -> f64 {
        let Candidate { urgency, factor, .. } = self.candidates[0];
        let other = if urgency == self.most { self.next } else { self.most };
        factor * (urgency + self.rule.second * other)
    }

    /// What a candidate scores if it releases as much as it is worth.
    fn hoped(&self, candidate: &Candidate) -> f64 {
        candidate.factor * (2.0 * candidate.urgency + self.rule.second * self.most)
    }

    /// What the best batch after one of this kind is worth.
    fn second(&mut self, frontier: &Frontier, kind: Kind) -> f64 {
        let step = frontier.ready(kind).len().div_ceil(SAMPLE).max(1);
        self.release(frontier, kind, step);
        let own = std::mem::take(&mut self.ready[kind.index()]);
        let mut second = 0.0;
        let mut compare = |released: &mut f64, ready: f64, weight: f64| {
            let released = std::mem::take(released) * step as f64;
            let worth = self.rule.second * ready + released * weight;
            if worth > second {
                second = worth;
            }
        };
        let of_kinds = self.released.iter_mut().zip(self.ready.iter().copied());
        if self.weights.is_empty() {
            of_kinds.for_each(|(released, ready)| compare(released, ready, 1.0));
        } else {
            let weights = &self.weights[kind.index() * self.ready.len()..];
            let of_kinds = of_kinds.zip(weights);
            of_kinds.for_each(|((released, ready), &weight)| compare(released, ready, weight));
        }
        self.ready[kind.index()] = own;
        second
    }

    /// Adds up what the batch of a kind releases, if every `step`-th of its nodes is looked at.
    fn release(&mut self, frontier: &Frontier, kind: Kind, step: usize) {
        // As a slice: a write might alias a Vec's pointer, which is then reloaded each time.
        let (urgencies, released) = (self.urgencies.as_slice(), self.released.as_mut_slice());
        let chains = self.critical.chains();
        let ready = frontier.ready(kind).iter().step_by(step);
        // Whether nodes have weights, and chains are long, is asked once and not for each user.
        match chains.narrow().filter(|_| !frontier.has_weights()) {
            Some(narrow) => {
                add_up(frontier, ready, kind, released, |user| urgencies[narrow.needs(user)])
            }
            None => add_up(frontier, ready, kind, released, |user| {
                urgencies[chains.needs(user) as usize] * f64::from(frontier.weight(user))
            }),
        }
    }

    /// Spreads out the rule's weights for so many kinds.
    fn spread_weights(&mut self, kinds: usize) {
        self.weights.clear();
        if !self.rule.weights.is_empty() && kinds <= PairRule::MOST_KINDS {
            self.weights.resize(kinds * kinds, 1.0);
            for &(first, second, weight) in &self.rule.weights {
                if first.index().max(second.index()) < kinds {
                    self.weights[first.index() * kinds + second.index()] = weight;
                }
            }
        }
    }
}

/// Adds up, kind by kind, the urgencies of the users that ready nodes of a kind release.
#[inline]
fn add_up<'a>(
    frontier: &Frontier,
    ready: impl Iterator<Item = &'a NodeId>,
    kind: Kind,
    released: &mut [f64],
    urgency: impl Fn(NodeId) -> f64,
) {
    // In a register while the kind stays the same: a sum in memory would make each node wait for
    // the one before.
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
            self.spread_weights(frontier.kinds());
        }
        // What hangs on a node needs no more batches than all of the graph.
        for needs in self.urgencies.len()..=self.critical.chains().bound() {
            self.urgencies.push(self.rule.urgency(NodeId::new(needs).0));
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        let urgencies = &self.urgencies;
        self.critical.update_by(frontier, |chains, node| urgencies[chains.needs(node) as usize]);
        self.gather(frontier);
        match self.candidates.as_slice() {
            [only] => only.kind,
            _ => self.best(frontier),
        }
    }

    fn another(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
