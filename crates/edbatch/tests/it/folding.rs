//! Folded tables: operations that depend only on a row of a table run at load, for all rows. Tests
//! which tables are folded, what mini-batches save, and which options conflict.
//!
//! `goldens.rs`, `random_networks.rs` and `emulated.rs` check that results do not change.

use std::sync::Arc;

use edbatch::models::{LatticeLstm, LatticeSizes, Model};
use edbatch::{Engine, EngineError, EngineOptions};
use edbatch_datasets::{Lattice, WordArc};
use edbatch_graph::{Graph, Kind, Schedule};
use edbatch_layout::{CellStyle, Lifetimes, MiniBatch, Plan, Planner, Program, check};
use edbatch_policy::Scheduler;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Count, Cpu, Given, KernelCounts, Part, Precision, Rows};
use edbatch_testing::planned;

use crate::fn_model::random;

/// Numbers of rows of the model's two tables. A folded row has 16 elements: four gates of 4.
const CHARS: usize = 7;
const WORDS: usize = 5;

fn model() -> LatticeLstm {
    let sizes = LatticeSizes { chars: CHARS, words: WORDS, embed: 4, hidden: 4, classes: 3 };
    LatticeLstm::new(sizes).unwrap()
}

fn program(max_bytes: u64) -> Program {
    let program = Program::new(model().network().clone(), CellStyle::Hoisted).unwrap();
    program.fold_tables(max_bytes)
}

/// A lattice of four characters, in which the second and the third are a word, and a lattice of one
/// character.
fn inputs() -> [Lattice<u32>; 2] {
    let words = vec![WordArc { start: 1, end: 2, word: 3 }];
    let lattice = |chars, words| Lattice { chars, words, ..Lattice::default() };
    [lattice(vec![1, 6, 1, 0], words), lattice(vec![2], vec![])]
}

fn scheduled() -> (Graph, Schedule) {
    let model = model();
    let parameters = random(model.network(), 1);
    let mut engine = Engine::new(model, parameters).unwrap();
    let (graph, mut schedule) = (engine.graphs(&inputs()).unwrap().remove(0), Schedule::new());
    Scheduler::by_depth().schedule(&graph, &mut schedule);
    (graph, schedule)
}

/// Plans the inputs for program `of` and changes the plan. Returns it with the result of `check`
/// for program `by`.
fn checked(by: &Program, of: &Program, change: impl FnOnce(&mut Plan)) -> (Plan, String) {
    let (graph, schedule) = scheduled();
    let (graph, schedule) = (&graph, &schedule);
    let mini_batch = MiniBatch { program: of, graph, schedule, wanted: &[] };
    let mut plan = Plan::default();
    Planner::new(Lifetimes::Distinct).plan(&mini_batch, &mut plan).unwrap();
    change(&mut plan);
    let checked = check(&plan, &MiniBatch { program: by, ..mini_batch });
    (plan, checked.map_or_else(|error| error.to_string(), |()| "legal".into()))
}

#[test]
fn the_smallest_tables_are_folded_first() {
    let stride = 16;
    let [words, chars] = [WORDS, CHARS].map(|rows| 4 * rows as u64 * stride);
    // The cells that read a folded table, and the size of all folded tables.
    let folded = |max_bytes: u64| {
        let program = program(max_bytes);
        let names = program.network().cells().iter().enumerate();
        let names = names.filter(|&(kind, _)| program.folded(Kind::new(kind)).is_some());
        let names: Vec<String> = names.map(|(_, cell)| cell.name().into()).collect();
        (names.join(" "), 4 * program.folded_elements() as u64)
    };
    assert_eq!(folded(0), (String::new(), 0));
    assert_eq!(folded(words - 1), (String::new(), 0));
    assert_eq!(folded(words), ("word".into(), words));
    assert_eq!(folded(words + chars - 1), ("word".into(), words));
    assert_eq!(folded(words + chars), ("char word".into(), words + chars));
    let again = program(u64::MAX).fold_tables(0);
    assert_eq!(again.folded_elements(), 0, "the last call counts");
    let whole = Program::new(model().network().clone(), CellStyle::Planned).unwrap();
    assert_eq!(whole.fold_tables(u64::MAX).folded_elements(), 0, "this style hoists nothing");
}

