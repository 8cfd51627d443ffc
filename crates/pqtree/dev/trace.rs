//! Runs a trace of operations, read from bytes, on a tree and on a slow model of it. Panics if they
//! differ.
//!
//! The model is the recursive reference with the simplest form of every operation. The first byte
//! is the number of leaves. Sets are drawn so that many can be reduced.

#[path = "trace/checks.rs"]
mod checks;
#[path = "trace/other_leaves.rs"]
mod other_leaves;
#[path = "trace/reductions.rs"]
mod reductions;

use crate::model::{Model, text, universal};
use crate::reference::Reference;
pub(crate) use checks::check_proof;
use checks::{Lists, lists};
use pqtree::{Checkpoint, NodeId, PqTree};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

/// The maximum size of trees.
const MAX_LEAVES: u32 = 80;

/// The operations that a trace covered: the number of times that each was done, by name.
pub(crate) type Covered = BTreeMap<&'static str, u64>;

pub(crate) fn run(bytes: &[u8]) -> Covered {
    let Some((&first, rest)) = bytes.split_first() else { return Covered::new() };
    let leaves = u32::from(first) % (MAX_LEAVES + 1);
    let mut trace = Trace {
        bytes: rest.iter(),
        tree: PqTree::new(leaves),
        model: universal(0..leaves),
        open: Vec::new(),
        hash: RandomState::new(),
        covered: Covered::new(),
        cache: Lists::new(),
    };
    trace.read_again();
    while let Some(&operation) = trace.bytes.next() {
        let name = trace.step(operation);
        *trace.covered.entry(name).or_default() += 1;
        trace.check();
        trace.check_cache();
    }
    trace.covered
}

struct Trace<'a> {
    bytes: std::slice::Iter<'a, u8>,
    tree: PqTree,
    model: Model,
    /// For each open checkpoint: the text at that time, a copy, and the model.
    open: Vec<(Checkpoint, String, PqTree, Model)>,
    hash: RandomState,
    covered: Covered,
    /// The children of each inner node, renewed only for the nodes that `changed` names.
    cache: Lists,
}

