//! Runs a trace of operations, read from bytes, on a tree and on a slow model of it; panics where
//! they differ.
//!
//! The model is the recursive reference, on which every operation is done in the plainest way. The
//! first byte says how many leaves there are; sets are drawn so that many can be reduced.

use crate::model::{Model, text, universal};
use crate::reference::Reference;
use pqtree::{Checkpoint, Kind, NodeId, PqTree};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

/// Trees grow no larger than this.
const MOST_LEAVES: u32 = 80;

/// What a trace covered: how often each operation was done, by name.
pub(crate) type Covered = BTreeMap<&'static str, u64>;

pub(crate) fn run(bytes: &[u8]) -> Covered {
    let Some((&first, rest)) = bytes.split_first() else { return Covered::new() };
    let leaves = u32::from(first) % (MOST_LEAVES + 1);
    let mut trace = Trace {
        bytes: rest.iter(),
        tree: PqTree::new(leaves),
        model: universal(0..leaves),
        open: Vec::new(),
        hash: RandomState::new(),
        covered: Covered::new(),
    };
    while let Some(&operation) = trace.bytes.next() {
        let name = trace.step(operation);
        *trace.covered.entry(name).or_default() += 1;
        trace.check();
    }
    trace.covered
}

struct Trace<'a> {
    bytes: std::slice::Iter<'a, u8>,
    tree: PqTree,
    model: Model,
    /// Of each open checkpoint: the text then, a copy, and the model.
    open: Vec<(Checkpoint, String, PqTree, Model)>,
    hash: RandomState,
    covered: Covered,
}

