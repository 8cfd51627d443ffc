//! Stacked bars.

use crate::render::chart::canvas::{MARGIN, Side, WIDTH, svg};
use crate::render::chart::scale::{Axis, Scale};
use crate::render::palette::{Colour, INK, MUTED};

/// Stacked bars on one axis that starts at zero.
#[derive(Clone, Debug)]
pub struct Stacked {
    /// Description for screen readers.
    pub label: String,
    /// The axis.
    pub axis: Axis,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Text on the left.
    pub name: String,
    /// Text on the right.
    pub note: String,
    /// Lengths and colours from left to right.
    pub parts: Vec<(f64, Colour)>,
}

/// Height of a bar with its name in pixels.
const ROW: i32 = 36;

impl Stacked {
    /// Draws the plot as SVG.
    pub fn svg(&self) -> String {
        let bottom = 4 + ROW * self.bars.len() as i32;
        svg(&self.label, bottom + 36, |canvas| {
            let lengths = self.bars.iter().map(|bar| bar.parts.iter().map(|part| part.0).sum());
            let pixels = (MARGIN + 10, WIDTH - MARGIN - 16);
            let scale = Scale::new(self.axis.spacing, lengths, pixels);
            canvas.ticks(&scale, &self.axis, 4, bottom);
            for (bar, y) in self.bars.iter().zip((4..).step_by(ROW as usize)) {
                canvas.text(&bar.name, (MARGIN, y + 9), Side::Left, INK);
                canvas.text(&bar.note, (WIDTH - MARGIN, y + 9), Side::Right, MUTED);
                let mut from = 0.0;
                for &(length, colour) in &bar.parts {
                    let (left, right) = (scale.at(from), scale.at(from + length));
                    if right > left {
                        canvas.bar([(left, y + 19), (right, y + 31)], colour);
                    }
                    from += length;
                }
            }
        })
    }
}
