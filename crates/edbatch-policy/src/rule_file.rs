//! A learned rule as a file: versioned JSON in which kinds go by their names.
//!
//! ```json
//! {
//!   "format": "edbatch-policy",
//!   "version": 2,
//!   "kinds": ["char", "word"],
//!   "encoding": "pairs",
//!   "trained": {"on": "lattices", "mini_batches": 7, "episodes": 3, "batches": 9, "bound": 7},
//!   "rule": {"power": 9, "lowering": 1.23, "second": 0.87},
//!   "states": [
//!     {"state": ["char", "word"], "weight": 1.4},
//!     {"state": ["word", "char"], "weight": 1.1}
//!   ]
//! }
//! ```
//!
//! A state is a kind that might run and one that might follow it; its weight says what each node of
//! the second counts that a batch of the first releases. The rest is explained by [`PairRule`]. A
//! hostile file gives an error, whatever it holds.

use std::collections::HashMap;

use edbatch_graph::Kind;
use serde::{Deserialize, Serialize};

use crate::file::{FORMAT, Header, numbers, pretty, same_kinds};
use crate::{AnyPolicy, FileError, Learned, LookAhead, OtherKinds, PairRule, RuleOutcome, Trained};

const VERSION: u64 = 2;
const ENCODING: &str = "pairs";

/// Largest power, and largest number otherwise: sums of urgencies stay finite.
const MOST_POWER: u32 = 24;
const MOST: f64 = 1e6;

/// What a file of a learned policy may hold.
#[derive(Clone, Debug)]
pub enum PolicyFile {
    /// A table of states.
    Table(Learned),
    /// The constants of a rule.
    Rule(LearnedRule),
}

impl PolicyFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// If it is no learned policy, or one of another version, or contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        match Header::read(text)? {
            VERSION => LearnedRule::from_json(text).map(Self::Rule),
            _ => Learned::from_json(text).map(Self::Table),
        }
    }

    /// The policy for graphs whose kinds have these names, in any order.
    ///
    /// # Errors
    /// If they are not exactly the kinds for which it was learned: says which are not.
    pub fn open(&self, kinds: &[impl AsRef<str>]) -> Result<AnyPolicy, OtherKinds> {
        Ok(match self {
            Self::Table(learned) => Box::new(learned.fsm(kinds)?),
            Self::Rule(learned) => Box::new(learned.pair(kinds)?),
        })
    }

    /// The policy for graphs with any kinds: what it does not know is left to
    /// [`Critical`](crate::Critical), or weighs 1.
    #[must_use]
    pub fn open_where_known(&self, kinds: &[impl AsRef<str>]) -> AnyPolicy {
        match self {
            Self::Table(learned) => Box::new(learned.fsm_where_known(kinds)),
            Self::Rule(learned) => Box::new(learned.pair_where_known(kinds)),
        }
    }
}

/// A learned rule, independent of any numbering of kinds but its own.
#[derive(Clone, PartialEq, Debug)]
pub struct LearnedRule {
    kinds: Vec<String>,
    trained: Trained,
    rule: PairRule,
}

impl LearnedRule {
    /// A rule learned on graphs whose kinds have these names.
    ///
    /// # Panics
    /// If the rule mentions a kind that has no name.
    #[must_use]
    pub fn new(outcome: &RuleOutcome, kinds: &[impl AsRef<str>], on: &str) -> Self {
        let kinds: Vec<String> = kinds.iter().map(|name| name.as_ref().into()).collect();
        let weights = &outcome.rule.weights;
        let named = |&(first, second, _): &(Kind, Kind, f64)| {
            first.index().max(second.index()) < kinds.len()
        };
        assert!(weights.iter().all(named), "every kind has a name");
        let trained = Trained {
            on: on.into(),
            mini_batches: outcome.mini_batches as u64,
            episodes: outcome.episodes as u64,
            batches: outcome.after as u64,
            bound: outcome.bound as u64,
        };
        Self { kinds, trained, rule: outcome.rule.clone() }
    }

