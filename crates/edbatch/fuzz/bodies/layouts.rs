//! Files of aligned-layout problems, and what is planned for them.

use edbatch_layout::aligned::{Layout, Problem, Search, plan};

#[path = "../../../edbatch-layout/tests/aligned/text.rs"]
mod text;

/// Larger problems take longer, and say no more.
const MOST: usize = 40;

/// Reads a file; what is planned for its small problems is an order of the variables, and copies no
/// more than as they are numbered.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let instances = match text::parse(text) {
        Ok(instances) => instances,
        Err(error) => return assert!(error.contains("line ") || error.contains("instance ")),
    };
    for instance in instances {
        let problem = instance.problem;
        let positions: usize = problem.operands().map(|(_, operand)| operand.positions.len()).sum();
        if problem.variables as usize <= MOST && positions <= 2 * MOST {
            check(&problem);
        }
    }
}

fn check(problem: &Problem) {
    let layout = plan(problem, Search { seed: 0, restarts: 4, tests: 100 });
    let mut sorted = layout.order.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..problem.variables), "an order of the variables");
    let counted = Layout::of_order(problem, layout.order.clone());
    assert_eq!((layout.copies, layout.bytes), (counted.copies, counted.bytes));
    let numbered = Layout::of_order(problem, (0..problem.variables).collect());
    assert!(layout.bytes <= numbered.bytes);
    assert!(!numbered.feasible || layout.feasible, "an ideal layout is found if there is one");
}
