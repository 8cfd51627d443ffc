//! Compiled cells: the steps that compute a batch of calls, and the memory that they use.

mod access;
mod display;
mod moved;
mod row_step;

use edbatch_graph::{ParameterId, Reduction};

use crate::elementwise::Elementwise;
pub use moved::Moved;
pub use row_step::{Extent, RowKernel, RowStep, Signature};

/// The steps that compute a cell.
///
/// Scratch memory is divided into regions. Every call of the cell has its own row in each region,
/// so a step works on any number of calls at once: it reads and writes the same columns of their
/// rows.
///
/// *Invariant*: no step both reads and writes the same region or the output, except a product that
/// accumulates into its own result.
#[derive(Clone, PartialEq, Debug)]
pub struct CellPlan {
    /// The cell's name.
    pub name: String,
    /// The same cell in two parts, if one of them depends on a single argument.
    pub hoisted: Option<Box<Hoisted>>,
    /// The width of each region of scratch, in elements per call.
    pub regions: Vec<u32>,
    /// The distance from one output row to the next, in elements.
    pub output_stride: u32,
    /// The number of elements written in an output row; the rest is padding.
    pub output_width: u32,
    /// The steps, in order.
    pub steps: Vec<CellStep>,
}

/// A cell in two parts: a prologue, which depends on a single argument, and a body.
///
/// If the argument is a row of a table, a mini-batch computes the prologue once per distinct row.
/// If it is a value, the prologue runs for several calls as soon as their values exist, even if the
/// calls themselves cannot run together.
#[derive(Clone, PartialEq, Debug)]
pub struct Hoisted {
    /// The argument that the prologue reads: a table port or a port.
    pub from: Base,
    /// Computes a row of results from the argument and parameters.
    pub prologue: CellPlan,
    /// Computes the output from the call's row of results and its other arguments.
    pub body: CellPlan,
}

impl Hoisted {
    /// Returns the table port if the prologue reads rows of a table.
    #[must_use]
    pub fn table(&self) -> Option<usize> {
        match self.from {
            Base::Table(table) => Some(usize::from(table)),
            _ => None,
        }
    }

    /// Returns the port if the prologue reads values.
    #[must_use]
    pub fn port(&self) -> Option<usize> {
        match self.from {
            Base::Port(port) => Some(usize::from(port)),
            _ => None,
        }
    }
}

/// A parameter, as the steps of a cell read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Weight {
    /// The parameter.
    AsIs(ParameterId),
    /// The transpose of a matrix, which a backend computes when it loads the parameter.
    Transposed(ParameterId),
}

impl Weight {
    /// Returns the parameter.
    #[must_use]
    pub fn parameter(self) -> ParameterId {
        match self {
            Self::AsIs(id) | Self::Transposed(id) => id,
        }
    }

    /// Returns the number of rows and columns of the weight, for a parameter with these dimensions.
    /// `None` if the parameter is not a matrix.
    #[must_use]
    pub fn rows_and_columns(self, dims: &[usize]) -> Option<(usize, usize)> {
        match (self, dims) {
            (Self::AsIs(_), &[rows, columns]) | (Self::Transposed(_), &[columns, rows]) => {
                Some((rows, columns))
            }
            _ => None,
        }
    }
}

/// The memory location of a tensor of one call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The memory.
    pub base: Base,
    /// The offset of the first element.
    pub offset: u32,
}

/// The memory that a [`Place`] is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Base {
    /// The row of a parameter that the call names at this table port.
    Table(u16),
    /// The row of the value that the call names at this port.
    Port(u16),
    /// A parameter or its transpose, the same for all calls.
    Parameter(Weight),
    /// The call's row of results of the [prologue](Hoisted::prologue).
    Hoisted,
    /// The call's row of a region of scratch.
    Scratch(u16),
    /// The call's row of output.
    Output,
}

