//! Engines on an emulated device: launches of parts, and several engines on one device.

use std::sync::Arc;

use edbatch::cuda::{CudaOptions, DevicePrecision, Driver, EmulatedDevice};
use edbatch::models::*;
use edbatch::{Engine, EngineOptions, Rows};
use edbatch_graph::Network;
use edbatch_layout::{CellStyle, Program};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Parameters};
use edbatch_testing::skip;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

use crate::emulated;
use crate::fn_model::random;
use crate::parts::with_limits;
use crate::small::random_trees;

/// A model, inputs, and the results of the CPU.
pub(crate) struct Subject<M: Model> {
    model: M,
    parameters: Parameters,
    pub(crate) inputs: Vec<M::Input>,
    pub(crate) expected: Vec<Rows>,
}

impl<M: Model + Clone> Subject<M> {
    /// Returns `None` if the CPU's bits differ from a device's.
    fn new(model: M, inputs: Vec<M::Input>) -> Option<Self> {
        if Level::detect() == Level::Portable {
            skip("this level of the CPU rounds products");
            return None;
        }
        let parameters = random(model.network(), 3);
        let mut cpu = Engine::new(model.clone(), parameters.clone()).unwrap();
        let expected = cpu.run(&inputs).unwrap();
        Some(Self { model, parameters, inputs, expected })
    }

    fn engine(&self, device: &EmulatedDevice, threads: usize, driver: Driver) -> Option<Engine<M>> {
        self.engine_on(device, threads, driver, |backend| backend)
    }

    /// Like [`engine`](Self::engine), on what `wrap` makes of the backend.
    pub(crate) fn engine_on(
        &self,
        device: &EmulatedDevice,
        threads: usize,
        driver: Driver,
        wrap: impl FnOnce(Box<dyn Backend>) -> Box<dyn Backend>,
    ) -> Option<Engine<M>> {
        let program = Program::new(self.model.network().clone(), CellStyle::default()).unwrap();
        let (program, parameters) = (Arc::new(program), &self.parameters);
        let backend = wrap(emulated::load(device, program.clone(), parameters, driver)?);
        // The tests count rounds of single steps; `chains.rs` counts rounds of several.
        let options = EngineOptions::new().threads(threads).chain(1);
        let engine =
            Engine::with_backend(self.model.clone(), parameters, program, backend, options);
        Some(engine.unwrap())
    }
}

pub(crate) fn trees() -> Option<Subject<TreeLstm>> {
    let sizes = TreeSizes { vocabulary: 9, embed: 5, hidden: 13, classes: 2 };
    Subject::new(TreeLstm::new(sizes).unwrap(), random_trees(16, 9, 1))
}

/// A decoder, with a graph per word of its longest sentence.
pub(crate) fn translator() -> Option<Subject<LstmNmt>> {
    let sizes = NmtSizes { source: 9, target: 9, embed: 4, hidden: 5 };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut source = |_| {
        let words = (0..rng.random_range(1..6)).map(|_| rng.random_range(0..9)).collect();
        SourceSentence { words, stop: Stop::After(rng.random_range(1..8)) }
    };
    Subject::new(LstmNmt::new(sizes).unwrap(), (0..16).map(&mut source).collect())
}

/// The launch contains all parts of the mini-batch, and copies values in and out.
#[test]
fn a_mini_batch_is_one_driver_call() {
    let Some(subject) = trees() else { return };
    for threads in [1, 2, 3] {
        let device = EmulatedDevice::with_size(5, 12, 64 << 10);
        let Some(mut engine) = subject.engine(&device, threads, Driver::Teams) else { return };
        assert_eq!(engine.parts(&subject.inputs).len(), threads);
        assert!(engine.run(&subject.inputs).unwrap() == subject.expected);
        for _ in 0..3 {
            let (calls, launches) = (device.calls(), device.launches());
            assert!(engine.run(&subject.inputs).unwrap() == subject.expected);
            assert_eq!(device.launches() - launches, 1, "{threads} threads");
            // With several threads, slots get parts of different sizes and may still grow.
            assert!(threads > 1 || device.calls() - calls == 1);
        }
    }
}

