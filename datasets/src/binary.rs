//! Binary trees, one per line: `(label left right)` or `(label token)`, as in the Stanford
//! Sentiment Treebank.

use std::io::BufRead;
use std::path::Path;

use crate::brackets::{Arity, Brackets, pieces};
use crate::error::{Error, quoted};
use crate::lines::{Lines, each_line};
use crate::open::open;
use crate::tree::Tree;

/// Reads all binary trees of a file, plain or `.gz`.
pub fn read_binary_trees(path: impl AsRef<Path>) -> Result<Vec<Tree>, Error> {
    let name = path.as_ref().display().to_string();
    parse_binary_trees(open(path)?, &name).collect()
}

/// Iterates over the binary trees in `reader`, one per line. An empty line is an error. `name` is
/// the file name in error messages. The iterator continues after a malformed line and ends after
/// any other error.
///
/// ```
/// let text = "(2 (2 no) (2 one))\n(3 (2 only) (3 (2 child)))\n";
/// let mut trees = edbatch_datasets::parse_binary_trees(text.as_bytes(), "trees.txt");
/// assert_eq!(trees.next().unwrap()?.len(), 3);
/// let error = trees.next().unwrap().unwrap_err();
/// let expected = "trees.txt:2:25: expected a second child \
///     (join a node that has one child with it), got \")\"";
/// assert_eq!(error.to_string(), expected);
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
pub fn parse_binary_trees<R: BufRead>(
    reader: R,
    name: &str,
) -> impl Iterator<Item = Result<Tree, Error>> + use<R> {
    parse_checked_binary_trees(reader, name, |_| Ok(()))
}

/// Like [`parse_binary_trees`], but calls `check` with each label. If it fails with the text that
/// it expected, the tree is an error at this label.
///
/// ```
/// let digit = |label: &str| match label.parse::<u8>() {
///     Ok(0..=9) => Ok(()),
///     _ => Err("a digit".into()),
/// };
/// let text = "(2 (2 no) (neg one))";
/// let mut trees = edbatch_datasets::parse_checked_binary_trees(text.as_bytes(), "in", digit);
/// let error = trees.next().unwrap().unwrap_err();
/// assert_eq!(error.to_string(), "in:1:12: expected a digit, got \"neg\"");
/// ```
pub fn parse_checked_binary_trees<R: BufRead, C: FnMut(&str) -> Result<(), String>>(
    reader: R,
    name: &str,
    mut check: C,
) -> impl Iterator<Item = Result<Tree, Error>> + use<R, C> {
    each_line(reader, name, move |lines| tree_of_line(lines, &mut check))
}

fn tree_of_line<R: BufRead>(
    lines: &Lines<R>,
    mut check: impl FnMut(&str) -> Result<(), String>,
) -> Result<Tree, Error> {
    let line = lines.current();
    let mut brackets = Brackets::new(Arity::Two);
    let (mut complete, mut before) = (None, "");
    for (byte, piece) in pieces(line, 0) {
        let taken = match complete {
            None => brackets.take(piece),
            Some(_) => Err("the end of the line after a tree"),
        };
        complete = taken.map_err(|expected| lines.error(byte, expected, quoted(piece)))?;
        if before == "(" {
            check(piece).map_err(|expected| lines.error_at(piece, expected))?;
        }
        before = piece;
    }
    complete.ok_or_else(|| {
        let expected =
            if brackets.depth() == 0 { "\"(\"".to_string() } else { closing(brackets.depth()) };
        lines.error(line.len(), expected, "the end of the line")
    })
}

pub(crate) fn closing(depth: usize) -> String {
    format!("\")\" for {depth} open \"(\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &[&str]) {
        let show = |tree: Result<Tree, Error>| match tree {
            Ok(tree) => format!("{} nodes", tree.len()),
            Err(error) => error.to_string(),
        };
        let got: Vec<String> = parse_binary_trees(input.as_bytes(), "in").map(show).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn trees_are_read() {
        check("", &[]);
        check("(2 x)\n( 2  ( 1 a)(1 b) ) \n", &["1 nodes", "3 nodes"]);
        check("\t(2\tx)\n(2\t(1\ta)\t(1 b)\t)\t\n", &["1 nodes", "3 nodes"]);
    }

    #[test]
    fn no_break_spaces_are_part_of_tokens() {
        let tree =
            parse_binary_trees("(2 (2 1\u{a0}2) (2 b))".as_bytes(), "in").next().unwrap().unwrap();
        assert_eq!(tree.tokens().collect::<Vec<_>>(), ["1\u{a0}2", "b"]);
    }

    #[test]
    fn errors_have_line_and_column() {
        check("(2 x)\n\n", &["1 nodes", "in:2:1: expected \"(\", got the end of the line"]);
        check("x", &["in:1:1: expected \"(\", got \"x\""]);
        check("(2 (2 ü) (2 b) (2 c))", &["in:1:16: expected \")\" after two children, got \"(\""]);
        let one = "expected a second child (join a node that has one child with it)";
        check("(2 (2 ü))", &[&format!("in:1:9: {one}, got \")\"")]);
        check("(2)", &["in:1:3: expected a token or two children, got \")\""]);
        check("()", &["in:1:2: expected a label, got \")\""]);
        check("((2 a) (2 b))", &["in:1:2: expected a label, got \"(\""]);
        check("(2 a b)", &["in:1:6: expected \")\" after a token, got \"b\""]);
        check("(2 a (2 b))", &["in:1:6: expected \")\" after a token, got \"(\""]);
        check("(2 (2 a) b)", &["in:1:10: expected \"(\" or \")\" after a child, got \"b\""]);
        check(
            "(2 (2 a) (2 b)",
            &["in:1:15: expected \")\" for 1 open \"(\", got the end of the line"],
        );
        check("(2 a))", &["in:1:6: expected the end of the line after a tree, got \")\""]);
        check(
            "(2 a) (2 b)\n(2 c)",
            &["in:1:7: expected the end of the line after a tree, got \"(\"", "1 nodes"],
        );
    }

    #[test]
    fn trees_of_depth_100_000_are_read() {
        let mut text = "(2 (2 a) ".repeat(100_000);
        text += "(2 b)";
        text += &")".repeat(100_000);
        let trees: Vec<Tree> =
            parse_binary_trees(text.as_bytes(), "deep").collect::<Result<_, _>>().unwrap();
        assert_eq!(trees[0].depth(), 100_001);
        let unclosed =
            parse_binary_trees(&text.as_bytes()[..900_000], "deep").next().unwrap().unwrap_err();
        assert!(unclosed.to_string().contains("100000 open"), "{unclosed}");
    }
}
