//! Plans on an emulated device: the bits of the CPU, for random networks, in any order of threads.
//!
//! The models' goldens are compared in `goldens.rs`.

use std::sync::Arc;

use edbatch_graph::{Dag, Graph, Network, NodeId, Shape, Value};
use edbatch_layout::{CellStyle, Plan, Program, Want, phases};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Given, Parameters, Part};
use edbatch_testing::networks::Random;
use edbatch_testing::{Subject, allocations, skip};
use rand::SeedableRng;

#[path = "support/emulated.rs"]
mod emulated;

#[global_allocator]
static ALLOCATOR: edbatch_testing::CountingAllocator = edbatch_testing::CountingAllocator;

/// How cells are compiled, and how many bytes of tables are folded: none, about one of two, all.
const WAYS: [(CellStyle, u64); 5] = [
    (CellStyle::Hoisted, 0),
    (CellStyle::Planned, 0),
    (CellStyle::Hoisted, u64::MAX),
    (CellStyle::Declaration, 0),
    (CellStyle::Hoisted, 4000),
];

/// Calls of a cell that multiplies arguments side by side: a row, a value and another; and a sum.
fn side_by_side() -> Subject {
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
        // The CPU folds nothing.
        let unfolded = Arc::new(Program::new(subject.network.clone(), style).unwrap());
        let cpu = Cpu::new(unfolded.clone(), parameters, Level::detect());
        let expected = subject.run(&unfolded, &mut cpu.unwrap()).unwrap();
        for driver in emulated::DRIVERS {
            let backend = emulated::backend(program.clone(), parameters, driver);
            let Some(mut device) = backend else { return };
            // Each launch has another order of threads, blocks and jobs.
            for _ in 0..3 {
                let got = subject.run(&program, &mut *device).unwrap();
                assert!(got == expected, "seed {seed}, {style:?}, {driver:?}: other bits");
            }
            let mut fork = device.fork();
            assert!(subject.run(&program, &mut *fork).unwrap() == expected, "a fork");
        }
    }
}

/// Arguments that are put side by side are read again by each block that needs them.
#[test]
fn arguments_side_by_side_are_one_phase_with_the_bits_of_the_cpu() {
    let subject = side_by_side();
    let program = Program::new(subject.network.clone(), CellStyle::Planned).unwrap();
    let (program, parameters) = (Arc::new(program), &subject.parameters);
    assert_eq!(phases(program.network(), &program.cells()[0]).len(), 1, "{}", program.cells()[0]);
    let level = Level::detect();
    let mut cpu = Cpu::new(program.clone(), parameters, level).unwrap();
    let expected = subject.run(&program, &mut cpu).unwrap();
    if level == Level::Portable {
        return skip("this level of the CPU rounds products");
    }
    for driver in emulated::DRIVERS {
        let backend = emulated::backend(program.clone(), parameters, driver);
        let Some(mut device) = backend else { return };
        for _ in 0..3 {
            assert!(subject.run(&program, &mut *device).unwrap() == expected, "on the device");
        }
    }
}

/// Once the largest plan has run, neither the host nor the device allocates.
#[test]
fn nothing_is_allocated_in_a_steady_state() {
    let subject = Subject::random(3);
    for folded in [0, u64::MAX] {
        let program = Program::new(subject.network.clone(), CellStyle::Hoisted).unwrap();
        let program = Arc::new(program.fold_tables(folded));
        for driver in emulated::DRIVERS {
            let device = emulated::backend(program.clone(), &subject.parameters, driver);
            let Some(mut device) = device else { return };
            nothing_is_allocated(&subject, &program, &mut *device);
        }
    }
}

fn nothing_is_allocated(subject: &Subject, program: &Program, device: &mut dyn Backend) {
    let last = NodeId::new(subject.graph.nodes() - 1);
    let plan = subject.plan(program, device, &[(last.into(), Want::Elements)]);
    let given = Given { initial: &subject.initial, stayed: 0, host: &[] };
    let mut run = || {
        device.run(&[Part { slot: 0, plan: &plan, given }]).unwrap();
        device.outputs(0, &plan).fields(0).flatten().sum::<f32>()
    };
    let first = run();
    let mut again = 0.0;
    assert_eq!(allocations(|| again = run()), 0);
    assert_eq!(again.to_bits(), first.to_bits());
}

/// The emulated device by each of its drivers; none without a compiler.
fn devices(program: &Arc<Program>, parameters: &Parameters) -> Vec<Box<dyn Backend>> {
    let load = |driver| emulated::backend(program.clone(), parameters, driver);
    emulated::DRIVERS.map(load).into_iter().flatten().collect()
}

/// Steps that run before what they wait for are found: in some order of the jobs they read what is
/// not written yet.
#[test]
fn waves_that_lie_change_bits() {
    let subject = Subject::random(5);
    let program = Program::new(subject.network.clone(), CellStyle::Planned).unwrap();
    let (program, parameters) = (Arc::new(program), &subject.parameters);
    for device in devices(&program, parameters) {
        let nodes = (0..subject.graph.nodes()).map(NodeId::new);
        let wanted: Vec<_> = nodes.map(|node| (node.into(), Want::Elements)).collect();
        let mut plan = subject.plan(&program, &*device, &wanted);
        let given = Given { initial: &subject.initial, stayed: 0, host: &[] };
        let run = |plan: &Plan| -> Vec<u32> {
            // A fork has an arena of its own, full of NaN.
            let mut device = device.fork();
            device.run(&[Part { slot: 0, plan, given }]).unwrap();
            let outputs = device.outputs(0, plan);
            let fields = (0..wanted.len()).flat_map(|value| outputs.fields(value));
            fields.flatten().map(|x| x.to_bits()).collect()
        };
        let expected = run(&plan);
        assert!(plan.waves.iter().any(|&wave| wave > 0), "a graph of several waves");
        plan.waves.fill(0);
        assert!((0..3).any(|_| run(&plan) != expected));
    }
}
