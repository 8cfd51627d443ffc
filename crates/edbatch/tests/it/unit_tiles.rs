//! Models of a size for which recurrent cells run as unit tiles, on emulated devices.

use std::sync::Arc;

use edbatch::cuda::{CudaOptions, DeviceModel, DevicePrecision, EmulatedDevice};
use edbatch::models::{Model, ModelConfig, Zoo};
use edbatch::{Engine, EngineOptions, Loaded, Precision, Rows, load};
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

/// The number of a shape.
fn number(precision: DevicePrecision, shape: &str) -> u32 {
    let shapes = DeviceModel::costs(precision);
    shapes.into_iter().find(|(_, name, _)| name == shape).expect("a shape of the precision").0
}

/// The number of the shape with the most rows. It needs more shared memory than others.
fn largest() -> u32 {
    number(DevicePrecision::Exact, "S8R8")
}

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
            let options = CudaOptions::new().shape(Some(shape));
            let Some((tiles, got, expected)) = check(name, hidden, &options, None) else { return };
            assert!(got == expected, "{name}, {hidden}, shape {shape}: other bits than the CPU");
            ran += &format!("{name} {hidden}: {tiles}\n");
        }
    }
    for hidden in [64, 96] {
        let options = CudaOptions::new().shape(Some(largest()));
        let Some((tiles, got, expected)) = check("tree_lstm", hidden, &options, None) else {
            return;
        };
        assert!(got == expected, "{hidden}, {tiles}: other bits than the CPU");
        assert!(tiles.ends_with(": S8R8"), "{tiles}: not forced");
    }
    let shapes = ["P2R1", "P2R2", "P4R2", "P4R4", "S4R8"];
    assert!(shapes.iter().all(|shape| ran.contains(shape)), "{ran}");
    let without: Vec<&str> = ran.lines().filter(|line| line.ends_with(": ")).collect();
    assert!(without.is_empty(), "no unit tiles: {without:?}");
}

/// In TF32 and bf16, results are near the CPU's in f32 and in bf16, with the same bits in every
/// shape and mini-batch.
#[test]
fn models_in_tf32_and_bf16_are_near_the_cpu() {
    let precisions = [(DevicePrecision::Tf32, 1e-7..1e-2), (DevicePrecision::Bf16, 0.0..5e-3)];
    for (precision, range) in precisions {
        for (name, _) in MODELS {
            let mut first: Option<Vec<Rows>> = None;
            for shape in ["", "T32", "T128"] {
                let forced = (!shape.is_empty()).then(|| number(precision, shape));
                let options = CudaOptions::new().precision(precision).shape(forced);
                let Some((tiles, got, expected)) = check(name, 64, &options, first.as_deref())
                else {
                    return;
                };
                assert!(tiles.contains('T') && tiles.ends_with(shape), "{name}: {tiles}");
                // A translator may choose other words.
                if name != "lstm_nmt" {
                    let off = distance(&got, &expected);
                    assert!(range.contains(&off), "{name}, {precision:?}: {off}");
                }
                first = Some(got);
            }
        }
    }
}

/// Returns the largest difference of elements.
fn distance(a: &[Rows], b: &[Rows]) -> f32 {
    let elements =
        |all: &[Rows]| -> Vec<f32> { all.iter().flat_map(Rows::iter).flatten().copied().collect() };
    let (a, b) = (elements(a), elements(b));
    assert_eq!(a.len(), b.len());
    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Runs a model on a device whose unit tiles have a shape, or the fastest for 0, in mini-batches of
/// one input and of all, which have the same bits as each other and as `others`. Returns the shapes
/// of the tiles, the results, and the CPU's, or `None` without a C++ compiler.
fn check(
    name: &str,
    hidden: usize,
    options: &CudaOptions,
    others: Option<&[Rows]>,
) -> Option<(String, Vec<Rows>, Vec<Rows>)> {
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
    let is_bf16 = options.precision == DevicePrecision::Bf16;
    let precision = if is_bf16 { Precision::Bf16 } else { Precision::F32 };
    let on_cpu = EngineOptions::new().precision(precision);
    let mut cpu = Engine::with_options(model.clone(), parameters.clone(), on_cpu).unwrap();
    let expected = cpu.run(&inputs).unwrap();
    let program = Program::new(model.network().clone(), CellStyle::default()).unwrap();
    let program = Arc::new(program);
    let device = match options.shape {
        Some(shape) if shape == largest() => EmulatedDevice::with_size(7, 12, 150 << 10),
        _ => EmulatedDevice::new(7),
    };
    let backend = emulated::with(&device, program.clone(), &parameters, options)?;
    let tiles = device.team_size(&program, options).tiles;
    let shape = options.shape.unwrap_or(0);
    let options = EngineOptions::new().threads(1 + shape as usize % 2);
    let engine = Engine::with_backend(model, &parameters, program, backend, options);
    let mut engine = engine.unwrap();
    let mut first = others.map(<[Rows]>::to_vec);
    for size in [1, inputs.len()] {
        let outputs: Vec<_> =
            inputs.chunks(size).flat_map(|inputs| engine.run(inputs).unwrap()).collect();
        let first = first.get_or_insert_with(|| outputs.clone());
        assert!(outputs == *first, "{name}, {hidden}, shape {shape}: different bits");
    }
    Some((tiles, first.expect("they ran"), expected))
}
