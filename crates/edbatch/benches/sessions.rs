//! The cost of a session, beside an engine that runs the same calls: `cargo bench -p edbatch
//! --bench sessions`.
//!
//! Clauses follow from two earlier ones, as in a prover, and have a score each. A session adds some
//! of them, runs, fetches the scores, and releases what is no longer read. The engine is given the
//! rows of earlier clauses and returns new rows, as without sessions. All figures are in
//! nanoseconds for a call, on one thread, and medians of interleaved laps.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use edbatch::layout::{CellStyle, Program};
use edbatch::models::{Build, BuildError, CallLists, Model};
use edbatch::runtime::{Count, Parameters};
use edbatch::{Engine, EngineOptions, Handle, Session, SessionOptions};
use edbatch_graph::{Kind, Network, Shape, Value};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const INFER: Kind = Kind(0);
const SCORE: Kind = Kind(1);
/// Clauses of a lap.
const CLAUSES: usize = 7_500;
/// Clauses that a session keeps.
const LIVE: usize = 1_000;
/// Clauses of a session that releases none.
const MANY: usize = 150_000;
const LAPS: usize = 9;

/// The rule of a clause, and its distance to two earlier ones.
type Clause = (u32, [usize; 2]);

fn network(width: usize) -> Arc<Network> {
    let mut network = Network::new();
    let clause = network.record("clause", [("h", Shape::Vector(width as u32))]).unwrap();
    let score = network.record("score", [("y", Shape::Vector(1))]).unwrap();
    network.initial(clause, &["axiom"]).unwrap();
    let infer = network.cell("infer", clause, |cell| {
        let x = cell.lookup("rule", "rules", &[40, width]);
        let parents = cell.many("parents", clause);
        let ([sum], [max]) = (parents.sum(), parents.max());
        let [w, u] = ["w", "u"].map(|name| cell.parameter(name, &[width, width]));
        vec![(x + w.matmul(sum) + u.matmul(max)).tanh()]
    });
    let scored = network.cell("score", score, |cell| {
        let [h] = cell.one("clause", clause);
        vec![cell.parameter("out", &[1, width]).matmul(h)]
    });
    assert_eq!((infer, scored), (Ok(INFER), Ok(SCORE)));
    Arc::new(network)
}

/// Clauses that follow from any of the `live` clauses before them.
fn clauses(count: usize, live: usize) -> Vec<Clause> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let clause = |_| {
        let mut parent = || rng.random_range(1..=live);
        let parents = [parent(), parent()];
        (rng.random_range(0..40), parents)
    };
    (0..count).map(clause).collect()
}

/// Wires a wave of clauses. Clauses before the wave are given: as many rows as a session keeps.
#[derive(Clone)]
struct Waves(Arc<Network>, Arc<[f32]>);

impl Model for Waves {
    type Input = Vec<Clause>;

    fn network(&self) -> &Arc<Network> {
        &self.0
    }

    async fn build(&self, build: &Build<'_>, clauses: &Vec<Clause>) -> Result<(), BuildError> {
        let record = self.0.cells()[INFER.index()].record();
        let width = self.1.len() / LIVE;
        let mut made: Vec<Value> = Vec::with_capacity(clauses.len());
        for (rule, parents) in clauses {
            let value = |distance: usize| match made.len().checked_sub(distance) {
                Some(index) => Ok(made[index]),
                None => build.give(record, &self.1[(distance - 1) * width..][..width]),
            };
            let parents = [value(parents[0])?, value(parents[1])?];
            let clause = build.call(INFER, &[*rule], &parents)?;
            build.emit(build.call(SCORE, &[], &[clause])?);
            build.emit(clause);
            made.push(clause);
        }
        Ok(())
    }
}

