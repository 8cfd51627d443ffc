//! Checks the output of examples against the text file next to each, or against the block that its
//! documentation quotes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, root};

/// Examples whose output is not compared, with the reason.
const NOT_COMPARED: [(&str, &str); 9] = [
    ("3_walkthrough", "is quoted in docs/walkthrough.md, which a test compares"),
    ("derivations", "prints times; a test of the crate checks its bits and its memory"),
    ("figures", "prints times"),
    ("aligned", "reads files given as arguments; a test of the crate covers it"),
    ("c1p", "reads files given as arguments; tests of the crate cover it"),
    ("plans", "prints times; a test of the crate checks its bits"),
    ("generate", "writes files; a test of the crate compares them with the fixtures"),
    ("networks", "writes files; tests of the crate run programs in C with them"),
    ("borrowed", "needs a CUDA driver; the check cuda-driver runs it"),
];

/// Builds and runs all examples, and prints those with unexpected output. Returns true if all
/// outputs are as expected.
pub(super) fn pass() -> Result<bool, Failure> {
    let build = ["build", "--workspace", "--all-features", "--examples"];
    if !Command::new("cargo").args(build).current_dir(root()).status()?.success() {
        return Ok(false);
    }
    let examples = all()?;
    let mut passed = true;
    for (name, _) in NOT_COMPARED {
        if !examples.iter().any(|example| name_of(example) == name) {
            println!("{name}: in the list of exceptions, but there is no such example");
            passed = false;
        }
    }
    for example in examples {
        let name = name_of(&example);
        if let Some((_, reason)) = NOT_COMPARED.iter().find(|(other, _)| *other == name) {
            println!("{name}: not compared, because it {reason}");
            continue;
        }
        match compare(&example) {
            Ok(()) => println!("{name}: as expected"),
            Err(error) => {
                println!("{name}: {error}");
                passed = false;
            }
        }
    }
    Ok(passed)
}

/// The source files of all examples: `main.rs` for an example in a folder.
fn all() -> Result<Vec<PathBuf>, Failure> {
    let mut folders = vec![root().join("datasets/examples")];
    for entry in fs::read_dir(root().join("crates"))? {
        folders.push(entry?.path().join("examples"));
    }
    let mut sources = Vec::new();
    for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let main = path.join("main.rs");
            if main.is_file() {
                sources.push(main);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(sources)
}

fn name_of(source: &Path) -> String {
    let named = if source.ends_with("main.rs") { source.parent() } else { Some(source) };
    named.and_then(Path::file_stem).unwrap_or_default().to_string_lossy().into_owned()
}

fn compare(source: &Path) -> Result<(), Failure> {
    let expected = match fs::read_to_string(source.with_extension("txt")) {
        Ok(text) => text,
        Err(_) => quoted(&fs::read_to_string(source)?).ok_or(
            "no expected output: add a text file next to it, or quote the output in its docs",
        )?,
    };
    // Cargo builds examples next to this program, in the folder of the profile.
    let profile = std::env::current_exe()?.parent().ok_or("xtask has no folder")?.to_owned();
    let output = Command::new(profile.join("examples").join(name_of(source)))
        .current_dir(root())
        .output()?;
    if !output.status.success() {
        return Err(format!("fails: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let printed = String::from_utf8(output.stdout)?;
    match first_difference(&expected, &printed) {
        None => Ok(()),
        Some((line, expected, printed)) => {
            Err(format!("line {line}: expected `{expected}`, printed `{printed}`").into())
        }
    }
}

/// Returns the first block of text in an example's documentation that is not a command.
fn quoted(source: &str) -> Option<String> {
    let documentation: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let documentation = documentation.join("\n");
    let blocks = documentation.split("```text\n").skip(1);
    blocks
        .filter_map(|block| block.split("```").next())
        .find(|block| !block.starts_with("cargo "))
        .map(String::from)
}

/// Returns the first line that differs: its number, the expected and the printed text.
fn first_difference(expected: &str, printed: &str) -> Option<(usize, String, String)> {
    let (mut expected, mut printed) = (expected.trim_end().lines(), printed.trim_end().lines());
    for line in 1.. {
        let (e, p) = (expected.next(), printed.next());
        if e.is_none() && p.is_none() {
            break;
        }
        let (e, p) = (e.unwrap_or("end of output"), p.unwrap_or("end of output"));
        if !same_line(e, p) {
            return Some((line, e.into(), p.into()));
        }
    }
    None
}

/// Returns true if two lines are equal, except for the last digits of fractions, because
/// instruction sets round differently.
fn same_line(expected: &str, printed: &str) -> bool {
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let parts = |line: &str| -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        let mut within = None;
        for c in line.chars() {
            if within == Some(is_number(c)) {
                parts.last_mut().expect("a part has begun").push(c);
            } else {
                parts.push(c.into());
            }
            within = Some(is_number(c));
        }
        parts
    };
    let (expected, printed) = (parts(expected), parts(printed));
    let same = |(e, p): (&String, &String)| match (fraction(e), fraction(p)) {
        (Some(e), Some(p)) => (e - p).abs() <= 1e-4,
        _ => e == p,
    };
    expected.len() == printed.len() && expected.iter().zip(&printed).all(same)
}

fn fraction(part: &str) -> Option<f64> {
    if part.contains('.') { part.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quoted_output_is_the_first_block_without_a_command() {
        let source = "//! Title.\n//!\n//! ```text\n//! cargo run\n//! ```\n//!\n\
                      //! ```text\n//! 1\n//!  2\n//! ```\n";
        assert_eq!(quoted(source).as_deref(), Some("1\n 2\n"));
        assert_eq!(quoted("//! ```text\n//! cargo run\n//! ```\nfn main() {}"), None);
        assert_eq!(quoted("fn main() {}\n//! ```text\n//! 1\n//! ```\n"), None);
    }

    #[test]
    fn lines_may_differ_only_in_the_last_digits() {
        assert_eq!(first_difference("a [0.12345, -1.5] 7\nb", "a [0.12341, -1.5] 7\nb\n"), None);
        assert_eq!(first_difference("3 calls", "4 calls").map(|(line, ..)| line), Some(1));
        assert_eq!(first_difference("a\n0.1", "a\n0.2").map(|(line, ..)| line), Some(2));
        assert_eq!(first_difference("a\nb", "a").map(|(line, ..)| line), Some(2));
        assert_eq!(first_difference("a", "a\nb").map(|(line, ..)| line), Some(2));
        assert_eq!(first_difference("0.5 x", "0.5 y").map(|(line, ..)| line), Some(1));
    }
}
