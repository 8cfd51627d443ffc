//! `cargo xtask data`: lists, checks and fetches the full data sets, which are not in the
//! repository.

mod fetch;
mod manifest;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::{Failure, root};
use manifest::{Fetch, File, Set, State, manifest};

/// Lists, checks or fetches the full data sets.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask data fetch sst iwslt15")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// The folder of the sets, with a folder for each [default: datasets/full in the repository]
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// Prints the manifest as a table.
    #[command(after_help = "Example: cargo xtask data list")]
    List(Chosen),
    /// Compares files, plain or .gz, with the manifest's checksums. Ignores sets that are absent,
    /// unless they are named.
    #[command(after_help = "Example: cargo xtask data check sst")]
    Check(Chosen),
    /// Downloads with curl, unpacks with unzip or tar, and checks. Prints the steps for sets that
    /// must be made by hand.
    #[command(after_help = "Example: cargo xtask data fetch sst")]
    Fetch(Chosen),
}

#[derive(clap::Args)]
struct Chosen {
    /// Sets [default: all]
    #[arg(value_name = "SET", value_parser = set_name)]
    sets: Vec<String>,
}

fn set_name(name: &str) -> Result<String, String> {
    let manifest = manifest();
    if manifest.set(name).is_some() {
        return Ok(name.to_string());
    }
    let names: Vec<_> = manifest.sets.into_iter().map(|set| set.name).collect();
    Err(format!("expected one of {}", names.join(", ")))
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let dir = args.dir.unwrap_or_else(|| root().join("datasets/full"));
    match args.action {
        Action::List(chosen) => print_table(&chosen.sets()),
        Action::Check(chosen) => return check(&chosen, &dir),
        Action::Fetch(chosen) => return fetch_all(&chosen, &dir),
    }
    Ok(())
}

impl Chosen {
    fn sets(&self) -> Vec<Set> {
        let all = manifest().sets.into_iter();
        all.filter(|set| self.sets.is_empty() || self.sets.contains(&set.name)).collect()
    }
}

fn print_table(sets: &[Set]) {
    println!(
        "{:<11} {:>5} {:>10}  {:<7} {:<27} source",
        "set", "files", "bytes", "fetched", "licence"
    );
    for set in sets {
        let bytes: u64 = set.files.iter().map(|file| file.bytes).sum();
        let how = if matches!(set.fetch, Fetch::Manual { .. }) { "by hand" } else { "yes" };
        println!(
            "{:<11} {:>5} {bytes:>10}  {how:<7} {:<27} {}",
            set.name,
            set.files.len(),
            set.licence,
            set.source
        );
        println!("{:<11} {} ({})", "", set.description, set.format);
    }
}

fn check(chosen: &Chosen, dir: &Path) -> Result<(), Failure> {
    let (mut good, mut bad) = (0, 0);
    for set in chosen.sets() {
        let states: Vec<State> = set.files.iter().map(|file| file.check(dir)).collect();
        if chosen.sets.is_empty() && states.iter().all(|state| matches!(state, State::Missing)) {
            println!("absent   {}", set.name);
            continue;
        }
        for (file, state) in set.files.iter().zip(&states) {
            print_state(file, state);
            *(if matches!(state, State::Matches) { &mut good } else { &mut bad }) += 1;
        }
    }
    match (good, bad) {
        (0, 0) => Err(format!(
            "no sets in {}; run cargo xtask data fetch to download some",
            dir.display()
        )
        .into()),
        (_, 0) => Ok(()),
        _ => {
            Err(format!("{bad} of {} files are missing or differ from the manifest", good + bad)
                .into())
        }
    }
}

fn print_state(file: &File, state: &State) {
    match state {
        State::Matches => println!("good     {}", file.path),
        State::Missing => println!("missing  {}", file.path),
        State::Differs { bytes, sha256 } => {
            println!("differs  {}: expected {} bytes, {}", file.path, file.bytes, file.sha256);
            println!("         {}: got      {bytes} bytes, {sha256}", file.path);
        }
        State::Unreadable(error) => println!("broken   {}: {error}", file.path),
    }
}

fn fetch_all(chosen: &Chosen, dir: &Path) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for set in chosen.sets() {
        if let Err(failure) = fetch::fetch(&set, dir) {
            eprintln!("{}: {failure}", set.name);
            failed.push(set.name.clone());
        }
        if let (Fetch::Manual { steps }, false) = (&set.fetch, fetch::is_complete(&set, dir)) {
            println!(
                "{}: make it by hand as {}\n  from {}\n  {steps}",
                set.name, set.files[0].path, set.source
            );
            if !chosen.sets.is_empty() {
                failed.push(set.name);
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("not fetched: {}", failed.join(", ")).into())
    }
}
