//! A schedule as an SVG drawing. Each batch is a column in the colour of its kind, from left to
//! right. Below it a bar shows the frontier, the nodes that were ready before the batch, by kind.

use std::fmt::Write as _;

use edbatch_graph::{Dag, NodeId, PlainDag, Schedule};
use edbatch_policy::Frontier;

/// Appends a line to a string.
macro_rules! line {
    ($text:ident, $($format:tt)*) => {
        writeln!($text, $($format)*).expect("memory takes every write")
    };
}

/// The maximum number of nodes that are drawn as boxes, with lines to their arguments. Larger
/// graphs show the number of nodes of each batch only.
const MAX_BOXES: usize = 600;

/// Width and height of a node's box, and the gap between columns.
const BOX: (usize, usize, usize) = (34, 16, 26);

/// The maximum width and height of the bars of a large graph.
const CHART: (usize, usize) = (1600, 400);

/// The maximum height of a frontier's bar, and the gap above it.
const FRONTIER: (usize, usize) = (160, 8);

/// The height of the title and the legend.
const TOP: usize = 56;

/// Draws a schedule. `title` is the first line of the drawing.
pub(crate) fn draw(dag: &PlainDag, schedule: &Schedule, title: &str) -> String {
    if dag.nodes() <= MAX_BOXES { boxes(dag, schedule, title) } else { bars(dag, schedule, title) }
}

fn boxes(dag: &PlainDag, schedule: &Schedule, title: &str) -> String {
    let (width, height, gap) = BOX;
    let max_nodes = schedule.batches().map(|batch| batch.nodes.len()).max().unwrap_or(0);
    let mut places = vec![(0, 0); dag.nodes()];
    for (column, batch) in schedule.batches().enumerate() {
        for (row, node) in batch.nodes.iter().enumerate() {
            places[node.index()] = (10 + column * (width + gap), TOP + row * (height + 4));
        }
    }
    let bottom = TOP + max_nodes * (height + 4);
    let mut svg = open((20 + schedule.len() * (width + gap), bottom), dag, title);
    for node in (0..dag.nodes()).map(NodeId::new) {
        let (x, y) = places[node.index()];
        for argument in dag.arguments(node) {
            let (from_x, from_y) = places[argument.index()];
            let (x1, y1, y2) = (from_x + width, from_y + height / 2, y + height / 2);
            line!(svg, r##"<path d="M{x1} {y1} L{x} {y2}" stroke="#999" stroke-width="0.6"/>"##);
        }
    }
    for node in (0..dag.nodes()).map(NodeId::new) {
        let ((x, y), colour) = (places[node.index()], colour(dag.kind(node).index()));
        line!(svg, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"/>"#);
        let (x, y) = (x + width / 2, y + height - 4);
        line!(svg, r#"<text x="{x}" y="{y}" text-anchor="middle" font-size="10">{node}</text>"#);
    }
    let columns = [10.0, (width + gap) as f64, width as f64];
    frontiers(&mut svg, dag, schedule, columns, bottom);
    svg + "</svg>\n"
}

fn bars(dag: &PlainDag, schedule: &Schedule, title: &str) -> String {
    let max_nodes = schedule.batches().map(|batch| batch.nodes.len()).max().unwrap_or(1);
    let width = CHART.0 as f64 / schedule.len().max(1) as f64;
    let mut svg = open((CHART.0 + 20, TOP + CHART.1), dag, title);
    for (column, batch) in schedule.batches().enumerate() {
        let height = (batch.nodes.len() as f64 / max_nodes as f64 * CHART.1 as f64).max(1.0);
        let (x, y) = (10.0 + column as f64 * width, (TOP + CHART.1) as f64 - height);
        let (colour, nodes) = (colour(batch.kind.index()), batch.nodes.len());
        line!(svg, r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}""#);
        line!(svg, r#"fill="{colour}"><title>{nodes} nodes</title></rect>"#);
    }
    frontiers(&mut svg, dag, schedule, [10.0, width, width], TOP + CHART.1);
    svg + "</svg>\n"
}

/// Draws the frontier below each column: the number of ready nodes of each kind before the batch.
/// Heights are square roots, so that a single node is visible beside thousands. The array has the
/// left edge of the first column, the distance between columns, and their width.
fn frontiers(
    svg: &mut String,
    dag: &PlainDag,
    schedule: &Schedule,
    [first, distance, width]: [f64; 3],
    bottom: usize,
) {
    let mut frontier = Frontier::new(dag);
    let before = schedule.batches().map(|batch| {
        let ready = frontier.ready_kinds().map(|kind| (kind, frontier.ready(kind).len()));
        let ready = ready.collect::<Vec<_>>();
        frontier.run(batch.kind, batch.nodes.len());
        ready
    });
    let before: Vec<_> = before.collect();
    let totals = before.iter().map(|ready| ready.iter().map(|(_, count)| count).sum::<usize>());
    let max = totals.max().unwrap_or(0).max(1) as f64;
    for (column, ready) in before.iter().enumerate() {
        let (x, top) = (first + column as f64 * distance, (bottom + FRONTIER.1) as f64);
        let (mut nodes, mut from) = (0, 0.0);
        for &(kind, count) in ready {
            nodes += count;
            let to = FRONTIER.0 as f64 * (nodes as f64 / max).sqrt();
            let (y, height) = (top + from, to - from);
            let (colour, name) = (colour(kind.index()), escape(&dag.kind_names()[kind.index()]));
            line!(svg, r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}""#);
            let what = format_args!("before batch {column}: {count} {name} ready");
            line!(svg, r#"fill="{colour}" fill-opacity="0.6"><title>{what}</title></rect>"#);
            from = to;
        }
    }
}

/// Begins a drawing with its title and the legend of kinds. The size excludes frontier bars.
fn open((width, height): (usize, usize), dag: &PlainDag, title: &str) -> String {
    let mut svg = String::new();
    let (width, height) = (width.max(640), height + FRONTIER.0 + FRONTIER.1 + 10);
    line!(svg, r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}""#);
    line!(svg, r#"font-family="sans-serif">"#);
    line!(svg, r#"<rect width="{width}" height="{height}" fill="white"/>"#);
    line!(svg, r#"<text x="10" y="18" font-size="13">{}</text>"#, escape(title));
    for (kind, name) in dag.kind_names().iter().enumerate().take(width / 80) {
        let (x, colour, name) = (10 + kind * 80, colour(kind), escape(name));
        line!(svg, r#"<rect x="{x}" y="28" width="12" height="12" fill="{colour}"/>"#);
        line!(svg, r#"<text x="{}" y="38" font-size="11">{name}</text>"#, x + 16);
    }
    svg
}

/// Returns a distinct colour: the hues of two consecutive kinds are a golden ratio of the circle
/// apart.
fn colour(kind: usize) -> String {
    format!("hsl({} 65% 72%)", (kind as f64 * 222.492_235).rem_euclid(360.0) as u32)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
