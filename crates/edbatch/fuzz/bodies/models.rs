//! A model's folder, and inputs for it: configuration, vocabularies, weights, lines.

use std::fs;
use std::path::{Path, PathBuf};

use edbatch::{Engine, EngineOptions, InputError, Rows, RunError, RunOptions, interpret};
use edbatch_models::{Folder, Model, Zoo, ZooInput};
use edbatch_runtime::Parameters;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Larger models and inputs take longer, and say no more.
const MOST_ELEMENTS: usize = 1 << 14;
const MOST_WORK: usize = 200;

/// The byte between configuration, vocabulary, inputs and weights.
const BETWEEN: u8 = 0xff;

/// Makes a folder of the bytes and reads it. Weights that do not fit the model are an error; where
/// there are none they are drawn, and the inputs run, each as it runs alone.
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
    // A size may be impossible, or too large for this test.
    let Ok(model) = read.model() else { return };
    let parameters = model.network().parameters();
    let elements = parameters.iter().try_fold(0_usize, |sum, p| sum.checked_add(p.elements()));
    if elements.is_none_or(|elements| elements > MOST_ELEMENTS) {
        return;
    }
    let parameters = match weights {
        [] => Parameters::random(model.network(), &mut Xoshiro256PlusPlus::seed_from_u64(1)),
        _ => match Parameters::from_safetensors(model.network(), weights) {
            Ok(parameters) => parameters,
            Err(error) => return assert!(!error.to_string().is_empty()),
        },
    };
    let written = parameters.to_safetensors(model.network()).expect("tensors of a model");
    let again = Parameters::from_safetensors(model.network(), &written).expect("it was written");
    let bits = |parameters: &Parameters| parameters.to_safetensors(model.network()).ok();
    assert_eq!(bits(&again), bits(&parameters));
    // The format of lattices is another one in arc files, which the name says.
    for name in ["inputs.txt", "inputs.arcs.txt"] {
        let reader = Box::new(std::io::Cursor::new(inputs.to_vec()));
        let inputs = read.inputs_from(reader, Path::new(name)).take(8);
        let inputs: Vec<ZooInput> = inputs.map_while(Result::ok).collect();
        if inputs.iter().all(|input| model.work(input) <= MOST_WORK) {
            run_inputs(&model, &parameters, &inputs);
        }
    }
}

/// Each input has the same rows, or the same error, with the others as alone, and errors are those
/// of the interpreter.
fn run_inputs(model: &Zoo, parameters: &Parameters, inputs: &[ZooInput]) {
    let options = EngineOptions::new().memory_limit(64 << 20);
    let mut engine =
        Engine::with_options(model.clone(), parameters.clone(), options).expect("a small model");
    let Ok(together) = engine.run_each(inputs, &RunOptions::new()) else { return };
    for (input, together) in inputs.iter().zip(together) {
        let input = std::slice::from_ref(input);
        let alone = engine.run_each(input, &RunOptions::new()).expect("the mini-batch did fit");
        // Any NaN is as good as any other.
        let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
        let bits = |rows: &Rows| -> Vec<Vec<u32>> {
            rows.iter().map(|row| row.iter().map(bits).collect()).collect()
        };
        let alone: Result<_, &InputError> = alone[0].as_ref().map(bits);
        assert_eq!(alone, together.as_ref().map(bits));
        match (interpret(model, parameters, input), alone) {
            // A translation may end elsewhere where two words are about as good.
            (Ok(_), Ok(_)) if matches!(input[0], ZooInput::Source(_)) => {}
            (Ok(interpreted), Ok(rows)) => assert_eq!(interpreted.outputs[0].len(), rows.len()),
            (Err(RunError::Input { error, .. }), Err(got)) => assert_eq!(&error, got),
            (interpreted, rows) => panic!("{interpreted:?} by the interpreter, got {rows:?}"),
        }
    }
}

/// All that a model of any family may want.
const VOCABULARIES: [&str; 6] =
    ["vocab.txt", "tags.txt", "chars.txt", "words.txt", "src_vocab.txt", "tgt_vocab.txt"];

/// A folder that is removed in the end; on Linux it takes no disk.
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
