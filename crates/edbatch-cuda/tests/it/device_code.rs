//! The machine code of every model's kernels. It needs NVRTC, but no device.

use std::sync::Arc;

use edbatch_cuda::{self as cuda, CudaError, CudaOptions};
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
tree_lstm 256: 16 166304 2097152 0
tree_lstm_2type 256: 32 166304 4194304 0
tree_gru 256: 8 231840 1572864 0
mv_rnn 256: 4 43424 32768 0
bilstm_tagger 256: 32 231840 6291456 0
bilstm_tagger_char 256: 64 190880 9961472 0
lstm_nmt 256: 16 166304 2097152 0
lattice_lstm 256: 16 166304 2097152 0
lattice_gru 256: 8 231840 1572864 0
tree_lstm 512: 64 166304 8388608 0
tree_lstm_2type 512: 132 166304 16777216 0
tree_gru 512: 32 231840 6291456 0
mv_rnn 512: 4 68000 131072 0
bilstm_tagger 512: 132 231840 25165824 0
bilstm_tagger_char 512: 132 215456 39845888 16777216
lstm_nmt 512: 64 166304 8388608 0
lattice_lstm 512: 64 166304 8388608 0
lattice_gru 512: 32 231840 6291456 0
";

#[test]
fn team_sizes_follow_from_recurrent_weights() {
    const SMS: u32 = 132;
    const SHARED_BYTES: usize = 227 << 10;
    let mut got = String::new();
    for hidden in [256, 512] {
        for (name, network) in networks(hidden).unwrap() {
            let program = Program::new(network, CellStyle::Hoisted).unwrap();
            let size = cuda::team_size(&program, SMS, SHARED_BYTES);
            let cuda::TeamSize { blocks, shared_bytes, recurrent_bytes, streamed_bytes, .. } = size;
            let line = format!("{blocks} {shared_bytes} {recurrent_bytes} {streamed_bytes}");
            got += &format!("{name} {hidden}: {line}\n");
        }
    }
    assert_eq!(got, TEAMS);
}

/// The maximum number of registers of a thread.
const MAX_REGISTERS: usize = 200;

/// The maximum number of bytes of stack that a function takes for its calls.
const MAX_STACK: usize = 128;

/// The maximum number of lines of PTX of a function: the compile time grows with it.
const MAX_LINES: usize = 5_000;

/// Returns what was compiled. Without a compiler, counts a skipped test and returns `None`.
#[track_caller]
fn compiled_or_skip<T>(compiled: Result<T, CudaError>) -> Option<T> {
    edbatch_testing::or_skip(compiled, |error| matches!(error, CudaError::NoCompiler { .. }))
}

/// Compiles a network for an architecture, checks that no function spills registers, and returns
/// the largest number of registers and of lines of a function. Returns `None` without a compiler.
fn compiled(
    network: &Arc<Network>,
    architecture: &str,
    style: CellStyle,
    what: &str,
) -> Option<(usize, usize)> {
    let program = Program::new(network.clone(), style).unwrap();
    let kernels = compiled_or_skip(cuda::compile(&program, &CudaOptions::new(), architecture))?;
    let usage = kernels.usage.expect("the log contains it");
    let lines = kernels.longest_function;
    eprintln!("{what}, {architecture}, {style:?}: {usage}; {lines} lines");
    assert_eq!(usage.spilled, 0, "{what}");
    assert!(usage.registers <= MAX_REGISTERS, "{what}: {} registers", usage.registers);
    assert!(usage.stack <= MAX_STACK, "{what}: a stack of {} bytes", usage.stack);
    assert!((100..=MAX_LINES).contains(&lines), "{what}: a function of {lines} lines");
    Some((usage.registers, lines))
}

/// Compiles all models.
fn models_compile(architecture: &str, style: CellStyle, hidden: usize) -> Vec<usize> {
    let networks = networks(hidden).unwrap();
    let compiled = networks.iter().map_while(|(name, network)| {
        compiled(network, architecture, style, &format!("{name}, {hidden}"))
    });
    compiled.map(|(registers, _)| registers).collect()
}

/// Spilled registers would distort its measurements.
#[test]
fn the_probe_kernel_compiles_without_spilling() {
    for architecture in ["sm_80", "sm_90", "sm_100"] {
        let Some(kernel) = compiled_or_skip(cuda::measure::compile(architecture)) else { return };
        let usage = kernel.usage.expect("the log contains it");
        assert_eq!((usage.spilled, usage.stack), (0, 0), "{architecture}");
        assert!(usage.registers <= 64, "{architecture}: {}", usage.registers);
    }
}

/// Registers per thread, by model, on an H100 with 256 elements in a hidden vector; exact for
/// NVRTC 13.0.88.
const REGISTERS: [usize; 9] = [166, 168, 168, 151, 168, 167, 171, 180, 180];

#[test]
fn models_compile_for_hopper() {
    let registers = models_compile("sm_90", CellStyle::Hoisted, 256);
    // Without a compiler there are none.
    if !registers.is_empty() {
        assert_eq!(registers, REGISTERS);
    }
}

/// Compile time grows faster than the length of a function, so no function may be long.
#[test]
fn functions_of_random_networks_are_short() {
    let seeds = if edbatch_testing::all_cases() { 30 } else { 3 };
    for seed in 0..seeds {
        let network = edbatch_testing::Subject::random(seed).network;
        let what = format!("random network {seed}");
        if compiled(&network, "sm_90", CellStyle::Hoisted, &what).is_none() {
            return;
        }
    }
}

/// A network of 14 cells with 139 phases, which took 558 seconds as a single function.
#[test]
fn functions_of_a_large_network_are_short() {
    let folder = std::env::var_os("EDBATCH_SHARED").map(std::path::PathBuf::from);
    let file = folder.map(|folder| folder.join("networks/slow_to_compile/network.json"));
    let Some(text) = file.and_then(|file| std::fs::read_to_string(file).ok()) else {
        return edbatch_testing::skip("no $EDBATCH_SHARED/networks/slow_to_compile");
    };
    let network = Arc::new(edbatch_models::network_from_json(&text).unwrap());
    compiled(&network, "sm_90", CellStyle::Hoisted, "slow_to_compile");
}

#[test]
fn models_of_odd_sizes_compile() {
    models_compile("sm_80", CellStyle::Planned, 42);
}

#[test]
fn models_compile_for_blackwell() {
    models_compile("sm_100", CellStyle::Planned, 256);
}
