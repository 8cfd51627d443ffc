//! The machine code of every model's kernels. It needs NVRTC, but no device.

use std::sync::Arc;

use edbatch_cuda::{self as cuda, CudaError, CudaOptions, DevicePrecision};
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

/// On an A100, an H100 or H200, and an RTX 5090: slices × groups of a team, bytes of recurrent
/// weights that are streamed and of all of them, and the shapes of unit tiles by phase.
const TEAMS: &str = "\
sm_80 tree_lstm 256: 32 x 3, 0 of 2097152, 2: P2R1 P2R2 P4R2 S4R8
sm_80 tree_lstm_2type 256: 64 x 1, 0 of 4194304, 2 3: P2R1 P2R2 P4R2 S4R8
sm_80 tree_gru 256: 32 x 3, 0 of 1572864, 3 4: P2R1 S4R8
sm_80 mv_rnn 256: 4 x 27, 0 of 32768, 2: P2R1 P2R2 P4R2 P4R4 S4R8
sm_80 bilstm_tagger 256: 108 x 1, 0 of 6291456, 1 4: P2R1 P4R4 S4R8, 2 5: P2R1 S4R8
sm_80 bilstm_tagger_char 256: 108 x 1, 4194304 of 9961472, 2 3 5 6 8 9: P2R2 S4R8
sm_80 lstm_nmt 256: 32 x 3, 0 of 2097152, 2 5: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_80 lattice_lstm 256: 32 x 3, 0 of 2097152, 1 3: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_80 lattice_gru 256: 32 x 3, 0 of 1572864, 1 4: P2R1 P4R4 S4R8, 2 5: P2R1 S4R8
sm_90 tree_lstm 256: 16 x 8, 0 of 2097152, 2: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_90 tree_lstm_2type 256: 32 x 4, 0 of 4194304, 2 3: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_90 tree_gru 256: 16 x 8, 0 of 1572864, 3 4: P2R1 S4R8
sm_90 mv_rnn 256: 4 x 33, 0 of 32768, 2: P2R1 P2R2 P4R2 P4R4 S4R8
sm_90 bilstm_tagger 256: 64 x 2, 0 of 6291456, 1 2 4 5: P2R1 P4R4 S4R8
sm_90 bilstm_tagger_char 256: 132 x 1, 0 of 9961472, 2 3 5 6 8 9 10 11: P2R2 S4R8
sm_90 lstm_nmt 256: 16 x 8, 0 of 2097152, 2 5: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_90 lattice_lstm 256: 16 x 8, 0 of 2097152, 1 3: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_90 lattice_gru 256: 16 x 8, 0 of 1572864, 1 4: P2R1 P4R4 S4R8, 2 5: P2R1 S4R8
sm_90 tree_lstm 512: 64 x 2, 0 of 8388608, 2: P2R1 P2R2 S4R8
sm_90 tree_lstm_2type 512: 132 x 1, 0 of 16777216, 2 3: P2R1 P2R2 S4R8
sm_90 tree_gru 512: 64 x 2, 0 of 6291456, 3 4: P2R1 S4R8
sm_90 mv_rnn 512: 4 x 33, 0 of 131072, 2: P2R1 P2R2 P4R2 P4R4 S4R8
sm_90 bilstm_tagger 512: 132 x 1, 8388608 of 25165824, 1 4: P2R1 P4R4 S4R8, 2: P2R1 S4R8
sm_90 bilstm_tagger_char 512: 132 x 1, 25165824 of 39845888, 2 3 5 6 8: P2R2 S4R8
sm_90 lstm_nmt 512: 64 x 2, 0 of 8388608, 2 5: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_90 lattice_lstm 512: 64 x 2, 0 of 8388608, 1 3: P2R1 P2R2 P4R2 P4R4 S4R8 S8R8
sm_90 lattice_gru 512: 64 x 2, 0 of 6291456, 1 2 4 5: P2R1 S4R8
sm_120 tree_lstm 256: 4 x 42, 2097152 of 2097152
sm_120 tree_lstm_2type 256: 4 x 42, 4194304 of 4194304
sm_120 tree_gru 256: 64 x 2, 0 of 1572864, 3 4: P2R1 S4R8
sm_120 mv_rnn 256: 4 x 42, 0 of 32768, 2: P2R1 P2R2 P4R2 P4R4 S4R8
sm_120 bilstm_tagger 256: 64 x 2, 4194304 of 6291456, 1 4: P2R1 P2R2 P4R2 S4R8
sm_120 bilstm_tagger_char 256: 64 x 2, 8388608 of 9961472, 2 5: P2R1 P4R4 S4R8, 3 6: P2R1 S4R8
sm_120 lstm_nmt 256: 64 x 2, 0 of 2097152, 2 5: P2R1 P2R2 P4R2 S4R8
sm_120 lattice_lstm 256: 64 x 2, 0 of 2097152, 1 3: P2R1 P2R2 P4R2 S4R8
sm_120 lattice_gru 256: 32 x 5, 0 of 1572864, 1 2 4 5: P2R1 S4R8
";

