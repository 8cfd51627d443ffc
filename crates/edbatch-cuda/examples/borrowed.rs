//! Trains in memory of another library on an NVIDIA device, and compares all results with the
//! CPU's. This program plays the other library: it fills the memory on a stream of its own, never
//! waits before it has enqueued everything, and then overwrites what the trainer has read.
//!
//! `cargo xtask ci` runs it on a driver without a device, which runs streams in random order.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, result};
use edbatch_cuda::{CudaOptions, nvidia};
use edbatch_graph::{Graph, Network, Schedule, Shape, training_network};
use edbatch_layout::{Lifetimes, MiniBatch, Planner, Program, TrainingPlan, Want};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    BackPart, Backend, Borrowed, Cpu, Given, GivenPlace, OutputGradients, Parameters, Part,
    Precision, Rows, TrainingState, initial_rows,
};
use edbatch_testing::Subject;
use edbatch_testing::networks::Random;
use rand::{RngExt, SeedableRng};

type Failure = Box<dyn std::error::Error>;

/// Chains of calls of one cell, each with a given word. Returns the program and the plan.
fn planned() -> Result<(Arc<Network>, Arc<Program>, TrainingPlan), Failure> {
    let mut network = Network::new();
    let word = network.record("word", [("x", Shape::Vector(8))])?;
    let state = network.record("state", [("h", Shape::Vector(16))])?;
    let start = network.initial(state, &["start"])?;
    let step = network.cell("step", state, |cell| {
        let ([x], [h]) = (cell.one("x", word), cell.one("h", state));
        let sum = cell.parameter("w", &[16, 8]).matmul(x) + cell.lookup("i", "t", &[5, 16]);
        vec![(sum + cell.parameter("u", &[16, 16]).matmul(h)).tanh()]
    })?;
    let network = Arc::new(network);
    let (mut graph, mut wanted) = (Graph::new(network.clone()), Vec::new());
    for length in 1..6 {
        let mut value = start;
        for row in 0..length {
            let x = graph.give(word);
            value = graph.call(step, &[row % 3], &[x, value])?;
        }
        wanted.push((value, Want::Elements));
    }
    let program = Program::for_training(Arc::new(training_network(&network, |_| true, |_| true)?))?;
    let subject = Subject::of(network.clone(), graph, &mut Random::seed_from_u64(1));
    let schedule: &Schedule = &subject.schedule;
    let of = MiniBatch { program: &program, graph: &subject.graph, schedule, wanted: &wanted };
    let mut plan = TrainingPlan::default();
    let has_gradient = vec![true; wanted.len()];
    Planner::new(Lifetimes::Distinct).plan_training(&of, &has_gradient, &mut plan)?;
    Ok((network, Arc::new(program), plan))
}

/// The outputs, and the gradients of given rows and of all parameters.
fn on_cpu(
    backend: &mut dyn Backend,
    plan: &TrainingPlan,
    parameters: &Parameters,
    [given, gradients]: [&[f32]; 2],
) -> Result<Vec<Vec<f32>>, Failure> {
    let network = backend.program().ok_or("no program")?.network().clone();
    let moments = vec![Vec::new(); parameters.slices().len()];
    let training = backend.training().ok_or("no training")?;
    training.set_state(&TrainingState { parameters: parameters.clone(), moments })?;
    let initial = initial_rows(&network, parameters);
    let given = Given { initial: &initial, places: &[], host: given };
    training.run(&[Part { slot: 0, plan: &plan.forward, given }])?;
    let outputs = training.outputs(0, &plan.forward);
    let outputs = (0..plan.forward.wanted.len()).flat_map(|value| outputs.fields(value).flatten());
    let mut all = vec![outputs.copied().collect()];
    let outputs = OutputGradients::Rows(gradients);
    training.run_back(&[BackPart { slot: 0, plan, outputs }], &mut Vec::new())?;
    training.add_sums(&[(0, plan)])?;
    all.push(training.given_gradients(0, plan)?.iter().flatten().copied().collect());
    training.finish()?;
    all.extend(training.gradients()?.parameters.iter().map(|each| each.elements().to_vec()));
    training.forget();
    Ok(all)
}

/// Device memory of the other library.
struct Memory(u64, usize);

