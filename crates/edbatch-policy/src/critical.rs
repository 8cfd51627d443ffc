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
//! 1. A kind whose ratio is 1 ([`Firsts`]): by the paper's lemma it begins some shortest schedule.
//! 2. Else a kind that lowers the bound, the one with the largest ratio.
//! 3. Else the kind with the largest ratio.
//!
//! A kind of ratio 1 always lowers the bound: a remaining node of height `M_t` has no remaining
//! ancestor of its kind (that would be higher), so it is first among its kind, so it is ready. So
//! 1 and 2 are one rule, and when just one kind lowers the bound no ratio is needed at all.
//!
//! Ties between equal ratios mean that the rule sees no difference, not that there is none: on
//! lattices the number of batches moves by several per cent with the way in which ties are broken.
//! [`Critical::new`] takes the smallest kind; a portfolio may try several.
//!
//! # Keeping it up to date
//!
//! Per kind and height we keep how many nodes are not ready yet, and where in the kind's queue the
//! last ready one stands: all nodes of a height are ready when none is waiting, and have run when
//! that place lies behind the front. A node is looked at once, when it has become ready.
//!
//! *Cost*: O(edges × kinds) at the start, in steps of up to 16 kinds; then O(1) a node and
//! O(ready kinds) a batch, plus the ratios, which are counted from the first time that two kinds
//! compete. No allocation once it has seen the largest graph.

use edbatch_graph::{Kind, NodeId};

use crate::{Chains, Firsts, Frontier, Policy};

/// Lowers the lower bound at every step where it can; ties to the smallest kind.
#[derive(Clone, Debug, Default)]
pub struct Critical {
    chains: Chains,
    firsts: Firsts,
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

    /// Σ `M_t` of the whole graph: a schedule with as many batches is proved optimal.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.chains.bound()
    }

    /// Notes the nodes that have become ready, and lowers `M_t` where all of a height ran.
    fn update(&mut self, frontier: &Frontier) {
        for kind in frontier.ready_kinds() {
            let of_kind = &mut self.kinds[kind.index()];
            let reached = frontier.reached(kind);
            for (place, &node) in (1..).zip(reached).skip(of_kind.seen) {
                let height = &mut self.heights[of_kind.start + self.chains.height(node) as usize];
                height.waiting -= 1;
                height.last = place;
            }
            of_kind.seen = reached.len();
            let ran = frontier.ran(kind).len();
            while self.heights[of_kind.start + of_kind.highest as usize].all_ran(ran) {
                of_kind.highest -= 1;
            }
        }
    }

    /// Whether running a ready kind lowers the bound.
    fn lowers(&self, kind: Kind) -> bool {
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
        self.firsts.start();
        self.kinds.clear();
        let mut start = 0;
        for kind in (0..frontier.kinds()).map(Kind::new) {
            let highest = self.chains.longest(kind);
            self.kinds.push(OfKind { start, highest, seen: 0 });
            start += highest as usize + 1;
        }
        self.heights.clear();
        self.heights.resize(start, OfHeight::default());
        for node in (0..frontier.nodes()).map(NodeId::new) {
            let start = self.kinds[frontier.kind(node).index()].start;
            self.heights[start + self.chains.height(node) as usize].waiting += 1;
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        self.update(frontier);
        let mut lowering = frontier.ready_kinds().filter(|&kind| self.lowers(kind));
        match (lowering.next(), lowering.next()) {
            (Some(kind), None) => kind,
            (first, _) => {
                self.firsts.update(frontier, &self.chains);
                let candidate = |&kind: &Kind| first.is_none() || self.lowers(kind);
                frontier
                    .ready_kinds()
                    .filter(candidate)
                    .reduce(
                        |best, kind| {
                            if self.firsts.less(frontier, best, kind) { kind } else { best }
                        },
                    )
                    .expect("a node remains")
            }
        }
    }
}
