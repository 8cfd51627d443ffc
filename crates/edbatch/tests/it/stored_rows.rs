//! Rows that outlive a plan in the store of a backend's slot.

use std::sync::Arc;

use edbatch_graph::{Dag, Graph, NodeId, Schedule, Source, Value};
use edbatch_layout::{
    CellStyle, LINE, Lifetimes, MiniBatch, Plan, Planner, Program, Want, check, check_store,
};
use edbatch_policy::Scheduler;
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{
    Backend, Count, Cpu, Given, GivenPlace, Part, Precision, StoredRow, ThreadPool,
};
use edbatch_testing::networks::Random;
use edbatch_testing::{Subject, cases, planned};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

#[cfg(feature = "cuda")]
use crate::emulated;

/// The rows of a graph's nodes in the store.
type Stored = Vec<StoredRow>;

/// Chooses lines for rows of nodes: in a random order, with gaps.
fn lines(subject: &Subject, program: &Program, rng: &mut Random) -> (Stored, usize) {
    let graph = &subject.graph;
    let mut order: Vec<usize> = (0..graph.nodes()).collect();
    order.shuffle(rng);
    let (mut end, mut lines) = (0, vec![0; graph.nodes()]);
    for node in order {
        let record = graph.record_of(NodeId::new(node).into()).unwrap();
        end += rng.random_range(0..3);
        lines[node] = end as u32;
        end += program.record(record).stride as usize / LINE;
    }
    let row = |(node, line)| {
        let record = graph.record_of(NodeId::new(node).into()).unwrap();
        StoredRow { record, line }
    };
    (lines.into_iter().enumerate().map(row).collect(), end)
}

/// The calls `first..end` of a graph. Values of earlier calls are given, as are their places.
fn part_of(all: &Graph, stored: &Stored, first: usize, end: usize) -> (Graph, Vec<GivenPlace>) {
    let mut graph = Graph::new(all.network().clone());
    let (mut given, mut places) = (vec![None; first], Vec::new());
    for node in (first..end).map(NodeId::new) {
        let values = all.values(node).map(|value| match value.source() {
            Source::Given(_) => value,
            Source::Node(read) if read.index() >= first => NodeId::new(read.index() - first).into(),
            Source::Node(read) => *given[read.index()].get_or_insert_with(|| {
                places.push(GivenPlace::Stored(stored[read.index()].line));
                graph.give(stored[read.index()].record)
            }),
        });
        let values: Vec<Value> = values.collect();
        graph.call(all.kind(node), all.rows(node), &values).unwrap();
    }
    (graph, places)
}

/// Plans a part of a graph, whose values go to the store.
fn plan(
    program: &Program,
    graph: &Graph,
    rows: &[StoredRow],
    places: &[GivenPlace],
    lifetimes: Lifetimes,
) -> Plan {
    let mut schedule = Schedule::new();
    Scheduler::by_depth().schedule(graph, &mut schedule);
    let want = |(node, row): (usize, &StoredRow)| (NodeId::new(node).into(), Want::Store(row.line));
    let wanted: Vec<(Value, Want)> = rows.iter().enumerate().map(want).collect();
    let (schedule, wanted) = (&schedule, &*wanted);
    let mini_batch = MiniBatch { program, graph, schedule, wanted };
    let plan = planned(&mut Planner::new(lifetimes), &mini_batch);
    check_store(&plan, program, &read(graph, places)).unwrap();
    plan
}

/// The given values that are read from the store, with their lines.
fn read(graph: &Graph, places: &[GivenPlace]) -> Vec<(usize, u32)> {
    let first = graph.network().initial_values().len();
    let line = |(index, place): (usize, &GivenPlace)| match *place {
        GivenPlace::Host | GivenPlace::Borrowed(_) => None,
        GivenPlace::Stored(line) => Some((first + index, line)),
    };
    places.iter().enumerate().filter_map(line).collect()
}

/// Runs a graph in parts on one slot of a backend. Returns the bits of all values.
fn run_in_parts(
    subject: &Subject,
    program: &Program,
    backend: &mut dyn Backend,
    slot: usize,
    rng: &mut Random,
) -> Vec<u32> {
    let (stored, end) = lines(subject, program, rng);
    let mut first = 0;
    while first < subject.graph.nodes() {
        let last = rng.random_range(first + 1..=subject.graph.nodes());
        let (graph, places) = part_of(&subject.graph, &stored, first, last);
        let rows = &stored[first..last];
        let plan = plan(program, &graph, rows, &places, backend.lifetimes());
        // The store grows when a row needs it.
        let needed = rows
            .iter()
            .map(|row| row.line as usize + program.record(row.record).stride as usize / LINE);
        backend.reserve_store(slot, needed.max().unwrap()).unwrap();
        let given = Given { initial: &subject.initial, places: &places, host: &[] };
        backend.run(&[Part { slot, plan: &plan, given }]).unwrap();
        first = last;
    }
    backend.reserve_store(slot, end).unwrap();
    let mut elements = Vec::new();
    let (some, others) = stored.split_at(rng.random_range(0..=stored.len()));
    backend.read_stored(slot, some, &mut elements).unwrap();
    backend.read_stored(slot, others, &mut elements).unwrap();
    let bits = |x: &f32| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
    elements.iter().map(bits).collect()
}

