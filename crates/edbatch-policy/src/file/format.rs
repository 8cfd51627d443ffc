//! The JSON of learned policies, in two versions.
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

use std::collections::HashMap;

use edbatch_graph::Kind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{FORMAT, FileError, Learned, LearnedContent, MAX_ENTRIES, RULE, TABLE, Trained};
use crate::{Encoding, FsmTable, PairRule, PolicyChoice, Symbol, UnknownEncoding};

/// The value of the field `encoding` for learned rules, in version 2.
const PAIRS: &str = "pairs";

const MAX_KINDS: usize = 1 << 16;
/// The largest `power` of a rule, so that sums of urgencies stay finite.
const MAX_POWER: f64 = 24.0;
/// The largest value of any other constant of a rule, for the same reason.
const MAX_CONSTANT: f64 = 1e6;

impl Learned {
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
