//! Alg. 1: pick a kind, run its ready nodes, update the frontier, until nothing is left.

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

use crate::Frontier;

/// A policy that was chosen at run time.
pub type AnyPolicy = Box<dyn Policy + Send>;

/// Decides which kind runs next.
///
/// A policy only reads the frontier. What it keeps beside it, it brings up to date when it is
/// asked; so it may be started in the middle of a run, be asked at every step or now and then, and
/// one policy may stand in for another. [`Beam`](crate::Beam) is the exception: it plans the whole
/// run when it is started, so it must be asked at every step, and obeyed.
pub trait Policy {
    /// Turns to a new graph, and keeps the memory of the last one.
    fn start(&mut self, frontier: &Frontier);

    /// The kind of the next batch: one with a ready node. Asked only while a node remains.
    fn next(&mut self, frontier: &Frontier) -> Kind;

    /// How many of the ready nodes of `kind` make the next batch, in the order in which they
    /// became ready: all of them, as Alg. 1 has it. Only [`Depth`](crate::Depth) runs fewer.
    fn count(&self, frontier: &Frontier, kind: Kind) -> usize {
        frontier.ready(kind).len()
    }

    /// Whether it knows that its last run was as short as can be. Only searches do; that a run met
    /// the lower bound is for the caller to see.
    fn proved(&self) -> bool {
        false
    }

    /// The same policy for another thread, which decides as this one does and shares nothing with
    /// it.
    fn another(&self) -> AnyPolicy;
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn start(&mut self, frontier: &Frontier) {
        (**self).start(frontier);
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        (**self).next(frontier)
    }

    fn count(&self, frontier: &Frontier, kind: Kind) -> usize {
        (**self).count(frontier, kind)
    }

    fn proved(&self) -> bool {
        (**self).proved()
    }

    fn another(&self) -> AnyPolicy {
        (**self).another()
    }
}

/// The schedule of a graph under a policy.
///
/// ```
/// use edbatch_graph::parse_text;
/// use edbatch_policy::{Sufficient, schedule};
///
/// // Two chains of one kind; each node of them is read by a node of another kind.
/// let dag = parse_text("6\n0 0\n0 1 0\n0 0\n1 1 0\n1 1 1\n1 1 2\n")?;
/// let schedule = schedule(&dag, &mut Sufficient::new());
/// assert_eq!(schedule.to_string(), "k0: n0 n2\nk0: n1\nk1: n3 n5 n4\n");
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[must_use]
pub fn schedule(dag: &impl Dag, policy: &mut (impl Policy + ?Sized)) -> Schedule {
    let mut schedule = Schedule::new();
    schedule_into(dag, policy, &mut Frontier::default(), &mut schedule);
    schedule
}

/// As [`schedule`](fn@schedule), into memory that serves mini-batch after mini-batch: once
/// `frontier`, `policy` and `schedule` have seen the largest of them, nothing is allocated.
pub fn schedule_into(
    dag: &impl Dag,
    policy: &mut (impl Policy + ?Sized),
    frontier: &mut Frontier,
    schedule: &mut Schedule,
) {
    frontier.reset(dag);
    schedule.clear();
    run(frontier, policy, |kind, batch| schedule.push(kind, batch));
}

/// Runs all of a graph, of which nothing has run, and calls `each` for every batch.
pub(crate) fn run(
    frontier: &mut Frontier,
    policy: &mut (impl Policy + ?Sized),
    mut each: impl FnMut(Kind, &[NodeId]),
) {
    policy.start(frontier);
    while !frontier.is_done() {
        let kind = policy.next(frontier);
        let count = policy.count(frontier, kind);
        let batch = frontier.run(kind, count);
        assert!(!batch.is_empty(), "a policy picks a kind that is ready");
        each(kind, batch);
    }
}
