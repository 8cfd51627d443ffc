//! Rows of dots on one scale.

use plotters::style::text_anchor::HPos;

use super::scale::{Axis, Scale};
use super::{Canvas, MARGIN, WIDTH, svg};
use crate::palette::{Colour, GRID, INK, LIMIT, MUTED};
use crate::workload::Failure;

/// Rows of dots.
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

/// Where names stand, and with them the sizes of rows.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Pixels that the scale goes from and to.
    across: (i32, i32),
    /// Pixels of a row above its first line of dots.
    name: i32,
    /// Pixels of a line of dots.
    line: i32,
}

/// Names in a column of their own, if they are short.
const BESIDE: Layout = Layout { across: (108, WIDTH - 104), name: 0, line: 20 };
/// Else each above its dots, so that phones have room for both.
const ABOVE: Layout = Layout { across: (MARGIN + 12, WIDTH - MARGIN - 16), name: 20, line: 13 };
/// The most characters of a short name.
const SHORT: usize = 14;

impl Dots {
    /// The plot.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String, Failure> {
        let short = self.rows.iter().all(|row| row.name.chars().count() <= SHORT);
        let layout = if short { BESIDE } else { ABOVE };
        let height = |row: &Lane| layout.name + layout.line * row.lines() + 2;
        let top = if self.limit.is_some() { 20 } else { 4 };
        let bottom: i32 = top + self.rows.iter().map(height).sum::<i32>();
        svg(&self.says, bottom + 36, |canvas| {
            let figures = self.rows.iter().flat_map(|row| &row.dots);
            let figures = figures.flat_map(|dot| [Some(dot.at), dot.to]).flatten();
            let limit = self.limit.map(|(at, _)| at);
            let scale = Scale::new(self.axis.spacing, figures.chain(limit), layout.across);
            canvas.labels(&scale, &self.axis, bottom)?;
            if let Some((at, name)) = self.limit {
                canvas.text(name, (scale.at(at), 9), HPos::Center, LIMIT)?;
            }
            let mut y = top;
            for row in &self.rows {
                let lines = (y + layout.name, y + height(row) - 2);
                for tick in scale.ticks() {
                    canvas.line((scale.at(tick), lines.0), (scale.at(tick), lines.1), GRID, 1)?;
                }
                if let Some(x) = limit.map(|at| scale.at(at)) {
                    canvas.line((x, lines.0), (x, lines.1), LIMIT, 2)?;
                }
                row.draw(canvas, &scale, y, layout)?;
                y += height(row);
            }
            Ok(())
        })
    }
}

impl Lane {
    /// Dots with bars would hide each other: each has a line of its own.
    fn lines(&self) -> i32 {
        let bars = self.dots.iter().any(|dot| dot.to.is_some());
        if bars { self.dots.len() as i32 } else { 1 }
    }

    fn draw(
        &self,
        canvas: &Canvas<'_>,
        scale: &Scale,
        y: i32,
        layout: Layout,
    ) -> Result<(), Failure> {
        let first = y + layout.name + layout.line / 2;
        let text = if layout.name == 0 { first } else { y + layout.name / 2 };
        canvas.text(&self.name, (MARGIN, text), HPos::Left, INK)?;
        canvas.text(&self.note, (WIDTH - MARGIN, text), HPos::Right, MUTED)?;
        for index in 0..self.lines() {
            let y = first + layout.line * index;
            canvas.line((layout.across.0 - 8, y), (layout.across.1 + 8, y), GRID, 1)?;
        }
        for (index, dot) in (0..).zip(&self.dots) {
            let y = first + layout.line * if self.lines() > 1 { index } else { 0 };
            if let Some(to) = dot.to {
                canvas.line((scale.at(dot.at), y), (scale.at(to), y), dot.colour, 3)?;
            }
            canvas.dot((scale.at(dot.at), y), 5, dot.colour)?;
        }
        Ok(())
    }
}
