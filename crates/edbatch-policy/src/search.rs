//! Searches for short schedules: a beam search as a policy, and exhaustive search.

mod beam;
mod exhaustive;

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use edbatch_graph::Kind;

pub use exhaustive::{exhaustive, exhaustive_within};

use crate::analysis::without_kinds;
use crate::policy::run;
use crate::{AnyPolicy, Chains, Critical, Frontier, Policy, quotient};
use beam::Problem;

/// The maximum number of bytes for the states of a level of the search.
const MAX_BYTES: usize = 1 << 30;

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

    /// A search by branch and bound: it doubles its width, each time for schedules shorter than the
    /// best known one, until it drops no state for lack of width, which proves that schedule
    /// optimal; or until the states of a level take a gibibyte or memory is exhausted.
    ///
    /// ```
    /// use edbatch_policy::{Beam, Policy, schedule};
    ///
    /// // Chains that read 0 1 1, 1 0 1 and 1 1 0: their shortest common supersequence is
    /// // 1 0 1 1 0.
    /// let dag = "9\n0 0\n1 1 0\n1 1 1\n1 0\n0 1 3\n1 1 4\n1 0\n1 1 6\n0 1 7\n";
    /// let dag = edbatch_graph::parse_text(dag)?;
    /// let mut exact = Beam::exact();
    /// assert_eq!((schedule(&dag, &mut exact).len(), exact.proved()), (5, true));
    /// # Ok::<(), edbatch_graph::TextError>(())
    /// ```
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
        let is_over = || self.within.is_some_and(|time| started.elapsed() >= time);
        (self.plan, self.proved) = search(frontier, self.widths.clone(), &is_over);
        self.returned = 0;
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

/// Searches repeatedly, doubling the width from the start of `widths` to its end, until `is_over`.
/// Returns the kinds of the batches, and true if they are known to be optimal: their number is the
/// lower bound, or the search dropped no state that could be better.
fn search(
    frontier: &Frontier,
    widths: RangeInclusive<usize>,
    is_over: &dyn Fn() -> bool,
) -> (Vec<Kind>, bool) {
    let (mut core, last) = core(&quotient(frontier));
    let mut best = kinds_of(&mut core, &mut Critical::new());
    core.rewind();
    let Some(problem) = Problem::new(core) else {
        let kinds = kinds_of(&mut frontier.clone(), &mut Critical::new());
        let bound = Chains::new(frontier).bound();
        let proved = kinds.len() == bound;
        return (kinds, proved);
    };
    let widest = (MAX_BYTES / problem.state_bytes()).max(*widths.start()).min(*widths.end());
    let mut width = *widths.start();
    let mut proved = best.len() == problem.bound();
    while !proved {
        let pass = problem.pass(width, best.len(), is_over);
        best = pass.found.unwrap_or(best);
        proved = pass.closed || best.len() == problem.bound();
        if width >= widest || pass.is_exhausted || is_over() {
            break;
        }
        width = width.saturating_mul(2).min(widest);
    }
    best.extend(last);
    if !proved {
        // On the quotient `Critical` breaks ties differently, and sometimes needs one more batch.
        let by_critical = kinds_of(&mut frontier.clone(), &mut Critical::new());
        if by_critical.len() < best.len() {
            best = by_critical;
        }
    }
    (best, proved)
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
