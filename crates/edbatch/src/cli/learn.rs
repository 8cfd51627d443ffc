//! `edbatch learn`: a policy for a model's graphs, or for any.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use edbatch::{Engine, load};
use edbatch_graph::{Dag, Graph, Kind, NodeId, PlainDag};
use edbatch_models::{Model, ZooInput};
use edbatch_policy::{Learned, LearningConfig, NamedEncoding, Outcome, TrainingSet, hold_out};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::failure::Failure;
use super::output::Output;
use super::{at_least_one, graph_file, progress};

/// Learns which kind of node to run next, by Q-learning, and writes it to a file.
///
/// It learns on three quarters of the mini-batches and keeps what does best on the others, held
/// out. States that it never met go to the policy critical. The same seed gives the same file, byte
/// by byte.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch learn model --input train.txt.gz --output policy.json
  edbatch infer model --policy policy.json --output logits.jsonl")]
pub(crate) struct Learn {
    /// A model's folder, or graphs in the text format, each of them a mini-batch.
    #[arg(value_name = "DIR|GRAPH", required = true)]
    of: Vec<PathBuf>,
    /// File for the policy.
    #[arg(long, value_name = "POLICY.json")]
    output: PathBuf,
    /// A model's inputs, plain or .gz; by default those that its config.json names.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// What the policy sees: base (the ready kinds), max (also which of them has most nodes), sort
    /// (in what order, by how many), phase (also how many eighths of the graph have run), critical
    /// (what the policy critical sees).
    #[arg(long, value_name = "E", default_value_t = NamedEncoding::Sort)]
    encoding: NamedEncoding,
    /// Instances in a mini-batch of a model.
    #[arg(long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    batch: usize,
    /// Most episodes; learning ends earlier when there is nothing left to gain.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = at_least_one)]
    episodes: usize,
    /// Seed of the random choices.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// What is learned on: mini-batches of graphs over the same kinds.
struct Lessons<D> {
    kinds: Vec<String>,
    mini_batches: Vec<D>,
    /// Where they are from.
    source: String,
}

impl Learn {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match self.of.as_slice() {
            [dir] if dir.is_dir() => self.learn(self.of_model(dir)?),
            graphs if graphs.iter().any(|path| path.is_dir()) => {
                Err(Failure::Usage("expected one model's folder or files of graphs".into()))
            }
            _ if self.input.is_some() => {
                Err(Failure::Usage("--input is for a model's folder; graphs have none".into()))
            }
            graphs => self.learn(of_graphs(graphs)?),
        }
    }

    /// The graphs of a model; where its instances wait for values, those that come of them too.
    fn of_model(&self, dir: &Path) -> Result<Lessons<Graph>, Failure> {
        let loaded = load(dir).map_err(Failure::new)?;
        let file = self.input.clone().unwrap_or_else(|| loaded.folder.input());
        let inputs = loaded.folder.inputs(&file).map_err(Failure::new)?;
        let inputs: Vec<ZooInput> = inputs.collect::<Result<_, _>>().map_err(Failure::new)?;
        let kinds = loaded.model.network().kind_names();
        let mut engine = Engine::new(loaded.model, loaded.parameters).map_err(Failure::new)?;
        let mut mini_batches = Vec::new();
        for inputs in inputs.chunks(self.batch) {
            let graphs = engine.graphs(inputs).map_err(|error| Failure::at(&file, error))?;
            mini_batches.extend(distinct(graphs));
        }
        if mini_batches.iter().all(|graph| graph.nodes() == 0) {
            return Err(Failure::at(&file, "expected inputs to learn on, got none"));
        }
        let source = format!("{} on {}", loaded.folder.config().model, name(&file));
        Ok(Lessons { kinds, mini_batches, source })
    }

