//! What carries plans out, what it is given, and what it hands out.

use std::fmt;
use std::sync::Arc;

use edbatch_graph::Network;
use edbatch_layout::{Plan, Planner, Program, ValueRow, Want};

use crate::kernels::OutOfMemory;
use crate::{ParameterError, Parameters, Parts};

/// An interpreter of plans over an arena of f32 elements.
///
/// A mini-batch: [`run`](Self::run) begins its plan, [`outputs`](Self::outputs) waits for it and
/// hands out what is wanted. Plans are legal ([`edbatch_layout::check`]) and of the program that
/// the backend was loaded with.
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

    /// Carries out one step of the plan that was run last once more, and waits for it: to see how
    /// long it takes. Its operands may have been overwritten since, so its results mean nothing.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    fn step(&mut self, plan: &Plan, step: usize) -> Result<(), BackendError>;

    /// What is held.
    fn bytes(&self) -> Bytes;

    /// A planner of the plans that the backend runs. Those of a device that runs batches side by
    /// side are made [for waves](Planner::for_waves).
    fn planner(&self) -> Planner {
        Planner::default()
    }

    /// Makes the plans that run from now on those of parts of mini-batches, which a device launches
    /// together. Backends of the same parts are [others](Self::another) of each other.
    fn join(&mut self, _parts: &Arc<Parts>) {}

    /// Another backend on the same weights, on the caller's thread alone. It takes memory of its
    /// own when it first runs a plan.
    fn another(&self) -> Box<dyn Backend>;

    /// [Another](Self::another) backend for an engine of its own. Where there are several devices,
    /// such backends are on each of them in turn.
    fn of_another_engine(&self) -> Box<dyn Backend> {
        self.another()
    }
}

/// The values that are there before a plan runs, in the order of [`Plan::given`].
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Rows in the host's memory, the fields of each one after the other: the network's initial
    /// values.
    pub initial: &'a Rows,
    /// How many rows follow that the plan before let [stay](Want::Stay): all of them in their
    /// order, or none.
    pub stayed: usize,
    /// The elements of the rows that come last, in the host's memory: the caller's own.
    pub host: &'a [f32],
}

/// What a plan was run for: one entry for each of [`Plan::wanted`].
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'a> {
    program: &'a Program,
    plan: &'a Plan,
    elements: Elements<'a>,
    /// By wanted value: the index of its greatest element, where that is what it is wanted for.
    greatest: &'a [u32],
}

/// Where wanted elements lie in the host's memory.
#[derive(Clone, Copy, Debug)]
enum Elements<'a> {
    /// Where the plan has them.
    Arena(&'a [f32]),
    /// One wanted value after the other; by wanted value, where its elements begin.
    Packed(&'a [f32], &'a [usize]),
}

impl<'a> Outputs<'a> {
    /// What is wanted of a plan, where its arena, of [`Plan::arena`] elements, is in the host's
    /// memory. `greatest` has an index for each wanted value; it is read where that is what the
    /// value is wanted for.
    #[must_use]
    pub fn new(
        program: &'a Program,
        plan: &'a Plan,
        arena: &'a [f32],
        greatest: &'a [u32],
    ) -> Self {
        Self { program, plan, elements: Elements::Arena(arena), greatest }
    }

    /// What is wanted of a plan, copied out of a device: the wanted elements, one value after the
    /// other, and where each value begins; `greatest` as for [`new`](Self::new).
    #[must_use]
    pub fn packed(
        program: &'a Program,
        plan: &'a Plan,
        (elements, starts): (&'a [f32], &'a [usize]),
        greatest: &'a [u32],
    ) -> Self {
        Self { program, plan, elements: Elements::Packed(elements, starts), greatest }
    }

    /// The elements of a wanted value, a slice for each field.
    ///
    /// # Panics
    /// If fewer values are wanted, or not its [elements](Want::Elements); if the backend gave fewer
    /// elements than its plan has.
    #[inline]
    pub fn fields(&self, wanted: usize) -> impl Iterator<Item = &'a [f32]> + use<'a> {
        let (row, want) = self.plan.wanted[wanted];
        assert_eq!(want, Want::Elements, "the value is wanted for something else");
        let (elements, mut packed): (_, Option<usize>) = match self.elements {
            Elements::Arena(arena) => (arena, None),
            Elements::Packed(elements, starts) => (elements, Some(starts[wanted])),
        };
        fields(self.program, row).map(move |(start, width)| {
            let start = packed.unwrap_or(start);
            packed = packed.map(|start| start + width);
            &elements[start..][..width]
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

/// A list of rows of f32: what one instance emitted, in order.
///
/// A row holds the fields of one emitted value, one after the other.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rows {
    elements: Vec<f32>,
    ends: Vec<usize>,
}

impl Rows {
    /// No rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The row with this index.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.elements[start..self.ends[index]]
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        (0..self.len()).map(|index| self.row(index))
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[f32]) {
        self.elements.extend_from_slice(row);
        self.ends.push(self.elements.len());
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.elements.clear();
        self.ends.clear();
    }

    /// Keeps the first rows, so many of them, if there are more.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.elements.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Appends a row that `write` appends to the elements.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<f32>)) {
        write(&mut self.elements);
        self.ends.push(self.elements.len());
    }

    /// As [`push_with`](Self::push_with), if `write` succeeds. Otherwise there is no new row.
    ///
    /// # Errors
    /// As `write`.
    pub fn try_push_with<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<f32>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.elements.len();
        let written = write(&mut self.elements);
        match written {
            Ok(()) => self.ends.push(self.elements.len()),
            Err(_) => self.elements.truncate(before),
        }
        written
    }
}

/// The network's initial values, as backends take them: a row each, field after field.
///
/// # Panics
/// If the parameters are [another network's](Parameters::for_network).
#[must_use]
pub fn initial_rows(network: &Network, parameters: &Parameters) -> Rows {
    let mut rows = Rows::new();
    for initial in network.initial_values() {
        rows.push_with(|row| {
            initial.parameters.iter().for_each(|&id| row.extend_from_slice(parameters.get(id)));
        });
    }
    rows
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
    /// The weights are not those of the program's network.
    Weights {
        /// Which tensor does not fit, and how.
        why: String,
    },
    /// A device failed.
    #[cfg(feature = "cuda")]
    Cuda(crate::CudaError),
}

impl From<ParameterError> for BackendError {
    fn from(error: ParameterError) -> Self {
        Self::Weights { why: error.to_string() }
    }
}

impl OutOfMemory {
    /// The same as an error of a backend, with what the memory is for.
    pub(crate) fn of(self, what: &'static str) -> BackendError {
        BackendError::Memory { what, bytes: self.bytes }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { what, bytes } => {
                let megabytes = *bytes as f64 / 1e6;
                write!(f, "out of memory: the system does not give {megabytes:.1} MB for {what}")
            }
            Self::Weights { why } => write!(f, "the weights do not fit the model: {why}"),
            #[cfg(feature = "cuda")]
            Self::Cuda(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BackendError {}
