//! Engines: inputs are wired with the interpreter held; everything else runs without it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use edbatch::graph::{self, Dag};
use edbatch::models::{self, Model, Zoo};
use edbatch::policy::{AnyPolicy, Encoding, Learned, LearningConfig, Scheduler};
use edbatch::runtime::Parameters;
use edbatch::{InputError, Rows, RunError, RunOptions};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::exclusive::Processes;
use crate::inputs::{Run, Wirer};
use crate::model::{Input, Wired, ends_run};
use crate::network::Network;
use crate::options::{Device, Options, policy_of};
use crate::packed::{self, Given, Packed};
use crate::report::{Graph, Outcome, Report, Schedule, Statistics};
use crate::signals::Signals;
use crate::stream::Stream;
use crate::weights::Weights;
use crate::{arrays, errors, exclusive};

/// A network with its weights, ready to run. Inputs are call lists, or whatever `build` wires.
///
/// `build(b, input)` is called for each input before anything runs. If it is a coroutine, it may
/// await computed values.
///
/// Options: `threads` (1 to 1000), `policy` (a name as of `edbatch infer --policy`, or the file of
/// a learned policy), `memory_limit` and `fold_tables` in bytes, `counts` for `report`, `work` (a
/// function that returns the relative cost of an input, to divide inputs between threads),
/// `device`: "cpu", "cuda", "cuda:1" or "cuda-emulated", and `precision` of products of weights
/// and vectors: "f32", "bf16" (three digits, faster) or "tf32" (on a device).
///
/// Raises WeightsError if the weights do not fit the network, ValueError for invalid options,
/// MemoryError, and DeviceError if the device cannot be used.
#[pyclass(frozen, weakref, module = "edbatch")]
pub(crate) struct Engine {
    engine: Mutex<edbatch::Engine<Wired>>,
    pub(crate) wirer: Wirer,
    /// A copy of the engine's policy; `None` for the default.
    policy: Mutex<Option<AnyPolicy>>,
    on_device: bool,
    threads: usize,
    process: u32,
}

type Running<'a> = MutexGuard<'a, edbatch::Engine<Wired>>;

impl Engine {
    pub(crate) fn build(
        wirer: Wirer,
        zoo: Option<Arc<Zoo>>,
        network: &Arc<graph::Network>,
        parameters: Parameters,
        options: &Options<'_>,
    ) -> PyResult<Self> {
        let empty = Arc::new(models::CallList::new(network.clone()));
        let model = Wired { empty, zoo };
        let policy = policy_of(options.policy.as_deref(), network)?;
        let copy = policy.as_ref().map(|policy| policy.fork());
        let engine = options.engine(model, network, parameters, policy)?;
        Ok(Self {
            engine: Mutex::new(engine),
            wirer,
            policy: Mutex::new(copy),
            on_device: options.device != Device::Cpu,
            threads: options.threads,
            process: std::process::id(),
        })
    }

    /// Returns the engine, unless it runs or its threads are gone.
    fn lock(&self) -> PyResult<Running<'_>> {
        let threads = (self.threads > 1 || self.on_device).then_some(self.process);
        let instead = "use `fork()`, an engine for another thread on the same weights";
        exclusive::lock(&self.engine, threads, "engine", instead)
    }

    /// Returns an empty session, and the process in which it works.
    pub(crate) fn session(
        &self,
        options: edbatch::SessionOptions,
    ) -> PyResult<(edbatch::Session, Processes)> {
        let session = self.lock()?.session(options).map_err(errors::engine)?;
        let threads = (self.threads > 1).then_some(self.process);
        let device = self.on_device.then_some(self.process);
        Ok((session, Processes { threads, device }))
    }

    /// Wires inputs, and runs them without the interpreter.
    fn results(
        &self,
        inputs: &Bound<'_, PyAny>,
        given: Option<Given>,
    ) -> PyResult<Vec<Result<Rows, PyErr>>> {
        let (py, mut engine) = (inputs.py(), self.lock()?);
        let engine: &mut edbatch::Engine<Wired> = &mut engine;
        let run = Run::of(engine.model(), given);
        let inputs = self.wirer.wire_all(&run, inputs)?;
        let signals = Signals::new(run.stop);
        let wanted = |_: usize| signals.go_on();
        let options = RunOptions::new().still_wanted(&wanted);
        let results = py.detach(|| engine.run_each(&inputs, &options)).map_err(errors::run)?;
        signals.raised()?;
        let result = |(input, result): (&Input, Result<Rows, InputError>)| {
            result.map_err(|error| input.take_error().unwrap_or_else(|| errors::input(error)))
        };
        let results: Vec<_> = inputs.iter().zip(results).map(result).collect();
        self.wirer.recycle(inputs);
        let ends =
            |result: &&Result<_, PyErr>| result.as_ref().is_err_and(|error| ends_run(py, error));
        match results.iter().find(ends) {
            Some(Err(error)) => Err(error.clone_ref(py)),
            _ => Ok(results),
        }
    }

    /// Returns the graphs of a run.
    fn run_graphs(&self, py: Python<'_>, inputs: &Bound<'_, PyAny>) -> PyResult<Vec<graph::Graph>> {
        let mut engine = self.lock()?;
        let engine: &mut edbatch::Engine<Wired> = &mut engine;
        let wired = self.wirer.wire_all(&Run::of(engine.model(), None), inputs)?;
        let graphs = py.detach(|| engine.graphs(&wired));
        graphs.map_err(|error| failure(py, &[wired], error))
    }
}

