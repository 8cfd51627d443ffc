//! A learned policy as a file: versioned JSON in which kinds go by their names.
//!
//! ```json
//! {
//!   "format": "edbatch-policy",
//!   "version": 1,
//!   "kinds": ["inner", "output"],
//!   "encoding": "base",
//!   "trained": {"on": "sst/train", "mini_batches": 4, "episodes": 50, "batches": 90, "bound": 90},
//!   "states": [{"state": ["inner"], "run": "inner"}, {"state": ["inner", "output"], "run": "inner"}]
//! }
//! ```
//!
//! A state is the word that its encoding writes: names of kinds, and numbers for features. The
//! same table gives the same bytes. A hostile file gives an error, whatever it holds.

mod error;

use std::collections::{BTreeSet, HashMap};

use edbatch_graph::Kind;
use serde::{Deserialize, Serialize};

pub use error::{FileError, OtherKinds};

use crate::{Encoding, Fsm, FsmTable, NamedEncoding, Outcome, Symbol};

pub(crate) const FORMAT: &str = "edbatch-policy";
const VERSION: u64 = 1;

/// Most entries of a transition table: a file that asks for more is refused.
const MOST_ENTRIES: usize = 1 << 26;

/// A learned policy, independent of any numbering of kinds but its own.
#[derive(Clone, Debug)]
pub struct Learned {
    kinds: Vec<String>,
    encoding: NamedEncoding,
    trained: Trained,
    table: FsmTable,
}

/// What a policy was trained on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trained {
    /// In the caller's words, such as the name of a data set.
    pub on: String,
    /// How many mini-batches, held-out ones not counted.
    pub mini_batches: u64,
    /// How many episodes.
    pub episodes: u64,
    /// Batches on the mini-batches held out.
    pub batches: u64,
    /// Their lower bound.
    pub bound: u64,
}

impl Learned {
    /// A policy learned on graphs whose kinds have these names.
    ///
    /// # Panics
    /// If the outcome mentions a kind that has no name.
    #[must_use]
    pub fn new(
        outcome: &Outcome,
        encoding: NamedEncoding,
        kinds: &[impl AsRef<str>],
        on: &str,
        mini_batches: usize,
    ) -> Self {
        let kinds: Vec<String> = kinds.iter().map(|name| name.as_ref().into()).collect();
        let named = |(word, kind): &(Vec<Symbol>, Kind)| {
            kind.index() < kinds.len()
                && word.iter().all(|symbol| match symbol {
                    Symbol::Kind(kind) => kind.index() < kinds.len(),
                    Symbol::Feature(_) => true,
                })
        };
        assert!(outcome.table.iter().all(named), "every kind has a name");
        Self {
            kinds,
            encoding,
            trained: Trained {
                on: on.into(),
                mini_batches: mini_batches as u64,
                episodes: outcome.episodes as u64,
                batches: outcome.after as u64,
                bound: outcome.bound as u64,
            },
            table: outcome.table.clone(),
        }
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

    /// Number of states.
    #[must_use]
    pub fn states(&self) -> usize {
        self.table.len()
    }

    /// The policy for graphs whose kinds have these names, in any order.
    ///
    /// # Errors
    /// If they are not exactly the kinds for which it was learned: says which are not.
    pub fn fsm(&self, kinds: &[impl AsRef<str>]) -> Result<Fsm, OtherKinds> {
        same_kinds(&self.kinds, kinds)?;
        Ok(self.fsm_where_known(kinds))
    }

    /// The policy for graphs with any kinds: states with kinds for which it was not learned are
    /// unseen states, and fall to [`Critical`](crate::Critical).
    #[must_use]
    pub fn fsm_where_known(&self, kinds: &[impl AsRef<str>]) -> Fsm {
        let theirs: HashMap<&str, Kind> = numbers(kinds);
        let renumber = |kind: Kind| theirs.get(self.kinds[kind.index()].as_str()).copied();
        let mut fsm = Fsm::new(self.encoding.clone(), kinds.len());
        for (word, kind) in &self.table {
            let word = word.iter().map(|&symbol| match symbol {
                Symbol::Kind(kind) => renumber(kind).map(Symbol::Kind),
                feature @ Symbol::Feature(_) => Some(feature),
            });
            let word: Option<Vec<Symbol>> = word.collect();
            if let (Some(mut word), Some(kind)) = (word, renumber(*kind)) {
                self.encoding.canonical(&mut word);
                fsm.insert(&word, kind);
            }
        }
        fsm
    }

    /// The file's text; it ends with a newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        let name = |kind: Kind| self.kinds[kind.index()].clone();
        let letter = |symbol: &Symbol| match *symbol {
            Symbol::Kind(kind) => Letter::Kind(name(kind)),
            Symbol::Feature(feature) => Letter::Feature(feature),
        };
        let states = self.table.iter().map(|(word, kind)| State {
            state: word.iter().map(letter).collect(),
            run: name(*kind),
        });
        let file = File {
            format: FORMAT.into(),
            version: VERSION,
            kinds: self.kinds.clone(),
            encoding: self.encoding.to_string(),
            trained: self.trained.clone(),
            states: states.collect(),
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
        let encoding: NamedEncoding = file
            .encoding
            .parse()
            .map_err(|error: crate::UnknownEncoding| FileError::Encoding(error.to_string()))?;
        if file.kinds.len() > 1 << 16 {
            return Err(FileError::TooLarge);
        }
        let mut numbers = HashMap::new();
        for (kind, name) in file.kinds.iter().enumerate() {
            if numbers.insert(name.as_str(), Kind::new(kind)).is_some() {
                return Err(FileError::KindTwice(name.clone()));
            }
        }
        let letters: usize = file.states.iter().map(|state| state.state.len()).sum();
        let row = usize::from(encoding.features()) + file.kinds.len();
        if (letters + 1).saturating_mul(row) > MOST_ENTRIES {
            return Err(FileError::TooLarge);
        }
        let reader = Reader { numbers, features: encoding.features() };
        let table = file.states.iter().enumerate();
        let table = table.map(|(index, state)| reader.state(index, state));
        let table = table.collect::<Result<_, _>>()?;
        Ok(Self { table, kinds: file.kinds, encoding, trained: file.trained })
    }
}

struct Reader<'a> {
    numbers: HashMap<&'a str, Kind>,
    features: u16,
}

