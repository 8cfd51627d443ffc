//! The part `counts`: number of batches by policy, with the lower bound.

use std::fs;
use std::path::{Path, PathBuf};

use edbatch_graph::{Dag, Schedule, parse_text};
use edbatch_policy::{Frontier, Policy, lower_bound, schedule_into};

use crate::Failure;
use crate::measure::families::Family;
use crate::measure::policies::{Effort, learned, unlearned};
use crate::measure::sets::Source;
use crate::measure::workload::{MiniBatch, Part};
use crate::record::Counts;

/// Minimum number of mini-batches.
const MIN: usize = 5;
/// Maximum number of mini-batches.
const MAX: usize = 40;
/// The number of instances to reach.
const INSTANCES: usize = 1280;

/// Counts the batches of every policy on mini-batches of a size.
pub fn counts(
    family: &Family,
    batch: usize,
    effort: Effort,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Counts>, Failure> {
    // Batches do not depend on the size of vectors.
    let workload = family.at(8)?;
    let mut policies = unlearned(effort);
    for policy in learned(&*workload, batch, effort, &mut progress) {
        // Ours is a rule with learned constants, not a table of states.
        let what = if policy.name.starts_with("pairs") { "rule" } else { "fsm" };
        policies.push((format!("{what}-{}", policy.name), Box::new(policy.policy)));
    }
    let count = match effort {
        Effort::Quick => MIN,
        Effort::Full => (INSTANCES / batch).clamp(MIN, MAX),
    };
    let mini_batches = MiniBatch::spread(workload.instances(Part::Test), batch, count);
    let mini_batches: Vec<Vec<_>> = mini_batches
        .iter()
        .map(|&mini_batch| workload.unroll(Part::Test, mini_batch))
        .map(|unrolled| unrolled.into_iter().map(|unrolled| unrolled.graph).collect())
        .collect();
    let record = |(policy, batches)| Counts {
        model: family.model.into(),
        input: family.input.into(),
        batch: Some(batch),
        policy,
        batches,
        ..means(&mini_batches)
    };
    let counted = policies.into_iter().map(|(name, mut policy)| {
        progress(&name);
        Ok((name, total(&mini_batches, &mut *policy)? as f64 / count as f64))
    });
    counted.map(|counted| counted.map(record)).collect()
}

/// Counts the batches of all policies that need no learning on a published graph.
pub fn counts_of_file(path: &Path, effort: Effort) -> Result<Vec<Counts>, Failure> {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut edbatch_datasets::open(path)?, &mut text)?;
    let graphs = [vec![parse_text(&text).map_err(|error| format!("{}: {error}", path.display()))?]];
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let name = name.trim_end_matches(".gz").trim_end_matches(".txt");
    let record = |(policy, batches)| Counts {
        model: "graph".into(),
        input: name.into(),
        policy,
        batches,
        ..means(&graphs)
    };
    let counted = unlearned(effort)
        .into_iter()
        .map(|(name, mut policy)| Ok((name, total(&graphs, &mut *policy)? as f64)));
    counted.map(|counted| counted.map(record)).collect()
}

/// Returns the sum of the batches over all mini-batches, and checks the schedules.
fn total<D: Dag>(mini_batches: &[Vec<D>], policy: &mut dyn Policy) -> Result<usize, Failure> {
    let (mut frontier, mut schedule) = (Frontier::default(), Schedule::new());
    let mut batches = 0;
    for dag in mini_batches.iter().flatten() {
        schedule_into(dag, policy, &mut frontier, &mut schedule);
        schedule.check(dag)?;
        batches += schedule.len();
    }
    Ok(batches)
}

/// Returns the figures that do not depend on the policy, as means over mini-batches.
fn means<D: Dag>(mini_batches: &[Vec<D>]) -> Counts {
    let count = mini_batches.len();
    let mean = |of: fn(&D) -> usize| {
        mini_batches.iter().flatten().map(of).sum::<usize>() as f64 / count as f64
    };
    Counts {
        bound: mean(|dag| lower_bound(dag)),
        nodes: mean(|dag| dag.nodes()),
        mini_batches: count,
        ..Counts::default()
    }
}

/// Lists the published graphs of a folder in alphabetical order.
pub fn published(source: &Source) -> Result<Vec<PathBuf>, Failure> {
    let Source::Folder(dir) = source else { return Ok(Vec::new()) };
    let folder = dir.join("graphs");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>()?;
    let is_graph = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".txt") || name.ends_with(".txt.gz")
    };
    paths.retain(is_graph);
    paths.sort_unstable();
    Ok(paths)
}
