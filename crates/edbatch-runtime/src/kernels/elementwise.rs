//! Runs element-wise programs over the rows of a batch.
//!
//! ```text
//! for each chunk of up to 256 elements (several narrow rows, or a strip of a wide one)
//!     for each step of the program        one dispatch per chunk, so that interpreting costs next to nothing
//!         for each row of the chunk
//!             for each vector             operands and result in L1
//! ```
//!
//! Inputs are read where they lie and outputs written where they belong; values in between live in slots of one chunk
//! each, reused as soon as their last reader has run.

use super::{
    features::Level,
    lanewise::{self, Lanewise},
    math::Function,
    program::{Instruction, Program},
    rows::{Rows, RowsMut},
    simd::{self, Kernel, Simd},
};

/// What an input of a program reads.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A row per instance.
    Rows(Rows<'a>),
    /// One row for all, a bias.
    Same(&'a [f32]),
}

/// A program in the form in which it is run: made once per cell.
#[derive(Clone, Debug)]
pub struct Elementwise {
    steps: Vec<Step>,
    inputs: usize,
    outputs: usize,
    slots: usize,
}

/// `places[destination] = operation(places[sources])`
#[derive(Clone, Copy, Debug)]
struct Step {
    operation: Operation,
    sources: [Place; 2],
    destination: Place,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Copy,
    Constant(f32),
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    Scale(f32),
    Apply(Function),
}

/// Where the elements of a value lie in a chunk: an index into its table of pointers, inputs first, then outputs, then
/// slots.
type Place = u16;

impl Elementwise {
    /// Prepares a program.
    pub fn new(program: &Program) -> Elementwise {
        let (inputs, outputs) = (program.input_count(), program.outputs().len());
        let count = program.instructions().len();
        let mut last_use: Vec<usize> = (0..count).collect();
        for (at, instruction) in program.instructions().iter().enumerate() {
            for operand in instruction.operands() {
                last_use[operand.index()] = at;
            }
        }
        let mut slots = Slots { first: inputs + outputs, count: 0, free: vec![] };
        let mut places: Vec<Place> = Vec::with_capacity(count);
        let mut steps = vec![];
        for (at, &instruction) in program.instructions().iter().enumerate() {
            if let Instruction::Input(input) = instruction {
                places.push(input);
                continue;
            }
            let mut sources = [0; 2];
            for (source, operand) in sources.iter_mut().zip(instruction.operands()) {
                *source = places[operand.index()];
            }
            // A step reads a vector before it writes it, so its result may take the slot of an operand that ends here.
            let mut ended: Vec<_> =
                instruction.operands().filter(|o| last_use[o.index()] == at).collect();
            ended.dedup();
            for operand in ended {
                slots.give_back(places[operand.index()]);
            }
            let destination = match program.outputs().iter().position(|value| value.index() == at) {
                Some(output) => (inputs + output) as Place,
                None => slots.take(),
            };
            if last_use[at] == at {
                slots.give_back(destination);
            }
            places.push(destination);
            steps.push(Step { operation: operation(instruction), sources, destination });
        }
        for (output, value) in program.outputs().iter().enumerate() {
            let (source, destination) = (places[value.index()], (inputs + output) as Place);
            if source != destination {
                steps.push(Step { operation: Operation::Copy, sources: [source; 2], destination });
            }
        }
        Elementwise { steps, inputs, outputs, slots: slots.count }
    }

    /// Runs the program on B rows of `width` elements: output j of row b is a function of the inputs of row b.
    ///
    /// Inputs are (B, `width`) or (`width`), outputs (B, `width`), row-major `f32`. The bits of an element depend on its
    /// operands alone.
    ///
    /// # Panics
    ///
    /// If the numbers of inputs, outputs or rows differ from the program's or each other, or an input is too narrow.
    ///
    /// ```
    /// use edbatch_runtime::kernels::{Elementwise, Input, Level, Program, Rows, RowsMut};
    /// let mut program = Program::new();
    /// let [x, bias] = program.inputs();
    /// let sum = program.add(x, bias);
    /// program.output(sum);
    /// let mut out = [0.0; 4];
    /// let x = Rows::Span { data: &[1.0, 2.0, 3.0, 4.0], stride: 2 };
    /// Elementwise::new(&program).run(
    ///     Level::detect(),
    ///     2,
    ///     &[Input::Rows(x), Input::Same(&[10.0, 20.0])],
    ///     &mut [RowsMut::contiguous(&mut out, 2)],
    /// );
    /// assert_eq!(out, [11.0, 22.0, 13.0, 24.0]);
    /// ```
    pub fn run(
        &self,
        level: Level,
        width: usize,
        inputs: &[Input<'_>],
        outputs: &mut [RowsMut<'_>],
    ) {
        assert_eq!(inputs.len(), self.inputs, "inputs of the program");
        assert_eq!(outputs.len(), self.outputs, "outputs of the program");
        let Some(rows) = outputs.first().map(RowsMut::len) else {
            return;
        };
        for output in outputs.iter() {
            assert_eq!(
                (output.len(), output.width()),
                (rows, width),
                "rows and columns of each output"
            );
        }
        for input in inputs {
            match input {
                Input::Rows(input) => assert_eq!(input.len(), rows, "rows of each input"),
                Input::Same(input) => assert_eq!(input.len(), width, "columns of each input"),
            }
        }
        if rows > 0 && width > 0 {
            simd::run(level, Run { program: self, rows, width, inputs, outputs });
        }
    }
}

fn operation(instruction: Instruction) -> Operation {
    match instruction {
        Instruction::Input(_) => Operation::Copy,
        Instruction::Constant(x) => Operation::Constant(x),
        Instruction::Add(..) => Operation::Add,
        Instruction::Subtract(..) => Operation::Subtract,
        Instruction::Multiply(..) => Operation::Multiply,
        Instruction::Divide(..) => Operation::Divide,
        Instruction::Negate(_) => Operation::Negate,
        Instruction::Scale(_, factor) => Operation::Scale(factor),
        Instruction::Apply(function, _) => Operation::Apply(function),
    }
}

/// Slots handed out while steps are made.
struct Slots {
    first: usize,
    count: usize,
    free: Vec<Place>,
}

impl Slots {
    fn take(&mut self) -> Place {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            u16::try_from(self.first + self.count - 1)
                .expect("a program has less than 65536 places")
        })
    }

    /// Takes a slot back; inputs and outputs are nobody's.
    fn give_back(&mut self, place: Place) {
        if place as usize >= self.first {
            self.free.push(place);
        }
    }
}

/// Checked by [`Elementwise::run`]: inputs and outputs have `rows` rows of `width` columns, both above zero.
struct Run<'a, 'b> {
    program: &'a Elementwise,
    rows: usize,
    width: usize,
    inputs: &'a [Input<'a>],
    outputs: &'a mut [RowsMut<'b>],
}

