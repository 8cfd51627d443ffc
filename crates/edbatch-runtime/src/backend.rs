//! What carries plans out.

use edbatch_layout::Plan;

use crate::kernels::{Level, arg_max};

/// An interpreter of plans over an arena of f32 elements.
///
/// A mini-batch: [`allocate`](Self::allocate) its arena, [`write`](Self::write) the rows that
/// exist beforehand, run its [`step`](Self::step)s in order, [`synchronize`](Self::synchronize),
/// [`read`](Self::read) what is wanted.
pub trait Backend: Send {
    /// Makes the arena at least this large. What was in it may be lost.
    fn allocate(&mut self, elements: usize);

    /// Writes elements into the arena.
    fn write(&mut self, at: u32, elements: &[f32]);

    /// Appends so many elements of the arena to `out`.
    fn read(&self, at: u32, elements: usize, out: &mut Vec<f32>);

    /// The arena, where the caller can look at it as it is.
    fn arena(&self) -> Option<&[f32]> {
        None
    }

    /// The index of the greatest of so many elements of the arena, as [`arg_max`] finds it: for decoders, which
    /// need not move a row of scores to learn the next token.
    fn arg_max(&self, at: u32, elements: usize) -> usize {
        if let Some(arena) = self.arena() {
            return arg_max(Level::detect(), &arena[at as usize..][..elements]);
        }
        let mut row = Vec::new();
        self.read(at, elements, &mut row);
        arg_max(Level::detect(), &row)
    }

    /// Runs, or begins to run, one step of a plan.
    fn step(&mut self, plan: &Plan, step: usize);

    /// Waits until all steps have run.
    fn synchronize(&mut self) {}

    /// What is held; nothing, for backends that hold nothing.
    fn bytes(&self) -> Bytes {
        Bytes::default()
    }

    /// Another backend on the same weights, with an arena of its own, on the caller's thread alone.
    fn another(&self) -> Box<dyn Backend>;
}

/// What a backend holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bytes {
    /// Weights, as they were loaded; shared with [others](Backend::another) on the same ones.
    pub weights: usize,
    /// The arena, at its largest.
    pub arena: usize,
}
