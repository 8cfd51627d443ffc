//! Drawings in Graphviz' DOT language: of a graph, of a bare DAG, and of a cell.
//!
//! Graphviz draws them: `dot -Tsvg graph.dot > graph.svg`. petgraph's [`Dot`] writes the language.
//!
//! Edges lead from an argument to its user. Nodes of one kind have one colour: what may run in one
//! batch is what looks alike.

use std::collections::BTreeMap;
use std::fmt;

use ::petgraph::dot::{Config, Dot};
use ::petgraph::graph::{DiGraph, EdgeReference, NodeIndex};

use crate::{Arity, Cell, Dag, Graph, Instruction, Network, NodeId, Op, PlainDag, Source};

impl PlainDag {
    /// The graph in DOT: every node with its id and its kind's name.
    ///
    /// ```
    /// let dag = edbatch_graph::parse_text("2\n7 0\n9 1 0\n")?;
    /// assert_eq!(
    ///     dag.dot().to_string(),
    ///     r#"digraph {
    ///     node [shape=box, style=filled, colorscheme=set312]
    ///     0 [ label = "n0\l7" fillcolor=1]
    ///     1 [ label = "n1\l9" fillcolor=2]
    ///     0 -> 1 [ label = "" ]
    /// }
    /// "#
    /// );
    /// # Ok::<(), edbatch_graph::TextError>(())
    /// ```
    pub fn dot(&self) -> impl fmt::Display + '_ {
        let mut drawing = Drawing::default();
        for node in (0..self.nodes()).map(NodeId::new) {
            let kind = self.kind(node).index();
            let drawn = drawing.node(&[&node.to_string(), &self.kind_names()[kind]], filled(kind));
            for argument in self.arguments(node) {
                drawing.edge(NodeIndex::new(argument.index()), drawn, "");
            }
        }
        drawing
    }
}

impl Graph {
    /// The graph in DOT: calls with their cells' names and rows of tables, edges with the names of
    /// ports where a cell has several, and the given values that some call reads.
    pub fn dot(&self) -> impl fmt::Display + '_ {
        let mut drawing = Drawing::default();
        for node in (0..self.nodes()).map(NodeId::new) {
            let cell = &self.network()[self.kind(node)];
            let mut lines = vec![node.to_string(), cell.name().into()];
            let rows = self.rows(node).iter().zip(cell.tables());
            lines.extend(rows.map(|(row, table)| format!("{} #{row}", table.name)));
            drawing.node(&lines, filled(self.kind(node).index()));
        }
        let mut given = BTreeMap::new();
        for node in (0..self.nodes()).map(NodeId::new) {
            let ports = self.network()[self.kind(node)].ports();
            for (position, value) in self.values(node).enumerate() {
                let from = match value.source() {
                    Source::Node(argument) => NodeIndex::new(argument.index()),
                    Source::Given(index) => *given.entry(index).or_insert_with(|| {
                        drawing.node(&[format!("g{index}"), given_label(self, index)], NOTE)
                    }),
                };
                let port = match ports {
                    [_] => "",
                    _ => &ports[position.min(ports.len() - 1)].name,
                };
                drawing.edge(from, NodeIndex::new(node.index()), port);
            }
        }
        drawing
    }
}

impl Cell {
    /// The cell in DOT: operations, parameters and inputs with their names and shapes, and the
    /// fields of the record that a call produces.
    pub fn dot<'a>(&'a self, network: &'a Network) -> impl fmt::Display + 'a {
        let (dag, vars) = self.dag();
        let mut drawing = Drawing { title: self.name().into(), ..Drawing::default() };
        for (v, Instruction { op, operands, shape }) in self.instructions().iter().enumerate() {
            let style = match vars.binary_search_by_key(&v, |var| var.index()) {
                Ok(node) => filled(dag.kind(NodeId::new(node)).index()),
                Err(_) => NOTE.into(),
            };
            let what = instruction_label(self, network, *op);
            let drawn = drawing.node(&[format!("v{v}"), what, shape.to_string()], style);
            for (i, operand) in operands.iter().enumerate() {
                let position = if operands.len() > 1 { i.to_string() } else { String::new() };
                drawing.edge(NodeIndex::new(operand.index()), drawn, &position);
            }
        }
        for (field, output) in network.fields(self.record()).fields.iter().zip(self.outputs()) {
            let drawn = drawing.node(&[&field.name, &field.shape.to_string()], RESULT);
            drawing.edge(NodeIndex::new(output.index()), drawn, "");
        }
        drawing
    }
}

/// The style of something that is there before anything runs.
const NOTE: &str = "shape=note, style=solid";

/// The style of what a cell's call produces.
const RESULT: &str = "shape=ellipse, style=solid";

/// The style of something that runs, in the colour of its kind.
fn filled(kind: usize) -> String {
    format!("fillcolor={}", kind % 12 + 1)
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

/// What is drawn: nodes and edges with their labels.
#[derive(Default)]
struct Drawing {
    title: String,
    graph: DiGraph<Drawn, String>,
}

/// A node, which displays as its label.
struct Drawn {
    label: String,
    style: String,
}

impl Drawing {
    fn node(&mut self, lines: &[impl AsRef<str>], style: impl Into<String>) -> NodeIndex {
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        self.graph.add_node(Drawn { label: shown(&lines.join("\n")), style: style.into() })
    }

    fn edge(&mut self, from: NodeIndex, to: NodeIndex, label: &str) {
        self.graph.add_edge(from, to, shown(label));
    }
}

/// Names come from users: a control character, for which DOT has no notation, becomes the
/// replacement character. (petgraph escapes quotes and backslashes.)
fn shown(text: &str) -> String {
    let is_shown = |c: char| c == '\n' || !c.is_control();
    text.chars().map(|c| if is_shown(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "digraph {{")?;
        if !self.title.is_empty() {
            let title = shown(&self.title).replace('\\', "\\\\").replace('"', "\\\"");
            writeln!(f, "    label = \"{title}\"")?;
        }
        writeln!(f, "    node [shape=box, style=filled, colorscheme=set312]")?;
        let of_edge = |_, _: EdgeReference<'_, String>| String::new();
        let of_node = |_, (_, node): (NodeIndex, &Drawn)| node.style.clone();
        let config = [Config::GraphContentOnly];
        let content = Dot::with_attr_getters(&self.graph, &config, &of_edge, &of_node);
        writeln!(f, "{content}}}")
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}
