//! Updates after a batch: each user of its nodes waits for one argument less.
//!
//! In a large mini-batch the nodes of a batch are far apart, and so are their users: nearly every
//! access is a cache miss. Cache misses overlap in short loops without mispredicted branches. So
//! the users of a few nodes are copied into one array, then the counters of all these users
//! decrease, then the users whose counter is 0 are appended to the queue.

use std::ops::Range;

use edbatch_graph::NodeId;

use super::{COPIED_AT_ONCE, Frontier, MAX_PENDING, Node, Segment};

/// The number of nodes, or of users, that one loop handles.
const CHUNK: usize = 64;

impl Frontier {
    /// Updates the users of a batch, given as a range of the queue.
    pub(super) fn advance_users(&mut self, batch: Range<usize>) {
        let (mut waiting, users, gathered) = self.split();
        for start in batch.clone().step_by(CHUNK) {
            let nodes = &waiting.queue[start..batch.end.min(start + CHUNK)];
            let gathered = gather(nodes, waiting.nodes, users, gathered);
            for users in gathered.chunks(CHUNK) {
                let mut is_ready = [false; CHUNK];
                for (&user, is_ready) in users.iter().zip(&mut is_ready) {
                    *is_ready = waiting.advance(user);
                }
                for (&user, is_ready) in users.iter().zip(is_ready) {
                    waiting.append(user, is_ready);
                }
            }
        }
    }

    /// Updates the users of a batch of one node, without the copy: there are few cache misses.
    #[inline]
    pub(super) fn advance_users_of(&mut self, node: NodeId) {
        let (mut waiting, users, _) = self.split();
        for &user in &users[users_at(waiting.nodes, node)] {
            let is_ready = waiting.advance(user);
            waiting.append(user, is_ready);
        }
    }

    /// The fields that an update changes, the users, and the array that they are copied to.
    #[inline]
    fn split(&mut self) -> (Waiting<'_>, &[NodeId], &mut [NodeId]) {
        let waiting = Waiting {
            nodes: &mut self.nodes,
            overflow: &mut self.overflow,
            queue: &mut self.queue,
            segments: &mut self.segments,
            ready: &mut self.ready,
            weights: &self.weights,
            ready_weights: &mut self.ready_weights,
        };
        (waiting, &self.users, &mut self.gathered)
    }
}

/// Copies the users of some nodes to the front of `gathered`, and returns them. A loop over the
/// users of each node would be mispredicted at its end.
fn gather<'a>(
    some: &[NodeId],
    nodes: &[Node],
    users: &[NodeId],
    gathered: &'a mut [NodeId],
) -> &'a [NodeId] {
    let mut count = 0;
    for &node in some {
        let at = users_at(nodes, node);
        // No branch: if the node has fewer users, the users of the next node overwrite the rest.
        gathered[count..count + COPIED_AT_ONCE]
            .copy_from_slice(&users[at.start..at.start + COPIED_AT_ONCE]);
        if at.len() > COPIED_AT_ONCE {
            gathered[count..count + at.len()].copy_from_slice(&users[at.clone()]);
        }
        count += at.len();
    }
    &gathered[..count]
}

/// The range of a node's users.
#[inline]
pub(super) fn users_at(nodes: &[Node], node: NodeId) -> Range<usize> {
    let (first, end) = (nodes[node.index()], nodes[node.index() + 1]);
    first.first_user as usize..end.first_user as usize
}

/// The fields that change when arguments have run. They are slices because the compiler reloads the
/// pointer of a `Vec` after each write that might alias it.
struct Waiting<'a> {
    nodes: &'a mut [Node],
    overflow: &'a mut [(NodeId, u32)],
    queue: &'a mut [NodeId],
    segments: &'a mut [Segment],
    ready: &'a mut [u64],
    weights: &'a [u32],
    ready_weights: &'a mut [usize],
}

impl Waiting<'_> {
    /// Counts a completed argument of a node. Returns true if the node is ready.
    #[inline]
    fn advance(&mut self, user: NodeId) -> bool {
        let node = &mut self.nodes[user.index()];
        node.pending -= 1;
        let is_ready = node.pending == 0;
        if !self.overflow.is_empty() && is_ready {
            return !still_waits(user, node, self.overflow);
        }
        is_ready
    }

    /// Writes a node after the last ready node of its kind, and counts it only if it is ready. So
    /// there is no unpredictable branch.
    #[inline]
    fn append(&mut self, node: NodeId, is_ready: bool) {
        let kind = self.nodes[node.index()].kind.index();
        let back = &mut self.segments[kind].back;
        self.queue[*back as usize] = node;
        *back += u32::from(is_ready);
        self.ready[kind / 64] |= u64::from(is_ready) << (kind % 64);
        if let Some(ready) = self.ready_weights.get_mut(kind)
            && is_ready
        {
            *ready += self.weights[node.index()] as usize;
        }
    }
}

/// Returns true if a node whose `pending` is 0 waits for more arguments.
#[cold]
fn still_waits(id: NodeId, node: &mut Node, overflow: &mut [(NodeId, u32)]) -> bool {
    let Ok(found) = overflow.binary_search_by_key(&id, |&(id, _)| id) else {
        return false;
    };
    let overflow = &mut overflow[found].1;
    let waits = *overflow > 0;
    node.pending = (*overflow).min(MAX_PENDING as u32) as u16;
    *overflow -= u32::from(node.pending);
    waits
}
