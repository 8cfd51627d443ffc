//! Small plots as inline SVG: dots on a scale, stacked bars, lines.
//!
//! They are as wide as a phone, and stand side by side where there is room. Labels stand at what
//! they name.

mod dots;
mod lines;
mod scale;
mod stacked;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub use dots::{Dot, Dots, Lane};
pub use lines::{Line, Lines};
pub use scale::{Axis, Spacing};
pub use stacked::{Bar, Stacked};

use crate::palette::{Colour, GRID, MUTED};
use crate::workload::Failure;
use scale::Scale;

/// Width in pixels.
const WIDTH: i32 = 360;
/// Pixels on both sides.
const MARGIN: i32 = 8;
/// Pixels of text.
const TEXT: i32 = 12;

/// A plot under construction.
struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Draws a plot of some height; `says` is what it shows, for those who cannot see it.
fn svg(
    says: &str,
    height: i32,
    draw: impl FnOnce(&Canvas<'_>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let mut svg = String::new();
    let size = (WIDTH as u32, height as u32);
    let canvas = Canvas { area: SVGBackend::with_string(&mut svg, size).into_drawing_area() };
    draw(&canvas)?;
    canvas.area.present().map_err(|error| error.to_string())?;
    drop(canvas);
    let says = crate::page::escaped(says).replace('"', "&quot;");
    let element = format!("<svg role=\"img\" aria-label=\"{says}\" ");
    Ok(svg.trim().replacen("<svg ", &element, 1).replace('\n', ""))
}

impl Canvas<'_> {
    fn text(&self, text: &str, at: (i32, i32), side: HPos, colour: Colour) -> Result<(), Failure> {
        let colour = colour.rgb();
        let style = ("sans-serif", TEXT).into_font().color(&colour);
        let style = style.pos(Pos::new(side, VPos::Center));
        self.draw(&Text::new(text.to_string(), at, style))
    }

    fn line(
        &self,
        from: (i32, i32),
        to: (i32, i32),
        colour: Colour,
        width: u32,
    ) -> Result<(), Failure> {
        let style = ShapeStyle::from(colour.rgb()).stroke_width(width);
        self.draw(&PathElement::new([from, to], style))
    }

    fn path(&self, points: Vec<(i32, i32)>, colour: Colour) -> Result<(), Failure> {
        self.draw(&PathElement::new(points, ShapeStyle::from(colour.rgb()).stroke_width(2)))
    }

    fn dot(&self, at: (i32, i32), radius: i32, colour: Colour) -> Result<(), Failure> {
        self.draw(&Circle::new(at, radius, colour.rgb().filled()))
    }

    fn bar(&self, corners: [(i32, i32); 2], colour: Colour) -> Result<(), Failure> {
        self.draw(&Rectangle::new(corners, colour.rgb().filled()))
    }

    /// A scale's ticks between two heights, and their labels.
    fn ticks(&self, scale: &Scale, axis: &Axis, top: i32, bottom: i32) -> Result<(), Failure> {
        for tick in scale.ticks() {
            self.line((scale.at(tick), top), (scale.at(tick), bottom), GRID, 1)?;
        }
        self.labels(scale, axis, bottom)
    }

    /// The labels of ticks below a plot, and what the scale shows.
    fn labels(&self, scale: &Scale, axis: &Axis, bottom: i32) -> Result<(), Failure> {
        for tick in scale.ticks() {
            let at = (scale.at(tick), bottom + 9);
            self.text(&(axis.format)(tick), at, HPos::Center, MUTED)?;
        }
        self.text(axis.label, (WIDTH - MARGIN, bottom + 25), HPos::Right, MUTED)
    }

    fn draw<'e, E>(&self, element: &'e E) -> Result<(), Failure>
    where
        &'e E: plotters::element::PointCollection<'e, (i32, i32)>,
        E: for<'b> plotters::element::Drawable<SVGBackend<'b>>,
    {
        Ok(self.area.draw(element).map_err(|error| error.to_string())?)
    }
}
