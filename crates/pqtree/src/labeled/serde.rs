//! Serialisation of trees with labels: the text of the tree, and the labels by leaf.

use super::Labeled;
use crate::tree::PqTree;
use alloc::vec::Vec;
use core::hash::Hash;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeStruct, Serializer};

impl<T: Serialize> Serialize for Labeled<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let labels: Vec<&T> = (0..self.len()).map(|leaf| self.label(leaf)).collect();
        let mut parts = serializer.serialize_struct("Labeled", 2)?;
        parts.serialize_field("tree", &self.tree)?;
        parts.serialize_field("labels", &labels)?;
        parts.end()
    }
}

#[derive(serde::Deserialize)]
struct Parts<T> {
    tree: PqTree,
    labels: Vec<T>,
}

impl<'de, T: Deserialize<'de> + Eq + Hash> Deserialize<'de> for Labeled<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Parts { tree, labels } = Parts::deserialize(deserializer)?;
        let (leaves, count) = (tree.len(), labels.len());
        if leaves as usize != count {
            let error = format_args!("expected {leaves} labels, one per leaf, got {count}");
            return Err(D::Error::custom(error));
        }
        Self::with_tree(tree, labels).map_err(D::Error::custom)
    }
}
