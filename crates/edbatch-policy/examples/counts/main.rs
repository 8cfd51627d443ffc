//! Prints the batches and the time of every policy on real mini-batches, and the gain by learning.
//!
//!     EDBATCH_SHARED=… cargo run --release -p edbatch-policy --example counts [WORKLOAD [SIZE]]
//!     [--learn]
//!
//! Figures are means over random mini-batches of the test set. Learning uses the training set. The
//! workloads are `two-type` (trees with two inner kinds), `newswire` (lattices) and `summed`
//! (lattices whose sums are nodes, as in the paper).

mod learning;
mod real;

use std::time::Instant;

use edbatch_graph::{Dag, PlainDag, Schedule};
use edbatch_policy::{
    Agenda, Beam, Critical, Depth, Frontier, LookAhead, PairRule, Policy, Sufficient, TrainingSet,
    lower_bound, quotient, schedule_into,
};

const SIZES: [usize; 4] = [1, 8, 64, 256];

/// The number of mini-batches of a row.
fn mini_batches(size: usize) -> usize {
    (1280 / size).clamp(5, 100)
}

/// The number of mini-batches to learn on, including the third that is held out.
fn training_count(size: usize) -> usize {
    (1152 / size).clamp(6, 72)
}

fn main() {
    let shared = std::env::var_os("EDBATCH_SHARED").expect("EDBATCH_SHARED names the shared data");
    let (flags, words): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let asked = |index: usize, word: &str| words.get(index).is_none_or(|asked| asked == word);
    for workload in real::workloads(shared.as_ref()) {
        for size in SIZES {
            if !asked(0, workload.name) || !asked(1, &size.to_string()) {
                continue;
            }
            let test = real::mini_batches(&workload.test, size, mini_batches(size), 1);
            rows(workload.name, size, &test);
            if flags.iter().any(|flag| flag == "--learn") {
                let train = real::mini_batches(&workload.train, size, training_count(size), 2);
                let (train, held_out) = train.split_at(train.len() * 2 / 3);
                let set = TrainingSet::new(train, held_out).expect("two thirds are to learn on");
                learning::compare(&set, &test);
            }
        }
    }
}

/// The name of a policy, and its constructor.
type Named = (&'static str, fn() -> Box<dyn Policy>);

const POLICIES: [Named; 7] = [
    ("depth", || Box::new(Depth::new())),
    ("agenda", || Box::new(Agenda::new())),
    ("sufficient", || Box::new(Sufficient::new())),
    ("critical", || Box::new(Critical::new())),
    ("critical:pair", || Box::new(LookAhead::new(PairRule::pair()))),
    ("critical:soft", || Box::new(LookAhead::new(PairRule::soft()))),
    ("beam:32", || Box::new(Beam::new(32))),
];

/// Prints the properties of the mini-batches, and a line for each policy.
fn rows(name: &str, size: usize, dags: &[PlainDag]) {
    let mean = |of: &dyn Fn(&PlainDag) -> usize| {
        dags.iter().map(of).sum::<usize>() as f64 / dags.len() as f64
    };
    println!(
        "{name}, {} mini-batches of {size}: {:.0} nodes, {:.0} in the quotient; bound {:.1}",
        dags.len(),
        mean(&Dag::nodes),
        mean(&|dag| quotient(&Frontier::new(dag)).nodes()),
        mean(&|dag| lower_bound(dag))
    );
    for (name, policy) in POLICIES {
        println!("    {name:24} {}", counted(dags, &mut *policy()));
    }
}

/// Formats the mean number of batches, the same divided by the bound, and the time compared with
/// `critical`. Times are minima of several runs. Runs of both policies alternate, so that other
/// load on the machine affects both.
pub(crate) fn counted(dags: &[PlainDag], policy: &mut dyn Policy) -> String {
    let (mut frontier, mut schedule) = (Frontier::default(), Schedule::new());
    let mut critical = Critical::new();
    let mut timed = |dag: &PlainDag, policy: &mut dyn Policy| {
        let started = Instant::now();
        schedule_into(dag, policy, &mut frontier, &mut schedule);
        let time = started.elapsed().as_nanos();
        schedule.check(dag).expect("a legal schedule");
        (time, schedule.len())
    };
    let (mut batches, mut bound, mut nodes) = (0, 0, 0);
    let (mut time, mut of_critical) = (0, 0);
    for dag in dags {
        let runs = [(); 5].map(|()| (timed(dag, policy), timed(dag, &mut critical).0));
        batches += runs[0].0.1;
        time += runs.iter().map(|((time, _), _)| time).min().unwrap_or(&0);
        of_critical += runs.iter().map(|(_, time)| time).min().unwrap_or(&0);
        bound += lower_bound(dag);
        nodes += dag.nodes();
    }
    format!(
        "{:7.2} batches, {:.3} of the bound, {:7.1} ns a node, {:6.2} x critical's",
        batches as f64 / dags.len() as f64,
        batches as f64 / bound as f64,
        time as f64 / nodes as f64,
        time as f64 / of_critical as f64
    )
}
