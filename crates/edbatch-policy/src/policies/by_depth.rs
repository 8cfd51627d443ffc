//! Runs components of kinds in order, and batches by depth inside each component: few *waves*.
//!
//! A device that runs independent batches in parallel is limited by the number of waves, not of
//! batches. A batch runs in the wave after the waves of all its arguments. Kinds that read each
//! other form a component, and components have an order, as in [`InOrder`]. Inside a component,
//! nodes of the same kind run together if their longest chains *within the component* have the same
//! length. So the depth in one component splits no batches of another, and outputs, which read all
//! other kinds, run in a few batches at the end.
//!
//! If every component is a single kind, the batches are the same as with [`InOrder`]. Lattices have
//! a component of several kinds; there it makes more batches than [`Critical`](crate::Critical), in
//! fewer waves. *Source*: our own; depth-based batching is TensorFlow Fold's (§2 of the paper).
//!
//! *Cost*: O(nodes + edges), in three passes over the nodes.

use std::hint::select_unpredictable;
use std::mem;

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

use super::in_order::for_each_argument;
#[cfg(doc)]
use crate::InOrder;
use crate::analysis::KindGraph;
use crate::{AnyPolicy, Frontier, Policy};

/// Batches by depth inside each component of kinds. Its memory is reused.
#[derive(Debug, Default)]
pub struct ByDepth {
    kinds: Vec<KindPlace>,
    components: Vec<Component>,
    /// The level of each node: the maximum number of nodes before it on a path inside its
    /// component. `schedule` later replaces the levels by the index of each node's batch.
    levels: Vec<u32>,
    /// For each batch: its number of nodes at first, later the index where its next node belongs.
    places: Vec<u32>,
    nodes_in_order: Vec<NodeId>,
    graph: KindGraph,
}

#[derive(Clone, Copy, Debug, Default)]
struct KindPlace {
    /// The kinds that nodes of this kind read, as a bit set.
    reads: u64,
    component: usize,
    /// The index of the kind in its component.
    member: u32,
}

#[derive(Clone, Debug, Default)]
struct Component {
    kinds: Vec<Kind>,
    depth: u32,
    /// The index of the component's first batch.
    first: u32,
}

impl ByDepth {
    /// Schedules a graph of at most 64 kinds. The nodes of a batch are ascending. If the graph has
    /// more kinds, returns false, and `schedule` is empty.
    ///
    /// ```
    /// use edbatch_graph::{Schedule, parse_text};
    /// use edbatch_policy::ByDepth;
    ///
    /// // Kinds 0 and 1 read each other; kind 2 reads both.
    /// let dag = parse_text("5\n0 0\n1 1 0\n0 1 1\n0 0\n2 2 2 3\n")?;
    /// let mut schedule = Schedule::new();
    /// assert!(ByDepth::default().schedule(&dag, &mut schedule));
    /// assert_eq!(schedule.to_string(), "k0: n0 n3\nk1: n1\nk0: n2\nk2: n4\n");
    /// # Ok::<(), edbatch_graph::TextError>(())
    /// ```
    pub fn schedule(&mut self, dag: &impl Dag, schedule: &mut Schedule) -> bool {
        schedule.clear();
        if dag.kinds() > 64 {
            return false;
        }
        self.clear(dag.kinds(), dag.nodes());
        for node in (0..dag.nodes()).map(NodeId::new) {
            let mut read = 0;
            for_each_argument(dag, node, node, |argument, is_argument| {
                read |= u64::from(is_argument) << dag.kind(argument).0;
            });
            self.kinds[dag.kind(node).index()].reads |= read;
        }
        self.find_components();
        // Slices, because the compiler reloads the pointer of a `Vec` after each write that might
        // alias it.
        let Self { kinds, components, levels, .. } = self;
        let (kinds, levels) = (kinds.as_slice(), levels.as_mut_slice());
        for node in (0..dag.nodes()).map(NodeId::new) {
            let component = kinds[dag.kind(node).index()].component;
            let mut level = 0;
            for_each_argument(dag, node, node, |argument, is_argument| {
                let same = kinds[dag.kind(argument).index()].component == component;
                let after = levels[argument.index()] + 1;
                level = level.max(select_unpredictable(is_argument & same, after, 0));
            });
            levels[node.index()] = level;
            let depth = &mut components[component].depth;
            *depth = (*depth).max(level + 1);
        }
        let mut batches = 0;
        for component in &mut self.components {
            component.first = batches;
            batches += component.depth * component.kinds.len() as u32;
        }
        self.places.clear();
        self.places.resize(batches as usize, 0);
        self.nodes_in_order.resize(dag.nodes(), NodeId(0));
        let Self { kinds, components, levels, places, nodes_in_order, .. } = self;
        for (node, level) in (0..).map(NodeId).zip(levels.iter_mut()) {
            let KindPlace { component, member, .. } = kinds[dag.kind(node).index()];
            let Component { kinds, first, .. } = &components[component];
            // From now on `levels` holds the batch of each node.
            *level = first + *level * kinds.len() as u32 + member;
            places[*level as usize] += 1;
        }
        let mut start = 0;
        for place in places.iter_mut() {
            start += mem::replace(place, start);
        }
        for (node, &batch) in (0..).map(NodeId).zip(levels.iter()) {
            let place = &mut places[batch as usize];
            nodes_in_order[*place as usize] = node;
            *place += 1;
        }
        let mut start = 0;
        let kinds = components.iter().flat_map(|component| {
            (0..component.depth).flat_map(|_| component.kinds.iter().copied())
        });
        for (&end, kind) in places.iter().zip(kinds) {
            // `places` now holds the end of each batch.
            if start < end as usize {
                schedule.push(kind, &nodes_in_order[start..end as usize]);
            }
            start = end as usize;
        }
        true
    }

