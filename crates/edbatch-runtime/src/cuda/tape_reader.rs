//! A second reading of tapes: on the host, number by number, by the kernels of the CPU.
//!
//! Where a device computes other bits than the CPU, it tells a wrong tape from a wrong kernel. It
//! also runs where there is no C++ compiler. A block's slice of a step is computed whole, for one
//! call, and only the slice's columns are written; so kernels need not know of slices, and a column
//! that a slice must not need may hold anything: the arena is full of NaN before a plan runs, and a
//! wave's jobs run from the last to the first.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::{Kind, ParameterId};
use edbatch_layout::{
    Base, CellPlan, CellStep, CopyJob, Mode, Part, PhaseEntry, PhaseTable, Place, Plan, Planner,
    Program, Tape, recomputed, scratch,
};

use super::on_tape::{alone, find_wanted, too_large};
use crate::kernels::{
    self, GemmShape, Input, Left, Level, OutOfMemory, PackedWeights, Pass, Piece, RowsMut, RowsRef,
    Start,
};
use crate::{Backend, BackendError, Bytes, Given, Outputs, Parameters, Rows};

/// A backend that reads tapes on the host and computes by the CPU's kernels of a level: to compare
/// devices with, and far slower than [`Cpu`](crate::Cpu).
///
/// # Errors
/// If the parameters are of another network, or memory for packed weights or folded tables cannot
/// be had.
pub fn tape_reader(
    program: Arc<Program>,
    parameters: &Parameters,
    level: Level,
) -> Result<Box<dyn Backend>, BackendError> {
    let parameters = parameters.for_network(program.network())?;
    let stacks = stacks(&program, &parameters, level);
    let stacks = stacks.map_err(|error| error.of("packed weights"))?;
    let table = PhaseTable::new(&program);
    let loaded = Loaded { program, table, parameters, stacks, level, folded: Vec::new() };
    let mut reader = TapeReader::on(Arc::new(loaded));
    let plan = reader.loaded.program.folding_plan();
    reader.run(&plan, &Given { initial: &Rows::new(), stayed: 0, host: &[] })?;
    reader.arena.truncate(plan.arena);
    let folded = std::mem::take(&mut reader.arena);
    let loaded = Arc::get_mut(&mut reader.loaded).expect("no other reader is on it yet");
    loaded.folded = folded;
    Ok(Box::new(reader))
}

struct TapeReader {
    loaded: Arc<Loaded>,
    tape: Tape,
    arena: Vec<f32>,
    given: Vec<f32>,
    /// What stays, and what stayed before.
    stay: [Vec<f32>; 2],
    outputs: Vec<f32>,
    indices: Vec<u32>,
    starts: Vec<usize>,
    greatest: Vec<u32>,
}

struct Loaded {
    program: Arc<Program>,
    table: PhaseTable,
    parameters: Parameters,
    stacks: HashMap<Vec<ParameterId>, PackedWeights>,
    level: Level,
    folded: Vec<f32>,
}

/// The weights of all products.
fn stacks(
    program: &Program,
    parameters: &Parameters,
    level: Level,
) -> Result<HashMap<Vec<ParameterId>, PackedWeights>, OutOfMemory> {
    let mut stacks = HashMap::new();
    let parts = [Part::Whole, Part::Prologue, Part::Body];
    let kinds = (0..program.cells().len()).map(Kind::new);
    let cells = kinds.flat_map(|kind| parts.into_iter().filter_map(move |p| program.part(kind, p)));
    for step in cells.flat_map(|cell| &cell.steps) {
        if let CellStep::Product { weights, width, .. } = step {
            let stack: Vec<&[f32]> =
                weights.iter().map(|&id| parameters.get(id).as_slice()).collect();
            let packed = PackedWeights::new(level, &stack, *width as usize)?;
            stacks.insert(weights.clone(), packed);
        }
    }
    Ok(stacks)
}

impl TapeReader {
    fn on(loaded: Arc<Loaded>) -> Self {
        Self {
            loaded,
            tape: Tape::default(),
            arena: Vec::new(),
            given: Vec::new(),
            stay: [Vec::new(), Vec::new()],
            outputs: Vec::new(),
            indices: Vec::new(),
            starts: Vec::new(),
            greatest: Vec::new(),
        }
    }

