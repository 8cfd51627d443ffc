//! Small plots as inline SVG: dots on a scale, stacked bars, lines.
//!
//! A plot has the width of a phone; wider screens show several side by side.

mod canvas;
mod dots;
mod lines;
mod scale;
mod stacked;

pub use dots::{Dot, Dots, Lane};
pub use lines::{Line, Lines};
pub use scale::{Axis, Spacing};
pub use stacked::{Bar, Stacked};
