//! Runs element-wise programs over the rows of a batch.
//!
//! ```text
//! for each chunk of up to 512 elements (several narrow rows, or a strip of a wide one)
//!     for each assignment             one dispatch per chunk, so interpreting is almost free
//!         for each row of the chunk
//!             for each vector             operands and result in L1
//! ```
//!
//! Inputs are read and outputs written in place. Each temporary register has memory for one chunk,
//! its slot.

use std::mem::MaybeUninit;

use edbatch_graph::{Binary, Function, Slope};
use edbatch_layout::{Assignment, Elementwise, Form, Operation};

use super::{
    isa::Level,
    lanewise::{self, Lanewise},
    memory::Line,
    rows::{RowsMut, RowsRef},
    simd::{self, Kernel, Simd},
};

/// An input of a program.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// One row per instance.
    Rows(RowsRef<'a>),
    /// One row shared by all instances, such as a bias.
    Same(&'a [f32]),
}

/// Runs a program on each of B rows of `width` elements.
///
/// Inputs are (B, `width`), or (`width`) for [`Input::Same`]; outputs are (B, `width`); row-major
/// `f32`. The bits of an output element depend only on the input elements at the same row and
/// column.
///
/// | function | error |
/// |---|---|
/// | σ | at most 2e-7; at most 4 ulp if the result is normal |
/// | tanh | at most 5 ulp |
/// | √ | correctly rounded |
/// | erf | at most 2 ulp |
/// | exp, ln | at most 2 ulp, subnormal results of exp included |
/// | others | rounded after each operation |
///
/// Special values: σ(-∞) = 0, σ(∞) = 1, tanh(±∞) = ±1, exp(-∞) = 0, ln 0 = -∞, and ln of a negative
/// number is NaN. NaN gives NaN.
///
/// # Panics
///
/// If the numbers of inputs or outputs are not the program's, the numbers of rows of inputs and
/// outputs differ, or a row is narrower than `width`.
///
/// ```
/// use edbatch_graph::Binary;
/// use edbatch_layout::{Elementwise, Register};
/// use edbatch_runtime::kernels::{Input, Level, RowsRef, RowsMut, elementwise};
///
/// let [x, bias, sum] = [0, 1, 2].map(Register);
/// let program = Elementwise::new(2, &[(Binary::Add.into(), vec![x, bias])], &[sum]);
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

/// *Invariant*, checked by [`elementwise`]: inputs and outputs have `rows` > 0 rows of `width` > 0
/// columns.
struct Run<'a, 'b> {
    program: &'a Elementwise,
    rows: usize,
    width: usize,
    inputs: &'a [Input<'a>],
    outputs: &'a mut [RowsMut<'b>],
}

/// Maximum number of rows of a chunk.
const CHUNK_ROWS: usize = 16;

/// Pointers to the rows of a chunk, initialized for the rows that the chunk has.
type ChunkRows = [MaybeUninit<*mut f32>; CHUNK_ROWS];

/// Maximum number of elements of a chunk: at every level, a multiple of the number of lanes.
const CHUNK: usize = 512;
/// Maximum number of slots that live on the stack.
const STACK_SLOTS: usize = 8;
/// Maximum number of registers (inputs, outputs and slots) whose pointers live on the stack.
const STACK_REGISTERS: usize = 32;

impl Kernel for &mut Run<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let padded = self.width.next_multiple_of(S::LANES).min(CHUNK);
        let chunk_rows = (CHUNK / padded).min(CHUNK_ROWS);
        // Small programs use the stack: an allocation takes longer than a call for a single row.
        let slots = self.program.temporaries();
        let lines = slots * CHUNK / Line::FLOATS;
        let mut on_stack =
            [const { MaybeUninit::<Line>::uninit() }; STACK_SLOTS * CHUNK / Line::FLOATS];
        let mut on_heap;
        let memory = if lines <= on_stack.len() {
            &mut on_stack[..lines]
        } else {
            on_heap = Box::<[Line]>::new_uninit_slice(lines);
            &mut on_heap[..]
        };
        let count = self.inputs.len() + self.outputs.len() + slots;
        let mut few = [[const { MaybeUninit::uninit() }; CHUNK_ROWS]; STACK_REGISTERS];
        let mut many = Vec::new();
        let registers: &mut [ChunkRows] = if count <= STACK_REGISTERS {
            &mut few[..count]
        } else {
            many.resize(count, [MaybeUninit::uninit(); CHUNK_ROWS]);
            &mut many
        };
        let temporaries = &mut registers[self.inputs.len() + self.outputs.len()..];
        for (slot, rows) in memory.chunks_exact_mut(CHUNK / Line::FLOATS).zip(temporaries) {
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
                let (read, rest) = registers.split_at_mut(self.inputs.len());
                for (register, input) in read.iter_mut().zip(self.inputs) {
                    let register = &mut register[..rows];
                    match input {
                        Input::Same(row) => {
                            register.fill(MaybeUninit::new(row[strip..].as_ptr().cast_mut()));
                        }
                        Input::Rows(input) => input.starts(first, strip..self.width, register),
                    }
                }
                for (register, output) in rest.iter_mut().zip(self.outputs.iter_mut()) {
                    output.starts(first, strip, &mut register[..rows]);
                }
                for assignment in self.program.assignments() {
                    // SAFETY: each register has a pointer for each of the `rows`, to `columns`
                    // floats of an input, an output or a slot. Outputs and slots are borrowed
                    // exclusively. By the invariant of programs, no assignment writes to an input,
                    // and every register is written before it is read.
                    unsafe { execute(simd, assignment, registers, [rows, columns]) };
                }
            }
            first += rows;
        }
    }
}

