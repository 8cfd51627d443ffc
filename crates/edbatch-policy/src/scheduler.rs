//! What an engine keeps in order to schedule mini-batch after mini-batch.

use edbatch_graph::{Dag, Schedule};

use crate::{AnyPolicy, Critical, Frontier, InOrder, schedule_into};

/// Schedules graph after graph in memory of its own, by a policy or by default.
///
/// By default it asks [`InOrder`] first, which builds no frontier and proves that its batches are
/// the fewest, and where the kinds have no order, [`Critical`]. A policy of the caller's choice is
/// obeyed.
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
    /// Asked first, unless the policy is the caller's choice.
    in_order: Option<InOrder>,
    policy: AnyPolicy,
    frontier: Frontier,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self { in_order: Some(InOrder::default()), ..Self::by(Box::new(Critical::new())) }
    }
}

impl Scheduler {
    /// Schedules every graph by this policy.
    #[must_use]
    pub fn by(policy: AnyPolicy) -> Self {
        Self { in_order: None, policy, frontier: Frontier::default() }
    }

    /// Schedules a graph. Nothing is allocated once this and `schedule` have seen the largest one.
    pub fn schedule(&mut self, dag: &impl Dag, schedule: &mut Schedule) {
        let Self { in_order, policy, frontier } = self;
        if !in_order.as_mut().is_some_and(|in_order| in_order.schedule(dag, schedule)) {
            schedule_into(dag, policy, frontier, schedule);
        }
    }

    /// The same for another thread: decides as this one does and shares nothing with it.
    #[must_use]
    pub fn another(&self) -> Self {
        let in_order = self.in_order.is_some().then(InOrder::default);
        Self { in_order, ..Self::by(self.policy.another()) }
    }
}
