//! Unit tiles wait for the rows that they read, instead of at a barrier.

use std::sync::Arc;

use edbatch_graph::{Dag, Graph, Network, NodeId, Shape};
use edbatch_layout::{CellStyle, Plan, Program, Want};
use edbatch_models::Model;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Given, Precision, Rows};
use edbatch_testing::Subject;
use edbatch_testing::networks::Random;
use edbatch_zoo::{TreeLstm, TreeSizes};
use rand::SeedableRng;

use super::compiled_or_skip;
use crate::backend::Cuda;
use crate::emulated::Emulated;
use crate::waves::waves;
use crate::{CommandList, CudaError, CudaOptions, Driver};

/// Chains of calls of two cells, a recurrent one and a gated one of two phases.
fn subject() -> Subject {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(64))]).unwrap();
    let start = network.initial(state, &["h0"]).unwrap();
    let one = network.cell("one", state, |cell| {
        let [h] = cell.one("h", state);
        vec![cell.parameter("w", &[64, 64]).matmul(h).tanh() + h.scale(0.25)]
    });
    let two = network.cell("two", state, |cell| {
        let [h] = cell.one("h", state);
        let reset = cell.parameter("r", &[64, 64]).matmul(h).sigmoid() * h;
        vec![cell.parameter("u", &[64, 64]).matmul(reset).tanh() + h.scale(0.5)]
    });
    let (one, two, network) = (one.unwrap(), two.unwrap(), Arc::new(network));
    let mut graph = Graph::new(network.clone());
    for chain in 0..7 {
        let mut value = start;
        for call in 0..6 {
            let cell = if (chain + call) % 2 == 0 { one } else { two };
            value = graph.call(cell, &[], &[value]).unwrap();
        }
    }
    Subject::of(network, graph, &mut Random::seed_from_u64(3))
}

/// A program on an emulated device. Returns `None` without a C++ compiler.
fn loaded(
    subject: &Subject,
    options: &CudaOptions,
) -> Option<(Arc<Program>, Arc<Emulated>, Cuda<Emulated>)> {
    let program = Program::new(subject.network.clone(), CellStyle::Planned).unwrap();
    let (program, device) = (Arc::new(program), Arc::new(Emulated::new(5)));
    let cuda = Cuda::new(std::slice::from_ref(&device), &program, &subject.parameters, options);
    let cuda = cuda.map_err(|error| CudaError::of(&error).cloned().expect("an error of CUDA"));
    Some((program, device, compiled_or_skip(cuda)?))
}

/// The bits of the CPU, where all NaN are equal.
fn expected(subject: &Subject, program: &Arc<Program>) -> Vec<u32> {
    let level = Level::detect();
    let cpu = Cpu::new(program.clone(), &subject.parameters, level, Precision::F32);
    subject.run(program, &mut cpu.unwrap()).unwrap()
}

#[test]
fn plans_after_a_failed_launch_read_no_old_rows() {
    if Level::detect() == Level::Portable {
        return edbatch_testing::skip("this level of the CPU rounds products");
    }
    for driver in [Driver::Teams, Driver::Barriers] {
        let subject = subject();
        let options = CudaOptions::new().driver(driver);
        let Some((program, device, mut cuda)) = loaded(&subject, &options) else { return };
        let expected = expected(&subject, &program);
        for round in 0..4 {
            let got = subject.run(&program, &mut cuda).unwrap();
            assert!(got == expected, "{driver:?}, round {round}");
            device.set_absent(Some(round));
            subject.run(&program, &mut cuda).unwrap_err();
            device.set_absent(None);
        }
        let plan = subject.plan(&program, &cuda, &[]);
        let arenas = if driver == Driver::Teams { 2 } else { 1 };
        assert_eq!(cuda.bytes_of(&plan), arenas * 4 * plan.arena as u64, "{driver:?}");
    }
}

