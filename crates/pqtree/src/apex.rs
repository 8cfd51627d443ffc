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
use crate::nodes::Nodes;
use crate::work::{NIL, Path, Work};

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
            match self.paths[top].predecessors {
                [below, NIL] if self.touched[top].last_full == NIL && below != NIL => top = below,
                _ => return Ok(top),
            }
        }
    }

    /// Notes for each node that was counted that no path has come to it, and puts those that are
    /// not full into `starts`; returns how many. Without a branch, as in labelling.
    pub(crate) fn start_paths(&mut self) -> u32 {
        let starts = self.starts.with_room(self.touched.len(), NIL);
        let paths = self.paths.with_room(self.touched.len(), Path::NONE);
        let mut count = 0;
        for (place, (touched, path)) in self.touched.iter().zip(paths).enumerate() {
            *path = Path::NONE;
            starts[count] = place as u32;
            count += usize::from(!touched.is_full());
        }
        self.paths.set_len(self.touched.len());
        self.starts.set_len(count);
        count as u32
    }

    /// Lets paths climb until one is left. Returns where that one is: at the apex, or above it.
    fn climb_in_turns(&mut self, nodes: &mut Nodes) -> Result<u32, ReduceError> {
        let starts = self.start_paths();
        let (mut next, mut climbing, mut count) = (0, [NIL; WINDOW], 0);
        let mut stuck = None;
        self.fork = NIL;
        loop {
            while count < WINDOW && next < starts {
                let start = self.starts[next];
                let path = &mut self.paths[start];
                if !path.climbs {
                    path.climbs = true;
                    climbing[count] = start;
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
        let touched = self.touched[place];
        let fits = touched.node != nodes.root
            && self.paths[place].predecessors[1] == NIL
            && (!touched.is_q() || self.q_fits_below(nodes, place)?);
        if !fits {
            return Ok(Step::Stuck);
        }
        self.paths[place].fits = true;
        let (parent, tag) = nodes.climb(touched.node);
        let above = self.touch(nodes, parent, tag);
        let path = &mut self.paths[above];
        match path.predecessors {
            [NIL, _] => path.predecessors[0] = place,
            [_, NIL] if self.fork == NIL => {
                path.predecessors[1] = place;
                self.fork = above;
            }
            _ => return Err(ReduceError::Conflict),
        }
        if !path.climbs {
            path.climbs = true;
            return Ok(Step::Up(above));
        }
        if path.fits {
            self.refit_below(nodes, above);
        }
        Ok(Step::Joined)
    }
}