/// Parts of a decoder end after different numbers of rounds. Each round is one launch of all parts
/// that have not ended.
#[test]
fn each_round_of_parts_is_one_launch() {
    let Some(subject) = translator() else { return };
    let device = EmulatedDevice::with_size(6, 12, 64 << 10);
    let engine =
        subject.engine_on(&device, 3, Driver::Teams, |backend| with_limits(backend, None).0);
    let Some(mut engine) = engine else { return };
    let parts = engine.parts(&subject.inputs);
    assert_eq!(parts.len(), 3);
    // The number of graphs of the longest part.
    let graphs = parts.into_iter().map(|part| {
        let mut cpu = Engine::new(subject.model.clone(), subject.parameters.clone()).unwrap();
        cpu.run(&subject.inputs[part]).unwrap();
        cpu.statistics().graphs
    });
    let longest = graphs.max().expect("three parts");
    assert!(longest > 3);
    for _ in 0..3 {
        let before = device.launches();
        assert!(engine.run(&subject.inputs).unwrap() == subject.expected);
        assert_eq!(device.launches() - before, longest);
    }
}

/// With more engines than teams, each engine waits for its turn, and parts that do not fit together
/// are launched in sequence.
#[test]
fn engines_share_the_teams_of_a_device() {
    let (Some(trees), Some(translator)) = (trees(), translator()) else { return };
    // Two teams of four.
    let device = EmulatedDevice::with_size(7, 8, 64 << 10);
    let Some(mut first) = trees.engine(&device, 3, Driver::Teams) else { return };
    let Some(mut second) = translator.engine(&device, 1, Driver::Teams) else { return };
    let mut others: Vec<_> = (0..3).map(|_| first.fork()).collect();
    std::thread::scope(|scope| {
        for engine in others.iter_mut().chain([&mut first]) {
            scope.spawn(|| {
                for _ in 0..3 {
                    assert!(engine.run(&trees.inputs).unwrap() == trees.expected);
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..2 {
                assert!(second.run(&translator.inputs).unwrap() == translator.expected);
            }
        });
    });
}

/// Results are bit-identical whether weights are resident in few or many blocks, or streamed.
#[test]
fn no_bit_depends_on_the_size_of_the_teams() {
    let Some(subject) = trees() else { return };
    for (sms, resident_bytes) in [(1, 1 << 20), (3, 0), (5, 1 << 10), (40, 3 << 10), (70, 700)] {
        let device = EmulatedDevice::with_size(8, sms, resident_bytes);
        let Some(mut engine) = subject.engine(&device, 1, Driver::Teams) else { return };
        let outputs = engine.run(&subject.inputs).unwrap();
        assert!(outputs == subject.expected, "{sms} SMs, {resident_bytes} bytes");
    }
}

/// Forks use the devices in turn. All parts of a mini-batch run on one device.
#[test]
fn forks_take_devices_in_turn() {
    let Some(subject) = trees() else { return };
    let devices = [(8, 64 << 10), (12, 1 << 10)]
        .map(|(sms, resident)| EmulatedDevice::with_size(3, sms, resident));
    let program = Program::new(subject.model.network().clone(), CellStyle::default()).unwrap();
    let (program, parameters) = (Arc::new(program), &subject.parameters);
    if emulated::load(&devices[0], program.clone(), parameters, Driver::Teams).is_none() {
        return;
    }
    let options = CudaOptions::new();
    let load = |devices: &[EmulatedDevice]| {
        EmulatedDevice::load_on(devices, program.clone(), parameters, &options)
    };
    let backend = Box::new(load(&devices).unwrap());
    let (model, options) = (subject.model.clone(), EngineOptions::new().threads(2));
    let engine = Engine::with_backend(model, parameters, program.clone(), backend, options);
    let mut engines = vec![engine.unwrap()];
    for _ in 0..4 {
        let another = engines[0].fork();
        engines.push(another);
    }
    for (index, engine) in engines.iter_mut().enumerate() {
        let before = devices.each_ref().map(EmulatedDevice::launches);
        assert!(engine.run(&subject.inputs).unwrap() == subject.expected);
        let after = devices.each_ref().map(EmulatedDevice::launches);
        let launches = [after[0] - before[0], after[1] - before[1]];
        assert_eq!(launches, if index % 2 == 0 { [1, 0] } else { [0, 1] }, "engine {index}");
    }
    let error = load(&[]).err().expect("no device").to_string();
    assert!(error.contains("at least one"), "{error}");
}

/// Results are near the CPU's, and have the same bits for all sizes of mini-batches and teams.
#[test]
fn tf32_and_bf16_are_near_and_do_not_depend_on_the_mini_batch() {
    near_in_all_mini_batches(DevicePrecision::Tf32, 1e-5..5e-3);
    near_in_all_mini_batches(DevicePrecision::Bf16, 1e-4..3e-2);
}

fn near_in_all_mini_batches(precision: DevicePrecision, range: std::ops::Range<f32>) {
    let Some(subject) = trees() else { return };
    let mut first: Option<Vec<Rows>> = None;
    for (sms, resident_bytes) in [(12, 64 << 10), (5, 1 << 10)] {
        let device = EmulatedDevice::with_size(9, sms, resident_bytes);
        let program = Program::new(subject.model.network().clone(), CellStyle::default()).unwrap();
        let (program, parameters) = (Arc::new(program), &subject.parameters);
        for driver in emulated::DRIVERS {
            let options = CudaOptions::new().driver(driver).precision(precision);
            let Some(backend) = emulated::with(&device, program.clone(), parameters, &options)
            else {
                return;
            };
            let (model, options) = (subject.model.clone(), EngineOptions::new());
            let engine = Engine::with_backend(model, parameters, program.clone(), backend, options);
            let mut engine = engine.unwrap();
            for size in [1, 3, 16] {
                let chunks = subject.inputs.chunks(size);
                let got: Vec<_> = chunks.flat_map(|inputs| engine.run(inputs).unwrap()).collect();
                let first = first.get_or_insert_with(|| got.clone());
                assert!(got == *first, "{driver:?}, {sms} SMs, {size} trees");
            }
        }
    }
    let elements = |outputs: &[Rows]| -> Vec<f32> {
        outputs.iter().flat_map(Rows::iter).flatten().copied().collect()
    };
    let (got, expected) = (elements(&first.expect("it ran")), elements(&subject.expected));
    let errors = got.iter().zip(&expected).map(|(got, expected)| (got - expected).abs());
    let worst = errors.fold(0.0, f32::max);
    assert!(range.contains(&worst), "{precision:?}: {worst}");
}

/// A translator that panics on sources of seven words.
#[derive(Clone)]
struct Superstitious(LstmNmt);

impl Model for Superstitious {
    type Input = SourceSentence;

    fn network(&self) -> &Arc<Network> {
        self.0.network()
    }

    async fn build(&self, build: &Build<'_>, input: &SourceSentence) -> Result<(), BuildError> {
        assert_ne!(input.words.len(), 7, "seven words");
        self.0.build(build, input).await
    }
}

/// Parts do not wait for one that has panicked, and the engine can run the next mini-batch.
#[test]
fn a_panic_of_a_part_leaves_the_others() {
    let Some(Subject { model, parameters, mut inputs, expected }) = translator() else { return };
    let subject = Subject { model: Superstitious(model), parameters, inputs: vec![], expected };
    let device = EmulatedDevice::with_size(9, 12, 64 << 10);
    let engine =
        subject.engine_on(&device, 3, Driver::Teams, |backend| with_limits(backend, None).0);
    let Some(mut engine) = engine else { return };
    for at in [0, 15, 7] {
        let words = std::mem::replace(&mut inputs[at].words, vec![3; 7]);
        let run = std::panic::AssertUnwindSafe(|| engine.run(&inputs));
        std::panic::catch_unwind(run).unwrap_err();
        inputs[at].words = words;
        assert!(engine.run(&inputs).unwrap() == subject.expected);
    }
}
