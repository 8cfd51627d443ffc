//! Runs element-wise programs over the rows of a batch.
//!
//! ```text
//! for each chunk of up to 512 elements (several narrow rows, or a strip of a wide one)
//!     for each assignment             one dispatch per chunk: interpreting costs next to nothing
//!         for each row of the chunk
//!             for each vector             operands and result in L1
//! ```
//!
//! Inputs are read where they lie and outputs written where they belong; temporary registers live
//! in slots of one chunk each.

use std::mem::MaybeUninit;

use edbatch_layout::{Assignment, Elementwise, Form, Function, Operation};

use super::{
    isa::Level,
    lanewise::{self, Lanewise},
    memory::Line,
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};

/// What an input of a program reads.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A row per instance.
    Rows(RowsRef<'a>),
    /// One row for all, a bias.
    Same(&'a [f32]),
}

/// Runs a program on B rows of `width` elements: output j of row b is a function of the inputs of
/// row b.
///
/// Inputs are (B, `width`) or (`width`), outputs (B, `width`), row-major `f32`. The bits of an
/// element depend on its operands alone.
///
/// # Panics
///
/// If the numbers of inputs, outputs or rows differ from the program's or each other, or an input
/// is too narrow.
///
/// ```
/// use edbatch_graph::Op;
/// use edbatch_layout::{Elementwise, Register};
/// use edbatch_runtime::kernels::{Input, Level, RowsRef, RowsMut, elementwise};
///
/// let [x, bias, sum] = [0, 1, 2].map(Register);
/// let program = Elementwise::new(2, &[(Op::Add, vec![x, bias])], &[sum]);
/// let mut out = [0.0; 4];
/// let x = RowsRef::Span { data: &[1.0, 2.0, 3.0, 4.0], stride: 2 };
/// let inputs = [Input::Rows(x), Input::Same(&[10.0, 20.0])];
/// elementwise(Level::detect(), &program, 2, &inputs, &mut [RowsMut::contiguous(&mut out, 2)]);
/// assert_eq!(out, [11.0, 22.0, 13.0, 24.0]);
/// ```
pub fn elementwise(
    level: Level,
    program: &Elementwise,
    width: usize,
    inputs: &[Input<'_>],
    outputs: &mut [RowsMut<'_>],
) {
    assert_eq!(inputs.len(), program.inputs(), "inputs of the program");
    assert_eq!(outputs.len(), program.outputs(), "outputs of the program");
    let Some(rows) = outputs.first().map(RowsMut::len) else {
        return;
    };
    for output in outputs.iter() {
        let shape = (output.len(), output.width());
        assert_eq!(shape, (rows, width), "rows and columns of each output");
    }
    for input in inputs {
        match input {
            Input::Rows(input) => assert_eq!(input.len(), rows, "rows of each input"),
            Input::Same(input) => assert_eq!(input.len(), width, "columns of each input"),
        }
    }
    if rows > 0 && width > 0 {
        simd::run(level, &mut Run { program, rows, width, inputs, outputs });
    }
}

/// Checked by [`elementwise`]: inputs and outputs have `rows` rows of `width` columns, both above
/// zero.
struct Run<'a, 'b> {
    program: &'a Elementwise,
    rows: usize,
    width: usize,
    inputs: &'a [Input<'a>],
    outputs: &'a mut [RowsMut<'b>],
}

/// Rows of a chunk.
const CHUNK_ROWS: usize = 16;

/// Pointers to the rows of a chunk, written for as many rows as it has.
type ChunkRows = [MaybeUninit<*mut f32>; CHUNK_ROWS];

/// Elements of a chunk; a multiple of every level's lanes.
const CHUNK: usize = 512;
/// Slots that need no allocation.
const FEW_SLOTS: usize = 8;
/// Inputs, outputs and slots that need no allocation.
const FEW_PLACES: usize = 32;

impl Kernel for &mut Run<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let padded = self.width.next_multiple_of(S::LANES).min(CHUNK);
        let chunk_rows = (CHUNK / padded).min(CHUNK_ROWS);
        // Programs of cells are small, and a call for a single row is over in less time than an
        // allocation takes.
        let slots = self.program.temporaries();
        let lines = slots * CHUNK / Line::FLOATS;
        let mut few_slots =
            [const { MaybeUninit::<Line>::uninit() }; FEW_SLOTS * CHUNK / Line::FLOATS];
        let mut many_slots;
        let memory = if lines <= few_slots.len() {
            &mut few_slots[..lines]
        } else {
            many_slots = Box::<[Line]>::new_uninit_slice(lines);
            &mut many_slots[..]
        };
        let count = self.inputs.len() + self.outputs.len() + slots;
        let mut few_places = [[const { MaybeUninit::uninit() }; CHUNK_ROWS]; FEW_PLACES];
        let mut many_places = Vec::new();
        let places: &mut [ChunkRows] = if count <= FEW_PLACES {
            &mut few_places[..count]
        } else {
            many_places.resize(count, [MaybeUninit::uninit(); CHUNK_ROWS]);
            &mut many_places
        };
        let own = &mut places[self.inputs.len() + self.outputs.len()..];
        for (slot, rows) in memory.chunks_exact_mut(CHUNK / Line::FLOATS).zip(own) {
            let start: *mut f32 = slot.as_mut_ptr().cast();
            for (r, row) in rows.iter_mut().enumerate().take(chunk_rows) {
                row.write(start.wrapping_add(r * padded));
            }
        }
        let mut first = 0;
        while first < self.rows {
            let rows = chunk_rows.min(self.rows - first);
            for strip in (0..self.width).step_by(CHUNK) {
                let columns = CHUNK.min(self.width - strip);
                let (read, rest) = places.split_at_mut(self.inputs.len());
                for (place, input) in read.iter_mut().zip(self.inputs) {
                    let place = &mut place[..rows];
                    match input {
                        Input::Same(row) => {
                            place.fill(MaybeUninit::new(row[strip..].as_ptr().cast_mut()));
                        }
                        Input::Rows(input) => input.starts(first, strip..self.width, place),
                    }
                }
                for (place, output) in rest.iter_mut().zip(self.outputs.iter_mut()) {
                    output.starts(first, strip, &mut place[..rows]);
                }
                for assignment in self.program.assignments() {
                    // SAFETY: each register has a pointer for each of the `rows`, to `columns`
                    // floats of an input, an output or a slot. Outputs and slots are exclusively
                    // borrowed here. By the invariant of programs no assignment writes to an input,
                    // and what it reads was written before.
                    unsafe { execute(simd, assignment, places, [rows, columns]) };
                }
            }
            first += rows;
        }
    }
}

