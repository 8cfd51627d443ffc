//! A tree as flat arrays in post-order: children before their parent, left to right, so a model
//! can process it in one pass.
//!
//! *Invariant.* Nodes are 0 … len-1 in post-order; the root is the last node; every other node is
//! the child of exactly one node with a higher number. Nothing recurses, so a tree of depth 100,000
//! can be built, traversed and dropped. *Cost.* A label, an optional token and 8 bytes per node;
//! no allocation per node.

/// A tree of any arity, with a label and an optional token at every node. Usually only leaves have
/// tokens.
///
/// ```
/// use edbatch_datasets::{Vocabulary, parse_binary_trees};
///
/// let text = "(3 (2 good) (2 (2 old) (2 film)))\n";
/// let tree = parse_binary_trees(text.as_bytes(), "text").next().unwrap()?;
/// assert_eq!((tree.len(), tree.root(), tree.depth()), (5, 4, 3));
/// assert_eq!(tree.children(4), [0, 3]);
/// assert_eq!((tree.label(4).as_str(), tree.token(0).unwrap().as_str()), ("3", "good"));
///
/// let words = Vocabulary::from_tokens(["old", "film"]);
/// let ids = tree.map(|label| label.parse().unwrap_or(0), |token| words.id(token));
/// assert_eq!((ids.label(4), ids.token(0), ids.token(1)), (&3, Some(&0), Some(&1)));
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree<T = String> {
    labels: Vec<T>,
    tokens: Vec<Option<T>>,
    /// The children of node `i` are `children[ends[i - 1]..ends[i]]`.
    ends: Vec<u32>,
    children: Vec<u32>,
}

impl<T> Tree<T> {
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns true if there are no nodes. No reader returns such a tree.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the children of node `i`, from left to right.
    ///
    /// # Panics
    ///
    /// If `i` is out of range.
    pub fn children(&self, i: usize) -> &[u32] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.children[start as usize..self.ends[i] as usize]
    }

    /// Returns the label of node `i`.
    ///
    /// # Panics
    ///
    /// If `i` is out of range.
    pub fn label(&self, i: usize) -> &T {
        &self.labels[i]
    }

    /// Returns the token of node `i`, if it has one.
    ///
    /// # Panics
    ///
    /// If `i` is out of range.
    pub fn token(&self, i: usize) -> Option<&T> {
        self.tokens[i].as_ref()
    }

    /// Returns the root, which is the last node.
    ///
    /// # Panics
    ///
    /// If the tree is empty.
    pub fn root(&self) -> usize {
        self.len().checked_sub(1).expect("an empty tree has no root")
    }

    /// Returns the number of nodes without children.
    pub fn leaves(&self) -> usize {
        (0..self.len()).filter(|&i| self.children(i).is_empty()).count()
    }

    /// Iterates over the tokens from left to right.
    pub fn tokens(&self) -> impl Iterator<Item = &T> {
        self.tokens.iter().flatten()
    }

    /// Returns the number of nodes on the longest path from the root to a leaf: 1 for a single
    /// node, 0 for an empty tree.
    pub fn depth(&self) -> usize {
        let mut depths: Vec<u32> = Vec::with_capacity(self.len());
        for i in 0..self.len() {
            let below = self.children(i).iter().map(|&child| depths[child as usize]).max();
            depths.push(below.unwrap_or(0) + 1);
        }
        depths.last().map_or(0, |&depth| depth as usize)
    }

    /// Maps labels and tokens, for example to their numbers in a vocabulary.
    pub fn map<U>(&self, label: impl FnMut(&T) -> U, token: impl FnMut(&T) -> U) -> Tree<U> {
        let mut token = token;
        Tree {
            labels: self.labels.iter().map(label).collect(),
            tokens: self.tokens.iter().map(|t| t.as_ref().map(&mut token)).collect(),
            ends: self.ends.clone(),
            children: self.children.clone(),
        }
    }
}

/// A builder of a [`Tree`] in post-order: each new node becomes the parent of the last `arity`
/// nodes without a parent.
///
/// ```
/// let mut tree = edbatch_datasets::TreeBuilder::new();
/// tree.push("NN", Some("film"), 0);
/// tree.push("NP", None, 1);
/// let tree = tree.finish();
/// assert_eq!(tree.children(1), [0]);
/// ```
#[derive(Debug, Clone)]
pub struct TreeBuilder<T = String> {
    tree: Tree<T>,
    /// Nodes without a parent, in post-order.
    roots: Vec<u32>,
}

impl<T> TreeBuilder<T> {
    /// Creates a builder without nodes.
    pub fn new() -> Self {
        let tree =
            Tree { labels: Vec::new(), tokens: Vec::new(), ends: Vec::new(), children: Vec::new() };
        TreeBuilder { tree, roots: Vec::new() }
    }

    /// Adds a node as the parent of the last `arity` nodes without a parent. Returns its number.
    ///
    /// # Panics
    ///
    /// If fewer than `arity` nodes are without a parent, or the tree has 2³² nodes.
    pub fn push(&mut self, label: T, token: Option<T>, arity: usize) -> u32 {
        let node = u32::try_from(self.tree.len()).expect("a tree has fewer than 2^32 nodes");
        let first = self.roots.len().checked_sub(arity).expect("children come before their parent");
        self.tree.children.extend(self.roots.drain(first..));
        self.tree.ends.push(self.tree.children.len() as u32);
        self.tree.labels.push(label);
        self.tree.tokens.push(token);
        self.roots.push(node);
        node
    }

    /// Returns the tree.
    ///
    /// # Panics
    ///
    /// If more than one node is without a parent.
    pub fn finish(self) -> Tree<T> {
        assert!(self.roots.len() <= 1, "a tree has one root, got {}", self.roots.len());
        self.tree
    }
}

impl<T> Default for TreeBuilder<T> {
    fn default() -> Self {
        TreeBuilder::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_in_order() {
        let mut tree = TreeBuilder::new();
        for leaf in ["a", "b", "c"] {
            tree.push("leaf", Some(leaf), 0);
        }
        tree.push("two", None, 2);
        tree.push("root", None, 2);
        let tree = tree.finish();
        assert_eq!(
            (tree.children(3), tree.children(4), tree.children(0)),
            (&[1, 2][..], &[0, 3][..], &[][..])
        );
        assert_eq!((tree.depth(), tree.leaves(), tree.root()), (3, 3, 4));
        assert_eq!(tree.tokens().copied().collect::<String>(), "abc");
    }

    #[test]
    fn an_empty_tree_has_depth_0() {
        assert_eq!(TreeBuilder::<String>::new().finish().depth(), 0);
    }
}
