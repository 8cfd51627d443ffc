//! Draws graphs, plain DAGs and cells in Graphviz' DOT language.
//!
//! To render a drawing: `dot -Tsvg graph.dot > graph.svg`.
//!
//! Edges lead from an argument to its reader. Nodes of one kind, which may run in one batch, have
//! the same colour.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Arity, Cell, Dag, Graph, Instruction, Network, NodeId, Op, PlainDag, Source};

impl PlainDag {
    /// Draws the graph: every node with its id and the name of its kind.
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
                drawing.edge(argument.index(), drawn, "");
            }
        }
        drawing
    }
}

impl Graph {
    /// Draws the graph: calls with the names of their cells and their table rows, and the given
    /// values that they read. If a cell has several ports, edges have the names of ports.
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
                    Source::Node(argument) => argument.index(),
                    Source::Given(index) => *given.entry(index).or_insert_with(|| {
                        drawing.node(&[format!("g{index}"), given_label(self, index)], NOTE)
                    }),
                };
                let port = match ports {
                    [_] => "",
                    _ => &ports[position.min(ports.len() - 1)].name,
                };
                drawing.edge(from, node.index(), port);
            }
        }
        drawing
    }
}

impl Cell {
    /// Draws the cell: operations, parameters and inputs with their names and shapes, and the
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
                drawing.edge(operand.index(), drawn, &position);
            }
        }
        for (field, output) in network.fields(self.record()).fields.iter().zip(self.outputs()) {
            let drawn = drawing.node(&[&field.name, &field.shape.to_string()], RESULT);
            drawing.edge(output.index(), drawn, "");
        }
        drawing
    }
}

/// The style of inputs, parameters and given values.
const NOTE: &str = "shape=note, style=solid";

/// The style of the fields that a call produces.
const RESULT: &str = "shape=ellipse, style=solid";

/// The style of a node or an operation, in the colour of its kind.
fn filled(kind: usize) -> String {
    format!("fillcolor={}", kind % 12 + 1)
}

/// Names an operation of a cell, with the names of parameters and ports.
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

/// Returns the label of a given value: an initial value's parameters, else the name of its record.
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

/// A drawing.
#[derive(Default)]
struct Drawing {
    title: String,
    /// Labels and styles of nodes.
    nodes: Vec<(String, String)>,
    /// From, to, and the label.
    edges: Vec<(usize, usize, String)>,
}

impl Drawing {
    /// Adds a node and returns its index.
    fn node(&mut self, lines: &[impl AsRef<str>], style: impl Into<String>) -> usize {
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        self.nodes.push((lines.join("\n"), style.into()));
        self.nodes.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, label: &str) {
        self.edges.push((from, to, label.into()));
    }
}

/// Quotes a label with left-aligned lines. Names come from users: control characters, which DOT
/// cannot express, become replacement characters.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\l"),
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(char::REPLACEMENT_CHARACTER),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "digraph {{")?;
        if !self.title.is_empty() {
            writeln!(f, "    label = {}", quoted(&self.title))?;
        }
        writeln!(f, "    node [shape=box, style=filled, colorscheme=set312]")?;
        for (index, (label, style)) in self.nodes.iter().enumerate() {
            writeln!(f, "    {index} [ label = {} {style}]", quoted(label))?;
        }
        for (from, to, label) in &self.edges {
            writeln!(f, "    {from} -> {to} [ label = {} ]", quoted(label))?;
        }
        writeln!(f, "}}")
    }
}
