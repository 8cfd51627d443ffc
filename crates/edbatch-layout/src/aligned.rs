//! Aligned layouts: an order of variables in which batches find their operands side by side.
//!
//! Batches gather their operands into contiguous memory before they run, unless these lie there
//! already: the variables of each operand next to each other, and the positions of all operands of
//! the batch in one order. [`plan`] finds an order of the variables in which as few bytes as
//! possible are gathered.
//!
//! 1. A PQ-tree of the variables admits the orders in which every operand is contiguous. What it
//!    demands of the positions of one operand is transferred to the others of the batch, to a
//!    fixpoint.
//! 2. All operands of a batch have equal trees then. What is left are equalities between directions
//!    of Q-nodes and between permutations of P-nodes; a labelled union–find collects them.
//!
//! Both passes are exact: **an ideal layout, one without copies, is found whenever there is one**.
//! If there is none, operands are given up one at a time, the lightest that can be, each in a
//! transaction; small problems are solved to proven optimality, in large ones operands that
//! disagree with the rest of their batch or with the majority go first.
//!
//! *Source*: section 3 and Alg. 2 of the paper; how the passes differ is said at each. *Cost*:
//! near-linear, whether or not an ideal layout exists; what is spent on finding a better one is
//! bounded. The example `large_aligned` measures it.
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
mod agreement;
mod branch_and_bound;
mod component;
mod explain;
mod give_up;
mod gradual;
mod isomorphism;
mod layout;
mod local;
mod majority;
mod order;
mod orient;
mod problem;
mod relation;
mod sift;
mod snapshot;
mod transfer;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use branch_and_bound::branch_and_bound;
use component::{Component, components};
use give_up::give_up;

pub use explain::{Cause, Why, why_copied};
pub use layout::{Fate, Layout};
pub use problem::{AlignedBatch, AlignedOperand, Malformed, OperandId, Problem};

/// How much is spent where no ideal layout exists. Equal searches of equal problems give equal
/// layouts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Search {
    /// Where the shuffles begin.
    pub seed: u64,
    /// How often giving up operands begins again; less often in large parts of a problem, where it
    /// takes long.
    pub restarts: u32,
    /// How many tests branch and bound may spend on each independent part of the problem.
    pub tests: u32,
}

/// 32 restarts, 2000 tests.
impl Default for Search {
    fn default() -> Self {
        Self { seed: 0, restarts: 32, tests: 2000 }
    }
}

/// Orders the variables so that few bytes are copied: none if that is possible, and never more than
/// as they are numbered.
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

/// An order of a component's variables, and whether it is proved to be the best.
fn plan_component(
    component: &Component,
    search: Search,
    rng: &mut Xoshiro256PlusPlus,
) -> (Vec<u32>, bool) {
    let choice = give_up(component, search.restarts, rng);
    let (choice, proved) = branch_and_bound(component, choice, search.tests);
    (choice.order, proved)
}
