//! Writers of the text formats that this crate reads.
//!
//! Text that a format cannot represent, such as a word with a space or a label with a bracket, is
//! an error of kind `InvalidInput`. Otherwise reading would return something else.

use std::io::{self, Write};

use serde::Serialize;

use crate::lattice::Lattice;
use crate::pair::Pair;
use crate::sentence::Sentence;
use crate::tree::Tree;

/// Writes trees, binary or n-ary, one per line.
///
/// ```
/// let text = "(S (NP (NN x)) (VP))\n";
/// let trees = edbatch_datasets::parse_nary_trees(text.as_bytes(), "text");
/// let trees = trees.collect::<Result<Vec<_>, _>>().unwrap();
/// let mut written = Vec::new();
/// edbatch_datasets::write_trees(&trees, &mut written)?;
/// assert_eq!(written, text.as_bytes());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_trees(trees: &[Tree], mut writer: impl Write) -> io::Result<()> {
    trees.iter().try_for_each(|tree| write_tree(tree, &mut writer))
}

/// Writes sentences as `word|TAG …`, one per line. A word without a tag is followed by `|` only if
/// the word contains a `|` itself.
pub fn write_sentences(sentences: &[Sentence], mut writer: impl Write) -> io::Result<()> {
    for sentence in sentences {
        for (position, (word, tag)) in sentence.words.iter().zip(&sentence.tags).enumerate() {
            let space = if position == 0 { "" } else { " " };
            check_token(word, &[' ', '\t', '\n', '\r'])?;
            match tag {
                Some(tag) => {
                    check_token(tag, &[' ', '\t', '\n', '\r', '|'])?;
                    write!(writer, "{space}{word}|{tag}")?;
                }
                None if word.contains('|') => write!(writer, "{space}{word}|")?,
                None => write!(writer, "{space}{word}")?,
            }
        }
        writeln!(writer)?;
    }
    Ok(())
}

/// Writes pairs to two line-aligned files.
pub fn write_pairs(
    pairs: &[Pair],
    mut source: impl Write,
    mut target: impl Write,
) -> io::Result<()> {
    for pair in pairs {
        write_plain_line(&pair.source, &mut source)?;
        write_plain_line(&pair.target, &mut target)?;
    }
    Ok(())
}

/// Writes lattices as JSON, one per line.
pub fn write_lattices(lattices: &[Lattice], mut writer: impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct JsonLattice<'a> {
        chars: &'a [String],
        words: Vec<(u32, u32, &'a str)>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        tags: &'a [String],
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        labels: &'a [Option<i64>],
    }
    for Lattice { chars, words, tags, labels } in lattices {
        let words = words.iter().map(|arc| (arc.start, arc.end, arc.word.as_str())).collect();
        serde_json::to_writer(&mut writer, &JsonLattice { chars, words, tags, labels })?;
        writeln!(writer)?;
    }
    Ok(())
}

fn write_tree(tree: &Tree, writer: &mut impl Write) -> io::Result<()> {
    if tree.is_empty() {
        return Err(invalid("an empty tree has no text"));
    }
    // The nodes to open, each with the number of brackets to close when it is complete.
    let mut open = vec![(tree.root(), 0_usize)];
    while let Some((node, closing)) = open.pop() {
        let children = tree.children(node);
        write_opening(tree, node, writer)?;
        if children.is_empty() {
            write!(writer, ")")?;
            // Close this leaf, and every parent whose last descendant it is.
            for _ in 0..closing {
                write!(writer, ")")?;
            }
        }
        for (position, &child) in children.iter().enumerate().rev() {
            let ends_parent = position + 1 == children.len();
            open.push((child as usize, if ends_parent { closing + 1 } else { 0 }));
        }
    }
    writeln!(writer)
}

fn write_opening(tree: &Tree, node: usize, writer: &mut impl Write) -> io::Result<()> {
    const NEVER: [char; 6] = [' ', '\t', '(', ')', '\n', '\r'];
    let (label, is_leaf) = (tree.label(node), tree.children(node).is_empty());
    if is_leaf || !label.is_empty() {
        check_token(label, &NEVER)?;
    }
    let space = if node == tree.root() { "" } else { " " };
    write!(writer, "{space}({label}")?;
    if let Some(token) = tree.token(node) {
        check_token(token, &NEVER)?;
        if !is_leaf {
            return Err(invalid("a node has a token and children"));
        }
        write!(writer, " {token}")?;
    }
    Ok(())
}

fn write_plain_line(words: &[String], writer: &mut impl Write) -> io::Result<()> {
    for (position, word) in words.iter().enumerate() {
        check_token(word, &[' ', '\t', '\n', '\r'])?;
        let space = if position == 0 { "" } else { " " };
        write!(writer, "{space}{word}")?;
    }
    writeln!(writer)
}

/// Rejects a token that is empty or contains one of the characters `never`.
pub(crate) fn check_token(token: &str, never: &[char]) -> io::Result<()> {
    if token.is_empty() || token.contains(never) {
        return Err(invalid(&format!("this format cannot represent the token {token:?}")));
    }
    Ok(())
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
