//! States of the FSM: short words that describe the frontier.
//!
//! *Source*: `E_base`, `E_max` and `E_sort`, §2.3 of the paper. Its appendix A.4 proposes phases
//! for a case that these three cannot solve.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use edbatch_graph::Kind;

use crate::Frontier;

/// A symbol of the word that describes a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Symbol {
    /// A number whose meaning depends on the encoding.
    Feature(u16),
    /// A kind.
    Kind(Kind),
}

/// Turns the frontier into a state: a short word of [`Symbol`]s. An FSM runs the same kind on all
/// frontiers that have the same word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// `base`: the set of ready kinds.
    Base,
    /// `max`: the set of ready kinds, and the kind with the most ready nodes.
    Max,
    /// `sort`: the ready kinds, sorted by their number of ready nodes, in descending order. The
    /// best of the paper's encodings.
    Sort,
    /// `phase`: the number of completed eighths of the nodes, and then the symbols of `sort`.
    Phase,
}

/// The number of parts into which `phase` divides a run.
const PHASES: usize = 8;

impl Encoding {
    /// All encodings.
    #[must_use]
    pub fn all() -> [Self; 4] {
        [Self::Base, Self::Max, Self::Sort, Self::Phase]
    }

    /// Appends the word of the frontier's state to `state`. Its kinds are the ready kinds.
    pub fn encode(self, frontier: &Frontier, state: &mut Vec<Symbol>) {
        match self {
            Self::Base => base(frontier, state),
            Self::Max => {
                base(frontier, state);
                let count = |&kind: &Kind| (frontier.ready_count(kind), Reverse(kind));
                state.extend(frontier.ready_kinds().max_by_key(count).map(Symbol::Kind));
            }
            Self::Sort => sort(frontier, state),
            Self::Phase => {
                let phase = frontier.nodes_ran() * PHASES / frontier.weight_of_all().max(1);
                state.push(Symbol::Feature(phase as u16));
                sort(frontier, state);
            }
        }
    }

    /// The number of features: every [`Symbol::Feature`] is in `0..features()`.
    #[must_use]
    pub fn features(self) -> u16 {
        match self {
            Self::Base | Self::Max | Self::Sort => 0,
            Self::Phase => PHASES as u16,
        }
    }

    /// Reorders a state whose kinds have been renumbered: [`encode`](Self::encode) writes sets in
    /// ascending order.
    pub(crate) fn canonical(self, state: &mut [Symbol]) {
        match self {
            Self::Base => state.sort(),
            Self::Max => {
                if let Some((_max, set)) = state.split_last_mut() {
                    set.sort();
                }
            }
            Self::Sort | Self::Phase => {}
        }
    }
}

fn base(frontier: &Frontier, state: &mut Vec<Symbol>) {
    state.extend(frontier.ready_kinds().map(Symbol::Kind));
}

/// Insertion sort, since ready kinds are few. It moves kinds and not symbols: a symbol is written
/// in two parts, and reading it back as a whole would cause a store-forwarding stall.
fn sort(frontier: &Frontier, state: &mut Vec<Symbol>) {
    let start = state.len();
    for kind in frontier.ready_kinds() {
        let (mut place, count) = (state.len(), frontier.ready_count(kind));
        state.push(Symbol::Kind(kind));
        while place > start
            && let Symbol::Kind(before) = state[place - 1]
            && frontier.ready_count(before) < count
        {
            state[place] = Symbol::Kind(before);
            place -= 1;
        }
        state[place] = Symbol::Kind(kind);
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Max => "max",
            Self::Sort => "sort",
            Self::Phase => "phase",
        })
    }
}

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(word: &str) -> Result<Self, UnknownEncoding> {
        let unknown = || UnknownEncoding(word.chars().take(40).collect());
        Self::all().into_iter().find(|encoding| encoding.to_string() == word).ok_or_else(unknown)
    }
}

/// A word that names no encoding.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown encoding `{0}`: expected one of {names}", names = names())]
pub struct UnknownEncoding(pub String);

fn names() -> String {
    Encoding::all().map(|encoding| encoding.to_string()).join(", ")
}
