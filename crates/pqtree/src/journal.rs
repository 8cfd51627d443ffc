//! Undo: a log of overwritten values, kept while a checkpoint is open.
//!
//! Every change of the structure goes through a setter, which logs the old value while a checkpoint
//! is open. Rolling back replays the log in reverse. Path compression is logged too: when a merge
//! is undone, the shortcuts through it must go, too.
//!
//! *Cost*: one predictable branch per write without a checkpoint, and 16 bytes per write with one.
//! Rolling back costs the same as the writes that it undoes.

use crate::node::NodeId;
use crate::nodes::{Nodes, Tag};
use crate::tree::PqTree;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The identity of the next tree that opens a checkpoint. Identities are unique in a process.
static NEXT_ID: AtomicUsize = AtomicUsize::new(1);

/// A state of a tree to return to, made by [`PqTree::checkpoint`]. It is valid for that tree only.
///
/// The tree logs every change until the checkpoint is rolled back or committed, even if this value
/// is dropped. [`attempt`](PqTree::attempt) closes its checkpoint.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a checkpoint makes the tree log its changes until it is rolled back or committed"]
pub struct Checkpoint {
    /// The identity of the tree.
    id: usize,
    depth: u32,
    serial: u64,
}

impl PqTree {
    /// Runs `change`, and restores the tree if it fails or panics.
    ///
    /// ```
    /// # use pqtree::{PqTree, ReduceError};
    /// let mut tree = PqTree::new(4);
    /// let both: Result<(), ReduceError> = tree.attempt(|tree| {
    ///     tree.reduce(&[0, 1, 2])?;
    ///     tree.reduce(&[0, 9])?;
    ///     Ok(())
    /// });
    /// assert!(both.is_err());
    /// assert_eq!(tree.to_string(), "(0 1 2 3)");
    /// ```
    ///
    /// A successful attempt counts as one change for [`changed`](Self::changed).
    ///
    /// # Panics
    ///
    /// If `change` assigns another tree to this one, or rolls back a checkpoint that was open
    /// before. A tree that `change` has moved elsewhere, such as by `mem::swap`, logs its changes
    /// for ever, because its checkpoint cannot be closed there. A clone of such a tree does not
    /// log.
    pub fn attempt<T, E>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        attempt(self, change)
    }

    /// Opens a checkpoint: saves a state for [`rollback`](Self::rollback). Checkpoints nest.
    ///
    /// ```
    /// # use pqtree::PqTree;
    /// let mut tree = PqTree::new(4);
    /// let start = tree.checkpoint();
    /// tree.reduce(&[0, 1])?;
    /// tree.rollback(start);
    /// assert_eq!(tree.to_string(), "(0 1 2 3)");
    /// # Ok::<(), pqtree::ReduceError>(())
    /// ```
    pub fn checkpoint(&mut self) -> Checkpoint {
        let header = self.nodes.header();
        self.nodes.journal.open(header)
    }

    /// Restores the state at `checkpoint`. Closes it and all later checkpoints. Empties the list of
    /// [changed](Self::changed) nodes.
    ///
    /// # Panics
    ///
    /// If the checkpoint is not open in this tree: it belongs to another tree, or it was closed
    /// together with an earlier one.
    pub fn rollback(&mut self, checkpoint: Checkpoint) {
        self.undo(checkpoint);
        self.begin_change();
    }

    /// Keeps all changes since `checkpoint`. Closes it and all later checkpoints.
    ///
    /// # Panics
    ///
    /// If the checkpoint is not open in this tree: it belongs to another tree, or it was closed
    /// together with an earlier one.
    pub fn commit(&mut self, checkpoint: Checkpoint) {
        self.nodes.journal.close(&checkpoint);
        self.nodes.journal.forget_if_idle();
        // Reductions skip this while a checkpoint is open.
        self.nodes.compact();
    }
}

/// A tree with checkpoints, which [`attempt`] can restore.
pub(crate) trait Undo {
    /// A point to return to.
    type Checkpoint;

    fn open(&mut self) -> Self::Checkpoint;
    fn is_open(&self, checkpoint: &Self::Checkpoint) -> bool;
    fn keep(&mut self, checkpoint: Self::Checkpoint);
    fn undo(&mut self, checkpoint: Self::Checkpoint);
}

impl Undo for PqTree {
    type Checkpoint = Checkpoint;

    fn open(&mut self) -> Checkpoint {
        let checkpoint = self.checkpoint();
        self.nodes.journal.marks.last_mut().expect("the open checkpoint").attempts += 1;
        checkpoint
    }

    fn is_open(&self, checkpoint: &Checkpoint) -> bool {
        self.nodes.journal.mark(checkpoint).is_some()
    }

