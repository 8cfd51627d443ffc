//! Lines on logarithmic axes.

use crate::render::chart::canvas::{Canvas, MARGIN, Side, WIDTH, svg};
use crate::render::chart::scale::{Axis, Scale, Spacing};
use crate::render::palette::{Colour, GRID, INK, MUTED};

/// Lines with names at their right ends.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Description for screen readers.
    pub label: String,
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub up: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// Its colour.
    pub colour: Colour,
}

/// Sizes in pixels: the plot, labels on the left, names on the right, distance between names.
const HEIGHT: i32 = 220;
const LABELS: i32 = 40;
const NAMES: i32 = 80;
const APART: i32 = 13;

impl Lines {
    /// Draws the plot as SVG.
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (top, bottom) = (22, 22 + HEIGHT);
        let across = (LABELS, WIDTH - NAMES - 8);
        let across = Scale::new(Spacing::Log, points().map(|point| point.0), across);
        let up = Scale::new(Spacing::Log, points().map(|point| point.1), (bottom, top));
        svg(&self.label, bottom + 36, |canvas| {
            canvas.text(self.up.label, (MARGIN, 9), Side::Left, MUTED);
            canvas.ticks(&across, &self.across, top, bottom);
            for tick in up.ticks() {
                let y = up.at(tick);
                canvas.line((LABELS, y), (WIDTH - NAMES - 8, y), GRID, 1);
                canvas.text(&(self.up.format)(tick), (LABELS - 4, y), Side::Right, MUTED);
            }
            let mut ends = Vec::new();
            for line in &self.lines {
                let place = |&(x, y): &(f64, f64)| (across.at(x), up.at(y));
                let points: Vec<_> = line.points.iter().map(place).collect();
                points.iter().for_each(|&point| canvas.dot(point, 3, line.colour));
                ends.extend(points.last().map(|end| (end.1, line)));
                canvas.path(&points, line.colour, 2);
            }
            names(canvas, ends);
        })
    }
}

/// Draws names at the ends of lines, moved apart if they would overlap.
fn names(canvas: &mut Canvas, mut ends: Vec<(i32, &Line)>) {
    ends.sort_by_key(|end| end.0);
    let mut free = i32::MIN;
    for (y, _) in &mut ends {
        *y = (*y).max(free);
        free = *y + APART;
    }
    // Moves names up again that were pushed below the plot.
    let mut free = 22 + HEIGHT;
    for (y, line) in ends.iter_mut().rev() {
        *y = (*y).min(free);
        free = *y - APART;
        canvas.text(&line.name, (WIDTH - NAMES, *y), Side::Left, INK);
    }
}
