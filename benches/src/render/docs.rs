//! Tables between markers in README and docs, written from records.
//!
//! A block starts with a line `<!-- bench:NAME -->` and ends with a line `<!-- /bench:NAME -->`.

use std::fs;
use std::path::Path;

use edbatch_datasets::write_atomic;

use crate::Failure;
use crate::measure::peers::program::Program;
use crate::record::sorted::{Sorted, groups};
use crate::record::{Peer, Record};
use crate::render::headline::{front, main_rows, rows, speeds};
use crate::render::paper::cortex;
use crate::render::table::Table;
use crate::render::tables::TRAINING;
use crate::text::{whole, wrapped};

/// The files with blocks.
const FILES: [&str; 3] = ["README.md", "docs/benchmarks.md", "docs/training.md"];
/// Maximum characters of a line of prose.
const WIDTH: usize = 100;

/// Writes the tables into the files under a folder. Prints the blocks kept for lack of records.
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
                    eprintln!("{name}: no records for {block}; it is unchanged");
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

/// Replaces the content of a block, if the text has that block.
fn splice(text: &str, block: &str, content: &str) -> std::io::Result<String> {
    let (begin, end) = (begin(block), format!("<!-- /bench:{block} -->"));
    let Some((before, rest)) = text.split_once(&begin) else { return Ok(text.into()) };
    let Some((_, after)) = rest.split_once(&end) else {
        return Err(std::io::Error::other(format!("expected a line {end}")));
    };
    Ok(format!("{before}{begin}\n{content}\n{end}{after}"))
}

/// Returns the blocks by name, with their content if there are records.
pub fn blocks(records: &[Record]) -> [(&'static str, Option<String>); 6] {
    let sorted = Sorted::new(records);
    let rows = rows(&sorted);
    let measured = records.last().map(|record| {
        let text = format!("Measured with `cargo xtask bench --docs` on {}.", record.machine);
        wrapped(&text, WIDTH).join("\n")
    });
    let block = |table: Table| {
        let measured = measured.as_ref().filter(|_| !table.rows.is_empty())?;
        Some(format!("{measured}\n\n{table:#}"))
    };
    [
        ("main", block(front(&main_rows(&rows)))),
        ("sizes", block(speeds("", &rows))),
        ("peers", block(peers(&sorted.peers))),
        ("training", block(Table::of("", 2, &TRAINING, &sorted.trainings))),
        ("cortex", block(Table { title: String::new(), ..cortex(&sorted) })),
        (
            "soak",
            sorted.soaks.last().zip(measured.as_ref()).map(|(soak, measured)| {
                format!("{measured}\n\n{}.", wrapped(&soak.verdict(), WIDTH).join("\n"))
            }),
        ),
    ]
}

/// The best size of mini-batches for each program and for us, by workload and size of vectors.
fn peers(peers: &[&Peer]) -> Table {
    let all = Program::ALL.into_iter();
    let programs: Vec<Program> =
        all.filter(|&program| of_program(program, peers).next().is_some()).collect();
    let header = ["model", "set", "H"].map(String::from).into_iter();
    let names = programs.iter().map(|program| format!("{}, best", program.name()));
    let names = names.chain(["ours, best".into()]).flat_map(|name| [name, "batch".into()]);
    let ratios = programs.iter().map(|program| format!("/ {}", program.name()));
    let mut table = Table::new("", 2, header.chain(names).chain(ratios));
    for group in groups(peers, |r: &Peer| (r.case.workload(), r.case.backend.clone())) {
        let first = group[0];
        let mut row = vec![format!("`{}`", first.case.model), first.case.input.clone()];
        row.push(first.case.hidden.to_string());
        let theirs = |&program| {
            let speeds = of_program(program, group);
            best(speeds.map(|peer| (peer.instances_per_second, peer.case.batch)))
        };
        let own = |peer: &&Peer| (peer.edbatch_instances_per_second, peer.edbatch_batch);
        let ours = best(group.iter().map(own));
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

/// Returns the records of a program.
fn of_program<'a>(program: Program, peers: &[&'a Peer]) -> impl Iterator<Item = &'a Peer> {
    let of = move |peer: &&Peer| Program::of_system(&peer.system) == Some(program);
    peers.iter().copied().filter(of)
}

/// Returns the highest speed, with the size of its mini-batches.
fn best(speeds: impl Iterator<Item = (f64, usize)>) -> Option<(f64, usize)> {
    speeds.max_by(|a, b| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::splice;

    #[test]
    fn only_the_block_is_replaced() {
        let text = "a\n<!-- bench:main -->\nold\n<!-- /bench:main -->\nb\n";
        let new = splice(text, "main", "new\n").unwrap();
        assert_eq!(new, "a\n<!-- bench:main -->\n\nnew\n\n<!-- /bench:main -->\nb\n");
        assert_eq!(splice(&new, "main", "new\n").unwrap(), new);
        assert_eq!(splice(text, "other", "new\n").unwrap(), text);
        assert!(splice("<!-- bench:main -->\n", "main", "new\n").is_err());
    }
}
