//! `edbatch schedule`: how few batches each policy makes of a graph.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use edbatch_graph::{Dag, NodeId, PlainDag, Schedule as Batches};
use edbatch_policy::{Beam, Frontier, Policy, PolicyChoice, lower_bound, schedule_into};
use serde::Serialize;

use super::failure::Failure;
use super::output::Output;
use super::{graph_file, svg};

/// Schedules a graph with one policy after the other and counts batches.
///
/// The graph is a text: the number of nodes, then a line per node, "type n_inputs ids…", arguments
/// before users. The lower bound is the sum, over the kinds, of their longest chains; a schedule
/// that meets it is proved optimal.
#[derive(Args)]
#[command(after_help = "\
Example:
  printf '4\\n7 0\\n7 1 0\\n9 1 0\\n9 1 1\\n' > graph.txt
  edbatch schedule graph.txt --policy critical --policy agenda --svg schedule.svg")]
pub(crate) struct Schedule {
    /// The graph, plain or .gz.
    graph: PathBuf,
    /// depth, agenda, sufficient, critical, beam:WIDTH, or a learned policy's file; may be given
    /// several times. By default those that need neither learning nor search.
    #[arg(long = "policy", value_name = "P")]
    policies: Vec<PolicyChoice>,
    /// Print an array of objects instead of lines. "nanoseconds" is a whole scheduling run, the
    /// fastest of several.
    #[arg(long)]
    json: bool,
    /// File for a picture of the first policy's schedule.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What is told of a policy.
#[derive(Serialize)]
struct Report {
    policy: String,
    batches: usize,
    bound: usize,
    proved: bool,
    nodes: usize,
    kinds: usize,
    nanoseconds: u64,
}

impl Schedule {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let dag = graph_file::read(&self.graph)?;
        let mut picture = self.svg.as_deref().map(|path| Output::open(Some(path))).transpose()?;
        let mut reports = Vec::new();
        for choice in self.policies() {
            let (report, batches) = schedule(&dag, &choice)?;
            if let (Some(picture), true) = (&mut picture, reports.is_empty()) {
                let title = report.to_string();
                picture.write(svg::draw(&dag, &batches, &title).as_bytes())?;
            }
            reports.push(report);
        }
        let mut output = Output::open(None)?;
        if self.json {
            let text = serde_json::to_string(&reports).expect("plain data becomes JSON");
            output.write(format!("{text}\n").as_bytes())?;
        } else {
            for report in &reports {
                output.write(format!("{report}\n").as_bytes())?;
            }
        }
        output.finish()?;
        picture.map_or(Ok(()), Output::finish)
    }

    fn policies(&self) -> Vec<PolicyChoice> {
        use PolicyChoice::{Agenda, Critical, Depth, Sufficient};
        match self.policies.as_slice() {
            [] => vec![Critical, Sufficient, Agenda, Depth],
            policies => policies.to_vec(),
        }
    }
}

fn schedule(dag: &PlainDag, choice: &PolicyChoice) -> Result<(Report, Batches), Failure> {
    let mut batches = Batches::new();
    let (time, closed) = match choice {
        PolicyChoice::Beam(width) => {
            let mut beam = Beam::new(*width);
            (run(dag, &mut beam, &mut batches), beam.proved())
        }
        _ => {
            let policy = choice.open_where_known(dag.kind_names());
            let mut policy = policy.map_err(|error| Failure::policy(&error))?;
            (run(dag, &mut policy, &mut batches), false)
        }
    };
    batches
        .check(dag)
        .map_err(|error| Failure::new(format_args!("{choice}: {error}; please report it")))?;
    let bound = lower_bound(dag);
    let kinds: BTreeSet<_> = (0..dag.nodes()).map(|node| dag.kind(NodeId::new(node))).collect();
    let report = Report {
        policy: choice.to_string(),
        batches: batches.len(),
        bound,
        proved: closed || batches.len() == bound,
        nodes: dag.nodes(),
        kinds: kinds.len(),
        nanoseconds: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
    };
    Ok((report, batches))
}

/// Schedules a few times and tells the least time: the first run allocates, and others may be
/// interrupted.
fn run(dag: &PlainDag, policy: &mut impl Policy, batches: &mut Batches) -> Duration {
    let mut frontier = Frontier::default();
    let began = Instant::now();
    let mut least = Duration::MAX;
    for _ in 0..9 {
        let started = Instant::now();
        schedule_into(dag, policy, &mut frontier, batches);
        least = least.min(started.elapsed());
        if began.elapsed() > Duration::from_millis(200) {
            break;
        }
    }
    least
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { policy, batches, bound, nodes, kinds, .. } = self;
        let optimal = if self.proved { " (optimal)" } else { "" };
        let milliseconds = self.nanoseconds as f64 / 1e6;
        write!(
            f,
            "{policy}: {batches} batches{optimal}, bound {bound}, {nodes} nodes of {kinds} kinds, \
             {milliseconds:.3} ms"
        )
    }
}