impl Trace<'_> {
    fn byte(&mut self) -> usize {
        self.bytes.next().map_or(0, |&byte| byte.into())
    }

    fn step(&mut self, operation: u8) -> &'static str {
        match operation % 32 {
            0..=10 => self.reduce(),
            11..=12 => self.ask(),
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

    /// A set: a few leaves, or what is together in an order that the tree admits, or that with a
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

    /// An order that the tree admits.
    fn order(&mut self) -> Vec<u32> {
        let bytes = &mut self.bytes;
        // One byte a tree is enough to choose by: it is stirred for each node.
        let mut state = bytes.next().map_or(0, |&byte| u32::from(byte));
        self.tree.sample_with(|count| {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            (state >> 16) % count
        })
    }

    fn reduce(&mut self) -> &'static str {
        let set = self.set();
        let (text, hash) = (self.tree.to_string(), self.hash.hash_one(&self.tree));
        let expected = self.tree.can_reduce(&set);
        let implied = self.tree.is_consecutive(&set).expect("a set");
        assert_eq!(self.tree.to_string(), text, "looking changes nothing");
        let before = lists(&self.tree);
        let last_changed: Vec<NodeId> = self.tree.changed().collect();
        let model = self.model.as_ref().map(|model| model.reduce(&set));
        match self.tree.reduce(&set) {
            Ok(reduced) => {
                assert_eq!(expected, Ok(()));
                assert_eq!(reduced.changed, !implied);
                assert_eq!(reduced.changed, self.tree.to_string() != text);
                self.check_changed(&before);
                assert_eq!(self.tree.is_consecutive(&set), Ok(true));
                assert_eq!(self.tree.conflict(&set), Ok(None));
                self.check_home(reduced.home, &set);
                self.model = model.map(|model| model.expect("the tree could"));
                if reduced.changed { "reduced" } else { "implied" }
            }
            Err(error) => {
                assert_eq!(expected, Err(error));
                assert_eq!((self.tree.to_string(), self.hash.hash_one(&self.tree)), (text, hash));
                check_proof(&mut self.tree, &set);
                assert_eq!(self.tree.changed().collect::<Vec<_>>(), last_changed);
                assert!(model.flatten().is_none(), "{set:?} in {}", self.tree);
                "refused"
            }
        }
    }

    /// Each node whose children are not those from before is named, once, and no other.
    fn check_changed(&self, before: &BTreeMap<NodeId, (Kind, Vec<NodeId>)>) {
        let after = lists(&self.tree);
        let altered = after.iter().filter(|&(node, list)| before.get(node) != Some(list));
        let expected: Vec<NodeId> = altered.map(|(&node, _)| node).collect();
        let mut found: Vec<NodeId> = self.tree.changed().collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{before:?}, then {after:?}");
    }

    /// All of the set is below its home, and all of the home's leaves, or of a Q-node a run of its
    /// children, are in the set.
    fn check_home(&self, home: Option<NodeId>, set: &[u32]) {
        let tree = &self.tree;
        let Some(home) = home else {
            return assert!(set.is_empty());
        };
        let inside = |node| tree.leaves_of(node).all(|leaf| set.contains(&leaf));
        if inside(home) {
            return assert_eq!(tree.leaves_of(home).count(), set.len());
        }
        assert_eq!(tree.kind(home), Kind::Q);
        let run = tree.children(home).filter(|&child| inside(child));
        assert_eq!(run.map(|child| tree.leaves_of(child).count()).sum::<usize>(), set.len());
    }

    fn ask(&mut self) -> &'static str {
        let set = self.set();
        let Some(model) = &self.model else { return "ask nothing" };
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
        let changed: Vec<NodeId> = self.tree.changed().collect();
        self.open.push((self.tree.checkpoint(), text, copy, self.model.clone()));
        assert!(self.tree.changed().eq(changed));
        "open"
    }

    fn roll_back(&mut self) -> &'static str {
        let Some((checkpoint, text, copy, model)) = self.open.pop() else { return "none open" };
        self.tree.rollback(checkpoint);
        self.model = model;
        self.is_back(&text, &copy);
        assert_eq!(self.tree.changed().count(), 0);
        "roll back"
    }

    fn is_back(&self, text: &str, copy: &PqTree) {
        assert_eq!(self.tree.to_string(), text, "rolled back");
        assert_eq!(&self.tree, copy);
        assert_eq!(self.hash.hash_one(&self.tree), self.hash.hash_one(copy));
        assert_eq!(lists(&self.tree), lists(copy), "even the names of nodes");
    }

    fn commit(&mut self) -> &'static str {
        let Some((checkpoint, ..)) = self.open.pop() else { return "none open" };
        let changed: Vec<NodeId> = self.tree.changed().collect();
        self.tree.commit(checkpoint);
        assert!(self.tree.changed().eq(changed));
        "commit"
    }

    fn attempt(&mut self) -> &'static str {
        let (one, two) = (self.set(), self.set());
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
        let mut before = BTreeMap::new();
        let result = self.tree.attempt(|tree| {
            tree.reduce(&one)?;
            let _ = tree.checkpoint();
            before = lists(tree);
            tree.reduce(&two)
        });
        match result {
            Ok(_) => self.check_changed(&before),
            Err(_) => assert_eq!(self.tree.changed().count(), 0),
        }
        let Some(model) = &self.model else { return "attempt nothing" };
        let both = model.reduce(&one).and_then(|model| model.reduce(&two));
        assert_eq!(result.is_ok(), both.is_some());
        match both {
            Some(both) => self.model = Some(both),
            None => self.is_back(&text, &copy),
        }
        "attempt"
    }

    fn reduce_several(&mut self) -> &'static str {
        let sets = [self.set(), self.set(), self.set()];
        let Some(mut model) = self.model.clone() else { return "reduce several of none" };
        let first_failure = {
            let mut model = Some(model.clone());
            sets.iter().position(|set| {
                model = model.as_ref().and_then(|model| model.reduce(set));
                model.is_none()
            })
        };
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
        let all = self.tree.reduce_all(&sets);
        assert_eq!(all.err().map(|error| error.index), first_failure);
        if first_failure.is_some() {
            self.is_back(&text, &copy);
            assert_eq!(self.tree.changed().count(), 0);
        }
        let mut reduce = |set: &Vec<u32>| model.reduce(set).map(|next| model = next).is_some();
        let expected: Vec<bool> = sets.iter().map(&mut reduce).collect();
        assert_eq!(self.tree.reduce_greedy(&sets), Ok(expected));
        self.model = Some(model);
        "reduce several"
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
        let changed = self.tree.intersect(&other);
        let (Some(model), Some(other)) = (&self.model, other_model) else {
            return "intersect nothing";
        };
        let sets = other.restrictions();
        match sets.iter().try_fold(model.clone(), |model, set| model.reduce(set)) {
            Some(both) => {
                assert_eq!(changed, Ok(both.text() != model.text()));
                self.model = Some(both);
                "intersect"
            }
            None => {
                assert!(changed.is_err());
                self.is_back(&text, &copy);
                assert_eq!(self.tree.changed().count(), 0);
                "intersect in vain"
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
        let projected = self.tree.project(&kept).expect("different leaves");
        assert_eq!(projected.canonical().to_string(), text(&expected));
        if kept.len() > 7 && self.open.is_empty() {
            (self.tree, self.model) = (projected, expected);
        }
        "project"
    }

    fn common_intervals(&mut self) -> &'static str {
        if self.tree.is_empty() || self.tree.len() > 40 {
            return "too many for common intervals";
        }
        let orders: Vec<Vec<u32>> = (0..1 + self.byte() % 3).map(|_| self.order()).collect();
        let tree = PqTree::from_orders(&orders).expect("orders");
        let model = Reference::of_orders(&orders);
        assert_eq!(tree.canonical().to_string(), model.text());
        if self.open.is_empty() {
            (self.tree, self.model) = (tree, Some(model));
        }
        "from orders"
    }

    fn insert(&mut self) -> &'static str {
        let new = self.tree.len();
        if new >= MOST_LEAVES {
            return "full";
        }
        let (before, bound) = (lists(&self.tree), self.tree.node_bound());
        assert_eq!(self.tree.insert(), Ok(new));
        self.check_changed_unless_renumbered(&before, bound);
        self.model = Some(match &self.model {
            Some(model) => model.insert_under(&(0..new).collect(), new),
            None => Reference::Leaf(0),
        });
        "insert"
    }

    fn insert_under(&mut self) -> &'static str {
        let new = self.tree.len();
        let Some(node) = self.node() else { return "insert under nothing" };
        if new >= MOST_LEAVES {
            return "full";
        }
        let below = self.tree.leaves_of(node).collect();
        let before = lists(&self.tree);
        let bound = self.tree.node_bound();
        assert_eq!(self.tree.insert_under(node), Ok(new));
        self.check_changed_unless_renumbered(&before, bound);
        self.model = self.model.as_ref().map(|model| model.insert_under(&below, new));
        "insert under a node"
    }

    fn node(&mut self) -> Option<NodeId> {
        let place = self.byte() % self.tree.pre_order().count().max(1);
        self.tree.pre_order().nth(place)
    }

    fn remove(&mut self) -> &'static str {
        let leaves = self.tree.len();
        if leaves == 0 {
            return "remove nothing";
        }
        let leaf = self.byte() as u32 % leaves;
        self.tree.remove(leaf).expect("in range");
        assert_eq!(self.tree.changed().count(), 0);
        let rename =
            |other: u32| (other != leaf).then(|| Reference::Leaf(other - u32::from(other > leaf)));
        self.model = self.model.as_ref().and_then(|model| model.map(&mut { rename }));
        "remove"
    }

    fn replace(&mut self) -> &'static str {
        let leaves = self.tree.len();
        let count = self.byte() as u32 % 6;
        if leaves == 0 || leaves + count > MOST_LEAVES {
            return "replace nothing";
        }
        let leaf = self.byte() as u32 % leaves;
        let (mut by, mut model) = (PqTree::new(count), universal(0..count));
        if count > 3 {
            by.reduce(&[0, 1]).and_then(|_| by.reduce(&[1, 2])).expect("a path");
            model = model.and_then(|model| model.reduce(&[0, 1])?.reduce(&[1, 2]));
        }
        let (before, bound) = (lists(&self.tree), self.tree.node_bound());
        self.tree.replace(leaf, &by).expect("in range");
        match count {
            0 => assert_eq!(self.tree.changed().count(), 0),
            _ => self.check_changed_unless_renumbered(&before, bound),
        }
        let name = |inner: u32| if inner == 0 { leaf } else { leaves + inner - 1 };
        let named = model.and_then(|it| it.map(&mut |inner| Some(Reference::Leaf(name(inner)))));
        // The empty tree removes the leaf, and the others move up.
        let rename = |other: u32| other - u32::from(count == 0 && other > leaf);
        let mut put = |other| match other == leaf {
            true => named.clone(),
            false => Some(Reference::Leaf(rename(other))),
        };
        self.model = self.model.as_ref().and_then(|model| model.map(&mut put));
        "replace"
    }

    /// Reduces a set and replaces it by some leaves, by one, or by none.
    fn replace_set(&mut self) -> &'static str {
        let set = self.set();
        let count = [0, 1, 1, 2, 3, 9][self.byte() % 6].min(MOST_LEAVES - self.tree.len());
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
        let (before, bound) = (lists(&self.tree), self.tree.node_bound());
        let leaves = self.tree.len();
        let result = self.tree.replace_set(&set, count);
        let reduced = self.model.as_ref().and_then(|model| model.reduce(&set));
        let (Ok(replaced), Some(reduced), false) = (&result, reduced, set.is_empty()) else {
            assert!(
                result.is_err()
                    && self
                        .model
                        .as_ref()
                        .is_none_or(|it| it.reduce(&set).is_none() || set.is_empty())
            );
            self.is_back(&text, &copy);
            return "replace a set in vain";
        };
        let set: BTreeSet<u32> = set.into_iter().collect();
        let new: Vec<u32> = set.iter().copied().chain(leaves..).take(count as usize).collect();
        assert_eq!(replaced.leaves, new);
        let model = reduced.put(&set, universal(new));
        let mut names = model.as_ref().map_or_else(Vec::new, Reference::leaves);
        names.sort_unstable();
        let after = names.len() as u32;
        let free: Vec<u32> = (0..after).filter(|leaf| !names.contains(leaf)).collect();
        let large = names.iter().copied().filter(|&leaf| leaf >= after);
        let moved: BTreeMap<u32, u32> = large.zip(free).collect();
        assert!(replaced.moved.iter().copied().eq(moved.clone()));
        let name = |leaf: u32| *moved.get(&leaf).unwrap_or(&leaf);
        self.model = model.and_then(|it| it.map(&mut |leaf| Some(Reference::Leaf(name(leaf)))));
        assert_eq!(self.tree.len(), after);
        self.check_changed_unless_renumbered(&before, bound);
        match count {
            0 => "remove a set",
            1 => "merge",
            _ => "replace a set",
        }
    }

    /// Each node whose children are not those from before is named. Between the reduction and the
    /// replacement a node may have had others, and be named for that.
    fn check_changed_unless_renumbered(
        &self,
        before: &BTreeMap<NodeId, (Kind, Vec<NodeId>)>,
        bound: usize,
    ) {
        // Inner nodes keep their numbers while there are numbers to spare for leaves.
        if self.tree.node_bound() <= bound + 2 {
            let found: BTreeSet<NodeId> = self.tree.changed().collect();
            let after = lists(&self.tree);
            let altered = after.iter().filter(|&(node, list)| before.get(node) != Some(list));
            assert!(altered.map(|(node, _)| node).all(|node| found.contains(node)));
            assert_eq!(found.len(), self.tree.changed().count(), "each once");
        }
    }

    fn reserve(&mut self) -> &'static str {
        let (written, leaves) = (self.tree.to_string(), self.byte() as u32 % 100);
        self.tree.reserve(leaves).expect("not many");
        assert_eq!(self.tree.to_string(), written);
        "reserve"
    }

    fn orders(&mut self) -> &'static str {
        let Some(model) = self.model.clone() else { return "orders of nothing" };
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

    /// The same tree, from its text, its restrictions, its canonical form.
    fn again(&mut self) -> &'static str {
        let written = self.tree.to_string();
        let read: PqTree = written.parse().expect("its own text");
        assert_eq!(read.to_string(), written);
        let mut reduced = PqTree::new(self.tree.len());
        reduced.reduce_all(self.tree.restrictions()).expect("its own restrictions");
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
        let changed: Vec<NodeId> = self.tree.changed().collect();
        let tree = &mut self.tree;
        assert!(tree.reduce(&set).is_err_and(|error| error != pqtree::ReduceError::Conflict));
        assert!(tree.can_reduce(&set).is_err() && tree.is_consecutive(&set).is_err());
        assert!(tree.conflict(&set).is_err() && tree.project(&set).is_err());
        assert!(tree.smallest_consecutive_superset(&set).is_err());
        assert!(tree.reduce_greedy([&set]).is_err());
        assert!(tree.remove(leaves).is_err() && tree.replace(leaves, &PqTree::new(1)).is_err());
        assert_eq!(tree.to_string(), text);
        assert_eq!(tree.changed().collect::<Vec<_>>(), changed);
        "bad leaves"
    }

    /// What has to hold after any operation.
    fn check(&self) {
        let tree = &self.tree;
        assert_eq!(tree.canonical().to_string(), text(&self.model));
        let mut frontier = vec![0; tree.len() as usize];
        tree.write_frontier(&mut frontier);
        assert!(frontier.iter().copied().eq(tree.frontier()));
        assert!(tree.contains_order(&frontier));
        let changed: BTreeSet<NodeId> = tree.changed().collect();
        assert_eq!(changed.len(), tree.changed().count(), "each once");
        assert!(changed.iter().all(|&node| tree.degree(node) > 0), "inner nodes that are there");
        let nodes: Vec<_> = tree.pre_order().collect();
        assert_eq!(nodes.len(), tree.post_order().count());
        assert_eq!(nodes.first().copied(), tree.root());
        let (p_nodes, q_nodes) = tree.count_nodes();
        assert_eq!(nodes.len(), p_nodes + q_nodes + tree.len() as usize);
        assert!(tree.root().is_none_or(|root| tree.parent(root).is_none()));
        for node in nodes {
            assert!(tree.contains(node) && node.index() < tree.node_bound());
            let children: Vec<_> = tree.children(node).collect();
            assert_eq!(children.len(), tree.degree(node) as usize);
            let fewest = match tree.kind(node) {
                Kind::Leaf => 0,
                Kind::P => 2,
                Kind::Q => 3,
            };
            assert!(children.len() >= fewest);
            assert!(children.iter().all(|&child| tree.parent(child) == Some(node)));
            for (at, &child) in children.iter().enumerate() {
                let before = at.checked_sub(1).map(|at| children[at]);
                let beside = [before, children.get(at + 1).copied()];
                let found = tree.siblings(child);
                assert!(found == beside || found == [beside[1], beside[0]]);
            }
        }
    }
}

/// Each inner node with its kind and its children, in their order.
fn lists(tree: &PqTree) -> BTreeMap<NodeId, (Kind, Vec<NodeId>)> {
    let inner = tree.pre_order().filter(|&node| tree.kind(node) != Kind::Leaf);
    inner.map(|node| (node, (tree.kind(node), tree.children(node).collect()))).collect()
}

/// The leaves that a conflict names prove it on their own.
pub(crate) fn check_proof(tree: &mut PqTree, set: &[u32]) {
    let conflict = tree.conflict(set).expect("a set").expect("it was refused");
    let (inside, outside) = (conflict.inside(), conflict.outside());
    assert!(inside.iter().all(|leaf| set.contains(leaf)), "{conflict:?} of {set:?} in {tree}");
    assert!(outside.iter().all(|leaf| !set.contains(leaf)), "{conflict:?} of {set:?} in {tree}");
    let mut part = tree.project(&[inside.clone(), outside].concat()).expect("different leaves");
    let kept: Vec<u32> = (0..inside.len() as u32).collect();
    assert!(part.can_reduce(&kept).is_err(), "{conflict:?} of {set:?} in {tree}");
}
