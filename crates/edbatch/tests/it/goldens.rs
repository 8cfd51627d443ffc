//! Every model against the outputs of an independent float64 program.
//!
//! Each model has a folder of expected outputs: three inputs in `goldens-small/` next to this file,
//! and more in `$EDBATCH_SHARED/goldens/` if that variable is set. Outputs must agree within 1e-4,
//! with any mini-batch size, with any policy, and with the interpreter. On the CPU, all mini-batch
//! sizes and policies must give the same bits.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use edbatch::models::{FolderModel, Model, ZooInput};
use edbatch::{Engine, EngineOptions, Loaded, Rows, RunOptions, interpret, load};
use edbatch_graph::{Dag, Graph, Network};
use edbatch_layout::{CellStyle, Program};
use edbatch_policy::{AnyPolicy, Beam, Encoding, LearningConfig, TrainingSet, learn};
use edbatch_runtime::Precision;
#[cfg(feature = "cuda")]
use edbatch_runtime::kernels::Level;
use edbatch_testing::{policies, shared};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use serde_json::Value;

#[cfg(feature = "cuda")]
use crate::emulated;
use crate::small::{goldens, indices};

macro_rules! models {
    ($($model:ident)*) => {
        $(#[test]
        fn $model() {
            check(stringify!($model));
        })*
    };
}

models! {
    tree_lstm tree_lstm_2type tree_gru mv_rnn bilstm_tagger bilstm_tagger_char lstm_nmt
    lattice_lstm lattice_gru
}

/// Results depend on the instruction set. `cargo xtask ci` also runs this module with other sets
/// than the best one.
mod at_a_level {
    #[test]
    fn small_goldens_of_every_model() {
        let folders = std::fs::read_dir(super::goldens()).unwrap();
        let goldens = folders.map(|folder| super::Golden::read(&folder.unwrap().path()));
        assert_eq!(goldens.inspect(super::Golden::check).count(), 9);
    }
}

/// Checks the large goldens of a model if they are available, and emulated devices on the small
/// goldens and on the large ones.
fn check(model: &str) {
    #[cfg(feature = "cuda")]
    Golden::read(&goldens().join(model)).check_on_devices();
    if let Some(large) = shared(Path::new("goldens").join(model)) {
        let large = Golden::read(&large);
        large.check();
        #[cfg(feature = "cuda")]
        large.check_on_devices();
    }
}

/// A model's folder of goldens, which are inputs with expected outputs.
struct Golden {
    loaded: Loaded,
    inputs: Vec<ZooInput>,
    expected: Vec<Value>,
}

impl Golden {
    fn read(folder: &Path) -> Self {
        let loaded = load(folder).unwrap();
        let inputs = loaded.folder.inputs(&loaded.folder.input()).unwrap();
        let inputs = inputs.collect::<Result<_, _>>().unwrap();
        let expected = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        let expected: Vec<Value> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(expected.len() >= 3, "{}: expected at least 3 instances", folder.display());
        Self { loaded, inputs, expected }
    }

    /// Compares the outputs of every configuration with the expected ones.
    fn check(&self) {
        let (Loaded { model, parameters, .. }, inputs) = (&self.loaded, &self.inputs[..]);
        for size in SIZES {
            let of = |inputs| interpret(model, parameters, inputs, Precision::F32).unwrap().outputs;
            let outputs: Vec<Rows> = inputs.chunks(size).flat_map(of).collect();
            self.compare(&outputs, &format!("interpreted, {size}"));
        }
        let mut plain = Engine::new(model.clone(), parameters.clone()).unwrap();
        let graph = plain.graphs(inputs).unwrap().remove(0);
        let mut first: Option<Vec<Rows>> = None;
        for (index, (name, policy)) in all_policies(&graph).into_iter().enumerate() {
            let (model, threads) = (model.clone(), 1 + index % 3);
            let options = EngineOptions::new().threads(threads);
            let mut engine = Engine::with_options(model, parameters.clone(), options).unwrap();
            policy.into_iter().for_each(|policy| engine.set_policy(policy));
            for size in SIZES {
                let outputs = run(&mut engine, inputs, size);
                let what = format!("{name}, mini-batches of {size}");
                self.compare(&outputs, &what);
                let first = first.get_or_insert_with(|| outputs.clone());
                assert!(bits(&outputs).eq(bits(first)), "{what}: different bits");
            }
        }
        let first = first.expect("there are policies");
        let half = some_tables(model.network());
        for (tables, threads) in [(u64::MAX, 1), (u64::MAX, 2), (half, 3)] {
            let options = EngineOptions::new().fold_tables(tables).threads(threads);
            let mut engine =
                Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
            for size in SIZES {
                let same = bits(&run(&mut engine, inputs, size)).eq(bits(&first));
                assert!(same, "folded, mini-batches of {size}: different bits");
                check_indices(&mut engine, inputs, size, &first);
            }
            let mut streamed = vec![Rows::new(); inputs.len()];
            let done = |number: usize, rows: Result<&mut Rows, _>| {
                streamed[number].clone_from(rows.unwrap());
            };
            engine.stream(3, inputs, done).unwrap();
            assert!(bits(&streamed).eq(bits(&first)), "streamed: other bits");
        }
        self.check_names(&first);
    }

