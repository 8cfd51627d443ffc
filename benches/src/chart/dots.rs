//! Rows of dots on one scale.

use plotters::style::text_anchor::HPos;

use super::scale::{Axis, Scale};
use super::{Canvas, MARGIN, WIDTH, svg};
use crate::palette::{Colour, GRID, INK, LIMIT, MUTED};
use crate::workload::Failure;

/// Rows of dots; a row's name stands above it, so that phones have room for both.
#[derive(Clone, Debug)]
pub struct Dots {
    /// What it shows.
    pub says: String,
    /// The scale of all rows.
    pub axis: Axis,
    /// A limit, with its name.
    pub limit: Option<(f64, &'static str)>,
    /// From above.
    pub rows: Vec<Lane>,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// What stands at its other end.
    pub note: String,
    /// Those drawn last are on top.
    pub dots: Vec<Dot>,
}

/// A figure.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// Where the dot is.
    pub at: f64,
    /// Where a bar that begins there ends.
    pub to: Option<f64>,
    /// Its colour.
    pub colour: Colour,
}

/// Pixels of a row: its name, and the dots.
const NAME: i32 = 17;
const DOTS: i32 = 15;
const GAP: i32 = 5;

impl Dots {
    /// The plot.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String, Failure> {
        // Dots with bars would hide each other: each has a line of its own.
        let lines = |row: &Lane| match row.dots.iter().any(|dot| dot.to.is_some()) {
            true => row.dots.len().max(1) as i32,
            false => 1,
        };
        let height = |row: &Lane| NAME + GAP + lines(row).max(1) * (DOTS - 4) + 4;
        let top = if self.limit.is_some() { 20 } else { 4 };
        let bottom: i32 = top + self.rows.iter().map(height).sum::<i32>();
        svg(&self.says, bottom + 36, |canvas| {
            let figures = self.rows.iter().flat_map(|row| &row.dots);
            let figures = figures.flat_map(|dot| [Some(dot.at), dot.to]).flatten();
            let limit = self.limit.map(|(at, _)| at);
            let pixels = (MARGIN + 12, WIDTH - MARGIN - 16);
            let scale = Scale::new(self.axis.spacing, figures.chain(limit), pixels);
            canvas.ticks(&scale, &self.axis, top, bottom)?;
            if let Some((at, name)) = self.limit {
                let x = scale.at(at);
                canvas.line((x, top), (x, bottom), LIMIT, 2)?;
                let side = if x > WIDTH / 2 { HPos::Right } else { HPos::Left };
                canvas.text(name, (x + if x > WIDTH / 2 { 4 } else { -4 }, 9), side, LIMIT)?;
            }
            let mut y = top;
            for row in &self.rows {
                row.draw(canvas, &scale, y, lines(row))?;
                y += height(row);
            }
            Ok(())
        })
    }
}

impl Lane {
    fn draw(&self, canvas: &Canvas<'_>, scale: &Scale, y: i32, lines: i32) -> Result<(), Failure> {
        canvas.text(&self.name, (MARGIN, y + NAME / 2 + 1), HPos::Left, INK)?;
        canvas.text(&self.note, (WIDTH - MARGIN, y + NAME / 2 + 1), HPos::Right, MUTED)?;
        let line = |index: i32| y + NAME + DOTS / 2 + (DOTS - 4) * index;
        for index in 0..lines {
            canvas.line((MARGIN, line(index)), (WIDTH - MARGIN, line(index)), GRID, 1)?;
        }
        for (index, dot) in (0..).zip(&self.dots) {
            let y = line(if lines > 1 { index } else { 0 });
            if let Some(to) = dot.to {
                canvas.line((scale.at(dot.at), y), (scale.at(to), y), dot.colour, 3)?;
            }
            canvas.dot((scale.at(dot.at), y), 5, dot.colour)?;
        }
        Ok(())
    }
}
