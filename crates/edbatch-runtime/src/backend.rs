//! What carries plans out.

use std::fmt;

use edbatch_layout::{Plan, Program, ValueRow, Want};

use crate::Rows;

/// An interpreter of plans over an arena of f32 elements.
///
/// A mini-batch: [`run`](Self::run) begins its plan, [`outputs`](Self::outputs) waits for it and hands
/// out what is wanted. Plans are legal ([`edbatch_layout::check`]) and of the program that the backend
/// was loaded with.
pub trait Backend: Send {
    /// Runs a plan, or begins to. What the plan before it left may be overwritten, but for the rows
    /// that are given to this one.
    ///
    /// # Errors
    /// If memory that the plan needs cannot be had; then nothing was run.
    fn run(&mut self, plan: &Plan, given: &Given<'_>) -> Result<(), BackendError>;

    /// What is wanted of the plan that was run last, once it has been carried out.
    ///
    /// # Errors
    /// If the plan could not be carried out to its end.
    fn outputs<'a>(&'a mut self, plan: &'a Plan) -> Result<Outputs<'a>, BackendError>;

    /// Carries out one step of the plan that was run last once more, and waits for it: to see how long
    /// it takes. Its operands may have been overwritten since, so its results mean nothing.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError>;

    /// What is held.
    fn bytes(&self) -> Bytes;

    /// Another backend on the same weights, on the caller's thread alone. It takes memory of its own
    /// when it first runs a plan.
    fn another(&self) -> Box<dyn Backend>;
}

/// The values that are there before a plan runs, in the order of [`Plan::given`].
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Rows in the host's memory, the fields of each one after the other: the network's initial values.
    pub initial: &'a Rows,
    /// How many rows follow that the plan before let [stay](Want::Stay): all of them in their order, or
    /// none.
    pub stayed: usize,
    /// The elements of the rows that come last, in the host's memory: the caller's own.
    pub host: &'a [f32],
}

/// What a plan was run for: one entry for each of [`Plan::wanted`].
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'a> {
    program: &'a Program,
    plan: &'a Plan,
    arena: &'a [f32],
    /// By wanted value: the index of its greatest element, where that is what it is wanted for.
    greatest: &'a [u32],
}

impl<'a> Outputs<'a> {
    /// What is wanted of a plan, where its arena is in the host's memory.
    pub(crate) fn new(
        program: &'a Program,
        plan: &'a Plan,
        arena: &'a [f32],
        greatest: &'a [u32],
    ) -> Self {
        Self { program, plan, arena, greatest }
    }

    /// The elements of a wanted value, a slice for each field.
    ///
    /// # Panics
    /// If fewer values are wanted, or not its [elements](Want::Elements).
    #[inline]
    pub fn fields(&self, wanted: usize) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let (row, want) = self.plan.wanted[wanted];
        assert_eq!(want, Want::Elements, "the value is wanted for something else");
        fields(self.program, row).map({
            let arena = self.arena;
            move |(start, width)| &arena[start..][..width]
        })
    }

    /// The index of the greatest element of a wanted value, all its fields one after the other, as
    /// [`arg_max`](crate::kernels::arg_max) finds it.
    ///
    /// # Panics
    /// If fewer values are wanted, or not its [greatest element](Want::ArgMax).
    #[must_use]
    pub fn arg_max(&self, wanted: usize) -> u32 {
        assert_eq!(
            self.plan.wanted[wanted].1,
            Want::ArgMax,
            "the value is wanted for something else"
        );
        self.greatest[wanted]
    }
}

/// Where the fields of a value begin in the arena, and how many elements each has.
#[inline]
pub(crate) fn fields(
    program: &Program,
    row: ValueRow,
) -> impl Iterator<Item = (usize, usize)> + use<'_> {
    let layout = program.record(row.record);
    let starts = layout.offsets.iter().map(move |&offset| (row.start + offset) as usize);
    starts.zip(layout.widths.iter().map(|&width| width as usize))
}

/// What a backend holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bytes {
    /// Weights, as they were loaded; shared with [others](Backend::another) on the same ones.
    pub weights: usize,
    /// The arena, at its largest.
    pub arena: usize,
}

/// Why a plan could not be carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BackendError {
    /// Memory that the system does not have.
    Memory {
        /// What it is for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
    },
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { what, bytes } => write!(
                f,
                "out of memory: {what} needs {:.1} MB that the system does not give: make \
                 mini-batches smaller",
                *bytes as f64 / 1e6
            ),
        }
    }
}

impl std::error::Error for BackendError {}
