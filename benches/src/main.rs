//! The benchmark's command, `cargo xtask bench`: measures, then prints tables and writes a page.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use edbatch_benches::cell_layouts::cell_layouts;
use edbatch_benches::counts::{counts, counts_of_file};
use edbatch_benches::families::{FAMILIES, Family};
use edbatch_benches::learning::learning;
use edbatch_benches::options::{Options, Part};
use edbatch_benches::page::page;
use edbatch_benches::pq_trees::pq_trees;
use edbatch_benches::record::Record;
use edbatch_benches::report::tables;
use edbatch_benches::sets::{SetError, Source};
use edbatch_benches::throughput::{Setting, learned_by_paper, throughput};
use edbatch_benches::workload::Failure;
use indicatif::{ProgressBar, ProgressStyle};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let families = families(options)?;
    let bar = bar(&families, options);
    let mut records = Vec::new();
    for family in &families {
        measure(family, options, &bar, &mut records)?;
    }
    if options.wants(Part::Counts) {
        for path in published(&options.source())? {
            records
                .extend(counts_of_file(&path, options.effort())?.into_iter().map(Record::Counts));
        }
    }
    if options.wants(Part::Cells) {
        records.extend(cell_layouts()?.into_iter().map(Record::Cells));
    }
    if options.wants(Part::PqTree) {
        let say = |what: &str| bar.set_message(format!("PQ-trees: {what}"));
        let measured = pq_trees(options.effort(), options.seconds(), say);
        records.extend(measured.into_iter().map(Record::PqTree));
    }
    bar.finish_and_clear();
    for table in tables(&records) {
        println!("{table}");
    }
    let html = options.html.clone().unwrap_or_else(default_page);
    write(&html, &page(&records)?)?;
    println!("Plots: {}", html.display());
    if let Some(path) = &options.json {
        write(path, &lines(&records)?)?;
    }
    Ok(())
}

/// Measures one model on one set.
fn measure(
    family: &Family,
    options: &Options,
    bar: &ProgressBar,
    records: &mut Vec<Record>,
) -> Result<(), Failure> {
    let Family { model, input, .. } = family;
    let at = |what: String| bar.set_message(format!("{model} on {input}: {what}"));
    if options.wants(Part::Counts) {
        for batch in options.batches_of_counts() {
            let say = |what: &str| at(format!("counting batches of {batch}, {what}"));
            let counted = counts(family, batch, options.effort(), say)?;
            records.extend(counted.into_iter().map(Record::Counts));
            bar.inc(1);
        }
    }
    if options.wants(Part::Learn) {
        for batch in options.batches_to_learn() {
            let learned =
                learning(family, batch, options.effort(), |what| at(format!("learning, {what}")))?;
            records.extend(learned.into_iter().map(Record::Learn));
            bar.inc(1);
        }
    }
    if !options.wants(Part::Throughput) && !options.wants(Part::Breakdown) {
        return Ok(());
    }
    let systems = options.systems();
    let mut learned = HashMap::new();
    for hidden in options.hidden(family) {
        for batch in options.batches() {
            let learned = match learned.entry(batch) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    at(format!("learning on mini-batches of {batch}"));
                    unknown.insert(learned_by_paper(family, &systems, batch)?)
                }
            };
            let say = |what: &str| at(format!("hidden {hidden}, mini-batches of {batch}, {what}"));
            for threads in options.threads() {
                let (systems, seconds) = (systems.clone(), options.seconds());
                let setting = Setting { hidden, batch, systems, seconds, threads };
                for (throughput, breakdown) in throughput(family, &setting, learned, say)? {
                    if options.wants(Part::Throughput) {
                        records.push(Record::Throughput(throughput));
                    }
                    if options.wants(Part::Breakdown) {
                        records.push(Record::Breakdown(breakdown));
                    }
                }
                bar.inc(1);
            }
        }
    }
    Ok(())
}

/// The chosen models on all their sets. A set that is not in the folder is left out with a word
/// about it, unless nothing else is left.
fn families(options: &Options) -> Result<Vec<Family>, Failure> {
    let source = options.source();
    let mut families = Vec::new();
    let mut missing = None;
    for (model, meet) in FAMILIES {
        if options.models.is_empty() || options.models.iter().any(|chosen| chosen == model) {
            match meet(&source) {
                Ok(family) => families.push(family),
                Err(error @ SetError::Missing { .. }) => {
                    eprintln!("{model}: {error}");
                    missing = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    match missing {
        Some(error) if families.is_empty() => Err(error.into()),
        _ => Ok(families),
    }
}

/// The published graphs of a folder, by name.
fn published(source: &Source) -> Result<Vec<PathBuf>, Failure> {
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

/// On a terminal: how many measurements are done, and what is being measured.
fn bar(families: &[Family], options: &Options) -> ProgressBar {
    let steps = |family| {
        let mut steps = 0;
        if options.wants(Part::Counts) {
            steps += options.batches_of_counts().len();
        }
        if options.wants(Part::Learn) {
            steps += options.batches_to_learn().len();
        }
        if options.wants(Part::Throughput) || options.wants(Part::Breakdown) {
            steps +=
                options.hidden(family).len() * options.batches().len() * options.threads().len();
        }
        steps as u64
    };
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} [{elapsed}] {wide_msg}")
        .expect("the template is correct");
    ProgressBar::new(families.iter().map(steps).sum()).with_style(style)
}

/// Beside what cargo builds.
fn default_page() -> PathBuf {
    let target = std::env::current_exe().ok();
    let target = target.as_deref().and_then(|exe| exe.ancestors().nth(2));
    target.unwrap_or(Path::new("target")).join("bench/index.html")
}

fn lines(records: &[Record]) -> Result<String, Failure> {
    let lines = records.iter().map(|record| Ok(serde_json::to_string(record)? + "\n"));
    lines.collect()
}

/// Writes a file whole or not at all.
fn write(path: &Path, contents: &str) -> Result<(), Failure> {
    let failure = |error| format!("{}: {error}", path.display());
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failure)?;
    }
    let written = fs::write(&partial, contents).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    Ok(written.map_err(failure)?)
}
