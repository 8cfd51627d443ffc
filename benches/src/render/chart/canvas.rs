//! The canvas of a plot: SVG as text.

use crate::render::chart::scale::{Axis, Scale};
use crate::render::palette::{Colour, GRID, MUTED};
use crate::render::table::escaped;

/// Width in pixels.
pub(super) const WIDTH: i32 = 360;
/// Margin on both sides in pixels.
pub(super) const MARGIN: i32 = 8;
/// Height of text in pixels.
const TEXT: i32 = 12;

/// The side of a text that its position refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    Left,
    Centre,
    Right,
}

/// A plot under construction.
pub(super) struct Canvas(String);

/// Draws a plot of some height as SVG. `label` describes it for screen readers.
pub(super) fn svg(label: &str, height: i32, draw: impl FnOnce(&mut Canvas)) -> String {
    let label = escaped(label).replace('"', "&quot;");
    let mut canvas = Canvas(format!(
        "<svg role=\"img\" aria-label=\"{label}\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" xmlns=\"http://www.w3.org/2000/svg\">"
    ));
    draw(&mut canvas);
    canvas.0 + "</svg>"
}

impl Canvas {
    /// Writes text, centred vertically.
    pub(super) fn text(&mut self, text: &str, (x, y): (i32, i32), side: Side, colour: Colour) {
        let anchor = match side {
            Side::Left => "start",
            Side::Centre => "middle",
            Side::Right => "end",
        };
        let (fill, text) = (colour.hex(), escaped(text));
        self.0 += &format!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.35em\" text-anchor=\"{anchor}\" \
             font-family=\"sans-serif\" font-size=\"{TEXT}\" fill=\"{fill}\">{text}</text>"
        );
    }

    /// Draws a line through points.
    pub(super) fn path(&mut self, points: &[(i32, i32)], colour: Colour, width: u32) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let (stroke, points) = (colour.hex(), points.join(" "));
        self.0 += &format!(
            "<polyline fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" \
             points=\"{points}\"/>"
        );
    }

    /// Draws a line between two points.
    pub(super) fn line(&mut self, from: (i32, i32), to: (i32, i32), colour: Colour, width: u32) {
        self.path(&[from, to], colour, width);
    }

    pub(super) fn dot(&mut self, (x, y): (i32, i32), radius: i32, colour: Colour) {
        let fill = colour.hex();
        self.0 += &format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{fill}\"/>");
    }

    /// Draws a filled rectangle between its upper left and its lower right corner.
    pub(super) fn bar(&mut self, [(x, y), (right, bottom)]: [(i32, i32); 2], colour: Colour) {
        let (width, height, fill) = (right - x, bottom - y, colour.hex());
        self.0 += &format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"
        );
    }

    /// Draws the ticks of a scale between two heights, with labels.
    pub(super) fn ticks(&mut self, scale: &Scale, axis: &Axis, top: i32, bottom: i32) {
        for tick in scale.ticks() {
            self.line((scale.at(tick), top), (scale.at(tick), bottom), GRID, 1);
        }
        self.labels(scale, axis, bottom);
    }

    /// Draws the labels of ticks below a plot, and the label of the axis.
    pub(super) fn labels(&mut self, scale: &Scale, axis: &Axis, bottom: i32) {
        for tick in scale.ticks() {
            let at = (scale.at(tick), bottom + 9);
            self.text(&(axis.format)(tick), at, Side::Centre, MUTED);
        }
        self.text(axis.label, (WIDTH - MARGIN, bottom + 25), Side::Right, MUTED);
    }
}
