//! N-ary trees in brackets: Penn Treebank constituents `(NP (DT the) (NN cat))` and S-expressions
//! `(Call (Name))`.
//!
//! A node has a label and then children, or one token, or nothing. A tree may span several lines,
//! and a line may contain several trees. The unlabelled outer bracket of the Penn Treebank,
//! `( (S …))`, is a node with an empty label.

use std::io::BufRead;
use std::path::Path;

use crate::binary::closing;
use crate::brackets::{Arity, Brackets, pieces};
use crate::error::{Error, quoted};
use crate::lines::{Lines, MAX_LINE, until_error};
use crate::open::open;
use crate::tree::Tree;

/// Reads all n-ary trees of a file, plain or `.gz`.
pub fn read_nary_trees(path: impl AsRef<Path>) -> Result<Vec<Tree>, Error> {
    let name = path.as_ref().display().to_string();
    parse_nary_trees(open(path)?, &name).collect()
}

/// Iterates over the n-ary trees in `reader`. Empty lines are skipped. `name` is the file name in
/// error messages. The iterator ends after its first error.
///
/// ```
/// let text = "(ROOT (NP (DT the)\n  (NN cat)))\n(arguments (arg) (arg))\n";
/// let trees = edbatch_datasets::parse_nary_trees(text.as_bytes(), "text");
/// let trees = trees.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(trees[0].tokens().collect::<Vec<_>>(), ["the", "cat"]);
/// assert_eq!((trees[1].len(), trees[1].token(0)), (3, None));
/// # Ok::<(), edbatch_datasets::Error>(())
/// ```
pub fn parse_nary_trees<R: BufRead>(
    reader: R,
    name: &str,
) -> impl Iterator<Item = Result<Tree, Error>> + use<R> {
    let (lines, brackets) = (Lines::new(reader, name), Brackets::new(Arity::Any));
    let mut trees = NaryTrees { lines, done: 0, size: 0, brackets };
    until_error(move || trees.read_tree())
}

struct NaryTrees<R> {
    lines: Lines<R>,
    /// The number of consumed bytes of the current line.
    done: usize,
    /// The number of bytes of the current tree on earlier lines.
    size: usize,
    brackets: Brackets,
}

impl<R: BufRead> NaryTrees<R> {
    fn read_tree(&mut self) -> Result<Option<Tree>, Error> {
        loop {
            if let Some(tree) = self.tree_in_line()? {
                self.size = 0;
                return Ok(Some(tree));
            }
            let end = self.done;
            if self.brackets.depth() > 0 {
                self.size += end;
                if self.size > MAX_LINE {
                    let expected =
                        format!("{} within {MAX_LINE} bytes", closing(self.brackets.depth()));
                    return Err(self.lines.error(end, expected, "a longer tree"));
                }
            }
            self.done = 0;
            if self.lines.next_line()?.is_none() {
                return match self.brackets.depth() {
                    0 => Ok(None),
                    depth => Err(self.lines.error_at_end(closing(depth))),
                };
            }
        }
    }

    /// Returns the next tree that ends in the current line, or `None` at the end of the line.
    fn tree_in_line(&mut self) -> Result<Option<Tree>, Error> {
        let line = self.lines.current();
        for (byte, piece) in pieces(line, self.done) {
            let tree = self.brackets.take(piece);
            let wrong = |expected| self.lines.error(byte, expected, quoted(piece));
            let tree = tree.map_err(wrong)?;
            if tree.is_some() {
                self.done = byte + piece.len();
                return Ok(tree);
            }
        }
        self.done = line.len();
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &[&str]) {
        let show = |tree: Result<Tree, Error>| match tree {
            Ok(tree) => format!("{} nodes, {} deep", tree.len(), tree.depth()),
            Err(error) => error.to_string(),
        };
        let got: Vec<String> = parse_nary_trees(input.as_bytes(), "in").map(show).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn trees_may_span_or_share_lines() {
        check("", &[]);
        check(
            "\n(a)\n\n(a (b\n(c)) \n )(d) (e (f x))\n",
            &["1 nodes, 1 deep", "3 nodes, 3 deep", "1 nodes, 1 deep", "2 nodes, 2 deep"],
        );
        check("( (S (NP (NN x))))", &["4 nodes, 4 deep"]);
        check("(NP\t(DT\tthe)\n\t\t(NN cat)\t)", &["3 nodes, 2 deep"]);
    }

    #[test]
    fn errors_have_line_and_column() {
        check("(a", &["in:2:1: expected \")\" for 1 open \"(\", got the end of the file"]);
        check("(a)\n(b ()", &["1 nodes, 1 deep", "in:2:5: expected a label, got \")\""]);
        check("(a) b (c)", &["1 nodes, 1 deep", "in:1:5: expected \"(\", got \"b\""]);
        check("(a\n b c)", &["in:2:4: expected \")\" after a token, got \"c\""]);
    }
}
