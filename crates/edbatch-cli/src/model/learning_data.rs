//! Training data of `edbatch learn`: mini-batches of a model's inputs, or graphs from files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use edbatch::models::{Model, ZooInput};
use edbatch::{Engine, Loaded};
use edbatch_graph::{Dag, Graph, Kind, NodeId, PlainDag};

use crate::failure::Failure;
use crate::inspect::graph_file;

/// Mini-batches of graphs over the same kinds.
pub(crate) struct LearningData<D> {
    pub(crate) kinds: Vec<String>,
    pub(crate) mini_batches: Vec<D>,
    /// The origin of the graphs, as the file of the policy states it.
    pub(crate) source: String,
}

/// The graphs of a model's inputs, with `batch` inputs in a mini-batch. A model that awaits values
/// has several graphs for each mini-batch.
pub(crate) fn of_model(
    loaded: Loaded,
    input: Option<&Path>,
    batch: usize,
) -> Result<LearningData<Graph>, Failure> {
    let file = input.map_or_else(|| loaded.folder.input(), Path::to_path_buf);
    let inputs = loaded.folder.inputs(&file).map_err(Failure::new)?;
    let inputs: Vec<ZooInput> = inputs.collect::<Result<_, _>>().map_err(Failure::new)?;
    let kinds = loaded.model.network().kind_names();
    let mut engine = Engine::new(loaded.model, loaded.parameters).map_err(Failure::new)?;
    let mut mini_batches = Vec::new();
    for inputs in inputs.chunks(batch) {
        let graphs = engine.graphs(inputs).map_err(|error| Failure::at(&file, error))?;
        mini_batches.extend(distinct(graphs));
    }
    if mini_batches.iter().all(|graph| graph.nodes() == 0) {
        return Err(Failure::at(&file, "expected at least one input to learn on, got none"));
    }
    let model = loaded.folder.config().map_or("a network", |config| config.model.name());
    let source = format!("{model} on {}", name(&file));
    Ok(LearningData { kinds, mini_batches, source })
}

/// The graphs in files, with kinds renumbered over their union. A kind is named by its number.
pub(crate) fn of_graphs(files: &[PathBuf]) -> Result<LearningData<PlainDag>, Failure> {
    let graphs: Vec<PlainDag> =
        files.iter().map(|file| graph_file::read(file)).collect::<Result<_, _>>()?;
    if graphs.iter().all(|graph| graph.nodes() == 0) {
        return Err(Failure::at(&files[0], "expected at least one node to learn on, got none"));
    }
    let mut kinds: Vec<String> = graphs.iter().flat_map(PlainDag::kind_names).cloned().collect();
    kinds.sort_by_key(|kind| number(kind));
    kinds.dedup();
    if kinds.len() > 1 << 16 {
        return Err(Failure::new("expected at most 65536 kinds in all graphs together, got more"));
    }
    let mini_batches = graphs.iter().map(|graph| renumbered(graph, &kinds)).collect();
    let names: Vec<String> = files.iter().map(|file| name(file)).collect();
    Ok(LearningData { kinds, mini_batches, source: names.join(", ") })
}

/// Copies a graph, with its kinds numbered by their positions in `kinds`.
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

/// The number by which a text graph names a kind.
fn number(name: &str) -> u64 {
    name.parse().expect("a type was a number when it was read")
}

/// The name of a file without its folder, so that the output does not depend on the folder.
fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Keeps one graph of each topology, because all steps of a decoder have the same one.
fn distinct(graphs: Vec<Graph>) -> Vec<Graph> {
    let mut seen: HashSet<Vec<(Kind, Vec<NodeId>)>> = HashSet::new();
    let topology = |graph: &Graph| {
        let nodes = (0..graph.nodes()).map(NodeId::new);
        nodes.map(|node| (graph.kind(node), graph.arguments(node).collect())).collect()
    };
    let new = |graph: &Graph| graph.nodes() > 0 && seen.insert(topology(graph));
    graphs.into_iter().filter(new).collect()
}
