//! The interface of backends: their inputs and their outputs.

mod borrowed;
mod contributors;
mod given;
mod gradients;
mod named_rows;
mod squared_norm;
mod state;
mod training;
mod update;

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use edbatch_graph::Network;
use edbatch_layout::{Lifetimes, Plan, Program, ValueRow, Want};

use crate::kernels::{ArgMax, OutOfMemory, trial};
use crate::rows::Rows;
use crate::{ParameterError, Parameters, Precision, ThreadPool};
pub use borrowed::{Borrowed, Borrowing};
pub use contributors::Contributors;
pub use given::{Given, GivenPlace, StoredRow};
pub use gradients::{Gradient, Gradients};
pub use named_rows::NamedRows;
pub use state::TrainingState;
pub use training::{
    BackPart, NotFiniteIn, OutputGradients, StepResult, StepTimes, StillWanted, Training,
    TrainingPart, TrainingStep,
};
pub use update::{Clipping, Update, UpdateRule};

/// Runs plans over arenas of f32 elements.
///
/// The caller passes only legal plans ([`edbatch_layout::check`]) of the program that the backend
/// has loaded. A backend has *slots*, numbered from 0. Each has an arena of its own, so that
/// several parts of a mini-batch can run at the same time. An engine uses as many slots as it has
/// threads.
///
/// A slot also has a *store*: lines of [`LINE`](edbatch_layout::LINE) elements, in which rows
/// outlive a plan. The caller decides which row takes which lines. A plan writes rows to the store
/// ([`Want::Store`]), and later plans of the slot read them ([`GivenPlace::Stored`]).
pub trait Backend: Send + Sync {
    /// Runs one round: the plan of each part to its end, in the part's slot. No two parts have the
    /// same slot. A plan may overwrite what earlier plans left in its arena. In the store it writes
    /// only its own rows, whose lines must be [reserved](Self::reserve_store), and no line from
    /// which it reads a given value ([`edbatch_layout::check_store`]).
    ///
    /// # Errors
    /// If memory for a plan cannot be allocated, or a plan cannot be run. Then no part has
    /// outputs, and the lines that a part would have written are unspecified.
    fn run(&mut self, parts: &[Part<'_>]) -> Result<(), BackendError>;

    /// Returns the wanted values of the plan that ran last in a slot. They are valid until the next
    /// [`run`](Self::run).
    fn outputs<'a>(&'a self, slot: usize, plan: &'a Plan) -> Outputs<'a>;

    /// Makes the store of a slot at least `lines` long. Stored rows keep their lines.
    ///
    /// # Errors
    /// If memory for the store cannot be allocated. The store is then as it was.
    fn reserve_store(&mut self, slot: usize, lines: usize) -> Result<(), BackendError>;

    /// Appends the elements of rows in the store of a slot: the fields of each row, one after
    /// another.
    ///
    /// # Errors
    /// If memory for the elements cannot be allocated, or a device fails. `to` may then have some
    /// of the elements.
    fn read_stored(
        &self,
        slot: usize,
        rows: &[StoredRow],
        to: &mut Vec<f32>,
    ) -> Result<(), BackendError>;

    /// Returns the memory that the backend holds.
    fn bytes(&self) -> Bytes;

    /// Returns a backend with the same weights, for another engine or another thread. It allocates
    /// its arenas when it runs plans. If there are several devices, successive forks use them in
    /// turn.
    fn fork(&self) -> Box<dyn Backend>;

    /// Like [`fork`](Self::fork), but the backend may use the threads of a pool, whenever no other
    /// task has claimed them.
    fn fork_with_pool(&self, pool: ThreadPool) -> Box<dyn Backend> {
        drop(pool);
        self.fork()
    }

    /// Returns the program that the backend has loaded, or `None` if it does not tell. An engine
    /// rejects a backend with another program than its own.
    fn program(&self) -> Option<&Arc<Program>> {
        None
    }

    /// Returns how long plans for this backend keep rows in memory: [`Lifetimes::Distinct`], to the
    /// end of the plan, for a device that runs steps concurrently.
    fn lifetimes(&self) -> Lifetimes {
        Lifetimes::Reuse
    }

    /// Returns the bytes of packed weights of the cell that multiplies by the most, or `None` if
    /// they do not matter. An engine with a single thread divides a large mini-batch only if this
    /// is known to be small, because each part reads the weights again.
    fn largest_cell(&self) -> Option<usize> {
        None
    }

    /// Returns the interface that computes gradients; `None` if the backend does not compute them,
    /// or if its program is not [for training](Program::for_training).
    fn training(&mut self) -> Option<&mut dyn Training> {
        None
    }

    /// Returns true if an engine should give each of its threads a [fork](Self::fork), so that no
    /// thread waits for another. Otherwise the threads share this backend, and one
    /// [`run`](Self::run) executes the parts of all threads.
    fn prefers_forks(&self) -> bool {
        false
    }

    /// Returns the bytes of memory that the values of a plan take. The default is the plan's arena.
    fn bytes_of(&self, plan: &Plan) -> u64 {
        (size_of::<f32>() * plan.arena) as u64
    }

    /// Returns the limits on the parts of a mini-batch, for a device that runs all of them at once
    /// and divides each among its processors. Without limits, the default, an engine divides as for
    /// the caches of a CPU.
    fn division(&self) -> Option<PartLimits> {
        None
    }

    /// Returns the number of steps of a decoder that should share a plan. Each step reads the
    /// argmax of the step before ([`Plan::lookups`]). The default is 1: steps after the end of a
    /// sentence take time, and only a device saves its wait for the host.
    fn chain(&self) -> usize {
        1
    }
}

/// The limits on the parts into which an engine divides a mini-batch for a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartLimits {
    /// The maximum number of parts, unless the model says that values are large.
    pub parts: usize,
    /// The minimum number of inputs of a part, on average.
    pub inputs: usize,
    /// The minimum number of nodes of a round that is divided. Dividing a smaller one would cost
    /// more than it saves, because the threads wait for each other.
    pub nodes: usize,
}

/// A part of a mini-batch, for one [`Backend::run`].
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The slot in which it runs.
    pub slot: usize,
    /// Its plan.
    pub plan: &'a Plan,
    /// The given values of the plan.
    pub given: Given<'a>,
}

