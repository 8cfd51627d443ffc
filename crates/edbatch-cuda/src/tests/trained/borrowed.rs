//! Training in memory of another library: the CPU's bits, in the order of a stream.

use edbatch_graph::{Dag, Graph, NodeId, Source, Value};
use edbatch_runtime::{Borrowed, Borrowing, GivenPlace};

use super::*;

/// Memory of another library, which an emulated device accesses at any time.
struct Foreign(Vec<f32>);

impl Foreign {
    fn of(elements: usize) -> Self {
        Self(vec![f32::NAN; elements])
    }

    fn borrowed(&mut self) -> Borrowed {
        let address = self.0.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the tests run all launches before they read or drop the memory.
        unsafe { Borrowed::new(address, self.0.len()) }
    }
}

fn borrow_all(all: &mut [Foreign]) -> Vec<Borrowed> {
    all.iter_mut().map(Foreign::borrowed).collect()
}

/// The outputs, the gradients of given values, and the gradients of parameters with their rows.
type Results = (Vec<f32>, Vec<f32>, Vec<(Named, Vec<f32>)>);

/// The rows of a gradient, or all.
type Named = Option<Vec<u32>>;

fn on_cpu(backend: &mut dyn Training, mini_batch: &MiniBatch, parameters: &Parameters) -> Results {
    let moments = vec![Vec::new(); parameters.slices().len()];
    backend.set_state(&TrainingState { parameters: parameters.clone(), moments }).unwrap();
    let network = backend.program().unwrap().network().clone();
    let initial = initial_rows(&network, parameters);
    let MiniBatch { plan, given, gradients, .. } = mini_batch;
    let given = Given { initial: &initial, places: &[], host: given };
    backend.run(&[Part { slot: 0, plan: &plan.forward, given }]).unwrap();
    let outputs = backend.outputs(0, &plan.forward);
    let outputs = (0..plan.forward.wanted.len()).flat_map(|value| outputs.fields(value).flatten());
    let outputs = outputs.copied().collect();
    let of_outputs = OutputGradients::Rows(&gradients[0]);
    let part = BackPart { slot: 0, plan, outputs: of_outputs };
    backend.run_back(&[part], &mut Vec::new()).unwrap();
    backend.add_sums(&[(0, plan)]).unwrap();
    let of_given = backend.given_gradients(0, plan).unwrap().iter().flatten().copied().collect();
    backend.finish().unwrap();
    let of_parameters = backend.gradients().unwrap().parameters;
    let of_parameters = of_parameters.into_iter().map(|gradient| match gradient {
        Gradient::None => (Some(vec![]), vec![]),
        Gradient::Whole(elements) => (None, elements),
        Gradient::Rows { rows, elements } => (Some(rows), elements),
    });
    let of_parameters = of_parameters.collect();
    backend.forget();
    (outputs, of_given, of_parameters)
}

/// Gives every third value by the host, and the others in two memories in turn. Returns the places,
/// and by place its elements.
fn divided(program: &Program, mini_batch: &MiniBatch) -> (Vec<GivenPlace>, [Vec<f32>; 3]) {
    let rows = &mini_batch.plan.forward.given[program.network().initial_values().len()..];
    let (mut elements, mut all) = (&mini_batch.given[..], [(); 3].map(|()| Vec::new()));
    let mut places: Vec<(usize, u32)> = vec![];
    for (index, row) in rows.iter().enumerate() {
        let (own, rest) = elements.split_at(widths(program, &[*row]).iter().sum());
        let to: &mut Vec<f32> = &mut all[index % 3];
        places.push((index % 3, to.len() as u32));
        to.extend(own);
        elements = rest;
    }
    let first = all[1].len() as u32;
    let places = places.into_iter().map(|(memory, at)| match memory {
        0 => GivenPlace::Host,
        1 => GivenPlace::Borrowed(at),
        _ => GivenPlace::Borrowed(first + at),
    });
    (places.collect(), all)
}

