//! Networks whose kinds can be put in an order: all of one kind, then all of the next.
//!
//! Say that kind `t` reads kind `s` if a node of `t` has an argument of `s`. If no kind reads
//! itself by way of another, some kind reads none but itself; once all its nodes have run, some
//! other kind reads none that remains but itself; and so on.
//!
//! Such a kind has a ratio of 1: a node of it that is not ready waits for a remaining node of its
//! own kind, so every node that is first among its kind is ready. By the paper's lemma running it
//! begins a shortest schedule, so **running kind after kind is optimal**, without looking at a
//! single node: of each kind there are as many batches as its longest chain has nodes. What a kind
//! reads most, its weights, then stays in the cache from batch to batch.
//!
//! Trees, stacks of recurrent layers and translators are such networks; lattices, whose two kinds
//! of arcs read each other, are not.
//!
//! The order is that of the strongly connected components of the graph of kinds (Tarjan's
//! algorithm).
//!
//! *Cost*: O(nodes + edges), in two passes over the nodes; a graph without an order mostly shows
//! it after a few nodes.

use std::hint::select_unpredictable;
use std::mem;
use std::ops::Range;

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

use crate::kind_graph::KindGraph;

/// Runs kind after kind, where the kinds of a graph have an order. Reusable memory.
#[derive(Debug, Default)]
pub struct InOrder {
    kinds: Vec<OfKind>,
    /// The kinds in their order, if they have one.
    order: Vec<Kind>,
    graph: KindGraph,
    /// The nodes, and after them one that stands for no argument.
    nodes: Vec<OfNode>,
    /// The nodes, batch after batch.
    nodes_in_order: Vec<NodeId>,
}

#[derive(Clone, Debug, Default)]
struct OfKind {
    /// The kinds that its nodes read, a bit each.
    reads: u64,
    /// By level, each of which is a batch: how many nodes it has; then, where its next one goes.
    places: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct OfNode {
    /// How many nodes of its kind are before it on the longest chain of them that ends at it.
    level: u32,
    kind: Kind,
}

const NO_NODE: OfNode = OfNode { level: 0, kind: Kind(u16::MAX) };

/// So many arguments are looked at, whether a node has as many or fewer.
const FEW: usize = 2;

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
        let mut start = 0;
        for kind in &self.order {
            for place in &mut self.kinds[kind.index()].places {
                start += mem::replace(place, start);
            }
        }
        self.nodes_in_order.resize(dag.nodes(), NodeId(0));
        // As slices: a write might alias a Vec's pointer, which is then reloaded each time.
        let (kinds, nodes) = (self.kinds.as_mut_slice(), &self.nodes[..dag.nodes()]);
        let in_order = self.nodes_in_order.as_mut_slice();
        for (id, &OfNode { level, kind }) in (0..).map(NodeId).zip(nodes) {
            let place = &mut kinds[kind.index()].places[level as usize];
            in_order[*place as usize] = id;
            *place += 1;
        }
        let mut start = 0;
        for &kind in &self.order {
            // What was the place of a batch's first node is that behind its last now.
            for &end in &self.kinds[kind.index()].places {
                schedule.push(kind, &self.nodes_in_order[start..end as usize]);
                start = end as usize;
            }
        }
        true
    }

    /// Finds the levels of all nodes, and the order of their kinds; whether there is one.
    fn find_levels(&mut self, dag: &impl Dag) -> bool {
        self.kinds.resize(dag.kinds(), OfKind::default());
        for kind in &mut self.kinds {
            kind.reads = 0;
            kind.places.clear();
        }
        self.nodes.resize(dag.nodes() + 1, NO_NODE);
        self.nodes[dag.nodes()] = NO_NODE;
        // One looks for an order after 64 nodes, 128, 256 and so on.
        let mut seen = 0;
        loop {
            let next = dag.nodes().min((2 * seen).max(64));
            self.see(dag, seen..next);
            if !self.put_in_order() {
                return false;
            }
            if next == dag.nodes() {
                return true;
            }
            seen = next;
        }
    }

    /// Notes the levels of some nodes, and what their kinds read.
    fn see(&mut self, dag: &impl Dag, nodes: Range<usize>) {
        let (kinds, of_nodes) = (self.kinds.as_mut_slice(), self.nodes.as_mut_slice());
        for node in nodes.map(NodeId::new) {
            let kind = dag.kind(node);
            let (level, read) = behind(dag, node, kind, of_nodes);
            of_nodes[node.index()] = OfNode { level, kind };
            let of_kind = &mut kinds[kind.index()];
            // Mostly nothing is new, and each node would wait for the one before to be stored.
            if of_kind.reads | read != of_kind.reads {
                of_kind.reads |= read;
            }
            if level as usize == of_kind.places.len() {
                // A kind that reads itself may do so at any depth: the largest graph is the last
                // to allocate.
                if level > 0 {
                    of_kind.places.reserve(dag.nodes() - level as usize);
                }
                of_kind.places.push(0);
            }
            // Counted here, where the counter is stored long before it is needed again.
            of_kind.places[level as usize] += 1;
        }
    }

    /// Puts the kinds in an order by what they are known to read; whether there is one.
    ///
    /// The strongly connected components of the graph of kinds, those that are read first: there is
    /// an order if each of them is a single kind.
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

/// The level of a node, and the kinds that it reads. Where its arguments are few, no branch
/// depends on how many there are: it would be mispredicted.
#[inline]
fn behind(dag: &impl Dag, node: NodeId, kind: Kind, nodes: &[OfNode]) -> (u32, u64) {
    let (mut level, mut read) = (0, 0);
    let mut look_at = |argument: NodeId, is_argument: bool| {
        let place = select_unpredictable(is_argument, argument.index(), nodes.len() - 1);
        let argument = nodes[place];
        level = level.max(select_unpredictable(argument.kind == kind, argument.level + 1, 0));
        read |= u64::from(is_argument) << (argument.kind.0 % 64);
    };
    match dag.arguments(node).into_array() {
        Ok((few, count)) if count <= FEW => {
            (0..FEW).for_each(|place| look_at(few[place], place < count));
        }
        Ok((few, count)) => few[..count].iter().for_each(|&argument| look_at(argument, true)),
        Err(many) => many.for_each(|argument| look_at(argument, true)),
    }
    (level, read)
}
