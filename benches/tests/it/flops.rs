//! FLOPs of cells, compared with formulas from papers.

use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::flops::{cell_flops, flops};
use edbatch_benches::measure::sets::Source;
use edbatch_benches::measure::workload::{MiniBatch, Part};
use edbatch_graph::{Dag, NodeId};

const H: u64 = 6;
/// Embeddings have the size of hidden vectors.
const E: u64 = H;
const LSTM: u64 = 8 * H * (E + H);
const GRU: u64 = 6 * H * (E + H);

/// Numbers of labels: sentiments of SST, tags of WikiGold, classes of newswire.
const SENTIMENTS: u64 = 5;
const TAGS: u64 = 9;
const CLASSES: u64 = 18;

fn check(model: &str, expected: &[(&str, u64)]) {
    let (_, with_set) = FAMILIES.iter().find(|(name, _)| *name == model).unwrap();
    let workload = with_set(&Source::Generated).unwrap().at(H as usize).unwrap();
    let cells = workload.network().cells();
    let got: Vec<_> = cells.iter().map(|cell| (cell.name(), cell_flops(cell))).collect();
    assert_eq!(got, expected, "{model}");

    let mini_batch = MiniBatch { first: 0, size: 3 };
    for unrolled in workload.unroll(Part::Test, mini_batch).iter().take(3) {
        let graph = &unrolled.graph;
        let kinds = (0..graph.nodes()).map(|node| graph.kind(NodeId::new(node)));
        assert_eq!(flops(graph), kinds.map(|kind| expected[kind.index()].1).sum::<u64>());
    }
}

#[test]
fn trees_have_the_flops_of_their_formulas() {
    let (leaf, output) = (("leaf", 6 * H * E), ("output", 2 * SENTIMENTS * H));
    let inner = 16 * H * H;
    check("tree_lstm", &[leaf, ("node", inner), output]);
    check("tree_lstm_2type", &[leaf, ("node0", inner), ("node1", inner), output]);
    check("tree_gru", &[leaf, ("node", 12 * H * H), output]);
    check("mv_rnn", &[("leaf", 0), ("node", 4 * H * H * H + 8 * H * H), output]);
}

#[test]
fn taggers_have_the_flops_of_their_formulas() {
    let mlp = H;
    let output = ("output", 2 * (2 * H) * mlp + 2 * TAGS * mlp);
    let stacks = [("fwd.0", LSTM), ("fwd.1", LSTM), ("bwd.0", LSTM), ("bwd.1", LSTM)];
    check("bilstm_tagger", &[&stacks[..], &[output]].concat());
}

#[test]
fn lattices_have_the_flops_of_their_formulas() {
    let output = ("output", 2 * CLASSES * H);
    check("lattice_lstm", &[("char", LSTM), ("word", LSTM), output]);
    check("lattice_gru", &[("char", GRU), ("word", GRU), output]);
}

#[test]
fn cells_over_characters_have_half_the_size() {
    let (_, with_set) = FAMILIES.iter().find(|(name, _)| *name == "bilstm_tagger_char").unwrap();
    let workload = with_set(&Source::Generated).unwrap().at(H as usize).unwrap();
    let cells = workload.network().cells();
    let flops: Vec<_> = cells.iter().map(|cell| (cell.name(), cell_flops(cell))).collect();
    let half = H / 2;
    assert!(flops.contains(&("cfwd.0", 8 * half * (half + half))), "{flops:?}");
    assert!(flops.contains(&("fwd.0", LSTM)) && flops.contains(&("embed", 0)), "{flops:?}");
}

#[test]
fn translation_projects_before_each_step() {
    let (_, with_set) = FAMILIES.iter().find(|(name, _)| *name == "lstm_nmt").unwrap();
    let workload = with_set(&Source::Generated).unwrap().at(H as usize).unwrap();
    let cells = workload.network().cells();
    let flops: Vec<_> = cells.iter().map(cell_flops).collect();
    assert_eq!(flops[..2], [2 * E * H + 16 * H * H; 2]);
}