    /// Checks that emulated devices compute the same bits as the CPU, in any order of their
    /// threads, blocks and jobs.
    #[cfg(feature = "cuda")]
    fn check_on_devices(&self) {
        let (Loaded { model, parameters, .. }, inputs) = (&self.loaded, &self.inputs[..]);
        let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
        let expected = &run(&mut engine, inputs, SIZES[2]);
        for (style, folded) in self.ways() {
            let program = Program::new(model.network().clone(), style).unwrap();
            let program = Arc::new(program.fold_tables(folded));
            if Level::detect() == Level::Portable {
                return edbatch_testing::skip("this level of the CPU rounds products");
            }
            for driver in emulated::DRIVERS {
                let backend = emulated::backend(program.clone(), parameters, driver);
                let Some(backend) = backend else { return };
                let (model, program) = (model.clone(), program.clone());
                let options = EngineOptions::new();
                let engine = Engine::with_backend(model, parameters, program, backend, options);
                let mut engine = engine.unwrap();
                for size in SIZES {
                    let outputs = run(&mut engine, inputs, size);
                    let what = format!("{driver:?}, {style:?}, mini-batches of {size}");
                    self.compare(&outputs, &what);
                    assert!(bits(&outputs).eq(bits(expected)), "{what}: different bits");
                }
                check_indices(&mut engine, inputs, SIZES[2], expected);
            }
        }
    }

    /// Returns ways to compile a model for devices.
    #[cfg(feature = "cuda")]
    fn ways(&self) -> Vec<(CellStyle, u64)> {
        let (hoisted, planned) = (CellStyle::Hoisted, CellStyle::Planned);
        match self.loaded.folder.path().starts_with(goldens()) {
            true => vec![(hoisted, 0), (hoisted, u64::MAX), (planned, 0)],
            false => vec![(hoisted, 0)],
        }
    }

    fn compare(&self, outputs: &[Rows], what: &str) {
        assert_eq!(outputs.len(), self.expected.len(), "{what}: instances");
        for (instance, (rows, expected)) in outputs.iter().zip(&self.expected).enumerate() {
            let expected = expected["logits"].as_array().unwrap();
            assert_eq!(rows.len(), expected.len(), "{what}: rows of instance {instance}");
            for (index, (row, expected)) in rows.iter().zip(expected).enumerate() {
                let expected: Vec<f64> =
                    expected.as_array().unwrap().iter().map(|e| e.as_f64().unwrap()).collect();
                assert_eq!(row.len(), expected.len(), "{what}: row {index} of {instance}");
                let far = |(&got, want): (&f32, &f64)| (f64::from(got) - want).abs() > 1e-4;
                let near = !row.iter().zip(&expected).any(far) && row.iter().all(|e| !e.is_nan());
                assert!(near, "{what}: row {index} of {instance}: {row:?}, expected {expected:?}");
            }
        }
    }

    /// Checks the names of the largest scores, of taggers and translators.
    fn check_names(&self, outputs: &[Rows]) {
        for (rows, expected) in outputs.iter().zip(&self.expected) {
            if let Some(named) = self.loaded.folder.lexicon().decode(rows.iter()) {
                assert_eq!(expected[named.key], Value::from(named.names));
            }
        }
    }
}

const SIZES: [usize; 3] = [1, 3, 64];

/// Returns a number of bytes for folded tables that is enough for some of a network's tables, if it
/// has several.
fn some_tables(network: &Arc<Network>) -> u64 {
    let program = Program::new(network.clone(), CellStyle::default()).unwrap();
    2 * program.fold_tables(u64::MAX).folded_elements() as u64
}

fn run(engine: &mut Engine<FolderModel>, inputs: &[ZooInput], size: usize) -> Vec<Rows> {
    inputs.chunks(size).flat_map(|mini_batch| engine.run(mini_batch).unwrap()).collect()
}

/// Checks the argmax of each row, computed without copying the scores.
fn check_indices(
    engine: &mut Engine<FolderModel>,
    inputs: &[ZooInput],
    size: usize,
    expected: &[Rows],
) {
    let chunks = inputs.chunks(size);
    let options = RunOptions::new();
    let got = chunks.flat_map(|chunk| engine.run_each_arg_max(chunk, &options).unwrap());
    let got: Result<Vec<_>, _> = got.collect();
    assert_eq!(got, Ok(indices(expected)), "mini-batches of {size}");
}

fn bits(outputs: &[Rows]) -> impl Iterator<Item = u32> {
    outputs.iter().flat_map(Rows::iter).flatten().map(|element| element.to_bits())
}

/// Returns every policy. `None` is the engine's default.
fn all_policies(graph: &Graph) -> Vec<(&'static str, Option<AnyPolicy>)> {
    let graphs = std::slice::from_ref(graph);
    let config = LearningConfig::new(20);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let set = TrainingSet::new(graphs, &[]).unwrap();
    let learned = learn(&set, Encoding::Sort, &config, &mut rng, |_| ());
    let beam: AnyPolicy = Box::new(Beam::new(3));
    let fsm: AnyPolicy = Box::new(learned.fsm(Encoding::Sort, graph.kinds()));
    let others = policies().into_iter().chain([("beam", beam), ("fsm", fsm)]);
    let others = others.map(|(name, policy)| (name, Some(policy)));
    [("default", None)].into_iter().chain(others).collect()
}
