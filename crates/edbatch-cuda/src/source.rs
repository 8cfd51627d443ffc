//! The generated C++ of a program: a function for each phase of its cells.
//!
//! Sizes and places are constants of the source, addresses and weights are not. Models of the same
//! sizes have the same source and share a compiled binary.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use edbatch_graph::{Normalization, Reduction};
use edbatch_layout::{
    Base, CellPlan, CellStep, Elementwise, Place, Program, RowKernel, RowStep, Scores, Weight,
};

use super::DevicePrecision;
use super::command_list::{CopyJob, scratch};
use super::device::{Kernel, Source};
use super::operations::{constant, value};
use super::phase_table::{PhaseEntry, PhaseTable, Way};
use super::weights::WeightLayout;

/// Writes a line of a source.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {
        writeln!($text, $($format)*).expect("memory takes every write")
    };
}

mod products;
mod tiles;

pub(crate) use tiles::Tiles;

/// Returns the source of a program.
pub(crate) fn source(
    program: &Program,
    table: &PhaseTable,
    weights: &WeightLayout,
    tiles: &Tiles,
    precision: DevicePrecision,
) -> Source {
    let mut text = String::new();
    if program.training().is_some() {
        line!(text, "#define TRAINED");
    }
    if table.way == Way::Back {
        line!(text, "#define LOSSES");
    }
    if let Some(name) = precision.macro_name() {
        line!(text, "#define {name}");
    }
    for header in ["attention", "copies", "large", "ring", "tensor_tile"] {
        line!(text, "#include \"{header}.h\"");
    }
    let functions = Functions::default();
    let mut phases = String::new();
    for (number, entry) in table.entries().iter().enumerate() {
        let cell = program.part(entry.cell, entry.part).expect("it has phases");
        PhaseWriter::new(program, entry, cell, weights, &functions).write(number, &mut phases);
    }
    for (number, (parameters, operations)) in functions.take().into_iter().enumerate() {
        line!(text, "\nCALLED void elementwise_{number}(");
        line!(text, "    Block block, Job j, u32 units{parameters}) {{");
        line!(text, "    each_unit(block, j, units, [&](u32 r, u32 u) {{");
        line!(text, "{operations}    }});\n}}");
    }
    text += &phases;
    tiles.write(weights, table.way, &mut text);
    choice(table.entries().len(), &mut text);
    line!(text, "#include \"team.h\"");
    Source { text, kernel: Kernel::Plan }
}

/// Writes the function that runs a job.
fn choice(phases: usize, text: &mut String) {
    line!(text, "DEVICE void run_job(TeamBlock block, const Arguments&, Job j, u32 shape) {{");
    line!(text, "    if (shape != 0) return run_tile(block, j, shape);");
    line!(text, "    switch (j.phase()) {{");
    for phase in 0..phases {
        line!(text, "    case {phase}: phase_{phase}(block, j); break;");
    }
    line!(text, "    }}");
    line!(text, "}}\n");
    line!(text, "static_assert(GIVEN == {}u, \"as the commands has it\");", CopyJob::Given as u32);
}

/// Of each function for element-wise programs: the parameters for places, and the operations on an
/// element.
type Functions = RefCell<Vec<(String, String)>>;

/// Writes the function of a phase.
struct PhaseWriter<'a> {
    program: &'a Program,
    entry: &'a PhaseEntry,
    cell: &'a CellPlan,
    weights: &'a WeightLayout,
    functions: &'a Functions,
    /// For each region of scratch: the elements per call in all regions before it, and in it.
    scratch: Vec<(u32, u32)>,
    /// A bit for each operand whose rows are read.
    read: Cell<u32>,
}

impl<'a> PhaseWriter<'a> {
    fn new(
        program: &'a Program,
        entry: &'a PhaseEntry,
        cell: &'a CellPlan,
        weights: &'a WeightLayout,
        functions: &'a Functions,
    ) -> Self {
        let (scratch, _) = scratch(cell);
        let read = Cell::new(0);
        Self { program, entry, cell, weights, functions, scratch, read }
    }

    fn write(&self, number: usize, text: &mut String) {
        let PhaseEntry { part, phase, .. } = self.entry;
        let mut body = String::new();
        for step in phase.steps.clone() {
            self.step(step, &mut body);
        }
        line!(text, "\n// {}, {part:?}, {phase}", self.cell.name);
        line!(text, "CALLED void phase_{number}(Block block, Job j) {{");
        if self.read.get() != 0 {
            line!(text, "    find_rows(block, j, {});", self.read.get());
        }
        line!(text, "{body}}}");
    }