/// Runs an assignment on `rows` rows of `columns` floats.
///
/// # Safety
///
/// For each of the `rows`, the operands' pointers must be readable and the result's pointer
/// writable for `columns` floats. The result must be one of the operands or overlap none of them.
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
        Operation::Binary(binary) => match binary {
            Binary::Add => area.fill(simd, lanewise::Add, [a, b]),
            Binary::Sub => area.fill(simd, lanewise::Sub, [a, b]),
            Binary::Mul => area.fill(simd, lanewise::Mul, [a, b]),
            Binary::Div => area.fill(simd, lanewise::Div, [a, b]),
            Binary::Maximum => area.fill(simd, lanewise::Max, [a, b]),
            Binary::Minimum => area.fill(simd, lanewise::Min, [a, b]),
        },
        Operation::Larger => area.fill(simd, lanewise::Larger, [a, b]),
        Operation::Neg => area.fill(simd, lanewise::Neg, [a]),
        Operation::Slope(slope) => match slope {
            Slope::Sigmoid => area.fill(simd, lanewise::SlopeOfSigmoid, [a, b]),
            Slope::Tanh => area.fill(simd, lanewise::SlopeOfTanh, [a, b]),
            Slope::Relu => area.fill(simd, lanewise::SlopeOfRelu, [a, b]),
        },
        Operation::SlopeOfProduct(slope) => {
            use lanewise::OfProduct;
            match slope {
                Slope::Sigmoid => area.fill(simd, OfProduct(lanewise::SlopeOfSigmoid), [a, b, c]),
                Slope::Tanh => area.fill(simd, OfProduct(lanewise::SlopeOfTanh), [a, b, c]),
                Slope::Relu => area.fill(simd, OfProduct(lanewise::SlopeOfRelu), [a, b, c]),
            }
        }
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
                Function::Sqrt => area.apply(simd, lanewise::Sqrt, form, sources),
                Function::Erf => area.apply(simd, lanewise::Erf, form, sources),
            }
        }
    }
}

/// The memory that an assignment writes. The caller of [`execute`] guarantees that it is writable.
#[derive(Clone, Copy)]
struct Area<'a> {
    to: &'a ChunkRows,
    rows: usize,
    columns: usize,
}

impl Area<'_> {
    /// Applies `f`, alone or fused with operations around it, as in `f(a + b) · c`.
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
        simd.outlined(Execute { f, from, area: self });
    }
}

/// `to[r][i] = f(from[..][r][i])` for i in 0..columns, r in 0..rows.
///
/// *Invariant*: the pointers satisfy the safety contract of [`execute`].
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
            // SAFETY: by the invariant, the pointers of all rows are initialized.
            let (from, to) =
                unsafe { (from.map(|rows| rows[r].assume_init()), to[r].assume_init()) };
            let mut at = 0;
            // SAFETY: every vector ends at or before `columns`, so by the invariant it can be read
            // and written.
            unsafe {
                if S::REGISTERS == 32 {
                    while at + 4 * S::LANES <= columns {
                        unrolled::<S, F, N, 4>(simd, f, from, to, at);
                        at += 4 * S::LANES;
                    }
                }
                while at + 2 * S::LANES <= columns {
                    unrolled::<S, F, N, 2>(simd, f, from, to, at);
                    at += 2 * S::LANES;
                }
                if at + S::LANES <= columns {
                    unrolled::<S, F, N, 1>(simd, f, from, to, at);
                    at += S::LANES;
                }
            }
            if at < columns {
                let mut x = [simd.splat(0.0); N];
                // SAFETY: the last `columns - at` floats can be read and written, by the invariant.
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

/// Computes U vectors in one iteration: their operations are independent of each other.
///
/// # Safety
///
/// From `at` on, `from` must be readable and `to` writable for U vectors.
#[inline(always)]
unsafe fn unrolled<S: Simd, F: Lanewise<N>, const N: usize, const U: usize>(
    simd: S,
    f: F,
    from: [*mut f32; N],
    to: *mut f32,
    at: usize,
) {
    let mut y = [simd.splat(0.0); U];
    // SAFETY: the caller guarantees U vectors. All operands are read before a result is written.
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
