//! A compiled cell: the steps that compute it for a batch of calls, and where they read and write.

mod access;
mod display;
mod moved;

use edbatch_graph::{ParameterId, Reduction};

use crate::elementwise::Elementwise;
pub use moved::Moved;

/// The steps that compute a cell.
///
/// Scratch is divided into regions. Every call of the cell has a row of its own in each, so a
/// step works on any number of calls at once: it reads and writes the same columns of all their
/// rows.
///
/// *Invariant*: no step reads a region or the output while it writes the same one, but for a
/// product that adds to its own result.
#[derive(Clone, PartialEq, Debug)]
pub struct CellPlan {
    /// The cell's name.
    pub name: String,
    /// The same in two parts, if a part of it can be done before the call's other arguments are
    /// known.
    pub hoisted: Option<Box<Hoisted>>,
    /// The regions of scratch: elements per call.
    pub regions: Vec<u32>,
    /// Elements from one output row to the next.
    pub output_stride: u32,
    /// Elements of an output row that are written; the rest is padding.
    pub output_width: u32,
    /// What is done, in order.
    pub steps: Vec<CellStep>,
}

/// A cell in two parts, of which the first depends on a single argument.
///
/// If that is a row of a table, a mini-batch computes the prologue once per distinct row. If it is
/// a value, then for as many calls at once as have theirs, whether or not they can run together.
#[derive(Clone, PartialEq, Debug)]
pub struct Hoisted {
    /// What the prologue reads beside parameters: a table port or a port.
    pub from: Base,
    /// From there to a row of results.
    pub prologue: CellPlan,
    /// From the call's row of those results, and its other arguments, to its output.
    pub body: CellPlan,
}

impl Hoisted {
    /// The table port whose rows the prologue reads, if it does.
    #[must_use]
    pub fn table(&self) -> Option<usize> {
        match self.from {
            Base::Table(table) => Some(usize::from(table)),
            _ => None,
        }
    }

    /// The port whose values the prologue reads, if it does.
    #[must_use]
    pub fn port(&self) -> Option<usize> {
        match self.from {
            Base::Port(port) => Some(usize::from(port)),
            _ => None,
        }
    }
}

/// Where a tensor of one call lives: it begins at `offset` elements into `base`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// What the offset counts from.
    pub base: Base,
    /// In elements.
    pub offset: u32,
}

/// What a [`Place`] counts from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Base {
    /// The row of a parameter that the call names at this table port.
    Table(u16),
    /// The row of the value that the call names at this port.
    Port(u16),
    /// A parameter, the same for all calls.
    Parameter(ParameterId),
    /// The call's row of results of the [prologue](Hoisted::prologue).
    Hoisted,
    /// The call's row of a region of scratch.
    Scratch(u16),
    /// The call's row of output.
    Output,
}

/// One step of a compiled cell. Shapes are those of one call; `b` counts calls.
#[derive(Clone, PartialEq, Debug)]
pub enum CellStep {
    /// `out[b, :] = Σ over the call's values v of from[v, :]`, or their mean or maximum.
    Reduce {
        /// The port that takes any number of values.
        port: u16,
        /// Where the field begins in each of the values.
        from: u32,
        /// Elements.
        width: u32,
        /// What is done with the values, in argument order.
        by: Reduction,
        /// Where the result goes.
        out: Place,
    },
    /// `out[b, :] = w · x[b, :]` for several weights `(rows, width)` stacked along their rows.
    Product {
        /// The weights, in the order of their results.
        weights: Vec<ParameterId>,
        /// Rows of all weights together.
        rows: u32,
        /// Columns of each weight: elements of `x`.
        width: u32,
        /// Where `x` is.
        x: Place,
        /// Where the results go, one after the other.
        out: Place,
        /// What results are added to.
        mode: Mode,
    },
    /// `out[b] = left[b] · right[b]` with matrices `(m, k)` and `(k, n)`, at least one a value;
    /// `out[b, i, j] = bias[b, i] + (left[b] · right[b])[i, j]` if there is a bias.
    MatMul {
        /// Where the left factor is.
        left: Place,
        /// Where the rows of the right factor are, piece after piece, and how many each has.
        right: Vec<(Place, u32)>,
        /// Where the m elements are that the rows of the result are added to.
        bias: Option<Place>,
        /// Rows of the left factor.
        m: u32,
        /// Columns of the left factor.
        k: u32,
        /// Columns of the right factor.
        n: u32,
        /// Where the result goes.
        out: Place,
    },
    /// A run of element-wise operations in one pass.
    Elementwise {
        /// Elements of every tensor.
        width: u32,
        /// Where the program's inputs are; parameters are the same for all calls.
        inputs: Vec<Place>,
        /// Where its outputs go, in ascending order.
        outputs: Vec<Place>,
        /// What is computed.
        program: Elementwise,
    },
    /// `out[b, :] = softmax(from[b, :])`.
    Softmax {
        /// Where the operand is.
        from: Place,
        /// Elements.
        width: u32,
        /// Where the result goes.
        out: Place,
        /// Whether the logarithm is wanted.
        logarithm: bool,
    },
    /// `out[b, :] = from[b, :]`.
    Copy {
        /// Where the tensor is.
        from: Place,
        /// Elements.
        width: u32,
        /// Where it goes.
        out: Place,
    },
    /// `out[b, i, j] = from[b, i]` for `rows` elements, `columns` times each; one row is repeated
    /// over all of `out`.
    Expand {
        /// Where the elements are.
        from: Place,
        /// How many there are.
        rows: u32,
        /// How often each is repeated.
        columns: u32,
        /// Where the result goes.
        out: Place,
    },
    /// `out[b, j, i] = from[b, i, j]`.
    Transpose {
        /// Where the matrix is.
        from: Place,
        /// Its rows.
        rows: u32,
        /// Its columns.
        columns: u32,
        /// Where the result goes.
        out: Place,
    },
    /// `out[b, :] = value`.
    Fill {
        /// The number.
        value: f32,
        /// Elements.
        width: u32,
        /// Where they go.
        out: Place,
    },
}

/// What a product is added to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// `out = product`.
    Set,
    /// `out = out + product`.
    Add,
    /// `out = what is at this place + product`.
    From(Place),
}
