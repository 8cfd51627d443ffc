//! The list of changed nodes, by which callers update tables with an entry for each node.
//!
//! A change of the tree starts a new list, and every edit of a node's children adds that node.
//! Queries and refused changes never start a list. While an attempt runs, each list that is
//! replaced by a new one goes to the log. A failed attempt restores the list from before the
//! attempt. A successful one merges the lists of its changes.
//!
//! *Cost*: the sizes of the lists. A single `NONE` stands for all inner nodes.

use crate::journal::Write;
use crate::node::NodeId;
use crate::tree::PqTree;
use alloc::vec::Vec;

impl PqTree {
    /// The inner nodes whose children changed in the last change of this tree, new nodes included,
    /// each once. All other nodes have the same children as before, in the same order.
    ///
    /// So a table with an entry for each node can be kept up to date: after each change, renew the
    /// entries of these nodes, and ignore nodes that no longer [exist](Self::contains).
    ///
    /// - Queries and refused changes leave the list as it is.
    /// - After [`reduce_all`](Self::reduce_all), [`intersect`](Self::intersect) and a successful
    ///   [`attempt`](Self::attempt) it holds the changes of the whole operation.
    /// - It holds all inner nodes after [`reduce_greedy`](Self::reduce_greedy), which keeps no list
    ///   of its changes, and after a change that renumbers them: [`remove`](Self::remove),
    ///   [`reserve`](Self::reserve) and, when the reserved numbers run out,
    ///   [`insert`](Self::insert), [`replace`](Self::replace) and
    ///   [`replace_set`](Self::replace_set).
    /// - A [rollback](Self::rollback) empties it: go back to a table that was copied at the
    ///   checkpoint, or make a new one.
    pub fn changed(&self) -> impl Iterator<Item = NodeId> + '_ {
        let are_all = self.work.changed.last() == Some(&NodeId::NONE);
        let slots = if are_all { self.nodes.tags().len() as u32 } else { 0 };
        let all = (0..slots).map(|slot| NodeId(self.nodes.base + slot));
        self.work.changed.iter().copied().chain(all).filter(|&node| self.nodes.is_live(node))
    }

    /// Starts a new list of changed nodes. Must precede every change.
    #[inline]
    pub(crate) fn begin_change(&mut self) {
        if self.nodes.journal.is_attempt() {
            self.log_list();
        }
        self.work.changed.clear();
    }

    #[cold]
    #[inline(never)]
    fn log_list(&mut self) {
        self.nodes.journal.push(Write::List);
        let nodes = self.work.changed.iter().rev();
        nodes.for_each(|&node| self.nodes.journal.push(Write::Changed(node)));
    }

    /// Lists all inner nodes as changed if `are_all`, such as after a renumbering.
    pub(crate) fn all_changed_if(&mut self, are_all: bool) {
        if are_all {
            self.work.changed = [NodeId::NONE].to_vec();
        }
    }

    /// Adds the nodes of earlier lists to the list.
    pub(crate) fn also_changed(&mut self, earlier: Vec<NodeId>) {
        let changed = &mut self.work.changed;
        changed.extend(earlier);
        changed.sort_unstable();
        changed.dedup();
        match changed.last() {
            Some(&NodeId::NONE) => self.all_changed_if(true),
            _ => changed.retain(|&node| self.nodes.is_live(node)),
        }
    }
}