/// The memory of a mini-batch, which outlives its launches.
struct Lent {
    parameters: Vec<Foreign>,
    given: Vec<Foreign>,
    outputs: Foreign,
    of_outputs: Foreign,
    of_given: Vec<Foreign>,
    of_parameters: Vec<Foreign>,
}

/// Enqueues a mini-batch. `adopts` if the parameters have changed.
fn enqueue(
    backend: &mut dyn Borrowing,
    mini_batch: &MiniBatch,
    (places, elements): &(Vec<GivenPlace>, [Vec<f32>; 3]),
    (parameters, expected): (&Parameters, &Results),
    adopts: bool,
) -> Result<(Lent, Vec<Named>), BackendError> {
    let plan = &mini_batch.plan;
    let foreign = |elements: &[f32]| Foreign(elements.to_vec());
    let mut lent = Lent {
        parameters: parameters.slices().into_iter().map(foreign).collect(),
        given: elements[1..].iter().map(|elements| foreign(elements)).collect(),
        outputs: Foreign::of(expected.0.len()),
        of_outputs: foreign(&mini_batch.gradients[0]),
        of_given: elements[1..].iter().map(|elements| Foreign::of(elements.len())).collect(),
        of_parameters: expected.2.iter().map(|(_, all)| Foreign::of(all.len())).collect(),
    };
    let none = Rows::new();
    let given = Given { initial: &none, places, host: &elements[0] };
    if adopts {
        backend.adopt(7, &borrow_all(&mut lent.parameters))?;
    }
    let (memory, outputs) = (borrow_all(&mut lent.given), lent.outputs.borrowed());
    backend.forward_into(7, plan, given, &memory, outputs)?;
    let rows = backend.gradient_rows(plan)?;
    let (of_given, of_outputs) = (borrow_all(&mut lent.of_given), lent.of_outputs.borrowed());
    let of_parameters = borrow_all(&mut lent.of_parameters);
    backend.backward_from(7, plan, given, of_outputs, &of_given, &of_parameters)?;
    Ok((lent, rows))
}

fn assert_equal(name: &str, program: &Program, of: &MiniBatch, lent: Lent, expected: &Results) {
    let same = |what: &str, got: &[f32], expected: &[f32]| {
        let wrong = bits(got).into_iter().zip(bits(expected)).position(|(a, b)| a != b);
        assert!(wrong.is_none() && got.len() == expected.len(), "{name}: {what} at {wrong:?}");
    };
    same("outputs", &lent.outputs.0, &expected.0);
    for (number, (got, (_, expected))) in lent.of_parameters.iter().zip(&expected.2).enumerate() {
        same(&format!("parameter {number}"), &got.0, expected);
    }
    let of_given = MiniBatch { given: expected.1.clone(), ..empty(of) };
    let (_, [_, first, second]) = divided(program, &of_given);
    same("the first given rows", &lent.of_given[0].0, &first);
    same("the second given rows", &lent.of_given[1].0, &second);
}

fn empty(of: &MiniBatch) -> MiniBatch {
    let (targets, gradients) = ([vec![], vec![]], [vec![], vec![]]);
    let plan = of.plan.clone();
    MiniBatch { plan, given: vec![], targets, gradients, has_scores: false, weight: 0.0 }
}

/// Runs all late launches and copies.
fn run_late(device: &Emulated) {
    while !device.is_idle(0).unwrap() {}
}

/// Replaces every third operand of a graph that is a result by a given value.
fn with_given((graph, emitted): &Emitting) -> Emitting {
    let (mut other, mut operands) = (Graph::new(graph.network().clone()), 0);
    for node in (0..graph.nodes()).map(NodeId::new) {
        let values = graph.values(node).map(|value| {
            operands += usize::from(matches!(value.source(), Source::Node(_)));
            match value.source() {
                Source::Node(_) if operands % 3 == 0 => {
                    other.give(graph.record_of(value).expect("it is of the graph"))
                }
                _ => value,
            }
        });
        let values: Vec<Value> = values.collect();
        other.call(graph.kind(node), graph.rows(node), &values).unwrap();
    }
    let emitted = emitted.iter().map(|value| match value.source() {
        Source::Node(node) => node.into(),
        Source::Given(_) => *value,
    });
    let emitted = emitted.collect();
    (other, emitted)
}

