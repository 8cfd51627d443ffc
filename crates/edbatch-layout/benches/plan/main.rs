//! Measures planning time for mini-batches of 1, 8 and 64 instances, in nanoseconds per node and
//! per batch.
//!
//!     cargo bench -p edbatch-layout --bench plan
//!
//! The planner's memory is warm. Prints the minimum and the median of many runs.

use std::hint::black_box;
use std::time::Instant;

use edbatch_graph::Dag;
use edbatch_layout::{MiniBatch, Plan, Planner};

mod graphs;

fn main() {
    println!(
        "{:10} {:>9} {:>12} {:>12}   (median)",
        "graphs", "instances", "ns a node", "ns a batch"
    );
    for instances in [1, 8, 64] {
        for workload in graphs::workloads(instances) {
            let nodes: usize = workload.graphs.iter().map(|(graph, ..)| graph.nodes()).sum();
            let batches: usize =
                workload.graphs.iter().map(|(_, schedule, _)| schedule.len()).sum();
            let (mut planner, mut plan) = (Planner::default(), Plan::default());
            let mut times: Vec<f64> = (0..300)
                .map(|_| {
                    let started = Instant::now();
                    for (graph, schedule, wanted) in &workload.graphs {
                        let program = &workload.program;
                        let mini_batch = MiniBatch { program, graph, schedule, wanted };
                        planner.plan(&mini_batch, &mut plan).expect("small graphs");
                        black_box(&plan);
                    }
                    started.elapsed().as_nanos() as f64
                })
                .collect();
            times.sort_unstable_by(f64::total_cmp);
            let (best, median) = (times[0], times[times.len() / 2]);
            println!(
                "{:10} {instances:9} {:12.1} {:12.1}   ({:.1}, {:.1})",
                workload.name,
                best / nodes as f64,
                best / batches as f64,
                median / nodes as f64,
                median / batches as f64
            );
        }
    }
}
