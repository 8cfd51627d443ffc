//! The generated C++ of a program: a function for each phase of its cells.
//!
//! Sizes and places are constants of the source, addresses and weights are not. Models of the same
//! sizes have the same source and share a compiled binary.

use std::cell::Cell;
use std::fmt::Write;

use edbatch_graph::Reduction;
use edbatch_layout::{
    Base, CellPlan, CellStep, Elementwise, Place, Program, RowKernel, RowStep, Weight,
};

use super::DevicePrecision;
use super::command_list::{CopyJob, scratch};
use super::device::{Kernel, Source};
use super::operations::{constant, value};
use super::phase_table::{PhaseEntry, PhaseTable};
use super::place::Recurrent;
use super::weights::WeightLayout;
use products::PIECE;

/// Writes a line of a source.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {
        writeln!($text, $($format)*).expect("memory takes every write")
    };
}

mod attention;
mod products;
mod rows;

/// The reason why the steps of gradients have no source.
const ADJOINT: &str = "adjoint cells are refused when a program is loaded";

/// The maximum number of recurrent stacks in a program whose threads multiply eight rows of a stack
/// at a time. With more, a kernel takes over 200 registers per thread.
const MAX_STACKS_OF_EIGHT_ROWS: usize = 6;

/// Returns the source of a program: for teams if `recurrent` weights are given, else for waves.
pub(crate) fn source(
    program: &Program,
    table: &PhaseTable,
    weights: &WeightLayout,
    recurrent: Option<&[Recurrent]>,
    precision: DevicePrecision,
) -> Source {
    let mut text = String::new();
    // Two blocks of a wave share the registers of an SM, and large programs keep more values.
    if recurrent.is_none_or(|stacks| stacks.len() > MAX_STACKS_OF_EIGHT_ROWS) {
        line!(text, "#define FOUR_ROWS");
    }
    let headers = ["functions", "job", "matmul", "reduce", "attention", "copies", "resident"];
    for header in headers.into_iter().chain(["tf32"]) {
        line!(text, "#include \"{header}.h\"");
    }
    for (number, entry) in table.entries().iter().enumerate() {
        let cell = program.part(entry.cell, entry.part).expect("it has phases");
        let phases = table.entries().len();
        let writer = PhaseWriter::new(program, entry, cell, weights, precision);
        let resident = |step| {
            let mut stacks = recurrent.unwrap_or_default().iter();
            let stack = stacks.position(|stack| (stack.phase, stack.step) == (number, step))?;
            Some((stack, 2 * phases + stack))
        };
        writer.write(number, &resident, &mut text);
    }
    choice(table.entries().len(), &mut text);
    let (kernel, headers) = match recurrent {
        Some(_) => (Kernel::Plan, &["team"][..]),
        None => (Kernel::Wave, &["waves", "launch"][..]),
    };
    headers.iter().for_each(|header| line!(text, "#include \"{header}.h\""));
    Source { text, kernel }
}

/// Writes the function that runs a job.
fn choice(phases: usize, text: &mut String) {
    line!(text, "\nDEVICE void run_job(Block& block, const Arguments& a, const u32* job,");
    line!(text, "                      u32 slice, u32 slices) {{");
    line!(text, "    if (job[0] >= GIVEN) return copy_job(block, a, job);");
    line!(text, "    Job j(a.commands, job, slice, slices);");
    line!(text, "    switch (job[0]) {{");
    for phase in 0..phases {
        line!(text, "    case {phase}: phase_{phase}(block, a, j); break;");
    }
    line!(text, "    }}");
    line!(text, "}}\n");
    line!(text, "static_assert(GIVEN == {}u, \"as the commands has it\");", CopyJob::Given as u32);
    line!(text, "static_assert(PIECE == {PIECE}, \"as runs of products have it\");");
}

/// For a step: the number of its recurrent stack of weights, and the index of the stack's place in
/// the table that [`Placement::table`](super::place::Placement::table) returns.
type ResidentStack<'a> = dyn Fn(usize) -> Option<(usize, usize)> + 'a;

/// Writes the function of a phase.
struct PhaseWriter<'a> {
    program: &'a Program,
    entry: &'a PhaseEntry,
    cell: &'a CellPlan,
    weights: &'a WeightLayout,
    /// For each region of scratch: the elements per call in all regions before it, and in it.
    scratch: Vec<(u32, u32)>,
    /// The name of the C++ function for products of weights and vectors.
    multiply: &'static str,
    precision: DevicePrecision,
    /// A bit for each operand whose rows are read.
    read: Cell<u32>,
}

