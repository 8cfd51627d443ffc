//! Steps that compute a matrix for each call from the same rows and columns of one or two others.

use std::fmt;

use edbatch_graph::Normalization;

use super::display::hyphens;
use super::{Base, CellStep, Place};

/// A step whose operands and result have `rows` rows, `columns` columns, or both.
///
/// What the kernel reads and writes follows from its [`Signature`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RowStep {
    /// The computation.
    pub kernel: RowKernel,
    /// The places of the operands, then places without meaning.
    pub from: [Place; 2],
    /// The number of rows.
    pub rows: u32,
    /// The number of columns.
    pub columns: u32,
    /// The place of the result.
    pub out: Place,
}

/// The computation of a [`RowStep`]. The index `b` is the call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowKernel {
    /// `out[b, i, :] = f(from[b, i, :])` for a softmax or a norm f.
    Normalize(Normalization),
    /// `out[b, i] = Σ over j of left[b, i, j] · right[b, i, j]`.
    Dot,
    /// `out[b, i] = Σ over j of from[b, i, j]`.
    Fold,
    /// `out[b, j, i] = from[b, i, j]`.
    Transpose,
    /// `out[b, i, j] = from[b, i]`: `columns` copies of each element.
    Expand,
    /// `out[b] = from[b]`.
    Copy,
    /// `out[b] = ` this number, everywhere.
    Fill(f32),
    /// `out[b, :] = from[b, i, :]`, where `i` is the index that the call names at this index port,
    /// among the cell's table ports.
    Select(u16),
    /// `out[b, :] = 0`, except 1 at the index that the call names at this index port.
    OneHot(u16),
    /// `out[b] = from[b]`, divided by the number of the call's values at this port.
    Share(u16),
    /// `out[b, i] = ` the number of the call's values v with `v[field + i] = from[b, i]`.
    Ties {
        /// The port that takes any number of values.
        port: u16,
        /// The offset of the field in each value.
        field: u32,
    },
}

/// The number of elements of an operand or of a result, for each call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// One for each row.
    Rows,
    /// One for each column.
    Columns,
    /// One for each row and column.
    All,
}

/// The operands, the result and the cost of a [`RowKernel`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Signature {
    /// The name in plans and drawings.
    pub name: &'static str,
    /// The operands.
    pub operands: &'static [Extent],
    /// The result.
    pub result: Extent,
    /// The estimated cost of an element, in multiply-adds of a product.
    pub cost: usize,
    /// True if elements are moved or set, but not computed.
    pub moves: bool,
}

impl RowKernel {
    /// Returns the kernel's signature.
    #[must_use]
    pub const fn signature(self) -> Signature {
        use Extent::{All, Columns, Rows};
        /// The cost of an element of an element-wise operation: 0.13 ns, if 64 multiply-adds take
        /// 1 ns.
        const ELEMENT: usize = 8;
        /// The guessed number of values of a call at a port that takes any number of them.
        const VALUES: usize = 8;
        const fn of(
            name: &'static str,
            operands: &'static [Extent],
            result: Extent,
            (cost, moves): (usize, bool),
        ) -> Signature {
            Signature { name, operands, result, cost, moves }
        }
        match self {
            Self::Normalize(by) => of(by.name(), &[All], All, (ELEMENT, false)),
            Self::Dot => of("dot", &[All, All], Rows, (1, false)),
            Self::Fold => of("fold", &[All], Rows, (1, false)),
            Self::Transpose => of("transpose", &[All], All, (1, true)),
            Self::Expand => of("expand", &[Rows], All, (1, true)),
            Self::Copy => of("copy", &[All], All, (1, true)),
            Self::Fill(_) => of("fill", &[], All, (1, true)),
            Self::Select(_) => of("select", &[All], Columns, (1, true)),
            Self::OneHot(_) => of("one-hot", &[], Columns, (1, true)),
            Self::Share(_) => of("share", &[All], All, (ELEMENT, false)),
            Self::Ties { .. } => of("ties", &[All], All, (VALUES, false)),
        }
    }

    /// Returns what the kernel reads of the call besides operands of `width` elements: an index, or
    /// as many elements of all values at a port.
    fn argument(self, width: u32) -> Option<(Place, u32)> {
        match self {
            Self::Select(table) | Self::OneHot(table) => {
                Some((Place { base: Base::Table(table), offset: 0 }, 1))
            }
            Self::Ties { port, field } => {
                Some((Place { base: Base::Port(port), offset: field }, width))
            }
            _ => None,
        }
    }

