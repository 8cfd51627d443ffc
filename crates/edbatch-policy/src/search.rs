//! Search as a policy, and anytime branch and bound.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

use crate::beam::Problem;
use crate::policy::run;
use crate::{AnyPolicy, Critical, Frontier, Policy, quotient};

/// Bytes that the states of a level may take; a wider search would only fill the memory.
const MEMORY: usize = 1 << 30;

/// What a search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The kinds of the batches, in order.
    pub kinds: Vec<Kind>,
    /// No schedule has fewer batches.
    pub bound: usize,
    /// Whether no schedule has fewer batches than [`kinds`](Self::kinds): the bound is met, or the
    /// search closed.
    pub proved: bool,
    /// How many states were made.
    pub states: u64,
}

/// Plans the whole run by a beam search, at the start; then says what is next.
///
/// With a budget of time it searches with doubled width again and again, up to its own, and follows
/// the best that it has found when the time is up: at worst what [`Critical`] does. What it finds
/// then depends on the machine.
#[derive(Clone, Debug)]
pub struct Beam {
    widths: RangeInclusive<usize>,
    within: Option<Duration>,
    /// The kinds of the whole run, and how many of them have been returned.
    plan: Vec<Kind>,
    returned: usize,
    proved: bool,
}

impl Beam {
    /// A search of so many states a level.
    #[must_use]
    pub fn new(width: usize) -> Self {
        let width = width.max(1);
        Self::of_widths(width..=width)
    }

    /// A search that doubles its width until there is nothing better to find, as
    /// [`branch_and_bound`] does, or the states of a level fill a gibibyte.
    #[must_use]
    pub fn exact() -> Self {
        Self::of_widths(1..=usize::MAX)
    }

    fn of_widths(widths: RangeInclusive<usize>) -> Self {
        Self { widths, within: None, plan: Vec::new(), returned: 0, proved: false }
    }

    /// Ends the search of a run after so much time.
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

    fn another(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}

/// Branch and bound: beam searches of doubled width, each of which only looks for something better
/// than what is known, until one closes: then the best known is optimal. It may be stopped at any
/// time: `stop` is asked again and again with the number of states made so far. It stops by itself
/// when the states of a level would fill a gibibyte.
///
/// ```
/// use edbatch_policy::branch_and_bound;
///
/// // Chains that read 0 1 1, 1 0 1 and 1 1 0: their shortest common supersequence is 1 0 1 1 0.
/// let dag = edbatch_graph::parse_text("9\n0 0\n1 1 0\n1 1 1\n1 0\n0 1 3\n1 1 4\n1 0\n1 1 6\n0 1 7\n")?;
/// let found = branch_and_bound(&dag, |states| states > 1_000_000);
/// assert!(found.proved && found.kinds.len() == 5 && found.bound == 3);
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[must_use]
pub fn branch_and_bound(dag: &impl Dag, mut stop: impl FnMut(u64) -> bool) -> Found {
    search(&Frontier::new(dag), 1..=usize::MAX, &mut stop)
}

/// Passes of doubled width, from the least of `widths` to the greatest.
fn search(
    frontier: &Frontier,
    widths: RangeInclusive<usize>,
    stop: &mut dyn FnMut(u64) -> bool,
) -> Found {
    let (mut core, last) = core(&quotient(frontier));
    let mut best = kinds_of(&mut core, &mut Critical::new());
    core.rewind();
    let problem = Problem::new(core);
    let widest = (MEMORY / problem.state_bytes()).max(*widths.start()).min(*widths.end());
    let mut width = *widths.start();
    let mut states = 0;
    let mut proved = best.len() == problem.bound();
    while !proved {
        let pass = problem.pass(width, best.len(), &mut |more| stop(states + more));
        states += pass.states;
        best = pass.found.unwrap_or(best);
        proved = pass.closed || best.len() == problem.bound();
        if width >= widest || stop(states) {
            break;
        }
        width = width.saturating_mul(2).min(widest);
    }
    let bound = problem.bound() + last.len();
    best.extend(last);
    if !proved {
        // On the quotient `Critical` breaks ties in another way, now and then a batch worse.
        let by_critical = kinds_of(&mut frontier.clone(), &mut Critical::new());
        if by_critical.len() < best.len() {
            best = by_critical;
        }
    }
    Found { kinds: best, bound, proved, states }
}

/// The kinds of the batches that a policy makes.
fn kinds_of(frontier: &mut Frontier, policy: &mut impl Policy) -> Vec<Kind> {
    let mut kinds = Vec::new();
    run(frontier, policy, |kind, _| kinds.push(kind));
    kinds
}

/// The graph without the kinds that no node reads, and these kinds: one batch each, at the end, is
/// best.
fn core(frontier: &Frontier) -> (Frontier, Vec<Kind>) {
    let mut read = vec![false; frontier.kinds()];
    for node in (0..frontier.nodes()).map(NodeId::new) {
        read[frontier.kind(node).index()] |= !frontier.users(node).is_empty();
    }
    let kinds = (0..frontier.kinds()).map(Kind::new);
    let last = kinds.filter(|&kind| frontier.total(kind) > 0 && !read[kind.index()]);
    let core = crate::quotient::without(frontier, |kind| !read[kind.index()]);
    (core, last.collect())
}

/// The schedule that runs these kinds in this order.
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