#[test]
fn teams_and_shapes_follow_from_recurrent_weights() {
    let devices = [("sm_80", 108, 163, &[256][..]), ("sm_90", 132, 227, &[256, 512])];
    let mut got = String::new();
    for (device, sms, kilobytes, sizes) in
        devices.into_iter().chain([("sm_120", 170, 99, &[256][..])])
    {
        for &hidden in sizes {
            for (name, network) in networks(hidden).unwrap() {
                let program = Program::new(network, CellStyle::Hoisted).unwrap();
                let size = cuda::team_size(&program, sms, kilobytes << 10);
                let cuda::TeamSize { blocks, groups, streamed_bytes, recurrent_bytes, .. } = size;
                let bytes = format!("{streamed_bytes} of {recurrent_bytes}");
                let line = format!(
                    "{device} {name} {hidden}: {blocks} x {groups}, {bytes}, {}",
                    size.tiles
                );
                got += &format!("{}\n", line.trim_end_matches(", "));
            }
        }
    }
    assert_eq!(got, TEAMS);
}

/// An H100 or H200.
const HOPPER: (&str, CellStyle) = ("sm_90", CellStyle::Hoisted);

/// The maximum number of registers of a thread.
const MAX_REGISTERS: usize = 255;

/// The maximum number of bytes of stack that a function takes for its calls.
const MAX_STACK: usize = 128;

/// The maximum number of bytes of code.
const MAX_BYTES: usize = 1 << 20;

/// The maximum number of lines of PTX of a function: the compile time grows with it. Unit tiles are
/// inlined into the kernel.
const MAX_LINES: usize = 5_000;
const MAX_LINES_WITH_TILES: usize = 30_000;

/// Returns what was compiled. Without a compiler, counts a skipped test and returns `None`.
#[track_caller]
fn compiled_or_skip<T>(compiled: Result<T, CudaError>) -> Option<T> {
    edbatch_testing::or_skip(compiled, |error| matches!(error, CudaError::NoCompiler { .. }))
}

/// Compiles a network for an architecture, checks that no function spills registers, and returns
/// the largest number of registers and of lines of a function. Returns `None` without a compiler.
fn compiled(
    network: &Arc<Network>,
    (architecture, style): (&str, CellStyle),
    options: &CudaOptions,
    what: &str,
) -> Option<(usize, usize)> {
    let program = Program::new(network.clone(), style).unwrap();
    let kernels = compiled_or_skip(cuda::compile(&program, options, architecture))?;
    let usage = kernels.usage.expect("the log contains it");
    let lines = kernels.longest_function;
    eprintln!("{what}, {architecture}, {style:?}: {usage}; {lines} lines");
    assert_eq!(usage.spilled, 0, "{what}");
    assert!(usage.registers <= MAX_REGISTERS, "{what}: {} registers", usage.registers);
    assert!(usage.stack <= MAX_STACK, "{what}: a stack of {} bytes", usage.stack);
    assert!(kernels.bytes <= MAX_BYTES, "{what}: {} bytes of code", kernels.bytes);
    let has_tiles = !cuda::team_size(&program, 132, 227 << 10).tiles.is_empty();
    let most = if has_tiles { MAX_LINES_WITH_TILES } else { MAX_LINES };
    assert!((100..=most).contains(&lines), "{what}: a function of {lines} lines");
    Some((usage.registers, lines))
}

/// Compiles all models, or those with these names.
fn models_compile(
    (architecture, style): (&str, CellStyle),
    options: &CudaOptions,
    hidden: usize,
    names: &[&str],
) -> Vec<usize> {
    let mut networks = networks(hidden).unwrap();
    networks.retain(|(name, _)| names.is_empty() || names.contains(name));
    let compiled = networks.iter().map_while(|(name, network)| {
        compiled(network, (architecture, style), options, &format!("{name}, {hidden}"))
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

/// Registers per thread, by precision and model, on an H100 with 256 elements in a hidden vector;
/// exact for NVRTC 13.0.88.
const REGISTERS: [(DevicePrecision, [usize; 9]); 3] = [
    (DevicePrecision::Exact, [254, 254, 254, 168, 250, 230, 249, 241, 210]),
    (DevicePrecision::Tf32, [206, 206, 255, 144, 248, 255, 156, 168, 198]),
    (DevicePrecision::Bf16, [206, 206, 255, 144, 248, 255, 146, 168, 198]),
];

#[test]
fn models_compile_for_hopper() {
    for (precision, expected) in REGISTERS {
        let registers = models_compile(HOPPER, &CudaOptions::new().precision(precision), 256, &[]);
        // There are none if the machine has no compiler.
        if !registers.is_empty() {
            assert_eq!(registers, expected, "{precision:?}");
        }
    }
}

/// Compile time grows faster than the length of a function, so no function may be long.
#[test]
fn functions_of_random_networks_are_short() {
    let seeds = if edbatch_testing::all_cases() { 30 } else { 3 };
    for seed in 0..seeds {
        let network = edbatch_testing::Subject::random(seed).network;
        let what = format!("random network {seed}");
        if compiled(&network, HOPPER, &CudaOptions::new(), &what).is_none() {
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
    compiled(&network, HOPPER, &CudaOptions::new(), "slow_to_compile");
}

#[test]
fn models_of_odd_sizes_compile() {
    models_compile(("sm_80", CellStyle::Planned), &CudaOptions::new(), 42, &[]);
}

#[test]
fn models_compile_for_blackwell() {
    // Those with the most registers.
    let largest = ["tree_gru", "bilstm_tagger", "lattice_lstm"];
    let names = if edbatch_testing::all_cases() { &[][..] } else { &largest };
    models_compile(("sm_100", CellStyle::Planned), &CudaOptions::new(), 256, names);
}
