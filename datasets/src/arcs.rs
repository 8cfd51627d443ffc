//! Arc files: lattices as numbers, in the format that the ED-Batch authors publish.
//!
//! A file is a stream of integers: the number of instances; then for each instance the number of
//! its states, a label for every state, and for every state a count `k` and `k` pairs `from id`. A
//! label may be negative; all other numbers are not.
//! An arc from the previous state is a character, any other arc is a word. State 0 is the start and
//! has no arcs. Characters and words have separate numberings, which may have gaps. State `j` is
//! character `j - 1`, so a word arc from state `s` to state `j` spans characters `s … j - 1`.

use std::io::BufRead;
use std::path::Path;
use std::str::FromStr;

use crate::error::{Error, quoted};
use crate::lattice::{Lattice, WordArc};
use crate::lines::{Lines, until_error};
use crate::open::open;

/// The maximum number of states, and of arcs, in one instance of an arc file.
pub const MAX_ARCS: u32 = 1 << 22;

/// Reads all lattices of an arc file, plain or `.gz`.
pub fn read_arcs(path: impl AsRef<Path>) -> Result<Vec<Lattice<u32>>, Error> {
    let name = path.as_ref().display().to_string();
    parse_arcs(open(path)?, &name).collect()
}

/// Iterates over the lattices of the arc file in `reader`. Tags are the labels as text; `name` is
/// the file name in error messages. The iterator ends after its first error.
///
/// ```
/// // One instance of three states: characters 7 and 8, and word 40 over both.
/// let text = "1\n3\n0 5 6\n0\n1 0 7\n2 1 8 0 40\n";
/// let lattice = edbatch_datasets::parse_arcs(text.as_bytes(), "arcs").next().unwrap()?;
/// assert_eq!((lattice.chars, lattice.tags), (vec![7, 8], vec!["5".to_string(), "6".to_string()]));
/// assert_eq!((lattice.words[0].start, lattice.words[0].end, lattice.words[0].word), (0, 1, 40));
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
pub fn parse_arcs<R: BufRead>(
    reader: R,
    name: &str,
) -> impl Iterator<Item = Result<Lattice<u32>, Error>> + use<R> {
    parse_checked_arcs(reader, name, |_| Ok(()))
}

/// A number of an arc file whose range the file does not determine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArcNumber<'a> {
    /// The label of a state, except state 0.
    Label(&'a str),
    /// A character.
    Char(u32),
    /// A word.
    Word(u32),
}

/// Like [`parse_arcs`], but calls `check` with each [`ArcNumber`]. If it fails with the text that
/// it expected, the lattice is an error at this number, and the iterator continues.
pub fn parse_checked_arcs<R: BufRead, C: FnMut(ArcNumber<'_>) -> Result<(), String>>(
    reader: R,
    name: &str,
    mut check: C,
) -> impl Iterator<Item = Result<Lattice<u32>, Error>> + use<R, C> {
    let mut numbers = Numbers { lines: Lines::new(reader, name), begin: 0, end: 0 };
    let (mut declared, mut done) = (None::<u32>, 0);
    let lattices = until_error(move || {
        let count = match declared {
            Some(count) => count,
            None => *declared.insert(numbers.next("the number of instances")?),
        };
        if done < count {
            done += 1;
            let mut checked = Ok(());
            let mut check = |numbers: &Numbers<R>, number: ArcNumber<'_>| {
                if checked.is_ok() {
                    checked = check(number).map_err(|expected| numbers.error(expected));
                }
            };
            let lattice = read_instance(&mut numbers, &mut check)?;
            return Ok(Some((lattice, checked)));
        }
        match numbers.advance()? {
            true => Err(numbers.error(format!("the end of the file after {count} instances"))),
            false => Ok(None),
        }
    });
    lattices.map(|read| read.and_then(|(lattice, checked)| checked.map(|()| lattice)))
}

