//! Where the paths from the partial nodes to the root meet.
//!
//! They climb in lockstep, a step each in turn, so that none gets far when the others have met. When one path is left it
//! has passed the lowest common ancestor of them all, the *apex*, by no more than the others have climbed; walk back down
//! to it. A node on the paths remembers the children from which it was reached, its *predecessors*.
//!
//! *Cost*: O(length of the terminal path), which is that from the apex down to both its ends, if the set can be reduced.

use crate::conflict::ReduceError;
use crate::label::{NIL, Touched, Work};
use crate::nodes::Nodes;

impl Work {
    /// Puts the nodes that were counted and are not full on their way up. Returns the place of the apex in `touched`.
    pub(crate) fn find_apex(&mut self, nodes: &mut Nodes) -> Result<u32, ReduceError> {
        self.climbing.clear();
        for (place, touched) in self.touched.iter_mut().enumerate() {
            if !touched.is_full() {
                touched.climbs = true;
                self.climbing.push(place as u32);
            }
        }
        let mut top = self.climb_in_lockstep(nodes)?;
        // Down again, from where the last path was when the others had joined it.
        loop {
            let Touched { full, predecessors, .. } = self.touched[top as usize];
            match predecessors {
                [below, NIL] if full == 0 && below != NIL => top = below,
                _ => return Ok(top),
            }
        }
    }

    /// Lets paths climb until one is left. Returns where that one is: at the apex, or above it.
    fn climb_in_lockstep(&mut self, nodes: &mut Nodes) -> Result<u32, ReduceError> {
        let (mut next, mut at_root, mut crowded) = (0, None, None);
        while self.climbing.len() - next + usize::from(at_root.is_some()) > 1 {
            let place = self.climbing[next];
            next += 1;
            let node = self.touched[place as usize].node;
            if node == nodes.root {
                at_root = Some(place);
                continue;
            }
            let parent = nodes.climb(node);
            let above = self.touch(nodes, parent);
            let touched = &mut self.touched[above as usize];
            match touched.predecessors {
                [NIL, _] => touched.predecessors[0] = place,
                [_, NIL] => touched.predecessors[1] = place,
                // The proof needs all paths to be complete.
                [first, second] => crowded = Some([first, second, place]),
            }
            if !touched.climbs {
                touched.climbs = true;
                self.climbing.push(above);
            }
        }
        match crowded {
            Some(places) => Err(self.three_splits(nodes, places)),
            None => Ok(at_root.unwrap_or_else(|| self.climbing[next])),
        }
    }
}
