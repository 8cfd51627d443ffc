//! Alg. 1 of the paper: pick a kind, run its ready nodes, update the frontier, and repeat.

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

use crate::Frontier;

/// A boxed policy, for a choice at run time.
pub type AnyPolicy = Box<dyn Policy + Send>;

/// Decides which kind runs next.
///
/// A policy reads the frontier and never changes it. It updates its own data when [`next`] is
/// called. So it may be started in the middle of a run, it need not be called for every batch, and
/// its choices need not be followed. [`Beam`](crate::Beam) is the exception: it plans the whole run
/// when it is started, so it must be called for every batch, and its choices must be followed.
///
/// [`next`]: Self::next
pub trait Policy {
    /// Starts with a new graph. Memory is reused.
    fn start(&mut self, frontier: &Frontier);

    /// Returns the kind of the next batch, which must have a ready node. Called while nodes remain.
    fn next(&mut self, frontier: &Frontier) -> Kind;

    /// Returns the size of the next batch, which runs this many ready nodes of `kind`, in the order
    /// in which they became ready. By default it runs all of them, as in Alg. 1.
    /// [`Depth`](crate::Depth) and [`ByDepth`](crate::ByDepth) run fewer.
    fn count(&self, frontier: &Frontier, kind: Kind) -> usize {
        frontier.ready(kind).len()
    }

    /// Returns true if the policy has proved that its last schedule is optimal. Only searches prove
    /// that; the caller can compare any schedule with [`lower_bound`](fn@crate::lower_bound).
    fn proved(&self) -> bool {
        false
    }

    /// Returns the number of batches of the last run whose state was not in the policy's table, or
    /// `None` if it has no table.
    fn unseen(&self) -> Option<usize> {
        None
    }

    /// Returns a policy that makes the same choices, for another thread. The two share no data.
    fn fork(&self) -> AnyPolicy;
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

    fn unseen(&self) -> Option<usize> {
        (**self).unseen()
    }

    fn fork(&self) -> AnyPolicy {
        (**self).fork()
    }
}

/// Returns the schedule of a graph under a policy.
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
///
/// # Panics
/// If a kind is not less than `kinds()` or an argument does not precede its reader. To test a graph
/// of your own, use [`check_dag`](edbatch_graph::check_dag): only debug builds always panic, and in
/// release builds the schedule may be invalid.
#[must_use]
pub fn schedule(dag: &impl Dag, policy: &mut (impl Policy + ?Sized)) -> Schedule {
    let mut schedule = Schedule::new();
    schedule_into(dag, policy, &mut Frontier::default(), &mut schedule);
    schedule
}

/// Like [`schedule`](fn@schedule), but reuses memory: it allocates nothing once `frontier`,
/// `policy` and `schedule` have been used with the largest graph.
///
/// # Panics
/// If the graph is invalid, like [`schedule`](fn@schedule).
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

/// Runs a graph from its first batch to its last, and calls `each` for every batch.
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
