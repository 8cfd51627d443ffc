//! Learned policies as files: versioned JSON in which kinds have names instead of numbers.
//!
//! Version 1 holds the table of an [`Fsm`]. A state is the word that its encoding writes: names of
//! kinds, and numbers for features.
//!
//! ```json
//! {
//!   "format": "edbatch-policy",
//!   "version": 1,
//!   "kinds": ["inner", "output"],
//!   "encoding": "base",
//!   "trained": {"on": "sst/train", "mini_batches": 4, "episodes": 50, "batches": 90, "bound": 90},
//!   "states": [{"state": ["inner"], "run": "inner"}, {"state": ["inner", "output"], "run":
//!   "inner"}]
//! }
//! ```
//!
//! Version 2 holds the constants of a [`PairRule`]. A state is the kind of a batch and the kind of
//! the batch after it; its weight multiplies the urgency of the nodes that the first batch releases
//! for the second.
//!
//! ```json
//! {
//!   "format": "edbatch-policy",
//!   "version": 2,
//!   "kinds": ["char", "word"],
//!   "encoding": "pairs",
//!   "trained": {"on": "lattices", "mini_batches": 7, "episodes": 3, "batches": 8, "bound": 7,
//!   "unlearned": {"critical": 10, "critical:pair": 9, "critical:soft": 9}},
//!   "rule": {"power": 9, "lowering": 1.23, "second": 0.87},
//!   "states": [
//!     {"state": ["char", "word"], "weight": 1.4},
//!     {"state": ["word", "char"], "weight": 1.1}
//!   ]
//! }
//! ```
//!
//! If learning did not beat a policy that needs no learning, version 2 names that policy as its
//! `encoding`, such as `critical:soft`, and has no `rule` and no `states`.
//!
//! The same policy always gives the same bytes. Reading an untrusted file never panics and never
//! allocates much more than its size; it returns an error or a usable policy.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use edbatch_graph::Kind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    AnyPolicy, Encoding, Fsm, FsmTable, LookAhead, Outcome, PairRule, PolicyChoice, RuleOutcome,
    Symbol, UnknownEncoding,
};

const FORMAT: &str = "edbatch-policy";
const TABLE: u64 = 1;
const RULE: u64 = 2;
/// The value of the field `encoding` for learned rules, in version 2.
const PAIRS: &str = "pairs";

const MAX_KINDS: usize = 1 << 16;
/// The largest transition table, in entries, that a file may ask for.
const MAX_ENTRIES: usize = 1 << 26;
/// The largest `power` of a rule, so that sums of urgencies stay finite.
const MAX_POWER: f64 = 24.0;
/// The largest value of any other constant of a rule, for the same reason.
const MAX_CONSTANT: f64 = 1e6;

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
            LearnedContent::Unlearned(policy) => {
                policy.open_where_known(kinds).expect("the policy is not a file")
            }
        }
    }

    /// The text of the file; it ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let name = |kind: Kind| self.kinds[kind.index()].clone();
        match &self.content {
            LearnedContent::Table(encoding, table) => {
                let letter = |symbol: &Symbol| match *symbol {
                    Symbol::Kind(kind) => Letter::Kind(name(kind)),
                    Symbol::Feature(feature) => Letter::Feature(feature),
                };
                let states = table.iter().map(|(word, kind)| TableState {
                    state: word.iter().map(letter).collect(),
                    run: name(*kind),
                });
                self.write(TABLE, encoding.to_string(), None, states.collect())
            }
            LearnedContent::Rule(PairRule { power, lowering, second, weights }) => {
                let constants = Constants { power: *power, lowering: *lowering, second: *second };
                let states = weights.iter().map(|&(first, second, weight)| RuleState {
                    state: [name(first), name(second)],
                    weight,
                });
                self.write(RULE, PAIRS.into(), Some(constants), states.collect())
            }
            LearnedContent::Unlearned(policy) => {
                self.write::<RuleState>(RULE, policy.to_string(), None, Vec::new())
            }
        }
    }

    fn write<S: Serialize>(
        &self,
        version: u64,
        encoding: String,
        rule: Option<Constants>,
        states: Vec<S>,
    ) -> String {
        let (kinds, trained) = (self.kinds.clone(), self.trained.clone());
        let file = File { format: FORMAT.into(), version, kinds, encoding, trained, rule, states };
        let mut text = serde_json::to_string_pretty(&file).expect("plain data becomes JSON");
        text.push('\n');
        text
    }

    /// Reads the text of a file of either version, which may begin with a byte order mark.
    ///
    /// # Errors
    /// If the text is not a learned policy, has another version, or contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let header: Header = serde_json::from_str(text).map_err(FileError::json)?;
        if header.format.as_deref() != Some(FORMAT) {
            return Err(FileError::OtherFormat);
        }
        match header.version {
            Some(TABLE) => read_table(&File::parse(text)?),
            Some(RULE) => read_rule(&File::parse(text)?),
            got => Err(FileError::OtherVersion { got }),
        }
    }
}