/// Carries an assignment out. `registers` are pointers to their rows.
///
/// # Safety
///
/// All registers must have pointers to `rows`; those of the operands must be readable, that of the
/// result writable, for `columns` floats in each of them; the result is an operand or overlaps
/// none.
#[inline(always)]
unsafe fn execute<S: Simd>(
    simd: S,
    assignment: &Assignment,
    registers: &[ChunkRows],
    [rows, columns]: [usize; 2],
) {
    let to = &registers[assignment.result.index()];
    let [a, b, c, d] = assignment.operands.map(|operand| &registers[operand.index()]);
    let area = Area { to, rows, columns };
    match assignment.operation {
        Operation::Copy => area.fill(simd, lanewise::Identity, [a]),
        Operation::Add => area.fill(simd, lanewise::Add, [a, b]),
        Operation::Sub => area.fill(simd, lanewise::Sub, [a, b]),
        Operation::Mul => area.fill(simd, lanewise::Mul, [a, b]),
        Operation::Div => area.fill(simd, lanewise::Div, [a, b]),
        Operation::Neg => area.fill(simd, lanewise::Neg, [a]),
        Operation::Scale(factor) => area.fill(simd, lanewise::Scale(factor), [a]),
        Operation::ScaledSum(factor) => {
            area.fill(simd, lanewise::OfSum(lanewise::Scale(factor)), [a, b])
        }
        Operation::AddProduct => area.fill(simd, lanewise::AddProduct, [a, b, c]),
        Operation::SumOfProducts => area.fill(simd, lanewise::SumOfProducts, [a, b, c, d]),
        Operation::Apply(form, function) => {
            let sources = [a, b, c, d];
            match function {
                Function::Sigmoid => area.apply(simd, lanewise::Sigmoid, form, sources),
                Function::Tanh => area.apply(simd, lanewise::Tanh, form, sources),
                Function::Relu => area.apply(simd, lanewise::Relu, form, sources),
                Function::Exp => area.apply(simd, lanewise::Exp, form, sources),
                Function::Log => area.apply(simd, lanewise::Log, form, sources),
            }
        }
    }
}

