//! Batches of every policy on real mini-batches.
//!
//!     cargo run --release -p edbatch-policy --example counts

mod learning;
mod real;

use edbatch_graph::Dag;
use edbatch_policy::*;

fn main() {
    let width: usize = std::env::args().nth(1).map_or(32, |w| w.parse().unwrap());
    let shared = std::env::var_os("EDBATCH_SHARED").expect("EDBATCH_SHARED names the shared data");
    for workload in real::workloads(shared.as_ref()) {
        for size in [1, 8, 64, 256] {
            if std::env::args().nth(3).is_some_and(|w| w != format!("{}-{size}", workload.name)) {
                continue;
            }
            let count = std::env::args().nth(2).map_or(5, |n| n.parse().unwrap());
            let batches =
                real::mini_batches(&workload.test, size, if size == 1 { 113 } else { count }, 1);
            let n = batches.len() as f64;
            let mean = |f: &mut dyn FnMut(&edbatch_graph::PlainDag) -> usize| {
                batches.iter().map(|b| f(b)).sum::<usize>() as f64 / n
            };
            println!(
                "{} {size} n={n} nodes {:.0} classes {:.0}: bound {:.1} ratio {:.1} critical {:.1} quick {:.1} sufficient {:.1} agenda {:.1} depth {:.1} beam32 {:.1} {:.0}ms",
                workload.name,
                mean(&mut |b| b.nodes()),
                mean(&mut |b| quotient(&Frontier::new(b)).nodes()),
                mean(&mut |b| lower_bound(b)),
                mean(&mut |b| schedule(b, &mut Critical::preferring(Preference::Ratio)).len()),
                mean(&mut |b| schedule(b, &mut Critical::new()).len()),
                mean(&mut |b| schedule(b, &mut Portfolio::quick()).len()),
                mean(&mut |b| schedule(b, &mut Sufficient::new()).len()),
                mean(&mut |b| schedule(b, &mut Agenda::new()).len()),
                mean(&mut |b| schedule(b, &mut Depth::new()).len()),
                mean(&mut |b| schedule(b, &mut Beam::new(width)).len()),
                mean(&mut |b| {
                    let t = std::time::Instant::now();
                    std::hint::black_box(schedule(b, &mut Beam::new(width)).len());
                    t.elapsed().as_millis() as usize
                })
            );
            if std::env::args().nth(3).is_some() {
                let train = real::mini_batches(&workload.train, size, 6, 2);
                learning::compare(&train[..4], &train[4..], &batches);
            }
        }
    }
}