impl Memory {
    /// Memory that is filled on a stream.
    fn filled(stream: &CudaStream, elements: &[f32]) -> Result<Self, Failure> {
        // SAFETY: the copy reads `elements`, which live until the stream is waited for.
        unsafe {
            let memory = Self(result::malloc_sync(4 * elements.len().max(1))?, elements.len());
            result::memcpy_htod_async(memory.0, elements, stream.cu_stream())?;
            Ok(memory)
        }
    }

    fn borrowed(&self) -> Borrowed {
        // SAFETY: it is freed after the stream has been waited for.
        unsafe { Borrowed::new(self.0, self.1) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `malloc_sync`. The driver waits for work that uses it.
        let _ = unsafe { result::free_sync(self.0) };
    }
}

fn main() -> Result<(), Failure> {
    let (network, program, plan) = planned()?;
    let mut rng = Random::seed_from_u64(2);
    let mut floats = |count| (0..count).map(|_| rng.random_range(-1.0..1.0)).collect::<Vec<f32>>();
    let (given, gradients) = (floats(8 * 15), floats(16 * 5));
    let mut rng = Random::seed_from_u64(3);
    let parameters = [(); 4].map(|()| Parameters::random(&network, &mut rng));
    let mut cpu = Cpu::new(program.clone(), &parameters[0], Level::detect(), Precision::F32)?;
    let mut device = nvidia(program.clone(), &parameters[0], &CudaOptions::new(), &[0])?;
    let stream = CudaContext::new(0)?.new_stream()?;
    let own = stream.cu_stream() as u64;
    let (none, junk) = (Rows::new(), vec![f32::NAN; 16 * 16]);
    // The first words are in one memory, the others in another.
    let places: Vec<_> = (0..15).map(|word| GivenPlace::Borrowed(8 * word)).collect();
    let of_given = Given { initial: &none, places: &places, host: &[] };
    let borrowing = device.training().and_then(|training| training.borrowing());
    let borrowing = borrowing.ok_or("no device")?;
    for parameters in &parameters[1..] {
        let expected = on_cpu(&mut cpu, &plan, parameters, [&given, &gradients])?;
        let filled = |elements: &[f32]| Memory::filled(&stream, elements);
        let empty = |elements: &Vec<f32>| filled(&vec![0.0; elements.len()]);
        let masters: Vec<_> =
            parameters.slices().into_iter().map(filled).collect::<Result<_, _>>()?;
        let words = [filled(&given[..40])?, filled(&given[40..])?];
        let of_outputs = filled(&gradients)?;
        let got = [filled(&[0.0; 80])?, filled(&[0.0; 40])?, filled(&[0.0; 80])?];
        let zeros: Vec<Vec<f32>> = expected[2..].iter().map(|all| vec![0.0; all.len()]).collect();
        let of_parameters: Vec<_> = zeros.iter().map(empty).collect::<Result<_, _>>()?;
        let borrow = |all: &[Memory]| all.iter().map(Memory::borrowed).collect::<Vec<_>>();
        borrowing.adopt(own, &borrow(&masters))?;
        borrowing.forward_into(own, &plan, of_given, &borrow(&words), got[0].borrowed())?;
        borrowing.gradient_rows(&plan)?;
        borrowing.backward_from(
            own,
            &plan,
            of_given,
            of_outputs.borrowed(),
            &borrow(&got[1..]),
            &borrow(&of_parameters),
        )?;
        // Later work on the stream may overwrite what has been read.
        for Memory(address, elements) in masters.iter().chain(&words).chain([&of_outputs]) {
            // SAFETY: the memory has these elements, and `junk` lives to the end.
            unsafe { result::memcpy_htod_async(*address, &junk[..*elements], own as _)? };
        }
        let mut read = Vec::new();
        for Memory(address, elements) in got.iter().chain(&of_parameters) {
            let mut to = vec![0.0f32; *elements];
            // SAFETY: the stream is waited for below, before `to` is read or freed.
            unsafe { result::memcpy_dtoh_async(&mut to, *address, own as _)? };
            read.push(to);
        }
        stream.synchronize()?;
        let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let (words, rest) = ([&read[1][..], &read[2]].concat(), &read[3..]);
        let got = [&read[0], &words].into_iter().chain(rest);
        for (number, (got, expected)) in got.zip(&expected).enumerate() {
            if bits(got) != bits(expected) {
                return Err(format!("result {number} has other bits than the CPU's").into());
            }
        }
    }
    println!("the CPU's bits");
    Ok(())
}