/// Elements of a chunk; a multiple of every level's lanes.
const CHUNK: usize = 256;
/// Rows of a chunk.
const CHUNK_ROWS: usize = 16;

/// Pointers to the rows of a chunk.
type ChunkRows = [*mut f32; CHUNK_ROWS];

impl Kernel for Run<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let padded = self.width.next_multiple_of(S::LANES).min(CHUNK);
        let chunk_rows = (CHUNK / padded).min(CHUNK_ROWS);
        let mut slots: Box<[std::mem::MaybeUninit<f32>]> =
            Box::new_uninit_slice(self.program.slots * CHUNK);
        let count = self.inputs.len() + self.outputs.len() + self.program.slots;
        let mut places: Vec<ChunkRows> = vec![[std::ptr::null_mut(); CHUNK_ROWS]; count];
        let own = &mut places[self.inputs.len() + self.outputs.len()..];
        for (slot, rows) in slots.chunks_exact_mut(CHUNK).zip(own) {
            for (row, start) in rows.iter_mut().zip(slot.chunks_exact_mut(padded)) {
                *row = start.as_mut_ptr().cast();
            }
        }
        let mut first = 0;
        while first < self.rows {
            let rows = chunk_rows.min(self.rows - first);
            for strip in (0..self.width).step_by(CHUNK) {
                let columns = CHUNK.min(self.width - strip);
                for r in 0..rows {
                    for (place, input) in places.iter_mut().zip(self.inputs) {
                        place[r] = match input {
                            Input::Rows(input) => {
                                input.row(first + r, self.width)[strip..].as_ptr().cast_mut()
                            }
                            Input::Same(row) => row[strip..].as_ptr().cast_mut(),
                        };
                    }
                    for (place, output) in
                        places[self.inputs.len()..].iter_mut().zip(self.outputs.iter_mut())
                    {
                        place[r] = output.row(first + r)[strip..].as_mut_ptr();
                    }
                }
                for step in &self.program.steps {
                    // SAFETY: each place of a step has a pointer for each of the `rows`, to `columns` floats of an input, an
                    // output or a slot. Outputs and slots are exclusively borrowed here, and no step writes to an input. A
                    // slot is written before it is read, since operands precede their users.
                    unsafe { step.run(simd, &places, rows, columns) };
                }
            }
            first += rows;
        }
    }
}

