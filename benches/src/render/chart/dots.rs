//! Rows of dots on one scale.

use crate::render::chart::canvas::{Canvas, MARGIN, Side, WIDTH, svg};
use crate::render::chart::scale::{Axis, Scale};
use crate::render::palette::{Colour, GRID, INK, LIMIT, MUTED};

/// Rows of dots.
#[derive(Clone, Debug)]
pub struct Dots {
    /// Description for screen readers.
    pub label: String,
    /// The axis of all rows.
    pub axis: Axis,
    /// A limit and its name.
    pub limit: Option<(f64, &'static str)>,
    /// Rows from top to bottom.
    pub rows: Vec<Lane>,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Text on the left.
    pub name: String,
    /// Text on the right.
    pub note: String,
    /// Dots; later ones cover earlier ones.
    pub dots: Vec<Dot>,
}

/// A figure, drawn as a dot.
#[derive(Clone, Copy, Debug)]
pub struct Dot {
    /// Position on the axis.
    pub at: f64,
    /// End of a bar that starts at the dot.
    pub to: Option<f64>,
    /// Its colour.
    pub colour: Colour,
}

impl Dot {
    /// A dot without a bar.
    pub fn new(at: f64, colour: Colour) -> Self {
        Self { at, to: None, colour }
    }
}

/// Placement of names, and the sizes of rows.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Ends of the scale in pixels.
    across: (i32, i32),
    /// Height of the name above the dots in pixels.
    name: i32,
    /// Height of a line of dots in pixels.
    line: i32,
}

/// Short names in a separate column.
const BESIDE: Layout = Layout { across: (108, WIDTH - 104), name: 0, line: 20 };
/// Long names above their dots, so that both fit on phones.
const ABOVE: Layout = Layout { across: (MARGIN + 12, WIDTH - MARGIN - 16), name: 20, line: 13 };
/// Maximum characters of a short name.
const MAX_SHORT: usize = 14;

impl Dots {
    /// Draws the plot as SVG.
    pub fn svg(&self) -> String {
        let short = self.rows.iter().all(|row| row.name.chars().count() <= MAX_SHORT);
        let layout = if short { BESIDE } else { ABOVE };
        let height = |row: &Lane| layout.name + layout.line * row.lines() + 2;
        let top = if self.limit.is_some() { 20 } else { 4 };
        let bottom: i32 = top + self.rows.iter().map(height).sum::<i32>();
        svg(&self.label, bottom + 36, |canvas| {
            let figures = self.rows.iter().flat_map(|row| &row.dots);
            let figures = figures.flat_map(|dot| [Some(dot.at), dot.to]).flatten();
            let limit = self.limit.map(|(at, _)| at);
            let scale = Scale::new(self.axis.spacing, figures.chain(limit), layout.across);
            canvas.labels(&scale, &self.axis, bottom);
            if let Some((at, name)) = self.limit {
                // All of the name stays inside: a character takes less than 8 pixels.
                let half = 4 * name.len() as i32;
                let x = scale.at(at).clamp(half, WIDTH - half);
                canvas.text(name, (x, 9), Side::Centre, LIMIT);
            }
            let mut y = top;
            for row in &self.rows {
                let lines = (y + layout.name, y + height(row) - 2);
                for tick in scale.ticks() {
                    canvas.line((scale.at(tick), lines.0), (scale.at(tick), lines.1), GRID, 1);
                }
                if let Some(x) = limit.map(|at| scale.at(at)) {
                    canvas.line((x, lines.0), (x, lines.1), LIMIT, 2);
                }
                row.draw(canvas, &scale, y, layout);
                y += height(row);
            }
        })
    }
}

impl Lane {
    /// Returns the number of lines. Dots with bars have a line each, because they would overlap.
    fn lines(&self) -> i32 {
        let bars = self.dots.iter().any(|dot| dot.to.is_some());
        if bars { self.dots.len() as i32 } else { 1 }
    }

    fn draw(&self, canvas: &mut Canvas, scale: &Scale, y: i32, layout: Layout) {
        let first = y + layout.name + layout.line / 2;
        let text = if layout.name == 0 { first } else { y + layout.name / 2 };
        canvas.text(&self.name, (MARGIN, text), Side::Left, INK);
        canvas.text(&self.note, (WIDTH - MARGIN, text), Side::Right, MUTED);
        for index in 0..self.lines() {
            let y = first + layout.line * index;
            canvas.line((layout.across.0 - 8, y), (layout.across.1 + 8, y), GRID, 1);
        }
        for (index, dot) in (0..).zip(&self.dots) {
            let y = first + layout.line * if self.lines() > 1 { index } else { 0 };
            if let Some(to) = dot.to {
                canvas.line((scale.at(dot.at), y), (scale.at(to), y), dot.colour, 3);
            }
            canvas.dot((scale.at(dot.at), y), 5, dot.colour);
        }
    }
}
