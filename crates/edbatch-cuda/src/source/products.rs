//! The generated C++ of products of weights and vectors.

use std::fmt::Write;

use edbatch_layout::{CellStep, Mode, Place};

use super::PhaseWriter;
use crate::phases::{copied, recomputed, whole_row};

impl PhaseWriter<'_> {
    /// Writes the call of the function for a product.
    pub(super) fn product(&self, index: usize, text: &mut String) {
        let CellStep::Product { x, width, out, mode, .. } = &self.cell.steps[index] else {
            unreachable!("called for products")
        };
        let before = match mode {
            Mode::Set => "no_rows()".into(),
            Mode::Add => self.rows(*out),
            Mode::From(place) => self.rows(*place),
        };
        let function = if self.entry.is_large { "large" } else { "small" };
        let (stack, out) = (self.stack(index), self.own(*out));
        let call = |rows: &str| {
            format!("{function}(block, j, {rows}, {stack},\n        {out}, {before});")
        };
        let before = self.entry.phase.steps.start..index;
        match whole_row(self.cell, before.clone(), *x, *width) {
            Some(from) => line!(text, "    {}", call(&self.rows(from))),
            None => {
                line!(text, "    each_part(j, {width}, [&](Job j) {{");
                for (columns, writer) in recomputed(self.cell, before, *x, *width) {
                    let place = Place { offset: x.offset + columns.start, ..*x };
                    let own = (columns.start, columns.len() as u32, *width);
                    self.gather(writer, place, own, text);
                }
                line!(text, "    {}", call("no_rows()"));
                line!(text, "    }});");
            }
        }
    }

    /// Returns the C++ expression of a product's weights, `Stack` of `small.h`.
    fn stack(&self, index: usize) -> String {
        let CellStep::Product { weights, rows, width, .. } = &self.cell.steps[index] else {
            unreachable!("called for products")
        };
        let units = self.entry.phase.units[index - self.entry.phase.steps.start];
        let start = self.weights.of_stack(weights, self.entry.is_large);
        format!("Stack{{{start}ull, {rows}, {width}, {units}}}")
    }

    /// Writes code that computes `count` columns of a place once more, from the cell's arguments,
    /// into rows of `depth` elements in shared memory, from column `first` on.
    fn gather(
        &self,
        writer: usize,
        place: Place,
        (first, count, depth): (u32, u32, u32),
        text: &mut String,
    ) {
        let to = format!("Own{{block.shared() + {first}, distance({depth})}}");
        match self.cell.steps[writer] {
            CellStep::Reduce { port, from, by, out, .. } => {
                let from = from + place.offset - out.offset;
                self.reduce(port, from, by, (&to, "j.whole()", count), text);
            }
            _ => {
                let from = copied(&self.cell.steps[writer], place).expect("a copy or a reduction");
                let from = self.rows(from);
                line!(text, "    copy(block, j.whole(), {from}, 1, 0, {to}, {count});");
            }
        }
    }
}
