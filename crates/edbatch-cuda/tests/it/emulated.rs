//! Plans on an emulated device: random networks have the bits of the CPU, in any order of threads.

use std::sync::Arc;

use edbatch_cuda::{
    CudaError, CudaOptions, EmulatedBackend, EmulatedDevice, PhaseTable, check_waves, phases, waves,
};
use edbatch_graph::{Dag, Graph, Network, NodeId, Shape, Value};
use edbatch_layout::{CellStyle, MiniBatch, Program, Want};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Given, Parameters, Part, Precision};
use edbatch_testing::networks::Random;
use edbatch_testing::{Subject, allocations, chained, every_value, skip};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

/// Loads a program on a new device. Returns `None`, and counts a skip, without a C++ compiler.
fn load(program: &Arc<Program>, parameters: &Parameters) -> Option<EmulatedBackend> {
    let options = CudaOptions::new();
    match EmulatedDevice::new(7).load(program.clone(), parameters, &options) {
        Ok(backend) => Some(backend),
        Err(error) if matches!(CudaError::of(&error), Some(CudaError::NoCompiler { .. })) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[global_allocator]
static ALLOCATOR: edbatch_testing::CountingAllocator = edbatch_testing::CountingAllocator;

/// Styles of cells, and the maximum bytes of folded tables: for none, about half, or all of them.
const WAYS: [(CellStyle, u64); 5] = [
    (CellStyle::Hoisted, 0),
    (CellStyle::Planned, 0),
    (CellStyle::Hoisted, u64::MAX),
    (CellStyle::Declaration, 0),
    (CellStyle::Hoisted, 4000),
];

/// Calls of a cell that multiplies a matrix by concatenated arguments: a row and two values.
fn concatenated() -> Subject {
    let mut rng = Random::seed_from_u64(1);
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(5))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let join = network.cell("join", state, |cell| {
        let [[left], [right]] = ["left", "right"].map(|name| cell.one(name, state));
        let [sum] = cell.many("rest", state).sum();
        let row = cell.lookup("row", "table", &[3, 2]);
        let all = cell.concat(&[row, left, right]);
        let [w, u] = [("w", 12), ("u", 5)].map(|(name, k)| cell.parameter(name, &[5, k]));
        vec![(w.matmul(all) + u.matmul(sum)).tanh()]
    });
    let (join, network) = (join.unwrap(), Arc::new(network));
    let mut graph = Graph::new(network.clone());
    let mut values = vec![start];
    for call in 0..40 {
        let rest = values.iter().rev().step_by(3).take(1 + call % 4);
        let single = [values[call / 2], values[call / 3]];
        let arguments: Vec<Value> = single.iter().chain(rest).copied().collect();
        values.push(graph.call(join, &[call as u32 % 3], &arguments).unwrap());
    }
    Subject::of(network, graph, &mut rng)
}

#[test]
fn random_networks_have_the_bits_of_the_cpu_in_every_order() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    for seed in 0..10 {
        let subject = Subject::random(seed);
        let (style, folded) = WAYS[seed as usize % WAYS.len()];
        let program = Program::new(subject.network.clone(), style).unwrap().fold_tables(folded);
        let program = Arc::new(program);
        let parameters = &subject.parameters;
        // The CPU does not fold tables here.
        let unfolded = Arc::new(Program::new(subject.network.clone(), style).unwrap());
        let cpu = Cpu::new(unfolded.clone(), parameters, Level::detect(), Precision::F32);
        let expected = subject.run(&unfolded, &mut cpu.unwrap()).unwrap();
        let Some(mut device) = load(&program, parameters) else { return };
        // Each launch has a different order of threads, blocks and jobs.
        for _ in 0..3 {
            let got = subject.run(&program, &mut device).unwrap();
            assert!(got == expected, "seed {seed}, {style:?}: different bits");
        }
        let mut fork = device.fork();
        assert!(subject.run(&program, &mut *fork).unwrap() == expected, "a fork");
    }
}

