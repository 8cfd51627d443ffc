//! The generated C++ of products of weights and vectors. Neighbouring products of a phase run side
//! by side: their rows arrive together, and more threads have a column to compute.

use std::fmt::Write;
use std::ops::Range;

use edbatch_layout::{CellStep, Mode, Place, RowKernel, RowStep};

use super::{PhaseWriter, ResidentStack, reduction};
use crate::DevicePrecision;
use crate::phases::recomputed;

/// The number of elements of each row that shared memory holds: `PIECE` of `kernels/product.h`.
pub(super) const PIECE: u32 = 512;

/// A product of a run.
pub(super) struct Member {
    /// The step of the cell.
    step: usize,
    /// The index of its vector in the run.
    vector: usize,
    /// The pass in which it stores its results: 1 if it reads results of pass 0.
    pass: u32,
}

/// Products that run side by side, and the C++ of their different vectors.
#[derive(Default)]
pub(super) struct Run {
    pub(super) members: Vec<Member>,
    vectors: Vec<Vector>,
}

/// The rows that a product multiplies: a C++ function of the row's number in the tile.
#[derive(Clone, PartialEq)]
struct Vector {
    /// `rows` or `computed_rows` of `kernels/product.h`.
    kind: &'static str,
    function: String,
}

impl PhaseWriter<'_> {
    /// Returns the longest run of products from step `first` on, which is a product. They have
    /// vectors of the same width, and shared memory holds all of these vectors.
    pub(super) fn run(&self, first: usize) -> Run {
        let mut run = Run::default();
        let (_, depth) = self.shape(first);
        for step in first..self.entry.phase.steps.end {
            let is_product = matches!(self.cell.steps[step], CellStep::Product { .. });
            let is_first = run.members.is_empty();
            // Tensor cores multiply all columns of a tile by the same rows.
            if !is_first && (self.precision == DevicePrecision::Tf32 || !is_product) {
                break;
            }
            let passes = run.members.iter().filter(|other| self.depend(other.step, step));
            let pass = passes.map(|other| other.pass + 1).max().unwrap_or(0);
            let vector = self.vector(step);
            let known = run.vectors.iter().position(|other| *other == vector);
            let count = run.vectors.len() as u32 + u32::from(known.is_none());
            let fits = count * depth.next_multiple_of(4) <= PIECE && self.shape(step).1 == depth;
            if !is_first && (pass > 1 || !fits) {
                break;
            }
            if known.is_none() {
                run.vectors.push(vector);
            }
            let vector = known.unwrap_or(run.vectors.len() - 1);
            run.members.push(Member { step, vector, pass });
        }
        run
    }

    /// Writes the products of a run.
    pub(super) fn products(&self, run: &Run, resident: &ResidentStack<'_>, text: &mut String) {
        let (_, depth) = self.shape(run.members[0].step);
        line!(text, "    {{");
        let mut rows = String::new();
        for (number, Vector { kind, function }) in run.vectors.iter().enumerate() {
            line!(text, "        auto x{number} = {function};");
            rows += &format!(", {kind}(x{number}, {})", number as u32 * depth.next_multiple_of(4));
        }
        line!(text, "        auto load = [&](u32 from, u32 length) {{");
        line!(text, "            load_tile(block, j.count, from, length{rows});");
        line!(text, "        }};");
        let mut owned = Vec::new();
        for (number, member) in run.members.iter().enumerate() {
            self.member(number, member, depth, text);
            let Some((stack, _)) = resident(member.step) else { continue };
            owned.push(number);
            line!(
                text,
                "        bool own{number} = resident(block, {stack}, at{stack}, {depth}, \
                 columns{number}, streamed{number});"
            );
            let at = member.vector as u32 * depth.next_multiple_of(4);
            line!(text, "        auto resident{number} = [&](u32 q) {{");
            line!(text, "            const float* own = block.shared + SHARED + at{stack};");
            line!(text, "            return Column{{own + 4 * q, 4 * columns{number}, {at}}};");
            line!(text, "        }};");
            line!(text, "        auto any{number} = [&](u32 q) {{");
            line!(
                text,
                "            return own{number} ? resident{number}(q) : streamed{number}(q);"
            );
            line!(text, "        }};");
        }
        let call = |constant: bool, of: &dyn Fn(usize) -> &'static str| {
            let part = |(number, member): (usize, &Member)| {
                let (pass, of) = (member.pass, of(number));
                format!(", stack<{pass}>(columns{number}, {of}{number}, finish{number})")
            };
            let parts: String = run.members.iter().enumerate().map(part).collect();
            let multiply = self.multiply;
            format!("{multiply}<{constant}>(block, j.count, {depth}, load{parts});")
        };
        if owned.len() == run.members.len() {
            let all: Vec<_> = owned.iter().map(|number| format!("own{number}")).collect();
            line!(text, "        if ({})", all.join(" && "));
            line!(text, "            {}", call(false, &|_| "resident"));
            line!(text, "        else");
        }
        let any = |number| if owned.contains(&number) { "any" } else { "streamed" };
        match run.members.len() {
            1 => line!(text, "            {}", call(true, &|_| "streamed")),
            _ => line!(text, "            {}", call(owned.is_empty(), &any)),
        }
        line!(text, "    }}");
    }

    /// Writes the columns, the weights and the results of a product of a run.
    fn member(&self, number: usize, member: &Member, depth: u32, text: &mut String) {
        let CellStep::Product { weights, rows, out, mode, .. } = &self.cell.steps[member.step]
        else {
            unreachable!("called for products")
        };
        let units = self.entry.phase.units[member.step - self.entry.phase.steps.start];
        let start = self.weights.of_stack(weights);
        let groups = rows / units;
        let own = format!("units{number}");
        let column = match groups {
            1 => format!("{own}.first + q"),
            _ => format!("q / {own}.count * {units} + {own}.first + q % {own}.count"),
        };
        let at = member.vector as u32 * depth.next_multiple_of(4);
        let to = format!("a.arena + {} + n, {}", self.own(*out, "j.first"), self.stride(*out));
        let before = match mode {
            Mode::Set => None,
            Mode::Add => Some(*out),
            Mode::From(place) => Some(*place),
        };
        let results = match before {
            None => format!("set({to})"),
            Some(place) => {
                let read = self.read(place, "call", "n");
                format!("add_to([&](u32 r) {{ u32 call = j.first + r; return {read}; }}, {to})")
            }
        };
        line!(text, "        Units {own}({units}, j);");
        line!(text, "        u32 columns{number} = {groups} * {own}.count;");
        line!(text, "        auto column{number} = [&](u32 q) {{ return {column}; }};");
        line!(text, "        auto streamed{number} = [&](u32 q) {{");
        line!(
            text,
            "            const float* fours = a.weights + {start} + 4 * column{number}(q);"
        );
        line!(text, "            return Column{{fours, 4 * {rows}, {at}}};");
        line!(text, "        }};");
        line!(text, "        auto finish{number} = [&](u32 q, auto results) {{");
        line!(text, "            u32 n = column{number}(q);");
        line!(text, "            results.{results};");
        line!(text, "        }};");
    }

    /// Returns the numbers of columns of weights and of elements of the vector of a product.
    fn shape(&self, step: usize) -> (u32, u32) {
        match self.cell.steps[step] {
            CellStep::Product { rows, width, .. } => (rows, width),
            _ => unreachable!("called for products"),
        }
    }

    /// Returns true if one of two products writes columns that the other writes or reads.
    fn depend(&self, one: usize, other: usize) -> bool {
        let touched = |step: usize| {
            let CellStep::Product { rows, out, mode, .. } = self.cell.steps[step] else {
                unreachable!("called for products")
            };
            let read = match mode {
                Mode::Set => None,
                Mode::Add => Some(out),
                Mode::From(place) => Some(place),
            };
            (columns(out, rows), read.map(|place| columns(place, rows)))
        };
        let overlap = |(a, a_columns): &Columns, (b, b_columns): &Columns| {
            a == b && a_columns.start < b_columns.end && b_columns.start < a_columns.end
        };
        let ((writes, reads), (other_writes, other_reads)) = (touched(one), touched(other));
        overlap(&writes, &other_writes)
            || other_reads.is_some_and(|other| overlap(&writes, &other))
            || reads.is_some_and(|reads| overlap(&reads, &other_writes))
    }

    /// Returns the vector of a product.
    fn vector(&self, step: usize) -> Vector {
        let CellStep::Product { x, width, .. } = self.cell.steps[step] else {
            unreachable!("called for products")
        };
        let stored = |place| Vector {
            kind: "rows",
            function: format!(
                "[&](u32 r) -> const float* {{ u32 call = j.first + r; return {}; }}",
                self.address(place, "call")
            ),
        };
        let before = self.entry.phase.steps.start..step;
        let pieces = recomputed(self.cell, before, x, width);
        match pieces.as_slice() {
            [] => stored(x),
            [(_, writer)] if self.copied(*writer, x).is_some() => {
                stored(self.copied(*writer, x).expect("just found"))
            }
            [others @ .., last] => {
                let mut values = String::new();
                let mut again =
                    |&(_, writer): &(Range<u32>, usize)| self.again(writer, x, &mut values);
                let mut function = String::new();
                for piece in others {
                    function += &format!("if (k < {}) {{ {} }} ", piece.0.end, again(piece));
                }
                function += &again(last);
                let function = format!(
                    "[&](u32 r) {{ u32 call = j.first + r; {values}return [=, &a, &j, \
                     &block](u32 k) {{ {function} }}; }}"
                );
                Vector { kind: "computed_rows", function }
            }
        }
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

    /// Returns C++ code that computes column `k` of a place once more, from the cell's arguments.
    /// Adds to `values` the code that runs once for all columns.
    fn again(&self, writer: usize, place: Place, values: &mut String) -> String {
        // `k` counts from the start of the place, which may lie before the columns of the step.
        let own = |out: Place| match place.offset.checked_sub(out.offset) {
            Some(behind) => (behind, "k".to_string()),
            None => (0, format!("(k - {})", out.offset - place.offset)),
        };
        match self.cell.steps[writer] {
            CellStep::Rows(RowStep { kernel: RowKernel::Copy, from: [from, _], out, .. }) => {
                let (behind, column) = own(out);
                let from = Place { offset: from.offset + behind, ..from };
                format!("return {};", self.read(from, "call", &column))
            }
            CellStep::Reduce { port, from, by, out, .. } => {
                let operand = self.tables() + usize::from(port);
                let (reduce, (behind, column)) = (reduction(by), own(out));
                *values +=
                    &format!("Values values{writer}(a.commands, j.operand({operand}), call); ");
                format!(
                    "return {reduce}(values{writer}.count, [&](u32 v) {{ return fresh(a.arena + \
                     values{writer}.rows[v] + {} + {column}); }});",
                    from + behind
                )
            }
            _ => unreachable!("only reductions and copies are computed again"),
        }
    }
}

/// A base and a range of its columns.
type Columns = (edbatch_layout::Base, Range<u32>);

fn columns(Place { base, offset }: Place, width: u32) -> Columns {
    (base, offset..offset + width)
}
