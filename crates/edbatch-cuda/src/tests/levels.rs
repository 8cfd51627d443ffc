//! The placement of the models: cells that do not wait for each other have blocks of their own.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use edbatch_graph::{CellError, Dag, Graph, Network, NodeId, Schedule, Shape, Value};
use edbatch_layout::{CellPart, CellStyle, Lifetimes, MiniBatch, Planner, Program};
use edbatch_models::{Build, Mailbox, Model};
use edbatch_testing::generate::{self, Style};
use edbatch_testing::networks::Random;
use edbatch_testing::{Subject, every_value, planned};
use edbatch_zoo::*;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

use super::placed::check;
use crate::backend::Cuda;
use crate::command_list::CommandList;
use crate::device::Properties;
use crate::emulated::Emulated;
use crate::loaded::Generated;
use crate::place::{Placement, Tile};
use crate::reads::Reads;
use crate::{CudaError, CudaOptions, DeviceModel, PhaseTable, Prediction};

/// Devices: the architecture, the number of SMs, and the kilobytes of shared memory of a block.
const DEVICES: [(&str, u32, usize); 2] = [("sm_90", 132, 227), ("sm_120", 170, 99)];

/// A graph, and the values that its inputs emit.
pub(super) type Emitting = (Graph, Vec<Value>);

/// The graph of eight inputs of each model, and one of the translator. Models that await a value
/// have the graph of the first round.
pub(super) fn graphs(
    hidden: usize,
    stop: Stop,
) -> Result<Vec<(&'static str, Emitting)>, CellError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let count = 8;
    let (vocabulary, embed, classes) = (2, hidden, 5);
    let trees = generate::binary_trees(&mut rng, count);
    let trees: Vec<_> = trees.iter().map(|tree| tree.map(|_| 0, |_| 1)).collect();
    let indexed = (0..).zip(&trees).map(|(index, tree)| IndexedTree { index, tree: tree.clone() });
    let sentences = generate::tagged_sentences(&mut rng, count);
    let lattices = generate::lattices(&mut rng, count, Style::Newswire);
    let lattices: Vec<_> = lattices.iter().map(|lattice| lattice.map(|_| 1, |_| 1)).collect();
    let mut is_known = false;
    let mut spelled = |word: &String| {
        is_known = !is_known;
        if is_known { Word::Known(1) } else { Word::Spelled(vec![1; word.len()]) }
    };
    let source = SourceSentence { words: vec![0; 9], stop };
    let tree = TreeSizes { vocabulary, embed, hidden, classes };
    let tagger = TaggerSizes { vocabulary, embed, hidden, layers: 2, mlp: 19, tags: 9 };
    let (char_embed, char_hidden) = (hidden / 2, hidden / 2);
    let chars = CharTaggerSizes { tagger, chars: 2, char_embed, char_hidden };
    let lattice = LatticeSizes { chars: 2, words: 2, embed, hidden, classes };
    let translator = NmtSizes { source: 3, target: 3, embed, hidden };
    let matrices = MvRnnSizes { vocabulary, hidden: hidden / 4, classes };
    let words: Vec<_> = sentences.iter().map(|sentence| sentence.map(|_| 1)).collect();
    let spelled: Vec<_> = sentences.iter().map(|sentence| sentence.map(&mut spelled)).collect();
    Ok(vec![
        ("tree_lstm", graph(&TreeLstm::new(tree)?, &trees)),
        ("tree_lstm_2type", graph(&TreeLstm2Type::new(tree)?, &indexed.collect::<Vec<_>>())),
        ("tree_gru", graph(&TreeGru::new(tree)?, &trees)),
        ("mv_rnn", graph(&MvRnn::new(matrices)?, &trees)),
        ("bilstm_tagger", graph(&BiLstmTagger::new(tagger)?, &words)),
        ("bilstm_tagger_char", graph(&BiLstmTaggerChar::new(chars)?, &spelled)),
        ("lstm_nmt", graph(&LstmNmt::new(translator)?, &[source])),
        ("lattice_lstm", graph(&LatticeLstm::new(lattice)?, &lattices)),
        ("lattice_gru", graph(&LatticeGru::new(lattice)?, &lattices)),
    ])
}

fn graph<M: Model>(model: &M, inputs: &[M::Input]) -> Emitting {
    let graph = RefCell::new(Graph::new(model.network().clone()));
    let mut emitted = Vec::new();
    for input in inputs {
        let mailbox = RefCell::new(Mailbox::default());
        let build = Build::new(&graph, &mailbox);
        _ = pin!(model.build(&build, input)).poll(&mut Context::from_waker(Waker::noop()));
        emitted.append(&mut mailbox.borrow_mut().emitted);
    }
    (graph.into_inner(), emitted)
}

