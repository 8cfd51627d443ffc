//! Learned policies as files: versioned JSON in which kinds have names instead of numbers.
//!
//! The same policy always gives the same bytes. Reading an untrusted file never panics and never
//! allocates much more than its size; it returns an error or a usable policy.

mod error;
mod format;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use edbatch_graph::Kind;
use serde::{Deserialize, Serialize};

use crate::{
    AnyPolicy, Encoding, Fsm, FsmTable, LookAhead, Outcome, PairRule, PolicyChoice, RuleOutcome,
    Symbol,
};
pub use error::{FileError, OtherKinds};

const FORMAT: &str = "edbatch-policy";
const TABLE: u64 = 1;
const RULE: u64 = 2;
/// The largest transition table, in entries, that a file may ask for.
const MAX_ENTRIES: usize = 1 << 26;

/// A learned policy with the names of its kinds, as stored in a file.
#[derive(Clone, PartialEq, Debug)]
pub struct Learned {
    kinds: Vec<String>,
    trained: Trained,
    content: LearnedContent,
}

/// The table or the rule of a [`Learned`]. Kinds are indices into [`Learned::kinds`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum LearnedContent {
    /// The table of an [`Fsm`], and the encoding of its states.
    Table(Encoding, FsmTable),
    /// The constants of a [`LookAhead`].
    Rule(PairRule),
    /// Nothing better was learned than this policy: `critical`, `critical:pair` or `critical:soft`.
    Unlearned(PolicyChoice),
}

/// The data that a policy was trained on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trained {
    /// A description by the caller, such as the name of a data set.
    pub on: String,
    /// The number of mini-batches to learn on, without those held out for selection.
    pub mini_batches: u64,
    /// The number of episodes. Each of them scheduled one mini-batch.
    pub episodes: u64,
    /// The number of the policy's batches on the mini-batches held out, by which it was selected.
    pub batches: u64,
    /// The lower bound on the number of batches on the mini-batches held out.
    pub bound: u64,
    /// For a rule: the number of batches of each policy that needs no learning, on the same
    /// mini-batches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unlearned: BTreeMap<String, u64>,
}

impl Learned {
    /// A table learned by [`learn`](fn@crate::learn) on graphs whose kinds have these names.
    ///
    /// # Panics
    /// If the table mentions a kind that has no name.
    #[must_use]
    pub fn table(
        outcome: &Outcome,
        encoding: Encoding,
        kinds: &[impl AsRef<str>],
        on: &str,
        mini_batches: usize,
    ) -> Self {
        let named = |kind: Kind| kind.index() < kinds.len();
        let all_named = |(word, kind): &(Vec<Symbol>, Kind)| {
            let of_word = |symbol: &Symbol| !matches!(symbol, Symbol::Kind(kind) if !named(*kind));
            named(*kind) && word.iter().all(of_word)
        };
        assert!(outcome.table.iter().all(all_named), "every kind has a name");
        let trained = Trained {
            on: on.into(),
            mini_batches: mini_batches as u64,
            episodes: outcome.episodes as u64,
            batches: outcome.after as u64,
            bound: outcome.bound as u64,
            unlearned: BTreeMap::new(),
        };
        let content = LearnedContent::Table(encoding, outcome.table.clone());
        Self { kinds: owned(kinds), trained, content }
    }

    /// The outcome of [`learn_rule`](fn@crate::learn_rule) on graphs whose kinds have these names:
    /// the learned rule, or the best policy that needs no learning.
    ///
    /// # Panics
    /// If the rule mentions a kind that has no name.
    #[must_use]
    pub fn rule(outcome: &RuleOutcome, kinds: &[impl AsRef<str>], on: &str) -> Self {
        let named =
            |&(first, second, _): &(Kind, Kind, f64)| first.max(second).index() < kinds.len();
        let compared = &outcome.held_out;
        let (content, batches) = match &outcome.rule {
            Some(rule) => {
                assert!(rule.weights.iter().all(named), "every kind has a name");
                (LearnedContent::Rule(rule.clone()), compared.learned)
            }
            None => {
                let (best, batches) = compared.best_unlearned();
                (LearnedContent::Unlearned(best), batches)
            }
        };
        let unlearned = compared.unlearned().map(|(policy, n)| (policy.to_string(), n as u64));
        let trained = Trained {
            on: on.into(),
            mini_batches: outcome.mini_batches as u64,
            episodes: outcome.episodes as u64,
            batches: batches as u64,
            bound: compared.bound as u64,
            unlearned: unlearned.into(),
        };
        Self { kinds: owned(kinds), trained, content }
    }

    /// The names of the kinds that the policy was learned for.
    #[must_use]
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// The data that the policy was trained on.
    #[must_use]
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// The table, the rule, or the policy that learning did not beat.
    #[must_use]
    pub fn content(&self) -> &LearnedContent {
        &self.content
    }

    /// The policy for graphs whose kinds have these names, in any order.
    ///
    /// # Errors
    /// If these are not exactly the kinds that the policy was learned for.
    pub fn open(&self, kinds: &[impl AsRef<str>]) -> Result<AnyPolicy, OtherKinds> {
        let ours: BTreeSet<&str> = self.kinds.iter().map(String::as_str).collect();
        let theirs: BTreeSet<&str> = kinds.iter().map(AsRef::as_ref).collect();
        if ours != theirs {
            let names = |names: Vec<&&str>| names.into_iter().map(ToString::to_string).collect();
            return Err(OtherKinds {
                missing: names(ours.difference(&theirs).collect()),
                unknown: names(theirs.difference(&ours).collect()),
            });
        }
        Ok(self.open_where_known(kinds))
    }

    /// The policy for graphs with any kinds. States of a table that mention an unknown kind are
    /// left to [`Critical`](crate::Critical); pairs of a rule with an unknown kind have weight 1.
    #[must_use]
    pub fn open_where_known(&self, kinds: &[impl AsRef<str>]) -> AnyPolicy {
        let theirs: HashMap<&str, Kind> =
            kinds.iter().enumerate().map(|(kind, name)| (name.as_ref(), Kind::new(kind))).collect();
        let renumber = |kind: Kind| theirs.get(self.kinds[kind.index()].as_str()).copied();
        match &self.content {
            LearnedContent::Table(encoding, table) => {
                let mut fsm = Fsm::new(*encoding, kinds.len());
                for (word, kind) in table {
                    let word = word.iter().map(|&symbol| match symbol {
                        Symbol::Kind(kind) => renumber(kind).map(Symbol::Kind),
                        feature @ Symbol::Feature(_) => Some(feature),
                    });
                    let word: Option<Vec<Symbol>> = word.collect();
                    if let (Some(mut word), Some(kind)) = (word, renumber(*kind)) {
                        encoding.canonical(&mut word);
                        fsm.insert(&word, kind);
                    }
                }
                Box::new(fsm)
            }
            LearnedContent::Rule(rule) => {
                let weights = rule.weights.iter().filter_map(|&(first, second, weight)| {
                    Some((renumber(first)?, renumber(second)?, weight))
                });
                Box::new(LookAhead::new(PairRule { weights: weights.collect(), ..rule.clone() }))
            }
            LearnedContent::Unlearned(policy) => policy.known().expect("the policy is not a file"),
        }
    }
}

fn owned(kinds: &[impl AsRef<str>]) -> Vec<String> {
    kinds.iter().map(|name| name.as_ref().into()).collect()
}