/// The wanted values of a plan that has run: one entry for each of [`Plan::wanted`].
#[derive(Clone, Copy, Debug)]
pub struct Outputs<'a> {
    program: &'a Program,
    plan: &'a Plan,
    elements: Elements<'a>,
    /// For each wanted value: its largest element, if wanted as [`Want::ArgMax`].
    arg_max: &'a [ArgMax],
    /// The threads that share large copies.
    pool: Option<&'a ThreadPool>,
}

/// The host memory that holds the elements of wanted values.
#[derive(Clone, Copy, Debug)]
enum Elements<'a> {
    /// An arena, in which each value has its planned place.
    Arena(&'a [f32]),
    /// The concatenated elements of the wanted values, and the start of each value.
    Packed(&'a [f32], &'a [usize]),
}

impl<'a> Outputs<'a> {
    /// Creates outputs from an arena of [`Plan::arena`] elements in host memory. `arg_max[i]` is
    /// the largest element of wanted value `i`; it is read only for [`Want::ArgMax`].
    #[must_use]
    pub fn new(
        program: &'a Program,
        plan: &'a Plan,
        arena: &'a [f32],
        arg_max: &'a [ArgMax],
    ) -> Self {
        Self { program, plan, elements: Elements::Arena(arena), arg_max, pool: None }
    }

    /// Creates outputs that were copied from a device: the concatenated elements of the wanted
    /// values, and the start of each value. `arg_max` is as for [`new`](Self::new).
    #[must_use]
    pub fn packed(
        program: &'a Program,
        plan: &'a Plan,
        (elements, starts): (&'a [f32], &'a [usize]),
        arg_max: &'a [ArgMax],
    ) -> Self {
        let elements = Elements::Packed(elements, starts);
        Self { program, plan, elements, arg_max, pool: None }
    }

    /// Lets the outputs use the threads of a pool whenever no other task has claimed them.
    #[must_use]
    pub(crate) fn with_pool(self, pool: Option<&'a ThreadPool>) -> Self {
        Self { pool, ..self }
    }

