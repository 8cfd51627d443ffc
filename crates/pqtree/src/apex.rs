//! Where the paths from the partial nodes to the root meet, and whether each node on them is fit.
//!
//! The lowest node with the whole set below it is the *apex* (the pertinent root). Paths climb from
//! the partial nodes in turns, a step each, at most three of them at a time; a path that reaches
//! the place of another ends there. When one path is left, it has passed the apex by no more steps
//! than the others have made; walk back down to it. A node on the paths remembers the children from
//! which it was reached, its *predecessors*.
//!
//! A node is [checked](crate::check) when its path leaves it. One that could not lie below the apex
//! is the apex or above it, so that its path goes no further; two such paths are a conflict, and so
//! are two nodes with two predecessors, or one with three.
//!
//! *Cost*: a success meets the nodes from the apex down to both ends of the terminal path, and as
//! many again at most. A refusal meets at most five times as many as the deepest leaf of the set
//! has ancestors: until two predecessors meet, a path is a vertical line, and no more than three of
//! these are climbing, and two have met. Either, times that of finding a parent.

use crate::conflict::ReduceError;
use crate::label::{NIL, Touched, Work};
use crate::nodes::Nodes;

/// How many paths climb at a time. In a set that can be reduced all partial nodes are on two
/// vertical lines, so that two of any three paths meet on the terminal path.
const WINDOW: usize = 3;

/// What became of a path that was to climb.
enum Step {
    /// It is at this place now.
    Up(u32),
    /// It reached a place where another path is or has been.
    Joined,
    /// Nothing above its node can be the apex.
    Stuck,
}

impl Work {
    /// Lets the paths climb from the nodes that were counted and are not full, until they have met.
    /// Returns the place of the apex in `touched`.
    pub(crate) fn find_apex(&mut self, nodes: &mut Nodes) -> Result<u32, ReduceError> {
        let mut top = self.climb_in_turns(nodes)?;
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
    fn climb_in_turns(&mut self, nodes: &mut Nodes) -> Result<u32, ReduceError> {
        let starts = self.touched.len();
        let (mut next, mut climbing, mut count) = (0, [NIL; WINDOW], 0);
        let mut stuck = None;
        self.fork = NIL;
        loop {
            while count < WINDOW && next < starts {
                let touched = &mut self.touched[next];
                if !touched.is_full() && !touched.climbs {
                    touched.climbs = true;
                    climbing[count] = next as u32;
                    count += 1;
                }
                next += 1;
            }
            match (count, stuck) {
                (0, Some(place)) => return Ok(place),
                (1, None) => return Ok(climbing[0]),
                _ => {}
            }
            let (ended, is_stuck) = self.climb_until_one_ends(nodes, &mut climbing[..count])?;
            if is_stuck && stuck.replace(climbing[ended]).is_some() {
                return Err(ReduceError::Conflict);
            }
            count -= 1;
            climbing[ended] = climbing[count];
        }
    }

    /// Lets paths climb, a step each in turn, until one of them goes no further. Returns which one,
    /// and whether it is stuck; if not, it has joined another one.
    fn climb_until_one_ends(
        &mut self,
        nodes: &mut Nodes,
        climbing: &mut [u32],
    ) -> Result<(usize, bool), ReduceError> {
        loop {
            for (which, place) in climbing.iter_mut().enumerate() {
                match self.step(nodes, *place)? {
                    Step::Up(above) => *place = above,
                    Step::Joined => return Ok((which, false)),
                    Step::Stuck => return Ok((which, true)),
                }
            }
        }
    }

    /// Lets the path that has come to `place` climb to the parent.
    #[inline]
    fn step(&mut self, nodes: &mut Nodes, place: u32) -> Result<Step, ReduceError> {
        let &Touched { node, is_q, predecessors, .. } = &self.touched[place as usize];
        let fits = node != nodes.root
            && predecessors[1] == NIL
            && (!is_q || self.q_fits_below(nodes, place)?);
        if !fits {
            return Ok(Step::Stuck);
        }
        self.touched[place as usize].fits = true;
        let (parent, tag) = nodes.climb(node);
        let above = self.touch(nodes, parent, tag);
        let touched = &mut self.touched[above as usize];
        match touched.predecessors {
            [NIL, _] => touched.predecessors[0] = place,
            [_, NIL] if self.fork == NIL => {
                touched.predecessors[1] = place;
                self.fork = above;
            }
            _ => return Err(ReduceError::Conflict),
        }
        if !touched.climbs {
            touched.climbs = true;
            return Ok(Step::Up(above));
        }
        if touched.fits {
            self.refit_below(nodes, above);
        }
        Ok(Step::Joined)
    }
}