#[test]
fn rows_of_argmaxes_are_those_of_the_cpu_in_every_order() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    let (seeds, mut prologues) = (if edbatch_testing::all_cases() { 40 } else { 10 }, 0);
    for seed in 0..seeds {
        let subject = chained(seed);
        let (style, folded) = WAYS[seed as usize % WAYS.len()];
        let program = Program::new(subject.network.clone(), style).unwrap().fold_tables(folded);
        let (program, parameters) = (Arc::new(program), &subject.parameters);
        let cpu = Cpu::new(program.clone(), parameters, Level::detect(), Precision::F32);
        let expected = subject.run(&program, &mut cpu.unwrap()).unwrap();
        let Some(mut device) = load(&program, parameters) else { return };
        let wanted = every_value(&subject.graph);
        let plan = subject.plan(&program, &device, &wanted);
        let (graph, schedule) = (&subject.graph, &subject.schedule);
        let mini_batch = MiniBatch { program: &program, graph, schedule, wanted: &wanted };
        let mut waves = waves(&program, &plan);
        check_waves(&plan, &waves, &mini_batch).unwrap();
        for _ in 0..3 {
            assert!(subject.run(&program, &mut device).unwrap() == expected, "seed {seed}");
        }
        // A prologue that runs as soon as the value exists has no wave in which to look up its row.
        let mut steps = plan.lookups.iter().map(|own| own.step as usize);
        if let Some(prologue) = steps.find(|&step| !plan.steps[step].is_batch()) {
            prologues += 1;
            waves[prologue] -= 1;
            check_waves(&plan, &waves, &mini_batch).unwrap_err();
        }
    }
    assert!(prologues > 0);
}

/// A random cell with states of 64 or 80 elements, which may run as unit tiles, and calls of it.
fn recurrent(seed: u64) -> Subject {
    let mut rng = Random::seed_from_u64(seed);
    let width = [64, 80][seed as usize % 2];
    let (mut network, shape) = (Network::new(), Shape::Vector(width as u32));
    let state = network.record("state", [("h", shape), ("c", shape)]).unwrap();
    let start = network.initial(state, &["h0", "c0"]).unwrap();
    let cell = network.cell("cell", state, |cell| {
        let [[h, c], [other, below]] = ["left", "right"].map(|name| cell.one(name, state));
        let rest = cell.many("rest", state);
        let [all, old] = match rng.random_range(0..3) {
            0 => rest.sum(),
            1 => rest.mean(),
            _ => rest.max(),
        };
        let row = cell.lookup("row", "table", &[3, width]);
        let rows = [h, other, all, row, cell.concat(&[row, h]), cell.concat(&[all, other])];
        let mut used = vec![*rows.choose(&mut rng).unwrap()];
        used.extend(rows.choose(&mut rng));
        let mut gate = |number: usize| {
            let own = &used[..rng.random_range(1..=2)];
            let terms = own.iter().enumerate().map(|(i, x)| {
                let dims = [width, x.shape().elements()];
                cell.parameter(&format!("w{number}.{i}"), &dims).matmul(*x)
            });
            let sum = terms.reduce(|a, b| a + b).unwrap();
            (sum + cell.parameter(&format!("b{number}"), &[width])).sigmoid()
        };
        let gates: Vec<_> = (0..1 + seed as usize % 4).map(&mut gate).collect();
        let kept = gates[0] * c + *gates.last().unwrap() * below + old.tanh();
        vec![gates.iter().fold(kept.tanh(), |a, &gate| a * gate) + all.scale(0.5), kept]
    });
    let (cell, network) = (cell.unwrap(), Arc::new(network));
    let mut graph = Graph::new(network.clone());
    let mut values = vec![start];
    for call in 0..60 {
        let rest = values.iter().rev().step_by(3).take(1 + call % 4);
        let single = [values[call / 3], values[call / 4]];
        let arguments: Vec<Value> = single.iter().chain(rest).copied().collect();
        values.push(graph.call(cell, &[call as u32 % 3], &arguments).unwrap());
    }
    Subject::of(network, graph, &mut rng)
}

