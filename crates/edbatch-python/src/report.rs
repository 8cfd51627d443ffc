//! Statistics, reports, graphs and schedules: attributes, text, and tables for notebooks.

use edbatch::graph::{self, Dag};
use edbatch::{Report as Batches, policy, schedule_svg};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::html;

/// Counts and times since an engine was built. Times are in seconds.
#[pyclass(frozen, get_all, module = "edbatch")]
pub(crate) struct Statistics {
    /// Number of inputs.
    instances: u64,
    /// Number of graphs: one for each run or part of one, and one more for each await.
    graphs: u64,
    /// Number of calls.
    nodes: u64,
    /// Number of batches.
    batches: u64,
    /// Number of decoder steps that a device has computed after the end of a sentence.
    dropped_steps: u64,
    /// Number of batches in states that the table of a learned policy does not have.
    unseen: u64,
    /// A lower bound on the number of batches, if the engine counts.
    bound: Option<u64>,
    /// Number of bytes read through lists of rows, if the engine counts.
    gathered_bytes: Option<u64>,
    /// Time to copy calls into graphs, and to run coroutines.
    construct: f64,
    /// Time to schedule batches.
    schedule: f64,
    /// Time to plan the memory of rows.
    plan: f64,
    /// Time to run batches and read results.
    execute: f64,
    /// Peak memory for values, in bytes.
    arena_bytes: u64,
    /// Size of the weights, in bytes.
    weight_bytes: u64,
}

impl Statistics {
    pub(crate) fn of(statistics: &edbatch::Statistics) -> Self {
        Self {
            instances: statistics.instances,
            graphs: statistics.graphs,
            nodes: statistics.nodes,
            batches: statistics.batches,
            dropped_steps: statistics.dropped_steps,
            unseen: statistics.unseen,
            bound: statistics.counts.map(|counts| counts.bound),
            gathered_bytes: statistics.counts.map(|counts| counts.gathered_bytes),
            construct: statistics.construct.as_secs_f64(),
            schedule: statistics.schedule.as_secs_f64(),
            plan: statistics.plan.as_secs_f64(),
            execute: statistics.execute.as_secs_f64(),
            arena_bytes: statistics.arena_bytes,
            weight_bytes: statistics.weight_bytes,
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let seconds = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        let rows = [
            ("instances", self.instances.to_string()),
            ("graphs", self.graphs.to_string()),
            ("nodes", self.nodes.to_string()),
            ("batches", self.batches.to_string()),
            ("construct", seconds(self.construct)),
            ("schedule", seconds(self.schedule)),
            ("plan", seconds(self.plan)),
            ("execute", seconds(self.execute)),
            ("arena_bytes", megabytes(self.arena_bytes)),
            ("weight_bytes", megabytes(self.weight_bytes)),
        ];
        rows.map(|(name, value)| vec![name.to_string(), value]).to_vec()
    }
}

#[pymethods]
impl Statistics {
    fn __repr__(&self) -> String {
        let rows = self.rows().into_iter().map(|row| row.join(" "));
        format!("<edbatch.Statistics: {}>", rows.collect::<Vec<_>>().join(", "))
    }

    pub(crate) fn _repr_html_(&self) -> String {
        html::table(&["since the engine was built", ""], &self.rows())
    }
}

/// How the calls of each cell batched, and why.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Report(pub(crate) Batches);

#[pymethods]
impl Report {
    /// For each cell a dict: name, nodes, batches, largest, chain, sizes, mean, advice.
    #[getter]
    fn kinds<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let kinds = self.0.kinds.iter().map(|kind| {
            let dict = PyDict::new(py);
            dict.set_item("name", &kind.name)?;
            dict.set_item("nodes", kind.nodes)?;
            dict.set_item("batches", kind.batches)?;
            dict.set_item("largest", kind.largest)?;
            dict.set_item("chain", kind.chain)?;
            dict.set_item("sizes", &kind.sizes)?;
            dict.set_item("mean", kind.mean())?;
            dict.set_item("advice", kind.advice())?;
            Ok(dict)
        });
        kinds.collect()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<edbatch.Report of {} cells>", self.0.kinds.len())
    }

    pub(crate) fn _repr_html_(&self) -> String {
        let header = ["cell", "calls", "batches", "at least", "mean", "largest", ""];
        let rows = self.0.kinds.iter().map(|kind| {
            vec![
                kind.name.clone(),
                kind.nodes.to_string(),
                kind.batches.to_string(),
                kind.chain.to_string(),
                format!("{:.1}", kind.mean()),
                kind.largest.to_string(),
                kind.advice().unwrap_or_default(),
            ]
        });
        html::table(&header, &rows.collect::<Vec<_>>())
    }
}

/// The calls of the inputs of a run, or of one round of it. `len` is their number.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Graph(pub(crate) graph::Graph);

#[pymethods]
impl Graph {
    fn __len__(&self) -> usize {
        self.0.nodes()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<edbatch.Graph of {} calls>", self.0.nodes())
    }

    fn _repr_html_(&self) -> String {
        html::text(&self.0.to_string())
    }
}

/// The batches of a round, in order. `len` is their number.
#[pyclass(frozen, module = "edbatch")]
pub(crate) struct Schedule {
    pub(crate) graph: graph::Graph,
    pub(crate) batches: graph::Schedule,
}

#[pymethods]
impl Schedule {
    fn __len__(&self) -> usize {
        self.batches.len()
    }

    /// A line for each batch: the cell, and its calls.
    fn __str__(&self) -> String {
        let cells = self.graph.network().cells();
        let batches = self.batches.batches().map(|batch| {
            let nodes: Vec<String> = batch.nodes.iter().map(ToString::to_string).collect();
            format!("{}: {}\n", cells[batch.kind.index()].name(), nodes.join(" "))
        });
        batches.collect()
    }

    fn __repr__(&self) -> String {
        let (calls, batches) = (self.graph.nodes(), self.batches.len());
        format!("<edbatch.Schedule: {calls} calls in {batches} batches>")
    }

    /// A drawing: a column for each batch, in the colour of its cell.
    fn _repr_svg_(&self) -> String {
        let (calls, batches) = (self.graph.nodes(), self.batches.len());
        let title = format!("{calls} calls in {batches} batches");
        let names = self.graph.network().kind_names();
        schedule_svg(&self.graph, &names, &self.batches, &title)
    }
}

/// The result of `Engine.learn`: the numbers of batches on the mini-batches held out.
#[pyclass(frozen, get_all, module = "edbatch")]
pub(crate) struct Outcome {
    /// Number of episodes; each scheduled one mini-batch.
    episodes: usize,
    /// Number of batches by the policy `critical`.
    before: usize,
    /// Number of batches by the learned policy.
    after: usize,
    /// A lower bound on the number of batches.
    bound: usize,
}

impl Outcome {
    pub(crate) fn of(outcome: &policy::Outcome) -> Self {
        let policy::Outcome { episodes, before, after, bound, .. } = *outcome;
        Self { episodes, before, after, bound }
    }
}

#[pymethods]
impl Outcome {
    fn __repr__(&self) -> String {
        let Self { episodes, before, after, bound } = self;
        format!(
            "<edbatch.Outcome: {after} batches, critical makes {before}, no policy fewer than \
             {bound}; {episodes} episodes>"
        )
    }
}
