//! `Critical`: training-free, and it knows when it is optimal.
//!
//! *Source*: our own.
//!
//! # The bound
//!
//! Let the height `h(v)` of a node be the most nodes of its own kind on any path that starts at
//! it, itself included ([`Chains`]), and `M_t` the largest height among the remaining nodes of
//! kind `t`. The `M_t` nodes of kind `t` on such a path need a batch each, and a batch serves one
//! kind: **at least Σ `M_t` batches are still needed**.
//!
//! # What a batch does to it
//!
//! A batch of kind `t` changes no other `M`, and lowers `M_t` by at most one: of a chain of `M_t`
//! nodes it runs only the first, since the others wait for it. And it lowers `M_t` exactly when
//! **all remaining nodes of height `M_t` are ready**. (If one is not ready, it stays, with its
//! height. If all are, all run, and what remains of the kind is lower.)
//!
//! So a schedule whose every batch lowers Σ `M_t` has exactly Σ `M_t` batches and is **optimal**;
//! and the number of batches that did not lower it is the gap to the bound.
//!
//! # The choice
//!
//! A kind that lowers the bound. If several do, or none does, the one on whose ready nodes the most
//! hangs: the largest sum of their [`Chains::urgency`].
//!
//! Where the kinds have an order, running kind after kind is as good, and cheaper:
//! [`InOrder`](crate::InOrder), which a [`Scheduler`](crate::Scheduler) asks first.
//!
//! By the paper's lemma a kind whose ratio is 1 begins some shortest schedule. Such a kind always
//! lowers the bound: a remaining node of height `M_t` has no remaining ancestor of its kind (it
//! would be higher), so it is first among its kind, so it is ready. Looking for such a kind first
//! changes the mean number of batches by at most 0.1 % on the inputs tried, and takes the time of
//! counting ratios.
//!
//! A tie in what is preferred means that the rule sees no difference, not that there is none. It
//! goes to the smallest kind.
//!
//! # Keeping it up to date
//!
//! Per kind and height we keep how many nodes are not ready yet, and where in the kind's queue the
//! last ready one stands: all nodes of a height are ready when none is waiting, and have run when
//! that place lies behind the front. A node is looked at once, when it has become ready; one of a
//! kind that no node reads, never: all of the kind have height 1 and no urgency.
//!
//! *Cost*: O(edges × kinds) at the start, in steps of 16 kinds,
//! then O(1) a node and O(ready kinds) a batch. No allocation once it has seen the largest graph.

use edbatch_graph::{Kind, NodeId};

use crate::{AnyPolicy, Chains, Frontier, Policy};

/// Lowers the lower bound at every step where it can.
#[derive(Clone, Debug, Default)]
pub struct Critical {
    chains: Chains,
    kinds: Vec<OfKind>,
    /// Per kind, from its `start` on, per height.
    heights: Vec<OfHeight>,
}

#[derive(Clone, Copy, Debug)]
struct OfKind {
    start: usize,
    /// `M_t`: the largest height among the nodes that have not run.
    highest: u32,
    /// How many nodes have been seen to become ready.
    seen: usize,
    /// How many nodes had run then.
    ran: usize,
    /// Σ urgency of the ready nodes.
    urgency: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfHeight {
    /// How many nodes of this height are not ready yet.
    waiting: u32,
    /// One past the place, among the kind's reached nodes, of the last of this height.
    last: u32,
}

impl Critical {
    /// A policy without memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn update(&mut self, frontier: &Frontier) {
        self.update_by(frontier, |chains, node| chains.urgency(node));
    }

    /// Notes the nodes that have become ready, and lowers `M_t` where all of a height ran.
    pub(crate) fn update_by(
        &mut self,
        frontier: &Frontier,
        urgency: impl Fn(&Chains, NodeId) -> f64,
    ) {
        let urgency =
            |&node: &NodeId| f64::from(frontier.weight(node)) * urgency(&self.chains, node);
        for kind in frontier.ready_kinds() {
            let of_kind = &mut self.kinds[kind.index()];
            let (reached, ran) = (frontier.reached(kind), frontier.ran(kind).len());
            if !frontier.is_read(kind) {
                // Nothing hangs on its nodes: all have height 1 and no urgency.
                self.heights[of_kind.start + 1] = OfHeight {
                    waiting: NodeId::new(frontier.total(kind) - reached.len()).0,
                    last: NodeId::new(reached.len()).0,
                };
                continue;
            }
            if ran != of_kind.ran {
                // What was ready has run, and what is ready now is mostly new.
                let still_ready = reached[..of_kind.seen].iter().skip(ran);
                of_kind.urgency = still_ready.map(urgency).sum();
                of_kind.ran = ran;
            }
            // In a register: a sum in memory would make each node wait for the one before.
            let mut sum = of_kind.urgency;
            let heights = &mut self.heights[of_kind.start..];
            for (place, node) in (of_kind.seen + 1..).zip(&reached[of_kind.seen..]) {
                let height = &mut heights[self.chains.height(*node) as usize];
                height.waiting -= 1;
                height.last = NodeId::new(place).0;
                if place > ran {
                    sum += urgency(node);
                }
            }
            of_kind.urgency = sum;
            of_kind.seen = reached.len();
            while self.heights[of_kind.start + of_kind.highest as usize].all_ran(ran) {
                of_kind.highest -= 1;
            }
        }
    }

    /// Σ urgency of a kind's ready nodes, as of the last update.
    pub(crate) fn urgency(&self, kind: Kind) -> f64 {
        self.kinds[kind.index()].urgency
    }

    /// What hangs on the nodes of the graph.
    pub(crate) fn chains(&self) -> &Chains {
        &self.chains
    }

    /// Whether running a ready kind lowers the bound.
    pub(crate) fn lowers(&self, kind: Kind) -> bool {
        let OfKind { start, highest, .. } = self.kinds[kind.index()];
        self.heights[start + highest as usize].waiting == 0
    }
}

impl OfHeight {
    fn all_ran(self, ran: usize) -> bool {
        self.waiting == 0 && self.last as usize <= ran
    }
}

impl Policy for Critical {
    fn start(&mut self, frontier: &Frontier) {
        self.chains.reset(frontier);
        self.kinds.clear();
        self.heights.clear();
        for kind in (0..frontier.kinds()).map(Kind::new) {
            let (start, highest) = (self.heights.len(), self.chains.longest(kind));
            self.kinds.push(OfKind { start, highest, seen: 0, ran: 0, urgency: 0.0 });
            self.heights.push(OfHeight::default());
            let tally = self.chains.tally(kind).iter();
            self.heights.extend(tally.map(|&waiting| OfHeight { waiting, last: 0 }));
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        self.update(frontier);
        let mut lowering = frontier.ready_kinds().filter(|&kind| self.lowers(kind));
        let (first, second) = (lowering.next(), lowering.next());
        if let (Some(only), None) = (first, second) {
            return only;
        }
        frontier
            .ready_kinds()
            .filter(|&kind| first.is_none() || self.lowers(kind))
            .reduce(|best, kind| if self.urgency(kind) > self.urgency(best) { kind } else { best })
            .expect("a node remains")
    }

    fn another(&self) -> AnyPolicy {
        Box::new(self.clone())
    }
}
