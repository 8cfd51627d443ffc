//! Graphs of some 200,000 nodes in one input: `cargo bench -p edbatch --bench large_graphs`.
//!
//! A node of 64 elements sums two predecessors, multiplies by a matrix and takes tanh. One of them
//! is in the level before; so is the other in a *near* graph, while half of the other ones of a
//! *far* graph are anywhere before. With the path of a binary AIGER file in `EDBATCH_AIG`, its
//! inputs and ANDs are one more graph.
//!
//! The first table has nanoseconds for a node, on one thread: of an engine's run, of a run that
//! emits all nodes into new memory, and of the parts of a trainer's step. *Ratio* is forward, back
//! and sums divided by the run that emits all. The second table divides the times of one thread by
//! the times of two. All figures are medians of laps; one thread and two take turns.

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use edbatch::models::{CallList, CallLists};
use edbatch::runtime::{Parameters, Rows};
use edbatch::{Engine, EngineOptions, Trainer, TrainerOptions};
use edbatch_graph::{Kind, Network, Shape, Value};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const LEAF: Kind = Kind(0);
const NODE: Kind = Kind(1);
const WIDTH: usize = 64;
const LAPS: usize = 9;

/// Two lists with the same calls: the first emits the ends of the graph, the other all nodes.
type Lists = [[CallList; 1]; 2];

/// Graphs of this number of levels and of nodes a level, one after another in a list.
fn graphs(network: &Arc<Network>, graphs: usize, levels: usize, width: usize, far: bool) -> Lists {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut list = CallList::new(network.clone());
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..graphs {
        let mut made = Vec::new();
        for level in 0..levels {
            for column in 0..width {
                let before = made.len() - column;
                let value = if level == 0 {
                    list.call(LEAF, &[rng.random_range(0..100)], &[])
                } else {
                    let last = before - width;
                    let start = if far && rng.random_bool(0.5) { 0 } else { last };
                    let other = rng.random_range(start..before);
                    list.call(NODE, &[], &[made[last + column], made[other]])
                };
                made.push(value.expect("a valid call"));
            }
        }
        ends.extend_from_slice(&made[made.len() - width..]);
        all.append(&mut made);
    }
    [ends, all].map(|values| emitting(&list, &values))
}