/// What an assignment writes: the caller of [`execute`] vouches for it and for what is read.
#[derive(Clone, Copy)]
struct Area<'a> {
    to: &'a ChunkRows,
    rows: usize,
    columns: usize,
}

impl Area<'_> {
    /// A function in one of its forms.
    #[inline(always)]
    fn apply<S: Simd, F: Lanewise<1>>(
        self,
        simd: S,
        f: F,
        form: Form,
        [a, b, c, d]: [&ChunkRows; 4],
    ) {
        use lanewise::{Between, OfSum, OfSums, Times};
        match form {
            Form::Plain => self.fill(simd, f, [a]),
            Form::OfSum => self.fill(simd, OfSum(f), [a, b]),
            Form::OfSums => self.fill(simd, OfSums(f), [a, b, c]),
            Form::Times => self.fill(simd, Times(f), [a, b]),
            Form::OfSumTimes => self.fill(simd, Times(OfSum(f)), [a, b, c]),
            Form::Between => self.fill(simd, Between(f), [a, b, c]),
            Form::OfSumBetween => self.fill(simd, Between(OfSum(f)), [a, b, c, d]),
        }
    }

    #[inline(always)]
    fn fill<S: Simd, F: Lanewise<N>, const N: usize>(self, simd: S, f: F, from: [&ChunkRows; N]) {
        simd.apart(Execute { f, from, area: self });
    }
}

/// `to[r][i] = f(from[..][r][i])` for i in 0..columns, r in 0..rows.
///
/// *Invariant*: what the caller of [`execute`] vouches for.
struct Execute<'a, F, const N: usize> {
    f: F,
    from: [&'a ChunkRows; N],
    area: Area<'a>,
}

impl<F: Lanewise<N>, const N: usize> Kernel for Execute<'_, F, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Execute { f, from, area: Area { to, rows, columns } } = self;
        for r in 0..rows {
            // SAFETY: by the invariant there are pointers to all rows.
            let (from, to) =
                unsafe { (from.map(|rows| rows[r].assume_init()), to[r].assume_init()) };
            let mut at = 0;
            // SAFETY: the vectors end at or before `columns`, so by the invariant they can be read
            // and written.
            unsafe {
                if S::REGISTERS == 32 {
                    while at + 4 * S::LANES <= columns {
                        several::<S, F, N, 4>(simd, f, from, to, at);
                        at += 4 * S::LANES;
                    }
                }
                while at + 2 * S::LANES <= columns {
                    several::<S, F, N, 2>(simd, f, from, to, at);
                    at += 2 * S::LANES;
                }
                if at + S::LANES <= columns {
                    several::<S, F, N, 1>(simd, f, from, to, at);
                    at += S::LANES;
                }
            }
            if at < columns {
                let mut x = [simd.splat(0.0); N];
                // SAFETY: the last columns - at floats, likewise.
                unsafe {
                    for n in 0..N {
                        x[n] = simd.load_first(from[n].add(at), columns - at);
                    }
                    simd.store_first(to.add(at), f.of(simd, x), columns - at);
                }
            }
        }
    }
}

/// U vectors, whose operations are independent of each other, with one round of the loop's own
/// instructions.
///
/// # Safety
///
/// From `at` on, the pointers must be readable and writable for the vectors.
#[inline(always)]
unsafe fn several<S: Simd, F: Lanewise<N>, const N: usize, const U: usize>(
    simd: S,
    f: F,
    from: [*mut f32; N],
    to: *mut f32,
    at: usize,
) {
    let mut y = [simd.splat(0.0); U];
    // SAFETY: passed on from the caller; operands are read before results are written.
    unsafe {
        for (u, y) in y.iter_mut().enumerate() {
            let mut x = [simd.splat(0.0); N];
            for n in 0..N {
                x[n] = simd.load(from[n].add(at + u * S::LANES));
            }
            *y = f.of(simd, x);
        }
        for (u, y) in y.into_iter().enumerate() {
            simd.store(to.add(at + u * S::LANES), y);
        }
    }
}
