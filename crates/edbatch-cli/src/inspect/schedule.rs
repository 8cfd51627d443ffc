//! `edbatch schedule`: counts the batches that each policy makes of a graph.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use edbatch_graph::{Dag, NodeId, PlainDag, Schedule as Batches};
use edbatch_policy::{Frontier, Policy, PolicyChoice, lower_bound, schedule_into};
use serde::Serialize;

use super::graph_file;
use crate::failure::Failure;
use crate::output::{Output, print};
use crate::{progress, same_file};
use edbatch::schedule_svg;

/// Schedules a graph by one or more policies and counts batches.
///
/// The graph is a text file: the number of nodes, then for each node a line with its kind, its
/// number of arguments, and the arguments as numbers of earlier nodes, counted from 0. The lower
/// bound is the sum of the longest chains of all kinds; a schedule with that many batches is
/// optimal.
#[derive(Args)]
#[command(after_help = "\
Example:
  printf '4\\n7 0\\n7 1 0\\n9 1 0\\n9 1 1\\n' > graph.txt
  edbatch schedule graph.txt --policy critical --policy agenda --svg schedule.svg")]
pub(crate) struct Schedule {
    /// File of the graph, plain or .gz.
    graph: PathBuf,
    /// depth, by-depth, agenda, sufficient, critical, critical:pair, critical:soft,
    /// beam:WIDTH[:SECONDS], exact[:SECONDS], or the file of a learned policy. May be repeated; by
    /// default all policies that need neither learning nor search. Without SECONDS, exact searches
    /// until it has proved its schedule optimal or needs more than a gibibyte for the states of a
    /// level.
    #[arg(long = "policy", value_name = "P")]
    policies: Vec<PolicyChoice>,
    /// Print a JSON array of objects instead of lines. "nanoseconds" is the time of a whole
    /// scheduling run, the fastest of several; "waves" is the number of steps if independent
    /// batches run in parallel; "depth" is the number of nodes on the longest path, the minimum of
    /// "waves"; "unseen", only of a learned table, is the number of batches in states that the
    /// table does not have.
    #[arg(long)]
    json: bool,
    /// Draw the first policy's schedule to this SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The figures that are printed for a policy.
#[derive(Serialize)]
struct Report {
    policy: String,
    batches: usize,
    bound: usize,
    proved: bool,
    nodes: usize,
    kinds: usize,
    waves: usize,
    depth: usize,
    nanoseconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unseen: Option<usize>,
}

impl Schedule {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let policies = self.policies.iter().filter_map(|choice| match choice {
            PolicyChoice::File(path) => Some(("--policy", path.as_path())),
            _ => None,
        });
        let graph = ("the graph", self.graph.as_path());
        let svg = self.svg.iter().map(|path| ("--svg", path.as_path()));
        same_file::check(None, policies.chain([graph]), svg)?;
        let dag = graph_file::read(&self.graph)?;
        let mut picture = self.svg.as_deref().map(|path| Output::open(Some(path))).transpose()?;
        let mut reports = Vec::new();
        for choice in self.policies() {
            let (report, batches) = schedule(&dag, &choice)?;
            if let (Some(picture), true) = (&mut picture, reports.is_empty()) {
                let title = report.to_string();
                let drawing = schedule_svg(&dag, dag.kind_names(), &batches, &title);
                picture.write(drawing.as_bytes())?;
            }
            reports.push(report);
        }
        let text = match self.json {
            true => serde_json::to_string(&reports).expect("plain data becomes JSON") + "\n",
            false => reports.iter().map(|report| format!("{report}\n")).collect(),
        };
        print(&text)?;
        picture.map_or(Ok(()), Output::finish)
    }

    fn policies(&self) -> Vec<PolicyChoice> {
        use PolicyChoice::{Agenda, Critical, CriticalPair, CriticalSoft, Depth, Sufficient};
        match self.policies.as_slice() {
            [] => vec![Critical, CriticalPair, CriticalSoft, Sufficient, Agenda, Depth],
            policies => policies.to_vec(),
        }
    }
}

fn schedule(dag: &PlainDag, choice: &PolicyChoice) -> Result<(Report, Batches), Failure> {
    let mut batches = Batches::new();
    let policy = choice.open_where_known(dag.kind_names());
    let mut policy = policy.map_err(|error| Failure::policy(&error))?;
    let spinner = progress::spinner(&choice.to_string());
    let time = run(dag, &mut policy, &mut batches);
    spinner.finish_and_clear();
    batches
        .check(dag)
        .map_err(|error| Failure::new(format_args!("{choice}: {error}; please report it")))?;
    let bound = lower_bound(dag);
    let nodes: Vec<NodeId> = (0..dag.nodes()).map(NodeId::new).collect();
    let kinds: BTreeSet<_> = nodes.iter().map(|&node| dag.kind(node)).collect();
    let report = Report {
        policy: choice.to_string(),
        batches: batches.len(),
        bound,
        proved: policy.proved() || batches.len() == bound,
        nodes: dag.nodes(),
        kinds: kinds.len(),
        waves: waves(dag, batches.batches().map(|batch| batch.nodes)),
        depth: waves(dag, nodes.chunks(1)),
        nanoseconds: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        unseen: policy.unseen(),
    };
    Ok((report, batches))
}

/// The number of waves: a batch runs in the first wave after the waves of all its arguments.
/// If each node is a batch, this is the number of nodes on the longest path.
fn waves<'a>(dag: &PlainDag, batches: impl Iterator<Item = &'a [NodeId]>) -> usize {
    let mut waves = vec![0; dag.nodes()];
    for batch in batches {
        let arguments = batch.iter().flat_map(|&node| dag.arguments(node));
        let wave = 1 + arguments.map(|argument| waves[argument.index()]).max().unwrap_or(0);
        batch.iter().for_each(|node| waves[node.index()] = wave);
    }
    waves.into_iter().max().unwrap_or(0)
}

/// Schedules several times and returns the minimum time: the first run allocates, and others may be
/// interrupted.
fn run(dag: &PlainDag, policy: &mut impl Policy, batches: &mut Batches) -> Duration {
    let mut frontier = Frontier::default();
    let began = Instant::now();
    let mut min = Duration::MAX;
    for _ in 0..9 {
        let started = Instant::now();
        schedule_into(dag, policy, &mut frontier, batches);
        min = min.min(started.elapsed());
        if began.elapsed() > Duration::from_millis(200) {
            break;
        }
    }
    min
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { policy, batches, bound, nodes, kinds, waves, depth, .. } = self;
        let optimal = if self.proved { " (optimal)" } else { "" };
        let milliseconds = self.nanoseconds as f64 / 1e6;
        write!(
            f,
            "{policy}: {batches} batches{optimal}, bound {bound}, {nodes} nodes of {kinds} kinds, \
             {waves} waves, depth {depth}, {milliseconds:.3} ms"
        )?;
        self.unseen.map_or(Ok(()), |unseen| write!(f, ", {unseen} batches in unseen states"))
    }
}