impl Step {
    /// # Safety
    ///
    /// Places of the sources must be readable, that of the destination writable, for `columns` floats in each of `rows`;
    /// the destination is a source or overlaps none.
    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, places: &[ChunkRows], rows: usize, columns: usize) {
        let (to, a, b) = (
            &places[self.destination as usize],
            &places[self.sources[0] as usize],
            &places[self.sources[1] as usize],
        );
        // SAFETY: passed on from the caller.
        unsafe {
            match self.operation {
                Operation::Copy => sweep(simd, lanewise::Identity, [a], to, rows, columns),
                Operation::Constant(x) => sweep(simd, lanewise::Constant(x), [], to, rows, columns),
                Operation::Add => sweep(simd, lanewise::Add, [a, b], to, rows, columns),
                Operation::Subtract => sweep(simd, lanewise::Subtract, [a, b], to, rows, columns),
                Operation::Multiply => sweep(simd, lanewise::Multiply, [a, b], to, rows, columns),
                Operation::Divide => sweep(simd, lanewise::Divide, [a, b], to, rows, columns),
                Operation::Negate => sweep(simd, lanewise::Negate, [a], to, rows, columns),
                Operation::Scale(factor) => {
                    sweep(simd, lanewise::Scale(factor), [a], to, rows, columns)
                }
                Operation::Apply(Function::Sigma) => {
                    sweep(simd, lanewise::Sigma, [a], to, rows, columns)
                }
                Operation::Apply(Function::Tanh) => {
                    sweep(simd, lanewise::Tanh, [a], to, rows, columns)
                }
                Operation::Apply(Function::Relu) => {
                    sweep(simd, lanewise::Relu, [a], to, rows, columns)
                }
                Operation::Apply(Function::Exp) => {
                    sweep(simd, lanewise::Exp, [a], to, rows, columns)
                }
                Operation::Apply(Function::Ln) => sweep(simd, lanewise::Ln, [a], to, rows, columns),
            }
        }
    }
}

/// `to[r][i] = f(from[..][r][i])` for i in 0..columns, r in 0..rows.
///
/// # Safety
///
/// As for [`Step::run`].
#[inline(always)]
unsafe fn sweep<S: Simd, F: Lanewise<N>, const N: usize>(
    simd: S,
    f: F,
    from: [&ChunkRows; N],
    to: &ChunkRows,
    rows: usize,
    columns: usize,
) {
    let whole = columns - columns % S::LANES;
    for r in 0..rows {
        for at in (0..whole).step_by(S::LANES) {
            let mut x = [simd.splat(0.0); N];
            // SAFETY: at + LANES <= columns, which the caller vouches for; operands are read before the result is written.
            unsafe {
                for n in 0..N {
                    x[n] = simd.load(from[n][r].add(at));
                }
                simd.store(to[r].add(at), f.of(simd, x));
            }
        }
        if whole < columns {
            let mut x = [simd.splat(0.0); N];
            // SAFETY: the last columns - whole floats, likewise.
            unsafe {
                for n in 0..N {
                    x[n] = simd.load_first(from[n][r].add(whole), columns - whole);
                }
                simd.store_first(to[r].add(whole), f.of(simd, x), columns - whole);
            }
        }
    }
}