impl<'a> PhaseWriter<'a> {
    fn new(
        program: &'a Program,
        entry: &'a PhaseEntry,
        cell: &'a CellPlan,
        weights: &'a WeightLayout,
        precision: DevicePrecision,
    ) -> Self {
        let (scratch, _) = scratch(cell);
        let multiply = match precision {
            DevicePrecision::Exact => "product",
            DevicePrecision::Tf32 => "product_tf32",
        };
        let read = Cell::new(0);
        Self { program, entry, cell, weights, scratch, multiply, precision, read }
    }

    fn write(&self, number: usize, resident: &ResidentStack<'_>, text: &mut String) {
        let PhaseEntry { part, phase, .. } = self.entry;
        let mut body = String::new();
        let mut next = phase.steps.start;
        while next < phase.steps.end {
            if let CellStep::Product { .. } = self.cell.steps[next] {
                let run = self.run(next);
                self.products(&run, resident, &mut body);
                next += run.members.len();
            } else {
                self.step(next, &mut body);
                next += 1;
            }
        }
        line!(text, "\n// {}, {part:?}, {phase}", self.cell.name);
        line!(
            text,
            "DEVICE void phase_{number}(Block& block, const Arguments& a, const Job& j) {{"
        );
        for (stack, entry) in phase.steps.clone().filter_map(resident) {
            line!(text, "    u32 at{stack} = block.places[{entry}];");
        }
        if self.read.get() != 0 {
            line!(text, "    find_rows(block, a, j, {});", self.read.get());
        }
        line!(text, "{body}}}");
    }

    /// Writes a step that is no product.
    fn step(&self, index: usize, text: &mut String) {
        let step = &self.cell.steps[index];
        let units = self.entry.phase.units[index - self.entry.phase.steps.start];
        line!(text, "    {{");
        line!(text, "        Units units({units}, j);");
        match step {
            CellStep::Rows(row @ RowStep { kernel: RowKernel::Normalize(by), .. }) => {
                self.normalize(*by, row, text);
            }
            CellStep::Attention { .. } => self.attention(step, text),
            _ => {
                line!(text, "        block.superstep([&](u32 t) {{");
                line!(text, "            u32 items = j.count * units.count;");
                line!(text, "            for (u32 item = t; item < items; item += THREADS) {{");
                line!(text, "                u32 call = j.first + item / units.count;");
                line!(text, "                u32 u = units.first + item % units.count;");
                self.element(step, text);
                line!(text, "            }}");
                line!(text, "        }});");
            }
        }
        line!(text, "    }}");
    }

    /// Writes the C++ code by which a thread runs unit `u` of a step for one call.
    fn element(&self, step: &CellStep, text: &mut String) {
        match step {
            CellStep::Reduce { port, from, by, out, .. } => {
                let operand = self.tables() + usize::from(*port);
                let reduce = reduction(*by);
                let to = self.write_to(*out, "call", "u");
                line!(
                    text,
                    "                Values values(a.commands, j.operand({operand}), call);"
                );
                line!(text, "                {to} = {reduce}(values.count, [&](u32 v) {{");
                line!(
                    text,
                    "                    return fresh(a.arena + values.rows[v] + {from} + u);"
                );
                line!(text, "                }});");
            }
            CellStep::MatMul { left, right, bias, k, n, out, .. } => {
                line!(text, "                u32 i = u / {n}, c = u % {n};");
                line!(text, "                float sum = 0.0f;");
                let mut before = 0;
                for &(place, depth) in right {
                    let left = self.read(*left, "call", &format!("i * {k} + {before} + k"));
                    let right = self.read(place, "call", &format!("k * {n} + c"));
                    line!(
                        text,
                        "                sum = chain({depth}, [&](u32 k) {{ return {left}; }},"
                    );
                    line!(
                        text,
                        "                            [&](u32 k) {{ return {right}; }}, sum);"
                    );
                    before += depth;
                }
                let bias = bias.map(|place| self.read(place, "call", "i"));
                let sum = bias.map_or("sum".into(), |bias| format!("add(sum, {bias})"));
                line!(text, "                {} = {sum};", self.write_to(*out, "call", "u"));
            }
            CellStep::Elementwise { inputs, outputs, program, .. } => {
                self.elementwise(inputs, outputs, program, text);
            }
            CellStep::Rows(step) => {
                let (to, value) = (self.write_to(step.out, "call", "u"), self.row_element(step));
                line!(text, "                {to} = {value};");
            }
            CellStep::Product { .. } | CellStep::Attention { .. } => {
                unreachable!("done by blocks")
            }
            CellStep::AttentionBack { .. } => unreachable!("{ADJOINT}"),
        }
    }

