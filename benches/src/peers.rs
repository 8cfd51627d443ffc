//! Other people's programs, where they are installed: PyTorch, batched by hand.
//!
//! A peer is a process that is given the weights and the graphs of all mini-batches. Its results
//! are compared before it is timed; then it and our own system take turns.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use edbatch_graph::{Dag, Graph, NodeId, Source, Value};
use edbatch_policy::{Fsm, NamedEncoding};
use serde::{Deserialize, Serialize};

use crate::families::Family;
use crate::record::Peer;
use crate::rounds::{Entrant, Rounds, choose, rounds};
use crate::systems::System;
use crate::throughput::weights;
use crate::unrolled::Unrolled;
use crate::workload::{Contestant, Failure, MiniBatch, Part, Workload};

/// The models that the script knows. Decoding word by word is left out: there PyTorch would be run
/// a step at a time, and most of what is measured would be Python.
pub const MODELS: [&str; 7] = [
    "tree_lstm",
    "tree_lstm_2type",
    "tree_gru",
    "mv_rnn",
    "bilstm_tagger",
    "lattice_lstm",
    "lattice_gru",
];

/// Instances of all mini-batches together: what they are made into takes memory in Python.
const INSTANCES: usize = 1024;
/// By how much results may differ.
const TOLERANCE: f64 = 1e-4;

