//! The generated C++ of steps on rows: a thread computes a row of a normalization, and an element
//! of any other step.

use std::fmt::Write;

use edbatch_graph::Normalization;
use edbatch_layout::{RowKernel, RowStep};

use super::{ADJOINT, PhaseWriter, constant};

impl PhaseWriter<'_> {
    pub(super) fn normalize(&self, by: Normalization, step: &RowStep, text: &mut String) {
        let RowStep { from: [from, _], rows, columns: width, out, .. } = step;
        let column = "first + i";
        let (from, to) = (self.read(*from, "call", column), self.write_to(*out, "call", column));
        let (function, option) = match by {
            Normalization::Softmax => ("softmax_row", "false".into()),
            Normalization::LogSoftmax => ("softmax_row", "true".into()),
            Normalization::LayerNorm(epsilon) => {
                ("norm_row", format!("{}, true", constant(epsilon)))
            }
            Normalization::RmsNorm(epsilon) => {
                ("norm_row", format!("{}, false", constant(epsilon)))
            }
        };
        line!(text, "        block.superstep([&](u32 t) {{");
        line!(text, "            if (t >= j.count * units.count) return;");
        line!(text, "            u32 call = j.first + t;");
        line!(text, "            for (u32 first = 0; first < {}; first += {width})", rows * width);
        line!(text, "                {function}({width}, [&](u32 i) {{ return {from}; }},");
        line!(text, "                        [&](u32 i, float x) {{ {to} = x; }}, {option});");
        line!(text, "        }});");
    }

    /// Returns the C++ expression of unit `u` of a step on rows.
    pub(super) fn row_element(&self, step: &RowStep) -> String {
        let RowStep { kernel, from: [from, right], rows, columns, .. } = *step;
        match kernel {
            RowKernel::Copy => self.read(from, "call", "u"),
            RowKernel::Fill(value) => constant(value),
            RowKernel::Expand => self.read(from, "call", &format!("u / {columns}")),
            RowKernel::Transpose => {
                self.read(from, "call", &format!("u % {rows} * {columns} + u / {rows}"))
            }
            RowKernel::Dot => {
                let column = format!("u * {columns} + i");
                let [left, right] = [from, right].map(|place| self.read(place, "call", &column));
                format!(
                    "dot_rows({columns}, [&](u32 i) {{ return {left}; }}, [&](u32 i) {{ return \
                     {right}; }})"
                )
            }
            RowKernel::Select(table) => {
                let index = self.start(usize::from(table), "call");
                self.read(from, "call", &format!("{index} * {columns} + u"))
            }
            RowKernel::Normalize(_) => unreachable!("a thread computes a row"),
            RowKernel::Fold | RowKernel::Share(_) | RowKernel::Ties { .. } => {
                unreachable!("{ADJOINT}")
            }
            RowKernel::OneHot(_) => unreachable!("{ADJOINT}"),
        }
    }
}