impl Trace<'_> {
    fn byte(&mut self) -> usize {
        self.bytes.next().map_or(0, |&byte| byte.into())
    }

    fn changed(&self) -> Vec<NodeId> {
        self.tree.changed().collect()
    }

    fn step(&mut self, operation: u8) -> &'static str {
        match operation % 32 {
            0..=10 => self.reduce(),
            11 => self.ask(),
            12 => self.minimal_conflict(),
            13 => self.open(),
            14 => self.roll_back(),
            15 => self.commit(),
            16 => self.attempt(),
            17 => self.intersect(),
            18 => self.project(),
            19 => self.common_intervals(),
            20 => self.insert(),
            21 => self.insert_under(),
            22 => self.remove(),
            23 => self.replace(),
            24 => self.orders(),
            25 => self.again(),
            26 => self.reduce_several(),
            27..=29 => self.replace_set(),
            30 => self.reserve(),
            _ => self.bad_leaves(),
        }
    }

    /// Draws a set: a few leaves, or a run of an order that the tree admits, or such a run with one
    /// leaf exchanged.
    fn set(&mut self) -> Vec<u32> {
        let leaves = self.tree.len() as usize;
        let (how, size) = (self.byte(), self.byte());
        if leaves == 0 {
            return vec![];
        }
        let mut set = BTreeSet::new();
        if how % 4 == 0 {
            let count = if how % 8 == 0 { size % 5 } else { size % (leaves + 1) };
            set.extend((0..count).map(|_| (self.byte() % leaves) as u32));
        } else {
            let order = self.order();
            let size = 1 + if how % 8 < 6 { size % 6 } else { size };
            let begin = self.byte() % leaves;
            set.extend(&order[begin..leaves.min(begin + size)]);
            if how % 4 == 1 {
                set.remove(&order[begin]);
                set.insert((self.byte() % leaves) as u32);
            }
        }
        let mut set: Vec<u32> = set.into_iter().collect();
        if how % 16 < 8 {
            set.reverse();
        }
        set
    }

    /// Draws an order that the tree admits.
    fn order(&mut self) -> Vec<u32> {
        let bytes = &mut self.bytes;
        // One byte is enough for a whole tree: it is mixed again for each node.
        let mut state = bytes.next().map_or(0, |&byte| u32::from(byte));
        self.tree.sample_with(|count| {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            (state >> 16) % count
        })
    }

    fn ask(&mut self) -> &'static str {
        let set = self.set();
        let Some(model) = &self.model else { return "ask an empty tree" };
        let sorted: BTreeSet<u32> = set.iter().copied().collect();
        let can = model.reduce(&set);
        let is_fixed = can.as_ref().is_some_and(|reduced| reduced.text() == model.text());
        assert_eq!(self.tree.can_reduce(&set).is_ok(), can.is_some());
        assert_eq!(self.tree.conflict(&set).map(|it| it.is_none()), Ok(can.is_some()));
        assert_eq!(self.tree.is_consecutive(&set), Ok(is_fixed));
        let expected = if set.is_empty() { BTreeSet::new() } else { model.superset(&sorted) };
        let found = self.tree.smallest_consecutive_superset(&set).expect("a set");
        assert_eq!(found.len(), expected.len());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
        "ask"
    }

    fn open(&mut self) -> &'static str {
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
        let changed = self.changed();
        self.open.push((self.tree.checkpoint(), text, copy, self.model.clone()));
        assert!(self.tree.changed().eq(changed));
        "open"
    }

    fn roll_back(&mut self) -> &'static str {
        let Some((checkpoint, text, copy, model)) = self.open.pop() else {
            return "no open checkpoint";
        };
        self.tree.rollback(checkpoint);
        self.model = model;
        self.is_back(&text, &copy);
        assert_eq!(self.tree.changed().count(), 0);
        self.read_again();
        "roll back"
    }

    fn commit(&mut self) -> &'static str {
        let Some((checkpoint, ..)) = self.open.pop() else { return "no open checkpoint" };
        let changed = self.changed();
        self.tree.commit(checkpoint);
        assert!(self.tree.changed().eq(changed));
        "commit"
    }

    fn intersect(&mut self) -> &'static str {
        let mut other = PqTree::new(self.tree.len());
        let mut other_model = universal(0..self.tree.len());
        for _ in 0..3 {
            let set = self.set();
            let reduced = other_model.as_ref().and_then(|model| model.reduce(&set));
            assert_eq!(other.reduce(&set).is_ok(), reduced.is_some() || other_model.is_none());
            other_model = reduced.or(other_model);
        }
        assert_eq!(other.canonical().to_string(), text(&other_model));
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
        let (before, last_changed) = (lists(&self.tree), self.changed());
        let changed = self.tree.intersect(&other);
        let (Some(model), Some(other)) = (&self.model, other_model) else {
            return "intersect an empty tree";
        };
        let sets = other.restrictions();
        match sets.iter().try_fold(model.clone(), |model, set| model.reduce(set)) {
            Some(both) => {
                assert_eq!(changed, Ok(both.text() != model.text()));
                self.check_changed(&before);
                self.model = Some(both);
                "intersect"
            }
            None => {
                assert!(changed.is_err());
                self.is_back(&text, &copy);
                assert_eq!(self.changed(), last_changed);
                "intersect refused"
            }
        }
    }

    fn project(&mut self) -> &'static str {
        let mut kept = self.set();
        let at = kept.len().min(self.byte());
        kept.rotate_left(at);
        let name = |leaf| kept.iter().position(|&kept| kept == leaf).map(|at| at as u32);
        let by = &mut |leaf| name(leaf).map(Reference::Leaf);
        let expected = self.model.as_ref().and_then(|model| model.map(by));
        let projected = self.tree.project(&kept).expect("the leaves are different");
        assert_eq!(projected.canonical().to_string(), text(&expected));
        if kept.len() > 7 && self.open.is_empty() {
            (self.tree, self.model) = (projected, expected);
            self.read_again();
        }
        "project"
    }

    fn common_intervals(&mut self) -> &'static str {
        if self.tree.is_empty() || self.tree.len() > 40 {
            return "skip common intervals of many leaves";
        }
        let orders: Vec<Vec<u32>> = (0..1 + self.byte() % 3).map(|_| self.order()).collect();
        let tree = PqTree::from_orders(&orders).expect("orders");
        let model = Reference::of_orders(&orders);
        assert_eq!(tree.canonical().to_string(), model.text());
        if self.open.is_empty() {
            (self.tree, self.model) = (tree, Some(model));
            self.read_again();
        }
        "from orders"
    }

    fn reserve(&mut self) -> &'static str {
        let (written, leaves) = (self.tree.to_string(), self.byte() as u32 % 100);
        self.tree.reserve(leaves).expect("there are few leaves");
        assert_eq!(self.tree.to_string(), written);
        "reserve"
    }

    fn orders(&mut self) -> &'static str {
        let Some(model) = self.model.clone() else { return "orders of an empty tree" };
        let count = model.count();
        assert_eq!(self.tree.orders_count(), count);
        let exact = self.tree.orders_count_exact();
        assert_eq!(exact.to_u128(), count);
        assert!((exact.bits() as f64 - self.tree.orders_log2() - 0.5).abs() < 0.5 + 1e-9);
        assert!(count.is_none_or(|count| exact.to_string() == count.to_string()));
        if let Some(count) = count {
            let log2 = (count as f64).log2();
            assert!((self.tree.orders_log2() - log2).abs() < 1e-9 * log2.max(1.0));
            assert_eq!(self.tree.nth_order(count), None);
        }
        let index = (0..16).fold(0, |index, _| index << 8 | self.byte() as u128);
        let order = self.tree.nth_order(index % count.unwrap_or(u128::MAX)).expect("below");
        assert!(model.admits(&order) && self.tree.contains_order(&order));
        for next in self.tree.orders().take(3) {
            assert!(model.admits(&next));
        }
        let mut other = self.order();
        assert!(model.admits(&other));
        let (a, b) = (self.byte() % other.len(), self.byte() % other.len());
        other.swap(a, b);
        assert_eq!(self.tree.contains_order(&other), model.admits(&other));
        "orders"
    }

    /// Rebuilds the tree from its text, its restrictions, and its canonical form.
    fn again(&mut self) -> &'static str {
        let written = self.tree.to_string();
        let read: PqTree = written.parse().expect("the tree's own text");
        assert_eq!(read.to_string(), written);
        let mut reduced = PqTree::new(self.tree.len());
        reduced.reduce_all(self.tree.restrictions()).expect("a new tree accepts them");
        let canonical = self.tree.canonical();
        for other in [&read, &reduced, &canonical] {
            assert_eq!(other, &self.tree);
            assert_eq!(self.hash.hash_one(other), self.hash.hash_one(&self.tree));
        }
        assert_eq!(canonical.to_string(), reduced.canonical().to_string());
        "again"
    }

    fn bad_leaves(&mut self) -> &'static str {
        let leaves = self.tree.len();
        let mut set = self.set();
        set.push(set.first().copied().unwrap_or(leaves));
        let at = self.byte() % set.len();
        set.rotate_left(at);
        let text = self.tree.to_string();
        let changed = self.changed();
        let tree = &mut self.tree;
        assert!(tree.reduce(&set).is_err_and(|error| error != pqtree::ReduceError::Conflict));
        assert!(tree.can_reduce(&set).is_err() && tree.is_consecutive(&set).is_err());
        assert!(tree.conflict(&set).is_err() && tree.project(&set).is_err());
        assert!(tree.smallest_consecutive_superset(&set).is_err());
        assert!(tree.reduce_greedy([&set]).is_err());
        assert!(tree.remove(leaves).is_err() && tree.replace(leaves, &PqTree::new(1)).is_err());
        assert_eq!(tree.to_string(), text);
        assert_eq!(self.changed(), changed);
        "bad leaves"
    }
}