/// Carries out waves on a session that keeps `live` clauses. Returns nanoseconds for a call.
fn replay(session: &mut Session, clauses: &[Clause], wave: usize, live: usize) -> f64 {
    session.clear();
    let mut kept: VecDeque<Handle> = VecDeque::with_capacity(live + wave);
    let (mut scores, mut elements) = (Vec::with_capacity(wave), Vec::with_capacity(wave));
    let begun = Instant::now();
    for wave in clauses.chunks(wave) {
        for (rule, parents) in wave {
            let value = |distance: usize| match kept.len().checked_sub(distance) {
                Some(index) => kept[index],
                None => Handle::initial(0),
            };
            let parents = parents.map(value);
            let clause = session.call(INFER, &[*rule], &parents).expect("a valid call");
            kept.push_back(clause);
            scores.push(session.call(SCORE, &[], &[clause]).expect("a valid call"));
        }
        session.run().expect("enough memory");
        session.fetch(&scores, &mut elements).expect("the scores exist");
        session.release(&scores).expect("the scores exist");
        scores.clear();
        elements.clear();
        while kept.len() > live {
            session.release(&[kept.pop_front().expect("not empty")]).expect("it exists");
        }
    }
    begun.elapsed().as_secs_f64() * 1e9 / (2 * clauses.len()) as f64
}

/// Runs the same waves, each as an input of its own. Returns nanoseconds for a call.
fn plain(engine: &mut Engine<Waves>, waves: &[Vec<Clause>]) -> f64 {
    let mut rows = Vec::new();
    let begun = Instant::now();
    for wave in waves {
        engine.run_into(std::slice::from_ref(wave), &mut rows).expect("enough memory");
    }
    let calls: usize = waves.iter().map(|wave| 2 * wave.len()).sum();
    begun.elapsed().as_secs_f64() * 1e9 / calls as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Measures waves of this number of clauses. Prints a line.
fn measure(width: usize, clauses: &[Clause], wave: usize, live: usize) {
    let network = network(width);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let parameters = Parameters::random(&network, &mut rng);
    let rows = (0..LIVE * width).map(|_| rng.random_range(-0.5..0.5)).collect();
    let model = Waves(network.clone(), rows);
    let mut engine = Engine::new(model, parameters.clone()).expect("a model");
    let mut session = engine.session(SessionOptions::new()).expect("enough memory");
    // A backend that computes and copies nothing leaves the cost of adding and planning.
    let program = Program::new(network.clone(), CellStyle::default()).expect("a small network");
    let program = Arc::new(program);
    let (count, options) = (Box::new(Count::new(program.clone())), EngineOptions::new());
    let counting =
        Engine::with_backend(CallLists::new(network), &parameters, program, count, options);
    let counting = counting.expect("the same program");
    let mut planned = counting.session(SessionOptions::new()).expect("enough memory");
    let waves: Vec<Vec<Clause>> = match live {
        // One run of all, if nothing is released.
        usize::MAX => vec![clauses.to_vec()],
        _ => clauses.chunks(wave).map(<[Clause]>::to_vec).collect(),
    };
    let lap = |_| {
        let kept = replay(&mut session, clauses, wave, live.min(clauses.len()));
        let only_planned = replay(&mut planned, clauses, wave, live.min(clauses.len()));
        let plain = plain(&mut engine, &waves);
        [kept, only_planned, plain, kept / plain]
    };
    let laps: Vec<[f64; 4]> = (0..LAPS).map(lap).skip(1).collect();
    let [kept, only_planned, plain, ratio] =
        [0, 1, 2, 3].map(|column| median(laps.iter().map(|lap| lap[column]).collect()));
    let held = session.statistics().held_bytes as f64 / 1e6;
    println!(
        "| {width} | {} | {only_planned:.0} | {kept:.0} | {plain:.0} | {ratio:.2} | {held:.1} |",
        2 * wave
    );
}

fn main() {
    println!("| H | calls a run | without kernels | session | engine | ratio | MB held |");
    println!("|---|---|---|---|---|---|---|");
    let of_prover = clauses(CLAUSES, LIVE);
    for width in [64, 128] {
        for wave in [1, 4, 8, 32, 64, 1_024] {
            measure(width, &of_prover, wave, LIVE);
        }
    }
    println!("\nNothing released, parents among all; the engine runs all calls at once:\n");
    // Random parents among all clauses before.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let all: Vec<Clause> = (0..MANY)
        .map(|clause| {
            let mut parent = || rng.random_range(1..=clause.max(1));
            let parents = [parent(), parent()];
            (rng.random_range(0..40), parents)
        })
        .collect();
    println!("| H | calls a run | without kernels | session | engine | ratio | MB held |");
    println!("|---|---|---|---|---|---|---|");
    for wave in [64, 256] {
        measure(64, &all, wave, usize::MAX);
    }
}