/// Returns the exception that an input raised, with a note, or the error of the run.
fn failure(py: Python<'_>, mini_batches: &[Vec<Input>], error: RunError) -> PyErr {
    let RunError::Input { instance, .. } = &error else { return errors::run(error) };
    let raised = mini_batches.iter().find_map(|inputs| {
        Some(noted(py, inputs.get(*instance)?.take_error()?, *instance, inputs.len()))
    });
    raised.unwrap_or_else(|| errors::run(error))
}

/// Adds the place of an input to its exception.
pub(crate) fn noted(py: Python<'_>, error: PyErr, input: usize, inputs: usize) -> PyErr {
    let noted = error.add_note(py, format!("input {input} of {inputs}"));
    noted.err().unwrap_or(error)
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (
        network, weights, build=None, *, threads=1, policy=None, memory_limit=None, fold_tables=0,
        counts=false, work=None, device="cpu", precision="f32"
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        network: &Bound<'_, Network>,
        weights: &Bound<'_, Weights>,
        build: Option<Py<PyAny>>,
        threads: usize,
        policy: Option<PathBuf>,
        memory_limit: Option<u64>,
        fold_tables: u64,
        counts: bool,
        work: Option<Py<PyAny>>,
        device: &str,
        precision: &str,
    ) -> PyResult<Self> {
        let device = Device::parse(device)?;
        let options =
            Options { threads, policy, memory_limit, fold_tables, counts, device, precision };
        let frozen = Network::intern(network)?;
        let parameters = weights.get().for_network(&frozen)?;
        let network = network.clone().unbind();
        let wirer = Wirer { network, build, work, folder: None, pool: Mutex::default() };
        Self::build(wirer, None, &frozen, parameters, &options)
    }

    /// The network.
    #[getter]
    fn network(&self, py: Python<'_>) -> Py<Network> {
        self.wirer.network.clone_ref(py)
    }

    /// Runs inputs together. Returns for each an array `[rows, width]` of float32 with the values
    /// that it emits, or a list of vectors if they differ in width.
    ///
    /// Raises the exception of the first input that fails, with the note "input 3 of 64".
    #[pyo3(signature = (inputs, /))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let results = self.results(inputs, None)?;
        let all = results.len();
        let arrays = results.into_iter().enumerate().map(|(input, result)| match result {
            Ok(rows) => arrays::of_rows(py, rows),
            Err(error) => Err(noted(py, error, input, all)),
        });
        arrays.collect()
    }

    /// Runs inputs whose rows are given as one array for each record, for `edbatch.torch`. Returns
    /// all outputs as one array, the offsets of inputs, and the widths of rows if these differ.
    #[pyo3(signature = (inputs, given, /))]
    fn _run_packed<'py>(
        &self,
        inputs: &Bound<'py, PyAny>,
        given: packed::Arguments<'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = inputs.py();
        let given = Given::read(py, given)?;
        let (rows, results) = (given.rows.clone(), self.results(inputs, Some(given))?);
        let all = results.len();
        let results = results.into_iter().enumerate();
        let each = results.map(|(input, rows)| rows.map_err(|error| noted(py, error, input, all)));
        let (packed, elements) = Packed::of(rows, vec![], each.collect::<PyResult<Vec<Rows>>>()?);
        packed.outputs(py, elements)
    }

    /// Like `run`, but an input that fails does not affect the others: its exception is returned
    /// in its place, and the others keep their bits.
    #[pyo3(signature = (inputs, /))]
    fn run_each<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let arrays = self.results(inputs, None)?.into_iter().map(|result| match result {
            Ok(rows) => arrays::of_rows(py, rows),
            Err(error) => Ok(error.into_value(py).into_bound(py).into_any()),
        });
        arrays.collect()
    }

    /// Runs any number of inputs, `width` at a time: when one ends, the next one joins. Calls
    /// `done(number, result)` for each, with its array or its exception. If `done` or the iterator
    /// raises, no further input begins, and the exception is raised.
    #[pyo3(signature = (width, inputs, done, /))]
    fn stream(
        &self,
        py: Python<'_>,
        width: usize,
        inputs: &Bound<'_, PyAny>,
        done: Py<PyAny>,
    ) -> PyResult<()> {
        if width == 0 {
            return Err(PyValueError::new_err("width: expected at least 1 input at a time, got 0"));
        }
        let mut engine = self.lock()?;
        let engine: &mut edbatch::Engine<Wired> = &mut engine;
        let stream = Stream::new(&self.wirer, Run::of(engine.model(), None), inputs, done)?;
        let done = |number, rows: Result<&mut Rows, InputError>| stream.done(number, rows);
        let ran = py.detach(|| engine.stream(width, stream.inputs(), done));
        stream.raised()?;
        ran.map_err(errors::run)
    }

    /// Returns an engine for another thread: on the same weights, with one thread and statistics
    /// of its own. Forks of an engine on several devices use them in turn.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        let engine = self.lock()?;
        let policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Self {
            engine: Mutex::new(engine.fork()),
            wirer: self.wirer.fork(py),
            policy: Mutex::new(policy.as_ref().map(|policy| policy.fork())),
            on_device: self.on_device,
            threads: 1,
            process: self.process,
        })
    }

    /// Learns a policy on mini-batches, lists of inputs, and uses it from now on if it takes fewer
    /// batches than `critical` on those held out. `encoding` is the state of its table: "base",
    /// "max", "sort" or "phase". With `path`, also writes it to a file for `policy=`.
    ///
    /// Raises ValueError if no input calls a cell.
    #[pyo3(signature = (mini_batches, /, *, encoding="sort", episodes=1000, seed=0, path=None))]
    fn learn(
        &self,
        py: Python<'_>,
        mini_batches: &Bound<'_, PyAny>,
        encoding: &str,
        episodes: usize,
        seed: u64,
        path: Option<PathBuf>,
    ) -> PyResult<Outcome> {
        let encoding: Encoding = encoding
            .parse()
            .map_err(|error| PyValueError::new_err(format!("encoding: {error}")))?;
        let mut engine = self.lock()?;
        let engine: &mut edbatch::Engine<Wired> = &mut engine;
        let run = Run::of(engine.model(), None);
        let wired = mini_batches.try_iter()?.map(|inputs| self.wirer.wire_all(&run, &inputs?));
        let wired = wired.collect::<PyResult<Vec<_>>>()?;
        let outcome = py.detach(|| {
            let slices: Vec<&[Input]> = wired.iter().map(Vec::as_slice).collect();
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            engine.learn(&slices, encoding, &LearningConfig::new(episodes), &mut rng)
        });
        let outcome = outcome.map_err(|error| failure(py, &wired, error))?;
        let kinds = engine.model().network().kind_names();
        if outcome.after < outcome.before {
            let learned: AnyPolicy = Box::new(outcome.fsm(encoding, kinds.len()));
            *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = Some(learned);
        }
        if let Some(path) = path {
            let on = "engine.learn of Python";
            let text = Learned::table(&outcome, encoding, &kinds, on, wired.len()).to_json();
            std::fs::write(&path, text).map_err(errors::system(&path, "a writable file"))?;
        }
        Ok(Outcome::of(&outcome))
    }

    /// Returns the graphs of inputs: one, and one more for each round in which they await values.
    /// Runs a graph only if an input awaits one of its values.
    #[pyo3(signature = (inputs, /))]
    fn graphs(&self, py: Python<'_>, inputs: &Bound<'_, PyAny>) -> PyResult<Vec<Graph>> {
        Ok(self.run_graphs(py, inputs)?.into_iter().map(Graph).collect())
    }

    /// Returns the batches of inputs, without running them. If they await values, `round` is the
    /// number of the round, from 0.
    #[pyo3(signature = (inputs, /, round=0))]
    fn schedule(
        &self,
        py: Python<'_>,
        inputs: &Bound<'_, PyAny>,
        round: usize,
    ) -> PyResult<Schedule> {
        let mut graphs = self.run_graphs(py, inputs)?;
        if round >= graphs.len() {
            let rounds = graphs.len();
            let expected = format!("round: expected a number below {rounds}, got {round}");
            return Err(PyValueError::new_err(expected));
        }
        let graph = graphs.swap_remove(round);
        let policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scheduler = match &*policy {
            Some(policy) => Scheduler::by(policy.fork()),
            None if self.on_device => Scheduler::by_depth(),
            None => Scheduler::default(),
        };
        let mut batches = graph::Schedule::new();
        if graph.nodes() > 0 {
            scheduler.schedule(&graph, &mut batches);
        }
        Ok(Schedule { graph, batches })
    }

    /// Counts and times since the engine was built, without runs that failed.
    #[getter]
    fn statistics(&self) -> PyResult<Statistics> {
        Ok(Statistics::of(self.lock()?.statistics()))
    }

    /// How the calls of each cell batched, and why; None without `counts=True`.
    fn report(&self) -> PyResult<Option<Report>> {
        Ok(self.lock()?.report().cloned().map(Report))
    }

    fn __repr__(&self) -> String {
        let cells = self.wirer.network.get().with(|network| network.kind_names().join(", "));
        format!("<edbatch.Engine: cells {cells}; {} threads>", self.threads)
    }

    fn _repr_html_(&self) -> PyResult<String> {
        let statistics = self.statistics()?._repr_html_();
        Ok(match self.report()? {
            Some(report) => statistics + &report._repr_html_(),
            None => statistics + "<p>With <code>counts=True</code>: what batched, and why.</p>",
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.wirer.network)?;
        visit.call(&self.wirer.build)?;
        visit.call(&self.wirer.work)
    }
}