    fn learn<D: Dag>(&self, lessons: Lessons<D>) -> Result<(), Failure> {
        let mut output = Output::open(Some(&self.output))?;
        let Lessons { kinds, mini_batches, source } = lessons;
        let (train, held_out) = hold_out(mini_batches);
        let set = TrainingSet::new(&train, &held_out).map_err(Failure::new)?;
        let config = LearningConfig { episodes: self.episodes, ..LearningConfig::default() };
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let bar = progress::over(self.episodes as u64);
        let started = Instant::now();
        let outcome = edbatch_policy::learn(&set, &self.encoding, &config, &mut rng, |progress| {
            bar.set_position(progress.episode as u64);
        });
        let seconds = started.elapsed().as_secs_f64();
        bar.finish_and_clear();
        let learned = Learned::new(&outcome, self.encoding.clone(), &kinds, &source, train.len());
        output.write(learned.to_json().as_bytes())?;
        output.finish()?;
        let mut report = Output::open(None)?;
        report.write(tell(&outcome, seconds, train.len(), held_out.len()).as_bytes())?;
        report.finish()
    }
}

fn tell(outcome: &Outcome, seconds: f64, train: usize, held_out: usize) -> String {
    let Outcome { table, episodes, before, after, bound } = outcome;
    let counted_on = match held_out {
        0 => "the only mini-batch, which was learned on too".into(),
        _ => format!("{held_out} mini-batches held out, {train} learned on"),
    };
    format!(
        "episodes: {episodes}\n\
         seconds: {seconds:.3}\n\
         batches before: {before}\n\
         batches after: {after}\n\
         bound: {bound}\n\
         states: {}\n\
         counted on: {counted_on}\n",
        table.len()
    )
}

/// Graphs by file, their kinds numbered alike: a type is a kind by its number.
fn of_graphs(files: &[PathBuf]) -> Result<Lessons<PlainDag>, Failure> {
    let graphs: Vec<PlainDag> =
        files.iter().map(|file| graph_file::read(file)).collect::<Result<_, _>>()?;
    if graphs.iter().all(|graph| graph.nodes() == 0) {
        return Err(Failure::at(&files[0], "expected nodes to learn on, got none"));
    }
    let mut kinds: Vec<String> = graphs.iter().flat_map(PlainDag::kind_names).cloned().collect();
    kinds.sort_by_key(|kind| number(kind));
    kinds.dedup();
    if kinds.len() > 1 << 16 {
        return Err(Failure::new("the graphs together have more than 65536 types"));
    }
    let mini_batches = graphs.iter().map(|graph| renumbered(graph, &kinds)).collect();
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    Ok(Lessons { kinds, mini_batches, source: names.join(", ") })
}

/// The same graph over the kinds of several.
fn renumbered(graph: &PlainDag, kinds: &[String]) -> PlainDag {
    let find = |name: &String| kinds.binary_search_by_key(&number(name), |kind| number(kind));
    let numbers: Vec<Kind> = (graph.kind_names().iter())
        .map(|name| Kind::new(find(name).expect("the union has the kinds of each")))
        .collect();
    let mut dag = PlainDag::new(kinds);
    for node in (0..graph.nodes()).map(NodeId::new) {
        let kind = numbers[graph.kind(node).index()];
        let arguments: Vec<NodeId> = graph.arguments(node).collect();
        dag.push(kind, &arguments).expect("arguments precede users");
    }
    dag
}

/// The number that a text graph's kind has for a name.
fn number(name: &str) -> u64 {
    name.parse().expect("a type was a number when it was read")
}

/// A file by its name alone, so that what is written does not depend on where it lies.
fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// One graph of each topology: the steps of a decoder are all alike.
fn distinct(graphs: Vec<Graph>) -> Vec<Graph> {
    let mut seen: HashSet<Vec<(Kind, Vec<NodeId>)>> = HashSet::new();
    let topology = |graph: &Graph| {
        let nodes = (0..graph.nodes()).map(NodeId::new);
        nodes.map(|node| (graph.kind(node), graph.arguments(node).collect())).collect()
    };
    let new = |graph: &Graph| graph.nodes() > 0 && seen.insert(topology(graph));
    graphs.into_iter().filter(new).collect()
}