/// Reads a lattice. Calls `check` with each number right after it was read.
fn read_instance<R: BufRead>(
    numbers: &mut Numbers<R>,
    check: &mut impl FnMut(&Numbers<R>, ArcNumber<'_>),
) -> Result<Lattice<u32>, Error> {
    let states: u32 = numbers.next("a number of states")?;
    if states == 0 || states > MAX_ARCS {
        return Err(numbers.error(format!("1 to {MAX_ARCS} states")));
    }
    // No memory is reserved for the declared number: values are stored as they are read.
    let mut lattice = Lattice::default();
    for state in 0..states {
        let label: i64 = numbers.next("a label for every state")?;
        // State 0 is before the first character, so its label is not a character's tag.
        if state > 0 {
            let label = label.to_string();
            check(numbers, ArcNumber::Label(&label));
            lattice.tags.push(label);
        }
    }
    (0..states).try_for_each(|state| read_state(numbers, state, &mut lattice, check))?;
    Ok(lattice)
}

fn read_state<R: BufRead>(
    numbers: &mut Numbers<R>,
    state: u32,
    lattice: &mut Lattice<u32>,
    check: &mut impl FnMut(&Numbers<R>, ArcNumber<'_>),
) -> Result<(), Error> {
    let arcs: u32 = numbers.next("a number of arcs")?;
    if state == 0 && arcs > 0 {
        return Err(numbers.error("no arc into state 0"));
    }
    if arcs as usize > MAX_ARCS as usize - lattice.words.len() {
        return Err(numbers.error(format!("at most {MAX_ARCS} arcs in an instance")));
    }
    for _ in 0..arcs {
        let from: u32 = numbers.next("the state that an arc comes from")?;
        if from >= state {
            return Err(numbers.error(format!("an arc from a state before {state}")));
        }
        // An arc from the previous state is the character itself.
        let is_second_character = from == state - 1 && lattice.chars.len() == state as usize;
        if is_second_character {
            return Err(numbers.error(format!("one character arc into state {state}")));
        }
        let id = numbers.next("a character or a word")?;
        if from == state - 1 {
            check(numbers, ArcNumber::Char(id));
            lattice.chars.push(id);
        } else {
            check(numbers, ArcNumber::Word(id));
            lattice.words.push(WordArc { start: from, end: state - 1, word: id });
        }
    }
    if lattice.chars.len() < state as usize {
        return Err(
            numbers.error(format!("a character arc into state {state}, from {}", state - 1))
        );
    }
    Ok(())
}

/// The numbers of a file, regardless of line breaks.
struct Numbers<R> {
    lines: Lines<R>,
    /// The bytes `begin..end` of the current line are the current number.
    begin: usize,
    end: usize,
}

impl<R: BufRead> Numbers<R> {
    fn next<T: FromStr>(&mut self, expected: &str) -> Result<T, Error> {
        if !self.advance()? {
            return Err(self.lines.error_at_end(expected));
        }
        self.text().parse().map_err(|_| self.error(expected))
    }

    /// Moves to the next word between ASCII spaces and line ends. Returns false at the end of the
    /// file.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            let line = self.lines.current();
            let rest = &line[self.end..];
            if let Some(gap) = rest.find(|c| c != ' ') {
                self.begin = self.end + gap;
                self.end =
                    line[self.begin..].find(' ').map_or(line.len(), |length| self.begin + length);
                return Ok(true);
            }
            (self.begin, self.end) = (0, 0);
            if self.lines.next_line()?.is_none() {
                return Ok(false);
            }
        }
    }

    fn text(&self) -> &str {
        &self.lines.current()[self.begin..self.end]
    }

    /// Returns the error that the current number is not what was expected.
    fn error(&self, expected: impl Into<String>) -> Error {
        self.lines.error(self.begin, expected, quoted(self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &[&str]) {
        let show = |lattice: Result<Lattice<u32>, Error>| match lattice {
            Ok(lattice) => format!("{} chars {} words", lattice.len(), lattice.words.len()),
            Err(error) => error.to_string(),
        };
        let got: Vec<String> = parse_arcs(input.as_bytes(), "in").map(show).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn line_breaks_do_not_matter() {
        check("0", &[]);
        check(
            "2 1 0 0\n\n 3 0 5 6 0\n1 0 7 2 1\n8 0 40 \n\n",
            &["0 chars 0 words", "2 chars 1 words"],
        );
    }

    #[test]
    fn labels_alone_may_be_negative() {
        check("1 2 -5 -1\n0 1 0 7\n", &["1 chars 0 words"]);
        check("1 2 0 0\n0 1 0 -1\n", &["in:2:7: expected a character or a word, got \"-1\""]);
        check("1\t2 0 0", &["in:1:1: expected the number of instances, got \"1\\t2\""]);
    }

    #[test]
    fn an_error_of_the_check_has_its_place() {
        let text = "2\n3 0 5 6\n0\n1 0 7\n2 1 8 0 40\n2 0 1\n0\n1 0 9\n";
        let small = |number: ArcNumber<'_>| match number {
            ArcNumber::Label("5") | ArcNumber::Char(8) | ArcNumber::Word(40) => Err("less".into()),
            _ => Ok(()),
        };
        let lattices = parse_checked_arcs(text.as_bytes(), "in", small);
        let lattices: Vec<_> = lattices.map(|l| l.map_err(|e| e.to_string())).collect();
        assert_eq!(lattices[0], Err("in:2:5: expected less, got \"5\"".into()));
        assert_eq!(lattices[1].as_ref().unwrap().chars, [9]);
        let word = |number: ArcNumber<'_>| {
            if number == ArcNumber::Word(40) { Err("less".into()) } else { Ok(()) }
        };
        let error = parse_checked_arcs(text.as_bytes(), "in", word).next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "in:5:9: expected less, got \"40\"");
    }

    #[test]
    fn huge_declared_sizes_allocate_nothing() {
        check("4294967295", &["in:2:1: expected a number of states, got the end of the file"]);
        check("1 4294967295 0", &["in:1:3: expected 1 to 4194304 states, got \"4294967295\""]);
        check(
            "1 4194304 0",
            &["in:2:1: expected a label for every state, got the end of the file"],
        );
        check(
            "1 2 0 0\n0\n4294967295",
            &["in:3:1: expected at most 4194304 arcs in an instance, got \"4294967295\""],
        );
        check("99999999999", &["in:1:1: expected the number of instances, got \"99999999999\""]);
    }

    #[test]
    fn errors_have_line_and_column() {
        check("", &["in:1:1: expected the number of instances, got the end of the file"]);
        check("1 0", &["in:1:3: expected 1 to 4194304 states, got \"0\""]);
        check("1 1 0\n1 0 5", &["in:2:1: expected no arc into state 0, got \"1\""]);
        check("1 2 0 0\n0\n1 1 5", &["in:3:3: expected an arc from a state before 1, got \"1\""]);
        check(
            "1 2 0 0\n0\n0\n",
            &["in:3:1: expected a character arc into state 1, from 0, got \"0\""],
        );
        check(
            "1 2 0 0\n0\n2 0 5 0 6",
            &["in:3:7: expected one character arc into state 1, got \"0\""],
        );
        check(
            "1 1 0 0 1",
            &[
                "0 chars 0 words",
                "in:1:9: expected the end of the file after 1 instances, got \"1\"",
            ],
        );
        check("-1", &["in:1:1: expected the number of instances, got \"-1\""]);
    }
}