/// Slices of units of all three gates would be 13, with 59 or 60 columns.
#[test]
fn the_prologue_of_three_gates_is_divided_into_whole_tiles() {
    let (_, (graph, _)) = &graphs(256, Stop::AtEnd).unwrap()[0];
    let program = Program::new(graph.network().clone(), CellStyle::Hoisted).unwrap();
    let table = PhaseTable::new(&program);
    let prologues = table.entries().iter().filter(|entry| entry.part == CellPart::Prologue);
    assert_eq!(prologues.map(|it| (it.slices, it.is_large)).collect::<Vec<_>>(), [(12, true)]);
}

/// Returns the cells that read each other in a plan of a graph.
fn reads(program: &Program, graph: &Graph) -> Reads {
    let mut schedule = Schedule::new();
    for node in (0..graph.nodes()).map(NodeId::new) {
        schedule.push(graph.kind(node), &[node]);
    }
    let wanted = every_value(graph);
    let mini_batch = MiniBatch { program, graph, schedule: &schedule, wanted: &wanted };
    let plan = planned(&mut Planner::new(Lifetimes::Distinct), &mini_batch);
    let mut commands = CommandList::default();
    let initial = graph.network().initial_values().len();
    commands.write(program, &PhaseTable::new(program), &plan, (initial, &[])).unwrap();
    commands.reads().clone()
}

/// Checks that the cells of a level have no block in common, and that no block without a tile of a
/// level could take one from a block that has two tiles of a phase. Returns the levels: cells, and
/// the slices of each of their phases.
fn levels(placement: &Placement, tiles: &[Tile<'_>], reads: &Reads, names: &[String]) -> String {
    let cells: Vec<_> = tiles.iter().map(|tile| tile.0).collect();
    let levels = reads.levels(&cells);
    let mut text = String::new();
    for level in 0..=levels.iter().copied().max().unwrap_or(0) {
        let mut taken = vec![None; placement.slices as usize];
        let mut is_even = true;
        let mut last = None;
        text += " |";
        for (&(cell, tile), _) in tiles.iter().zip(&levels).filter(|of| *of.1 == level) {
            if last != Some(cell) {
                text += &format!(" {}", names[cell.index()]);
                last = Some(cell);
            }
            let Some(place) = &placement.places[tile.phase] else {
                text += " streamed";
                continue;
            };
            text += &format!(" {:?}", place.slices);
            is_even &= place.slices.len() as u32 == tile.blocks();
            for block in place.slices.clone() {
                let other = taken[block as usize].replace(cell);
                assert!(other.is_none_or(|other| other == cell), "{text}");
            }
        }
        assert!(is_even || taken.iter().all(Option::is_some), "idle blocks: {text}");
    }
    text
}

/// The slices of a group; then for each level its cells, and the slices of each of their phases.
const PLACES: &str = "\
sm_90 tree_lstm: 16 | node 0..16
sm_90 tree_lstm_2type: 32 | node0 0..16 node1 16..32
sm_90 tree_gru: 16 | node 0..16 0..16
sm_90 mv_rnn: 4 | node 0..4
sm_90 bilstm_tagger: 64 | fwd.0 0..16 bwd.0 32..48 | fwd.1 16..32 bwd.1 48..64
sm_90 bilstm_tagger_char: 132 | cfwd.0 0..8 cbwd.0 66..74 | cfwd.1 8..16 cbwd.1 74..82\
    \x20| fwd.0 16..32 bwd.0 82..98 | fwd.1 32..48 bwd.1 98..114
sm_90 lstm_nmt: 16 | encoder 0..16 | decoder 0..16
sm_90 lattice_lstm: 16 | char 0..8 word 8..16
sm_90 lattice_gru: 16 | char 0..8 0..8 word 8..16 8..16
sm_120 tree_lstm: 4 |
sm_120 tree_lstm_2type: 4 |
sm_120 tree_gru: 64 | node 0..32 32..48
sm_120 mv_rnn: 4 | node 0..4
sm_120 bilstm_tagger: 64 | fwd.0 0..32 bwd.0 32..64
sm_120 bilstm_tagger_char: 64 | cfwd.0 0..8 cbwd.0 32..40 | cfwd.1 8..24 cbwd.1 40..56
sm_120 lstm_nmt: 64 | encoder 0..32 | decoder 32..64
sm_120 lattice_lstm: 64 | char 0..32 word 32..64
sm_120 lattice_gru: 32 | char 0..16 0..16 word 16..32 16..32
";

/// A network of two cells with unit tiles that share a record: the second reads the first.
fn two_cells() -> Subject {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(64))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let cells = ["first", "second"].map(|name| {
        let cell = network.cell(name, state, |cell| {
            let [h] = cell.one("previous", state);
            vec![cell.parameter(name, &[64, 64]).matmul(h).tanh()]
        });
        cell.unwrap()
    });
    let network = Arc::new(network);
    let mut graph = Graph::new(network.clone());
    let calls = [0, 0, 0, 1, 1].iter();
    calls.fold(start, |value, &cell| graph.call(cells[cell], &[], &[value]).unwrap());
    Subject::of(network, graph, &mut Random::seed_from_u64(1))
}

