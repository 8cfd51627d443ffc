//! The table of Q-learning: the value of each choice in each state.

use edbatch_graph::Kind;

use crate::memory::is_available;
use crate::policies::States;
use crate::{FsmTable, LearningConfig, Symbol};

/// `Q`: the value of each choice in each state.
pub(super) struct Values {
    states: States,
    kinds: usize,
    /// The value of kind `k` in state `s` is `values[s * kinds + k]`. It is -∞ if `k` is not a
    /// choice in `s`.
    values: Vec<f32>,
    /// For each value, at the same index: true if its choice was made in some episode.
    tried: Vec<bool>,
    /// The word of each state and its number, in the order of first occurrence.
    seen: Vec<(Vec<Symbol>, usize)>,
    /// The number of rows for which memory was available.
    reserved: usize,
}

impl Values {
    pub(super) fn new(features: u16, kinds: usize) -> Self {
        Self {
            states: States::new(features, kinds),
            kinds,
            values: Vec::new(),
            tried: Vec::new(),
            seen: Vec::new(),
            reserved: 0,
        }
    }

    /// Returns the number of the state with this word, or `None` if memory is exhausted. The
    /// choices in a new state have value 0.
    pub(super) fn intern(&mut self, word: &[Symbol]) -> Option<usize> {
        let rows = self.states.rows() + word.len();
        if rows > self.reserved {
            // Memory for twice as many rows, for their transition table, and for copies of growing
            // lists.
            if !is_available(rows.saturating_mul(6 * (128 + 16 * self.kinds))) {
                return None;
            }
            self.reserved = 2 * rows;
        }
        let state = self.states.intern(word);
        self.values.resize(self.states.rows() * self.kinds, f32::NEG_INFINITY);
        self.tried.resize(self.values.len(), false);
        if self.best(state).is_none() {
            self.seen.push((word.to_vec(), state));
            for kind in choices(word) {
                self.values[state * self.kinds + kind.index()] = 0.0;
            }
        }
        Some(state)
    }

    fn row(&self, state: usize) -> &[f32] {
        &self.values[state * self.kinds..][..self.kinds]
    }

    /// Returns the kind with the largest value in a state.
    pub(super) fn best(&self, state: usize) -> Option<Kind> {
        self.best_of(state, |_| true)
    }

    /// Returns the kind with the largest value in a state, among those that `filter` accepts.
    fn best_of(&self, state: usize, filter: impl Fn(usize) -> bool) -> Option<Kind> {
        let choices = self.row(state).iter().enumerate();
        let choices = choices.filter(|&(kind, &value)| value > f32::NEG_INFINITY && filter(kind));
        let best = choices.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map(|(kind, _)| Kind::new(kind))
    }

    /// Moves the value of each choice of an episode towards its return, from the last to the first.
    pub(super) fn update(&mut self, trace: &[Transition], config: &LearningConfig) {
        let steps = config.steps.max(1);
        let mut sum = 0.0;
        for t in (0..trace.len()).rev() {
            sum += trace[t].reward;
            let mut after = 0.0;
            if let Some(end) = trace.get(t + steps) {
                sum -= end.reward;
                after = self.row(end.state).iter().copied().fold(f32::MIN, f32::max);
            }
            let Transition { state, kind, .. } = trace[t];
            self.tried[state * self.kinds + kind.index()] = true;
            let value = &mut self.values[state * self.kinds + kind.index()];
            *value += config.rate * (sum + after - *value);
        }
    }

    /// Returns the best choice in each state, among the choices that were made. Others still have
    /// the value 0, which is too large: rewards are never positive.
    pub(super) fn table(&self) -> FsmTable {
        let entry = |(word, state): &(Vec<Symbol>, usize)| {
            let tried = |kind| self.tried[state * self.kinds + kind];
            let kind = self.best_of(*state, tried).expect("a choice was made in each state");
            (word.clone(), kind)
        };
        self.seen.iter().map(entry).collect()
    }
}

/// One batch of an episode.
pub(super) struct Transition {
    pub(super) state: usize,
    pub(super) kind: Kind,
    pub(super) reward: f32,
}

/// The choices in a state: the kinds that its word mentions, each of them once.
pub(super) fn choices(word: &[Symbol]) -> impl Iterator<Item = Kind> + '_ {
    let is_first = |&(place, symbol): &(usize, &Symbol)| !word[..place].contains(symbol);
    word.iter().enumerate().filter(is_first).filter_map(|(_, symbol)| match *symbol {
        Symbol::Kind(kind) => Some(kind),
        Symbol::Feature(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::Xoshiro256PlusPlus;

    use super::*;
    use crate::Encoding;
    use crate::learn::Environment;

    /// The encoding `max` repeats a kind. Exploration must not favour it.
    #[test]
    fn repeated_kind_is_one_choice() {
        let word = [3, 5, 7, 5].map(|kind| Symbol::Kind(Kind(kind)));
        let word = [&word[..], &[Symbol::Feature(5)]].concat();
        assert_eq!(choices(&word).collect::<Vec<_>>(), [Kind(3), Kind(5), Kind(7)]);
    }

    /// Computed by hand: a chain of two nodes of kind 1, each of them read by a node of kind 0. All
    /// values are 0, so the smallest kind runs first. The kinds are 1, 0, 1 and 0, in the states
    /// {1}, {0, 1}, {1} and {0}. The second batch has a ratio of 1/2, the others of 1, so with
    /// `alpha` 1/2 the rewards are -1/2, -3/4, -1/2 and -1/2.
    #[test]
    fn q_of_an_episode_is_equation_1_with_bootstrapped_returns() {
        let dag = edbatch_graph::parse_text("4\n1 0\n1 1 0\n0 1 0\n0 1 1\n").unwrap();
        let check = |steps, expected: [f32; 4]| {
            let config = LearningConfig { alpha: 0.5, steps, rate: 0.5, ..LearningConfig::new(1) };
            let (mut q, mut trace) = (Values::new(0, 2), Vec::new());
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut environment = Environment::new(&dag).unwrap();
            let ran = environment.rollout(
                &mut q,
                Encoding::Sort,
                0.0,
                config.alpha,
                &mut rng,
                &mut trace,
            );
            assert!(ran.is_some());
            q.update(&trace, &config);
            let [one, both, _, zero] = [0, 1, 2, 3].map(|t: usize| q.row(trace[t].state));
            assert_eq!([one[1], both[0], both[1], zero[0]], expected, "{steps} steps");
        };
        check(1, [-0.4375, -0.5625, 0.0, -0.25]);
        check(2, [-1.125, -0.75, 0.0, -0.25]);
        check(10, [-1.375, -0.875, 0.0, -0.25]);
    }
}