    /// Carries out all jobs of the tape.
    fn read(&mut self) {
        let loaded = self.loaded.clone();
        let tape = std::mem::take(&mut self.tape);
        let words = tape.words();
        for wave in 0..tape.waves() {
            let jobs = &words[words[wave + 1] as usize..words[wave + 2] as usize];
            for job in jobs.chunks_exact(6).rev() {
                let &[what, a, b, c, ..] = job else { unreachable!("a job has six numbers") };
                let range = |start: u32| start as usize..(start + c) as usize;
                match loaded.table.entries().get(what as usize) {
                    Some(entry) => self.phase(&loaded, entry, words, job),
                    None if what == CopyJob::Given as u32 => {
                        self.arena[range(b)].copy_from_slice(&self.given[range(a)]);
                    }
                    None if what == CopyJob::Stayed as u32 => {
                        self.arena[range(b)].copy_from_slice(&self.stay[1][range(a)]);
                    }
                    None if what == CopyJob::Output as u32 => {
                        self.outputs[range(b)].copy_from_slice(&self.arena[range(a)]);
                    }
                    None if what == CopyJob::Stay as u32 => {
                        self.stay[0][range(b)].copy_from_slice(&self.arena[range(a)]);
                    }
                    None => {
                        assert_eq!(what, CopyJob::ArgMax as u32, "a job of the tape");
                        let pieces = words[a as usize..][..2 * b as usize].chunks_exact(2);
                        let piece =
                            |piece: &[u32]| &self.arena[piece[0] as usize..][..piece[1] as usize];
                        let all: Vec<&[f32]> = pieces.map(piece).collect();
                        let greatest = kernels::arg_max(loaded.level, &all.concat());
                        self.indices[c as usize] = greatest as u32;
                    }
                }
            }
        }
        self.tape = tape;
    }

    /// A phase of a step, for a tile of its calls and a slice of its units.
    fn phase(&mut self, loaded: &Loaded, entry: &PhaseEntry, words: &[u32], job: &[u32]) {
        let &[_, step, first, count, slice, slices] = job else {
            unreachable!("a job has six numbers")
        };
        let cell = loaded.program.part(entry.cell, entry.part).expect("it has phases");
        for (index, &units) in entry.phase.steps.clone().zip(&entry.phase.units) {
            let bound =
                |slice: u32| (u64::from(units) * u64::from(slice) / u64::from(slices)) as u32;
            let own = bound(slice)..bound(slice + 1);
            for number in first..first + count {
                let step = &words[step as usize..];
                let call = Call { loaded, words, arena: &self.arena, entry, cell, step, number };
                let written = call.compute(index).into_iter();
                let written: Vec<_> = written.map(|(place, x)| (call.own(place), x)).collect();
                for (start, elements) in written {
                    for (column, element) in (0..).zip(elements) {
                        if own.contains(&(column % units)) {
                            self.arena[start + column as usize] = element;
                        }
                    }
                }
            }
        }
    }
}

/// A call of a cell, as a block sees it.
struct Call<'a> {
    loaded: &'a Loaded,
    words: &'a [u32],
    arena: &'a [f32],
    entry: &'a PhaseEntry,
    cell: &'a CellPlan,
    /// Calls, where output begins, where scratch begins; then three numbers an operand.
    step: &'a [u32],
    number: u32,
}

