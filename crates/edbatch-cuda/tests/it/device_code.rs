//! The machine code of every model's kernels. It needs NVRTC, but no device.

use std::sync::Arc;

use edbatch_cuda::{self as cuda, CudaError, CudaOptions, Driver};
use edbatch_graph::{CellError, Network};
use edbatch_layout::{CellStyle, Program};
use edbatch_models::Model;
use edbatch_zoo::*;

/// Every model, with `hidden` elements in a hidden vector.
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

/// By model and elements of a hidden vector, on an H100 or H200: blocks of a team, bytes of shared
/// memory per block, bytes of recurrent weights, and bytes of those that are streamed.
const TEAMS: &str = "\
tree_lstm 256: 16 164608 2097152 0
tree_lstm_2type 256: 32 164608 4194304 0
tree_gru 256: 8 230144 1572864 0
mv_rnn 256: 4 41728 32768 0
bilstm_tagger 256: 32 230144 6291456 0
bilstm_tagger_char 256: 64 189184 9961472 0
lstm_nmt 256: 16 164608 2097152 0
lattice_lstm 256: 16 164608 2097152 0
lattice_gru 256: 8 230144 1572864 0
tree_lstm 512: 64 164608 8388608 0
tree_lstm_2type 512: 132 164608 16777216 0
tree_gru 512: 32 230144 6291456 0
mv_rnn 512: 4 66304 131072 0
bilstm_tagger 512: 132 230144 25165824 0
bilstm_tagger_char 512: 132 213760 39845888 16777216
lstm_nmt 512: 64 164608 8388608 0
lattice_lstm 512: 64 164608 8388608 0
lattice_gru 512: 32 230144 6291456 0
";

#[test]
fn team_sizes_follow_from_recurrent_weights() {
    const SMS: u32 = 132;
    const SHARED_BYTES: usize = 227 << 10;
    let mut got = String::new();
    for hidden in [256, 512] {
        for (name, network) in networks(hidden).unwrap() {
            let program = Program::new(network, CellStyle::Hoisted).unwrap();
            let size = cuda::team_size(&program, SMS, SHARED_BYTES, 0);
            let cuda::TeamSize { blocks, shared_bytes, recurrent_bytes, streamed_bytes, .. } = size;
            let line = format!("{blocks} {shared_bytes} {recurrent_bytes} {streamed_bytes}");
            got += &format!("{name} {hidden}: {line}\n");
        }
    }
    assert_eq!(got, TEAMS);
}

/// With more registers, two blocks of 256 threads do not fit on an SM.
const MAX_OF_WAVES: usize = 128;

/// A team's block has an SM to itself.
const MAX_OF_TEAMS: usize = 200;

/// Registers per thread of teams, by model, on an H100 with 256 elements in a hidden vector; exact
/// for NVRTC 13.0.88.
const REGISTERS: [usize; 9] = [136, 168, 116, 110, 166, 166, 114, 116, 116];

/// Compiles all models for an architecture and checks that no register is spilled. Returns the
/// registers per thread, or `None` without a compiler.
fn compiled(
    driver: Driver,
    architecture: &str,
    style: CellStyle,
    hidden: usize,
) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for (name, network) in networks(hidden).unwrap() {
        let program = Program::new(network, style).unwrap();
        let options = CudaOptions::new().driver(driver);
        let kernels = match cuda::compile(&program, &options, architecture) {
            Err(error @ CudaError::NoCompiler { .. }) => {
                edbatch_testing::skip(&error.to_string());
                return None;
            }
            compiled => compiled.unwrap(),
        };
        let what = format!("{name}, {driver:?}, {architecture}, {style:?}, {hidden}");
        let usage = kernels.usage.expect("the log contains it");
        let (spilled, registers) = ((usage.spilled, usage.stack), usage.registers);
        eprintln!("{what}: {registers} registers");
        assert_eq!(spilled, (0, 0), "{what}");
        let max = match driver {
            Driver::Teams => MAX_OF_TEAMS,
            Driver::Waves => MAX_OF_WAVES,
        };
        assert!(registers <= max, "{what}: {registers}");
        all.push(registers);
    }
    Some(all)
}

/// Spilled registers would distort its measurements.
#[test]
fn the_probe_kernel_compiles_without_spilling() {
    for architecture in ["sm_80", "sm_90", "sm_100"] {
        let kernel = match cuda::measure::compile(architecture) {
            Err(error @ CudaError::NoCompiler { .. }) => {
                return edbatch_testing::skip(&error.to_string());
            }
            compiled => compiled.unwrap(),
        };
        let usage = kernel.usage.expect("the log contains it");
        assert_eq!((usage.spilled, usage.stack), (0, 0), "{architecture}");
        assert!(usage.registers <= 64, "{architecture}: {}", usage.registers);
    }
}

#[test]
fn teams_compile_for_hopper() {
    let registers = compiled(Driver::Teams, "sm_90", CellStyle::Hoisted, 256);
    if let Some(registers) = registers {
        assert_eq!(registers, REGISTERS);
    }
}

#[test]
fn waves_compile_for_hopper() {
    compiled(Driver::Waves, "sm_90", CellStyle::Hoisted, 256);
}

#[test]
#[ignore = "takes minutes"]
fn teams_of_odd_sizes_compile() {
    compiled(Driver::Teams, "sm_80", CellStyle::Planned, 42);
}

#[test]
#[ignore = "takes minutes"]
fn waves_of_odd_sizes_compile() {
    compiled(Driver::Waves, "sm_80", CellStyle::Planned, 42);
}

#[test]
#[ignore = "takes minutes"]
fn teams_compile_for_blackwell() {
    compiled(Driver::Teams, "sm_100", CellStyle::Planned, 256);
}

#[test]
#[ignore = "takes minutes"]
fn waves_compile_for_blackwell() {
    compiled(Driver::Waves, "sm_100", CellStyle::Planned, 256);
}