impl Reader<'_> {
    fn state(&self, index: usize, state: &State) -> Result<(Vec<Symbol>, Kind), FileError> {
        let kind = |name: &String| {
            let unknown = || FileError::UnknownKind { state: index, name: name.clone() };
            self.numbers.get(name.as_str()).copied().ok_or_else(unknown)
        };
        let letter = |letter: &Letter| match letter {
            Letter::Kind(name) => kind(name).map(Symbol::Kind),
            &Letter::Feature(feature) if feature < self.features => Ok(Symbol::Feature(feature)),
            &Letter::Feature(feature) => Err(FileError::UnknownFeature { state: index, feature }),
        };
        let word = state.state.iter().map(letter).collect::<Result<_, _>>()?;
        Ok((word, kind(&state.run)?))
    }
}

/// Whether a graph's kinds are exactly those of a file, in any order.
pub(crate) fn same_kinds(ours: &[String], theirs: &[impl AsRef<str>]) -> Result<(), OtherKinds> {
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    let theirs: BTreeSet<&str> = theirs.iter().map(AsRef::as_ref).collect();
    if ours == theirs {
        return Ok(());
    }
    let names = |names: Vec<&&str>| names.into_iter().map(ToString::to_string).collect();
    Err(OtherKinds {
        missing: names(ours.difference(&theirs).collect()),
        unknown: names(theirs.difference(&ours).collect()),
    })
}

/// The kinds by their names.
pub(crate) fn numbers(kinds: &[impl AsRef<str>]) -> HashMap<&str, Kind> {
    let named = |(kind, name): (usize, _)| (AsRef::as_ref(name), Kind::new(kind));
    kinds.iter().enumerate().map(named).collect()
}

/// What every version has.
#[derive(Deserialize)]
pub(crate) struct Header {
    format: Option<String>,
    version: Option<u64>,
}

/// A file as text that ends with a newline.
pub(crate) fn pretty(file: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(file).expect("plain data becomes JSON");
    text.push('\n');
    text
}

impl Header {
    /// The version of a file's text.
    pub(crate) fn read(text: &str) -> Result<u64, FileError> {
        let header: Self = serde_json::from_str(text).map_err(FileError::json)?;
        if header.format.as_deref() != Some(FORMAT) {
            return Err(FileError::OtherFormat);
        }
        header.version.ok_or(FileError::OtherVersion { expected: VERSION, got: None })
    }

    /// Checks that a file's text is of a version.
    pub(crate) fn expect(text: &str, expected: u64) -> Result<(), FileError> {
        match Self::read(text)? {
            version if version == expected => Ok(()),
            version => Err(FileError::OtherVersion { expected, got: Some(version) }),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u64,
    kinds: Vec<String>,
    encoding: String,
    trained: Trained,
    states: Vec<State>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    state: Vec<Letter>,
    run: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Letter {
    Feature(u16),
    Kind(String),
}
