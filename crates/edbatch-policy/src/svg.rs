//! A schedule as a picture: batches over time, kinds as colours, the frontier below.
//!
//! Above the axis a bar for each batch, as high as it has nodes; below it, hanging down, the nodes
//! that were ready just before, kind on kind. Heights are square roots, so that a batch of one node
//! can be seen beside one of thousands.

use std::fmt::Write;

use edbatch_graph::{Dag, NodeId, Schedule};

const HEIGHT: f64 = 160.0;
const WIDTH: f64 = 960.0;
const LEGEND: f64 = 24.0;

/// The picture of a schedule; kinds go by their number.
#[must_use]
pub fn svg(dag: &impl Dag, schedule: &Schedule) -> String {
    let names: Vec<_> = (0..dag.kinds()).map(|kind| format!("k{kind}")).collect();
    svg_with_names(dag, schedule, &names)
}

/// The picture of a schedule; `names` names the kinds.
///
/// # Panics
/// If the schedule is not legal for the graph.
#[must_use]
pub fn svg_with_names(dag: &impl Dag, schedule: &Schedule, names: &[impl AsRef<str>]) -> String {
    let frontiers = frontiers(dag, schedule);
    let largest = schedule.batches().map(|batch| batch.nodes.len()).max();
    let fullest = frontiers.iter().map(|ready| ready.iter().sum()).max();
    let step = WIDTH / schedule.len().max(1) as f64;
    let height = |count: usize, most: Option<usize>| {
        HEIGHT * (count as f64 / most.unwrap_or(1).max(1) as f64).sqrt()
    };

    let mut svg = String::new();
    let total = LEGEND + 2.0 * HEIGHT + 8.0;
    line(
        &mut svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {total}\" \
         font-family=\"sans-serif\" font-size=\"12\">"
        ),
    );
    line(&mut svg, format_args!("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"));
    legend(&mut svg, schedule, names);
    let axis = LEGEND + HEIGHT;
    for (index, (batch, ready)) in schedule.batches().zip(&frontiers).enumerate() {
        let x = index as f64 * step;
        let up = height(batch.nodes.len(), largest);
        let title = format!(
            "batch {index}: {} {}",
            batch.nodes.len(),
            escape(names[batch.kind.index()].as_ref())
        );
        bar(&mut svg, [x, axis - up, step, up], batch.kind.index(), 1.0, &title);
        let (mut below, mut from) = (0, 0.0);
        for (kind, &count) in ready.iter().enumerate().filter(|&(_, &count)| count > 0) {
            below += count;
            let to = height(below, fullest);
            let title =
                format!("before batch {index}: {count} {} ready", escape(names[kind].as_ref()));
            bar(&mut svg, [x, axis + 4.0 + from, step, to - from], kind, 0.55, &title);
            from = to;
        }
    }
    line(&mut svg, format_args!("</svg>"));
    svg
}

/// Per batch, how many nodes of each kind are ready just before it.
fn frontiers(dag: &impl Dag, schedule: &Schedule) -> Vec<Vec<usize>> {
    let mut pending: Vec<usize> = Vec::with_capacity(dag.nodes());
    let mut users = vec![Vec::new(); dag.nodes()];
    let mut ready = vec![0; dag.kinds()];
    for node in (0..dag.nodes()).map(NodeId::new) {
        let mut count = 0;
        for argument in dag.arguments(node) {
            users[argument.index()].push(node);
            count += 1;
        }
        pending.push(count);
        ready[dag.kind(node).index()] += usize::from(count == 0);
    }
    let after = |batch: edbatch_graph::Batch<'_>| {
        let before = ready.clone();
        ready[batch.kind.index()] -= batch.nodes.len();
        for &user in batch.nodes.iter().flat_map(|node| &users[node.index()]) {
            pending[user.index()] -= 1;
            ready[dag.kind(user).index()] += usize::from(pending[user.index()] == 0);
        }
        before
    };
    schedule.batches().map(after).collect()
}

/// The kinds that occur, with their colours, and how many batches each has.
fn legend(svg: &mut String, schedule: &Schedule, names: &[impl AsRef<str>]) {
    let mut batches = vec![0; names.len()];
    for batch in schedule.batches() {
        batches[batch.kind.index()] += 1;
    }
    let mut x = 4.0;
    for (kind, &count) in batches.iter().enumerate().filter(|&(_, &count)| count > 0) {
        let text = format!("{} × {count}", names[kind].as_ref());
        let colour = colour(kind);
        line(
            svg,
            format_args!("<rect x=\"{x}\" y=\"5\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"),
        );
        line(svg, format_args!("<text x=\"{}\" y=\"15\">{}</text>", x + 16.0, escape(&text)));
        x += 32.0 + 7.0 * text.chars().count() as f64;
    }
}

fn bar(svg: &mut String, [x, y, width, height]: [f64; 4], kind: usize, opacity: f64, title: &str) {
    let colour = colour(kind);
    line(
        svg,
        format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{height:.2}\" fill=\"{colour}\" \
         fill-opacity=\"{opacity}\"><title>{title}</title></rect>",
            width * 0.92
        ),
    );
}

/// Colours that differ for any number of kinds: hues a golden angle apart.
fn colour(kind: usize) -> String {
    let hue = (210.0 + 137.508 * kind as f64) % 360.0;
    format!("hsl({hue:.0},65%,{}%)", if kind.is_multiple_of(2) { 45 } else { 60 })
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

fn line(svg: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(svg, "{text}").expect("writing to a string");
}