    /// Appends wanted values to `rows`, a row for each.
    ///
    /// # Errors
    /// If memory for them cannot be allocated.
    ///
    /// # Panics
    /// Like [`fields`](Self::fields).
    pub fn append(&self, wanted: Range<usize>, rows: &mut Rows) -> Result<(), OutOfMemory> {
        rows.try_extend(wanted.len(), |row| self.fields(wanted.start + row), self.pool)
    }

    /// Returns the elements of a wanted value, a slice for each field.
    ///
    /// # Panics
    /// If `wanted` is out of range, if the value is not wanted as [`Want::Elements`], or if the
    /// backend gave too few elements for the plan.
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

    /// Returns the index of the largest element of a wanted value, counted over all of its fields,
    /// as [`arg_max`](crate::kernels::arg_max()) defines it, and whether all are finite.
    ///
    /// # Panics
    /// If `wanted` is out of range, or the value is not wanted as [`Want::ArgMax`].
    #[must_use]
    pub fn arg_max(&self, wanted: usize) -> ArgMax {
        let want = self.plan.wanted[wanted].1;
        assert_eq!(want, Want::ArgMax, "the value is wanted for something else");
        self.arg_max[wanted]
    }
}

/// Returns for each field of a value its start in the arena and its number of elements.
#[inline]
pub fn fields(program: &Program, row: ValueRow) -> impl Iterator<Item = (usize, usize)> + use<'_> {
    let layout = program.record(row.record);
    let starts = layout.offsets.iter().map(move |&offset| (row.start + offset) as usize);
    starts.zip(layout.widths.iter().map(|&width| width as usize))
}

/// Returns the network's initial values, for [`Given::initial`].
///
/// `parameters` must hold the tensors in the order in which `network` declares them, see
/// [`for_network`](Parameters::for_network).
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

/// The memory of a backend, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bytes {
    /// Loaded weights, moments and gradients, shared by all [forks](Backend::fork).
    pub weights: usize,
    /// The arenas of all slots, and sums of gradients by row of a table. They do not shrink.
    pub arena: usize,
    /// The stores of all slots. They do not shrink.
    pub store: usize,
}

/// The error for weights that could not be loaded, or a plan that could not be run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Out of memory.
    #[error("out of memory: failed to allocate {:.1} MB for {what}", *bytes as f64 / 1e6)]
    Memory {
        /// The purpose of the memory, such as `the packed weights`.
        what: &'static str,
        /// The number of bytes that could not be allocated.
        bytes: u64,
    },
    /// The results are no longer [wanted](StillWanted).
    #[error("cancelled: the results are no longer wanted")]
    Cancelled,
    /// The weights do not fit the program's network.
    #[error("the weights do not fit the model: {why}")]
    Weights {
        /// The tensor that does not fit, and why.
        why: String,
    },
    /// A program for training was to be loaded in a precision other than `f32`.
    #[error("training is in f32 alone: load the program in f32, not in {0}")]
    TrainingPrecision(Precision),
    /// An error of a backend outside of this crate, such as a lost device.
    #[error(transparent)]
    Other(Arc<dyn Error + Send + Sync>),
}

impl From<ParameterError> for BackendError {
    fn from(error: ParameterError) -> Self {
        Self::Weights { why: error.to_string() }
    }
}

/// Fails unless this number of bytes can be allocated. Call it before code that cannot report a
/// failed allocation, such as most of the standard library.
///
/// # Errors
/// [`BackendError::Memory`], which names the purpose `what`.
pub fn try_memory(bytes: usize, what: &'static str) -> Result<(), BackendError> {
    trial(bytes).map_err(|error| error.of(what))
}

/// Reserves memory for more elements. Unlike `Vec::reserve`, it returns an error.
pub(crate) fn reserve<T>(
    to: &mut Vec<T>,
    additional: usize,
    what: &'static str,
) -> Result<(), BackendError> {
    to.try_reserve(additional).map_err(|_| out_of_memory::<T>(to.len() + additional, what))
}

/// Returns the error for a failed allocation of elements.
pub(crate) fn out_of_memory<T>(elements: usize, what: &'static str) -> BackendError {
    BackendError::Memory { what, bytes: (elements * size_of::<T>()) as u64 }
}

impl OutOfMemory {
    /// Returns the error of a backend that needed the memory for `what`.
    pub(crate) fn of(self, what: &'static str) -> BackendError {
        BackendError::Memory { what, bytes: self.bytes }
    }
}
