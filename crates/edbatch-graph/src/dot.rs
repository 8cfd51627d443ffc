//! Pictures in Graphviz' DOT language: of a graph, of a bare DAG, and of a cell.
//!
//! Graphviz draws it: `dot -Tsvg graph.dot > graph.svg`.
//!
//! Edges lead from an argument to its user. Nodes of one kind have one colour: what may run in one
//! batch is what looks alike.

use std::collections::BTreeSet;
use std::fmt::{self, Formatter, Write};

use crate::{Arity, Cell, Dag, Graph, Network, NodeId, Op, PlainDag, Source};

impl PlainDag {
    /// The graph in DOT: every node with its id and its kind's name.
    ///
    /// ```
    /// let dag = edbatch_graph::parse_text("2\n7 0\n9 1 0\n")?;
    /// assert_eq!(
    ///     dag.dot().to_string(),
    ///     "digraph {\n  \
    ///        node [shape=box, style=filled, colorscheme=set312]\n  \
    ///        n0 [label=\"n0\\n7\", fillcolor=1]\n  \
    ///        n1 [label=\"n1\\n9\", fillcolor=2]\n  \
    ///        n0 -> n1\n\
    ///      }\n"
    /// );
    /// # Ok::<(), edbatch_graph::TextError>(())
    /// ```
    pub fn dot(&self) -> impl fmt::Display + '_ {
        picture(move |f| {
            open(f, &[])?;
            for node in (0..self.nodes()).map(NodeId::new) {
                let kind = self.kind(node);
                let name = &self.kind_names()[kind.index()];
                box_of(f, node, &[&node.to_string(), name], kind.index())?;
            }
            for node in (0..self.nodes()).map(NodeId::new) {
                for argument in self.arguments(node) {
                    edge(f, argument, node, "")?;
                }
            }
            writeln!(f, "}}")
        })
    }
}

impl Graph {
    /// The graph in DOT: calls with their cells' names and rows of tables, edges with the names of
    /// ports where a cell has several, and the given values that some call reads.
    pub fn dot(&self) -> impl fmt::Display + '_ {
        picture(move |f| {
            open(f, &[])?;
            let nodes = (0..self.nodes()).map(NodeId::new);
            for index in given_that_are_read(self) {
                let name = format!("g{index}");
                let what = given_label(self, index);
                note(f, &name, &[&name, &what])?;
            }
            for node in nodes.clone() {
                let cell = &self.network()[self.kind(node)];
                let rows = self.rows(node).iter().zip(cell.tables());
                let rows: Vec<String> =
                    rows.map(|(row, table)| format!("{} #{row}", table.name)).collect();
                let mut lines = vec![node.to_string(), cell.name().into()];
                lines.extend(rows);
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                box_of(f, node, &lines, self.kind(node).index())?;
            }
            for node in nodes {
                let ports = self.network()[self.kind(node)].ports();
                for (position, value) in self.values(node).enumerate() {
                    let port = match ports {
                        [_] => "",
                        _ => &ports[position.min(ports.len() - 1)].name,
                    };
                    match value.source() {
                        Source::Node(argument) => edge(f, argument, node, port)?,
                        Source::Given(index) => edge(f, format_args!("g{index}"), node, port)?,
                    }
                }
            }
            writeln!(f, "}}")
        })
    }
}

impl Cell {
    /// The cell in DOT: operations, parameters and inputs with their names and shapes, and the
    /// fields of the record that a call produces.
    pub fn dot<'a>(&'a self, network: &'a Network) -> impl fmt::Display + 'a {
        let (dag, vars) = self.dag();
        picture(move |f| {
            open(f, &[self.name()])?;
            for (v, instruction) in self.instructions().iter().enumerate() {
                let name = format!("v{v}");
                let shape = instruction.shape.to_string();
                let text = instruction_label(self, network, instruction.op);
                match vars.binary_search_by_key(&v, |var| var.index()) {
                    Err(_) => note(f, &name, &[&text, &shape])?,
                    Ok(node) => {
                        let kind = dag.kind(NodeId::new(node)).index();
                        box_of(f, &name, &[&text, &shape], kind)?;
                    }
                }
            }
            let fields = &network.fields(self.record()).fields;
            for (i, field) in fields.iter().enumerate() {
                write!(f, "  r{i} [shape=ellipse, style=solid, label=")?;
                label(f, &[&field.name, &field.shape.to_string()])?;
                writeln!(f, "]")?;
            }
            for (v, instruction) in self.instructions().iter().enumerate() {
                for (i, operand) in instruction.operands.iter().enumerate() {
                    let several = instruction.operands.len() > 1;
                    let position = if several { i.to_string() } else { String::new() };
                    edge(f, operand, format_args!("v{v}"), &position)?;
                }
            }
            for (i, output) in self.outputs().iter().enumerate() {
                edge(f, output, format_args!("r{i}"), "")?;
            }
            writeln!(f, "}}")
        })
    }
}

