//! Translators that decode several steps a graph: the outputs of one step a graph, bit by bit, in
//! fewer graphs.

use std::sync::Arc;

use edbatch::{Engine, EngineOptions, Rows, interpret};
use edbatch_graph::{Dag, Graph, NodeId};
use edbatch_layout::{
    Capacity, CellStyle, MiniBatch, PhaseTable, Plan, Planner, Program, Tape, Want,
};
use edbatch_models::{END, LstmNmt, Model, NmtSizes, SourceSentence, Stop, arg_max};
use edbatch_policy::Scheduler;
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// A translator, whose words are few so that sentences end at all steps, and sentences for it.
struct Subject {
    model: LstmNmt,
    parameters: Parameters,
    inputs: Vec<SourceSentence>,
    /// Of one step a graph.
    expected: Vec<Rows>,
}

impl Subject {
    fn new(seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut size = |most: usize| rng.random_range(1..=most);
        let (embed, hidden) = (size(20), size(40));
        let sizes = NmtSizes { source: 9, target: 4 + size(8), embed, hidden };
        let model = LstmNmt::new(sizes).unwrap();
        let parameters = lively(&model, &Parameters::random(model.network(), &mut rng));
        let mut sentence = |number: usize| {
            let words = (0..rng.random_range(0..9)).map(|_| rng.random_range(0..9)).collect();
            let steps = rng.random_range(0..20);
            let stop = if number.is_multiple_of(3) { Stop::After(steps) } else { Stop::AtEnd };
            SourceSentence { words, stop }
        };
        let inputs: Vec<_> = (0..24).map(&mut sentence).collect();
        let mut engine = Engine::new(model.clone(), parameters.clone()).unwrap();
        let expected = engine.run(&inputs).unwrap();
        Self { model, parameters, inputs, expected }
    }

    fn engine(&self, steps: usize, options: EngineOptions) -> Engine<LstmNmt> {
        let model = self.model.clone().with_steps_per_graph(steps).unwrap();
        Engine::with_options(model, self.parameters.clone(), options).unwrap()
    }

    /// How many graphs a mini-batch takes: what its longest sentence takes, and the one in which it
    /// ends.
    fn graphs(&self, steps: usize) -> u64 {
        let longest = self.expected.iter().map(Rows::len).max().expect("some sentences");
        longest.div_ceil(steps) as u64 + 1
    }
}

/// Larger weights, by which translations do not come to rest at a word at once.
fn lively(model: &LstmNmt, parameters: &Parameters) -> Parameters {
    let mut bytes = parameters.to_safetensors(model.network()).unwrap();
    // The length of the header, the header, and floats.
    let (length, rest) = bytes.split_first_chunk_mut().unwrap();
    let floats = &mut rest[u64::from_le_bytes(*length) as usize..];
    for float in floats.as_chunks_mut().0 {
        *float = (3.0 * f32::from_le_bytes(*float)).to_le_bytes();
    }
    Parameters::from_safetensors(model.network(), &bytes).unwrap()
}

const STEPS: [usize; 5] = [1, 2, 3, 8, 1000];

#[test]
fn outputs_are_those_of_a_step_a_graph() {
    // How many sentences end at each step of a graph of three.
    let mut ended_at = [0; 3];
    for seed in 0..12 {
        let subject = Subject::new(seed);
        let ended = subject.expected.iter().zip(&subject.inputs).filter(|(rows, input)| {
            let last = rows.iter().last().map(arg_max);
            input.stop == Stop::AtEnd && last == Some(END)
        });
        ended.for_each(|(rows, _)| ended_at[rows.len() % 3] += 1);
        for steps in STEPS {
            let options = EngineOptions::new;
            let folded = options().fold_tables(u64::MAX);
            let kept = options().plan_cache(1 << 20).threads(2);
            for (name, options) in [("plain", options()), ("folded", folded), ("kept", kept)] {
                let mut engine = subject.engine(steps, options);
                for size in [24, 24, 5, 1] {
                    let chunks = subject.inputs.chunks(size);
                    let got: Vec<Rows> = chunks.flat_map(|i| engine.run(i).unwrap()).collect();
                    assert!(got == subject.expected, "{name}, {steps} steps, {size} sentences");
                }
            }
            let mut streamed = vec![Rows::new(); subject.inputs.len()];
            let mut engine = subject.engine(steps, options());
            let mut done = |number: usize, rows: Result<&mut Rows, _>| {
                streamed[number].clone_from(rows.unwrap());
            };
            engine.stream(7, &subject.inputs, &mut done).unwrap();
            assert!(streamed == subject.expected, "streamed, {steps} steps");
        }
    }
    assert!(ended_at.iter().all(|&count| count > 0), "{ended_at:?}");
}

