//! Models of a size for which recurrent cells run as unit tiles, on emulated devices.

use std::sync::Arc;

use edbatch::cuda::{CudaOptions, EmulatedDevice};
use edbatch::models::{Model, ModelConfig, Zoo};
use edbatch::{Engine, EngineOptions, Loaded, load};
use edbatch_layout::{CellStyle, Program};
use edbatch_runtime::kernels::Level;

use crate::emulated;
use crate::fn_model::random;
use crate::small::goldens;

/// The models, and other sizes of a hidden vector than 64.
const MODELS: [(&str, &[usize]); 9] = [
    ("tree_lstm", &[80, 96]),
    ("tree_lstm_2type", &[]),
    ("tree_gru", &[]),
    ("mv_rnn", &[]),
    ("bilstm_tagger", &[]),
    ("bilstm_tagger_char", &[]),
    ("lstm_nmt", &[]),
    ("lattice_lstm", &[]),
    ("lattice_gru", &[]),
];

/// Every shape of all models, or one of each. Mini-batches have one input or all, in one or two
/// parts.
#[test]
fn models_with_unit_tiles_have_the_bits_of_the_cpu() {
    if Level::detect() == Level::Portable {
        return edbatch_testing::skip("this level of the CPU rounds products");
    }
    let mut ran = String::new();
    let subjects = MODELS
        .iter()
        .flat_map(|(name, others)| [64].iter().chain(*others).map(move |&hidden| (*name, hidden)));
    for (index, (name, hidden)) in (0..).zip(subjects) {
        let all = edbatch_testing::all_cases();
        for shape in (0..6).filter(|&shape| all || shape == 5 - index % 6) {
            let Some(tiles) = check(name, hidden, shape) else { return };
            ran += &format!("{name} {hidden}: {tiles}\n");
        }
    }
    let shapes = ["P2R1", "P2R2", "P4R2", "P4R4", "S4R8"];
    assert!(shapes.iter().all(|shape| ran.contains(shape)), "{ran}");
    let without: Vec<&str> = ran.lines().filter(|line| line.ends_with(": ")).collect();
    assert!(without.is_empty(), "no unit tiles: {without:?}");
}

/// Compares a model with the CPU on a device whose unit tiles have a shape, or the fastest for 0.
/// Returns the shapes that they have, or `None` without a C++ compiler.
fn check(name: &str, hidden: usize, shape: u32) -> Option<String> {
    let Loaded { folder, .. } = load(goldens().join(name)).unwrap();
    let config = folder.config().expect("a model of the zoo").clone();
    let half = |size: Option<usize>| size.map(|_| hidden);
    let (char_embed, char_hidden) = (half(config.char_embed), half(config.char_hidden));
    // A tagger reads a word's characters from both ends, and joins the results.
    let embed = if char_hidden.is_some() { 2 * hidden } else { hidden };
    let config = ModelConfig { hidden, embed, char_embed, char_hidden, ..config };
    let lexicon = Arc::new(folder.lexicon().clone());
    let model = Zoo::new(&config, &lexicon).unwrap();
    let parameters = random(model.network(), 5);
    let inputs = folder.inputs(&folder.input()).unwrap();
    let inputs = inputs.collect::<Result<Vec<_>, _>>().unwrap();
    let mut cpu = Engine::new(model.clone(), parameters.clone()).unwrap();
    let expected = cpu.run(&inputs).unwrap();
    let program = Program::new(model.network().clone(), CellStyle::default()).unwrap();
    let (program, device) = (Arc::new(program), EmulatedDevice::new(7 + shape));
    let options = CudaOptions::new().shape(Some(shape));
    let backend = emulated::with(&device, program.clone(), &parameters, &options)?;
    let tiles = device.team_size(&program, &options).tiles;
    let options = EngineOptions::new().threads(1 + shape as usize % 2);
    let engine = Engine::with_backend(model, &parameters, program, backend, options);
    let mut engine = engine.unwrap();
    for size in [1, inputs.len()] {
        let outputs: Vec<_> =
            inputs.chunks(size).flat_map(|inputs| engine.run(inputs).unwrap()).collect();
        assert!(outputs == expected, "{name}, {hidden}, shape {shape}: different bits");
    }
    Some(tiles)
}
