//! The time to lay out generated problems: with an ideal layout, and with one batch in ten spoilt.
//!
//! ```text
//! cargo run --release -p edbatch-layout --example large_aligned -- [VARIABLES]
//! ```

use std::time::Instant;

use edbatch_layout::aligned::{Problem, Search, plan};
use generate::{feasible_problem, mistake_some, reverse_some, stream};

#[allow(dead_code, unused_imports)]
#[path = "../tests/aligned/generate.rs"]
mod generate;

fn main() {
    let variables: u32 =
        std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number"));
    for seed in 0..3 {
        let problem = feasible_problem(variables, stream(seed));
        report("ideal", &problem, Search::default());
    }
    for size in [variables / 10, variables] {
        let mut reversed = feasible_problem(size, stream(3));
        let spoilt = reverse_some(&mut reversed);
        report(&format!("{spoilt} operands reversed"), &reversed, Search::default());
        let mut mistaken = feasible_problem(size, stream(4));
        let spoilt = mistake_some(&mut mistaken, stream(5));
        report(&format!("{spoilt} operands with a wrong variable"), &mistaken, Search::default());
    }
}

fn report(name: &str, problem: &Problem, search: Search) {
    let positions: usize = problem.operands().map(|(_, operand)| operand.positions.len()).sum();
    let start = Instant::now();
    let layout = plan(problem, search);
    println!(
        "{name}: {} variables, {positions} positions: {} of {} operands copied, {:.3} s",
        problem.variables,
        layout.copies,
        problem.operands().count(),
        start.elapsed().as_secs_f64()
    );
}
