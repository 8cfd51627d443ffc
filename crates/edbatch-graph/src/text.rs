//! The text format of the graphs that the ED-Batch authors published.
//!
//! The first line is the number of nodes. A line for each node follows: its kind, the number of its
//! arguments, and their node numbers, counted from 0. Arguments precede their readers. Kinds are
//! arbitrary numbers; the reader maps them to dense [`Kind`]s in ascending order and keeps the
//! numbers as names.
//!
//! *Source*: the dumps of the authors' program, which say *type* for kind.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::{Dag, Kind, NodeId, PlainDag};

/// The maximum number of kinds.
const MAX_KINDS: usize = 1 << 16;

/// Reads a graph in the text format.
///
/// ```
/// let dag = edbatch_graph::parse_text("3\n7 0\n7 0\n9 2 0 1\n")?;
/// assert_eq!(dag.to_string(), "n0 = 7()\nn1 = 7()\nn2 = 9(n0, n1)\n");
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
///
/// # Errors
/// With the line number: if a field is not a number, if a node reads a node that does not precede
/// it, if there are too few or too many fields or lines, or if there are more than 65,536 kinds.
/// Memory use is linear in the length of the text, even if the text declares more nodes.
pub fn parse_text(text: &str) -> Result<PlainDag, TextError> {
    let whole = text;
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let (line, header) = lines.next().ok_or(TextError::new(1, TextErrorKind::Empty))?;
    let mut fields = Fields { line, rest: header.split_ascii_whitespace() };
    let nodes = fields.number("the number of nodes")?;
    fields.end()?;

    let (mut types, mut first, mut arguments) = (Vec::new(), vec![0], Vec::new());
    let mut last_line = line;
    for (line, text) in lines.filter(|(_, text)| !text.trim_ascii().is_empty()) {
        last_line = line;
        let node = types.len() as u64;
        if node == nodes {
            return Err(TextError::new(line, TextErrorKind::SurplusLine { nodes }));
        }
        let mut fields = Fields { line, rest: text.split_ascii_whitespace() };
        types.push(fields.number("a kind")?);
        for _ in 0..fields.number("the number of inputs")? {
            let id = fields.number("an input's id")?;
            if id >= node {
                return Err(TextError::new(line, TextErrorKind::NotEarlier { node, id, nodes }));
            }
            arguments.push(NodeId::new(id as usize));
        }
        fields.end()?;
        first.push(arguments.len());
    }
    if (types.len() as u64) < nodes {
        let got = types.len() as u64;
        return Err(TextError::new(last_line + 1, TextErrorKind::TooShort { nodes, got }));
    }
    dag_of(&types, &first, &arguments).ok_or_else(|| too_many(&types, whole))
}

/// Writes a graph in the text format. Each kind is written as its index.
///
/// ```
/// let text = "3\n0 0\n0 0\n1 2 0 1\n";
/// let dag = edbatch_graph::parse_text(text)?;
/// assert_eq!(edbatch_graph::write_text(&dag), text);
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
#[must_use]
pub fn write_text(dag: &impl Dag) -> String {
    let mut text = format!("{}\n", dag.nodes());
    for node in (0..dag.nodes()).map(NodeId::new) {
        let arguments = dag.arguments(node);
        let (mut count, mut ids) = (0, String::new());
        for argument in arguments {
            count += 1;
            write!(ids, " {}", argument.0).expect("writing to a string");
        }
        writeln!(text, "{} {count}{ids}", dag.kind(node).0).expect("writing to a string");
    }
    text
}

/// Builds the graph. Returns `None` if there are more than [`MAX_KINDS`] distinct types (kinds).
fn dag_of(types: &[u64], first: &[usize], arguments: &[NodeId]) -> Option<PlainDag> {
    let mut distinct = types.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() > MAX_KINDS {
        return None;
    }
    let mut dag = PlainDag::new(distinct.iter().map(u64::to_string));
    for (node, number) in types.iter().enumerate() {
        let kind = distinct.binary_search(number).expect("every type is among the distinct ones");
        let arguments = &arguments[first[node]..first[node + 1]];
        dag.push(Kind::new(kind), arguments).expect("arguments were checked while reading");
    }
    Some(dag)
}

