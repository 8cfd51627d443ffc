//! The table of Q-learning: what each choice in each state is worth.

use edbatch_graph::Kind;

use crate::states::States;
use crate::{FsmTable, LearningConfig, Symbol};

/// `Q`: what a state and a choice there are worth.
pub(crate) struct Values {
    states: States,
    kinds: usize,
    /// Value of kind `k` in state `s`: `values[s * kinds + k]`; -∞ where it cannot be chosen.
    values: Vec<f32>,
    /// Likewise, whether that choice was ever made.
    tried: Vec<bool>,
    /// The states in the order in which they were first met, with their words.
    met: Vec<(Vec<Symbol>, usize)>,
}

impl Values {
    pub(crate) fn new(features: u16, kinds: usize) -> Self {
        Self {
            states: States::new(features, kinds),
            kinds,
            values: Vec::new(),
            tried: Vec::new(),
            met: Vec::new(),
        }
    }

    /// The number of a state. When it is new, its choices are worth 0.
    pub(crate) fn intern(&mut self, word: &[Symbol]) -> usize {
        let state = self.states.intern(word);
        self.values.resize(self.states.rows() * self.kinds, f32::NEG_INFINITY);
        self.tried.resize(self.values.len(), false);
        if self.best(state).is_none() {
            self.met.push((word.to_vec(), state));
            for kind in choices(word) {
                self.values[state * self.kinds + kind.index()] = 0.0;
            }
        }
        state
    }

    fn row(&self, state: usize) -> &[f32] {
        &self.values[state * self.kinds..][..self.kinds]
    }

    /// The kind worth most in a state.
    pub(crate) fn best(&self, state: usize) -> Option<Kind> {
        self.best_of(state, |_| true)
    }

    /// The kind worth most in a state, of those that `counts` admits.
    fn best_of(&self, state: usize, counts: impl Fn(usize) -> bool) -> Option<Kind> {
        let better = |best: Option<(usize, f32)>, (kind, &value): (usize, &f32)| match best {
            Some((_, most)) if value <= most => best,
            _ if value == f32::NEG_INFINITY || !counts(kind) => best,
            _ => Some((kind, value)),
        };
        let best = self.row(state).iter().enumerate().fold(None, better);
        best.map(|(kind, _)| Kind::new(kind))
    }

    /// Moves each step's value towards its return, the last step first.
    pub(crate) fn update(&mut self, trace: &[Transition], config: &LearningConfig) {
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

    /// In each state what is worth most, of what was tried: a choice never made is worth 0, which
    /// is a reason to try it and none to trust it.
    pub(crate) fn table(&self) -> FsmTable {
        let entry = |(word, state): &(Vec<Symbol>, usize)| {
            let tried = |kind| self.tried[state * self.kinds + kind];
            let kind = self.best_of(*state, tried).expect("a state met was left by some kind");
            (word.clone(), kind)
        };
        self.met.iter().map(entry).collect()
    }
}

/// One batch of an episode.
pub(crate) struct Transition {
    pub(crate) state: usize,
    pub(crate) kind: Kind,
    pub(crate) reward: f32,
}

/// What may be run in a state: the kinds that its word mentions, each of them once. (In the paper's encodings these
/// are all ready kinds; an encoding of one's own may mention fewer, but must mention one, and no
/// kind that is not ready.)
pub(crate) fn choices(word: &[Symbol]) -> impl Iterator<Item = Kind> + '_ {
    let is_first = |&(place, symbol): &(usize, &Symbol)| !word[..place].contains(symbol);
    word.iter().enumerate().filter(is_first).filter_map(|(_, symbol)| match *symbol {
        Symbol::Kind(kind) => Some(kind),
        Symbol::Feature(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `max` names a kind twice: exploration must not favour it.
    #[test]
    fn a_kind_that_a_state_names_twice_is_one_choice() {
        let word = [3, 5, 7, 5].map(|kind| Symbol::Kind(Kind(kind)));
        let word = [&word[..], &[Symbol::Feature(5)]].concat();
        assert_eq!(choices(&word).collect::<Vec<_>>(), [Kind(3), Kind(5), Kind(7)]);
    }
}
