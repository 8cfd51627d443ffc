//! Checks that the full children of every node on the terminal path can be gathered.
//!
//! A P-node can always gather them. In a Q-node the full children must be neighbours, with the
//! predecessors next to them on either side. Below the apex, this block must also be at an end,
//! with a predecessor only on its inner side. A node below the apex has at most one predecessor.
//!
//! A node below the apex is checked when its path leaves it, and the apex once it is known. The
//! checks also record what the rearrangement needs for Q-nodes: [`Path::outer`] and
//! [`Path::full_end`].
//!
//! *Source*: the conditions of Booth and Lueker's templates (1976), stated once for all of them.
//!
//! *Cost*: O(full children) for a Q-node, O(1) for a P-node.

use crate::conflict::ReduceError;
use crate::node::NodeId;
use crate::nodes::Nodes;
use crate::work::{NIL, Work};

impl Work {
    /// Checks that the set can be made consecutive, given the labels and the apex.
    pub(crate) fn check(&mut self, nodes: &Nodes, apex: u32) -> Result<(), ReduceError> {
        if self.touched[apex].is_q() {
            self.check_q_apex(nodes, apex)?;
        }
        for mut place in self.paths[apex].predecessors {
            while place != NIL {
                let path = &self.paths[place];
                if !path.fits {
                    return Err(ReduceError::Conflict);
                }
                place = path.predecessors[0];
            }
        }
        Ok(())
    }

    fn check_q_apex(&mut self, nodes: &Nodes, apex: u32) -> Result<(), ReduceError> {
        let predecessors = self.predecessor_nodes(apex);
        let [a, b] = predecessors;
        let Some(block) = self.full_block(nodes, apex)? else {
            // No full child: the two predecessors must be neighbours.
            if !nodes.siblings(a).contains(&b) {
                return Err(ReduceError::Conflict);
            }
            let outer = [nodes.sibling_beside(a, b), nodes.sibling_beside(b, a)];
            self.paths[apex].outer = outer;
            return Ok(());
        };
        for (which, predecessor) in predecessors.into_iter().enumerate() {
            if predecessor == NodeId::NONE {
                continue;
            }
            let Some(side) = block.iter().position(|end| end.beyond == predecessor) else {
                return Err(ReduceError::Conflict);
            };
            self.paths[apex].outer[which] = nodes.sibling_beside(predecessor, block[side].last);
        }
        Ok(())
    }

    /// Updates [`Path::fits`] of a node that a second path has reached after the first one left it.
    pub(crate) fn refit_below(&mut self, nodes: &Nodes, place: u32) {
        let [predecessor, other] = self.predecessor_nodes(place);
        let path = &mut self.paths[place];
        path.fits = other == NodeId::NONE;
        if self.touched[place].is_q() && path.fits {
            // The node has full children, or it would have been reached before. The predecessor
            // must be at the inner end of their block.
            let [beyond, last] = path.outer;
            path.fits = predecessor == beyond;
            path.outer[0] = nodes.sibling_beside(predecessor, last);
        }
    }

    /// Returns true if a Q-node with at most one predecessor can lie below the apex. Called before
    /// the path leaves the node. Fails if the node cannot be the apex either.
    pub(crate) fn q_fits_below(&mut self, nodes: &Nodes, place: u32) -> Result<bool, ReduceError> {
        let [predecessor, _] = self.predecessor_nodes(place);
        let Some(block) = self.full_block(nodes, place)? else {
            // No full child: the only predecessor must be an end.
            let path = &mut self.paths[place];
            path.full_end = predecessor;
            path.outer[0] = nodes.sibling_beside(predecessor, NodeId::NONE);
            return Ok(nodes.siblings(predecessor).contains(&NodeId::NONE));
        };
        let [inner, end] =
            if block[0].beyond == NodeId::NONE { [block[1], block[0]] } else { block };
        let path = &mut self.paths[place];
        path.full_end = end.last;
        path.outer = [inner.beyond, inner.last];
        if predecessor != NodeId::NONE {
            path.outer[0] = nodes.sibling_beside(predecessor, inner.last);
        }
        let adjoins = predecessor == NodeId::NONE || predecessor == inner.beyond;
        Ok(adjoins && end.beyond == NodeId::NONE)
    }

    fn predecessor_nodes(&self, place: u32) -> [NodeId; 2] {
        self.paths[place].predecessors.map(|place| self.node_at(place))
    }

    /// Returns the two ends of the block of full children of a Q-node, or `None` if it has no full
    /// child.
    ///
    /// Each run of full children has two borders. So if there are two borders, there is one run.
    fn full_block(&self, nodes: &Nodes, place: u32) -> Result<Option<[BlockEnd; 2]>, ReduceError> {
        let mut child = self.touched[place].last_full;
        if child == NIL {
            return Ok(None);
        }
        // One entry more than the allowed borders. A branch on the border would be unpredictable,
        // so each candidate is written, and counted only if it is a border.
        let mut block = [BlockEnd { last: NodeId::NONE, beyond: NodeId::NONE }; 3];
        let mut borders = 0;
        while child != NIL {
            let marked = self.marked[child];
            for beyond in nodes.siblings(marked.node) {
                block[borders] = BlockEnd { last: marked.node, beyond };
                borders += usize::from(beyond == NodeId::NONE || !self.is_full(nodes, beyond));
                if borders > 2 {
                    return Err(ReduceError::Conflict);
                }
            }
            child = marked.next;
        }
        let [first, last, _] = block;
        Ok(Some([first, last]))
    }
}

/// An end of a block of full children: the last full child, and the sibling beyond it, if any.
#[derive(Clone, Copy, Debug)]
struct BlockEnd {
    last: NodeId,
    beyond: NodeId,
}
