//! Aligned layouts: an order of variables in memory that lets batches read their operands in place.
//!
//! A batch reads operands in place if the variables of each are adjacent, and if the order of the
//! batch's operations in memory is the same for all of them. It first copies other operands into
//! contiguous memory. [`plan`] searches for an order of the variables that copies few bytes.
//!
//! 1. First pass: a PQ-tree of the variables represents the orders in which every operand is
//!    contiguous. Constraints on the positions of one operand are transferred to the other operands
//!    of its batch, until nothing changes.
//! 2. Second pass: the operands of a batch now have equal trees. The directions of Q-nodes and the
//!    permutations of P-nodes depend on each other; a labelled union–find collects these relations.
//!
//! Both passes are exact: **if a layout without copies exists, it is found**. Otherwise a greedy
//! pass accepts operands one at a time, heaviest first, and copies each operand that is
//! incompatible with the operands accepted before it. A failed attempt is rolled back.
//!
//! The parts of a problem that share no variable and no batch are planned separately. For a part
//! with at most [`MAX_SEARCHED`] positions, a search for a better layout follows: restarts, and
//! branch and bound, which proves the layouts of the smallest parts optimal. A larger part keeps
//! the result of the greedy pass, or the declaration order where that copies less.
//!
//! *Source*: section 3 and Alg. 2 of the paper. Alg. 2 withdraws whole batches; we withdraw single
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

/// The maximum total number of positions of all operands in a part of a problem that is searched.
///
/// Larger parts are planned by the greedy pass alone: [`Search`] has no effect on them. The paper's
/// cells have at most 65 positions, the cells of the model zoo at most 8.
pub const MAX_SEARCHED: u32 = 256;

/// The effort spent on problems for which no layout without copies exists. The same search of the
/// same problem always returns the same layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Search {
    /// The seed of the shuffles.
    pub seed: u64,
    /// The number of extra greedy passes for each part of a problem, each with operands reordered.
    pub restarts: u32,
    /// The number of compatibility tests that branch and bound may spend on each part of a problem.
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
        let (part, best) = plan_component(&component, search, &mut rng);
        order.extend(part);
        proved &= best;
    }
    let mut placed = vec![false; problem.variables as usize];
    order.iter().for_each(|&variable| placed[variable as usize] = true);
    order.extend((0..problem.variables).filter(|&variable| !placed[variable as usize]));
    let mut layout = Layout::of_order(problem, order);
    layout.proved = proved;
    layout
}

/// Returns an order of a component's variables, and true if it is proved that none copies less.
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