/// Returns the error with the line of the first node whose type exceeds the limit.
#[cold]
fn too_many(types: &[u64], text: &str) -> TextError {
    let mut known = HashSet::new();
    let node = types
        .iter()
        .position(|&number| known.insert(number) && known.len() > MAX_KINDS)
        .expect("more types than kinds");
    let mut lines = text.lines().enumerate().skip(1);
    let (line, _) = lines
        .by_ref()
        .filter(|(_, text)| !text.trim_ascii().is_empty())
        .nth(node)
        .expect("a line per node");
    let types = types.iter().collect::<HashSet<_>>().len();
    TextError::new(line + 1, TextErrorKind::TooManyTypes { types })
}

/// The fields of one line.
struct Fields<'a> {
    line: usize,
    rest: std::str::SplitAsciiWhitespace<'a>,
}

impl Fields<'_> {
    fn number(&mut self, expected: &'static str) -> Result<u64, TextError> {
        let field = self.rest.next().unwrap_or("the end of the line");
        // `parse` accepts a sign, the format does not.
        let digits = field.bytes().all(|byte| byte.is_ascii_digit());
        let number = field.parse().ok().filter(|_| digits);
        number.ok_or_else(|| {
            let got = beginning(field);
            TextError::new(self.line, TextErrorKind::NoNumber { expected, got })
        })
    }

    fn end(&mut self) -> Result<(), TextError> {
        match self.rest.next() {
            None => Ok(()),
            Some(field) => {
                let got = beginning(field);
                Err(TextError::new(self.line, TextErrorKind::SurplusField { got }))
            }
        }
    }
}

/// Shortens and escapes a field for an error message.
fn beginning(field: &str) -> String {
    let mut chars = field.chars();
    let mut shown: String = chars.by_ref().take(40).flat_map(char::escape_debug).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// The error of an invalid text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct TextError {
    /// The line, counted from 1.
    pub line: usize,
    /// The kind of error.
    pub kind: TextErrorKind,
}

/// The kinds of errors in a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextErrorKind {
    /// The text is empty.
    #[error("expected the number of nodes, got an empty file")]
    Empty,
    /// A field is missing, or is not a 64-bit number.
    #[error("expected {expected}, got {got}")]
    NoNumber {
        /// The meaning of the number.
        expected: &'static str,
        /// The field, shortened if it is long.
        got: String,
    },
    /// A line has more fields than expected.
    #[error("expected the end of the line, got {got}")]
    SurplusField {
        /// The first extra field, shortened if it is long.
        got: String,
    },
    /// There are more nodes than the first line says.
    #[error("expected the end of the file after {nodes} nodes, got another line")]
    SurplusLine {
        /// The number in the first line.
        nodes: u64,
    },
    /// A node reads itself, a later node, or a node that does not exist.
    #[error(
        "node {node} reads node {id}, {}",
        if id < nodes {
            "which does not precede it: expected no cycles or forward references".into()
        } else {
            format!("but there are only {nodes} nodes")
        }
    )]
    NotEarlier {
        /// The reader.
        node: u64,
        /// The node that it reads.
        id: u64,
        /// The number of nodes.
        nodes: u64,
    },
    /// There are fewer nodes than the first line says.
    #[error("expected {nodes} nodes, got {got} before the end of the file")]
    TooShort {
        /// The number in the first line.
        nodes: u64,
        /// The actual number.
        got: u64,
    },
    /// The nodes have more than 65,536 distinct types (kinds).
    #[error("{types} different kinds, expected at most 65536")]
    TooManyTypes {
        /// The number of distinct types.
        types: usize,
    },
}

impl TextError {
    fn new(line: usize, kind: TextErrorKind) -> Self {
        Self { line, kind }
    }
}