#[test]
fn graphs_in_parts_have_the_bits_of_whole_graphs() {
    for seed in 0..u64::from(cases(40)) {
        let (subject, mut rng) = (Subject::random(seed), Random::seed_from_u64(seed));
        let program = Program::new(subject.network.clone(), CellStyle::default()).unwrap();
        let program = Arc::new(program);
        let parameters = &subject.parameters;
        let cpu = Cpu::new(program.clone(), parameters, Level::detect(), Precision::F32).unwrap();
        let mut fork = cpu.fork_with_pool(ThreadPool::new(2));
        let expected = subject.run(&program, &mut *fork).unwrap();
        assert_eq!(fork.bytes().store, 0);
        for slot in [0, 2] {
            let got = run_in_parts(&subject, &program, &mut *fork, slot, &mut rng);
            assert!(got == expected, "seed {seed}, slot {slot}");
        }
        assert!(fork.bytes().store > 0 && cpu.bytes().store == 0);
        let mut counted = Count::new(program.clone());
        let zeros = run_in_parts(&subject, &program, &mut counted, 0, &mut rng);
        assert_eq!(zeros, vec![0; expected.len()]);
    }
}

#[cfg(feature = "cuda")]
#[test]
fn graphs_in_parts_have_the_same_bits_on_a_device() {
    use edbatch::cuda::{CudaOptions, Driver, EmulatedDevice};

    for seed in 0..u64::from(cases(12)) {
        let (subject, mut rng) = (Subject::random(seed), Random::seed_from_u64(seed));
        let program = Program::new(subject.network.clone(), CellStyle::default()).unwrap();
        let program = Arc::new(program);
        let (parameters, options) = (&subject.parameters, CudaOptions::new().driver(Driver::Teams));
        let device = EmulatedDevice::new(seed as u32);
        let Some(mut backend) = emulated::with(&device, program.clone(), parameters, &options)
        else {
            return;
        };
        let expected = subject.run(&program, &mut *backend).unwrap();
        let got = run_in_parts(&subject, &program, &mut *backend, 1, &mut rng);
        assert!(got == expected, "seed {seed}");
        assert!(backend.bytes().store > 0);
    }
}

#[test]
fn plans_that_write_or_read_a_written_line_are_rejected() {
    let mut overlaps = 0;
    for seed in 0..u64::from(cases(40)) {
        let (subject, mut rng) = (Subject::random(seed), Random::seed_from_u64(seed));
        let program = &Program::new(subject.network.clone(), CellStyle::default()).unwrap();
        let (stored, _) = lines(&subject, program, &mut rng);
        let middle = subject.graph.nodes() / 2;
        let (graph, places) = part_of(&subject.graph, &stored, middle, subject.graph.nodes());
        let rows = &stored[middle..];
        let right = plan(program, &graph, rows, &places, Lifetimes::Reuse);
        let reads = read(&graph, &places);
        let lines = |row: &StoredRow| {
            let len = program.record(row.record).stride as usize / LINE;
            row.line as usize..row.line as usize + len
        };
        for (index, row) in rows.iter().enumerate() {
            // A row that ends in another, or begins in it.
            for (other, of_other) in rows.iter().enumerate().filter(|&(other, _)| other != index) {
                let (own, taken) = (lines(row), lines(of_other));
                for line in [(taken.start + 1).saturating_sub(own.len()), taken.end - 1] {
                    let mut plan = right.clone();
                    plan.wanted[index].1 = Want::Store(line as u32);
                    let error = check_store(&plan, program, &[]).unwrap_err();
                    assert!(error.what.contains("of the store overlap"), "{error}");
                    assert_eq!(error.step, plan.steps.len(), "{other}");
                    overlaps += 1;
                }
            }
            for place in 0..reads.len() {
                let mut reads = reads.clone();
                reads[place].1 = lines(row).end as u32 - 1;
                let error = check_store(&right, program, &reads).unwrap_err();
                assert!(error.what.contains("are written"), "{error}");
                overlaps += 1;
            }
            let Some(more) = (lines(row).len() as u32).checked_sub(2) else { continue };
            let mut plan = right.clone();
            plan.wanted[index].1 = Want::Store(u32::MAX - more);
            let error = check_store(&plan, program, &[]).unwrap_err();
            assert!(error.what.contains("ends after it"), "{error}");
        }
        let beyond = check_store(&right, program, &[(right.given.len(), 0)]).unwrap_err();
        assert!(beyond.what.contains("there is no given value"), "{beyond}");
    }
    assert!(overlaps > cases(2_000), "{overlaps} overlaps");
}

/// `check` itself rejects a line that is written twice.
#[test]
fn a_value_that_is_stored_twice_takes_two_rows() {
    let subject = Subject::random(3);
    let program = &Program::new(subject.network.clone(), CellStyle::default()).unwrap();
    let (graph, schedule) = (&subject.graph, &subject.schedule);
    let value = NodeId::new(0).into();
    let stored = |lines: [u32; 2]| {
        let wanted = &lines.map(|line| (value, Want::Store(line)));
        let mini_batch = MiniBatch { program, graph, schedule, wanted };
        let mut plan = Plan::default();
        Planner::default().plan(&mini_batch, &mut plan).unwrap();
        check(&plan, &mini_batch)
    };
    assert_eq!(stored([0, 50]), Ok(()));
    let error = stored([7, 7]).unwrap_err();
    assert!(error.what.contains("of the store overlap"), "{error}");
}
