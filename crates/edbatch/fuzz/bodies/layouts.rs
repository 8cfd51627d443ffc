//! Files of aligned-layout problems, and their solutions.

use edbatch_layout::aligned::{Layout, Problem, Search, plan};

#[path = "../../../edbatch-layout/tests/it/aligned/text.rs"]
mod text;

/// A limit on size: larger problems take longer without covering more code.
const MAX_VARIABLES: usize = 40;

/// Reads a file. Checks that the layout of each small problem is a permutation of the variables,
/// and copies at most as many bytes as the layout in the order of their numbers.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let instances = match text::parse(text) {
        Ok(instances) => instances,
        Err(error) => return assert!(error.contains("line ") || error.contains("instance ")),
    };
    for instance in instances {
        let problem = instance.problem;
        let positions: usize = problem.operands().map(|(_, operand)| operand.positions.len()).sum();
        if problem.variables as usize <= MAX_VARIABLES && positions <= 2 * MAX_VARIABLES {
            check(&problem);
        }
    }
}

fn check(problem: &Problem) {
    let layout = plan(problem, Search { seed: 0, restarts: 4, tests: 100 });
    let mut sorted = layout.order.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..problem.variables), "the layout is not a permutation");
    let counted = Layout::of_order(problem, layout.order.clone());
    assert_eq!((layout.copies, layout.bytes), (counted.copies, counted.bytes));
    let numbered = Layout::of_order(problem, (0..problem.variables).collect());
    assert!(layout.bytes <= numbered.bytes);
    assert!(!numbered.feasible || layout.feasible, "an ideal layout exists but was not found");
}