    /// Writes the call of the function that runs a step.
    fn step(&self, index: usize, text: &mut String) {
        let units = self.entry.phase.units[index - self.entry.phase.steps.start];
        match &self.cell.steps[index] {
            CellStep::Product { .. } => self.product(index, text),
            CellStep::Reduce { port, from, by, out, .. } => {
                self.reduce(*port, *from, *by, (&self.own(*out), "j", units), text);
            }
            CellStep::MatMul { left, right, bias, k, n, out, .. } => {
                let (left, out) = (self.rows(*left), self.own(*out));
                let (mut before, mut pieces) = (0, right.iter().peekable());
                while let Some(&(place, depth)) = pieces.next() {
                    let bias = bias.filter(|_| pieces.peek().is_none());
                    let bias = bias.map_or("no_rows()".into(), |place| self.rows(place));
                    let right = self.rows(place);
                    line!(text, "    multiply_values(block, j, {left}, {k}, {before}, {right},");
                    line!(text, "                    {depth}, {n}, {bias}, {out}, {units});");
                    before += depth;
                }
            }
            CellStep::Elementwise { inputs, outputs, program, .. } => {
                self.elementwise(inputs, outputs, program, units, text);
            }
            CellStep::Rows(step) => self.row_step(step, units, text),
            CellStep::Attention { port, scores, values, heads, width, out } => {
                let (query, scores, depth) = match scores {
                    Scores::Field(scores) => ("no_rows()".into(), *scores, 0),
                    Scores::Keys { query, keys, width } => {
                        (self.rows(*query), *keys, width / heads)
                    }
                };
                let (operand, columns) = (self.tables() + usize::from(*port), width / heads);
                line!(text, "    attention(block, j, {operand}, {query}, {scores}, {depth},");
                line!(text, "              {values}, {heads}, {columns}, {});", self.own(*out));
            }
            CellStep::AttentionBack { of, query, gradient, out } => {
                let operand = self.tables() + usize::from(of.port);
                let [query, gradient] = [query, gradient].map(|&place| self.rows(place));
                let (heads, out) = (of.heads, self.own(*out));
                let field = |(from, width): (u32, u32)| format!("{from}, {}", width / heads);
                let [keys, values] = [of.keys, of.values].map(field);
                line!(text, "    attention_back(block, j, {operand}, {query}, {gradient},");
                line!(text, "                   {keys}, {values}, {heads}, {out});");
            }
        }
    }

    /// Writes the reduction of the values at a port to rows of job `job`.
    fn reduce(
        &self,
        port: u16,
        from: u32,
        by: Reduction,
        (to, job, units): (&str, &str, u32),
        text: &mut String,
    ) {
        let (by, operand) = (tiles::reduction(by), self.tables() + usize::from(port));
        line!(text, "    reduce(block, {job}, {operand}, {from}, {by}, {to}, {units});");
    }

    /// Writes a step on rows.
    fn row_step(&self, step: &RowStep, units: u32, text: &mut String) {
        let RowStep { kernel, from: [from, right], rows, columns, out, .. } = *step;
        let to = self.own(out);
        let mut copy = |rows: u32, step: u32| {
            let from = self.rows(from);
            line!(text, "    copy(block, j, {from}, {rows}, {step}, {to}, {units});");
        };
        match kernel {
            RowKernel::Copy => copy(1, 0),
            RowKernel::Expand => copy(columns, 0),
            RowKernel::Transpose => copy(rows, columns),
            RowKernel::Fill(value) => {
                line!(text, "    fill(block, j, {}, {to}, {units});", constant(value));
            }
            RowKernel::Dot => {
                let [left, right] = [from, right].map(|place| self.rows(place));
                line!(text, "    dot(block, j, {left}, {right}, {columns}, {to}, {units});");
            }
            RowKernel::Select(table) => {
                let (from, table) = (self.rows(from), self.starts(usize::from(table)));
                line!(text, "    select(block, j, {from}, {table}, {to}, {units});");
            }
            RowKernel::Normalize(by) => {
                let (by, epsilon) = match by {
                    Normalization::Softmax => ("SOFTMAX", 0.0),
                    Normalization::LogSoftmax => ("LOG_SOFTMAX", 0.0),
                    Normalization::LayerNorm(epsilon) => ("LAYER_NORM", epsilon),
                    Normalization::RmsNorm(epsilon) => ("RMS_NORM", epsilon),
                };
                let (from, epsilon) = (self.rows(from), constant(epsilon));
                line!(text, "    normalize(block, j, {from}, {by}, {epsilon}, {rows}, {columns},");
                line!(text, "              {to});");
            }
            RowKernel::Fold => {
                let from = self.rows(from);
                line!(text, "    fold(block, j, {from}, {columns}, {to}, {units});");
            }
            RowKernel::Share(port) => {
                let (from, port) = (self.rows(from), self.tables() + usize::from(port));
                line!(text, "    share(block, j, {from}, {port}, {to}, {units});");
            }
            RowKernel::Ties { port, field } => {
                let (from, port) = (self.rows(from), self.tables() + usize::from(port));
                line!(text, "    ties(block, j, {from}, {port}, {field}, {to}, {units});");
            }
            RowKernel::OneHot(table) => {
                let table = self.starts(usize::from(table));
                line!(text, "    one_hot(block, j, {table}, {to}, {units});");
            }
        }
    }

