//! Bar charts as inline SVG.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Groups of bars over one axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Bars {
    /// What stands above.
    pub title: String,
    /// What the axis shows.
    pub axis: String,
    /// The names of the bars of a group, each in a colour of its own.
    pub series: Vec<String>,
    /// The names of groups, and a height for each series.
    pub groups: Vec<(String, Vec<f64>)>,
    /// How the bars of a group stand.
    pub stand: Stand,
}

/// How the bars of a group stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stand {
    /// Side by side.
    Beside,
    /// Each on the one before.
    Stacked,
}

/// Width and height of a chart in pixels.
const SIZE: (u32, u32) = (760, 320);
/// Pixels below the axis, for the names of groups and the legend.
const BELOW: u32 = 64;
/// Colours that people who confuse red and green can distinguish (Okabe and Ito), the strongest for
/// the last contestant.
const COLOURS: [RGBColor; 8] = [
    RGBColor(153, 153, 153),
    RGBColor(240, 228, 66),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 114, 178),
    RGBColor(204, 121, 167),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
];

impl Bars {
    /// The chart as an SVG element.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String, Box<dyn std::error::Error>> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area).map_err(|error| format!("{}: {error}", self.title))?;
            area.present().map_err(|error| error.to_string())?;
        }
        Ok(svg)
    }

    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        B::ErrorType: 'static,
    {
        let groups = self.groups.len() as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 16))
            .margin(8)
            .margin_bottom(BELOW)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..groups, 0.0..1.08 * self.highest())?;
        chart.configure_mesh().disable_x_mesh().disable_x_axis().y_desc(&self.axis).draw()?;
        for (group, (name, heights)) in self.groups.iter().enumerate() {
            let bars = self.bars(group as f64, heights);
            chart.draw_series(bars.enumerate().map(|(series, corners)| {
                Rectangle::new(corners, COLOURS[series % COLOURS.len()].filled())
            }))?;
            let (x, y) = chart.backend_coord(&(group as f64 + 0.5, 0.0));
            area.draw(&text(name, (x, y + 8), HPos::Center))?;
        }
        let step = (SIZE.0 as i32 - 80) / self.series.len().max(1) as i32;
        for (series, name) in self.series.iter().enumerate() {
            let (x, y) = (70 + step * series as i32, SIZE.1 as i32 - 22);
            let colour = COLOURS[series % COLOURS.len()].filled();
            area.draw(&Rectangle::new([(x, y), (x + 10, y + 10)], colour))?;
            area.draw(&text(name, (x + 14, y), HPos::Left))?;
        }
        Ok(())
    }

    /// Opposite corners of the bars of a group.
    fn bars(&self, group: f64, heights: &[f64]) -> impl Iterator<Item = [(f64, f64); 2]> {
        const MARGIN: f64 = 0.1;
        let width = (1.0 - 2.0 * MARGIN) / heights.len().max(1) as f64;
        let mut below = 0.0;
        heights.iter().enumerate().map(move |(series, &height)| match self.stand {
            Stand::Beside => {
                let left = group + MARGIN + width * series as f64;
                [(left, 0.0), (left + width, height)]
            }
            Stand::Stacked => {
                let bottom = below;
                below += height;
                [(group + MARGIN, bottom), (group + 1.0 - MARGIN, below)]
            }
        })
    }

    fn highest(&self) -> f64 {
        let heights = self.groups.iter().map(|(_, heights)| match self.stand {
            Stand::Beside => heights.iter().copied().fold(0.0, f64::max),
            Stand::Stacked => heights.iter().sum(),
        });
        heights.fold(f64::MIN_POSITIVE, f64::max)
    }
}

fn text(text: &str, at: (i32, i32), side: HPos) -> Text<'static, (i32, i32), String> {
    let style = TextStyle::from(("sans-serif", 12).into_font()).pos(Pos::new(side, VPos::Top));
    Text::new(text.to_string(), at, style)
}
