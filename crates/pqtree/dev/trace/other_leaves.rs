//! Operations that change the leaves of a tree.

use super::{MAX_LEAVES, Trace};
use crate::model::universal;
use crate::reference::Reference;
use pqtree::{NodeId, PqTree};
use std::collections::{BTreeMap, BTreeSet};

impl Trace<'_> {
    pub(super) fn insert(&mut self) -> &'static str {
        let new = self.tree.len();
        if new >= MAX_LEAVES {
            return "full";
        }
        assert_eq!(self.tree.insert(), Ok(new));
        self.model = Some(match &self.model {
            Some(model) => model.insert_under(&(0..new).collect(), new),
            None => Reference::Leaf(0),
        });
        "insert"
    }

    pub(super) fn insert_under(&mut self) -> &'static str {
        let new = self.tree.len();
        let Some(node) = self.node() else { return "insert under, empty tree" };
        if new >= MAX_LEAVES {
            return "full";
        }
        let below = self.tree.leaves_of(node).collect();
        assert_eq!(self.tree.insert_under(node), Ok(new));
        self.model = self.model.as_ref().map(|model| model.insert_under(&below, new));
        "insert under a node"
    }

    fn node(&mut self) -> Option<NodeId> {
        let place = self.byte() % self.tree.pre_order().count().max(1);
        self.tree.pre_order().nth(place)
    }

    pub(super) fn remove(&mut self) -> &'static str {
        let leaves = self.tree.len();
        if leaves == 0 {
            return "remove from an empty tree";
        }
        let leaf = self.byte() as u32 % leaves;
        self.tree.remove(leaf).expect("in range");
        let rename =
            |other: u32| (other != leaf).then(|| Reference::Leaf(other - u32::from(other > leaf)));
        self.model = self.model.as_ref().and_then(|model| model.map(&mut { rename }));
        "remove"
    }

    pub(super) fn replace(&mut self) -> &'static str {
        let leaves = self.tree.len();
        let count = self.byte() as u32 % 6;
        if leaves == 0 || leaves + count > MAX_LEAVES {
            return "replace, no room";
        }
        let leaf = self.byte() as u32 % leaves;
        let (mut by, mut model) = (PqTree::new(count), universal(0..count));
        if count > 3 {
            by.reduce(&[0, 1]).and_then(|_| by.reduce(&[1, 2])).expect("a path");
            model = model.and_then(|model| model.reduce(&[0, 1])?.reduce(&[1, 2]));
        }
        self.tree.replace(leaf, &by).expect("in range");
        let name = |inner: u32| if inner == 0 { leaf } else { leaves + inner - 1 };
        let named = model.and_then(|it| it.map(&mut |inner| Some(Reference::Leaf(name(inner)))));
        // The empty tree removes the leaf, and later leaves get smaller numbers.
        let rename = |other: u32| other - u32::from(count == 0 && other > leaf);
        let mut put = |other| match other == leaf {
            true => named.clone(),
            false => Some(Reference::Leaf(rename(other))),
        };
        self.model = self.model.as_ref().and_then(|model| model.map(&mut put));
        "replace"
    }

    /// Reduces a set and replaces it by several leaves, by one, or by none.
    pub(super) fn replace_set(&mut self) -> &'static str {
        let set = self.set();
        let count = [0, 1, 1, 2, 3, 9][self.byte() % 6].min(MAX_LEAVES - self.tree.len());
        let (text, copy) = (self.tree.to_string(), self.tree.clone());
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
            return "replace a set, refused";
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
        match count {
            0 => "remove a set",
            1 => "merge",
            _ => "replace a set",
        }
    }
}
