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
    /// Σ cost of a batch of each kind; without costs, the number of batches.
    pub cost: u64,
    /// No schedule costs less than this.
    pub bound: u64,
    /// Whether no schedule costs less than [`cost`](Self::cost): the bound is met, or the search
    /// closed.
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
    costs: Option<Vec<u32>>,
    plan: PlannedRun,
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
        let plan = PlannedRun::default();
        Self { widths, within: None, costs: None, plan, proved: false }
    }

    /// Ends the search of a run after so much time.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { widths: 1..=*self.widths.end(), within: Some(time), ..self }
    }

    /// With other costs of a batch than 1 a kind.
    #[must_use]
    pub fn with_costs(mut self, costs: Vec<u32>) -> Self {
        self.costs = Some(costs);
        self
    }
}

/// The kinds of a whole run, returned one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedRun {
    kinds: Vec<Kind>,
    returned: usize,
}

impl PlannedRun {
    pub(crate) fn new(kinds: Vec<Kind>) -> Self {
        Self { kinds, returned: 0 }
    }

    pub(crate) fn next(&mut self) -> Kind {
        self.returned += 1;
        self.kinds[self.returned - 1]
    }

    /// The next kind that has a ready node.
    pub(crate) fn next_ready(&mut self, frontier: &Frontier) -> Kind {
        loop {
            let kind = self.next();
            if !frontier.ready(kind).is_empty() {
                return kind;
            }
        }
    }
}

impl Policy for Beam {
    fn start(&mut self, frontier: &Frontier) {
        let costs = self.costs.as_deref();
        let started = Instant::now();
        let is_over = |_| self.within.is_some_and(|time| started.elapsed() >= time);
        let found = search(frontier, costs, self.widths.clone(), &mut { is_over });
        (self.plan, self.proved) = (PlannedRun::new(found.kinds), found.proved);
    }

    fn next(&mut self, _: &Frontier) -> Kind {
        self.plan.next()
    }

    fn proved(&self) -> bool {
        self.proved
    }

    fn another(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}

/// Beam search for a schedule of least cost, `costs[t]` being the cost of a batch of kind `t`;
/// without costs, of fewest batches.
///
/// # Panics
/// If there are costs, but fewer than kinds.
#[must_use]
pub fn beam(dag: &impl Dag, width: usize, costs: Option<&[u32]>) -> Found {
    let width = width.max(1);
    search(&Frontier::new(dag), costs, width..=width, &mut |_| false)
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
/// let found = branch_and_bound(&dag, None, |states| states > 1_000_000);
/// assert!(found.proved && found.cost == 5 && found.bound == 3);
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
///
/// # Panics
/// If there are costs, but fewer than kinds.
#[must_use]
pub fn branch_and_bound(
    dag: &impl Dag,
    costs: Option<&[u32]>,
    mut stop: impl FnMut(u64) -> bool,
) -> Found {
    search(&Frontier::new(dag), costs, 1..=usize::MAX, &mut stop)
}

/// Passes of doubled width, from the least of `widths` to the greatest.
pub(crate) fn search(
    frontier: &Frontier,
    costs: Option<&[u32]>,
    widths: RangeInclusive<usize>,
    stop: &mut dyn FnMut(u64) -> bool,
) -> Found {
    let (mut core, last) = core(&quotient(frontier));
    let costs = costs.map_or_else(|| vec![1; frontier.kinds()], <[_]>::to_vec);
    let price = |kinds: &[Kind]| kinds.iter().map(|k| u64::from(costs[k.index()])).sum::<u64>();
    let mut best = kinds_of(&mut core, &mut Critical::new());
    core.rewind();
    let problem = Problem::new(core, costs.clone());
    let widest = (MEMORY / problem.state_bytes()).max(*widths.start()).min(*widths.end());
    let mut width = *widths.start();
    let mut states = 0;
    let mut proved = price(&best) == problem.bound();
    while !proved {
        let pass = problem.pass(width, price(&best), &mut |more| stop(states + more));
        states += pass.states;
        best = pass.found.unwrap_or(best);
        proved = pass.closed || price(&best) == problem.bound();
        if width >= widest || stop(states) {
            break;
        }
        width = width.saturating_mul(2).min(widest);
    }
    let bound = problem.bound() + price(&last);
    best.extend(last);
    if !proved {
        // On the quotient `Critical` breaks ties in another way, now and then a batch worse.
        let by_critical = kinds_of(&mut frontier.clone(), &mut Critical::new());
        if price(&by_critical) < price(&best) {
            best = by_critical;
        }
    }
    Found { cost: price(&best), kinds: best, bound, proved, states }
}

/// The kinds of the batches that a policy makes.
pub(crate) fn kinds_of(frontier: &mut Frontier, policy: &mut (impl Policy + ?Sized)) -> Vec<Kind> {
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
