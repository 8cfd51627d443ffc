//! The last question before a reduction writes: whether the full children of every node on the terminal path can be gathered.
//!
//! A P-node can always gather them. In a Q-node the full children have to be neighbours, with the predecessors next to
//! them on either side; below the apex, moreover, that block has to lie at an end, with a predecessor only on its inner
//! side. A node below the apex has at most one predecessor.
//!
//! What the rebuilding has to know about the Q-nodes, [`Touched::outer`] and [`Touched::full_end`], is noted on the way.
//!
//! *Source*: the conditions are those of Booth and Lueker's templates (1976), said once for all of them.
//!
//! *Cost*: O(full children of the path's nodes + length of the path).

use crate::conflict::ReduceError;
use crate::label::{NIL, Touched, Work};
use crate::node::NodeId;
use crate::nodes::Nodes;

impl Work {
    /// Whether the set can be made consecutive, given the labels and the apex.
    pub(crate) fn check(&mut self, nodes: &Nodes, apex: u32) -> Result<(), ReduceError> {
        if self.touched[apex as usize].is_q {
            self.check_q_apex(nodes, apex)?;
        }
        for mut place in self.touched[apex as usize].predecessors {
            while place != NIL {
                let Touched { predecessors, is_q, .. } = self.touched[place as usize];
                if predecessors[1] != NIL {
                    return Err(self.two_splits(nodes, apex, place));
                }
                if is_q {
                    self.check_q_below(nodes, apex, place)?;
                }
                place = predecessors[0];
            }
        }
        Ok(())
    }

    fn check_q_apex(&mut self, nodes: &Nodes, apex: u32) -> Result<(), ReduceError> {
        let predecessors = self.predecessor_nodes(apex);
        let [a, b] = predecessors;
        let Some(block) = self.full_block(nodes, apex)? else {
            // No full child: the two predecessors have to be neighbours.
            if !nodes.siblings(a).contains(&b) {
                return Err(self.separated(nodes, apex));
            }
            let outer = [nodes.sibling_beside(a, b), nodes.sibling_beside(b, a)];
            self.touched[apex as usize].outer = outer;
            return Ok(());
        };
        for (which, predecessor) in predecessors.into_iter().enumerate() {
            if predecessor == NodeId::NONE {
                continue;
            }
            let Some(side) = block.iter().position(|end| end.beyond == predecessor) else {
                return Err(self.separated(nodes, apex));
            };
            self.touched[apex as usize].outer[which] =
                nodes.sibling_beside(predecessor, block[side].last);
        }
        Ok(())
    }

    fn check_q_below(&mut self, nodes: &Nodes, apex: u32, place: u32) -> Result<(), ReduceError> {
        let [predecessor, _] = self.predecessor_nodes(place);
        let Some(block) = self.full_block(nodes, place)? else {
            // No full child: the only predecessor has to be an end.
            if !nodes.siblings(predecessor).contains(&NodeId::NONE) {
                return Err(self.enclosed(nodes, apex, place));
            }
            let touched = &mut self.touched[place as usize];
            touched.full_end = predecessor;
            touched.outer[0] = nodes.sibling_beside(predecessor, NodeId::NONE);
            return Ok(());
        };
        let inner_side = if predecessor != NodeId::NONE {
            match block.iter().position(|end| end.beyond == predecessor) {
                Some(side) => side,
                None => return Err(self.separated(nodes, place)),
            }
        } else {
            usize::from(block[1].beyond != NodeId::NONE)
        };
        let [inner, end] = [block[inner_side], block[1 - inner_side]];
        if end.beyond != NodeId::NONE {
            return Err(self.enclosed(nodes, apex, place));
        }
        let touched = &mut self.touched[place as usize];
        touched.full_end = end.last;
        if predecessor != NodeId::NONE {
            touched.outer[0] = nodes.sibling_beside(predecessor, inner.last);
        }
        Ok(())
    }

    fn predecessor_nodes(&self, place: u32) -> [NodeId; 2] {
        let node = |place: u32| {
            if place == NIL { NodeId::NONE } else { self.touched[place as usize].node }
        };
        self.touched[place as usize].predecessors.map(node)
    }

    /// The two ends of the block of full children of a Q-node; `None` if it has no full child.
    ///
    /// Every run of full children has two borders with what is not full; so they are one run if there are two borders.
    fn full_block(&self, nodes: &Nodes, place: u32) -> Result<Option<[BlockEnd; 2]>, ReduceError> {
        let mut block = [BlockEnd { last: NodeId::NONE, beyond: NodeId::NONE }; 2];
        let mut borders = 0;
        let mut child = self.touched[place as usize].last_full;
        if child == NIL {
            return Ok(None);
        }
        while child != NIL {
            let marked = self.marked[child as usize];
            for beyond in nodes.siblings(marked.node) {
                if beyond == NodeId::NONE || !self.is_full(nodes, beyond) {
                    let Some(end) = block.get_mut(borders) else {
                        return Err(self.separated(nodes, place));
                    };
                    *end = BlockEnd { last: marked.node, beyond };
                    borders += 1;
                }
            }
            child = marked.next;
        }
        Ok(Some(block))
    }
}

/// An end of a block of full children: the last of them, and the sibling after it.
#[derive(Clone, Copy, Debug)]
struct BlockEnd {
    last: NodeId,
    beyond: NodeId,
}
