//! Aligned layouts: an order of variables in memory that lets batches read their operands in place.
//!
//! A batch runs one operation several times. It reads an operand in place if the operand's
//! variables are adjacent in memory, and if their order there corresponds to the order of the
//! variables of all other operands that are used in place. Any other operand is first copied into
//! contiguous memory. [`plan`] searches for an order of the variables that copies few bytes.
//!
//! # Words
//!
//! - A *position* of a batch is one of the operations that run together. Each operand has one
//!   variable per position.
//! - A *candidate* is an operand for which the order decides if it is copied: it has at least two
//!   positions, and their variables are distinct. Equal operands of a batch are one candidate.
//! - A *component* is a part of the problem that shares no variable and no batch with the rest.
//!   Components are planned separately.
//! - A candidate is *accepted* if the search has decided to use it in place, else copied.
//! - A *constraint* is a set of variables that must be consecutive in memory. A PQ-tree represents
//!   all orders that satisfy given constraints; to *reduce* it by a constraint is to remove the
//!   orders that violate the constraint.
//! - Two candidates of a batch are *isomorphic* if their parts of the PQ-tree are equal once each
//!   variable of one is replaced by the variable at the same position of the other.
//!
//! # Algorithm
//!
//! Accepting candidates takes two passes over the accepted candidates of a component.
//!
//! 1. The first pass (`transfer.rs`) reduces the tree by every accepted candidate, so that each is
//!    contiguous. If some positions are now adjacent in one candidate, they must be adjacent in the
//!    others of the batch too. These constraints are *transferred* until nothing changes.
//! 2. Then the accepted candidates of a batch are isomorphic, but the tree still allows orders
//!    in which one is reversed, or permuted, against another. The second pass (`orient.rs`)
//!    *relates* the matching nodes of the tree: the order of one node's children determines the
//!    order of the other's. A labelled union–find (`relation.rs`) collects these relations, and
//!    detects contradictions.
//!
//! Both passes are exact: they fail only if no order uses all accepted candidates in place. So **if
//! a layout without copies exists, it is found**. Otherwise a greedy search (`greedy.rs`) accepts
//! candidates one at a time, heaviest first, and copies each that is incompatible with the accepted
//! ones. A failed attempt is rolled back.
//!
//! In a component with at most [`MAX_SEARCHED`] positions, a search for a better layout follows:
//! restarts, and branch and bound, which proves the layouts of the smallest components optimal. A
//! larger component keeps the result of the greedy search, or the declaration order where that
//! copies less.
//!
//! *Source*: section 3 and Alg. 2 of the paper. Alg. 2 copies whole batches; we copy single
//! operands, which copies less. *Cost*: linear, up to a logarithm, if a layout without copies
//! exists; otherwise O(k log n) times that for k copies among n operands, and the search.
//!
//! ```
//! use edbatch_layout::aligned::{AlignedBatch, Problem, Search, plan};
//!
//! // The paper's example, counted from 0:
//! // x4, x5 = f(x1, x3; x2, x1) and x6, x7, x8 = g(x4, x3, x5).
//! let first = AlignedBatch::uniform([vec![3, 4], vec![0, 2], vec![1, 0]], 1);
//! let second = AlignedBatch::uniform([vec![7, 5, 6], vec![3, 2, 4]], 1);
//! let problem = Problem { variables: 8, batches: vec![first, second] };
//! let layout = plan(&problem, Search::default());
//! assert!(layout.feasible);
//! assert_eq!(layout.bytes, 0);
//! ```

mod accepted;
mod branch_and_bound;
mod component;
mod greedy;
mod isomorphism;
mod layout;
mod order;
mod orient;
mod problem;
mod relation;
mod snapshot;
mod transfer;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use branch_and_bound::branch_and_bound;
use component::{Component, components};
use greedy::choose;

pub use layout::{Fate, Layout};
pub use problem::{AlignedBatch, AlignedOperand, Malformed, OperandId, Problem};

/// The maximum size of a component that is searched: the total number of positions of its
/// candidates.
///
/// Larger components are planned by the greedy search alone: [`Search`] has no effect on them. The
/// paper's cells have at most 65 positions, the cells of the model zoo at most 8.
pub const MAX_SEARCHED: u32 = 256;

/// The effort spent on problems for which no layout without copies exists. The same search of the
/// same problem always returns the same layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Search {
    /// The seed of the shuffles.
    pub seed: u64,
    /// The number of extra greedy searches in each component, each with the candidates reordered.
    pub restarts: u32,
    /// The number of compatibility tests that branch and bound may spend on each component.
    pub tests: u32,
}

/// 32 restarts, 2000 tests.
impl Default for Search {
    fn default() -> Self {
        Self { seed: 0, restarts: 32, tests: 2000 }
    }
}

/// Orders the variables so that few bytes are copied: none if that is possible, and never more than
/// with the variables in ascending order.
///
/// # Panics
/// If the problem is [malformed](Problem::check).
#[must_use]
pub fn plan(problem: &Problem, search: Search) -> Layout {
    if let Err(error) = problem.check() {
        panic!("{error}");
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(search.seed);
    let mut order = Vec::with_capacity(problem.variables as usize);
    let mut proved = true;
    for component in components(problem) {
        let (part, optimal) = plan_component(&component, search, &mut rng);
        order.extend(part);
        proved &= optimal;
    }
    // The variables without candidates are at the end.
    let mut placed = vec![false; problem.variables as usize];
    order.iter().for_each(|&variable| placed[variable as usize] = true);
    order.extend((0..problem.variables).filter(|&variable| !placed[variable as usize]));
    let mut layout = Layout::of_order(problem, order);
    layout.proved = proved;
    layout
}

/// Returns an order of a component's variables, and true if it is proved that no order copies less.
fn plan_component(
    component: &Component,
    search: Search,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<u32>, bool) {
    let is_searched = component.positions() <= MAX_SEARCHED;
    let [restarts, tests] = if is_searched { [search.restarts, search.tests] } else { [0, 0] };
    let choice = choose(component, restarts, rng);
    let (choice, proved) = branch_and_bound(component, choice, tests);
    (choice.order, proved)
}
