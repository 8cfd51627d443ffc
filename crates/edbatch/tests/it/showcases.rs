//! Programs for users of other fields, whose pages are in `docs/showcases`.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::architecture::root;
use crate::examples::derivations::{self, laps};
use crate::examples::plans;

/// Python with PyTorch, or `None` if the test is skipped.
fn python_with_torch() -> Option<OsString> {
    let python = std::env::var_os("EDBATCH_PYTHON").unwrap_or_else(|| "python3".into());
    let find = "import importlib.util as i; assert i.find_spec('torch') and i.find_spec('numpy')";
    let found = Command::new(&python).args(["-c", find]).output();
    found.is_ok_and(|output| output.status.success()).then_some(python)
}

/// Runs a script of `benches/showcases` and returns the number that it prints.
fn number_of(python: OsString, script: &str, arguments: &[&Path]) -> f64 {
    let script = root().join("benches/showcases").join(script);
    let mut command = Command::new(python);
    command.env_remove("EDBATCH_DERIVATIONS").env_remove("EDBATCH_PLANS");
    let output = command.arg("-B").arg(script).args(arguments).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).trim().parse();
    printed.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// Fails unless all blocks of Rust on a page are in a program, apart from the indentation.
fn assert_quotes(page: &str, program: &str) {
    let text = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        text.lines().map(|line| format!("{}\n", line.trim())).collect::<String>()
    };
    let (page, program) = (text(page), text(program));
    let blocks = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks: Vec<&str> = blocks.collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        assert!(program.contains(block), "the program has no\n{block}");
    }
}

fn bits(scores: &[f32]) -> Vec<u32> {
    scores.iter().map(|score| score.to_bits()).collect()
}

#[test]
fn waves_and_releases_change_no_bit_of_a_clause() {
    let clauses = derivations::parse(derivations::FAMILY).unwrap();
    let (prover, _, mut session) = derivations::open(16).unwrap();
    let (expected, _) = prover.replay(&mut session, &clauses, clauses.len(), false).unwrap();
    let different: std::collections::BTreeSet<u32> = bits(&expected).into_iter().collect();
    assert!(expected.len() == 996 && different.len() > 250, "{}", different.len());
    for wave in [1, 7, 64] {
        for release in [false, true] {
            let (scores, _) = prover.replay(&mut session, &clauses, wave, release).unwrap();
            assert_eq!(bits(&scores), bits(&expected), "{wave}, {release}");
        }
    }
}

#[test]
fn memory_of_a_prover_that_releases_clauses_is_constant() {
    let clauses = derivations::parse(derivations::FAMILY).unwrap();
    let [released, kept] = [true, false].map(|release| {
        let (prover, _, mut session) = derivations::open(64).unwrap();
        prover.replay(&mut session, &clauses, 8, release).unwrap().1
    });
    assert_eq!(released[released.len() / 2], released[released.len() - 1]);
    assert!(kept[kept.len() - 1] > 3 * kept[kept.len() / 4]);
}

#[test]
fn files_that_are_no_derivations_are_rejected() {
    let parse = |text| derivations::parse(text).map(|clauses| clauses.len());
    assert_eq!(parse("axiom\t\t1 2 3 4\t1\t1\t1\nrw\t0\t1 2 3 4\t0\t1\t1\n"), Some(2));
    for text in [
        "axiom\t\t1 2 3 4\t1",
        "axiom\t\t1 2 3\t1\t0\t1",
        "axiom\t0\t1 2 3 4\t1\t0\t1",
        "axiom\tx\t1 2 3 4\t1\t0\t1",
        "axiom\t\t1 2 3 4\t1\t1\t1",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn pytorch_computes_the_same_scores_of_clauses() {
    let Some(python) = python_with_torch() else {
        return edbatch_testing::skip("no Python with PyTorch and NumPy");
    };
    let clauses = derivations::parse(derivations::FAMILY).unwrap();
    let (prover, weights, mut session) = derivations::open(24).unwrap();
    let (scores, _) = prover.replay(&mut session, &clauses, 64, true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    laps::write(folder.path(), &prover.network, &weights, &scores).unwrap();
    let arguments = [Path::new("--difference"), folder.path()];
    let difference = number_of(python, "derivations_in_torch.py", &arguments);
    assert!(difference < 1e-5, "{difference}");
}

#[test]
fn plans_have_the_same_bits_alone_and_equal_subplans_are_computed_once() {
    let queries = plans::parse(plans::QUERIES).unwrap();
    let (planner, _, mut session) = plans::open(16).unwrap();
    // Fails if a bit differs.
    let scores = plans::measure::scores(&planner, &mut session, &queries).unwrap();
    let different: std::collections::BTreeSet<u32> = bits(&scores).into_iter().collect();
    assert!(scores.len() == 160 && different.len() > 100, "{}", different.len());
    let before = session.statistics().calls;
    planner.times(&mut session, &queries[0]).unwrap();
    let statistics = session.statistics();
    // The first query has 237 nodes; 134 are different.
    assert_eq!((statistics.calls - before, statistics.stored), (134 + 20, 0));
}

#[test]
fn files_that_are_no_plans_are_rejected() {
    let text = |children: &str, share: &str| {
        let estimates = "\"rows\":1,\"width\":4,\"cost\":2.5";
        let node = |children: &str, share: &str| {
            format!("{{\"op\":\"Sort\",\"children\":{children},{estimates},\"share\":{share}}}")
        };
        format!("{{\"plans\":[[{},{}]]}}\n", node("[]", "0"), node(children, share))
    };
    let parse = |text: &str| plans::parse(text).map(|queries| queries.len());
    assert_eq!(parse(&text("[0]", "1")), Some(1));
    let invalid = [text("[1]", "1"), text("[0]", "-1"), text("0", "1"), text("[0]", "9999999")];
    for text in invalid.iter().map(String::as_str).chain(["{\"plans\":[[]]}", "[]", "x"]) {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn pytorch_computes_the_same_scores_of_plans() {
    let Some(python) = python_with_torch() else {
        return edbatch_testing::skip("no Python with PyTorch and NumPy");
    };
    let queries = plans::parse(plans::QUERIES).unwrap();
    let (planner, weights, mut session) = plans::open(24).unwrap();
    let scores = plans::measure::scores(&planner, &mut session, &queries).unwrap();
    let folder = tempfile::tempdir().unwrap();
    laps::write(folder.path(), &planner.network, &weights, &scores).unwrap();
    let arguments = [Path::new("--difference"), folder.path()];
    let difference = number_of(python, "plans_in_torch.py", &arguments);
    assert!(difference < 1e-5, "{difference}");
}

#[test]
fn pages_of_showcases_quote_their_programs() {
    assert_quotes("docs/showcases/prover.md", "crates/edbatch/examples/derivations/main.rs");
    assert_quotes("docs/showcases/plans.md", "crates/edbatch/examples/plans/main.rs");
}
