//! Draws a compiled cell: its memory, and the copies that it makes.

use std::collections::BTreeMap;
use std::fmt::Write;

use edbatch_graph::Kind;

use crate::cell_plan::{Base, CellStep, Place, Weight};
use crate::names::{name_of_field, name_of_row};
use crate::program::Program;

/// Describes the memory of a call, region by region, and its copies, for people to read.
///
/// ```
/// use edbatch_graph::Kind;
/// use edbatch_layout::{CellStyle, Program, cell_text, paper_cell};
///
/// let network = paper_cell("TreeLSTM-Leaf", 64).unwrap()?;
/// let program = Program::new(network.into(), CellStyle::Planned)?;
/// assert_eq!(
///     cell_text(&program, Kind(0)),
///     "TreeLSTM-Leaf
///   port 0
///       0..64    x.h
///   scratch 0
///       0..64    w_i
///      64..128   w_o
///     128..192   w_u
///   output
///       0..64    element-wise
///      64..128   element-wise
///   steps: product, element-wise; copied: nothing
/// "
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn cell_text(program: &Program, kind: Kind) -> String {
    let plan = program.cell(kind);
    let mut text = format!("{}\n", plan.name);
    for (base, fields) in contents(program, kind) {
        writeln!(text, "  {}", base_name(base)).expect(INFALLIBLE);
        for (begin, Field { end, labels }) in fields {
            let labels = labels.join(", ");
            writeln!(text, "  {begin:5}..{end:<6}{labels}").expect(INFALLIBLE);
        }
    }
    let names = |steps: &[CellStep]| {
        let names: Vec<&str> = steps.iter().map(step_name).collect();
        names.join(", ")
    };
    let moves = plan.steps.iter().filter(|step| step.rearranges()).map(ToString::to_string);
    let mut moves: Vec<String> = moves.collect();
    if moves.is_empty() {
        moves.push("nothing".into());
    }
    writeln!(text, "  steps: {}; copied: {}", names(&plan.steps), moves.join("; "))
        .expect(INFALLIBLE);
    if let Some(hoisted) = &plan.hoisted {
        let (from, prologue) = (base_name(hoisted.from), names(&hoisted.prologue.steps));
        let body = names(&hoisted.body.steps);
        writeln!(text, "  prologue, by {from}: {prologue}; body: {body}").expect(INFALLIBLE);
    }
    text
}

/// Draws a cell in Graphviz' DOT language: a row of boxes for each region and an ellipse for each
/// step; steps that only move data are red.
#[must_use]
pub fn cell_dot(program: &Program, kind: Kind) -> String {
    let plan = program.cell(kind);
    let mut dot = format!("digraph {:?} {{\n  rankdir=LR\n  node [shape=record]\n", plan.name);
    let contents = contents(program, kind);
    for (&base, fields) in &contents {
        let cells = fields.iter().map(|(begin, Field { end, labels })| {
            format!("|<f{begin}> {begin}..{end}\\n{}", escaped(&labels.join(", ")))
        });
        let cells: String = cells.collect();
        let name = base_name(base);
        writeln!(dot, "  {} [label=\"{name}{cells}\"]", identifier(base)).expect(INFALLIBLE);
    }
    for (index, step) in plan.steps.iter().enumerate() {
        let colour = if step.rearranges() { ", color=red, fontcolor=red" } else { "" };
        let name = step_name(step);
        writeln!(dot, "  step{index} [label=\"{name}\", shape=ellipse{colour}]").expect(INFALLIBLE);
        let field = |place: Place| {
            let begins = contents.get(&place.base)?.range(..=place.offset).next_back()?.0;
            Some(format!("{}:f{begins}", identifier(place.base)))
        };
        for (place, _) in step.reads() {
            if let Some(from) = field(place) {
                writeln!(dot, "  {from} -> step{index}").expect(INFALLIBLE);
            }
        }
        for (place, _) in step.writes() {
            if let Some(to) = field(place) {
                writeln!(dot, "  step{index} -> {to}").expect(INFALLIBLE);
            }
        }
    }
    dot.push_str("}\n");
    dot
}

const INFALLIBLE: &str = "writing to a string never fails";

/// Columns of a region, and the names of their contents.
#[derive(Default)]
struct Field {
    end: u32,
    labels: Vec<String>,
}

/// Returns the contents of each memory that a call reads or writes, by their first column.
/// Parameters are left out, because steps name them.
fn contents(program: &Program, kind: Kind) -> BTreeMap<Base, BTreeMap<u32, Field>> {
    let mut contents: BTreeMap<Base, BTreeMap<u32, Field>> = BTreeMap::new();
    let mut note = |place: Place, width: u32, label: String| {
        let field = contents.entry(place.base).or_default().entry(place.offset).or_default();
        field.end = field.end.max(place.offset + width);
        if !field.labels.contains(&label) {
            field.labels.push(label);
        }
    };
    for step in &program.cell(kind).steps {
        for (place, width) in step.reads() {
            if let Some(label) = input_name(program, kind, place) {
                note(place, width, label);
            }
        }
        if let CellStep::Product { weights, out, .. } = step {
            let mut out = *out;
            for &weight in weights {
                let parameter = program.network().parameter(weight.parameter());
                let shape = weight.rows_and_columns(&parameter.dims);
                let rows = shape.map_or(0, |(rows, _)| rows as u32);
                note(out, rows, parameter.name.clone());
                out.offset += rows;
            }
            continue;
        }
        for (place, width) in step.writes() {
            note(place, width, step_name(step).into());
        }
    }
    contents
}

/// Returns the name of a field at a port or of a row of a table; `None` for other places.
fn input_name(program: &Program, kind: Kind, place: Place) -> Option<String> {
    let network = program.network();
    let cell = &network.cells()[kind.index()];
    match place.base {
        Base::Port(port) => {
            let port = &cell.ports()[usize::from(port)];
            let offsets = &program.record(port.record).offsets;
            let field = offsets.iter().rposition(|&begin| begin <= place.offset)?;
            Some(name_of_field(network, port, field))
        }
        Base::Table(table) => Some(name_of_row(network, &cell.tables()[usize::from(table)])),
        _ => None,
    }
}

fn step_name(step: &CellStep) -> &'static str {
    match step {
        CellStep::Reduce { .. } => "reduce",
        CellStep::Product { .. } => "product",
        CellStep::MatMul { .. } => "matrix product",
        CellStep::Elementwise { .. } => "element-wise",
        CellStep::Attention { .. } => "attention",
        CellStep::AttentionBack { .. } => "gradient of attention",
        CellStep::Rows(step) => step.kernel.signature().name,
    }
}

fn base_name(base: Base) -> String {
    match base {
        Base::Table(table) => format!("table {table}"),
        Base::Port(port) => format!("port {port}"),
        Base::Parameter(Weight::AsIs(id)) => format!("parameter {}", id.0),
        Base::Parameter(Weight::Transposed(id)) => format!("transpose of parameter {}", id.0),
        Base::Scratch(region) => format!("scratch {region}"),
        Base::Hoisted => "hoisted".into(),
        Base::Output => "output".into(),
    }
}

fn identifier(base: Base) -> String {
    base_name(base).replace(' ', "")
}

/// Escapes text for the label of a record node.
fn escaped(text: &str) -> String {
    let escape = |character| "\\{}|<>\" ".contains(character).then_some('\\');
    text.chars().flat_map(|character| escape(character).into_iter().chain([character])).collect()
}