/// A program on a device, and what the CPU computes of a mini-batch with two sets of parameters.
struct Case {
    name: String,
    program: Arc<Program>,
    mini_batch: MiniBatch,
    given: (Vec<GivenPlace>, [Vec<f32>; 3]),
    parameters: [Parameters; 2],
    expected: [Results; 2],
    cuda: Cuda<Emulated>,
}

impl Case {
    /// Returns `None` without a compiler.
    fn new(level: Level, seed: u32, (name, emitting): &(String, Emitting)) -> Option<Self> {
        let emitting = &with_given(emitting);
        let program = Arc::new(for_training(emitting.0.network()));
        let (plan, _) = planned(&program, emitting);
        let (network, mut rng) = (emitting.0.network().clone(), Random::seed_from_u64(seed.into()));
        let mut parameters =
            || Subject::of(network.clone(), emitting.0.clone(), &mut rng).parameters;
        let (loaded, parameters) = (parameters(), [parameters(), parameters()]);
        let mini_batch = MiniBatch::new(&program, plan, false, &mut rng);
        let mut cpu = Cpu::new(program.clone(), &loaded, level, Precision::F32).unwrap();
        let expected = [0, 1]
            .map(|number: usize| on_cpu(cpu.training().unwrap(), &mini_batch, &parameters[number]));
        let given = divided(&program, &mini_batch);
        let is_small = emitting.0.nodes() < 12;
        assert!(given.0.len() > 2 || is_small, "{name} has rows in all memories");
        let driver = [Driver::Teams, Driver::Barriers][seed as usize % 2];
        let cuda = load(&program, &loaded, seed + 1, driver)?;
        Some(Self { name: name.clone(), program, mini_batch, given, parameters, expected, cuda })
    }

    /// Enqueues the mini-batch with parameters of a number; reads them if `adopts`.
    fn enqueue(&mut self, number: usize, adopts: bool) -> Result<Lent, BackendError> {
        let Self { mini_batch, given, parameters, expected, cuda, .. } = self;
        let borrowing = cuda.training().unwrap().borrowing().unwrap();
        let of = (&parameters[number], &expected[number]);
        let (lent, rows) = enqueue(borrowing, mini_batch, given, of, adopts)?;
        let expected = expected[number].2.iter().map(|(rows, _)| rows);
        assert!(rows.iter().eq(expected), "{}: rows", self.name);
        Ok(lent)
    }

    fn assert_equal(&self, lent: Lent, number: usize) {
        assert_equal(&self.name, &self.program, &self.mini_batch, lent, &self.expected[number]);
    }
}

/// Returns `None` without a compiler.
fn check_borrowed(level: Level, seed: u32, subject: &(String, Emitting)) -> Option<()> {
    let mut case = Case::new(level, seed, subject)?;
    let device = case.cuda.loaded.device.clone();
    let is_late = !seed.is_multiple_of(3);
    device.set_late(is_late);
    for (round, number) in [0, 0, 1, 0].into_iter().enumerate() {
        let lent = case.enqueue(number, round != 1).unwrap();
        if is_late {
            assert!(device.pending() > 1, "the host has waited");
            run_late(&device);
        }
        case.assert_equal(lent, number);
    }
    device.set_late(false);
    // The other ways to train go on after it.
    let Case { cuda, mini_batch, parameters, expected, .. } = &mut case;
    let again = on_cpu(cuda.training().unwrap(), mini_batch, &parameters[1]);
    assert_eq!(bits(&again.0), bits(&expected[1].0));
    Some(())
}

/// A case of a small network.
fn small() -> Option<Case> {
    let subject = subjects().find(|(name, _)| name == "random network 1").unwrap();
    Case::new(*levels().first()?, 1, &subject)
}

