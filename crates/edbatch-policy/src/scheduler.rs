//! The scheduler of an engine: a policy with reusable memory.

use edbatch_graph::{Dag, Schedule};

use crate::frontier::debug_check;
use crate::policies::EarlyOutputs;
use crate::{AnyPolicy, ByDepth, Depth, Frontier, InOrder, schedule_into};

/// Schedules graphs and reuses its memory.
///
/// The default scheduler tries [`InOrder`] first, which builds no frontier and finds the minimum
/// number of batches. It fails if the kinds have no order; then [`Critical`](crate::Critical) is
/// used, except that a kind that no node reads runs as soon as 256 of its nodes are ready, so that
/// their arguments can be freed. A scheduler with a policy always uses that policy.
///
/// ```
/// use edbatch_graph::{Schedule, parse_text};
/// use edbatch_policy::{Depth, Scheduler};
///
/// // A chain of one kind; each node of it is read by a node of another kind.
/// let dag = parse_text("4\n0 0\n0 1 0\n1 1 0\n1 1 1\n")?;
/// let mut schedule = Schedule::new();
/// Scheduler::default().schedule(&dag, &mut schedule);
/// assert_eq!(schedule.to_string(), "k0: n0\nk0: n1\nk1: n2 n3\n");
/// Scheduler::by(Box::new(Depth::new())).schedule(&dag, &mut schedule);
/// assert_eq!(schedule.to_string(), "k0: n0\nk0: n1\nk1: n2\nk1: n3\n");
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
pub struct Scheduler {
    /// Tried first, if set.
    in_order: Option<InOrder>,
    /// Tried after `InOrder`, if set. Where the kinds have an order, `InOrder` makes the same
    /// batches in a third of the time.
    by_depth: Option<Box<ByDepth>>,
    /// Used if neither of these methods schedules the graph.
    policy: AnyPolicy,
    frontier: Frontier,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self { in_order: Some(InOrder::default()), ..Self::by(Box::new(EarlyOutputs::default())) }
    }
}

impl Scheduler {
    /// A scheduler that uses this policy for every graph.
    #[must_use]
    pub fn by(policy: AnyPolicy) -> Self {
        Self { in_order: None, by_depth: None, policy, frontier: Frontier::default() }
    }

    /// A scheduler for a device that runs independent batches in parallel. It schedules by
    /// [`ByDepth`], which makes few waves.
    #[must_use]
    pub fn by_depth() -> Self {
        let (in_order, by_depth) = (Some(InOrder::default()), Some(Box::default()));
        Self { in_order, by_depth, ..Self::by(Box::new(Depth::new())) }
    }

    /// Schedules a graph. It allocates nothing once `self` and `schedule` have been used with the
    /// largest graph.
    ///
    /// # Panics
    /// If the graph is invalid, like [`Frontier::reset`].
    pub fn schedule(&mut self, dag: &impl Dag, schedule: &mut Schedule) {
        debug_check(dag);
        let Self { in_order, by_depth, policy, frontier } = self;
        let is_scheduled = in_order.as_mut().is_some_and(|first| first.schedule(dag, schedule))
            || by_depth.as_mut().is_some_and(|second| second.schedule(dag, schedule));
        if !is_scheduled {
            schedule_into(dag, policy, frontier, schedule);
        }
    }

    /// Returns true unless the caller chose the policy.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.in_order.is_some()
    }

    /// Returns the number of batches of the last schedule whose state was not in the policy's
    /// table, or `None` if the policy has no table.
    #[must_use]
    pub fn unseen(&self) -> Option<usize> {
        self.policy.unseen()
    }

    /// Returns a scheduler that makes the same choices, for another thread. The two share no data.
    #[must_use]
    pub fn fork(&self) -> Self {
        let in_order = self.in_order.as_ref().map(|_| InOrder::default());
        let by_depth = self.by_depth.as_ref().map(|_| Box::default());
        Self { in_order, by_depth, ..Self::by(self.policy.fork()) }
    }
}
