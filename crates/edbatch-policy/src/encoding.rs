//! From a frontier to a state of the FSM.
//!
//! *Source*: `E_base`, `E_max` and `E_sort`, §2.3 of the paper; phase information is what its
//! appendix A.4 proposes for the case that these three cannot solve; the rest is ours.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use edbatch_graph::Kind;

use crate::critical::Claim;
use crate::{Critical, Frontier, Policy};

/// Turns the frontier into a state: a short word of [`Symbol`]s. Frontiers with the same word are
/// the same to the FSM.
pub trait Encoding {
    /// Turns to another graph and keeps the memory.
    fn start(&mut self, frontier: &Frontier);

    /// Appends the state's symbols to `state`. The kinds among them are those that an FSM may learn
    /// to run there: at least one, and only ready ones.
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
pub enum NamedEncoding {
    /// `base`: the set of ready kinds.
    Base,
    /// `max`: the set of ready kinds, and the one with the most ready nodes.
    Max,
    /// `sort`: the ready kinds, those with the most ready nodes first: the best of the paper's.
    Sort,
    /// `phase`: how many eighths of the nodes have run, and `sort`.
    Phase,
    /// `critical`: what [`Critical`] sees. Just the kind, if one has a ratio of 1; else the ready
    /// kinds that lower the bound, those on which the most hangs first; likewise those that do not,
    /// after a feature; and the kind with the largest ratio. As dear as [`Critical`] and more.
    Critical(Box<CriticalBits>),
}

/// What `critical` keeps from batch to batch.
#[derive(Clone, Debug)]
pub struct CriticalBits {
    critical: Critical,
    claims: Vec<(Claim, Kind)>,
}

impl Default for CriticalBits {
    fn default() -> Self {
        Self { critical: Critical::new(), claims: Vec::new() }
    }
}

/// Into how many parts `phase` divides a run.
const PHASES: usize = 8;

/// Before the kinds that do not lower the bound.
const NOT_LOWERING: Symbol = Symbol::Feature(0);

impl NamedEncoding {
    /// All of them.
    #[must_use]
    pub fn all() -> [Self; 5] {
        let critical = Self::Critical(Box::default());
        [Self::Base, Self::Max, Self::Sort, Self::Phase, critical]
    }
}

impl Encoding for NamedEncoding {
    fn start(&mut self, frontier: &Frontier) {
        if let Self::Critical(bits) = self {
            bits.critical.start(frontier);
        }
    }

    fn encode(&mut self, frontier: &Frontier, state: &mut Vec<Symbol>) {
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
            Self::Critical(bits) => bits.encode(frontier, state),
        }
    }

    fn features(&self) -> u16 {
        match self {
            Self::Base | Self::Max | Self::Sort => 0,
            Self::Phase => PHASES as u16,
            Self::Critical(_) => 6,
        }
    }

    fn canonical(&self, state: &mut [Symbol]) {
        match self {
            Self::Base => state.sort(),
            Self::Max => {
                if let Some((_most, set)) = state.split_last_mut() {
                    set.sort();
                }
            }
            Self::Sort | Self::Phase | Self::Critical(_) => {}
        }
    }
}

fn base(frontier: &Frontier, state: &mut Vec<Symbol>) {
    state.extend(frontier.ready_kinds().map(Symbol::Kind));
}

/// An insertion sort: ready kinds are few. What is moved is a kind, not a symbol, which is written
/// in two parts: reading it as a whole at once is a store-forwarding stall.
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

impl CriticalBits {
    fn encode(&mut self, frontier: &Frontier, state: &mut Vec<Symbol>) {
        self.critical.claims(frontier, &mut self.claims);
        let (Claim { rule, .. }, strongest) = self.claims[0];
        if rule == 0 {
            state.push(Symbol::Kind(strongest));
            return;
        }
        let mut largest = strongest;
        let mut lowering = true;
        for &(claim, kind) in &self.claims {
            if lowering && claim.rule == 2 {
                state.push(NOT_LOWERING);
                lowering = false;
            }
            state.push(Symbol::Kind(kind));
            if self.critical.has_larger_ratio(frontier, kind, largest) {
                largest = kind;
            }
        }
        state.push(Symbol::Kind(largest));
        let tallest = self.claims.iter().min_by_key(|(claim, _)| claim.highest);
        state.extend(tallest.map(|&(_, kind)| Symbol::Kind(kind)));
        if let [(first, _), (second, _), ..] = self.claims[..]
            && first.rule == second.rule
        {
            let close = 4.0 * second.urgency.0.0 / first.urgency.0.0.max(1.0);
            state.push(Symbol::Feature(1 + close as u16));
        }
    }
}

impl fmt::Display for NamedEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Max => "max",
            Self::Sort => "sort",
            Self::Phase => "phase",
            Self::Critical(_) => "critical",
        })
    }
}

impl FromStr for NamedEncoding {
    type Err = UnknownEncoding;

    fn from_str(word: &str) -> Result<Self, UnknownEncoding> {
        let unknown = || UnknownEncoding(word.chars().take(40).collect());
        let named = |encoding: &Self| encoding.to_string() == word;
        Self::all().into_iter().find(named).ok_or_else(unknown)
    }
}

/// A word that names no encoding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownEncoding(pub String);

impl fmt::Display for UnknownEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NamedEncoding::all().map(|encoding| encoding.to_string());
        write!(f, "unknown encoding `{}`: expected one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownEncoding {}