impl<'a> Call<'a> {
    /// All columns that a step writes.
    fn compute(&self, index: usize) -> Vec<(Place, Vec<f32>)> {
        let (level, step) = (self.loaded.level, &self.cell.steps[index]);
        let zeros = |width: u32| vec![0.0; width as usize];
        match *step {
            CellStep::Product { ref weights, rows, width, x, out, mode } => {
                let x = self.read_again(x, width, self.entry.phase.steps.start..index);
                let (mut sums, start) = match mode {
                    Mode::Set => (zeros(rows), Start::Nothing),
                    Mode::Add => (self.read(out, rows).to_vec(), Start::Out),
                    Mode::From(place) => (zeros(rows), Start::Rows(row(self.read(place, rows)))),
                };
                let packed = &self.loaded.stacks[weights];
                let to = RowsMut::contiguous(&mut sums, rows as usize);
                let panels = 0..packed.panels();
                kernels::product(packed, panels, Pass::Forwards, &row(&x), &start, to);
                vec![(out, sums)]
            }
            CellStep::Elementwise { width, ref inputs, ref outputs, ref program } => {
                let inputs = inputs.iter().map(|&place| Input::Same(self.read(place, width)));
                let inputs: Vec<Input<'_>> = inputs.collect();
                let mut results = vec![zeros(width); outputs.len()];
                let to = |result| RowsMut::contiguous(result, width as usize);
                let mut to: Vec<RowsMut<'_>> = results.iter_mut().map(|r| to(r)).collect();
                kernels::elementwise(level, program, width as usize, &inputs, &mut to);
                outputs.iter().copied().zip(results).collect()
            }
            CellStep::Reduce { port, from, width, by, out } => {
                let [_, ends, rows] = self.operand(self.tables() + usize::from(port));
                let ends = &self.words[ends as usize..][..self.step[0] as usize];
                let before = self.number.checked_sub(1).map_or(0, |last| ends[last as usize]);
                let count = ends[self.number as usize] - before;
                let offsets = &self.words[(rows + before) as usize..][..count as usize];
                let values = RowsRef::List { data: &self.arena[from as usize..], offsets };
                let mut result = zeros(width);
                let to = RowsMut::contiguous(&mut result, width as usize);
                kernels::reduce(level, by, values, &[count], to);
                vec![(out, result)]
            }
            CellStep::MatMul { left, ref right, bias, m, k, n, out } => {
                let shape = GemmShape { rows: m as usize, depth: k as usize, columns: n as usize };
                let matrix = self.read(left, m * k);
                let left = match left.base {
                    Base::Parameter(_) => Left::Same(matrix),
                    _ => Left::Each(row(matrix)),
                };
                let piece = |&(place, depth): &(Place, u32)| Piece {
                    depth: depth as usize,
                    values: row(self.read(place, depth * n)),
                };
                let right: Vec<Piece<'_>> = right.iter().map(piece).collect();
                let bias = bias.map(|place| row(self.read(place, m)));
                let mut result = zeros(m * n);
                let to = RowsMut::contiguous(&mut result, (m * n) as usize);
                kernels::batched_gemm(level, shape, left, &right, bias, to);
                vec![(out, result)]
            }
            CellStep::Softmax { from, width, out, logarithm } => {
                let mut result = self.read(from, width).to_vec();
                match logarithm {
                    true => kernels::math::log_softmax(level, &mut result),
                    false => kernels::math::softmax(level, &mut result),
                }
                vec![(out, result)]
            }
            CellStep::Copy { from, width, out } => vec![(out, self.read(from, width).to_vec())],
            CellStep::Expand { from, rows, columns, out } => {
                let elements = self.read(from, rows).iter();
                let each = elements.flat_map(|&x| std::iter::repeat_n(x, columns as usize));
                vec![(out, each.collect())]
            }
            CellStep::Transpose { from, rows, columns, out } => {
                let matrix = self.read(from, rows * columns);
                let column = |j: usize| matrix[j..].iter().step_by(columns as usize).copied();
                vec![(out, (0..columns as usize).flat_map(column).collect())]
            }
            CellStep::Fill { value, width, out } => vec![(out, vec![value; width as usize])],
        }
    }

    /// What a product reads: if some steps of its phase make it of arguments alone, made again, as
    /// others may not have written theirs.
    fn read_again(&self, place: Place, width: u32, steps: Range<usize>) -> Vec<f32> {
        let pieces = recomputed(self.cell, steps, place, width);
        if pieces.is_empty() {
            return self.read(place, width).to_vec();
        }
        let again = |(columns, writer): (Range<u32>, usize)| {
            let (written, elements) = self.compute(writer).remove(0);
            let first = (place.offset + columns.start - written.offset) as usize;
            elements[first..first + columns.len()].to_vec()
        };
        pieces.into_iter().flat_map(again).collect()
    }