    fn keep(&mut self, checkpoint: Checkpoint) {
        let mark = self.nodes.journal.close(&checkpoint);
        let (mut lists, mut changed) = (0, Vec::new());
        for write in &self.nodes.journal.log[mark.log..] {
            match *write {
                Write::List => lists += 1,
                // The first logged list is older than the attempt.
                Write::Changed(node) if lists > 1 => changed.push(node),
                _ => {}
            }
        }
        match lists {
            0 => self.begin_change(),
            _ => self.also_changed(changed),
        }
        self.nodes.journal.forget_if_idle();
        self.nodes.compact();
    }

    fn undo(&mut self, checkpoint: Checkpoint) {
        let mark = self.nodes.journal.close(&checkpoint);
        let mut list = Vec::new();
        let mut log = core::mem::take(&mut self.nodes.journal.log);
        while log.len() > mark.log {
            let write = log.pop().expect("the log reaches back to the mark");
            self.nodes.undo(write, &mut list, &mut self.work.changed);
        }
        self.nodes.journal.log = log;
        self.nodes.set_header(mark.header);
        self.nodes.journal.forget_if_idle();
    }
}

/// Runs a change, and undoes it if it fails or panics.
pub(crate) fn attempt<U: Undo, T, E>(
    tree: &mut U,
    change: impl FnOnce(&mut U) -> Result<T, E>,
) -> Result<T, E> {
    let checkpoint = Some(tree.open());
    let mut attempt = Attempt { tree, checkpoint };
    let result = change(attempt.tree);
    let checkpoint = attempt.checkpoint.take().expect("only this line and the drop take it");
    match result {
        Ok(_) => attempt.tree.keep(checkpoint),
        Err(_) => attempt.tree.undo(checkpoint),
    }
    result
}

/// A change that is undone if it panics.
struct Attempt<'a, U: Undo> {
    tree: &'a mut U,
    checkpoint: Option<U::Checkpoint>,
}

impl<U: Undo> Drop for Attempt<'_, U> {
    fn drop(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        if self.tree.is_open(&checkpoint) {
            self.tree.undo(checkpoint);
        }
    }
}

/// The log, and the position of each open checkpoint in it.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// The identity of the tree, or 0 before its first checkpoint.
    id: usize,
    log: Vec<Write>,
    marks: Vec<Mark>,
    serial: u64,
}

impl Clone for Journal {
    /// Returns an empty journal: a checkpoint can be closed only in the tree that opened it.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Journal {
    /// Returns true if a checkpoint is open, so that writes must be logged.
    pub(crate) fn is_open(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Returns true if an attempt is running, so that lists of changed nodes must be logged.
    pub(crate) fn is_attempt(&self) -> bool {
        self.marks.last().is_some_and(|mark| mark.attempts > 0)
    }

    pub(crate) fn push(&mut self, write: Write) {
        self.log.push(write);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.log.capacity() * size_of::<Write>() + self.marks.capacity() * size_of::<Mark>()
    }

    fn open(&mut self, header: Header) -> Checkpoint {
        if self.id == 0 {
            self.id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        }
        self.serial += 1;
        let attempts = self.marks.last().map_or(0, |mark| mark.attempts);
        self.marks.push(Mark { log: self.log.len(), serial: self.serial, attempts, header });
        Checkpoint { id: self.id, depth: self.marks.len() as u32 - 1, serial: self.serial }
    }

    /// Returns the state saved at a checkpoint, if it is open in this tree.
    fn mark(&self, checkpoint: &Checkpoint) -> Option<Mark> {
        let mark = self.marks.get(checkpoint.depth as usize).copied();
        mark.filter(|mark| checkpoint.id == self.id && mark.serial == checkpoint.serial)
    }

    /// Closes a checkpoint and all later ones.
    fn close(&mut self, checkpoint: &Checkpoint) -> Mark {
        let mark = self.mark(checkpoint).expect("the checkpoint is not open in this tree");
        self.marks.truncate(checkpoint.depth as usize);
        mark
    }

    fn forget_if_idle(&mut self) {
        if self.marks.is_empty() {
            self.log = Vec::new();
        }
    }
}

/// One overwritten value.
#[derive(Debug)]
pub(crate) enum Write {
    Up(NodeId, NodeId),
    Siblings(NodeId, [NodeId; 2]),
    Ends(NodeId, [NodeId; 2]),
    Tag(NodeId, Tag),
    /// The previous tree, which was replaced as a whole.
    Everything(Box<Nodes>),
    /// A list of changed nodes. Its nodes follow, the last one first.
    List,
    Changed(NodeId),
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    log: usize,
    serial: u64,
    /// The number of attempts among this open checkpoint and those before it.
    attempts: u32,
    header: Header,
}

/// The scalar fields of a tree, saved at a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) leaves: u32,
    pub(crate) root: NodeId,
    pub(crate) free: NodeId,
    pub(crate) forwards: u32,
    pub(crate) slots: usize,
}
