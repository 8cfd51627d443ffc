//! What an engine keeps in order to schedule mini-batch after mini-batch.

use edbatch_graph::{Dag, Schedule};

use crate::{AnyPolicy, ByDepth, Critical, Depth, Frontier, InOrder, schedule_into};

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
    first: First,
    policy: AnyPolicy,
    frontier: Frontier,
}

/// What is asked before the policy.
enum First {
    /// Nothing: the policy is the caller's choice.
    Policy,
    InOrder(InOrder),
    /// The same batches where the kinds have an order, in a third of the time.
    InOrderOrByDepth(InOrder, Box<ByDepth>),
}

impl First {
    fn by_depth() -> Self {
        Self::InOrderOrByDepth(InOrder::default(), Box::default())
    }

    /// The same without its memory.
    fn another(&self) -> Self {
        match self {
            Self::Policy => Self::Policy,
            Self::InOrder(_) => Self::InOrder(InOrder::default()),
            Self::InOrderOrByDepth(..) => Self::by_depth(),
        }
    }
}

impl Default for Scheduler {
    fn default() -> Self {
        let first = First::InOrder(InOrder::default());
        Self { first, ..Self::by(Box::new(Critical::new())) }
    }
}

impl Scheduler {
    /// Schedules every graph by this policy.
    #[must_use]
    pub fn by(policy: AnyPolicy) -> Self {
        Self { first: First::Policy, policy, frontier: Frontier::default() }
    }

    /// Schedules for a device that runs batches side by side, in few waves: as
    /// [`ByDepth`] does, which is [`InOrder`] where the kinds have an order.
    #[must_use]
    pub fn by_depth() -> Self {
        let first = First::by_depth();
        Self { first, ..Self::by(Box::new(Depth::new())) }
    }

    /// Schedules a graph. Nothing is allocated once this and `schedule` have seen the largest one.
    pub fn schedule(&mut self, dag: &impl Dag, schedule: &mut Schedule) {
        let Self { first, policy, frontier } = self;
        let scheduled = match first {
            First::Policy => false,
            First::InOrder(in_order) => in_order.schedule(dag, schedule),
            First::InOrderOrByDepth(in_order, by_depth) => {
                in_order.schedule(dag, schedule) || by_depth.schedule(dag, schedule)
            }
        };
        if !scheduled {
            schedule_into(dag, policy, frontier, schedule);
        }
    }

    /// The same for another thread: decides as this one does and shares nothing with it.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { first: self.first.another(), ..Self::by(self.policy.another()) }
    }
}
