//! The generated C++ of products of weights and vectors.

use std::fmt::Write;

use edbatch_layout::{CellStep, Mode, Place, RowKernel, RowStep};

use super::PhaseWriter;
use crate::phases::recomputed;

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
        let (function, stack, out) = (self.multiply, self.stack(index), self.own(*out));
        let call = |rows: &str| {
            format!("{function}(block, j, {rows}, {stack},\n        {out}, {before});")
        };
        let pieces = recomputed(self.cell, self.entry.phase.steps.start..index, *x, *width);
        match pieces.as_slice() {
            [] => line!(text, "    {}", call(&self.rows(*x))),
            [(_, writer)] if self.copied(*writer, *x).is_some() => {
                let from = self.copied(*writer, *x).expect("just found");
                line!(text, "    {}", call(&self.rows(from)));
            }
            pieces => {
                line!(text, "    each_part(j, {width}, [&](Job j) {{");
                for (columns, writer) in pieces {
                    let place = Place { offset: x.offset + columns.start, ..*x };
                    let own = (columns.start, columns.len() as u32, *width);
                    self.gather(*writer, place, own, text);
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
        format!("Stack{{{}ull, {rows}, {width}, {units}}}", self.weights.of_stack(weights))
    }

    /// Returns the place from which a step copies the columns at `x`, if it copies.
    fn copied(&self, writer: usize, x: Place) -> Option<Place> {
        match self.cell.steps[writer] {
            CellStep::Rows(RowStep { kernel: RowKernel::Copy, from: [from, _], out, .. }) => {
                let offset = (from.offset + x.offset).checked_sub(out.offset)?;
                Some(Place { offset, ..from })
            }
            _ => None,
        }
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
                let from = self.copied(writer, place).expect("a copy or a reduction");
                let from = self.rows(from);
                line!(text, "    copy(block, j.whole(), {from}, 1, 0, {to}, {count});");
            }
        }
    }
}
