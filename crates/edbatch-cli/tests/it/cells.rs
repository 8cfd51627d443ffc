//! `edbatch cells`: the printed figures match the plans.

use std::sync::Arc;

use edbatch::cell_schedules;
use edbatch_graph::Kind;
use edbatch_layout::{CellStyle, PAPER_CELLS, Program, paper_cell};
use serde_json::Value;

use crate::support::{MODELS, Scratch};

const PLANS: [(&str, CellStyle); 3] = [
    ("paper", CellStyle::Paper),
    ("declaration", CellStyle::Declaration),
    ("ours", CellStyle::Planned),
];

fn json(words: &[&str]) -> Vec<Value> {
    let scratch = Scratch::new(&format!("cells-{}", words.join("-")));
    let text = scratch.ok(&[&["cells"], words, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not an integer"))
}

/// The paper's table, planned: memory kernels and kB, for a batch of 8 and size 64. For
/// TreeLSTM-Internal the paper prints 3 and 22; see docs/paper.md.
const PLANNED: [(u64, u64); 7] = [(2, 14), (1, 16), (2, 260), (2, 16), (2, 8), (1, 16), (1, 6)];
/// The paper's table, declared. The paper prints 4 and 1054 for LSTMCell, 2 and 260 for MVCell, 8
/// and 552 for TreeGRU-Internal, 7 and 1064 for TreeLSTM-Internal.
const DECLARED: [(u64, u64); 7] =
    [(6, 666), (6, 1062), (4, 520), (4, 536), (4, 268), (8, 1086), (3, 396)];

#[test]
fn the_papers_rule_gives_the_papers_table() {
    let cells = json(&["paper", "--hidden", "64", "--batch", "8"]);
    for (index, (cell, name)) in cells.iter().zip(PAPER_CELLS).enumerate() {
        assert_eq!(cell["cell"], name);
        let by = |column: &str| {
            let moved = &cell["paper_rule"][column];
            (number(&moved["memory_kernels"]), number(&moved["bytes"]) / 1024)
        };
        assert_eq!((by("declared"), by("planned")), (DECLARED[index], PLANNED[index]), "{name}");
    }
    assert_eq!(cells.len(), PAPER_CELLS.len());
}

#[test]
fn reports_match_the_plans() {
    let cells = json(&["paper", "--hidden", "16", "--batch", "3"]);
    for (cell, name) in cells.iter().zip(PAPER_CELLS) {
        let network = Arc::new(paper_cell(name, 16).unwrap().unwrap());
        let schedules = cell_schedules(&network);
        assert_eq!(number(&cell["batches"]), schedules[0].len() as u64);
        assert!(cell["compile_microseconds"].as_f64().unwrap() > 0.0);
        for (plan, style) in PLANS {
            let program = Program::scheduled(network.clone(), style, &schedules).unwrap();
            let moved = program.cell(Kind(0)).moved(3);
            let plan = &cell["plans"][plan];
            assert_eq!(number(&plan["memory_kernels"]), moved.kernels as u64, "{name}: {plan}");
            assert_eq!(number(&plan["bytes"]), moved.bytes, "{name}: {plan}");
            let copied = plan["copied"].as_array().unwrap();
            assert_eq!(copied.len(), moved.kernels, "{name}: {plan}");
            let bytes: u64 = copied.iter().map(|copied| number(&copied["bytes"])).sum();
            assert_eq!(bytes, moved.bytes, "{name}: {plan}");
            assert!(plan["nanoseconds"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn no_plan_of_a_model_copies_more_than_its_declaration() {
    for (model, ..) in MODELS {
        for cell in json(&[model, "--hidden", "16"]) {
            let bytes = |plan: &str| number(&cell["plans"][plan]["bytes"]);
            assert!(bytes("paper") <= bytes("declaration"), "{model}: {cell}");
            assert!(bytes("ours") <= bytes("declaration"), "{model}: {cell}");
        }
    }
}

/// The number of lines in a table of one cell without copies: two lines of heading, two of the
/// paper's rule, one per plan.
const WITHOUT_COPIES: usize = 2 + 2 + PLANS.len();

#[test]
fn the_table_matches_the_json() {
    let scratch = Scratch::new("cells-table");
    let words = ["LSTMCell", "--batch", "3", "--layout", "declaration"];
    let table = scratch.ok(&[&["cells"], &words[..]].concat());
    let cell = &json(&words)[0];
    // The figures after the name of a plan: kernels, kB and, if it was run, two times.
    let figures = |name: &str| -> Vec<f64> {
        let line = table.lines().find_map(|line| line.get(28..)?.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {table}"));
        line.split_whitespace().map(|figure| figure.parse().unwrap()).collect()
    };
    let same = |figures: &[f64], moved: &Value| {
        let kilobytes = number(&moved["bytes"]) as f64 / 1024.0;
        assert_eq!(figures[0], number(&moved["memory_kernels"]) as f64, "{table}");
        assert_eq!(format!("{:.1}", figures[1]), format!("{kilobytes:.1}"), "{table}");
    };
    same(&figures("paper's rule, declared "), &cell["paper_rule"]["declared"]);
    same(&figures("paper's rule, planned "), &cell["paper_rule"]["planned"]);
    for (plan, _) in PLANS {
        let figures = figures(&format!("{plan} "));
        same(&figures, &cell["plans"][plan]);
        assert_eq!(figures.len(), if plan == "declaration" { 4 } else { 3 }, "{table}");
    }
}

#[test]
fn the_copies_of_the_chosen_plan_are_listed() {
    let scratch = Scratch::new("cells-listed");
    let listed = |layout: &str| scratch.ok(&["cells", "MVCell", "--layout", layout]);
    for layout in ["paper", "declaration"] {
        let text = listed(layout);
        assert!(text.contains("    concat: left.matrix right.matrix ("), "{text}");
    }
    assert_eq!(listed("ours").lines().count(), WITHOUT_COPIES);
    let text = scratch.ok(&["cells", "LSTMCell", "--layout", "declaration"]);
    assert_eq!(text.lines().count(), WITHOUT_COPIES, "the declaration copies nothing: {text}");
    let pictures = ["paper", "ours"]
        .map(|layout| scratch.ok(&["cells", "LSTMCell", "--layout", layout, "--picture", "text"]));
    assert_ne!(pictures[0], pictures[1]);
}

#[test]
fn errors_have_one_line() {
    let scratch = Scratch::new("cells-wrong");
    let wrong = scratch.run(&["cells", "LSTMCell", "--layout", "planned"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(scratch.error(&["cells", "LSTM"]).contains("expected a model's folder"));
    assert!(scratch.error(&["cells", "LSTMCell", "--hidden", "4000000000"]).contains("2^31"));
    let many = ["cells", "LSTMCell", "--hidden", "8", "--batch", "9000000000000000000"];
    assert!(scratch.error(&many).contains("at most"));
}

/// For a batch that needs too much memory to run, copies are still counted.
#[test]
fn a_large_batch_is_counted_but_not_timed() {
    let cells = json(&["TreeGRU-Leaf", "--hidden", "64", "--batch", "10000000"]);
    let plan = &cells[0]["plans"]["ours"];
    assert_eq!(number(&plan["bytes"]), 64 * 4 * 10_000_000);
    assert!(plan["nanoseconds"].is_null());
}
