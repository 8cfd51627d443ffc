//! Searches for short schedules: a beam search as a policy, and branch and bound.

mod beam;
mod exhaustive;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use edbatch_graph::{Dag, Kind, Schedule};

pub use exhaustive::{exhaustive, exhaustive_within};

use crate::analysis::without_kinds;
use crate::policy::run;
use crate::{AnyPolicy, Chains, Critical, Frontier, Policy, quotient};
use beam::Problem;

/// The maximum number of bytes for the states of a level of the search.
const MAX_BYTES: usize = 1 << 30;

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The kinds of the batches, in order.
    pub kinds: Vec<Kind>,
    /// A lower bound: no schedule has fewer batches.
    pub bound: usize,
    /// True if [`kinds`](Self::kinds) is known to be optimal: it reaches the bound, or the search
    /// dropped no state that could be better.
    pub proved: bool,
    /// The number of states, which are sets of completed nodes, that were visited.
    pub states: u64,
}

/// Plans the whole run by a beam search when it is started, and then returns the plan step by step.
///
/// With a time limit it searches repeatedly, doubling the width from 1 up to the given width, and
/// takes the best schedule found in that time. That schedule is never longer than [`Critical`]'s,
/// and may depend on the speed of the machine. The search also ends when memory is exhausted.
#[derive(Clone, Debug)]
pub struct Beam {
    widths: RangeInclusive<usize>,
    within: Option<Duration>,
    /// The kinds of the whole run, and the number of those already returned.
    plan: Vec<Kind>,
    returned: usize,
    proved: bool,
}

impl Beam {
    /// A search that keeps the best `width` states after each number of batches.
    #[must_use]
    pub fn new(width: usize) -> Self {
        let width = width.max(1);
        Self::of_widths(width..=width)
    }

    /// A search that doubles its width until its schedule is proved optimal, like
    /// [`branch_and_bound`], or until the states of a level take a gibibyte or memory is exhausted.
    #[must_use]
    pub fn exact() -> Self {
        Self::of_widths(1..=usize::MAX)
    }

    fn of_widths(widths: RangeInclusive<usize>) -> Self {
        Self { widths, within: None, plan: Vec::new(), returned: 0, proved: false }
    }

    /// Limits the time of the search for each graph.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { widths: 1..=*self.widths.end(), within: Some(time), ..self }
    }
}

impl Policy for Beam {
    fn start(&mut self, frontier: &Frontier) {
        let started = Instant::now();
        let is_over = |_| self.within.is_some_and(|time| started.elapsed() >= time);
        let found = search(frontier, self.widths.clone(), &mut { is_over });
        (self.plan, self.returned, self.proved) = (found.kinds, 0, found.proved);
    }

    fn next(&mut self, _: &Frontier) -> Kind {
        self.returned += 1;
        self.plan[self.returned - 1]
    }

    fn proved(&self) -> bool {
        self.proved
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}

/// Searches for an optimal schedule by branch and bound: beam searches of doubled width, each for
/// schedules shorter than the best known one. When a search drops no state for lack of width, the
/// best schedule is optimal. `stop` is called many times with the number of states visited so far,
/// and ends the search if it returns true. The search also ends when the states of a level take a
/// gibibyte, or when memory is exhausted.
///
/// ```
/// use edbatch_policy::branch_and_bound;
///
/// // Chains that read 0 1 1, 1 0 1 and 1 1 0: their shortest common supersequence is 1 0 1 1 0.
/// let dag = "9\n0 0\n1 1 0\n1 1 1\n1 0\n0 1 3\n1 1 4\n1 0\n1 1 6\n0 1 7\n";
/// let dag = edbatch_graph::parse_text(dag)?;
/// let found = branch_and_bound(&dag, |states| states > 1_000_000);
/// assert!(found.proved && found.kinds.len() == 5 && found.bound == 3);
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[must_use]
pub fn branch_and_bound(dag: &impl Dag, mut stop: impl FnMut(u64) -> bool) -> Found {
    search(&Frontier::new(dag), 1..=usize::MAX, &mut stop)
}

/// Searches repeatedly, doubling the width from the start of `widths` to its end.
fn search(
    frontier: &Frontier,
    widths: RangeInclusive<usize>,
    stop: &mut dyn FnMut(u64) -> bool,
) -> Found {
    let (mut core, last) = core(&quotient(frontier));
    let mut best = kinds_of(&mut core, &mut Critical::new());
    core.rewind();
    let Some(problem) = Problem::new(core) else {
        let kinds = kinds_of(&mut frontier.clone(), &mut Critical::new());
        let bound = Chains::new(frontier).bound();
        return Found { proved: kinds.len() == bound, kinds, bound, states: 0 };
    };
    let widest = (MAX_BYTES / problem.state_bytes()).max(*widths.start()).min(*widths.end());
    let mut width = *widths.start();
    let mut states = 0;
    let mut proved = best.len() == problem.bound();
    while !proved {
        let pass = problem.pass(width, best.len(), &mut |more| stop(states + more));
        states += pass.states;
        best = pass.found.unwrap_or(best);
        proved = pass.closed || best.len() == problem.bound();
        if width >= widest || pass.is_exhausted || stop(states) {
            break;
        }
        width = width.saturating_mul(2).min(widest);
    }
    let bound = problem.bound() + last.len();
    best.extend(last);
    if !proved {
        // On the quotient `Critical` breaks ties differently, and sometimes needs one more batch.
        let by_critical = kinds_of(&mut frontier.clone(), &mut Critical::new());
        if by_critical.len() < best.len() {
            best = by_critical;
        }
    }
    Found { kinds: best, bound, proved, states }
}

/// The kinds of the batches that a policy makes, in order.
fn kinds_of(frontier: &mut Frontier, policy: &mut impl Policy) -> Vec<Kind> {
    let mut kinds = Vec::new();
    run(frontier, policy, |kind, _| kinds.push(kind));
    kinds
}

/// Returns the graph without the kinds that no node reads, and the list of these kinds. One batch
/// for each of them at the end is optimal.
fn core(frontier: &Frontier) -> (Frontier, Vec<Kind>) {
    let kinds = (0..frontier.kinds()).map(Kind::new);
    let last = kinds.filter(|&kind| frontier.total(kind) > 0 && !frontier.is_read(kind));
    (without_kinds(frontier, |kind| !frontier.is_read(kind)), last.collect())
}

/// Returns the schedule whose batches have these kinds, in this order.
#[must_use]
pub fn replay(dag: &impl Dag, kinds: &[Kind]) -> Schedule {
    let mut frontier = Frontier::new(dag);
    let mut schedule = Schedule::new();
    for &kind in kinds {
        let count = frontier.ready(kind).len();
        schedule.push(kind, frontier.run(kind, count));
    }
    schedule
}
