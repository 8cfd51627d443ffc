//! A lower bound on the number of batches of any schedule.

use edbatch_graph::Dag;

use crate::{Chains, Frontier};

/// Returns the sum of the longest chains of all kinds. No schedule has fewer batches: the nodes of
/// a chain need one batch each, and a batch has one kind.
///
/// *Source*: appendix A.3 of the paper, with transitive chains (see [`Chains`]). On one of the
/// authors' lattices the bound is 239; with direct edges only it would be 14.
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
