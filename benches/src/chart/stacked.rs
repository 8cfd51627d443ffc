//! Bars made of parts.

use plotters::style::text_anchor::HPos;

use super::scale::{Axis, Scale};
use super::{MARGIN, WIDTH, svg};
use crate::palette::{Colour, INK, MUTED};
use crate::workload::Failure;

/// Bars on one scale that begins at zero.
#[derive(Clone, Debug)]
pub struct Stacked {
    /// What it shows.
    pub says: String,
    /// The scale.
    pub axis: Axis,
    /// From above.
    pub bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// What stands at its other end.
    pub note: String,
    /// Lengths, from the left.
    pub parts: Vec<(f64, Colour)>,
}

/// Pixels of a bar with its name.
const ROW: i32 = 36;

impl Stacked {
    /// The plot.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String, Failure> {
        let bottom = 4 + ROW * self.bars.len() as i32;
        svg(&self.says, bottom + 36, |canvas| {
            let lengths = self.bars.iter().map(|bar| bar.parts.iter().map(|part| part.0).sum());
            let pixels = (MARGIN + 10, WIDTH - MARGIN - 16);
            let scale = Scale::new(self.axis.spacing, lengths, pixels);
            canvas.ticks(&scale, &self.axis, 4, bottom)?;
            for (bar, y) in self.bars.iter().zip((4..).step_by(ROW as usize)) {
                canvas.text(&bar.name, (MARGIN, y + 9), HPos::Left, INK)?;
                canvas.text(&bar.note, (WIDTH - MARGIN, y + 9), HPos::Right, MUTED)?;
                let mut from = 0.0;
                for &(length, colour) in &bar.parts {
                    let (left, right) = (scale.at(from), scale.at(from + length));
                    if right > left {
                        canvas.bar([(left, y + 19), (right, y + 31)], colour)?;
                    }
                    from += length;
                }
            }
            Ok(())
        })
    }
}
