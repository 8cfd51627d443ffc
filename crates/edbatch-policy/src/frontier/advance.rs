//! After a batch, each user of its nodes waits for one argument less (its in-degree is
//! decremented).
//!
//! In a large mini-batch the next node lies an instance away and its users lie elsewhere again, so
//! nearly every look at one is a cache miss. Misses in short loops without mispredicted branches
//! overlap: the users of a few nodes are gathered side by side, then the in-degrees of all of these
//! are decremented, then the ones that wait for nothing else are appended to the queue.

use std::ops::Range;

use edbatch_graph::NodeId;

use super::{FEW, Frontier, MOST, Node, Stretch};

/// The users of how many nodes are gathered, and how many in-degrees decremented, in one loop.
const CHUNK: usize = 64;

impl Frontier {
    /// The nodes at these places of the queue ran.
    pub(super) fn advance_users(&mut self, places: Range<usize>) {
        let (mut waiting, users, gathered) = self.split();
        for start in places.clone().step_by(CHUNK) {
            let nodes = &waiting.queue[start..places.end.min(start + CHUNK)];
            let gathered = gather(nodes, waiting.nodes, users, gathered);
            for users in gathered.chunks(CHUNK) {
                let mut reached = [false; CHUNK];
                for (&user, reached) in users.iter().zip(&mut reached) {
                    *reached = waiting.advance(user);
                }
                for (&user, reached) in users.iter().zip(reached) {
                    waiting.append(user, reached);
                }
            }
        }
    }

    /// Only this node ran: there is nothing to overlap with, and the detour would hold up the next
    /// batch.
    #[inline]
    pub(super) fn advance_users_of(&mut self, node: NodeId) {
        let (mut waiting, users, _) = self.split();
        for &user in &users[users_at(waiting.nodes, node)] {
            let reached = waiting.advance(user);
            waiting.append(user, reached);
        }
    }

    /// What advancing changes, the users, and memory in which to gather some of them.
    #[inline]
    fn split(&mut self) -> (Waiting<'_>, &[NodeId], &mut [NodeId]) {
        let waiting = Waiting {
            nodes: &mut self.nodes,
            overflow: &mut self.overflow,
            queue: &mut self.queue,
            stretches: &mut self.stretches,
            ready: &mut self.ready,
            weights: &self.weights,
            ready_weights: &mut self.ready_weights,
        };
        (waiting, &self.users, &mut self.gathered)
    }
}

/// Copies the users of some nodes to the front of `gathered`, and returns them: a loop over those
/// of each node would be mispredicted at its end.
fn gather<'a>(
    some: &[NodeId],
    nodes: &[Node],
    users: &[NodeId],
    gathered: &'a mut [NodeId],
) -> &'a [NodeId] {
    let mut count = 0;
    for &node in some {
        let at = users_at(nodes, node);
        // No branch: of a shorter list, what follows is overwritten by the next one.
        gathered[count..count + FEW].copy_from_slice(&users[at.start..at.start + FEW]);
        if at.len() > FEW {
            gathered[count..count + at.len()].copy_from_slice(&users[at.clone()]);
        }
        count += at.len();
    }
    &gathered[..count]
}

/// Where the users of a node stand.
#[inline]
pub(super) fn users_at(nodes: &[Node], node: NodeId) -> Range<usize> {
    let (first, end) = (nodes[node.index()], nodes[node.index() + 1]);
    first.first_user as usize..end.first_user as usize
}

/// What changes when arguments have run. As slices: a write might alias a Vec's pointer, which is
/// then reloaded each time.
struct Waiting<'a> {
    nodes: &'a mut [Node],
    overflow: &'a mut [(NodeId, u32)],
    queue: &'a mut [NodeId],
    stretches: &'a mut [Stretch],
    ready: &'a mut [u64],
    weights: &'a [u32],
    ready_weights: &'a mut [usize],
}

impl Waiting<'_> {
    /// An argument of a node ran. Whether the node waits for nothing else.
    #[inline]
    fn advance(&mut self, user: NodeId) -> bool {
        let node = &mut self.nodes[user.index()];
        node.pending -= 1;
        let reached = node.pending == 0;
        if !self.overflow.is_empty() && reached {
            return !still_waits(user, node, self.overflow);
        }
        reached
    }

    /// Puts a node behind the last reached one of its kind, and counts it only if it is reached: no
    /// branch that could go either way.
    #[inline]
    fn append(&mut self, node: NodeId, reached: bool) {
        let kind = self.nodes[node.index()].kind.index();
        let back = &mut self.stretches[kind].back;
        self.queue[*back as usize] = node;
        *back += u32::from(reached);
        self.ready[kind / 64] |= u64::from(reached) << (kind % 64);
        if let Some(ready) = self.ready_weights.get_mut(kind)
            && reached
        {
            *ready += self.weights[node.index()] as usize;
        }
    }
}

/// Whether a node whose pending arguments have run waits for others.
#[cold]
fn still_waits(id: NodeId, node: &mut Node, overflow: &mut [(NodeId, u32)]) -> bool {
    let Ok(found) = overflow.binary_search_by_key(&id, |&(id, _)| id) else {
        return false;
    };
    let overflow = &mut overflow[found].1;
    let waits = *overflow > 0;
    node.pending = (*overflow).min(MOST as u32) as u16;
    *overflow -= u32::from(node.pending);
    waits
}
