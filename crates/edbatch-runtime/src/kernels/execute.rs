//! An assignment of an element-wise program, executed over the rows of a chunk.

use std::mem::MaybeUninit;

use edbatch_layout::{Assignment, Form, Function, Operation};

use super::{
    lanewise::{self, Lanewise},
    simd::{Kernel, Simd},
};

/// Rows of a chunk.
pub(super) const CHUNK_ROWS: usize = 16;

/// Pointers to the rows of a chunk, written for as many rows as it has.
pub(super) type ChunkRows = [MaybeUninit<*mut f32>; CHUNK_ROWS];

/// Carries an assignment out. `registers` are pointers to their rows.
///
/// # Safety
///
/// All registers must have pointers to `rows`; those of the operands must be readable, that of the
/// result writable, for `columns` floats in each of them; the result is an operand or overlaps
/// none.
#[inline(always)]
pub(super) unsafe fn execute<S: Simd>(
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
