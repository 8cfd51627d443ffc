//! The host's time of a mini-batch without its execution: from parsed inputs to a plan for the CPU,
//! and to a command list for a device, without and with folded tables.
//!
//!     cargo bench -p edbatch --features cuda --bench host_time -- [TREES [ROUNDS]]
//!
//! TREES is a file of binary trees, such as the test set of the Stanford Sentiment Treebank.
//! Without it, trees are generated. The contestants take turns of a whole set, 64 trees at a time.
//! Prints the medians over all mini-batches.

use std::array;
use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use edbatch::cuda::{CommandList, PhaseTable};
use edbatch::{Engine, EngineOptions, Rows, Statistics};
use edbatch_datasets::{Tree, generate, read_binary_trees};
use edbatch_layout::{CellStyle, Lifetimes, Plan, Program};
use edbatch_models::{Model, TreeLstm, TreeSizes};
use edbatch_runtime::{Backend, BackendError, Bytes, Outputs, Parameters, Part};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

const MINI_BATCH: usize = 64;

/// A backend that runs nothing. Its results are zeros.
struct Nothing {
    program: Arc<Program>,
    zeros: Vec<f32>,
    indices: Vec<u32>,
    /// For a device.
    commands: Option<(PhaseTable, CommandList)>,
    /// The time of writing command lists so far, in nanoseconds.
    writing: Arc<AtomicU64>,
}

impl Nothing {
    fn new(program: Arc<Program>, is_device: bool) -> Self {
        let commands = is_device.then(|| (PhaseTable::new(&program), CommandList::default()));
        let (zeros, indices) = (Vec::new(), Vec::new());
        Self { program, zeros, indices, commands, writing: Arc::default() }
    }
}

impl Backend for Nothing {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        for Part { plan, given, .. } in parts {
            self.zeros.resize(self.zeros.len().max(plan.arena), 0.0);
            self.indices.resize(self.indices.len().max(plan.wanted.len()), 0);
            let Some((table, commands)) = &mut self.commands else { continue };
            let rows = (given.initial.len(), given.stayed);
            let began = Instant::now();
            commands.write(&self.program, table, plan, rows)?;
            self.writing.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn outputs<'a>(&'a self, _: usize, plan: &'a Plan) -> Outputs<'a> {
        Outputs::new(&self.program, plan, &self.zeros, &self.indices)
    }

    fn bytes(&self) -> Bytes {
        Bytes::default()
    }

    fn fork(&self) -> Box<dyn Backend> {
        Box::new(Self::new(self.program.clone(), self.commands.is_some()))
    }

    fn lifetimes(&self) -> Lifetimes {
        if self.commands.is_some() { Lifetimes::Distinct } else { Lifetimes::Reuse }
    }
}

/// An engine, and its times per mini-batch in microseconds: construction, schedule, plan and
/// command list.
struct Contestant {
    name: &'static str,
    engine: Engine<TreeLstm>,
    writing: Arc<AtomicU64>,
    rows: Vec<Rows>,
    times: Vec<[f64; 4]>,
}

impl Contestant {
    fn new(
        name: &'static str,
        model: &TreeLstm,
        (is_device, folded_bytes): (bool, u64),
    ) -> Result<Self, Box<dyn Error>> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let parameters = Parameters::random(model.network(), &mut rng);
        let program = Program::new(model.network().clone(), CellStyle::default())?;
        let program = Arc::new(program.fold_tables(folded_bytes));
        let backend = Nothing::new(program.clone(), is_device);
        let (writing, backend) = (backend.writing.clone(), Box::new(backend));
        let options = EngineOptions::new();
        let engine = Engine::with_backend(model.clone(), &parameters, program, backend, options)?;
        Ok(Self { name, engine, writing, rows: Vec::new(), times: Vec::new() })
    }

    /// Runs the whole set once.
    fn turn(&mut self, trees: &[Tree<u32>]) -> Result<(), Box<dyn Error>> {
        for mini_batch in trees.chunks(MINI_BATCH) {
            let before = self.clock();
            self.engine.run_into(mini_batch, &mut self.rows)?;
            let after = self.clock();
            self.times.push(array::from_fn(|part| after[part] - before[part]));
        }
        Ok(())
    }

    /// Returns the time of each stage so far, in microseconds.
    fn clock(&self) -> [f64; 4] {
        let Statistics { construct, schedule, plan, .. } = self.engine.statistics();
        let [construct, schedule, plan] =
            [construct, schedule, plan].map(|time| time.as_secs_f64() * 1e6);
        [construct, schedule, plan, self.writing.load(Ordering::Relaxed) as f64 / 1e3]
    }

    fn median(&self, part: impl Fn(&[f64; 4]) -> f64) -> f64 {
        let mut times: Vec<f64> = self.times.iter().map(part).collect();
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds the option `--bench`.
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    let trees = match arguments.next() {
        Some(path) => read_binary_trees(Path::new(&path))?,
        None => generate::binary_trees(&mut Xoshiro256PlusPlus::seed_from_u64(1), 2_000),
    };
    let rounds: usize = arguments.next().map_or(Ok(51), |rounds| rounds.parse())?;
    let (trees, vocabulary) = numbered(&trees);
    let sizes = TreeSizes { vocabulary, embed: 16, hidden: 16, classes: 5 };
    let model = TreeLstm::new(sizes)?;
    let mut contestants = [
        Contestant::new("CPU", &model, (false, 0))?,
        Contestant::new("device", &model, (true, 0))?,
        Contestant::new("folded", &model, (true, u64::MAX))?,
    ];
    for _ in 0..rounds {
        for contestant in &mut contestants {
            contestant.turn(&trees)?;
        }
    }
    let statistics = contestants[0].engine.statistics();
    println!(
        "{} trees, {MINI_BATCH} at a time: {:.0} nodes; medians of {rounds} rounds, in µs:",
        trees.len(),
        statistics.nodes as f64 / statistics.graphs as f64
    );
    println!("{:>8} construct schedule     plan     list      sum", "");
    for contestant in &contestants {
        print!("{:>8}", contestant.name);
        for part in 0..4 {
            print!(" {:8.1}", contestant.median(|times| times[part]));
        }
        println!(" {:8.1}", contestant.median(|times| times.iter().sum()));
    }
    Ok(())
}

/// Returns the trees with words replaced by numbers, and the number of distinct words.
fn numbered(trees: &[Tree]) -> (Vec<Tree<u32>>, usize) {
    let mut words = HashMap::new();
    let mut number = |word: &String| {
        let next = words.len() as u32;
        *words.entry(word.clone()).or_insert(next)
    };
    let trees = trees.iter().map(|tree| tree.map(|_| 0, &mut number)).collect();
    (trees, words.len())
}
