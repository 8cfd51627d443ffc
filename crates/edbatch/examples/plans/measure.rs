//! The measurements of the example: a table of times, and laps for PyTorch's side.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use edbatch::Session;

use super::{Planner, QUERIES, Query, laps, open, parse};

const LAPS: usize = 200;
const USAGE: &str = "usage: plans [FILE] | --laps FOLDER WIDTH FILE";

/// Does what the arguments of the program ask for.
pub(crate) fn start() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => table(&load(std::env::var("EDBATCH_PLANS").ok().as_ref())?),
        [file] if !file.starts_with('-') => table(&load(Some(file))?),
        [option, folder, width, file] if option == "--laps" => {
            serve(folder.as_ref(), width.parse()?, &load(Some(file))?)
        }
        [help] if help == "--help" || help == "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// The queries of a file, or of the one that is included.
fn load(file: Option<&String>) -> Result<Vec<Query>, Box<dyn Error>> {
    let name = file.map_or("the included file", String::as_str);
    let text = file.map_or(Ok(QUERIES.into()), std::fs::read_to_string);
    let text = text.map_err(|error| format!("{name}: {error}"))?;
    let queries = parse(&text).filter(|queries| queries.iter().any(|plans| !plans.is_empty()));
    let expected = "expected a query a line, as plans.py writes it";
    Ok(queries.ok_or_else(|| format!("{name}: {expected}"))?)
}

/// Computes the scores of all plans, query by query. Fails if a plan alone has another score.
pub(crate) fn scores(
    planner: &Planner,
    session: &mut Session,
    queries: &[Query],
) -> Result<Vec<f32>, Box<dyn Error>> {
    let mut scores = Vec::new();
    for query in queries {
        let together = planner.times(session, query)?;
        for (plan, score) in query.iter().zip(&together) {
            if planner.times(session, std::slice::from_ref(plan))?[0].to_bits() != score.to_bits() {
                return Err("a plan alone has another score".into());
            }
        }
        scores.extend(together);
    }
    Ok(scores)
}

/// Writes the network and the scores to a folder, and computes a query for each line of the input.
fn serve(folder: &Path, width: usize, queries: &[Query]) -> Result<(), Box<dyn Error>> {
    let (planner, weights, mut session) = open(width)?;
    let scores = scores(&planner, &mut session, queries)?;
    let mut next = queries.iter().cycle();
    laps::serve(folder, &planner.network, &weights, &scores, || {
        planner.times(&mut session, next.next().ok_or("no queries")?)?;
        Ok(())
    })
}

/// Prints a line for each width.
fn table(queries: &[Query]) -> Result<(), Box<dyn Error>> {
    let plans = queries.iter().flatten();
    let (count, nodes) = (plans.clone().count(), plans.map(Vec::len).sum::<usize>());
    println!("{} queries with {count} plans of {nodes} nodes\n", queries.len());
    println!("| H | nodes a query | without equal ones | p50 us | p99 us | fastest us |");
    println!("|---|---|---|---|---|---|");
    for width in [64, 128] {
        let (planner, _, mut session) = open(width)?;
        scores(&planner, &mut session, queries)?;
        let before = session.statistics().calls;
        let mut times = Vec::new();
        for query in (0..LAPS).flat_map(|_| queries) {
            let begun = Instant::now();
            planner.times(&mut session, query)?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        // On a busy machine: the median query in the fastest of its laps.
        let of_query = |at| times[at..].iter().step_by(queries.len());
        let least = |at| of_query(at).copied().fold(f64::INFINITY, f64::min);
        let mut fastest: Vec<f64> = (0..queries.len()).map(least).collect();
        times.sort_by(f64::total_cmp);
        fastest.sort_by(f64::total_cmp);
        let fastest = fastest[queries.len() / 2];
        // One call of each plan is its score.
        let different = (session.statistics().calls - before) as usize / LAPS - count;
        let [all, different] = [nodes, different].map(|count| count / queries.len());
        let [half, most] = [times.len() / 2, times.len() * 99 / 100].map(|at| times[at]);
        println!("| {width} | {all} | {different} | {half:.0} | {most:.0} | {fastest:.0} |");
    }
    println!("\nEach plan has the same bits alone as among the others of its query.");
    Ok(())
}
