//! Drawings of trees, in the DOT language of Graphviz.

use crate::node::Kind;
use crate::tree::PqTree;
use core::fmt;

impl PqTree {
    /// Returns the tree in the DOT language: leaves are numbers, P-nodes circles, Q-nodes boxes.
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

impl PqTree {
    /// Writes the tree in the DOT language. `write_label` adds attributes to a leaf.
    pub(crate) fn write_dot(
        &self,
        f: &mut fmt::Formatter<'_>,
        mut write_label: impl FnMut(&mut fmt::Formatter<'_>, u32) -> fmt::Result,
    ) -> fmt::Result {
        writeln!(f, "graph pqtree {{")?;
        writeln!(f, "  ordering=out")?;
        for node in self.pre_order() {
            let name = node.index();
            match self.kind(node) {
                Kind::Leaf => {
                    write!(f, "  {name} [shape=plaintext")?;
                    write_label(f, name as u32)?;
                    writeln!(f, "]")?;
                }
                Kind::P => writeln!(f, "  {name} [shape=circle label=P]")?,
                Kind::Q => writeln!(f, "  {name} [shape=box label=Q]")?,
            }
            for child in self.children(node) {
                writeln!(f, "  {name} -- {}", child.index())?;
            }
        }
        writeln!(f, "}}")
    }
}

impl fmt::Display for Dot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_dot(f, |_, _| Ok(()))
    }
}
