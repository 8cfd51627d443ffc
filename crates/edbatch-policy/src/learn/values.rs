//! The table of Q-learning: the value of each choice in each state.

use edbatch_graph::Kind;

use crate::policies::States;
use crate::{FsmTable, LearningConfig, Symbol};

/// `Q`: the value of each choice in each state.
pub(super) struct Values {
    states: States,
    kinds: usize,
    /// The value of kind `k` in state `s` is `values[s * kinds + k]`. It is -∞ if `k` is not a
    /// choice in `s`.
    values: Vec<f32>,
    /// The choices that were made, with the same indices.
    tried: Vec<bool>,
    /// The words and the numbers of the states, in the order of their first occurrence.
    seen: Vec<(Vec<Symbol>, usize)>,
}

impl Values {
    pub(super) fn new(features: u16, kinds: usize) -> Self {
        Self {
            states: States::new(features, kinds),
            kinds,
            values: Vec::new(),
            tried: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Returns the number of a state. The choices in a new state have value 0.
    pub(super) fn intern(&mut self, word: &[Symbol]) -> usize {
        let state = self.states.intern(word);
        self.values.resize(self.states.rows() * self.kinds, f32::NEG_INFINITY);
        self.tried.resize(self.values.len(), false);
        if self.best(state).is_none() {
            self.seen.push((word.to_vec(), state));
            for kind in choices(word) {
                self.values[state * self.kinds + kind.index()] = 0.0;
            }
        }
        state
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
        let better = |best: Option<(usize, f32)>, (kind, &value): (usize, &f32)| match best {
            Some((_, max)) if value <= max => best,
            _ if value == f32::NEG_INFINITY || !filter(kind) => best,
            _ => Some((kind, value)),
        };
        let best = self.row(state).iter().enumerate().fold(None, better);
        best.map(|(kind, _)| Kind::new(kind))
    }

    /// Moves the value of each step towards its return, from the last step to the first.
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
    /// the value 0, which is larger than it should be.
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
    use super::*;

    /// The encoding `max` repeats a kind. Exploration must not favour it.
    #[test]
    fn repeated_kind_is_one_choice() {
        let word = [3, 5, 7, 5].map(|kind| Symbol::Kind(Kind(kind)));
        let word = [&word[..], &[Symbol::Feature(5)]].concat();
        assert_eq!(choices(&word).collect::<Vec<_>>(), [Kind(3), Kind(5), Kind(7)]);
    }

    /// Computed by hand: a run of one state with two choices, and twice a state with one choice.
    #[test]
    fn returns_are_bootstrapped_with_the_value_of_the_last_state() {
        let check = |steps, expected: [f32; 2]| {
            let mut values = Values::new(0, 2);
            let both = values.intern(&[Symbol::Kind(Kind(0)), Symbol::Kind(Kind(1))]);
            let single = values.intern(&[Symbol::Kind(Kind(1))]);
            let step = |state, kind, reward| Transition { state, kind, reward };
            let trace = [
                step(both, Kind(0), -0.5),
                step(single, Kind(1), -1.0),
                step(single, Kind(1), -0.25),
            ];
            let config = LearningConfig { steps, rate: 0.5, ..LearningConfig::default() };
            values.update(&trace, &config);
            assert_eq!([values.row(both)[0], values.row(single)[1]], expected, "{steps} steps");
            assert_eq!(values.row(both)[1], 0.0, "a choice that was not made");
        };
        check(1, [-0.5625, -0.625]);
        check(2, [-1.09375, -0.6875]);
        check(10, [-0.875, -0.6875]);
    }
}
