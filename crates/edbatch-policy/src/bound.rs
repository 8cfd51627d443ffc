//! No schedule has fewer batches than this.

use edbatch_graph::Dag;

use crate::{Chains, Frontier};

/// The sum, over the kinds, of the longest chain of that kind. Nodes of one chain need a batch
/// each, and a batch serves one kind: no schedule has fewer batches.
///
/// *Source*: appendix A.3 of the paper, with transitive chains (see [`Chains`]): on the authors'
/// lattices they give 239 where direct edges give 14.
///
/// ```
/// let chain = edbatch_graph::parse_text("3\n0 0\n1 1 0\n0 1 1\n")?;
/// assert_eq!(edbatch_policy::lower_bound(&chain), 3);
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[must_use]
pub fn lower_bound(dag: &impl Dag) -> usize {
    Chains::new(&Frontier::new(dag)).bound()
}