/// Calls of cells with large products: of a table's row, before other calls, and of a value.
fn large(calls: usize) -> Subject {
    let mut rng = Random::seed_from_u64(calls as u64);
    let mut network = Network::new();
    let [state, scores] = [("state", 36), ("scores", 130)]
        .map(|(name, width)| network.record(name, [("x", Shape::Vector(width))]).unwrap());
    let start = network.initial(state, &["h0"]).unwrap();
    let next = network.cell("next", state, |cell| {
        let ([h], row) = (cell.one("h", state), cell.lookup("row", "table", &[5, 20]));
        let [w, u, b] = [("w", &[36, 20][..]), ("u", &[36, 36]), ("b", &[36])]
            .map(|(name, dims)| cell.parameter(name, dims));
        vec![(w.matmul(row) + u.matmul(h) + b).tanh()]
    });
    let score = network.cell("score", scores, |cell| {
        let [h] = cell.one("h", state);
        let [w, b] =
            [("v", &[130, 36][..]), ("c", &[130])].map(|(name, dims)| cell.parameter(name, dims));
        vec![(w.matmul(h) + b).sigmoid()]
    });
    let (next, score, network) = (next.unwrap(), score.unwrap(), Arc::new(network));
    let mut graph = Graph::new(network.clone());
    for call in 0..calls {
        let first = graph.call(next, &[call as u32 % 5], &[start]).unwrap();
        let second = graph.call(next, &[call as u32 % 3], &[first]).unwrap();
        graph.call(score, &[], &[second]).unwrap();
    }
    Subject::of(network, graph, &mut rng)
}

#[test]
fn large_products_have_the_bits_of_the_cpu() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    for (seed, calls) in (0..).zip([3, 16, 17, 70, 150]) {
        let subject = large(calls);
        let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
        let program = Arc::new(program);
        let table = PhaseTable::new(&program);
        assert!(table.entries().iter().all(|entry| entry.is_large), "{:?}", table.entries());
        let cpu = Cpu::new(program.clone(), &subject.parameters, Level::detect(), Precision::F32);
        let expected = subject.run(&program, &mut cpu.unwrap()).unwrap();
        // With room for two stages of a ring, and for four.
        for device in [EmulatedDevice::with_size(seed, 5, 0), EmulatedDevice::new(seed)] {
            let device = device.load(program.clone(), &subject.parameters, &CudaOptions::new());
            let lacks = |e: &_| matches!(CudaError::of(e), Some(CudaError::NoCompiler { .. }));
            let Some(mut device) = edbatch_testing::or_skip(device, lacks) else { return };
            assert!(subject.run(&program, &mut device).unwrap() == expected, "{calls} calls");
        }
    }
}

#[test]
fn random_unit_tiles_have_the_bits_of_the_cpu() {
    if Level::detect() == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    let (seeds, mut tiles) = (if edbatch_testing::all_cases() { 60 } else { 10 }, 0);
    for seed in 0..seeds {
        let subject = recurrent(seed);
        let style = WAYS[seed as usize % WAYS.len()].0;
        let program = Arc::new(Program::new(subject.network.clone(), style).unwrap());
        let parameters = &subject.parameters;
        let cpu = Cpu::new(program.clone(), parameters, Level::detect(), Precision::F32);
        let expected = subject.run(&program, &mut cpu.unwrap()).unwrap();
        let device = EmulatedDevice::new(seed as u32);
        let options = CudaOptions::new().shape(Some(seed as u32 / 2 % 6));
        tiles += usize::from(!device.team_size(&program, &options).tiles.is_empty());
        let lacks = |error: &_| matches!(CudaError::of(error), Some(CudaError::NoCompiler { .. }));
        let loaded = device.load(program.clone(), parameters, &options);
        let Some(mut device) = edbatch_testing::or_skip(loaded, lacks) else { return };
        for _ in 0..2 {
            assert!(subject.run(&program, &mut device).unwrap() == expected, "seed {seed}");
        }
    }
    assert!(2 * tiles > seeds as usize, "unit tiles in {tiles} of {seeds}");
}

