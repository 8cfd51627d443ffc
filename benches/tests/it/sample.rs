//! Records of every part with made-up figures.

use edbatch_benches::measure::families::FAMILIES;
use edbatch_benches::measure::systems::System;
use edbatch_benches::record::machine::Machine;
use edbatch_benches::record::soak::{Memory, Soak, SoakSample, Trend};
use edbatch_benches::record::{
    Breakdown, Case, Cell, CellLatency, Copies, Counts, Figures, Growth, Latency, Learn, Peer,
    PqTrees, Record, Rule, Throughput,
};

/// Returns as many records as a default run makes.
pub(crate) fn records() -> Vec<Record> {
    let mut figures = Vec::new();
    for (index, (model, _)) in FAMILIES.iter().enumerate() {
        for hidden in [128, 256] {
            figures.extend(of_size(model, &format!("generated/set{index}"), hidden));
        }
        figures.extend(of_model(model, &format!("generated/set{index}")));
    }
    figures.extend(["GRUCell", "TreeLSTM-Internal"].map(|cell| Figures::Cells(copies(cell))));
    figures.extend((3..7).map(|zeros| Figures::PqTree(tree(10usize.pow(zeros)))));
    figures.push(Figures::Soak(soak()));
    let machine = Machine {
        processor: "a processor whose name has the length of a real processor's name...".into(),
        cores: 2,
        isa: "avx512".into(),
        device: "cpu".into(),
        rustc: "rustc 1.89.0 (29483883e 2025-08-04)".into(),
        commit: "0123456789+".into(),
        date: "2026-01-31T12:00:00Z".into(),
    };
    let record = |figures| Record { figures, step: "sample".into(), machine: machine.clone() };
    figures.into_iter().map(record).collect()
}

fn of_size(model: &str, input: &str, hidden: usize) -> Vec<Figures> {
    let mut figures = Vec::new();
    let (model, input, backend) = (model.into(), input.into(), "cpu".into());
    let of_64 = Case { model, input, hidden, batch: 64, threads: 1, backend };
    let of_batch = |batch| Case { batch, ..of_64.clone() };
    for (rank, system) in (1u32..).zip(System::METHODS) {
        let speed = 1e5 * f64::from(rank * rank) / hidden as f64;
        let throughput = Throughput {
            system: system.name(),
            case: of_batch(64),
            instances_per_second: speed,
            spread: 0.05,
            mini_batches: 20,
            latency_ns: Latency { p50: 6.4e10 / speed, p99: 9e10 / speed },
            flops_per_instance: 1e4 * (hidden * hidden) as f64,
            peak_gflops: 250.0,
            fraction_of_peak: 0.02 * f64::from(rank * rank),
            execute_share: 0.9,
            peak_bytes: 12_000_000,
            live_bytes: 10_000_000,
            ..Throughput::default()
        };
        if hidden == 128 {
            for batch in [1, 8] {
                let case = of_batch(batch);
                figures.push(Figures::Latency(Throughput { case, ..throughput.clone() }));
            }
        }
        figures.push(Figures::Throughput(throughput));
        figures.push(Figures::Breakdown(Breakdown {
            system: system.name(),
            case: of_batch(64),
            construct: 0.02,
            schedule: 0.03,
            plan: 0.05,
            execute: 0.88,
            product: 0.6,
            elementwise: 0.2,
            microseconds_per_instance: 1e6 / speed,
            ..Breakdown::default()
        }));
    }
    let peers = [("pytorch-levels", "2.9.0", 1_000.0), ("dynet-autobatch", "2.1", 800.0)];
    figures.extend(peers.map(|(system, version, speed)| {
        Figures::Peer(Peer {
            system: system.into(),
            version: version.into(),
            case: of_batch(256),
            instances_per_second: speed,
            prepared_instances_per_second: 0.5 * speed,
            edbatch_instances_per_second: 4_000.0,
            edbatch_batch: 128,
            ..Peer::default()
        })
    }));
    figures
}

fn of_model(model: &str, input: &str) -> Vec<Figures> {
    let mut figures = Vec::new();
    for (rank, policy) in (0u32..).zip(["critical", "fsm-sort", "agenda", "depth"]) {
        for batch in [8, 64] {
            figures.push(Figures::Counts(Counts {
                model: model.into(),
                input: input.into(),
                batch: Some(batch),
                policy: policy.into(),
                batches: 22.0 + 8.0 * f64::from(rank),
                bound: 22.0,
                nodes: 5_000.0,
                mini_batches: 5,
            }));
        }
        for nodes in [1_000, 100_000, 1_000_000] {
            let policy = if policy == "fsm-sort" { "engine" } else { policy };
            let whole = (policy == "engine").then_some(12.0);
            figures.push(Figures::Growth(Growth {
                model: model.into(),
                input: input.into(),
                policy: policy.into(),
                nodes,
                batches: 400,
                schedule_ns_per_node: 5.0 + f64::from(rank),
                construct_ns_per_node: whole,
                plan_ns_per_node: whole,
                repetitions: 3,
            }));
        }
    }
    for (rank, encoding) in (1u32..).zip(["base", "sort", "pairs"]) {
        figures.push(Figures::Learn(Learn {
            model: model.into(),
            input: input.into(),
            batch: 64,
            encoding: encoding.into(),
            episodes: 50,
            seconds: 0.004 * f64::from(rank),
            states: 7,
            before: 110,
            after: 100 + rank as usize,
            bound: 98,
        }));
    }
    figures
}

fn copies(cell: &str) -> Cell {
    let rule = |declared, planned| {
        let copies = |memory_kernels| Copies { memory_kernels, bytes: 1024 };
        Rule { declared: copies(declared), planned: copies(planned) }
    };
    Cell {
        cell: cell.into(),
        hidden: 64,
        calls: 8,
        batches: 5,
        paper_rule: rule(6, 2),
        own_rule: rule(6, 0),
        microseconds: CellLatency { declared: 31.0, planned: 24.0 },
        compile_microseconds: 12.0,
    }
}

fn tree(leaves: usize) -> PqTrees {
    PqTrees {
        family: "fix64".into(),
        leaves,
        sets: leaves / 64,
        accepted: leaves / 64,
        elements: leaves,
        ns_per_element: 21.0,
        ns_per_element_low: 20.0,
        ns_per_element_high: 23.0,
        repetitions: 5,
        bytes: 24 * leaves,
    }
}

fn soak() -> Soak {
    let sample = |minute: u32| SoakSample {
        seconds: 60.0 * f64::from(minute),
        mini_batches: 40_000 * u64::from(minute),
        resident_bytes: Some(312_000_000),
        held_bytes: 101_000_000,
        reference_seconds: 0.2,
    };
    Soak {
        seed: 1,
        models: FAMILIES.iter().map(|(model, _)| (*model).into()).collect(),
        engines: 24,
        threads: 2,
        seconds: 3600.0,
        mini_batches: 2_400_000,
        memory: Memory::Flat(Trend {
            before: 312_000_000.0,
            after: 312_100_000.0,
            bytes_per_mini_batch: 0.06,
        }),
        moved: None,
        samples: (1..=60).map(sample).collect(),
    }
}