    /// Writes the call of a function for an element-wise program. Programs that differ only in the
    /// places and the number of elements share a function.
    fn elementwise(
        &self,
        inputs: &[Place],
        outputs: &[Place],
        program: &Elementwise,
        units: u32,
        text: &mut String,
    ) {
        let [mut parameters, mut arguments, mut operations] = [const { String::new() }; 3];
        for (register, &place) in inputs.iter().enumerate() {
            let (kind, rows) = match place.base {
                Base::Scratch(_) | Base::Output => ("Own", self.own(place)),
                _ => ("Rows", self.rows(place)),
            };
            parameters += &format!(", {kind} x{register}");
            arguments += &format!(",\n        {rows}");
            line!(operations, "        float r{register} = fresh(x{register}.row(j, r) + u);");
        }
        line!(operations, "        end_of_loads();");
        for (index, &place) in outputs.iter().enumerate() {
            parameters += &format!(", Own y{index}");
            arguments += &format!(",\n        {}", self.own(place));
        }
        for register in program.inputs()..program.inputs() + outputs.len() + program.temporaries() {
            line!(operations, "        float r{register};");
        }
        for assignment in program.assignments() {
            let operand = |index: usize| format!("r{}", assignment.operands[index].index());
            let value = value(assignment.operation, [0, 1, 2, 3].map(operand));
            line!(operations, "        r{} = {value};", assignment.result.index());
        }
        for index in 0..outputs.len() {
            line!(operations, "        put(y{index}.row(r) + u, r{});", program.inputs() + index);
        }
        let mut functions = self.functions.borrow_mut();
        let own = (parameters, operations);
        let known = functions.iter().position(|function| *function == own);
        let number = known.unwrap_or(functions.len());
        if known.is_none() {
            functions.push(own);
        }
        line!(text, "    elementwise_{number}(block, j, {units}{arguments});");
    }

    /// Returns the start of the parameter, in floats, that a place is in.
    fn parameter(&self, Place { base, offset }: Place) -> Option<usize> {
        let start = match base {
            Base::Table(table) => {
                let tables = self.program.network()[self.entry.cell].tables();
                let parameter = tables[usize::from(table)].parameter;
                Weight::AsIs(parameter.expect("steps read no rows of indices"))
            }
            Base::Parameter(weight) => weight,
            _ => return None,
        };
        Some(self.weights.of_plain(start) + offset as usize)
    }

    /// Returns the C++ expression of the rows that a step reads, `Rows` of `job.h`.
    fn rows(&self, place: Place) -> String {
        let offset = plus(place.offset);
        if let Some(start) = self.parameter(place) {
            let operand = match place.base {
                Base::Table(table) => self.starts(usize::from(table)),
                _ => "NO_OPERAND".into(),
            };
            return format!("Rows(j.a.weights + {start}ull, {operand})");
        }
        match place.base {
            Base::Port(port) => {
                let operand = self.starts(self.tables() + usize::from(port));
                format!("Rows(j.arena{offset}, {operand})")
            }
            Base::Hoisted => {
                let ports = self.program.network()[self.entry.cell].ports().len();
                let operand = self.starts(self.tables() + ports);
                format!("Rows(hoisted(j, {operand}){offset}, {operand})")
            }
            _ => format!("Rows({})", self.own(place)),
        }
    }

    /// Returns the number of an operand, whose rows' starts the phase then finds first.
    fn starts(&self, operand: usize) -> String {
        self.read.set(self.read.get() | 1u32.checked_shl(operand as u32).unwrap_or(0));
        operand.to_string()
    }

    /// Returns the C++ expression of rows in scratch or in the output, `Own` of `job.h`.
    fn own(&self, Place { base, offset }: Place) -> String {
        match base {
            Base::Scratch(region) => {
                let (before, width) = self.scratch[usize::from(region)];
                format!("scratch(j, {before}, {width}, {offset})")
            }
            Base::Output => format!("output(j, {}, {offset})", self.cell.output_stride),
            other => unreachable!("no step writes {other:?}"),
        }
    }

    fn tables(&self) -> usize {
        self.program.network()[self.entry.cell].tables().len()
    }
}

/// Returns the C++ text that adds an offset, such as ` + 3`; empty for 0.
fn plus(offset: u32) -> String {
    if offset == 0 { String::new() } else { format!(" + {offset}") }
}
