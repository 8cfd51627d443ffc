//! What depends on a row of a table alone, for all rows when a model is loaded: which tables are
//! folded, what a mini-batch is spared, and what may not be had together.
//!
//! That no bit changes is asserted in `goldens.rs`, `random_networks.rs` and `emulated.rs`.

use std::sync::Arc;

use edbatch::{Engine, EngineError, EngineOptions};
use edbatch_datasets::{Lattice, WordArc};
use edbatch_graph::{Graph, Kind, Schedule};
use edbatch_layout::{CellStyle, Lifetimes, MiniBatch, Plan, Planner, Program, check};
use edbatch_models::{LatticeLstm, LatticeSizes, Model};
use edbatch_policy::Scheduler;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Count, Cpu, Given, KernelCounts, Parameters, Part, Rows};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

/// Rows of its two tables; four gates of 4 elements are a row of 16 of what is folded.
const CHARS: usize = 7;
const WORDS: usize = 5;

fn model() -> LatticeLstm {
    let sizes = LatticeSizes { chars: CHARS, words: WORDS, embed: 4, hidden: 4, classes: 3 };
    LatticeLstm::new(sizes).unwrap()
}

fn parameters(model: &LatticeLstm) -> Parameters {
    Parameters::random(model.network(), &mut Xoshiro256PlusPlus::seed_from_u64(1))
}

fn program(most_bytes: u64) -> Program {
    let program = Program::new(model().network().clone(), CellStyle::Hoisted).unwrap();
    program.fold_tables(most_bytes)
}

/// Four characters, the second and third of which are a word; then one.
fn inputs() -> [Lattice<u32>; 2] {
    let words = vec![WordArc { start: 1, end: 2, word: 3 }];
    let lattice = |chars, words| Lattice { chars, words, tags: vec![] };
    [lattice(vec![1, 6, 1, 0], words), lattice(vec![2], vec![])]
}

fn scheduled() -> (Graph, Schedule) {
    let model = model();
    let parameters = parameters(&model);
    let mut engine = Engine::new(model, parameters).unwrap();
    let (graph, mut schedule) = (engine.graphs(&inputs()).unwrap().remove(0), Schedule::new());
    Scheduler::by_depth().schedule(&graph, &mut schedule);
    (graph, schedule)
}

/// A plan of the inputs for a program, and what `check` says of it by another one after a change.
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
    // Which of the cells read a folded table.
    let folded = |most_bytes: u64| {
        let program = program(most_bytes);
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
    assert_eq!(again.folded_elements(), 0, "what was decided last holds");
    let whole = Program::new(model().network().clone(), CellStyle::Planned).unwrap();
    assert_eq!(whole.fold_tables(u64::MAX).folded_elements(), 0, "nothing is hoisted in it");
}

/// Rows are 16 apart: first those of words, as there are fewer, then those of characters.
#[test]
fn operands_name_rows_of_the_folded_tables() {
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
fn a_plan_that_reads_folded_tables_wrongly_is_refused() {
    let (all, none) = (program(u64::MAX), program(0));
    // A row that is not named, one of the other table, within a row, behind the last.
    for other in [80, 16, 97, 16 * (CHARS + WORDS) as u32] {
        let (_, says) = checked(&all, &all, |plan| plan.rows[0] = other);
        assert!(
            says.contains(&format!("reads folded tables at {other}, expected row 1")),
            "{says}"
        );
    }
    // Where it was not decided.
    let (_, says) = checked(&none, &all, |_| {});
    assert!(says.contains("expected rows of a prologue, got Folded"), "{says}");
    // And what was decided is not done otherwise.
    let (_, says) = checked(&all, &none, |_| {});
    assert!(says.contains("runs the prologue of k0, whose table is folded"), "{says}");
}

/// What is counted is what is left: no prologue, and as many rows read through lists.
#[test]
fn a_mini_batch_is_spared_the_prologues() {
    let (graph, schedule) = scheduled();
    let counts = |most_bytes: u64| -> KernelCounts {
        let program = Arc::new(program(most_bytes));
        let (graph, schedule) = (&graph, &schedule);
        let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &[] };
        let mut plan = Plan::default();
        Planner::default().plan(&mini_batch, &mut plan).unwrap();
        let mut count = Count::new(program);
        count
            .run(&[Part {
                slot: 0,
                plan: &plan,
                given: Given { initial: &Rows::new(), stayed: 0, host: &[] },
            }])
            .unwrap();
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

/// The folded tables count as weights, and are there once for all engines; what only they were
/// computed from is given back.
#[test]
fn folded_tables_are_weights_that_engines_share() {
    let model = model();
    let parameters = parameters(&model);
    let bytes = |most_bytes: u64| {
        let program = Arc::new(program(most_bytes));
        let cpu = Cpu::new(program, &parameters, Level::detect()).unwrap();
        assert_eq!(cpu.fork().bytes(), cpu.bytes());
        cpu.bytes().weights
    };
    let hoisted = bytes(0);
    let tables = 4 * 4 * (CHARS + WORDS);
    // The input weights of both cells, in panels of the level's width.
    let stacks = hoisted + 4 * 16 * (CHARS + WORDS) - tables - bytes(u64::MAX);
    assert!(stacks >= 2 * 4 * 16 * 4, "{stacks} bytes of input weights are given back");
}

#[test]
fn what_cannot_be_had_together_is_refused() {
    let model = model();
    let parameters = parameters(&model);
    let options = EngineOptions::new().memory_limit(1000).fold_tables(1001);
    let error = Engine::with_options(model.clone(), parameters.clone(), options).err().unwrap();
    assert!(matches!(error, EngineError::FoldedTablesOverLimit { tables: 1001, limit: 1000 }));
    let program = Arc::new(program(u64::MAX));
    let cpu = Cpu::new(program.clone(), &parameters, Level::detect()).unwrap();
    let options = EngineOptions::new().fold_tables(1 << 20);
    let engine = Engine::with_backend(model, &parameters, program, Box::new(cpu), options);
    let error = engine.err().unwrap();
    assert!(matches!(error, EngineError::FoldedTablesOfBackend));
    assert!(error.to_string().contains("Program::fold_tables"), "{error}");
}
