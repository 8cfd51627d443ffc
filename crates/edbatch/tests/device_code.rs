//! The machine code of every model's kernels, made without a device where NVIDIA's compiler is.
#![cfg(feature = "cuda")]

use std::sync::Arc;

use edbatch_graph::{CellError, Network};
use edbatch_layout::{CellStyle, Program};
use edbatch_models::*;
use edbatch_runtime::{CudaError, cuda};

/// Every model, with so many elements a hidden vector.
fn networks(hidden: usize) -> Result<Vec<(&'static str, Arc<Network>)>, CellError> {
    let (vocabulary, embed, classes) = (100, hidden, 5);
    let tree = TreeSizes { vocabulary, embed, hidden, classes };
    let tagger = TaggerSizes { vocabulary, embed, hidden, layers: 2, mlp: 19, tags: 9 };
    let (char_embed, char_hidden) = (hidden / 2, hidden / 2);
    let embed_of_word = TaggerSizes { embed: 2 * char_hidden, ..tagger };
    let char_tagger = CharTaggerSizes { tagger: embed_of_word, chars: 50, char_embed, char_hidden };
    let lattice = LatticeSizes { chars: 50, words: 100, embed, hidden, classes };
    let translator = NmtSizes { source: 100, target: 7_709, embed, hidden };
    let matrices = MvRnnSizes { vocabulary, hidden: hidden / 4, classes };
    Ok(vec![
        ("tree_lstm", TreeLstm::new(tree)?.network().clone()),
        ("tree_lstm_2type", TreeLstm2Type::new(tree)?.network().clone()),
        ("tree_gru", TreeGru::new(tree)?.network().clone()),
        ("mv_rnn", MvRnn::new(matrices)?.network().clone()),
        ("bilstm_tagger", BiLstmTagger::new(tagger)?.network().clone()),
        ("bilstm_tagger_char", BiLstmTaggerChar::new(char_tagger)?.network().clone()),
        ("lstm_nmt", LstmNmt::new(translator)?.network().clone()),
        ("lattice_lstm", LatticeLstm::new(lattice)?.network().clone()),
        ("lattice_gru", LatticeGru::new(lattice)?.network().clone()),
    ])
}

/// Beyond it, no two blocks of 256 threads run on a processor.
const MOST_REGISTERS: usize = 128;

/// Compiles all models for an architecture; nothing is spilled, and nothing of a thread lies in
/// memory.
fn compiles(architecture: &str, style: CellStyle, hidden: usize) {
    for (name, network) in networks(hidden).unwrap() {
        let program = Program::new(network, style).unwrap();
        let kernels = match cuda::compile(&program, architecture) {
            Err(error @ CudaError::NoCompiler { .. }) => {
                return edbatch_testing::skip(&error.to_string());
            }
            compiled => compiled.unwrap(),
        };
        let (spilled, registers) = ((kernels.spilled, kernels.stack), kernels.registers);
        eprintln!("{name}, {architecture}, {style:?}, {hidden}: {registers} registers");
        assert_eq!(spilled, (0, 0), "{name}, {architecture}, {style:?}");
        assert!(registers <= MOST_REGISTERS, "{name}, {architecture}, {style:?}: {registers}");
    }
}

#[test]
fn models_compile_for_hopper() {
    compiles("sm_90a", CellStyle::Hoisted, 256);
}

#[test]
#[ignore = "takes minutes"]
fn models_of_odd_sizes_compile() {
    compiles("sm_80", CellStyle::Planned, 42);
}

#[test]
#[ignore = "takes minutes"]
fn models_compile_for_blackwell() {
    compiles("sm_100", CellStyle::Planned, 256);
}