/// Rows are 16 apart. The smaller table, words, comes first, then characters.
#[test]
fn operands_are_rows_of_the_folded_tables() {
    let program = program(u64::MAX);
    let (plan, says) = checked(&program, &program, |_| {});
    assert_eq!(says, "legal");
    assert!(plan.steps.iter().all(|step| step.is_batch()), "nothing is hoisted:\n{plan}");
    let text = plan.to_string();
    let first = text.lines().next().unwrap();
    assert!(first.contains("folded [96, 112]"), "characters 1 and 2: {first}");
    assert!(text.contains("folded [48]"), "word 3:\n{text}");
}

#[test]
fn check_rejects_wrong_reads_of_folded_tables() {
    let (all, none) = (program(u64::MAX), program(0));
    // A row that the input does not read, a row of the other table, the middle of a row, and after
    // the last row.
    for other in [80, 16, 97, 16 * (CHARS + WORDS) as u32] {
        let (_, says) = checked(&all, &all, |plan| plan.rows[0] = other);
        assert!(
            says.contains(&format!("reads folded tables at {other}, expected row 1")),
            "{says}"
        );
    }
    // A program without folded tables.
    let (_, says) = checked(&none, &all, |_| {});
    assert!(says.contains("expected rows of a prologue, got Folded"), "{says}");
    // A program with folded tables and a plan that hoists.
    let (_, says) = checked(&all, &none, |_| {});
    assert!(says.contains("runs the prologue of k0, whose table is folded"), "{says}");
}

#[test]
fn folded_tables_save_the_prologues() {
    let (graph, schedule) = scheduled();
    let counts = |max_bytes: u64| -> KernelCounts {
        let program = Arc::new(program(max_bytes));
        let (graph, schedule) = (&graph, &schedule);
        let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &[] };
        let plan = planned(&mut Planner::default(), &mini_batch);
        let given = Given { initial: &Rows::new(), places: &[], host: &[] };
        let mut count = Count::new(program.clone());
        count.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
        count.counts()
    };
    let (hoisted, folded) = (counts(0), counts(u64::MAX));
    assert_eq!(hoisted.batches, folded.batches);
    // A product for the four distinct characters, and one for the only word.
    assert_eq!(hoisted.kernels - folded.kernels, 2);
    assert_eq!(hoisted.gathers - folded.gathers, 2);
    assert_eq!(hoisted.gathered_rows - folded.gathered_rows, 4 + 1);
    assert_eq!(hoisted.gathered_bytes - folded.gathered_bytes, 4 * 4 * (4 + 1));
    assert_eq!(hoisted.written_bytes - folded.written_bytes, 4 * 16 * (4 + 1));
}

/// Folded tables count as weights. Weights that are needed only to compute them are freed.
#[test]
fn folded_tables_are_shared_weights() {
    let model = model();
    let parameters = random(model.network(), 1);
    let bytes = |max_bytes: u64| {
        let program = Arc::new(program(max_bytes));
        let cpu = Cpu::new(program, &parameters, Level::detect(), Precision::F32).unwrap();
        assert_eq!(cpu.fork().bytes(), cpu.bytes());
        cpu.bytes().weights
    };
    let hoisted = bytes(0);
    let tables = 4 * 4 * (CHARS + WORDS);
    // The packed input weights of both cells.
    let stacks = hoisted + 4 * 16 * (CHARS + WORDS) - tables - bytes(u64::MAX);
    assert!(stacks >= 2 * 4 * 16 * 4, "{stacks} bytes of input weights are freed");
}

#[test]
fn conflicting_options_are_errors() {
    let model = model();
    let parameters = random(model.network(), 1);
    let options = EngineOptions::new().memory_limit(1000).fold_tables(1001);
    let error = Engine::with_options(model.clone(), parameters.clone(), options).err().unwrap();
    assert!(matches!(error, EngineError::FoldedTablesOverLimit { tables: 1001, limit: 1000 }));
    let program = Arc::new(program(u64::MAX));
    let cpu = Cpu::new(program.clone(), &parameters, Level::detect(), Precision::F32).unwrap();
    let options = EngineOptions::new().fold_tables(1 << 20);
    let engine = Engine::with_backend(model, &parameters, program, Box::new(cpu), options);
    let error = engine.err().unwrap();
    assert!(matches!(error, EngineError::FoldedTablesOfBackend));
    assert!(error.to_string().contains("Program::fold_tables"), "{error}");
}