    fn read(&self, place: Place, width: u32) -> &'a [f32] {
        let Loaded { program, parameters, folded, .. } = self.loaded;
        let cell = &program.network()[self.entry.cell];
        // The call's row of an operand.
        let at = |operand: usize| match self.operand(operand) {
            [1, first, stride] => first + self.number * stride,
            [2 | 4, list, _] => self.words[(list + self.number) as usize],
            other => unreachable!("{other:?} is no row for each call"),
        };
        let (memory, start): (&[f32], u32) = match place.base {
            Base::Parameter(id) => (parameters.get(id), 0),
            Base::Table(table) => {
                let table = usize::from(table);
                (parameters.get(cell.tables()[table].parameter), at(table))
            }
            Base::Port(port) => (self.arena, at(self.tables() + usize::from(port))),
            Base::Hoisted => {
                let operand = self.tables() + cell.ports().len();
                let memory = if self.operand(operand)[0] == 4 { folded } else { self.arena };
                (memory, at(operand))
            }
            Base::Scratch(_) | Base::Output => {
                return &self.arena[self.own(place)..][..width as usize];
            }
        };
        &memory[(start + place.offset) as usize..][..width as usize]
    }

    /// Where a place of scratch or output begins in the arena.
    fn own(&self, Place { base, offset }: Place) -> usize {
        let &[calls, out, behind, ..] = self.step else { unreachable!("three numbers") };
        let start = match base {
            Base::Scratch(region) => {
                let (before, width) = scratch(self.cell).0[usize::from(region)];
                behind + calls * before + self.number * width
            }
            _ => out + self.number * self.cell.output_stride,
        };
        (start + offset) as usize
    }

    fn operand(&self, index: usize) -> [u32; 3] {
        std::array::from_fn(|i| self.step[3 + 3 * index + i])
    }

    fn tables(&self) -> usize {
        self.loaded.program.network()[self.entry.cell].tables().len()
    }
}

/// A single row.
fn row(elements: &[f32]) -> RowsRef<'_> {
    RowsRef::Span { data: elements, stride: elements.len() }
}

impl Backend for TapeReader {
    fn run(&mut self, plan: &Plan, given: &Given<'_>) -> Result<(), BackendError> {
        let Loaded { program, table, .. } = &*self.loaded;
        let rows = (given.initial.len(), given.stayed);
        self.tape.write(program, table, plan, rows).map_err(|error| too_large(&error))?;
        self.given.clear();
        given.initial.iter().for_each(|row| self.given.extend_from_slice(row));
        self.given.extend_from_slice(given.host);
        self.stay.swap(0, 1);
        for (memory, len) in [
            (&mut self.arena, self.tape.arena()),
            (&mut self.outputs, self.tape.outputs()),
            (&mut self.stay[0], self.tape.stay()),
        ] {
            memory.clear();
            memory.resize(len, f32::NAN);
        }
        self.indices.clear();
        self.indices.resize(self.tape.indices(), 0);
        self.read();
        Ok(())
    }

    fn outputs<'a>(&'a mut self, plan: &'a Plan) -> Result<Outputs<'a>, BackendError> {
        let Self { loaded, outputs, indices, starts, greatest, .. } = self;
        find_wanted(&loaded.program, plan, indices, starts, greatest);
        Ok(Outputs::packed(&loaded.program, plan, (outputs, starts), greatest))
    }

    fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError> {
        let Loaded { program, table, .. } = &*self.loaded;
        let written = self.tape.write(program, table, &alone(plan, step), (0, 0));
        written.map_err(|error| too_large(&error))?;
        self.read();
        Ok(())
    }

    fn bytes(&self) -> Bytes {
        let packed = self.loaded.stacks.values().map(PackedWeights::bytes).sum::<usize>();
        let folded = size_of_val(self.loaded.folded.as_slice());
        Bytes { weights: packed + folded, arena: size_of_val(self.arena.as_slice()) }
    }

    fn planner(&self) -> Planner {
        Planner::for_waves()
    }

    fn another(&self) -> Box<dyn Backend> {
        Box::new(Self::on(self.loaded.clone()))
    }
}
