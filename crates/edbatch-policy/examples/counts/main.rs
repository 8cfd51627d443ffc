//! Batches of every policy on real mini-batches, and what learning gains.
//!
//!     EDBATCH_SHARED=… cargo run --release -p edbatch-policy --example counts [WORKLOAD [SIZE]] [--learn]
//!
//! Means over mini-batches drawn at random from the test set. Learning is on the training set.

mod learning;
mod real;

use edbatch_graph::{Dag, PlainDag};
use edbatch_policy::{
    Agenda, Beam, Critical, Depth, Frontier, Policy, Portfolio, Preference, Sufficient,
    TrainingSet, lower_bound, pair_bound, quotient, schedule,
};

const SIZES: [usize; 4] = [1, 8, 64, 256];

/// How many mini-batches a row is the mean of.
fn mini_batches(size: usize) -> usize {
    (1280 / size).clamp(5, 100)
}

/// How many mini-batches to learn on, a third of them held out.
fn training_count(size: usize) -> usize {
    (1152 / size).clamp(6, 72)
}

fn main() {
    let shared = std::env::var_os("EDBATCH_SHARED").expect("EDBATCH_SHARED names the shared data");
    let (flags, words): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let asked = |index: usize, word: &str| words.get(index).is_none_or(|asked| asked == word);
    println!(
        "workload size nodes classes | bound pair | depth agenda sufficient ratio critical quick \
         thorough beam:32 beam:1024"
    );
    for workload in real::workloads(shared.as_ref()) {
        for size in SIZES {
            if !asked(0, workload.name) || !asked(1, &size.to_string()) {
                continue;
            }
            let test = real::mini_batches(&workload.test, size, mini_batches(size), 1);
            row(workload.name, size, &test);
            if flags.iter().any(|flag| flag == "--learn") {
                let train = real::mini_batches(&workload.train, size, training_count(size), 2);
                let (train, held_out) = train.split_at(train.len() * 2 / 3);
                let set = TrainingSet::new(train, held_out).expect("two thirds are to learn on");
                learning::compare(&set, &test);
            }
        }
    }
}

fn row(name: &str, size: usize, dags: &[PlainDag]) {
    let mean = |of: &dyn Fn(&PlainDag) -> usize| {
        dags.iter().map(of).sum::<usize>() as f64 / dags.len() as f64
    };
    print!(
        "{name:8} {size:4} {:7.0} {:7.0} |",
        mean(&Dag::nodes),
        mean(&|dag| { quotient(&Frontier::new(dag)).nodes() })
    );
    print!(" {:6.1} {:6.1} |", mean(&|dag| lower_bound(dag)), mean(&|dag| pair_bound(dag)));
    let policies: [&dyn Fn() -> Box<dyn Policy>; 9] = [
        &|| Box::new(Depth::new()),
        &|| Box::new(Agenda::new()),
        &|| Box::new(Sufficient::new()),
        &|| Box::new(Critical::preferring(Preference::Ratio)),
        &|| Box::new(Critical::new()),
        &|| Box::new(Portfolio::quick()),
        &|| Box::new(Portfolio::thorough()),
        &|| Box::new(Beam::new(32)),
        &|| Box::new(Beam::new(1024)),
    ];
    for policy in policies {
        print!(" {:6.1}", mean(&|dag| schedule(dag, &mut *policy()).len()));
    }
    println!();
}
