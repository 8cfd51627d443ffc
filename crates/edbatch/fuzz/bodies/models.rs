//! Model folders and inputs: configuration, vocabularies, inputs and weights.

use std::fs;
use std::path::{Path, PathBuf};

use edbatch::models::{Folder, FolderModel, Model, ZooInput};
use edbatch::{Engine, EngineOptions, InputError, Rows, RunError, RunOptions, interpret};
use edbatch_runtime::{Parameters, Precision};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Limits on size: larger models and inputs take longer without covering more code.
const MAX_ELEMENTS: usize = 1 << 14;
const MAX_WORK: usize = 200;

/// The byte that separates configuration, vocabulary, inputs and weights.
const BETWEEN: u8 = 0xff;

/// Writes the bytes to a folder and loads it. Weights that do not fit the model are an error;
/// missing weights are drawn at random. Then runs the inputs together, and checks that each has the
/// same result as alone.
pub(crate) fn run(bytes: &[u8]) {
    let mut parts = bytes.splitn(4, |&byte| byte == BETWEEN);
    let mut part = || parts.next().unwrap_or_default();
    let (config, vocabulary, inputs, weights) = (part(), part(), part(), part());
    let folder = Scratch::new();
    fs::write(folder.0.join(Folder::CONFIG), config).expect("a file");
    for name in VOCABULARIES {
        fs::write(folder.0.join(name), vocabulary).expect("a file");
    }
    let Ok(read) = Folder::read(&folder.0) else { return };
    // Skips models whose sizes are invalid or too large for this test.
    let Ok(model) = read.model() else { return };
    let parameters = model.network().parameters();
    let elements = parameters.iter().try_fold(0_usize, |sum, p| sum.checked_add(p.elements()));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        return;
    }
    let parameters = match weights {
        [] => Parameters::random(model.network(), &mut Xoshiro256PlusPlus::seed_from_u64(1)),
        _ => match Parameters::from_safetensors(model.network(), weights) {
            Ok(parameters) => parameters,
            Err(error) => return assert!(!error.to_string().is_empty()),
        },
    };
    let written =
        parameters.to_safetensors(model.network()).expect("the parameters fit the network");
    let again =
        Parameters::from_safetensors(model.network(), &written).expect("written weights are valid");
    let bits = |parameters: &Parameters| parameters.to_safetensors(model.network()).ok();
    assert_eq!(bits(&again), bits(&parameters));
    // Arc files have a different format for lattices, recognised by the file name.
    for name in ["inputs.txt", "inputs.arcs.txt"] {
        let reader = Box::new(std::io::Cursor::new(inputs.to_vec()));
        let inputs = read.inputs_from(reader, Path::new(name)).take(8);
        let inputs: Vec<ZooInput> = inputs.map_while(Result::ok).collect();
        if inputs.iter().all(|input| model.work(input) <= MAX_WORK) {
            run_inputs(&model, &parameters, &inputs);
        }
    }
}

/// Checks that each input has the same rows or the same error in a mini-batch as alone, and the
/// same errors in the interpreter.
fn run_inputs(model: &FolderModel, parameters: &Parameters, inputs: &[ZooInput]) {
    let options = EngineOptions::new().memory_limit(64 << 20);
    let mut engine = Engine::with_options(model.clone(), parameters.clone(), options)
        .expect("the model is small");
    let Ok(together) = engine.run_each(inputs, &RunOptions::new()) else { return };
    for (input, together) in inputs.iter().zip(together) {
        let input = std::slice::from_ref(input);
        let alone = engine
            .run_each(input, &RunOptions::new())
            .expect("the whole mini-batch fits in memory");
        // All NaNs count as equal.
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        let bits = |rows: &Rows| -> Vec<Vec<u32>> {
            rows.iter().map(|row| row.iter().map(bits).collect()).collect()
        };
        let alone: Result<_, &InputError> = alone[0].as_ref().map(bits);
        assert_eq!(alone, together.as_ref().map(bits));
        match (interpret(model, parameters, input, Precision::F32), alone) {
            // Rounding may change a translation if two words have nearly equal scores.
            (Ok(_), Ok(_)) if matches!(input[0], ZooInput::Source(_)) => {}
            (Ok(interpreted), Ok(rows)) => assert_eq!(interpreted.outputs[0].len(), rows.len()),
            (Err(RunError::Input { error, .. }), Err(got)) => assert_eq!(&error, got),
            (interpreted, rows) => {
                panic!("expected {interpreted:?} from the interpreter, got {rows:?}")
            }
        }
    }
}

/// The vocabulary files of all model families.
const VOCABULARIES: [&str; 6] =
    ["vocab.txt", "tags.txt", "chars.txt", "words.txt", "src_vocab.txt", "tgt_vocab.txt"];

/// A folder that is removed when dropped. On Linux it is in memory.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let thread = std::thread::current().id();
        let path = parent.join(format!("edbatch-fuzz-{}-{thread:?}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