/// Text that is written when it is shown.
struct Picture<F>(F);

fn picture<F: Fn(&mut Formatter<'_>) -> fmt::Result>(write: F) -> Picture<F> {
    Picture(write)
}

impl<F: Fn(&mut Formatter<'_>) -> fmt::Result> fmt::Display for Picture<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

/// What a variable of a cell is, with the names of parameters and ports.
fn instruction_label(cell: &Cell, network: &Network, op: Op) -> String {
    let field = |port: u16, field: u16| {
        let port = &cell.ports()[usize::from(port)];
        let field = &network.fields(port.record).fields[usize::from(field)];
        let any = if port.arity == Arity::Many { "*" } else { "" };
        format!("{}{any}.{}", port.name, field.name)
    };
    match op {
        Op::Input { port, field: index } => field(port, index),
        Op::Reduce { port, field: index, by } => format!("{by} {}", field(port, index)),
        Op::Lookup { table } => {
            let table = &cell.tables()[usize::from(table)];
            format!("{}[{}]", network.parameter(table.parameter).name, table.name)
        }
        Op::Parameter(id) => network.parameter(id).name.clone(),
        op => op.to_string(),
    }
}

fn given_that_are_read(graph: &Graph) -> BTreeSet<usize> {
    let nodes = (0..graph.nodes()).map(NodeId::new);
    let values = nodes.flat_map(|node| graph.values(node));
    values
        .filter_map(|value| match value.source() {
            Source::Given(index) => Some(index),
            Source::Node(_) => None,
        })
        .collect()
}

/// An initial value by its parameters, a carried one by its record.
fn given_label(graph: &Graph, index: usize) -> String {
    let network = graph.network();
    match network.initial_values().get(index) {
        Some(initial) => {
            let names = initial.parameters.iter();
            let names = names.map(|&id| network.parameter(id).name.as_str());
            names.collect::<Vec<_>>().join(" ")
        }
        None => network.fields(graph.given()[index]).name.clone(),
    }
}

fn open(f: &mut Formatter<'_>, title: &[&str]) -> fmt::Result {
    writeln!(f, "digraph {{")?;
    if !title.is_empty() {
        write!(f, "  label=")?;
        label(f, title)?;
        writeln!(f)?;
    }
    writeln!(f, "  node [shape=box, style=filled, colorscheme=set312]")
}

/// Something that runs, in the colour of its kind.
fn box_of(
    f: &mut Formatter<'_>,
    name: impl fmt::Display,
    lines: &[&str],
    kind: usize,
) -> fmt::Result {
    write!(f, "  {name} [label=")?;
    label(f, lines)?;
    writeln!(f, ", fillcolor={}]", kind % 12 + 1)
}

/// Something that is there before anything runs.
fn note(f: &mut Formatter<'_>, name: &str, lines: &[&str]) -> fmt::Result {
    write!(f, "  {name} [shape=note, style=solid, label=")?;
    label(f, lines)?;
    writeln!(f, "]")
}

fn edge(
    f: &mut Formatter<'_>,
    from: impl fmt::Display,
    to: impl fmt::Display,
    text: &str,
) -> fmt::Result {
    write!(f, "  {from} -> {to}")?;
    if !text.is_empty() {
        write!(f, " [label=")?;
        label(f, &[text])?;
        write!(f, "]")?;
    }
    writeln!(f)
}

/// Lines as one quoted string. Names come from users: quotes and backslashes are escaped, and a
/// control character, for which DOT has no notation, becomes the replacement character.
fn label(f: &mut Formatter<'_>, lines: &[&str]) -> fmt::Result {
    f.write_char('"')?;
    for (i, line) in lines.iter().enumerate() {
        f.write_str(if i == 0 { "" } else { "\\n" })?;
        for c in line.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                c if c.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                c => f.write_char(c)?,
            }
        }
    }
    f.write_char('"')
}