fn owned(kinds: &[impl AsRef<str>]) -> Vec<String> {
    kinds.iter().map(|name| name.as_ref().into()).collect()
}

fn read_table(file: &File<TableState>) -> Result<Learned, FileError> {
    let encoding: Encoding = file
        .encoding
        .parse()
        .map_err(|error: UnknownEncoding| FileError::Encoding(error.to_string()))?;
    let kinds = file.numbered_kinds()?;
    let symbols: usize = file.states.iter().map(|state| state.state.len()).sum();
    let row = usize::from(encoding.features()) + kinds.len();
    if (symbols + 1).saturating_mul(row) > MAX_ENTRIES {
        return Err(FileError::TooLarge);
    }
    let mut table = FsmTable::new();
    for (index, TableState { state, run }) in file.states.iter().enumerate() {
        let symbol = |letter: &Letter| match letter {
            Letter::Kind(name) => find(&kinds, name, index).map(Symbol::Kind),
            &Letter::Feature(feature) if feature < encoding.features() => {
                Ok(Symbol::Feature(feature))
            }
            &Letter::Feature(feature) => Err(FileError::UnknownFeature { state: index, feature }),
        };
        let word = state.iter().map(symbol).collect::<Result<_, _>>()?;
        table.push((word, find(&kinds, run, index)?));
    }
    Ok(file.learned(LearnedContent::Table(encoding, table)))
}

fn read_rule(file: &File<RuleState>) -> Result<Learned, FileError> {
    let kinds = file.numbered_kinds()?;
    if file.encoding != PAIRS {
        use PolicyChoice::{Critical, CriticalPair, CriticalSoft};
        return match file.encoding.parse() {
            Ok(policy @ (Critical | CriticalPair | CriticalSoft))
                if file.rule.is_none() && file.states.is_empty() =>
            {
                Ok(file.learned(LearnedContent::Unlearned(policy)))
            }
            _ => {
                let got: String = file.encoding.chars().take(40).collect();
                let message = format!("expected \"encoding\": \"{PAIRS}\", got `{got}`");
                Err(FileError::Encoding(message))
            }
        };
    }
    let missing = || FileError::Json("missing field `rule`".into());
    let &Constants { power, lowering, second } = file.rule.as_ref().ok_or_else(missing)?;
    check("power", f64::from(power), MAX_POWER)?;
    check("lowering", lowering.unwrap_or(1.0), MAX_CONSTANT)?;
    check("second", second, MAX_CONSTANT)?;
    let mut weights = Vec::new();
    for (index, RuleState { state: [first, second], weight }) in file.states.iter().enumerate() {
        check("weight", *weight, MAX_CONSTANT)?;
        weights.push((find(&kinds, first, index)?, find(&kinds, second, index)?, *weight));
    }
    Ok(file.learned(LearnedContent::Rule(PairRule { power, lowering, second, weights })))
}

