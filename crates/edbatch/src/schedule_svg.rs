//! A schedule as an SVG drawing. Each batch is a column in the colour of its kind, from left to
//! right. Below each column, a bar shows the frontier (the nodes that were ready before the batch)
//! by kind.

use std::fmt::Write as _;
use std::iter::successors;

use edbatch_graph::{Dag, NodeId, Schedule};
use edbatch_policy::Frontier;

/// Appends a line to a string.
macro_rules! line {
    ($text:ident, $($format:tt)*) => {
        writeln!($text, $($format)*).expect("memory takes every write")
    };
}

/// The maximum number of bytes of a drawing, so that pages can contain it.
const MAX_BYTES: usize = 200_000;

/// The maximum number of nodes that are drawn as boxes, with lines to their arguments. Larger
/// graphs show the number of nodes of each batch only.
const MAX_BOXES: usize = 600;

/// Width and height of a node's box, and the gap between columns.
const BOX: (usize, usize, usize) = (34, 16, 26);

/// The maximum width and height of the bars of a large graph.
const CHART: (usize, usize) = (1600, 400);

/// The maximum height of a frontier's bar, and the gap above it, which has the caption.
const FRONTIER: (usize, usize) = (160, 24);

/// The height of the title and the legend.
const TOP: usize = 56;

/// The maximum number of characters of a kind's name, and of the title.
const TEXT: (usize, usize) = (40, 400);

/// Draws a schedule of a graph as SVG, in at most 200 kB, without scripts or references. `title` is
/// the first line of the drawing; `kind_names` has a name for each kind.
///
/// Up to 600 nodes are boxes with lines to their arguments, unless the drawing gets too large.
/// Otherwise each batch is a bar. If the drawing is still too large, a bar stands for several
/// successive batches, and shows the largest of them.
///
/// ```
/// use edbatch::graph::PlainDag;
/// use edbatch::policy::{Agenda, schedule};
/// use edbatch::schedule_svg;
/// # use edbatch::graph::Kind;
///
/// let mut dag = PlainDag::new(["<leaf>"]);
/// dag.push(Kind(0), &[])?;
/// let svg = schedule_svg(&dag, dag.kind_names(), &schedule(&dag, &mut Agenda::new()), "one leaf");
/// assert!(svg.contains("&lt;leaf&gt;"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// If the schedule or the names belong to another graph.
#[must_use]
pub fn schedule_svg(
    dag: &impl Dag,
    kind_names: &[String],
    schedule: &Schedule,
    title: &str,
) -> String {
    let shorten = |text: &str, max: usize| escape(&text.chars().take(max).collect::<String>());
    let names = kind_names.iter().map(|name| shorten(name, TEXT.0)).collect();
    let drawing = Drawing { dag, schedule, names, title: shorten(title, TEXT.1) };
    let boxes = (dag.nodes() <= MAX_BOXES).then(|| drawing.boxes());
    let columns = successors(Some(schedule.len()), |&columns| (columns > 0).then_some(columns / 2));
    let bars = columns.skip_while(|&columns| columns > CHART.0).map(|count| drawing.bars(count));
    let fitting = boxes.into_iter().chain(bars).find(|svg| svg.len() <= MAX_BYTES);
    fitting.expect("without columns, there are only a title and a legend")
}

/// A graph and its schedule, and text in which special characters are escaped.
struct Drawing<'a, D> {
    dag: &'a D,
    schedule: &'a Schedule,
    names: Vec<String>,
    title: String,
}