    /// Returns true if the result depends on more of the call than its operands: on an index, or on
    /// the values at a port or their number.
    #[must_use]
    pub fn reads_the_call(self) -> bool {
        matches!(self, Self::Select(_) | Self::OneHot(_) | Self::Share(_) | Self::Ties { .. })
    }
}

impl CellStep {
    /// A step on a matrix of `[rows, columns]` for each call, or on a vector, which is one row.
    ///
    /// # Panics
    /// If the kernel has another number of operands.
    #[must_use]
    pub fn rows(
        kernel: RowKernel,
        operands: &[Place],
        [rows, columns]: [u32; 2],
        out: Place,
    ) -> Self {
        let expected = kernel.signature().operands.len();
        assert_eq!(operands.len(), expected, "operands of {}", kernel.signature().name);
        let from = [0, 1].map(|index| operands.get(index).copied().unwrap_or(out));
        Self::Rows(RowStep { kernel, from, rows, columns, out })
    }

    /// A copy of `width` elements.
    #[must_use]
    pub fn copy(from: Place, width: u32, out: Place) -> Self {
        Self::rows(RowKernel::Copy, &[from], [1, width], out)
    }
}

impl RowStep {
    /// Returns the number of elements of an operand or of the result.
    #[must_use]
    pub const fn elements(&self, extent: Extent) -> u32 {
        match extent {
            Extent::Rows => self.rows,
            Extent::Columns => self.columns,
            Extent::All => self.rows.saturating_mul(self.columns),
        }
    }

    /// Returns the places of the operands.
    #[must_use]
    pub fn operands(&self) -> &[Place] {
        &self.from[..self.kernel.signature().operands.len()]
    }

    pub(super) fn operands_mut(&mut self) -> &mut [Place] {
        &mut self.from[..self.kernel.signature().operands.len()]
    }

    /// Returns the places that are read, with their numbers of elements per call.
    pub(super) fn reads(&self) -> Vec<(Place, u32)> {
        let extents = self.kernel.signature().operands.iter();
        let operands = self.from.iter().zip(extents);
        let operands = operands.map(|(&place, &extent)| (place, self.elements(extent)));
        self.kernel.argument(self.elements(Extent::All)).into_iter().chain(operands).collect()
    }

    /// Returns the number of elements that are written per call.
    #[must_use]
    pub const fn written(&self) -> u32 {
        self.elements(self.kernel.signature().result)
    }

    /// Returns the estimated cost of a call, in multiply-adds of a product.
    #[must_use]
    pub const fn work(&self) -> usize {
        let elements = match self.kernel {
            RowKernel::Select(_) => self.columns,
            _ => self.elements(Extent::All),
        };
        elements as usize * self.kernel.signature().cost
    }

    /// Returns the number of units of a call that devices compute independently: elements of the
    /// result, but the whole call of a softmax or a norm.
    #[must_use]
    pub const fn units(&self) -> u32 {
        match self.kernel {
            RowKernel::Normalize(_) => 1,
            _ => self.written(),
        }
    }
}

impl fmt::Display for RowStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, from: [from, right], rows, columns, out } = self;
        write!(f, "{out} = ")?;
        match kernel {
            RowKernel::Normalize(by) => write!(f, "{} {from}", hyphens(by))?,
            RowKernel::Dot => write!(f, "dot {from} {right}")?,
            RowKernel::Fold | RowKernel::Transpose | RowKernel::Expand => {
                write!(f, "{} {from}", kernel.signature().name)?;
            }
            RowKernel::Select(table) => write!(f, "{from} at index{table}")?,
            RowKernel::Copy => write!(f, "{from}")?,
            RowKernel::Fill(value) => write!(f, "{value}")?,
            RowKernel::OneHot(table) => write!(f, "one-hot of index{table}")?,
            RowKernel::Share(port) => write!(f, "{from} / values of port{port}")?,
            RowKernel::Ties { port, field } => write!(f, "ties of {from} and port{port}+{field}")?,
        }
        let is_matrix = match kernel {
            RowKernel::Normalize(_) => *rows > 1,
            RowKernel::Dot | RowKernel::Fold | RowKernel::Transpose => true,
            RowKernel::Expand | RowKernel::Select(_) => true,
            _ => false,
        };
        if is_matrix { write!(f, " [{rows}, {columns}]") } else { write!(f, " [{columns}]") }
    }
}