    /// The names of the kinds for which it was learned.
    #[must_use]
    pub fn kinds(&self) -> &[String] {
        &self.kinds
    }

    /// What it was trained on.
    #[must_use]
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// By what it decides, kinds as numbered by the file.
    #[must_use]
    pub fn rule(&self) -> &PairRule {
        &self.rule
    }

    /// The policy for graphs whose kinds have these names, in any order.
    ///
    /// # Errors
    /// If they are not exactly the kinds for which it was learned: says which are not.
    pub fn pair(&self, kinds: &[impl AsRef<str>]) -> Result<LookAhead, OtherKinds> {
        same_kinds(&self.kinds, kinds)?;
        Ok(self.pair_where_known(kinds))
    }

    /// The policy for graphs with any kinds: pairs with kinds for which it was not learned weigh 1.
    #[must_use]
    pub fn pair_where_known(&self, kinds: &[impl AsRef<str>]) -> LookAhead {
        let theirs: HashMap<&str, Kind> = numbers(kinds);
        let renumber = |kind: Kind| theirs.get(self.kinds[kind.index()].as_str()).copied();
        let weights = self.rule.weights.iter().filter_map(|&(first, second, weight)| {
            Some((renumber(first)?, renumber(second)?, weight))
        });
        LookAhead::new(PairRule { weights: weights.collect(), ..self.rule.clone() })
    }

    /// The file's text; it ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let name = |kind: Kind| self.kinds[kind.index()].clone();
        let state = |&(first, second, weight): &(Kind, Kind, f64)| State {
            state: [name(first), name(second)],
            weight,
        };
        let PairRule { power, lowering, second, ref weights } = self.rule;
        let file = File {
            format: FORMAT.into(),
            version: VERSION,
            kinds: self.kinds.clone(),
            encoding: ENCODING.into(),
            trained: self.trained.clone(),
            rule: Constants { power, lowering, second },
            states: weights.iter().map(state).collect(),
        };
        pretty(&file)
    }

    /// Reads a file's text.
    ///
    /// # Errors
    /// If it is not such a file, or one of another version, or contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        Header::expect(text, VERSION)?;
        let file: File = serde_json::from_str(text).map_err(FileError::json)?;
        if file.encoding != ENCODING {
            return Err(FileError::Encoding(format!(
                "expected \"encoding\": \"{ENCODING}\", got `{}`",
                file.encoding.chars().take(40).collect::<String>()
            )));
        }
        if file.kinds.len() > 1 << 16 {
            return Err(FileError::TooLarge);
        }
        let kinds = numbers(&file.kinds);
        if let Some(twice) = twice(&file.kinds) {
            return Err(FileError::KindTwice(twice.into()));
        }
        let Constants { power, lowering, second } = file.rule;
        constant("power", f64::from(power), f64::from(MOST_POWER))?;
        constant("lowering", lowering.unwrap_or(1.0), MOST)?;
        constant("second", second, MOST)?;
        let mut weights = Vec::new();
        for (index, State { state, weight }) in file.states.iter().enumerate() {
            let kind = |name: &String| {
                let unknown = || FileError::UnknownKind { state: index, name: name.clone() };
                kinds.get(name.as_str()).copied().ok_or_else(unknown)
            };
            constant("weight", *weight, MOST)?;
            weights.push((kind(&state[0])?, kind(&state[1])?, *weight));
        }
        let rule = PairRule { power, lowering, second, weights };
        Ok(Self { kinds: file.kinds, trained: file.trained, rule })
    }
}

fn constant(name: &'static str, value: f64, most: f64) -> Result<(), FileError> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    Err(FileError::Constant { name, value: value.to_string(), most: most.to_string() })
}

/// A name that occurs twice.
fn twice(names: &[String]) -> Option<&str> {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u64,
    kinds: Vec<String>,
    encoding: String,
    trained: Trained,
    rule: Constants,
    states: Vec<State>,
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
struct State {
    state: [String; 2],
    weight: f64,
}
