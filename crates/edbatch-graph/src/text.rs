//! The text format of published batch graphs.
//!
//! First the number of nodes, then a line per node: its kind, how many arguments it has,
//! and which, as numbers of nodes counted from 0; arguments stand before users. *Source*: the dumps
//! of the ED-Batch authors' program, whose word for a kind is type. Kinds are arbitrary numbers
//! there; here they become dense [`Kind`]s in ascending order and keep their number as name.

use std::collections::HashSet;
use std::fmt;
use std::fmt::Write as _;

use crate::{Dag, Kind, NodeId, PlainDag};

/// As many as a [`Kind`] can number.
const KINDS: usize = 1 << 16;

/// Reads a graph in the text format.
///
/// ```
/// let dag = edbatch_graph::parse_text("3\n7 0\n7 0\n9 2 0 1\n")?;
/// assert_eq!(dag.to_string(), "n0 = 7()\nn1 = 7()\nn2 = 9(n0, n1)\n");
/// # Ok::<(), edbatch_graph::TextError>(())
/// ```
///
/// # Errors
/// With the line number: a field that is no number, a node that reads itself, a later node or one
/// that does not exist, too few or too many ids or lines, more than 65,536 kinds. Memory is taken
/// by what is there, never by what a number claims.
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

/// Writes a graph in the text format; types are the kinds' numbers.
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

/// `None` if there are more types than kinds.
fn dag_of(types: &[u64], first: &[usize], arguments: &[NodeId]) -> Option<PlainDag> {
    let mut distinct = types.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() > KINDS {
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

/// Names the line on which the first type too many stands.
#[cold]
fn too_many(types: &[u64], text: &str) -> TextError {
    let mut known = HashSet::new();
    let node = types
        .iter()
        .position(|&number| known.insert(number) && known.len() > KINDS)
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

/// The fields of one line, and errors that know it.
struct Fields<'a> {
    line: usize,
    rest: std::str::SplitAsciiWhitespace<'a>,
}

impl Fields<'_> {
    fn number(&mut self, expected: &'static str) -> Result<u64, TextError> {
        let field = self.rest.next().unwrap_or("the end of the line");
        // `parse` takes a sign, the format has none.
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

/// What a message shows of a field: not all of a long one, and nothing that moves a cursor.
fn beginning(field: &str) -> String {
    let mut chars = field.chars();
    let mut shown: String = chars.by_ref().take(40).flat_map(char::escape_debug).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// What is wrong with a text graph, and on which line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub kind: TextErrorKind,
}

/// What can be wrong with a text graph.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TextErrorKind {
    /// The file has no line.
    Empty,
    /// A field is missing, is no number, or is a number beyond 64 bits.
    NoNumber {
        /// What the number would have been.
        expected: &'static str,
        /// The field; of a long one, its beginning.
        got: String,
    },
    /// A line goes on after its last field.
    SurplusField {
        /// The field; of a long one, its beginning.
        got: String,
    },
    /// There are more nodes than the first line says.
    SurplusLine {
        /// The number that the first line says.
        nodes: u64,
    },
    /// A node reads itself, a later node, or one that does not exist.
    NotEarlier {
        /// The node that reads.
        node: u64,
        /// The node that is read.
        id: u64,
        /// The number of nodes.
        nodes: u64,
    },
    /// There are fewer nodes than the first line says.
    TooShort {
        /// The number that the first line says.
        nodes: u64,
        /// How many there are.
        got: u64,
    },
    /// More types than a [`Kind`] can number.
    TooManyTypes {
        /// How many there are.
        types: usize,
    },
}

impl TextError {
    fn new(line: usize, kind: TextErrorKind) -> Self {
        Self { line, kind }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            TextErrorKind::Empty => write!(f, "expected the number of nodes, got an empty file"),
            TextErrorKind::NoNumber { expected, got } => {
                write!(f, "expected {expected}, got {got}")
            }
            TextErrorKind::SurplusField { got } => {
                write!(f, "expected the end of the line, got {got}")
            }
            TextErrorKind::SurplusLine { nodes } => {
                write!(f, "expected the end of the file after {nodes} nodes, got another line")
            }
            TextErrorKind::NotEarlier { node, id, nodes } if id < nodes => write!(
                f,
                "node {node} reads node {id}, which does not precede it: arguments come before \
                 users, so a cycle or a forward reference"
            ),
            TextErrorKind::NotEarlier { node, id, nodes } => {
                write!(f, "node {node} reads node {id}, but there are only {nodes} nodes")
            }
            TextErrorKind::TooShort { nodes, got } => {
                write!(f, "expected {nodes} nodes, got {got} before the end of the file")
            }
            TextErrorKind::TooManyTypes { types } => {
                write!(f, "{types} different kinds, at most 65536 are possible")
            }
        }
    }
}

impl std::error::Error for TextError {}
