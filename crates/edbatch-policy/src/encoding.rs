//! From a frontier to a state of the FSM.
//!
//! *Source*: `E_base`, `E_max` and `E_sort`, §2.3 of the paper.

use std::fmt;
use std::str::FromStr;

use edbatch_graph::Kind;

use crate::Frontier;

/// Turns the frontier into a state: a short word of [`Symbol`]s. Frontiers with the same word are
/// the same to the FSM.
pub trait Encoding {
    /// Turns to another graph and keeps the memory.
    fn start(&mut self, frontier: &Frontier);

    /// Appends the state's symbols to `state`.
    fn encode(&mut self, frontier: &Frontier, state: &mut Vec<Symbol>);

    /// How many features it uses: [`Symbol::Feature`]s are `0..features()`.
    fn features(&self) -> u16;

    /// Puts a state whose kinds have been renumbered into the order in which
    /// [`encode`](Self::encode) would have written it.
    fn canonical(&self, state: &mut [Symbol]);
}

/// A letter of a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Symbol {
    /// Anything but a kind; what it means is the encoding's affair.
    Feature(u16),
    /// A kind.
    Kind(Kind),
}

/// The encodings that have a name, as on the command line and in files.
#[derive(Clone, Debug)]
pub enum Named {
    /// The set of ready kinds.
    Base,
    /// The set of ready kinds, and the one with the most ready nodes.
    Max,
    /// The ready kinds, those with the most ready nodes first: the best of the paper's.
    Sort,
}

impl Encoding for Named {
    fn start(&mut self, _: &Frontier) {}

    fn encode(&mut self, frontier: &Frontier, state: &mut Vec<Symbol>) {
        let start = state.len();
        state.extend(frontier.ready_kinds().map(Symbol::Kind));
        match self {
            Self::Base => {}
            Self::Max => {
                let most = frontier
                    .ready_kinds()
                    .max_by_key(|&kind| (frontier.ready(kind).len(), std::cmp::Reverse(kind)));
                state.extend(most.map(Symbol::Kind));
            }
            Self::Sort => state[start..].sort_by_key(|&symbol| match symbol {
                Symbol::Kind(kind) => std::cmp::Reverse(frontier.ready(kind).len()),
                Symbol::Feature(_) => unreachable!("this state holds kinds alone"),
            }),
        }
    }

    fn features(&self) -> u16 {
        0
    }

    fn canonical(&self, state: &mut [Symbol]) {
        match self {
            Self::Base => state.sort(),
            Self::Max => {
                if let Some((_most, set)) = state.split_last_mut() {
                    set.sort();
                }
            }
            Self::Sort => {}
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Max => "max",
            Self::Sort => "sort",
        })
    }
}

impl FromStr for Named {
    type Err = UnknownEncoding;

    fn from_str(word: &str) -> Result<Self, UnknownEncoding> {
        match word {
            "base" => Ok(Self::Base),
            "max" => Ok(Self::Max),
            "sort" => Ok(Self::Sort),
            _ => Err(UnknownEncoding(word.chars().take(40).collect())),
        }
    }
}

/// A word that names no encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownEncoding(pub String);

impl fmt::Display for UnknownEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown encoding `{}`: expected base, max or sort", self.0)
    }
}

impl std::error::Error for UnknownEncoding {}
