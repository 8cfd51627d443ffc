//! Trees as pictures, in the language of Graphviz.

use crate::node::Kind;
use crate::tree::PqTree;
use core::fmt;

impl PqTree {
    /// The tree in the DOT language: leaves as plain numbers, P-nodes as circles, Q-nodes as boxes.
    ///
    /// ```
    /// let dot = pqtree::PqTree::new(2).dot().to_string();
    /// assert!(dot.starts_with("graph pqtree {"));
    /// ```
    pub fn dot(&self) -> Dot<'_> {
        Dot(self)
    }
}

/// A tree that displays itself in the DOT language. See [`PqTree::dot`].
#[derive(Clone, Copy, Debug)]
pub struct Dot<'a>(&'a PqTree);

impl fmt::Display for Dot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(tree) = self;
        writeln!(f, "graph pqtree {{")?;
        writeln!(f, "  ordering=out")?;
        for node in tree.pre_order() {
            let name = node.index();
            match tree.kind(node) {
                Kind::Leaf => writeln!(f, "  {name} [shape=plaintext]")?,
                Kind::P => writeln!(f, "  {name} [shape=circle label=P]")?,
                Kind::Q => writeln!(f, "  {name} [shape=box label=Q]")?,
            }
            for child in tree.children(node) {
                writeln!(f, "  {name} -- {}", child.index())?;
            }
        }
        writeln!(f, "}}")
    }
}
