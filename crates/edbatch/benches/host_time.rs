//! The host's time on the way to a device, without a device: from inputs to the command list.
//!
//!     edbatch init tree_lstm trees --hidden 64 --input test.txt.gz
//!     edbatch learn trees --output trees.json
//!     cargo bench -p edbatch --features cuda --bench host_time -- trees trees=trees.json
//!
//! An argument is a model's folder, or a folder, `=` and a policy as `edbatch infer` names it.
//! The inputs of the folder run 64 at a time, and the subjects take turns of all inputs. Prints a
//! row for each: nanoseconds for a node on one thread, as the median over the turns.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use edbatch::cuda::{CommandList, PhaseTable};
use edbatch::layout::{CellStyle, Lifetimes, Plan, Program};
use edbatch::models::{FolderModel, Model, ZooInput};
use edbatch::policy::PolicyChoice;
use edbatch::runtime::kernels::ArgMax;
use edbatch::runtime::{Backend, BackendError, Bytes, Outputs, Part, StoredRow};
use edbatch::{Engine, EngineOptions, Rows, Statistics, load};

const MINI_BATCH: usize = 64;
/// The number of turns that count, after a first one.
const TURNS: usize = 21;

/// A device that only writes command lists. All results are zeros.
struct Lists {
    program: Arc<Program>,
    table: PhaseTable,
    commands: CommandList,
    zeros: Vec<f32>,
    arg_max: Vec<ArgMax>,
    /// The nanoseconds in which lists were written.
    writing: Arc<AtomicU64>,
}

impl Lists {
    fn new(program: Arc<Program>) -> Self {
        let (table, commands) = (PhaseTable::new(&program), CommandList::default());
        let (zeros, arg_max, writing) = (Vec::new(), Vec::new(), Arc::default());
        Self { program, table, commands, zeros, arg_max, writing }
    }
}

impl Backend for Lists {
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError> {
        for Part { plan, given, .. } in parts {
            let begun = Instant::now();
            let rows = (given.initial.len(), given.places);
            self.commands.write(&self.program, &self.table, plan, rows)?;
            self.writing.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.zeros.resize(self.zeros.len().max(plan.arena), 0.0);
            self.arg_max.resize(self.arg_max.len().max(plan.wanted.len()), ArgMax::default());
        }
        Ok(())
    }

    fn outputs<'a>(&'a self, _: usize, plan: &'a Plan) -> Outputs<'a> {
        Outputs::new(&self.program, plan, &self.zeros, &self.arg_max)
    }

    fn reserve_store(&mut self, _: usize, _: usize) -> Result<(), BackendError> {
        Ok(())
    }

    fn read_stored(&self, _: usize, _: &[StoredRow], _: &mut Vec<f32>) -> Result<(), BackendError> {
        Ok(())
    }

    fn bytes(&self) -> Bytes {
        Bytes::default()
    }

    fn fork(&self) -> Box<dyn Backend> {
        Box::new(Self::new(self.program.clone()))
    }

    fn lifetimes(&self) -> Lifetimes {
        Lifetimes::Distinct
    }

    fn chain(&self) -> usize {
        edbatch::cuda::CHAIN
    }
}

/// An engine, its inputs, and the nanoseconds of each turn: construct, schedule, plan and list.
struct Subject {
    name: String,
    engine: Engine<FolderModel>,
    inputs: Vec<ZooInput>,
    writing: Arc<AtomicU64>,
    rows: Vec<Rows>,
    turns: Vec<[f64; 4]>,
}

impl Subject {
    fn new(name: String) -> Result<Self, Box<dyn Error>> {
        let (folder, policy) = name.split_once('=').unwrap_or((&name, ""));
        let loaded = load(folder)?;
        let inputs = loaded.folder.inputs(&loaded.folder.input())?.collect::<Result<_, _>>()?;
        let network = loaded.model.network();
        let program = Arc::new(Program::new(network.clone(), CellStyle::default())?);
        let mut options = EngineOptions::new();
        if !policy.is_empty() {
            let kinds: Vec<&str> = network.cells().iter().map(|cell| cell.name()).collect();
            options = options.policy(policy.parse::<PolicyChoice>()?.open(&kinds)?);
        }
        let backend = Box::new(Lists::new(program.clone()));
        let writing = backend.writing.clone();
        let parameters = loaded.parameters;
        let engine = Engine::with_backend(loaded.model, &parameters, program, backend, options)?;
        Ok(Self { name, engine, inputs, writing, rows: Vec::new(), turns: Vec::new() })
    }

    /// Runs all inputs once.
    fn turn(&mut self) -> Result<(), Box<dyn Error>> {
        let before = self.nanoseconds();
        for mini_batch in self.inputs.chunks(MINI_BATCH) {
            self.engine.run_into(mini_batch, &mut self.rows)?;
        }
        let after = self.nanoseconds();
        self.turns.push(std::array::from_fn(|part| after[part] - before[part]));
        Ok(())
    }

    fn nanoseconds(&self) -> [f64; 4] {
        let &Statistics { construct, schedule, plan, .. } = self.engine.statistics();
        let writing = Duration::from_nanos(self.writing.load(Ordering::Relaxed));
        [construct, schedule, plan, writing].map(|time| time.as_secs_f64() * 1e9)
    }

    /// Prints the row of the subject.
    fn print(&self) {
        let turns = &self.turns[1..];
        let nodes = self.engine.statistics().nodes as f64 / self.turns.len() as f64;
        let median = |of: &dyn Fn(&[f64; 4]) -> f64| {
            let mut times: Vec<f64> = turns.iter().map(of).collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2] / nodes
        };
        let [construct, schedule, plan, list] = [0, 1, 2, 3].map(|part| median(&|turn| turn[part]));
        let sum = median(&|turn| turn.iter().sum());
        let of_mini_batch = nodes / self.inputs.len().div_ceil(MINI_BATCH) as f64;
        println!(
            "| {} | {of_mini_batch:.0} | {construct:.1} | {schedule:.1} | {plan:.1} | {list:.1} | \
             {sum:.1} |",
            self.name
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let names = env::args().skip(1).filter(|argument| argument != "--bench");
    let mut subjects = names.map(Subject::new).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..=TURNS {
        subjects.iter_mut().try_for_each(Subject::turn)?;
    }
    println!("| model | nodes | construct | schedule | plan | list | sum |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    subjects.iter().for_each(Subject::print);
    Ok(())
}