#[test]
fn a_mini_batch_that_still_runs_blocks_no_other_backend() {
    let (Some(mut first), Some(mut second)) = (small(), small()) else { return };
    let device = first.cuda.loaded.device.clone();
    let options = CudaOptions::new();
    second.cuda =
        Cuda::new(std::slice::from_ref(&device), &second.program, &second.parameters[0], &options)
            .unwrap();
    device.set_late(true);
    let lent = [first.enqueue(0, true).unwrap(), second.enqueue(1, true).unwrap()];
    run_late(&device);
    let [of_first, of_second] = lent;
    first.assert_equal(of_first, 0);
    second.assert_equal(of_second, 1);
}

#[test]
fn memory_of_another_size_is_an_error() {
    let Some(mut case) = small() else { return };
    let (none, plan) = (Rows::new(), case.mini_batch.plan.clone());
    let mut short = Foreign::of(1);
    let short = short.borrowed();
    let given = Given { initial: &none, places: &case.given.0, host: &case.given.1[0] };
    let borrowing = case.cuda.training().unwrap().borrowing().unwrap();
    let text = |done: Result<(), BackendError>| done.unwrap_err().to_string();
    let none_ran = text(borrowing.gradient_rows(&plan).map(drop));
    assert!(none_ran.contains("nothing has run forward"), "{none_ran}");
    let got = text(borrowing.adopt(0, &[short]));
    assert!(got.contains("elements, got 1"), "{got}");
    let got = text(borrowing.adopt(0, &vec![short; 1000]));
    assert!(got.contains("more than the network has") || got.contains("got 1"), "{got}");
    let got = text(borrowing.forward_into(0, &plan, given, &[], short));
    assert!(got.contains("elements, got 1"), "{got}");
    let lent = case.enqueue(0, true).unwrap();
    case.assert_equal(lent, 0);
    let borrowing = case.cuda.training().unwrap().borrowing().unwrap();
    let given = Given { initial: &none, places: &[], host: &[] };
    let got = text(borrowing.backward_from(0, &plan, given, short, &[], &[]));
    assert!(got.contains("elements, got 1"), "{got}");
}

#[test]
fn a_launch_that_did_not_end_is_an_error_of_the_next_mini_batch() {
    let Some(mut case) = small() else { return };
    let device = case.cuda.loaded.device.clone();
    // The first time, memory grows after the launch, and the same mini-batch fails.
    device.set_absent_in(0, 0);
    let error = case.enqueue(0, true).err().expect("it did not end").to_string();
    device.set_absent(None);
    assert!(error.contains("it did not end"), "{error}");
    case.enqueue(0, true).unwrap();
    for launch in 0..4 {
        device.set_absent_in(launch, 0);
        case.enqueue(0, true).unwrap();
        device.set_absent(None);
        let error = case.enqueue(1, true).err().unwrap_or_else(|| panic!("launch {launch}"));
        assert!(error.to_string().contains("it did not end"), "{error}");
        let lent = case.enqueue(1, true).unwrap();
        case.assert_equal(lent, 1);
    }
}

#[test]
fn borrowed_memory_of_models_gets_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    for (seed, (name, emitting)) in (0..).zip(graphs(16, Stop::Forced([0; 5].into())).unwrap()) {
        let is_own = ["bilstm_tagger_char", "lattice_gru"].contains(&name);
        if !is_own && !edbatch_testing::all_cases() {
            continue;
        }
        if check_borrowed(level, seed, &(name.into(), emitting)).is_none() {
            return;
        }
    }
}

#[test]
fn borrowed_memory_of_random_networks_gets_the_bits_of_the_cpu() {
    let Some(&level) = levels().first() else { return };
    let most = if edbatch_testing::all_cases() { 48 } else { 3 };
    let random = subjects().filter(|(name, _)| name.starts_with("random"));
    for (seed, subject) in (0..).zip(random.take(most)) {
        if check_borrowed(level, seed, &subject).is_none() {
            return;
        }
    }
}
