//! Networks whose kinds can be put in an order: all of one kind, then all of the next.
//!
//! Say that kind `t` reads kind `s` if a node of `t` has an argument of `s`. If no kind reads itself
//! by way of another, some kind reads none but itself; once all its nodes have run, some other kind
//! reads none that remains but itself; and so on.
//!
//! Such a kind has a ratio of 1: a node of it that is not ready waits for a remaining node of its own
//! kind, so every node that is first among its kind is ready. By the paper's lemma running it begins
//! a shortest schedule, so **running kind after kind is optimal**, without looking at a single node:
//! of each kind there are as many batches as its longest chain has nodes. What a kind reads most, its
//! weights, then stays in the cache from batch to batch.
//!
//! Trees, stacks of recurrent layers and translators are such networks; lattices, whose two kinds of
//! arcs read each other, are not.
//!
//! *Cost*: a look at each edge at the start; O(kinds) where one kind follows another.

use edbatch_graph::Kind;

use crate::Frontier;

/// Which kinds read which, and which of them remain; for at most 64 kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strata {
    /// By kind: the other kinds that its nodes read, a bit each.
    reads: Vec<u64>,
    /// The kinds in their order; empty if there is none.
    order: Vec<Kind>,
    /// How many kinds of the order have been seen to have run.
    done: usize,
}

impl Strata {
    /// Turns to another graph.
    pub(crate) fn start(&mut self, frontier: &Frontier) {
        self.done = 0;
        self.order.clear();
        if frontier.kinds() > 64 {
            return;
        }
        self.reads.clear();
        self.reads.resize(frontier.kinds(), 0);
        // Kinds without an order mostly show it soon: one looks after 64 edges, 128, 256 and so on.
        let (mut edges, mut look) = (frontier.edges(), 64);
        while self.put_in_order() && edges.len() > 0 {
            for (argument, user) in edges.by_ref().take(look) {
                let (read, reads) = (1 << frontier.kind(argument).0, frontier.kind(user).index());
                // Mostly nothing is new: each edge would wait for the one before to be stored.
                if self.reads[reads] & read == 0 {
                    self.reads[reads] |= read;
                }
            }
            look *= 2;
        }
    }

    /// Puts the kinds in an order by what they are known to read, the smallest first where several
    /// might be; whether there is one.
    fn put_in_order(&mut self) -> bool {
        self.order.clear();
        let mut remaining = (0..self.reads.len()).fold(0_u64, |kinds, kind| kinds | 1 << kind);
        while let Some(kind) = (0..self.reads.len()).find(|&kind| {
            let own = 1 << kind;
            remaining & own != 0 && self.reads[kind] & remaining & !own == 0
        }) {
            remaining &= !(1 << kind);
            self.order.push(Kind::new(kind));
        }
        if remaining != 0 {
            self.order.clear();
        }
        remaining == 0
    }

    /// Whether the kinds have an order.
    pub(crate) fn is_ordered(&self) -> bool {
        !self.order.is_empty()
    }

    /// The first kind in order that remains.
    pub(crate) fn next(&mut self, frontier: &Frontier) -> Option<Kind> {
        while let Some(&kind) = self.order.get(self.done) {
            if frontier.ran(kind).len() < frontier.total(kind) {
                return Some(kind);
            }
            self.done += 1;
        }
        None
    }
}