/// The largest tiles of trees need memory for the sums of a product, 64 KB for each SM. Devices
/// with less shared memory have no such tiles.
#[test]
fn memory_for_sums_of_tiles_is_counted() {
    let sizes = TreeSizes { vocabulary: 9, embed: 64, hidden: 64, classes: 2 };
    let network = TreeLstm::new(sizes).unwrap().network().clone();
    let graph = Graph::new(network.clone());
    let subject = Subject::of(network, graph, &mut Random::seed_from_u64(3));
    let program = Program::new(subject.network.clone(), CellStyle::Planned).unwrap();
    let program = Arc::new(program);
    for (resident, bytes) in [(150 << 10, 12 * (64 << 10)), (64 << 10, 0)] {
        let device = Arc::new(Emulated::new(5).with_size(12, resident));
        let cuda = Cuda::new(&[device], &program, &subject.parameters, &CudaOptions::new());
        let cuda = cuda.map_err(|error| CudaError::of(&error).cloned().expect("an error of CUDA"));
        let Some(mut cuda) = compiled_or_skip(cuda) else { return };
        let plan = Plan::default();
        assert_eq!((cuda.bytes_of(&plan), cuda.bytes().arena), (bytes, 0));
        cuda.run_in_waves(&plan, &Given { initial: &Rows::new(), places: &[], host: &[] }, &[])
            .unwrap();
        let (more, least) = (cuda.bytes().arena as u64, bytes..bytes + 4096);
        assert!(least.contains(&more), "{more} bytes, expected {bytes}");
    }
}

#[test]
fn a_given_nan_with_the_bits_of_what_is_not_written_is_read() {
    let mut subject = subject();
    let mut row = subject.initial.iter().next().expect("a row").to_vec();
    row[5] = f32::from_bits(u32::MAX);
    subject.initial = Rows::new();
    subject.initial.push(&row);
    let Some((program, _, mut cuda)) = loaded(&subject, &CudaOptions::new()) else { return };
    let got = subject.run(&program, &mut cuda).unwrap();
    assert_eq!(got, expected(&subject, &program));
    assert!(got.contains(&f32::NAN.to_bits()), "there are NaN");
}

#[test]
fn a_row_that_is_never_written_is_named() {
    let subject = subject();
    let Some((program, _, mut cuda)) = loaded(&subject, &CudaOptions::new()) else { return };
    let nodes = (0..subject.graph.nodes()).map(NodeId::new);
    let wanted: Vec<_> = nodes.map(|node| (node.into(), Want::Elements)).collect();
    let plan = subject.plan(&program, &cuda, &wanted);
    let given = Given { initial: &subject.initial, places: &[], host: &[] };
    let mut right = waves(&program, &plan);
    cuda.run_in_waves(&plan, &given, &right).unwrap();
    let last = right.iter().copied().max().expect("there are waves");
    assert!(last > 3, "{right:?}");
    // The steps of the last two waves exchange them.
    right.iter_mut().filter(|wave| **wave + 2 > last).for_each(|wave| *wave = 2 * last - 1 - *wave);
    let error = cuda.run_in_waves(&plan, &given, &right).unwrap_err().to_string();
    assert!(error.contains("waits for element") && error.contains("never written"), "{error}");
}

/// Of the waves of a plan, those with given rows and with wanted values need a barrier.
#[test]
fn most_waves_have_unit_tiles_alone() {
    let subject = subject();
    let Some((program, _, cuda)) = loaded(&subject, &CudaOptions::new()) else { return };
    let plan = subject.plan(&program, &cuda, &[(NodeId::new(0).into(), Want::Elements)]);
    let mut commands = CommandList::default();
    let placed = cuda.loaded.placed();
    commands.write(&program, &placed.table, &plan, (1, &[])).unwrap();
    let tiles = (0..commands.waves()).filter(|&wave| commands.has_tiles_only(wave)).count();
    // A wave of given rows, one of copies, and two phases for each call of the others.
    assert_eq!((commands.waves(), tiles), (14, 12));
}