/// The reference decodes several steps a graph as it decodes one.
#[test]
fn the_reference_has_the_same_outputs() {
    for seed in 0..6 {
        let subject = Subject::new(seed);
        let of = |model: &LstmNmt| {
            interpret(model, &subject.parameters, &subject.inputs).unwrap().outputs
        };
        let expected = of(&subject.model);
        for steps in [2, 8] {
            let model = subject.model.clone().with_steps_per_graph(steps).unwrap();
            assert!(of(&model) == expected, "seed {seed}, {steps} steps");
        }
    }
}

#[test]
fn a_mini_batch_takes_as_many_graphs_as_its_longest_sentence() {
    let subject = Subject::new(3);
    for steps in STEPS {
        let mut engine = subject.engine(steps, EngineOptions::new());
        engine.run(&subject.inputs).unwrap();
        assert_eq!(engine.statistics().graphs, subject.graphs(steps), "{steps} steps");
    }
    // Once its plans are kept, a mini-batch needs no new one.
    let mut engine = subject.engine(8, EngineOptions::new().plan_cache(1 << 22));
    (0..2).for_each(|_| _ = engine.run(&subject.inputs).unwrap());
    assert_eq!(engine.statistics().plans_reused, subject.graphs(8));
}

/// On a device a step of the decoder is four waves: the row of the likeliest word, what is made of
/// it, the gates, and the scores. By itself, a step is a launch of six.
#[test]
fn a_step_of_the_decoder_is_four_waves() {
    let sizes = NmtSizes { source: 9, target: 9, embed: 4, hidden: 4 };
    let model = LstmNmt::new(sizes).unwrap();
    let parameters = Parameters::random(model.network(), &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let inputs = vec![SourceSentence { words: vec![3, 4], stop: Stop::After(16) }; 5];
    let waves_of = |steps: usize| -> Vec<usize> {
        let model = model.clone().with_steps_per_graph(steps).unwrap();
        let program = Program::new(model.network().clone(), CellStyle::Hoisted).unwrap();
        let mut engine = Engine::new(model, parameters.clone()).unwrap();
        let graphs = engine.graphs(&inputs).unwrap();
        graphs.iter().map(|graph| waves(&program, graph)).collect()
    };
    let [one, two, eight] = [1, 2, 8].map(waves_of);
    // The first graph reads the source besides; the last has no step.
    assert_eq!((one.len(), two.len(), eight.len()), (17, 9, 3));
    assert!(one[1..16].iter().all(|&waves| waves == 6), "{one:?}");
    assert!(two[1..8].iter().all(|&waves| waves == 6 + 4), "{two:?}");
    assert_eq!(eight[1], 6 + 7 * 4);
    let sums = [one, two, eight].map(|waves| waves.into_iter().sum::<usize>());
    println!("waves of 16 steps: {sums:?} by 1, 2 and 8 steps a graph");
    assert_eq!(sums[0] - sums[2], 14 * 2);
}

/// The waves of a graph on a tape, values in and out included.
fn waves(program: &Program, graph: &Graph) -> usize {
    let mut schedule = edbatch_graph::Schedule::new();
    Scheduler::for_waves().schedule(graph, &mut schedule);
    let nodes = (0..graph.nodes()).map(NodeId::new);
    let wanted: Vec<_> = nodes.map(|node| (node.into(), Want::ArgMax)).collect();
    let mini_batch = MiniBatch { program, graph, schedule: &schedule, wanted: &wanted };
    let (mut plan, mut tape) = (Plan::default(), Tape::default());
    Planner::for_waves().plan(&mini_batch, Capacity::Distinct, &mut plan).unwrap();
    let initial = program.network().initial_values().len();
    let stayed = plan.given.len() - initial;
    tape.write(program, &PhaseTable::new(program), &plan, (initial, stayed)).unwrap();
    tape.waves()
}

#[test]
#[should_panic(expected = "at least one step a graph")]
fn no_step_a_graph_is_refused() {
    let sizes = NmtSizes { source: 9, target: 9, embed: 4, hidden: 4 };
    let _ = LstmNmt::new(sizes).unwrap().with_steps_per_graph(0);
}

#[cfg(feature = "cuda")]
#[path = "support/emulated.rs"]
#[expect(dead_code, reason = "other tests need a device of their own")]
mod emulated;

#[cfg(feature = "cuda")]
mod on_devices {
    use edbatch_runtime::cuda::{self, Driver, EmulatedDevice};
    use edbatch_runtime::kernels::Level;

    use super::*;

    /// The bits of the CPU, and a launch a graph.
    #[test]
    fn a_graph_of_several_steps_is_one_launch() {
        if Level::detect() == Level::Portable {
            return edbatch_testing::skip("this level of the CPU rounds products");
        }
        let subject = Subject::new(3);
        for (steps, driver, threads) in [
            (1, Driver::Teams, 1),
            (8, Driver::Teams, 1),
            (3, Driver::Waves, 1),
            (8, Driver::Teams, 3),
        ] {
            let model = subject.model.clone().with_steps_per_graph(steps).unwrap();
            let program = Program::new(model.network().clone(), CellStyle::Hoisted).unwrap();
            let (program, parameters) = (Arc::new(program), &subject.parameters);
            let device = EmulatedDevice::with_size(5, 12, 64 << 10);
            let backend = emulated::load(&device, program.clone(), parameters, driver);
            let Some(backend) = backend else { return };
            let options = EngineOptions::new().threads(threads);
            let engine = Engine::with_backend(model, parameters, program, backend, options);
            let mut engine = engine.unwrap();
            for run in 0..4 {
                let before = (device.launches(), device.calls());
                assert!(engine.run(&subject.inputs).unwrap() == subject.expected, "{steps} steps");
                let (launches, calls) = (device.launches() - before.0, device.calls() - before.1);
                let graphs = subject.graphs(steps);
                match (driver, threads) {
                    // Memory that stays is of two, in turns.
                    (Driver::Teams, 1) if run > 1 => {
                        assert_eq!((launches, calls), (graphs, graphs), "{steps} steps");
                    }
                    // Parts are launched together, as long as the longest sentence goes on.
                    (Driver::Teams, 3) => assert_eq!(launches, graphs),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn tapes_say_the_same() {
        for seed in 0..6 {
            let subject = Subject::new(seed);
            for style in [CellStyle::Hoisted, CellStyle::Planned, CellStyle::Declaration] {
                let model = subject.model.clone().with_steps_per_graph(8).unwrap();
                let program = Arc::new(Program::new(model.network().clone(), style).unwrap());
                let parameters = &subject.parameters;
                let read = cuda::tape_reader(program.clone(), parameters, Level::detect());
                let (read, options) = (read.unwrap(), EngineOptions::new());
                let engine = Engine::with_backend(model, parameters, program, read, options);
                let got = engine.unwrap().run(&subject.inputs).unwrap();
                assert!(got == subject.expected, "seed {seed}, {style:?}");
            }
        }
    }
}
