//! Finds the *apex* (the pertinent root): the lowest node with the whole set below it.
//!
//! Paths climb from the partial nodes towards the root. At most three climb at a time, in turns of
//! one step each. A path that reaches a node of another path ends there. When one path is left, it
//! may have climbed past the apex, but by at most as many steps as the others have made; a walk
//! back down finds the apex. A node on a path remembers the children through which it was reached,
//! its *predecessors*.
//!
//! A node is [checked](crate::check) when its path leaves it. A node that cannot lie below the apex
//! is the apex or above it, so its path stops. Two stopped paths are a conflict, and so are two
//! nodes with two predecessors, or one node with three.
//!
//! *Cost*: a successful search visits the nodes from the apex down to both ends of the terminal
//! path, and at most the same number again. A refusal visits at most 5d nodes, where d is the
//! number of ancestors of the deepest leaf of the set: visited nodes are on at most five vertical
//! lines, three of climbing and two of ended paths. Each visit costs one parent lookup.

use crate::conflict::ReduceError;
use crate::nodes::Nodes;
use crate::work::{NIL, Path, Work};

/// The number of paths that climb at a time. If a set can be reduced, all partial nodes are on two
/// vertical lines, so that two of any three paths join on the terminal path.
const WINDOW: usize = 3;

/// The outcome of a step of a path.
enum Step {
    /// The path has reached the node at this place in `touched`.
    Up(u32),
    /// The path has reached a node of another path.
    Joined,
    /// The path cannot go on: nothing above its node can be the apex.
    Stuck,
}

impl Work {
    /// Lets the paths climb from the partial nodes until they have joined. Returns the place of the
    /// apex in `touched`.
    pub(crate) fn find_apex(&mut self, nodes: &mut Nodes) -> Result<u32, ReduceError> {
        let mut top = self.climb_in_turns(nodes)?;
        // The last path may have climbed past the apex before the others joined it: go back down.
        loop {
            match self.paths[top].predecessors {
                [below, NIL] if self.touched[top].last_full == NIL && below != NIL => top = below,
                _ => return Ok(top),
            }
        }
    }

    /// Resets the paths of all nodes in `touched`, and collects the partial nodes in `starts`.
    /// Returns the number of partial nodes. Does not branch on a node being full, which is
    /// unpredictable.
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

    /// Lets paths climb until one is left. Returns that path's place: at the apex or above it.
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

    /// Lets paths climb in turns until one ends. Returns its index, and true if it is stuck or
    /// false if it has joined another path.
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

    /// Moves a path from the node at `place` to its parent.
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
