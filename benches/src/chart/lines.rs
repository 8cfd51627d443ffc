//! Lines over a common scale, both of ratios.

use plotters::style::text_anchor::HPos;

use super::scale::{Axis, Scale, Spacing};
use super::{Canvas, MARGIN, WIDTH, svg};
use crate::palette::{Colour, GRID, INK, MUTED};
use crate::workload::Failure;

/// Lines with their names at their ends.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What it shows.
    pub says: String,
    /// The scale from left to right.
    pub across: Axis,
    /// The scale from below.
    pub up: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Across, up; from the left.
    pub points: Vec<(f64, f64)>,
    /// Its colour.
    pub colour: Colour,
}

/// Pixels: of the plot, of labels at the left, of names at the right, between two names.
const HEIGHT: i32 = 220;
const LABELS: i32 = 40;
const NAMES: i32 = 80;
const APART: i32 = 13;

impl Lines {
    /// The plot.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String, Failure> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (top, bottom) = (22, 22 + HEIGHT);
        let across = (LABELS, WIDTH - NAMES - 8);
        let across = Scale::new(Spacing::Log, points().map(|point| point.0), across);
        let up = Scale::new(Spacing::Log, points().map(|point| point.1), (bottom, top));
        svg(&self.says, bottom + 36, |canvas| {
            canvas.text(self.up.label, (MARGIN, 9), HPos::Left, MUTED)?;
            canvas.ticks(&across, &self.across, top, bottom)?;
            for tick in up.ticks() {
                let y = up.at(tick);
                canvas.line((LABELS, y), (WIDTH - NAMES - 8, y), GRID, 1)?;
                canvas.text(&(self.up.format)(tick), (LABELS - 4, y), HPos::Right, MUTED)?;
            }
            let mut ends = Vec::new();
            for line in &self.lines {
                let place = |&(x, y): &(f64, f64)| (across.at(x), up.at(y));
                let points: Vec<_> = line.points.iter().map(place).collect();
                points.iter().try_for_each(|&point| canvas.dot(point, 3, line.colour))?;
                ends.extend(points.last().map(|end| (end.1, line)));
                canvas.path(points, line.colour)?;
            }
            names(canvas, ends)
        })
    }
}

/// Names at the ends of lines, moved apart where they would overlap.
fn names(canvas: &Canvas<'_>, mut ends: Vec<(i32, &Line)>) -> Result<(), Failure> {
    ends.sort_by_key(|end| end.0);
    let mut free = i32::MIN;
    for (y, _) in &mut ends {
        *y = (*y).max(free);
        free = *y + APART;
    }
    // Back up again, if they have been pushed below the plot.
    let mut free = 22 + HEIGHT;
    for (y, line) in ends.iter_mut().rev() {
        *y = (*y).min(free);
        free = *y - APART;
        canvas.text(&line.name, (WIDTH - NAMES, *y), HPos::Left, INK)?;
    }
    Ok(())
}