/// Each block that needs concatenated arguments reads them again.
#[test]
fn concatenated_arguments_are_one_phase_with_the_bits_of_the_cpu() {
    let subject = concatenated();
    let program = Program::new(subject.network.clone(), CellStyle::Planned).unwrap();
    let (program, parameters) = (Arc::new(program), &subject.parameters);
    assert_eq!(phases(program.network(), &program.cells()[0]).len(), 1, "{}", program.cells()[0]);
    let level = Level::detect();
    let mut cpu = Cpu::new(program.clone(), parameters, level, Precision::F32).unwrap();
    let expected = subject.run(&program, &mut cpu).unwrap();
    if level == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    let Some(mut device) = load(&program, parameters) else { return };
    for _ in 0..3 {
        assert!(subject.run(&program, &mut device).unwrap() == expected);
    }
}

/// Once the largest plan has run, neither the host nor the device allocates memory.
#[test]
fn nothing_is_allocated_in_a_steady_state() {
    let subject = Subject::random(3);
    for folded in [0, u64::MAX] {
        let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
        let program = Arc::new(program.fold_tables(folded));
        let Some(mut device) = load(&program, &subject.parameters) else { return };
        nothing_is_allocated(&subject, &program, &mut device);
    }
}

fn nothing_is_allocated(subject: &Subject, program: &Program, device: &mut dyn Backend) {
    let last = NodeId::new(subject.graph.nodes() - 1);
    let plan = subject.plan(program, device, &[(last.into(), Want::Elements)]);
    let given = Given { initial: &subject.initial, places: &[], host: &[] };
    let mut run = || {
        device.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
        device.outputs(0, &plan).fields(0).flatten().sum::<f32>()
    };
    let first = run();
    let mut again = 0.0;
    assert_eq!(allocations(|| again = run()), 0);
    assert_eq!(again.to_bits(), first.to_bits());
}

#[test]
fn a_step_runs_again() {
    let subject = Subject::random(5);
    let program = Program::new(subject.network.clone(), CellStyle::Planned).unwrap();
    let program = Arc::new(program);
    let Some(mut device) = load(&program, &subject.parameters) else { return };
    let expected = subject.run(&program, &mut device).unwrap();
    let last = NodeId::new(subject.graph.nodes() - 1);
    let plan = subject.plan(&program, &device, &[(last.into(), Want::Elements)]);
    let given = Given { initial: &subject.initial, places: &[], host: &[] };
    device.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
    (0..plan.steps.len()).for_each(|step| device.step(&plan, step).unwrap());
    assert!(subject.run(&program, &mut device).unwrap() == expected);
}

/// Each slot has an arena of its own, also for parts of different plans in one launch.
#[test]
fn slots_run_together_and_do_not_disturb_each_other() {
    let subject = Subject::random(5);
    let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
    let program = Arc::new(program);
    let nodes = (0..subject.graph.nodes()).map(NodeId::new);
    let all: Vec<_> = nodes.map(|node| (node.into(), Want::Elements)).collect();
    let Some(mut device) = load(&program, &subject.parameters) else { return };
    let given = Given { initial: &subject.initial, places: &[], host: &[] };
    let plans =
        [&all[..], &all[1..], &all[..1]].map(|wanted| subject.plan(&program, &device, wanted));
    let read = |device: &EmulatedBackend, slot: usize, plan: usize| -> Vec<u32> {
        let outputs = device.outputs(slot, &plans[plan]);
        let wanted = 0..plans[plan].wanted.len();
        wanted.flat_map(|value| outputs.fields(value).flatten().map(|x| x.to_bits())).collect()
    };
    let expected = [0, 1, 2].map(|plan| {
        device.run(&[Part { slot: 0, plan: &plans[plan], given }]).unwrap();
        read(&device, 0, plan)
    });
    for slots in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let part = |plan: usize| Part { slot: slots[plan], plan: &plans[plan], given };
        device.run(&[0, 1, 2].map(part)).unwrap();
        for plan in 0..3 {
            assert!(read(&device, slots[plan], plan) == expected[plan], "{plan}");
        }
    }
}