    /// Starts with a graph of this number of kinds and nodes: no edges, and all levels 0.
    fn clear(&mut self, kinds: usize, nodes: usize) {
        self.kinds.clear();
        self.kinds.resize(kinds, KindPlace::default());
        self.levels.clear();
        self.levels.resize(nodes, 0);
    }

    /// Finds the components, in the order in which they run, from the kinds that each kind reads.
    fn find_components(&mut self) {
        let Self { kinds, components, graph, .. } = self;
        graph.reset(kinds.iter().map(|kind| kind.reads));
        let mut found = 0;
        graph.components(|component| {
            if components.len() == found {
                components.push(Component::default());
            }
            let entry = &mut components[found];
            entry.depth = 0;
            entry.kinds.clear();
            entry.kinds.extend(component);
            for (member, kind) in (0..).zip(component) {
                let place = &mut kinds[kind.index()];
                (place.component, place.member) = (found, member);
            }
            found += 1;
        });
        components.truncate(found);
    }
}

/// Makes the same batches as [`ByDepth::schedule`], one at a time. More than 64 kinds form one
/// component.
impl Policy for ByDepth {
    fn start(&mut self, frontier: &Frontier) {
        self.clear(frontier.kinds(), frontier.nodes());
        let kind = |node| frontier.kind(node).index();
        if frontier.kinds() <= 64 {
            for (argument, user) in frontier.edges() {
                self.kinds[kind(user)].reads |= 1 << kind(argument);
            }
            self.find_components();
        }
        // Ascending by user, so the level of an argument is known.
        for (argument, user) in frontier.edges() {
            if self.kinds[kind(user)].component == self.kinds[kind(argument)].component {
                let after = self.levels[argument.index()] + 1;
                self.levels[user.index()] = after.max(self.levels[user.index()]);
            }
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        // Nodes of a component become ready in the order of their levels.
        let first = |kind: Kind| {
            let KindPlace { component, member, .. } = self.kinds[kind.index()];
            (component, self.levels[frontier.ready(kind)[0].index()], member, kind)
        };
        frontier.ready_kinds().map(first).min().expect("a node remains").3
    }

    fn count(&self, frontier: &Frontier, kind: Kind) -> usize {
        let ready = frontier.ready(kind);
        let level = |node: &NodeId| self.levels[node.index()];
        ready.iter().take_while(|&node| level(node) == level(&ready[0])).count()
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(Self::default())
    }
}
