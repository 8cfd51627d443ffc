//! The figures of the README: time and memory of reductions on families of instances.
//!
//! ```text
//! cargo run --release -p pqtree --example figures [-- --quick]
//! ```
//!
//! Each instance runs 101 times, or fewer within five seconds, but at least three times. The
//! figures are the minimum and the median. `--quick` leaves out the trees of a million leaves.

#[path = "../dev/families.rs"]
mod families;
#[path = "../dev/instances.rs"]
mod instances;

use instances::{Instance, LARGE, Plan, SMALL};
use pqtree::PqTree;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let large: &[Plan] = if quick { &[] } else { &LARGE };
    println!(
        "| family | leaves | sets | accepted | ns per element, min | median | bytes per leaf |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for &(name, leaves, make) in SMALL.iter().chain(large) {
        println!("{}", row(&make(name, leaves)));
    }
}

fn row(instance: &Instance) -> String {
    let start = instance.start();
    let begun = Instant::now();
    let (mut times, mut bytes, mut accepted) = (Vec::new(), 0, 0);
    while times.len() < 101 && (times.len() < 3 || begun.elapsed().as_secs() < 5) {
        let (nanoseconds, tree, count) = measure(instance, start.clone());
        times.push(nanoseconds / instance.elements() as f64);
        (bytes, accepted) = (tree.bytes(), count);
    }
    times.sort_by(f64::total_cmp);
    format!(
        "| {} | {} | {} | {accepted} | {:.1} | {:.1} | {:.1} |",
        instance.name,
        instance.leaves,
        instance.sets.len(),
        times[0],
        times[times.len() / 2],
        bytes as f64 / instance.leaves as f64
    )
}

fn measure(instance: &Instance, start: Option<PqTree>) -> (f64, PqTree, usize) {
    let begun = Instant::now();
    let (tree, accepted) = black_box(instance.run(black_box(start)));
    (begun.elapsed().as_nanos() as f64, tree, accepted)
}
