//! Tables between markers in README and docs: written from records, never typed.
//!
//! A block begins with a line `<!-- bench:NAME -->` and ends with a line `<!-- /bench:NAME -->`.

use std::fs;
use std::path::Path;

use edbatch_datasets::write_atomic;

use crate::headline::{Rival, Row, main_rows, rows};
use crate::paper_report::cortex;
use crate::peers::Program;
use crate::record::{Peer, Record, Throughput};
use crate::soak::Soak;
use crate::sorted::{Sorted, groups};
use crate::table::Table;
use crate::text::{percent, whole, wrapped};
use crate::workload::Failure;

/// The files that have blocks.
const FILES: [&str; 2] = ["README.md", "docs/benchmarks.md"];
/// Characters of a line of prose.
const WIDTH: usize = 100;

/// Writes the tables of all records into the files under a folder. A block that there are no
/// records for stays as it is, with a word about it.
///
/// # Errors
/// If a file cannot be read or written, or lacks the end of a block.
pub fn write_docs(root: &Path, records: &[Record]) -> Result<(), Failure> {
    let blocks = blocks(records);
    for name in FILES {
        let path = root.join(name);
        let failure = |error| format!("{}: {error}", path.display());
        let mut text = fs::read_to_string(&path).map_err(failure)?;
        for (block, content) in &blocks {
            match content {
                Some(content) => text = splice(&text, block, content).map_err(failure)?,
                None if text.contains(&begin(block)) => {
                    eprintln!("{name}: {block} stays as it is: there are no records for it");
                }
                None => {}
            }
        }
        write_atomic(&path, text.as_bytes())
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn begin(block: &str) -> String {
    format!("<!-- bench:{block} -->\n")
}

/// The text with another content of a block, if it has that block.
fn splice(text: &str, block: &str, content: &str) -> std::io::Result<String> {
    let (begin, end) = (begin(block), format!("<!-- /bench:{block} -->"));
    let Some((before, rest)) = text.split_once(&begin) else { return Ok(text.into()) };
    let Some((_, after)) = rest.split_once(&end) else {
        return Err(std::io::Error::other(format!("expected a line {end}")));
    };
    Ok(format!("{before}{begin}\n{content}\n{end}{after}"))
}

/// The blocks by name, and what there are records for.
#[must_use]
pub fn blocks(records: &[Record]) -> [(&'static str, Option<String>); 5] {
    let sorted = Sorted::new(records);
    let rows = rows(&sorted);
    let measured = records.last().map(|record| {
        let text = format!("Measured with `cargo xtask bench --docs` on {}.", record.machine);
        wrapped(&text, WIDTH).join("\n")
    });
    let block = |table: Table| {
        let measured = measured.as_ref().filter(|_| !table.rows.is_empty())?;
        Some(format!("{measured}\n\n{}", markdown(&table)))
    };
    [
        ("main", block(speeds(&main_rows(&rows)))),
        ("sizes", block(speeds(&rows))),
        ("peers", block(peers(&sorted.peers))),
        ("cortex", block(cortex(&sorted))),
        ("soak", sorted.soaks.last().zip(measured.as_ref()).map(|(soak, m)| paragraphs(m, soak))),
    ]
}

fn paragraphs(measured: &str, soak: &Soak) -> String {
    format!("{measured}\n\n{}.", wrapped(&soak.verdict(), WIDTH).join("\n"))
}

fn speeds(rows: &[Row<'_>]) -> Table {
    let rivals: Vec<Rival> = Rival::ALL
        .into_iter()
        .filter(|&rival| rows.iter().any(|row| row.over(rival).is_some()))
        .collect();
    let header = ["model", "set", "H", "batch", "inst/s", "±", "of peak"].map(String::from);
    let named = rivals.iter().map(|rival| format!("/ {}", rival.name()));
    let mut table = Table::new("", 2, header.into_iter().chain(named));
    for row in rows {
        let Throughput { model, input, hidden, batch, .. } = row.ours;
        let mut cells = vec![format!("`{model}`"), input.clone()];
        cells.extend([hidden, batch].map(|size| size.to_string()));
        cells.push(whole(row.ours.instances_per_second));
        cells.push(percent(row.ours.spread));
        cells.push(percent(row.ours.fraction_of_peak));
        let ratio = |rival: &Rival| row.over(*rival).map_or("-".into(), |r| format!("{r:.1}"));
        cells.extend(rivals.iter().map(ratio));
        table.rows.push(cells);
    }
    table
}

/// Of every workload and size each program's best mini-batch, and ours.
fn peers(peers: &[&Peer]) -> Table {
    let all = Program::ALL.into_iter();
    let programs: Vec<Program> =
        all.filter(|&program| of_program(program, peers).next().is_some()).collect();
    let header = ["model", "set", "H"].map(String::from).into_iter();
    let names = programs.iter().map(|program| format!("{}, best", program.name()));
    let names = names.chain(["ours, best".into()]).flat_map(|name| [name, "batch".into()]);
    let ratios = programs.iter().map(|program| format!("/ {}", program.name()));
    let mut table = Table::new("", 2, header.chain(names).chain(ratios));
    for group in groups(peers, |peer| (peer.model.clone(), peer.input.clone(), peer.hidden)) {
        let first = group[0];
        let mut row = vec![format!("`{}`", first.model), first.input.clone()];
        row.push(first.hidden.to_string());
        let theirs = |&program| best(of_program(program, group), |peer| peer.instances_per_second);
        let ours = best(group.iter().copied(), |peer| peer.edbatch_instances_per_second);
        let speeds: Vec<Option<(f64, usize)>> = programs.iter().map(theirs).collect();
        for speed in speeds.iter().chain([&ours]) {
            let cells = speed.map_or(["-".into(), "-".into()], |(speed, batch)| {
                [whole(speed), batch.to_string()]
            });
            row.extend(cells);
        }
        row.extend(speeds.iter().map(|speed| match (ours, speed) {
            (Some((ours, _)), Some((theirs, _))) => format!("{:.1}", ours / theirs),
            _ => "-".into(),
        }));
        table.rows.push(row);
    }
    table
}

/// The records of a program.
fn of_program<'a>(program: Program, peers: &[&'a Peer]) -> impl Iterator<Item = &'a Peer> {
    let of = move |peer: &&Peer| Program::of_system(&peer.system) == Some(program);
    peers.iter().copied().filter(of)
}

/// The highest speed of some records, and the mini-batch that it was reached with.
fn best<'a>(
    peers: impl Iterator<Item = &'a Peer>,
    speed: fn(&Peer) -> f64,
) -> Option<(f64, usize)> {
    let speeds = peers.map(|peer| (speed(peer), peer.batch));
    speeds.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// A table in Markdown: text columns at the left, figures at the right.
fn markdown(table: &Table) -> String {
    // Without spaces: the widest row is as long as a line may be.
    let line = |cells: &[String]| format!("|{}|\n", cells.join("|"));
    let sides = (0..table.header.len()).map(|column| match column < table.text_columns {
        true => "---".to_string(),
        false => "--:".to_string(),
    });
    let rules: Vec<String> = sides.collect();
    let rows = table.rows.iter().map(|row| line(row));
    [line(&table.header), line(&rules)].into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::splice;

    #[test]
    fn a_block_is_replaced_and_nothing_else() {
        let text = "a\n<!-- bench:main -->\nold\n<!-- /bench:main -->\nb\n";
        let new = splice(text, "main", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- bench:main -->\n\nnew\n\n<!-- /bench:main -->\nb\n");
        assert_eq!(splice(&new, "main", "new\n").unwrap(), new);
        assert_eq!(splice(text, "other", "new\n").unwrap(), text);
        assert!(splice("<!-- bench:main -->\n", "main", "new\n").is_err());
    }
}