impl<D: Dag> Drawing<'_, D> {
    fn boxes(&self) -> String {
        let (Self { dag, schedule, .. }, (width, height, gap)) = (self, BOX);
        let max_nodes = schedule.batches().map(|batch| batch.nodes.len()).max().unwrap_or(0);
        let mut places = vec![(0, 0); dag.nodes()];
        for (column, batch) in schedule.batches().enumerate() {
            for (row, node) in batch.nodes.iter().enumerate() {
                places[node.index()] = (10 + column * (width + gap), TOP + row * (height + 4));
            }
        }
        let bottom = TOP + max_nodes * (height + 4);
        let mut svg = self.open((20 + schedule.len() * (width + gap), bottom));
        for node in (0..dag.nodes()).map(NodeId::new) {
            let (x, y) = places[node.index()];
            for argument in dag.arguments(node) {
                let (from_x, from_y) = places[argument.index()];
                let (x1, y1, y2) = (from_x + width, from_y + height / 2, y + height / 2);
                let style = r##"stroke="#999" stroke-width="0.6""##;
                line!(svg, r#"<path d="M{x1} {y1} L{x} {y2}" {style}/>"#);
            }
        }
        for node in (0..dag.nodes()).map(NodeId::new) {
            let ((x, y), colour) = (places[node.index()], colour(dag.kind(node).index()));
            let size = format_args!(r#"width="{width}" height="{height}""#);
            line!(svg, r#"<rect x="{x}" y="{y}" {size} fill="{colour}"/>"#);
            let (x, y) = (x + width / 2, y + height - 4);
            let style = r#"text-anchor="middle" font-size="10""#;
            line!(svg, r#"<text x="{x}" y="{y}" {style}>{node}</text>"#);
        }
        let shown: Vec<usize> = (0..schedule.len()).collect();
        let columns = [10.0, (width + gap) as f64, width as f64];
        self.frontiers(&mut svg, &shown, columns, bottom);
        svg + "</svg>\n"
    }

    /// Draws bars in at most this many columns. A column shows the largest of its batches.
    fn bars(&self, columns: usize) -> String {
        let nodes = |batch: usize| self.schedule.batch(batch).nodes.len();
        let first = |column: usize| column * self.schedule.len() / columns;
        let largest = |column| (first(column)..first(column + 1)).max_by_key(|&batch| nodes(batch));
        let shown: Vec<usize> = (0..columns).filter_map(largest).collect();
        let max_nodes = shown.iter().map(|&batch| nodes(batch)).max().unwrap_or(1);
        let width = CHART.0 as f64 / columns.max(1) as f64;
        let mut svg = self.open((CHART.0 + 20, TOP + CHART.1));
        for (column, &batch) in shown.iter().enumerate() {
            let height = (nodes(batch) as f64 / max_nodes as f64 * CHART.1 as f64).max(1.0);
            let (x, y) = (10.0 + column as f64 * width, (TOP + CHART.1) as f64 - height);
            let colour = colour(self.schedule.batch(batch).kind.index());
            line!(svg, r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}""#);
            let title = format_args!("batch {batch}: {} nodes", nodes(batch));
            line!(svg, r#"fill="{colour}"><title>{title}</title></rect>"#);
        }
        self.frontiers(&mut svg, &shown, [10.0, width, width], TOP + CHART.1);
        svg + "</svg>\n"
    }

    /// Draws the frontier below each column: the number of ready nodes of each kind before the
    /// batch that it shows. Heights are square roots, so that a single node is visible beside
    /// thousands. The array has the left edge of the first column, the distance between columns,
    /// and the width of a column.
    fn frontiers(
        &self,
        svg: &mut String,
        shown: &[usize],
        [first, distance, width]: [f64; 3],
        bottom: usize,
    ) {
        let y = bottom + 16;
        line!(svg, r#"<text x="10" y="{y}" font-size="11">ready before each batch</text>"#);
        let mut frontier = Frontier::new(self.dag);
        let (mut before, mut is_shown) = (Vec::new(), shown.iter().peekable());
        for (index, batch) in self.schedule.batches().enumerate() {
            if is_shown.next_if(|&&shown| shown == index).is_some() {
                let ready = frontier.ready_kinds();
                let ready = ready.map(|kind| (kind.index(), frontier.ready(kind).len()));
                before.push((index, ready.collect::<Vec<_>>()));
            }
            frontier.run(batch.kind, batch.nodes.len());
        }
        let total = |ready: &[(usize, usize)]| ready.iter().map(|(_, count)| count).sum();
        let max = before.iter().map(|(_, ready)| total(ready)).max().unwrap_or(0_usize).max(1);
        for (column, (batch, ready)) in before.iter().enumerate() {
            let (x, top) = (first + column as f64 * distance, (bottom + FRONTIER.1) as f64);
            let (mut nodes, mut from) = (0, 0.0);
            for &(kind, count) in ready {
                nodes += count;
                let to = FRONTIER.0 as f64 * (nodes as f64 / max as f64).sqrt();
                let (y, height) = (top + from, to - from);
                let (colour, name) = (colour(kind), &self.names[kind]);
                let size = format_args!(r#"width="{width:.2}" height="{height:.2}""#);
                line!(svg, r#"<rect x="{x:.2}" y="{y:.2}" {size}"#);
                let title = format_args!("before batch {batch}: {count} {name} ready");
                line!(svg, r#"fill="{colour}" fill-opacity="0.6"><title>{title}</title></rect>"#);
                from = to;
            }
        }
    }

    /// Begins a drawing with its title and the legend of kinds. The size excludes frontier bars.
    fn open(&self, (width, height): (usize, usize)) -> String {
        let mut svg = String::new();
        let (width, height) = (width.max(640), height + FRONTIER.0 + FRONTIER.1 + 10);
        line!(svg, r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}""#);
        line!(svg, r#"font-family="sans-serif">"#);
        line!(svg, r#"<rect width="{width}" height="{height}" fill="white"/>"#);
        line!(svg, r#"<text x="10" y="18" font-size="13">{}</text>"#, self.title);
        for (kind, name) in self.names.iter().enumerate().take(width / 80) {
            let (x, colour) = (10 + kind * 80, colour(kind));
            line!(svg, r#"<rect x="{x}" y="28" width="12" height="12" fill="{colour}"/>"#);
            line!(svg, r#"<text x="{}" y="38" font-size="11">{name}</text>"#, x + 16);
        }
        svg
    }
}

/// Returns a distinct colour: the hues of two consecutive kinds are a golden ratio of the circle
/// apart.
fn colour(kind: usize) -> String {
    format!("hsl({} 65% 72%)", (kind as f64 * 222.492_235).rem_euclid(360.0) as u32)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use edbatch_graph::{Kind, PlainDag};
    use edbatch_policy::{Agenda, schedule};

    use super::*;

    /// Chains of one node of each kind, in order. All names need escapes.
    fn draw(chains: usize, kinds: usize) -> String {
        let mut dag = PlainDag::new((0..kinds).map(|kind| format!("<{kind}{}", "&".repeat(300))));
        for _ in 0..chains {
            let mut last: Option<NodeId> = None;
            for kind in (0..kinds).map(|kind| Kind(kind as u16)) {
                last = Some(dag.push(kind, last.as_slice()).unwrap());
            }
        }
        let schedule = schedule(&dag, &mut Agenda::new());
        schedule_svg(&dag, dag.kind_names(), &schedule, &"<>&".repeat(999))
    }

    #[test]
    fn drawings_are_escaped_and_at_most_200_kb() {
        // Boxes, bars, and bars of several batches.
        for (chains, kinds) in [(0, 1), (2, 3), (300, 2), (1, 700), (700, 1), (20, 3000)] {
            let svg = draw(chains, kinds);
            assert!(svg.len() <= MAX_BYTES, "{chains} × {kinds}: {} bytes", svg.len());
            assert!(!svg.contains("<0") && !svg.contains("&&"), "{chains} × {kinds}");
            assert_eq!(svg.matches("ready</title>").count() > 0, chains > 0);
        }
    }
}
