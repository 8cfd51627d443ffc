//! The measurements of the example: a table of times and memory, and laps for PyTorch's side.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use super::{Clause, FAMILY, laps, open, parse};

const USAGE: &str = "usage: derivations [FILE] | --laps FOLDER WIDTH WAVE FILE";

/// Does what the arguments of the program ask for.
pub(crate) fn start() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => table(&load(std::env::var("EDBATCH_DERIVATIONS").ok().as_ref())?),
        [file] if !file.starts_with('-') => table(&load(Some(file))?),
        [option, folder, width, wave, file] if option == "--laps" => {
            let clauses = load(Some(file))?;
            serve(folder.as_ref(), width.parse()?, wave.parse()?, &clauses)
        }
        [help] if help == "--help" || help == "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// The clauses of a file, or of the one that is included.
fn load(file: Option<&String>) -> Result<Vec<Clause>, Box<dyn Error>> {
    let name = file.map_or("the included file", String::as_str);
    let text = file.map_or(Ok(FAMILY.into()), std::fs::read_to_string);
    let text = text.map_err(|error| format!("{name}: {error}"))?;
    let clauses = parse(&text).filter(|clauses| !clauses.is_empty());
    let expected = "expected a clause a line, as derive.py writes it";
    Ok(clauses.ok_or_else(|| format!("{name}: {expected}"))?)
}

/// Writes the network and the scores to a folder, and replays once for each line of the input.
fn serve(
    folder: &Path,
    width: usize,
    wave: usize,
    clauses: &[Clause],
) -> Result<(), Box<dyn Error>> {
    let (prover, weights, mut session) = open(width)?;
    let (scores, _) = prover.replay(&mut session, clauses, wave, true)?;
    laps::serve(folder, &prover.network, &weights, &scores, || {
        prover.replay(&mut session, clauses, wave, true)?;
        Ok(())
    })
}

/// Prints a line for each width and number of clauses a run. Fails if scores have other bits.
fn table(clauses: &[Clause]) -> Result<(), Box<dyn Error>> {
    println!("{} clauses; MB after half of them and after all\n", clauses.len());
    println!("| H | clauses a run | us a clause | MB | MB, nothing released |");
    println!("|---|---|---|---|---|");
    for width in [64, 128] {
        let mut bits = None;
        for wave in [1, 8, 64, 256, 1024] {
            let (prover, _, mut session) = open(width)?;
            let (scores, held) = prover.replay(&mut session, clauses, wave, true)?;
            let scores: Vec<u32> = scores.iter().map(|score| score.to_bits()).collect();
            if *bits.get_or_insert_with(|| scores.clone()) != scores {
                return Err(format!("H = {width}: {wave} clauses a run change the scores").into());
            }
            let mut times = Vec::new();
            for _ in 0..9 {
                let begun = Instant::now();
                prover.replay(&mut session, clauses, wave, true)?;
                times.push(begun.elapsed().as_secs_f64() * 1e6 / clauses.len() as f64);
            }
            times.sort_by(f64::total_cmp);
            let (_, _, mut session) = open(width)?;
            let kept = prover.replay(&mut session, clauses, wave, false)?.1;
            let [held, kept] = [held, kept].map(|bytes| {
                let half = bytes[(bytes.len() - 1) / 2];
                format!("{:.2}, {:.2}", half as f64 / 1e6, bytes[bytes.len() - 1] as f64 / 1e6)
            });
            println!("| {width} | {wave} | {:.2} | {held} | {kept} |", times[4]);
        }
    }
    println!("\nThe bits of the scores do not depend on the number of clauses a run.");
    Ok(())
}
