//! A cell as the passes of the compiler read it: its operations, and the readers of each variable.

use edbatch_graph::{Cell, Op, Shape, Var};

use crate::cell_plan::Weight;
use crate::record_layout::RecordLayout;

/// The operations of a cell, the readers of each variable, and the layouts of records.
pub(super) struct Equations<'a> {
    pub(super) cell: &'a Cell,
    records: &'a [RecordLayout],
    readers: Vec<Vec<Var>>,
}

impl<'a> Equations<'a> {
    pub(super) fn new(records: &'a [RecordLayout], cell: &'a Cell) -> Self {
        let mut readers = vec![Vec::new(); cell.instructions().len()];
        for (var, instruction) in (0..).map(Var).zip(cell.instructions()) {
            for operand in &instruction.operands {
                readers[operand.index()].push(var);
            }
        }
        Self { cell, records, readers }
    }

    pub(super) fn len(&self) -> usize {
        self.readers.len()
    }

    pub(super) fn vars(&self) -> impl DoubleEndedIterator<Item = Var> + use<> {
        (0..self.len() as u32).map(Var)
    }

    pub(super) fn op(&self, var: Var) -> Op {
        self.cell.instruction(var).op
    }

    pub(super) fn operands(&self, var: Var) -> &'a [Var] {
        &self.cell.instruction(var).operands
    }

    pub(super) fn shape(&self, var: Var) -> Shape {
        self.cell.instruction(var).shape
    }

    pub(super) fn width(&self, var: Var) -> u32 {
        self.shape(var).elements() as u32
    }

    pub(super) fn readers(&self, var: Var) -> &[Var] {
        &self.readers[var.index()]
    }

    /// Returns true if a call returns the variable.
    pub(super) fn is_returned(&self, var: Var) -> bool {
        self.cell.outputs().contains(&var)
    }

    /// Returns true if exactly one operation reads the variable, and no call returns it.
    pub(super) fn is_private(&self, var: Var) -> bool {
        self.readers(var).len() == 1 && !self.is_returned(var)
    }

    /// Returns true if the variable is the result of an operation, and not a view of another
    /// variable.
    pub(super) fn is_result(&self, var: Var) -> bool {
        !self.op(var).is_source() && !self.is_view(var)
    }

    /// Returns true if a layout may choose the variable's place: a step of the cell computes it, it
    /// is not a view of another variable, and it is not returned.
    pub(super) fn is_free(&self, var: Var) -> bool {
        !self.is_given(var) && !self.is_view(var) && !self.is_returned(var)
    }

    /// Returns true if the variable is a slice of another variable, or the same elements.
    fn is_view(&self, var: Var) -> bool {
        self.viewed(var).is_some()
    }

    /// Returns the variable that a slice or a reshaped variable is part of, and the index of its
    /// first element there.
    pub(super) fn viewed(&self, var: Var) -> Option<(Var, u32)> {
        let operand = || self.operands(var)[0];
        match self.op(var) {
            Op::Slice { start, .. } => {
                let columns = self.shape(operand()).rows_and_columns().1 as u32;
                Some((operand(), start * columns))
            }
            Op::Reshape(_) => Some((operand(), 0)),
            _ => None,
        }
    }

    /// Returns true if a variable can be read before any step runs.
    pub(super) fn is_given(&self, var: Var) -> bool {
        let is_argument = matches!(self.op(var), Op::Input { .. } | Op::Lookup { .. });
        is_argument || self.parameter(var).is_some()
    }

    /// Returns the parameter, if the variable is one or the transpose of one.
    pub(super) fn parameter(&self, var: Var) -> Option<Weight> {
        match (self.op(var), self.operands(var)) {
            (Op::Parameter(id), _) => Some(Weight::AsIs(id)),
            (Op::Transpose, &[of]) => match self.op(of) {
                Op::Parameter(id) => Some(Weight::Transposed(id)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the offset of a field in the record at a port.
    pub(super) fn field_offset(&self, port: u16, field: u16) -> u32 {
        let record = self.cell.ports()[usize::from(port)].record;
        self.records[usize::from(record.0)].offsets[usize::from(field)]
    }

    /// Returns the number of elements of a field in the record at a port.
    pub(super) fn field_width(&self, port: u16, field: u16) -> u32 {
        let record = self.cell.ports()[usize::from(port)].record;
        self.records[usize::from(record.0)].widths[usize::from(field)]
    }

    /// Returns the layout of a call's output row.
    pub(super) fn output(&self) -> &'a RecordLayout {
        &self.records[usize::from(self.cell.row().0)]
    }

    /// Returns the parameter, if the variable is the product of a vector and a parameter or the
    /// transpose of one.
    pub(super) fn weight(&self, var: Var) -> Option<Weight> {
        match (self.op(var), self.operands(var)) {
            (Op::MatMul, &[left, right]) if matches!(self.shape(right), Shape::Vector(_)) => {
                self.parameter(left)
            }
            _ => None,
        }
    }
}

/// Returns the elements of a vector as a range of a variable: the variable, the first element and
/// the width. Vectors with the same elements have equal ranges.
pub(super) fn elements(equations: &Equations<'_>, mut var: Var) -> (Var, u32, u32) {
    let (width, mut first) = (equations.width(var), 0);
    while let Some((whole, start)) = equations.viewed(var) {
        (var, first) = (whole, first + start);
    }
    if matches!(equations.op(var), Op::Input { .. } | Op::Lookup { .. } | Op::Parameter(_)) {
        let is_same = |other: &Var| equations.op(*other) == equations.op(var);
        var = equations.vars().find(is_same).expect("it is the same as itself");
    }
    (var, first, width)
}
