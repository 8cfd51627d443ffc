//! The number of waves of whole data sets on a device.
//!
//! The expected numbers are exact, because they are counted, not measured.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::Engine;
use edbatch::cuda::{CommandList, PhaseTable, check_phases, check_waves, phases, waves};
use edbatch::models::{
    Model, ModelConfig, ModelName, TreeGru, TreeLstm, Zoo, build_vocabularies, inputs,
};
use edbatch_graph::{Network, Schedule};
use edbatch_layout::{CellPlan, CellStyle, Lifetimes, MiniBatch, Plan, Planner, Program, check};
use edbatch_policy::Scheduler;
use edbatch_testing::{every_value, shared};

use crate::fn_model::random;
use crate::small::{TREES, nmt, tagger};

/// Totals of the command lists of a data set.
#[derive(Default)]
struct Lists {
    launches: usize,
    jobs: usize,
    words: usize,
}

/// Counts the batches, the waves and the mini-batches of a data set, in mini-batches of 64 inputs.
fn count(
    name: ModelName,
    file: &str,
    (style, folded): (CellStyle, u64),
    scheduler: fn() -> Scheduler,
) -> Option<([usize; 3], Lists)> {
    let path: PathBuf = shared(Path::new("datasets").join(file))?;
    let gathered = build_vocabularies(name.family(), std::slice::from_ref(&path), None).unwrap();
    let config = ModelConfig::new(name, 4, None, gathered.outputs);
    let lexicon = Arc::new(gathered.lexicon);
    let model = Zoo::new(&config, &lexicon).unwrap();
    let program = Program::new(model.network().clone(), style).unwrap().fold_tables(folded);
    let parameters = random(model.network(), 1);
    let all: Vec<_> = inputs(&lexicon, &path).unwrap().map(Result::unwrap).collect();
    let mut engine = Engine::new(model, parameters).unwrap();
    let (mut planner, mut scheduler) = (Planner::new(Lifetimes::Distinct), scheduler());
    let (mut plan, mut schedule) = (Plan::default(), Schedule::new());
    let (mut counts, mut lists) = ([0; 3], Lists::default());
    let (table, mut commands) = (PhaseTable::new(&program), CommandList::default());
    for inputs in all.chunks(64) {
        for graph in engine.graphs(inputs).unwrap() {
            scheduler.schedule(&graph, &mut schedule);
            let wanted = every_value(&graph);
            let (graph, schedule) = (&graph, &schedule);
            let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &wanted };
            planner.plan(&mini_batch, &mut plan).unwrap();
            check(&plan, &mini_batch).unwrap();
            let waves = waves(&program, &plan);
            check_waves(&plan, &waves, &mini_batch).unwrap();
            let waves = waves.iter().max().map_or(0, |&last| last as usize + 1);
            counts = [counts[0] + schedule.len(), counts[1] + waves, counts[2] + 1];
            // The host gives the initial values, which the first wave copies in. There is a wave
            // for each phase of each wave of steps, and one that copies values out.
            let initial = (program.network().initial_values().len(), &[][..]);
            commands.write(&program, &table, &plan, initial).unwrap();
            lists.launches += commands.waves();
            lists.jobs += (0..commands.waves()).map(|wave| commands.jobs(wave)).sum::<usize>();
            lists.words += commands.words().len();
        }
    }
    Some((counts, lists))
}

