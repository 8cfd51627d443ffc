//! Random networks and graphs, drawn from bytes. They are compiled, planned, checked, and run in
//! every way that works on this machine. Policies, styles and plans must not change any bit.

use std::convert::Infallible;
use std::sync::Arc;

use edbatch::cuda::{check_phases, check_waves, phases, waves};
use edbatch_graph::{Graph, Kind, Network, Value};
use edbatch_layout::{
    CellPart, CellStyle, Lifetimes, MiniBatch, Plan, Planner, Program, Want, check_cell,
    check_folding,
};
use edbatch_policy::schedule;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, Count, Cpu, Given, Parameters, Part, Precision, ReferenceTensor, ThreadPool,
    initial_rows, initial_values, interpret,
};
use edbatch_testing::networks::{random_graph, random_network};
use edbatch_testing::{every_value, planned, policies};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt, SeedableRng, TryRng};

/// The limit on values to compare. Rounding errors of larger values are unbounded, for example in
/// `a − b`.
const MAX_VALUE: f32 = 16.0;

/// Draws a network, a graph, a policy and a style, and runs the graph in every way.
pub(crate) fn run(bytes: &[u8]) {
    let mut rng = Drawn { bytes: bytes.iter(), rest: Xoshiro256PlusPlus::seed_from_u64(0) };
    let levels = Level::available();
    let level = levels[rng.random_range(0..levels.len())];
    let threads = rng.random_range(1..=2);
    let mut policies = policies();
    let (_, policy) = &mut policies[rng.random_range(0..5)];
    let drawn = STYLES[rng.random_range(0..STYLES.len())];
    let (network, initial) = random_network(&mut rng);
    let network = Arc::new(network);
    let parameters = Parameters::random(&network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let graph = random_graph(&network, initial, &mut rng);
    let expected =
        interpret(&graph, &parameters, &initial_values(&network, &parameters), Precision::F32);
    let schedule = schedule(&graph, policy);
    schedule.check(&graph).expect("the schedule is legal");
    let wanted = every_value(&graph);
    let mut first: Option<Vec<Vec<u32>>> = None;
    for (style, folded) in [(CellStyle::Declaration, 0), drawn] {
        let program = compiled(&network, style, folded);
        let mini_batch =
            MiniBatch { program: &program, graph: &graph, schedule: &schedule, wanted: &wanted };
        let subject = Subject { program: &program, parameters: &parameters, mini_batch };
        let cpu = Cpu::new(program.clone(), &parameters, level, Precision::F32)
            .expect("the network is small");
        let all = subject.run_in_every_plan(cpu.with_pool(ThreadPool::new(threads)));
        assert_eq!(first.get_or_insert_with(|| all.clone()), &all, "{style:?} changed a result");
    }
    compare(&expected, &first.expect("there is at least one style"), &graph);
}

/// The styles to compare with the declaration, each with its limit on folded tables in bytes.
const STYLES: [(CellStyle, u64); 5] = [
    (CellStyle::Hoisted, 0),
    (CellStyle::Hoisted, u64::MAX),
    (CellStyle::Planned, 0),
    (CellStyle::Paper, 0),
    (CellStyle::Batched, 0),
];

/// Compiles a network, and checks that every cell computes its declaration.
fn compiled(network: &Arc<Network>, style: CellStyle, folded: u64) -> Arc<Program> {
    let program =
        Program::new(network.clone(), style).expect("the cells are small").fold_tables(folded);
    check_folding(&program.folding_plan(), &program).expect("the folded tables are complete");
    for (kind, cell) in program.cells().iter().enumerate() {
        check_cell(&program, Kind::new(kind), cell).expect("the cell computes its declaration");
        for part in [CellPart::Whole, CellPart::Prologue, CellPart::Body] {
            let Some(cell) = program.part(Kind::new(kind), part) else { continue };
            check_phases(cell, &phases(network, cell)).expect("phases");
        }
    }
    Arc::new(program)
}

/// A graph to run, with its program and parameters.
struct Subject<'a> {
    program: &'a Arc<Program>,
    parameters: &'a Parameters,
    mini_batch: MiniBatch<'a>,
}

