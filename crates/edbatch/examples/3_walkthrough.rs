//! Follows two sentences from the file to the scores, and prints the result of every stage.
//! `docs/walkthrough.md` explains the output.
//!
//! `cargo run --release -p edbatch --example 3_walkthrough`

use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;

use edbatch::Engine;
use edbatch::datasets::{Vocabulary, parse_binary_trees};
use edbatch::graph::{Kind, Schedule};
use edbatch::layout::{CellStyle, MiniBatch, Plan, Planner, Program, Want, cell_text, check};
use edbatch::models::{Model, TreeLstm, TreeSizes};
use edbatch::policy::{Scheduler, lower_bound};
use edbatch::runtime::Parameters;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// A file of trees, with words and labels from 0 (very bad) to 4 (very good).
const LINES: [&str; 2] =
    ["(4 (2 not) (4 (2 a) (3 (1 dull) (2 moment))))", "(1 (2 a) (1 (1 dull) (2 plot)))"];

fn main() -> Result<(), Box<dyn Error>> {
    for (title, text) in sections()? {
        println!("== {title}\n{text}");
    }
    Ok(())
}

/// Returns the title and the output of every stage.
pub(crate) fn sections() -> Result<Vec<(&'static str, String)>, Box<dyn Error>> {
    let mut words = Vocabulary::new();
    let file = LINES.map(|line| format!("{line}\n")).concat();
    let trees = parse_binary_trees(file.as_bytes(), "trees.txt").map(|tree| {
        let word = |word: &String| words.insert(word);
        tree.map(|tree| tree.map(|_| 0, word))
    });
    let trees = trees.collect::<Result<Vec<_>, _>>()?;
    let sizes = TreeSizes { vocabulary: words.len(), embed: 2, hidden: 2, classes: 5 };
    let model = TreeLstm::new(sizes)?;
    let network = model.network().clone();
    let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut engine = Engine::new(model, parameters)?;

    let graph = engine.graphs(&trees)?.remove(0);
    let mut schedule = Schedule::new();
    Scheduler::default().schedule(&graph, &mut schedule);
    schedule.check(&graph)?;
    let program = Arc::new(Program::new(network, CellStyle::default())?);
    let outputs = engine.run(&trees)?;

    let mut plan = Plan::default();
    // The model emits the scores of every node, which its last batch computes.
    let wanted: Vec<_> = schedule.batches().last().map_or(vec![], |last| {
        last.nodes.iter().map(|&node| (node.into(), Want::Elements)).collect()
    });
    let mini_batch =
        MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
    Planner::default().plan(&mini_batch, &mut plan)?;
    check(&plan, &mini_batch)?;

    let mut scores = String::new();
    for (line, rows) in outputs.iter().enumerate() {
        let root = rows.row(rows.len() - 1);
        writeln!(
            scores,
            "line {}: {} rows; the last, of the root: {root:.4?}",
            line + 1,
            rows.len()
        )?;
    }
    let bound = lower_bound(&graph);
    let statistics = engine.statistics();
    writeln!(
        scores,
        "{} calls, {} batches, at least {bound}",
        statistics.nodes, statistics.batches
    )?;
    let cells = [Kind(0), Kind(1)].map(|kind| cell_text(&program, kind)).concat();
    Ok(vec![
        ("file", file),
        ("graph", graph.to_string()),
        ("schedule", schedule.to_string()),
        ("cells", cells),
        ("plan", plan.to_string()),
        ("scores", scores),
    ])
}