/// Until a plan has shown that one waits for the other, cells of a record are side by side.
#[test]
fn a_plan_shows_which_cells_wait_for_each_other() {
    let subject = two_cells();
    let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
    let (program, device) = (Arc::new(program), Emulated::new(1).with_size(12, 160 << 10));
    let loaded = Cuda::new(&[Arc::new(device)], &program, &subject.parameters, &CudaOptions::new());
    let lacks = |error: &_| matches!(CudaError::of(error), Some(CudaError::NoCompiler { .. }));
    let Some(mut device) = edbatch_testing::or_skip(loaded, lacks) else { return };
    let slices = |device: &Cuda<Emulated>| {
        let placed = device.loaded.placed();
        let places = placed.placement.places.iter();
        places.map(|place| place.as_ref().unwrap().slices.clone()).collect::<Vec<_>>()
    };
    assert_eq!(slices(&device), [0..2, 2..4]);
    let first = subject.run(&program, &mut device).unwrap();
    assert_eq!(slices(&device), [0..4, 0..4]);
    assert_eq!(subject.run(&program, &mut device).unwrap(), first);
    // The next plan shows nothing new.
    let placed = device.loaded.placed();
    subject.run(&program, &mut device).unwrap();
    assert!(Arc::ptr_eq(&placed, &device.loaded.placed()));
}

/// The model of times places cells by the plans that it has seen, too: each of the five calls is a
/// tile of all four slices, not of two.
#[test]
fn the_model_follows_plans() {
    let subject = two_cells();
    let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
    let (graph, schedule) = (&subject.graph, &subject.schedule);
    let wanted = every_value(graph);
    let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &wanted };
    let plan = planned(&mut Planner::new(Lifetimes::Distinct), &mini_batch);
    let mut model = DeviceModel::new(&program, &CudaOptions::new(), 12, 194 << 10);
    let (mut commands, mut got) = (CommandList::default(), Prediction::default());
    model.predict((&program, &plan), &mut commands, &mut got).unwrap();
    assert_eq!(got.unit_tiles.iter().sum::<u64>(), 5 * 4);
}

#[test]
fn each_level_of_a_model_has_all_blocks() {
    let mut got = String::new();
    for (architecture, sms, kilobytes) in DEVICES {
        for (name, (graph, _)) in graphs(256, Stop::AtEnd).unwrap() {
            let program = Program::new(graph.network().clone(), CellStyle::Hoisted).unwrap();
            let properties = Properties {
                name: String::new(),
                architecture: architecture.into(),
                sms,
                shared_bytes: kilobytes << 10,
            };
            let options = CudaOptions::new();
            let generated = Generated::new(&program, &options, Some(&properties), architecture);
            let (table, reads) = (&generated.placer.phases, reads(&program, &graph));
            let cell = |phase: usize| table.entries()[phase].cell;
            let tiles = generated.placer.tiles.iter();
            let tiles: Vec<Tile<'_>> = tiles.map(|tile| (cell(tile.phase), tile)).collect();
            let phases = table.entries().len();
            let placement = Placement::new(&tiles, &reads, phases, sms, kilobytes << 10);
            check(&placement, &tiles).unwrap();
            let names = graph.network().kind_names();
            let levels = levels(&placement, &tiles, &reads, &names);
            got += &format!("{architecture} {name}: {}{levels}\n", placement.slices);
            // Before the first plan, groups have the same size.
            let (_, first) = generated.placer.place();
            check(&first, &tiles).unwrap();
            assert_eq!(first.slices, placement.slices, "{name}");
        }
    }
    assert_eq!(got, PLACES);
}