fn find(kinds: &HashMap<&str, Kind>, name: &str, state: usize) -> Result<Kind, FileError> {
    let unknown = || FileError::UnknownKind { state, name: name.into() };
    kinds.get(name).copied().ok_or_else(unknown)
}

fn check(name: &'static str, value: f64, max: f64) -> Result<(), FileError> {
    if (0.0..=max).contains(&value) {
        return Ok(());
    }
    Err(FileError::Constant { name, value: value.to_string(), max: max.to_string() })
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File<S> {
    format: String,
    version: u64,
    kinds: Vec<String>,
    encoding: String,
    trained: Trained,
    /// Present in version 2 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rule: Option<Constants>,
    states: Vec<S>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Constants {
    power: u32,
    lowering: Option<f64>,
    second: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableState {
    state: Vec<Letter>,
    run: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleState {
    state: [String; 2],
    weight: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Letter {
    Feature(u16),
    Kind(String),
}

impl<S: DeserializeOwned> File<S> {
    fn parse(text: &str) -> Result<Self, FileError> {
        let file: Self = serde_json::from_str(text).map_err(FileError::json)?;
        if file.version == TABLE && file.rule.is_some() {
            return Err(FileError::Json("unknown field `rule` in version 1".into()));
        }
        Ok(file)
    }
}

impl<S> File<S> {
    /// Returns the number of each kind, by its name.
    fn numbered_kinds(&self) -> Result<HashMap<&str, Kind>, FileError> {
        if self.kinds.len() > MAX_KINDS {
            return Err(FileError::TooLarge);
        }
        let mut numbers = HashMap::new();
        for (kind, name) in self.kinds.iter().enumerate() {
            if numbers.insert(name.as_str(), Kind::new(kind)).is_some() {
                return Err(FileError::KindTwice(name.clone()));
            }
        }
        Ok(numbers)
    }

    fn learned(&self, content: LearnedContent) -> Learned {
        Learned { kinds: self.kinds.clone(), trained: self.trained.clone(), content }
    }
}

/// An error in the file of a learned policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text is not JSON, or a field is missing, unknown or of another type.
    #[error("not a learned policy: {0}")]
    Json(String),
    /// The field `format` does not name a learned policy.
    #[error("not a learned policy: expected \"format\": \"{FORMAT}\"")]
    OtherFormat,
    /// The version is missing or not supported.
    #[error(
        "expected \"version\": {TABLE} or {RULE}, got {}",
        got.map_or("none".into(), |got| format!("{got}: learn it again"))
    )]
    OtherVersion {
        /// The version in the file.
        got: Option<u64>,
    },
    /// The encoding is unknown.
    #[error("{0}")]
    Encoding(String),
    /// A kind is listed twice.
    #[error("kind `{0}` is listed twice")]
    KindTwice(String),
    /// A state mentions a kind that the file does not list.
    #[error("state {state}: `{name}` is not among the kinds")]
    UnknownKind {
        /// Index of the state.
        state: usize,
        /// The kind.
        name: String,
    },
    /// A state mentions a feature that its encoding does not have.
    #[error("state {state}: the encoding has no feature {feature}")]
    UnknownFeature {
        /// Index of the state.
        state: usize,
        /// The feature.
        feature: u16,
    },
    /// A constant of a rule is out of range.
    #[error("expected \"{name}\" from 0 to {max}, got {value}")]
    Constant {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The largest valid value; the smallest is 0.
        max: String,
    },
    /// The table would take too much memory.
    #[error("expected a table of at most {MAX_ENTRIES} entries")]
    TooLarge,
}

impl FileError {
    fn json(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

/// A policy that was learned for other kinds than the graph's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the policy was learned for other kinds{}{}",
    listed("it does not know", unknown),
    listed("the graph lacks", missing)
)]
pub struct OtherKinds {
    /// Kinds that the policy was learned for and the graph does not have.
    pub missing: Vec<String>,
    /// Kinds of the graph that the policy was not learned for.
    pub unknown: Vec<String>,
}

fn listed(what: &str, names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; {what} `{}`", names.join("`, `")) }
}
