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
//! *Cost*: O(nodes + edges), in two passes over the nodes; a graph without an order mostly shows it after
//! a few nodes.

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

/// Runs kind after kind, where the kinds of a graph have an order. Reusable memory.
#[derive(Clone, Debug, Default)]
pub struct InOrder {
    /// By kind: the kinds that its nodes read, a bit each.
    reads: Vec<u64>,
    /// The kinds in their order; empty if there is none.
    order: Vec<Kind>,
    nodes: Vec<OfNode>,
    /// By kind: how many levels it has.
    depth: Vec<u32>,
    /// By kind: the first of its batches.
    first: Vec<u32>,
    /// By batch: how many nodes it has; then, where its next one goes.
    places: Vec<u32>,
    /// The nodes, batch after batch.
    nodes_in_order: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug)]
struct OfNode {
    /// How many nodes of its kind are before it on the longest chain of them that ends at it.
    level: u32,
    kind: Kind,
}

impl InOrder {
    /// Schedules a graph with the fewest batches that are possible, each in ascending order, if its
    /// kinds, at most 64, have an order. Whether they have; if not, `schedule` is empty.
    ///
    /// ```
    /// use edbatch_graph::{Schedule, parse_text};
    /// use edbatch_policy::InOrder;
    ///
    /// // Two chains of one kind; each node of them is read by a node of another kind.
    /// let dag = parse_text("6\n0 0\n0 1 0\n0 0\n1 1 0\n1 1 1\n1 1 2\n")?;
    /// let mut schedule = Schedule::new();
    /// assert!(InOrder::default().schedule(&dag, &mut schedule));
    /// assert_eq!(schedule.to_string(), "k0: n0 n2\nk0: n1\nk1: n3 n4 n5\n");
    /// # Ok::<(), edbatch_graph::TextError>(())
    /// ```
    pub fn schedule(&mut self, dag: &impl Dag, schedule: &mut Schedule) -> bool {
        schedule.clear();
        if dag.kinds() > 64 || !self.find_levels(dag) {
            return false;
        }
        self.first.resize(dag.kinds(), 0);
        let mut batches = 0;
        for &kind in &self.order {
            self.first[kind.index()] = batches;
            batches += self.depth[kind.index()];
        }
        // A batch has a node at least.
        self.places.clear();
        self.places.reserve(dag.nodes());
        self.places.resize(batches as usize, 0);
        for node in &mut self.nodes {
            // From here on a level counts all batches.
            node.level += self.first[node.kind.index()];
            self.places[node.level as usize] += 1;
        }
        let mut start = 0;
        for place in &mut self.places {
            start += std::mem::replace(place, start);
        }
        self.nodes_in_order.resize(dag.nodes(), NodeId(0));
        for (index, node) in self.nodes.iter().enumerate() {
            let place = &mut self.places[node.level as usize];
            self.nodes_in_order[*place as usize] = NodeId::new(index);
            *place += 1;
        }
        let (mut start, mut ends) = (0, self.places.iter());
        for &kind in &self.order {
            // What was the place of a batch's first node is that behind its last now.
            for &end in ends.by_ref().take(self.depth[kind.index()] as usize) {
                schedule.push(kind, &self.nodes_in_order[start..end as usize]);
                start = end as usize;
            }
        }
        true
    }

    /// Finds the levels of all nodes, and the order of their kinds; whether there is one.
    fn find_levels(&mut self, dag: &impl Dag) -> bool {
        self.reads.clear();
        self.reads.resize(dag.kinds(), 0);
        self.depth.clear();
        self.depth.resize(dag.kinds(), 0);
        self.nodes.clear();
        self.nodes.reserve(dag.nodes());
        // One looks for an order after 64 nodes, 128, 256 and so on.
        let mut look = 64;
        for node in (0..dag.nodes()).map(NodeId::new) {
            if node.index() == look {
                if !self.put_in_order() {
                    return false;
                }
                look *= 2;
            }
            let kind = dag.kind(node);
            let (mut level, mut read) = (0, 0);
            for argument in dag.arguments(node) {
                let argument = self.nodes[argument.index()];
                let behind = if argument.kind == kind { argument.level + 1 } else { 0 };
                level = level.max(behind);
                read |= 1 << argument.kind.0;
            }
            // Mostly nothing is new: each node would wait for the one before to be stored.
            if self.reads[kind.index()] | read != self.reads[kind.index()] {
                self.reads[kind.index()] |= read;
            }
            let depth = &mut self.depth[kind.index()];
            *depth = (*depth).max(level + 1);
            self.nodes.push(OfNode { level, kind });
        }
        self.put_in_order()
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
}
