//! Operands of a cell's operations: tensors of the cell, and bare numbers.

use edbatch::graph::{Shape, Var};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::cell::CellBuilder;
use crate::tensor::Tensor;
use crate::values::Values;

/// An operand of an element-wise operation.
pub(crate) struct Operand {
    pub(crate) var: Var,
    pub(crate) shape: Shape,
    pub(crate) column: bool,
}

/// The order of the operands of a binary operator.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Order {
    AsWritten,
    Reflected,
}

/// Returns the name of an object's type.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().qualname().map_or_else(|_| "an object".into(), |name| name.to_string())
}

/// Rounds a number to 32 bits.
pub(crate) fn rounded(cell: &CellBuilder, number: f64) -> PyResult<f32> {
    let rounded = number as f32;
    if rounded.is_infinite() && number.is_finite() {
        let expected = format!("a number that fits 32 bits, got {number:e}");
        return Err(cell.error("constant", &[], &expected));
    }
    Ok(rounded)
}

/// Returns the variable of a tensor of this cell.
pub(crate) fn var_of(
    cell: &Bound<'_, CellBuilder>,
    object: &Bound<'_, PyAny>,
    operation: &str,
) -> PyResult<Var> {
    let Operand { var, shape, column } = tensor_of(cell, object, operation)?;
    if column {
        let expected = "a tensor without [:, None], which is for element-wise operations with a \
                        matrix";
        return Err(cell.get().error(operation, &[shape], expected));
    }
    Ok(var)
}

pub(crate) fn tensor_of(
    cell: &Bound<'_, CellBuilder>,
    object: &Bound<'_, PyAny>,
    operation: &str,
) -> PyResult<Operand> {
    if let Ok(tensor) = object.cast::<Tensor>() {
        let Tensor { cell: of, var, shape, column } = tensor.get();
        if of.is(cell) {
            return Ok(Operand { var: *var, shape: *shape, column: *column });
        }
        let expected = "a tensor of this cell, got one of another";
        return Err(cell.get().error(operation, &[*shape], expected));
    }
    let expected = match object.cast::<PyTuple>() {
        Ok(_) => "a tensor, got the fields of a value: write `h, = …` with a name for each field, \
                  or append `.h`"
            .into(),
        Err(_) if object.is_instance_of::<Values>() => {
            "a tensor, got the values at a port: append `.sum()` or another reduction, and name \
             each of its fields"
                .into()
        }
        Err(_) => format!("a tensor, got {}", type_name(object)),
    };
    Err(cell.get().error(operation, &[], &expected))
}

/// Checks that a vector with a matrix is written as a column, and only such a vector.
pub(crate) fn check_columns(
    cell: &CellBuilder,
    name: &str,
    a: &Operand,
    b: &Operand,
) -> PyResult<()> {
    let shapes = [a.shape, b.shape];
    let expected = match (a, b) {
        (Operand { column: true, .. }, Operand { shape: Shape::Matrix(..), column: false, .. })
        | (Operand { shape: Shape::Matrix(..), column: false, .. }, Operand { column: true, .. }) =>
        {
            return Ok(());
        }
        _ if a.column || b.column => {
            "a matrix with a vector that is written v[:, None], and no such vector otherwise"
        }
        (Operand { shape: Shape::Matrix(..), .. }, Operand { shape: Shape::Vector(2..), .. })
        | (Operand { shape: Shape::Vector(2..), .. }, Operand { shape: Shape::Matrix(..), .. }) => {
            "equal shapes; write v[:, None] for a vector v with an element for each row of the \
             matrix"
        }
        _ => return Ok(()),
    };
    Err(cell.error(name, &shapes, expected))
}

/// Returns true for the key of `v[:, None]`, where `v` has this number of rows.
pub(crate) fn is_column(pair: &Bound<'_, PyTuple>, rows: u32) -> bool {
    let all = |key: Bound<'_, PyAny>| {
        key.cast::<PySlice>().is_ok_and(|slice| range_of(slice, rows) == Some((0, rows)))
    };
    pair.len() == 2
        && pair.get_item(0).is_ok_and(all)
        && pair.get_item(1).is_ok_and(|key| key.is_none())
}

/// Returns start and end of a slice without a step: a nonempty range of rows. Negative ones count
/// from the end.
pub(crate) fn range_of(slice: &Bound<'_, PySlice>, rows: u32) -> Option<(u32, u32)> {
    let part = |name, default: i64| -> Option<i64> {
        let part = slice.getattr(name).ok()?;
        if part.is_none() { Some(default) } else { part.extract().ok() }
    };
    let row = |name, default: u32| {
        let row = part(name, default.into())?;
        u32::try_from(if row < 0 { row.checked_add(rows.into())? } else { row }).ok()
    };
    let (start, end) = (row("start", 0)?, row("stop", rows)?);
    (part("step", 1)? == 1 && start < end && end <= rows).then_some((start, end))
}