impl Subject<'_> {
    /// Returns the bits of all nodes, and checks that they are the same in every plan.
    fn run_in_every_plan(&self, mut cpu: Cpu) -> Vec<Vec<u32>> {
        let wanted = self.mini_batch.wanted;
        let mut planner = Planner::default();
        let plan = planned(&mut planner, &self.mini_batch);
        let all = self.read(&mut cpu, &plan, wanted);
        // With a single wanted value, the other values may share rows of the arena.
        let last = &wanted[wanted.len() - 1..];
        let mini_batch = MiniBatch { wanted: last, ..self.mini_batch };
        let reusing = planned(&mut planner, &mini_batch);
        assert!(reusing.arena <= plan.arena);
        assert_eq!(self.read(&mut cpu, &reusing, last)[..], all[all.len() - 1..]);
        assert_eq!(self.read(&mut cpu, &self.plan_in_waves(), wanted), all);
        let mut count = Count::new(self.program.clone());
        let initial = initial_rows(self.program.network(), self.parameters);
        let given = self.given(&initial);
        count.run(&[Part { slot: 0, plan: &plan, given }]).expect("counting cannot fail");
        assert_eq!(count.counts().batches, self.mini_batch.schedule.len() as u64);
        all
    }

    fn plan_in_waves(&self) -> Plan {
        let mini_batch = &self.mini_batch;
        let plan = planned(&mut Planner::new(Lifetimes::Distinct), mini_batch);
        let waves = waves(mini_batch.program, &plan);
        check_waves(&plan, &waves, mini_batch).expect("the waves are legal");
        plan
    }

    fn given<'a>(&self, initial: &'a edbatch_runtime::Rows) -> Given<'a> {
        Given { initial, places: &[], host: &[] }
    }

    /// Runs a plan, and returns the bits of the wanted values.
    fn read(
        &self,
        backend: &mut dyn Backend,
        plan: &Plan,
        wanted: &[(Value, Want)],
    ) -> Vec<Vec<u32>> {
        let initial = initial_rows(self.program.network(), self.parameters);
        let given = self.given(&initial);
        backend.run(&[Part { slot: 0, plan, given }]).expect("the network is small");
        let outputs = backend.outputs(0, plan);
        let bits = |value: usize| outputs.fields(value).flatten().map(|&x| bits(x)).collect();
        (0..wanted.len()).map(bits).collect()
    }
}

/// Returns the bits of a float. All NaNs count as equal.
fn bits(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

/// Compares with the reference up to rounding, if all values are small.
fn compare(expected: &[Vec<ReferenceTensor>], got: &[Vec<u32>], graph: &Graph) {
    let small = |x: &f32| x.abs() <= MAX_VALUE;
    if !expected.iter().flatten().flatten().all(small) {
        return;
    }
    for (node, (expected, got)) in expected.iter().zip(got).enumerate() {
        assert_eq!(expected.iter().map(ReferenceTensor::len).sum::<usize>(), got.len());
        for (e, &g) in expected.iter().flatten().zip(got) {
            let g = f32::from_bits(g);
            assert!((e - g).abs() <= 1e-2, "n{node}: expected {e}, got {g}\n{graph}");
        }
    }
}

/// A random generator that takes one byte for each choice, and pseudo-random numbers after the
/// last.
struct Drawn<'a> {
    bytes: std::slice::Iter<'a, u8>,
    rest: Xoshiro256PlusPlus,
}

impl TryRng for Drawn<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.try_next_u64()? >> 32) as u32)
    }

    /// Puts the next byte in the highest bits, which determine the choice.
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let random = self.rest.next_u64();
        Ok(self.bytes.next().map_or(random, |&byte| u64::from(byte) << 56 | random >> 8))
    }

    fn try_fill_bytes(&mut self, to: &mut [u8]) -> Result<(), Infallible> {
        for chunk in to.chunks_mut(8) {
            let random = self.try_next_u64()?.to_be_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
        Ok(())
    }
}
