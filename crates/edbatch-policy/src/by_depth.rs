//! Component after component of kinds, and by depth inside each: few *waves*, for a device.
//!
//! A device that runs batches side by side is paid in waves, chains of batches of which each reads
//! the one before, not in batches. Kinds that read each other form a component, a strongly
//! connected one of the graph of kinds; components have an order, as in [`InOrder`]. Inside one,
//! the nodes of a kind whose longest chains *within the component* are equally long run together.
//! So no batch waits for another component's depth, and what reads all others, as outputs do, is
//! few batches at the end.
//!
//! Where every component is a single kind this is [`InOrder`], batch by batch. Lattices have one
//! component of several kinds: it has more batches than [`Critical`](crate::Critical) finds, and
//! fewer waves. *Source*: our own; depth-based batching is TensorFlow Fold's (§2 of the paper).
//!
//! *Cost*: O(nodes + edges), in three passes over the nodes.

use std::mem;

use edbatch_graph::{Dag, Kind, NodeId, Schedule};

#[cfg(doc)]
use crate::InOrder;
use crate::kind_graph::KindGraph;
use crate::{AnyPolicy, Frontier, Policy};

/// Batches by depth inside each component of kinds. Reusable memory.
#[derive(Debug, Default)]
pub struct ByDepth {
    kinds: Vec<OfKind>,
    components: Vec<Component>,
    /// By node: how many nodes of its component are before it on the longest chain that ends there.
    levels: Vec<u32>,
    /// By batch that there may be: how many nodes it has; then, where its next one goes.
    places: Vec<u32>,
    nodes_in_order: Vec<NodeId>,
    graph: KindGraph,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfKind {
    /// The kinds that its nodes read, a bit each.
    reads: u64,
    component: usize,
    /// Which kind of its component it is.
    member: u32,
}

#[derive(Clone, Debug, Default)]
struct Component {
    kinds: Vec<Kind>,
    depth: u32,
    /// The first of its batches.
    first: u32,
}

impl ByDepth {
    /// Schedules a graph of at most 64 kinds, each batch in ascending order. Whether it has so few;
    /// if not, `schedule` is empty.
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
        self.kinds.clear();
        self.kinds.resize(dag.kinds(), OfKind::default());
        for node in (0..dag.nodes()).map(NodeId::new) {
            let mut read = 0u64;
            dag.arguments(node).for_each(|argument| read |= 1u64 << dag.kind(argument).0);
            self.kinds[dag.kind(node).index()].reads |= read;
        }
        self.find_components();
        self.find_levels(dag);
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
            let OfKind { component, member, .. } = kinds[dag.kind(node).index()];
            let Component { kinds, first, .. } = &components[component];
            // From here on a level is the node's batch.
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
            // What was the place of a batch's first node is that behind its last now.
            if start < end as usize {
                schedule.push(kind, &nodes_in_order[start..end as usize]);
            }
            start = end as usize;
        }
        true
    }

    /// Finds which kinds read each other, in the order in which their components run.
    fn find_components(&mut self) {
        let Self { kinds, components, graph, .. } = self;
        graph.reset(kinds.iter().map(|kind| kind.reads));
        let mut count = 0;
        graph.components(|component| {
            if components.len() == count {
                components.push(Component::default());
            }
            let of_component = &mut components[count];
            of_component.depth = 0;
            of_component.kinds.clear();
            of_component.kinds.extend(component);
            for (member, kind) in (0..).zip(component) {
                let of_kind = &mut kinds[kind.index()];
                (of_kind.component, of_kind.member) = (count, member);
            }
            count += 1;
        });
        components.truncate(count);
    }

    /// Finds the level of each node in its component, and the depth of each component.
    fn find_levels(&mut self, dag: &impl Dag) {
        let Self { kinds, components, levels, .. } = self;
        levels.clear();
        for node in (0..dag.nodes()).map(NodeId::new) {
            let component = kinds[dag.kind(node).index()].component;
            let behind = |argument: NodeId| {
                let same = kinds[dag.kind(argument).index()].component == component;
                if same { levels[argument.index()] + 1 } else { 0 }
            };
            let level = dag.arguments(node).map(behind).max().unwrap_or(0);
            levels.push(level);
            let depth = &mut components[component].depth;
            *depth = (*depth).max(level + 1);
        }
    }
}

/// The same batches, chosen one by one. Where there are more than 64 kinds, all are one component:
/// batches by depth.
impl Policy for ByDepth {
    fn start(&mut self, frontier: &Frontier) {
        let few = frontier.kinds() <= 64;
        self.kinds.clear();
        self.kinds.resize(frontier.kinds(), OfKind::default());
        let nodes = || (0..frontier.nodes()).map(NodeId::new);
        if few {
            for (node, &user) in nodes().flat_map(|n| frontier.users(n).iter().map(move |u| (n, u)))
            {
                self.kinds[frontier.kind(user).index()].reads |= 1u64 << frontier.kind(node).0;
            }
            self.find_components();
        }
        let Self { kinds, levels, .. } = self;
        let component = |node| kinds[frontier.kind(node).index()].component;
        levels.clear();
        levels.resize(frontier.nodes(), 0);
        for node in nodes() {
            let behind = levels[node.index()] + 1;
            for &user in frontier.users(node).iter().filter(|&&u| component(u) == component(node)) {
                let level = &mut levels[user.index()];
                *level = (*level).max(behind);
            }
        }
    }

    fn next(&mut self, frontier: &Frontier) -> Kind {
        // Nodes of a component become ready in the order of their levels, as it runs alone.
        let first = |kind: Kind| {
            let OfKind { component, member, .. } = self.kinds[kind.index()];
            (component, self.levels[frontier.ready(kind)[0].index()], member, kind)
        };
        frontier.ready_kinds().map(first).min().expect("a node remains").3
    }

    fn count(&self, frontier: &Frontier, kind: Kind) -> usize {
        let ready = frontier.ready(kind);
        let level = |node: &NodeId| self.levels[node.index()];
        ready.iter().take_while(|&node| level(node) == level(&ready[0])).count()
    }

    fn another(&self) -> AnyPolicy {
        Box::new(Self::default())
    }
}