/// A step of a compiled cell. Shapes are per call; the index `b` is the call.
#[derive(Clone, PartialEq, Debug)]
pub enum CellStep {
    /// `out[b, :] = Σ over the call's values v of from[v, :]`, or mean, maximum or log-sum-exp.
    Reduce {
        /// The port that takes any number of values.
        port: u16,
        /// The offset of the field in each value.
        from: u32,
        /// The number of elements.
        width: u32,
        /// The reduction, over values in argument order.
        by: Reduction,
        /// The place of the result.
        out: Place,
    },
    /// `out[b, :] = w · x[b, :]`, where `w` `(rows, width)` is several weights stacked by rows.
    Product {
        /// The weights, in the order of their results.
        weights: Vec<Weight>,
        /// The total number of rows.
        rows: u32,
        /// The number of columns of `w`, and of elements of `x`.
        width: u32,
        /// The place of `x`.
        x: Place,
        /// The place of the results, which are contiguous.
        out: Place,
        /// The value that the product is added to, if any.
        mode: Mode,
    },
    /// `out[b] = left[b] · right[b]` for matrices `(m, k)` and `(k, n)`. With a bias, `out[b, i, j]
    /// = bias[b, i] + (left[b] · right[b])[i, j]`.
    MatMul {
        /// The place of the left factor.
        left: Place,
        /// The pieces of the right factor: the place and the number of rows of each.
        right: Vec<(Place, u32)>,
        /// The place of the m elements of the bias.
        bias: Option<Place>,
        /// The number of rows of the left factor.
        m: u32,
        /// The number of columns of the left factor.
        k: u32,
        /// The number of columns of the right factor.
        n: u32,
        /// The place of the result.
        out: Place,
    },
    /// The gradient of the query of [`Attention`](Self::Attention); then for each head the
    /// log-sum-exp of its scores, then for each head `g · y`, where y is the result.
    AttentionBack {
        /// The values that it attends to.
        of: AttentionFields,
        /// The place of the query.
        query: Place,
        /// The place of the gradient g of the result.
        gradient: Place,
        /// The place of the result.
        out: Place,
    },
    /// A run of element-wise operations in one pass.
    Elementwise {
        /// The number of elements of every tensor.
        width: u32,
        /// The places of the program's inputs.
        inputs: Vec<Place>,
        /// The places of its outputs, in ascending order.
        outputs: Vec<Place>,
        /// The operations.
        program: Elementwise,
    },
    /// For each head h: `out[b, h, :] = Σ over the call's values v of p[v, h] · v[values, h, :]`,
    /// where p is the softmax of the scores over these values.
    Attention {
        /// The port that takes any number of values.
        port: u16,
        /// The scores of the values.
        scores: Scores,
        /// The offset of the field in each value.
        values: u32,
        /// The number of heads.
        heads: u32,
        /// The number of elements of the field.
        width: u32,
        /// The place of the result.
        out: Place,
    },
    /// A step that computes the rows of a matrix for each call.
    Rows(RowStep),
}

/// The attention over the values at a port whose gradient is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AttentionFields {
    /// The port that takes any number of values.
    pub port: u16,
    /// The field with the keys: its offset in each value, and the number of its elements.
    pub keys: (u32, u32),
    /// The field that is summed: its offset in each value, and the number of its elements.
    pub values: (u32, u32),
    /// The number of heads.
    pub heads: u32,
}

/// The scores of the values at a port, one for each head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scores {
    /// A field of each value, at this offset.
    Field(u32),
    /// The inner products of the heads of a query and of a field of each value.
    Keys {
        /// The place of the query.
        query: Place,
        /// The offset of the field in each value.
        keys: u32,
        /// The number of elements of the field and of the query.
        width: u32,
    },
}

/// The value that a product is added to, if any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// `out = product`.
    Set,
    /// `out = out + product`.
    Add,
    /// `out = start + product`, where `start` is at this place.
    From(Place),
}
