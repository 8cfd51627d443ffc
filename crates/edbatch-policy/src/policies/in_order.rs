//! Networks whose kinds have an order: all nodes of one kind run, then all nodes of the next.
//!
//! Kind `t` reads kind `s` if a node of `t` has an argument of `s`. The kinds have an order if no
//! two of them read each other, directly or through others. Then some kind reads only itself; once
//! all its nodes have run, some other kind reads only itself and completed kinds; and so on.
//!
//! Such a kind has a [ratio](crate::KindFrontiers) of 1: a node of it that is not ready waits for a
//! remaining node of its own kind, so every node that waits for no node of its own kind is ready.
//! By the paper's lemma, running it begins a shortest schedule. So **completing each kind before
//! the next is optimal**, and each kind needs as many batches as its longest chain has nodes. Its
//! weights also stay in the cache from batch to batch.
//!
//! Trees, stacks of recurrent layers and translators have an order. Lattices do not: their two
//! kinds of arcs read each other.
//!
//! *Cost*: O(nodes + edges), in two passes over the nodes. A graph without an order is usually
//! recognised after a few nodes.

use std::hint::select_unpredictable;
use std::mem;
use std::ops::Range;

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

use crate::analysis::KindGraph;

/// Schedules graphs whose kinds depend on each other without a cycle: all nodes of one kind, then
/// all nodes of the next. Reuses its memory from graph to graph.
#[derive(Debug, Default)]
pub struct InOrder {
    kinds: Vec<KindLevels>,
    /// The kinds in order, if they have one.
    order: Vec<Kind>,
    graph: KindGraph,
    /// The nodes, followed by a sentinel that stands for a missing argument.
    nodes: Vec<NodeLevel>,
    /// The nodes, batch by batch.
    nodes_in_order: Vec<NodeId>,
}

#[derive(Clone, Debug, Default)]
struct KindLevels {
    /// The kinds that nodes of this kind read, as a bit set.
    reads: u64,
    /// For each level: its number of nodes at first, later the index where its next node belongs.
    places: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct NodeLevel {
    /// The number of nodes before this node on the longest chain of its kind that ends at this
    /// node.
    level: u32,
    kind: Kind,
}

const NO_NODE: NodeLevel = NodeLevel { level: 0, kind: Kind(u16::MAX) };

/// The number of arguments that are read without a branch, even if a node has fewer.
const UNROLLED: usize = 2;

impl InOrder {
    /// Schedules a graph with the minimum number of batches, if it has at most 64 kinds and they
    /// have an order. The nodes of a batch are ascending. Otherwise returns false, and `schedule`
    /// is empty.
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
        let mut start = 0;
        for kind in &self.order {
            for place in &mut self.kinds[kind.index()].places {
                start += mem::replace(place, start);
            }
        }
        self.nodes_in_order.resize(dag.nodes(), NodeId(0));
        // Slices, because the compiler reloads the pointer of a `Vec` after each write that might
        // alias it.
        let (kinds, nodes) = (self.kinds.as_mut_slice(), &self.nodes[..dag.nodes()]);
        let in_order = self.nodes_in_order.as_mut_slice();
        for (id, &NodeLevel { level, kind }) in (0..).map(NodeId).zip(nodes) {
            let place = &mut kinds[kind.index()].places[level as usize];
            in_order[*place as usize] = id;
            *place += 1;
        }
        let mut start = 0;
        for &kind in &self.order {
            // `places` now holds the end of each batch.
            for &end in &self.kinds[kind.index()].places {
                schedule.push(kind, &self.nodes_in_order[start..end as usize]);
                start = end as usize;
            }
        }
        true
    }

    /// Finds the levels of all nodes, and orders the kinds. Returns false if they have no order.
    fn find_levels(&mut self, dag: &impl Dag) -> bool {
        self.kinds.resize(dag.kinds(), KindLevels::default());
        for kind in &mut self.kinds {
            kind.reads = 0;
            kind.places.clear();
        }
        self.nodes.resize(dag.nodes() + 1, NO_NODE);
        self.nodes[dag.nodes()] = NO_NODE;
        // Try to find an order after 64 nodes, 128, 256 and so on.
        let mut seen = 0;
        loop {
            let next = dag.nodes().min((2 * seen).max(64));
            self.visit(dag, seen..next);
            if !self.put_in_order() {
                return false;
            }
            if next == dag.nodes() {
                return true;
            }
            seen = next;
        }
    }

    /// Computes the levels of some nodes, and records which kinds their kinds read.
    fn visit(&mut self, dag: &impl Dag, nodes: Range<usize>) {
        let (kinds, levels) = (self.kinds.as_mut_slice(), self.nodes.as_mut_slice());
        for node in nodes.map(NodeId::new) {
            let kind = dag.kind(node);
            let (level, read) = level(dag, node, kind, levels);
            levels[node.index()] = NodeLevel { level, kind };
            let entry = &mut kinds[kind.index()];
            // Usually nothing is new, and a store would make the next node wait.
            if entry.reads | read != entry.reads {
                entry.reads |= read;
            }
            if level as usize == entry.places.len() {
                // A kind that reads itself may have any number of levels. Reserve them all, so that
                // no graph allocates after the largest one.
                if level > 0 {
                    entry.places.reserve(dag.nodes() - level as usize);
                }
                entry.places.push(0);
            }
            // Count here: the counter is stored long before it is needed again.
            entry.places[level as usize] += 1;
        }
    }

    /// Orders the kinds by the edges seen so far. Returns false if they have no order: if a
    /// strongly connected component of the graph of kinds has several kinds.
    fn put_in_order(&mut self) -> bool {
        let Self { kinds, order, graph, .. } = self;
        order.clear();
        let mut single = true;
        graph.reset(kinds.iter().map(|kind| kind.reads));
        graph.components(|component| {
            single &= component.len() == 1;
            order.extend(component);
        });
        single
    }
}

/// Returns the level of a node, and the bit set of the kinds that it reads.
#[inline]
fn level(dag: &impl Dag, node: NodeId, kind: Kind, nodes: &[NodeLevel]) -> (u32, u64) {
    let (mut level, mut read) = (0, 0);
    for_each_argument(dag, node, NodeId(nodes.len() as u32 - 1), |argument, is_argument| {
        let argument = nodes[argument.index()];
        level = level.max(select_unpredictable(argument.kind == kind, argument.level + 1, 0));
        read |= u64::from(is_argument) << (argument.kind.0 % 64);
    });
    (level, read)
}

/// Calls `each` for the arguments of a node, with true. If they are few, no branch depends on their
/// number, because it would be mispredicted: `each` is also called for `missing`, with false.
#[inline]
pub(super) fn for_each_argument(
    dag: &impl Dag,
    node: NodeId,
    missing: NodeId,
    mut each: impl FnMut(NodeId, bool),
) {
    match dag.arguments(node).into_array() {
        Ok((few, count)) if count <= UNROLLED => (0..UNROLLED).for_each(|place| {
            let is_argument = place < count;
            each(select_unpredictable(is_argument, few[place], missing), is_argument);
        }),
        Ok((few, count)) => few[..count].iter().for_each(|&argument| each(argument, true)),
        Err(many) => many.for_each(|argument| each(argument, true)),
    }
}