/// On lattices, the default policy has fewer batches, and `by_depth` has fewer waves.
#[test]
fn only_lattices_have_fewer_waves_by_depth() {
    let (by_depth, default): (fn() -> _, fn() -> _) = (Scheduler::by_depth, Scheduler::default);
    let (planned, hoisted) = ((CellStyle::Planned, 0), (CellStyle::Hoisted, 0));
    let folded = (CellStyle::Hoisted, u64::MAX);
    let mut got = String::new();
    for (name, file) in [
        (ModelName::TreeLstm, "sst/test.txt.gz"),
        (ModelName::LatticeLstm, "newswire/test.arcs.txt.gz"),
        (ModelName::BiLstmTagger, "wikigold/wikigold.txt.gz"),
    ] {
        for (how, style, scheduler) in [
            ("by depth", planned, by_depth),
            ("by depth, hoisted", hoisted, by_depth),
            ("by depth, folded", folded, by_depth),
            ("default", planned, default),
        ] {
            let Some((counts, lists)) = count(name, file, style, scheduler) else { return };
            let ([batches, waves, mini_batches], Lists { launches, jobs, words }) = (counts, lists);
            let counts = format!("{batches} batches, {waves} waves, {mini_batches} mini-batches");
            let list = format!("{launches} launches, {jobs} jobs, {words} words");
            writeln!(got, "{} {how}: {counts}\n{list}", name.name()).unwrap();
        }
    }
    // Prologues for rows of a table add a wave to trees, unless the table is folded. Other models
    // have initial values, for which the same wave waits.
    let expected = "\
        tree_lstm by depth: 766 batches, 766 waves, 35 mini-batches\n\
        801 launches, 248566 jobs, 1212160 words\n\
        tree_lstm by depth, hoisted: 766 batches, 801 waves, 35 mini-batches\n\
        836 launches, 248601 jobs, 1234400 words\n\
        tree_lstm by depth, folded: 766 batches, 766 waves, 35 mini-batches\n\
        801 launches, 248566 jobs, 1212160 words\n\
        tree_lstm default: 766 batches, 766 waves, 35 mini-batches\n\
        801 launches, 248566 jobs, 1212160 words\n\
        lattice_lstm by depth: 1346 batches, 739 waves, 5 mini-batches\n\
        744 launches, 57367 jobs, 355540 words\n\
        lattice_lstm by depth, hoisted: 1346 batches, 739 waves, 5 mini-batches\n\
        744 launches, 57377 jobs, 364244 words\n\
        lattice_lstm by depth, folded: 1346 batches, 739 waves, 5 mini-batches\n\
        744 launches, 57367 jobs, 355540 words\n\
        lattice_lstm default: 1036 batches, 934 waves, 5 mini-batches\n\
        939 launches, 57057 jobs, 351332 words\n\
        bilstm_tagger by depth: 7031 batches, 1832 waves, 27 mini-batches\n\
        1886 launches, 358337 jobs, 1775420 words\n\
        bilstm_tagger by depth, hoisted: 7031 batches, 1832 waves, 27 mini-batches\n\
        1886 launches, 358391 jobs, 1810012 words\n\
        bilstm_tagger by depth, folded: 7031 batches, 1832 waves, 27 mini-batches\n\
        1886 launches, 358337 jobs, 1775420 words\n\
        bilstm_tagger default: 7031 batches, 1832 waves, 27 mini-batches\n\
        1886 launches, 358337 jobs, 1775420 words\n";
    assert_eq!(got, expected);
}

/// Returns the number of phases of each cell of a network, without hoisting.
fn phases_of(network: &Arc<Network>) -> String {
    let program = Program::new(network.clone(), CellStyle::Planned).unwrap();
    let of_cell = |cell: &CellPlan| {
        let phases = phases(network, cell);
        check_phases(cell, &phases).unwrap();
        format!("{} {}", cell.name, phases.len())
    };
    program.cells().iter().map(of_cell).collect::<Vec<_>>().join(", ")
}

/// A phase ends where a product reads columns that other units of work have just computed, such as
/// the reset state of a GRU or the hidden layer of an output.
#[test]
fn an_lstm_is_one_phase_and_a_gru_is_two() {
    let cells = [
        phases_of(TreeLstm::new(TREES).unwrap().network()),
        phases_of(TreeGru::new(TREES).unwrap().network()),
        phases_of(tagger(1).network()),
        phases_of(nmt().network()),
    ];
    let expected = [
        "leaf 1, node 1, output 1",
        "leaf 2, node 2, output 1",
        // The output has two layers. The first one concatenates both directions.
        "fwd.0 1, bwd.0 1, output 2",
        // A word's projection, and the gates.
        "encoder 2, decoder 2, output 1",
    ];
    assert_eq!(cells, expected);
}