/// Why no peer can run, or its version.
///
/// # Errors
/// A sentence that says what is missing.
pub fn pytorch() -> Result<String, String> {
    let output = python().args(["-c", "import torch; print(torch.__version__)"]).output();
    let output = output.map_err(|error| format!("PyTorch: python3 does not start: {error}"))?;
    if !output.status.success() {
        return Err("PyTorch: python3 cannot import torch (python3 -m pip install torch)".into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Why DyNet is not among the peers.
pub const DYNET: &str = "DyNet: left out: its package on PyPI is source that wants CMake, and \
                         downloads Eigen while it builds";

pub(crate) fn python() -> Command {
    Command::new(std::env::var_os("EDBATCH_PYTHON").unwrap_or_else(|| "python3".into()))
}

/// What to measure: as a [`Setting`](crate::throughput::Setting) of two.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Elements of a hidden vector.
    pub hidden: usize,
    /// Instances in a mini-batch.
    pub batch: usize,
    /// About how many seconds both are timed.
    pub seconds: f64,
}

/// Measures PyTorch and our own system on one workload, one thread each.
///
/// # Errors
/// If the peer does not run, or its results are wrong.
pub fn peer(
    family: &Family,
    pair: Pair,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Peer>, Failure> {
    let Pair { hidden, batch, seconds } = pair;
    let workload = family.at(hidden)?;
    let parameters = weights(&*workload);
    let instances = workload.instances(Part::Test);
    let all = (instances.min(INSTANCES) / batch).max(1);
    let mini_batches = MiniBatch::spread(instances, batch, all);
    let unlearned = Fsm::new(NamedEncoding::Sort, workload.network().cells().len());
    let mut ours =
        workload.contestant(System::Edbatch, &parameters, &unlearned, &mini_batches, 1)?;
    progress("preparing");
    let folder = Folder::new()?;
    let network = workload.network();
    fs::write(folder.0.join("weights.safetensors"), parameters.to_safetensors(network)?)?;
    let graphs = Graphs::new(family.model, &*workload, &mini_batches);
    fs::write(folder.0.join("graphs.json"), serde_json::to_string(&graphs)?)?;
    let mut process = Process::start(&folder.0)?;
    let version = process.version.clone();
    let expected: Vec<f32> =
        ours.run(0)?.iter().flat_map(|rows| rows.iter().flatten()).copied().collect();
    let difference = difference(&folder.0.join("results.f32"), &expected)?;
    if difference.is_nan() || difference > TOLERANCE {
        let model = family.model;
        return Err(format!("PyTorch, {model}: results differ by {difference}").into());
    }

    progress("taking turns");
    let mut ours = Ours(ours);
    let mut entrants: [&mut dyn Entrant; 2] = [&mut process, &mut ours];
    let chosen = choose(&mut entrants, all, 1, seconds)?;
    let Rounds { times, .. } = rounds(&mut entrants, &chosen, seconds)?;
    let work = (chosen.len() * batch) as f64;
    let [theirs, own] = [&times[0], &times[1]].map(|times| times.rate(work));
    let system = if family.model == "bilstm_tagger" { "pytorch-lstm" } else { "pytorch-levels" };
    Ok(vec![Peer {
        system: system.into(),
        version,
        model: family.model.into(),
        input: family.input.into(),
        hidden,
        batch,
        threads: 1,
        instances_per_second: theirs.median,
        spread: theirs.relative(),
        edbatch_instances_per_second: own.median,
        edbatch_spread: own.relative(),
        repetitions: times[0].turns.len(),
        mini_batches: chosen.len(),
        difference,
    }])
}

/// The largest difference between the floats of a file and others.
fn difference(path: &Path, expected: &[f32]) -> Result<f64, Failure> {
    let bytes = fs::read(path)?;
    let (floats, rest) = bytes.as_chunks::<4>();
    if floats.len() != expected.len() || !rest.is_empty() {
        let (got, expected) = (floats.len(), expected.len());
        return Err(format!("PyTorch: {got} results, expected {expected}").into());
    }
    let differences = floats.iter().zip(expected).map(|(&got, &expected)| {
        let difference = (f64::from(f32::from_le_bytes(got)) - f64::from(expected)).abs();
        if difference.is_nan() { f64::INFINITY } else { difference }
    });
    Ok(differences.fold(0.0, f64::max))
}

struct Ours(Box<dyn Contestant>);

impl Entrant for Ours {
    fn turn(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), Failure> {
        Ok(self.0.run_all(mini_batches, each)?)
    }
}

/// A peer that waits for mini-batches to run.
struct Process {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    version: String,
}

impl Process {
    fn start(folder: &Path) -> Result<Self, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/pytorch.py");
        let mut command = python();
        // One thread, also for libraries that read these before the script can say so.
        command.arg(script).arg(folder).env("OMP_NUM_THREADS", "1").env("MKL_NUM_THREADS", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut process = Self { child, to, from, version: String::new() };
        #[derive(Deserialize)]
        struct Hello {
            version: String,
        }
        let hello: Hello = serde_json::from_str(&process.line()?)?;
        process.version = hello.version;
        Ok(process)
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Err("PyTorch: the program ended; what it said stands above".into()),
            _ => Ok(line),
        }
    }
}

impl Entrant for Process {
    fn turn(
        &mut self,
        mini_batches: &[usize],
        each: &mut dyn FnMut(usize, f64),
    ) -> Result<(), Failure> {
        let numbers: Vec<String> = mini_batches.iter().map(usize::to_string).collect();
        let to = self.to.as_mut().expect("it is open while the process lives");
        writeln!(to, "{}", numbers.join(" "))?;
        to.flush()?;
        let seconds: Vec<f64> = serde_json::from_str(&self.line()?)?;
        mini_batches.iter().zip(seconds).for_each(|(&index, seconds)| each(index, seconds));
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its input ends, so it does too; killed, should it not.
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("edbatch-peer-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a peer is given to run.
#[derive(Serialize)]
pub(crate) struct Graphs<'a> {
    model: &'a str,
    cells: Vec<String>,
    mini_batches: Vec<Calls>,
}

/// A mini-batch.
#[derive(Serialize)]
struct Calls {
    /// Cell, rows of tables, values: the index of a call, or negative for an initial value.
    calls: Vec<(usize, Vec<u32>, Vec<i64>)>,
    wanted: Vec<i64>,
}

impl<'a> Graphs<'a> {
    pub(crate) fn new(model: &'a str, workload: &dyn Workload, mini_batches: &[MiniBatch]) -> Self {
        let cells = workload.network().cells().iter().map(|cell| cell.name().into()).collect();
        let calls = |&mini_batch: &MiniBatch| {
            let unrolled = workload.unroll(Part::Test, mini_batch);
            let [Unrolled { graph, wanted }] = &unrolled[..] else {
                unreachable!("none of these models awaits a value");
            };
            Calls::new(graph, wanted)
        };
        Self { model, cells, mini_batches: mini_batches.iter().map(calls).collect() }
    }
}

impl Calls {
    fn new(graph: &Graph, wanted: &[Value]) -> Self {
        let number = |value: Value| match value.source() {
            Source::Given(index) => -1 - index as i64,
            Source::Node(node) => node.index() as i64,
        };
        let call = |node: NodeId| {
            let values = graph.values(node).map(number).collect();
            (graph.kind(node).index(), graph.rows(node).to_vec(), values)
        };
        Self {
            calls: (0..graph.nodes()).map(|node| call(NodeId::new(node))).collect(),
            wanted: wanted.iter().map(|&value| number(value)).collect(),
        }
    }
}