    fn elementwise(
        &self,
        inputs: &[Place],
        outputs: &[Place],
        program: &Elementwise,
        text: &mut String,
    ) {
        for (register, &place) in inputs.iter().enumerate() {
            let value = self.read(place, "call", "u");
            line!(text, "                float r{register} = {value};");
        }
        line!(text, "                end_of_loads();");
        let registers = program.inputs()..program.inputs() + outputs.len() + program.temporaries();
        for register in registers {
            line!(text, "                float r{register};");
        }
        for assignment in program.assignments() {
            let operand = |index: usize| format!("r{}", assignment.operands[index].index());
            let value = value(assignment.operation, [0, 1, 2, 3].map(operand));
            line!(text, "                r{} = {value};", assignment.result.index());
        }
        for (index, &place) in outputs.iter().enumerate() {
            let (to, register) = (self.write_to(place, "call", "u"), program.inputs() + index);
            line!(text, "                {to} = r{register};");
        }
    }

    /// Returns the C++ expression that reads a column of a place.
    fn read(&self, place: Place, call: &str, column: &str) -> String {
        format!("fresh({} + {column})", self.address(place, call))
    }

    /// Returns the C++ expression for the address of a place.
    fn address(&self, Place { base, offset }: Place, call: &str) -> String {
        let start = |operand: usize| self.start(operand, call) + &plus(offset);
        match base {
            Base::Table(table) => {
                let table = usize::from(table);
                let tables = self.program.network()[self.entry.cell].tables();
                let parameter = tables[table].parameter.expect("steps read no rows of indices");
                let first = self.weights.of_plain(Weight::AsIs(parameter));
                format!("a.weights + {first}ull + {}", start(table))
            }
            Base::Parameter(weight) => {
                format!("a.weights + {}ull", self.weights.of_plain(weight) + offset as usize)
            }
            Base::Port(port) => format!("a.arena + {}", start(self.tables() + usize::from(port))),
            Base::Hoisted => {
                let ports = self.program.network()[self.entry.cell].ports().len();
                let index = self.tables() + ports;
                format!("hoisted(a, j.operand({index})) + {}", start(index))
            }
            Base::Scratch(_) | Base::Output => {
                format!("a.arena + {}", self.own(Place { base, offset }, call))
            }
        }
    }

    /// Returns the C++ expression for the start of a call's row of an operand.
    fn start(&self, operand: usize, call: &str) -> String {
        self.read.set(self.read.get() | 1u32.checked_shl(operand as u32).unwrap_or(0));
        format!("start(block, a, j, {operand}, {call})")
    }

    /// Returns the expression for a column of scratch or of the output, as the target of a write.
    fn write_to(&self, place: Place, call: &str, column: &str) -> String {
        format!("a.arena[{} + {column}]", self.own(place, call))
    }

    /// Returns the expression for the position in the arena of a place in scratch or in the output.
    fn own(&self, Place { base, offset }: Place, call: &str) -> String {
        match base {
            Base::Scratch(region) => {
                let (before, width) = self.scratch[usize::from(region)];
                let before = match before {
                    0 => String::new(),
                    before => format!(" + j.calls * {before}"),
                };
                format!("j.scratch{before} + {call} * {width}{}", plus(offset))
            }
            Base::Output => {
                let stride = self.cell.output_stride;
                format!("j.out + {call} * {stride}{}", plus(offset))
            }
            other => unreachable!("no step writes {other:?}"),
        }
    }

    /// Returns the distance between the rows of a place in scratch or in the output.
    fn stride(&self, place: Place) -> u32 {
        match place.base {
            Base::Scratch(region) => self.scratch[usize::from(region)].1,
            Base::Output => self.cell.output_stride,
            other => unreachable!("no step writes {other:?}"),
        }
    }

    fn tables(&self) -> usize {
        self.program.network()[self.entry.cell].tables().len()
    }
}

/// Returns the function of `reduce.h` for a reduction.
fn reduction(by: Reduction) -> &'static str {
    match by {
        Reduction::Sum => "reduce_sum",
        Reduction::Mean => "reduce_mean",
        Reduction::Max => "reduce_max",
        Reduction::LogSumExp => "reduce_log_sum_exp",
    }
}

/// Returns the C++ text that adds an offset, such as ` + 3`; empty for 0.
fn plus(offset: u32) -> String {
    if offset == 0 { String::new() } else { format!(" + {offset}") }
}