/// The inputs and the ANDs of a binary AIGER file without latches. Inverters are left out.
fn circuit(network: &Arc<Network>, path: &str) -> Lists {
    let file = fs::read(path).expect("a file");
    let mut bytes = file.iter();
    let mut line = || -> String {
        bytes.by_ref().map(|&byte| char::from(byte)).take_while(|&c| c != '\n').collect()
    };
    let header: Vec<String> = line().split(' ').map(String::from).collect();
    let [inputs, latches, outputs, ands] =
        [2, 3, 4, 5].map(|field| header[field].parse().expect("a number"));
    assert_eq!((header[0].as_str(), latches), ("aig", 0), "a binary file without latches");
    let literals: Vec<usize> =
        (0..outputs).map(|_| line().parse().expect("the literal of an output")).collect();
    let mut delta = || -> usize {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = usize::from(*bytes.next().expect("a number"));
            number |= (byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        number
    };
    let mut list = CallList::new(network.clone());
    // Variable 0 is the constant.
    let leaf = |list: &mut CallList, input: usize| list.call(LEAF, &[input as u32 % 100], &[]);
    let mut made: Vec<Value> =
        (0..=inputs).map(|input| leaf(&mut list, input).expect("a valid call")).collect();
    for _ in 0..ands {
        let first = 2 * made.len() - delta();
        let second = first - delta();
        let call = list.call(NODE, &[], &[first, second].map(|literal| made[literal / 2]));
        made.push(call.expect("a valid call"));
    }
    let ends: Vec<Value> = literals.iter().map(|literal| made[literal / 2]).collect();
    [ends, made].map(|values| emitting(&list, &values))
}

fn emitting(list: &CallList, values: &[Value]) -> [CallList; 1] {
    let mut list = list.clone();
    values.iter().for_each(|&value| list.emit(value).expect("a value of the list"));
    [list]
}

fn network() -> Arc<Network> {
    let mut network = Network::new();
    let shape = Shape::Vector(WIDTH as u32);
    let state = network.record("state", [("h", shape)]).expect("a record");
    let leaf = network.cell("leaf", state, |c| vec![c.lookup("token", "embed", &[100, WIDTH])]);
    let node = network.cell("node", state, |cell| {
        let [sum] = cell.many("predecessors", state).sum();
        vec![cell.parameter("w", &[WIDTH, WIDTH]).matmul(sum).tanh()]
    });
    assert_eq!((leaf, node), (Ok(LEAF), Ok(NODE)));
    Arc::new(network)
}

/// An engine and a trainer with a number of threads.
struct Subject(Engine<CallLists>, Trainer<CallLists>);

impl Subject {
    fn new(network: &Arc<Network>, threads: usize) -> Self {
        let parameters = Parameters::random(network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        let model = CallLists::new(network.clone());
        let options = EngineOptions::new().threads(threads);
        let engine = Engine::with_options(model.clone(), parameters.clone(), options);
        let options = TrainerOptions::new().threads(threads);
        let trainer = Trainer::with_options(model, parameters, options);
        Self(engine.expect("a model"), trainer.expect("a model"))
    }

    /// Returns the seconds of a run, of a run that emits all, and of the parts of two steps: with
    /// a loss of the ends, and of all nodes.
    fn lap(&mut self, [ends, all]: &Lists) -> [f64; 10] {
        let Self(engine, _) = self;
        let [run, run_all] = [ends, all].map(|lists| {
            let begun = Instant::now();
            let outputs = engine.run(lists).expect("enough memory");
            let time = begun.elapsed().as_secs_f64();
            drop(outputs);
            time
        });
        let ([a, b, c, d], [e, f, g, h]) = (self.step(ends), self.step(all));
        [run, run_all, a, b, c, d, e, f, g, h]
    }

    /// Returns the seconds of the parts of a step: decide, forward, back and sums. Copies of rows
    /// count as forward and back.
    fn step(&mut self, lists: &[CallList; 1]) -> [f64; 4] {
        let Self(_, trainer) = self;
        let before = trainer.times();
        let begun = Instant::now();
        let rows = trainer.forward(lists).expect("enough memory");
        let forward = begun.elapsed().as_secs_f64();
        let mut gradients = Rows::new();
        gradients.try_reserve(rows[0].len(), rows[0].elements().len()).expect("enough memory");
        rows[0].iter().for_each(|_| gradients.push(&[0.01; WIDTH]));
        let begun = Instant::now();
        trainer.backward(&[gradients]).expect("enough memory");
        trainer.squared_norm().expect("enough memory");
        let back = begun.elapsed().as_secs_f64();
        let after = trainer.times();
        let decide = (after.decide - before.decide).as_secs_f64();
        let sums = (after.sums - before.sums).as_secs_f64();
        trainer.clear_gradients();
        [decide, forward - decide, back - sums, sums]
    }
}

/// Returns the medians of all parts of laps for one thread and for two, in nanoseconds a node. The
/// first laps do not count.
fn measure(network: &Arc<Network>, lists: &Lists) -> [[f64; 10]; 2] {
    let mut subjects = [1, 2].map(|threads| Subject::new(network, threads));
    let laps: Vec<[[f64; 10]; 2]> =
        (0..=LAPS).map(|_| subjects.each_mut().map(|subject| subject.lap(lists))).skip(1).collect();
    let nodes = lists[1][0].emitted().len();
    [0, 1].map(|subject| {
        std::array::from_fn(|part| {
            let mut times: Vec<f64> = laps.iter().map(|lap| lap[subject][part]).collect();
            times.sort_by(f64::total_cmp);
            times[LAPS / 2] * 1e9 / nodes as f64
        })
    })
}

fn main() {
    let network = network();
    let mut subjects = Vec::new();
    for (count, levels, width) in [(1, 600, 8), (1, 2_400, 80), (1, 24_000, 8)] {
        for far in [false, true] {
            let name = format!("{levels} × {width}, {}", if far { "far" } else { "near" });
            subjects.push((name, graphs(&network, count, levels, width, far)));
        }
    }
    for (count, levels, width) in [(1, 200, 960), (16, 150, 80), (16, 1_500, 8)] {
        let times = if count > 1 { format!("{count} × ") } else { String::new() };
        let name = format!("{times}{levels} × {width}, near");
        subjects.push((name, graphs(&network, count, levels, width, false)));
    }
    if let Ok(path) = std::env::var("EDBATCH_AIG") {
        subjects.push((path.clone(), circuit(&network, &path)));
    }
    let only = std::env::args().nth(1).filter(|only| only != "--bench");
    subjects.retain(|(name, _)| only.as_ref().is_none_or(|only| name.contains(only)));
    println!("| levels × width | run | all | decide | forward | back | sums | ratio |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let mut ratios = Vec::new();
    for (name, lists) in subjects {
        let [one, two] = measure(&network, &lists);
        let [run, all, decide, forward, back, sums, ..] = one;
        let ratio = (forward + back + sums) / all;
        println!(
            "| {name} | {run:.0} | {all:.0} | {decide:.0} | {forward:.0} | {back:.0} | {sums:.0} | \
             {ratio:.1} |"
        );
        let step = |times: &[f64]| times.iter().sum::<f64>();
        let steps = [2..6, 6..10].map(|part| step(&one[part.clone()]) / step(&two[part]));
        ratios.push((name, [run / two[0], all / two[1], steps[0], steps[1]]));
    }
    println!("\n| levels × width | run | all | step | step, all |");
    println!("|---|---:|---:|---:|---:|");
    for (name, [run, all, step, step_all]) in ratios {
        println!("| {name} | {run:.2} | {all:.2} | {step:.2} | {step_all:.2} |");
    }
}
