//! Many calls of a session, from arrays.

use edbatch::graph::{Kind, Network};
use edbatch::runtime::try_memory;
use edbatch::{Handle, SessionCalls, SessionError};
use pyo3::prelude::*;

use crate::arrays;
use crate::call_list::operands;
use crate::cell::Cell;
use crate::errors::{self, CallError};

/// Integers of one or two dimensions, with their shape.
type Integers = (Vec<i64>, Vec<usize>);

/// Calls as the session takes them.
pub(super) struct Calls {
    kinds: Vec<Kind>,
    operands: Vec<i64>,
    offsets: Vec<u32>,
}

/// The values of each call of a cell.
enum Counts {
    /// The cell has no ports.
    None,
    /// The same number for each of some calls.
    Equal {
        calls: usize,
        values: usize,
    },
    Offsets(Vec<u32>),
}

impl Calls {
    /// Reads calls of several cells of a network. May run code of Python.
    pub(super) fn of_cells(
        cells: usize,
        kinds: &Bound<'_, PyAny>,
        operands: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let kinds = arrays::integers::<u16, CallError>("kinds", kinds)?;
        if let Some(call) = kinds.iter().position(|&kind| usize::from(kind) >= cells) {
            return Err(CallError::new_err(format!(
                "call {call}: cell {} does not exist: the network has {cells} cells",
                kinds[call]
            )));
        }
        let operands = arrays::integers::<i64, CallError>("operands", operands)?;
        let offsets = arrays::integers::<u32, CallError>("offsets", offsets)?;
        Ok(Self { kinds: kinds.into_iter().map(Kind).collect(), operands, offsets })
    }

    /// Reads calls of one cell. May run code of Python.
    pub(super) fn of_cell(
        cell: &Cell,
        rows: Option<&Bound<'_, PyAny>>,
        values: Option<&Bound<'_, PyAny>>,
        offsets: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let read = |name, array: Option<&_>| {
            array.map(|array| arrays::integer_rows::<CallError>(name, array)).transpose()
        };
        let (rows, values) = (read("rows", rows)?, read("values", values)?);
        let offsets = offsets.map(|offsets| arrays::integers::<u32, CallError>("offsets", offsets));
        let of_rows = count_rows(cell, rows.as_ref())?;
        let counts = Counts::of(cell, values.as_ref(), offsets.transpose()?)?;
        let calls = match (of_rows, counts.calls()) {
            (Some(rows), Some(values)) if rows != values => {
                let got = format!("rows of {rows} calls and values of {values}");
                return Err(invalid(
                    cell,
                    &format!("rows and values of the same calls, got {got}"),
                ));
            }
            (Some(calls), _) | (None, Some(calls)) => calls,
            (None, None) => {
                let advice = "which tell the number of calls: use `call` for a cell without both";
                return Err(invalid(cell, &format!("rows or values, {advice}")));
            }
        };
        let (rows, values) = (rows.unwrap_or_default().0, values.unwrap_or_default().0);
        Self::interleave(cell, calls, (&rows, &values), &counts)
    }

    /// Puts the values of each call after its rows.
    fn interleave(
        cell: &Cell,
        calls: usize,
        (mut rows, values): (&[i64], &[i64]),
        counts: &Counts,
    ) -> PyResult<Self> {
        let all = rows.len() + values.len();
        if u32::try_from(all).is_err() {
            return Err(invalid(cell, &format!("fewer than 2³² operands, got {all}")));
        }
        let bytes = all.saturating_mul(size_of::<i64>()) + calls.saturating_mul(8);
        try_memory(bytes, "the operands of calls").map_err(errors::backend)?;
        let mut made = Self {
            kinds: vec![cell.kind; calls],
            operands: Vec::with_capacity(all),
            offsets: Vec::with_capacity(calls + 1),
        };
        made.offsets.push(0);
        for call in 0..calls {
            let (of_call, rest) = rows.split_at(cell.tables.len());
            rows = rest;
            let values = &values[counts.values(call)];
            if let Some(&number) = values.iter().find(|&&value| is_number(value)) {
                let error = SessionError::NoValue { value: Handle::from_bits(number) };
                let place = format!("call {call}: call of {}", cell.name);
                return Err(errors::session(error, Some(place)));
            }
            made.operands.extend_from_slice(of_call);
            made.operands.extend_from_slice(values);
            made.offsets.push(made.operands.len() as u32);
        }
        Ok(made)
    }

    /// Adds the calls to a session.
    pub(super) fn add_to(
        &self,
        session: &mut edbatch::Session,
    ) -> Result<Vec<Handle>, SessionError> {
        let Self { kinds: cells, operands, offsets } = self;
        let mut handles = Vec::new();
        session.calls(SessionCalls { cells, operands, offsets }, &mut handles)?;
        Ok(handles)
    }

    /// Converts the error of the session. It names the call.
    #[cold]
    pub(super) fn error(&self, network: &Network, error: SessionError) -> PyErr {
        let place = |call: usize| {
            let cell = self.kinds.get(call).and_then(|kind| network.cells().get(kind.index()));
            format!("call {call}: call of {}", cell.map_or("a cell", |cell| cell.name()))
        };
        match &error {
            SessionError::NoValue { value } => {
                // The first call with the number: a row with it would have failed before.
                let at = self.operands.iter().position(|&operand| operand == value.to_bits());
                let call = at.map(|at| self.offsets.partition_point(|&end| end as usize <= at) - 1);
                errors::session(error, call.map(place))
            }
            SessionError::Arrays(_) => errors::session(error, Some("offsets".into())),
            _ => errors::session(error, None),
        }
    }
}

impl Counts {
    fn of(cell: &Cell, values: Option<&Integers>, offsets: Option<Vec<u32>>) -> PyResult<Self> {
        match (values.map(|(_, shape)| shape.as_slice()), offsets) {
            (None, None) if cell.ports.is_empty() => Ok(Self::None),
            (None, _) => Err(invalid(cell, "values for its ports, got None")),
            (Some(&[calls]), None) => Ok(Self::Equal { calls, values: 1 }),
            (Some(&[calls, values]), None) => Ok(Self::Equal { calls, values }),
            (Some(&[all]), Some(offsets)) => {
                let ends = (offsets.first().copied(), offsets.last().map(|&end| end as usize));
                if ends != (Some(0), Some(all)) || !offsets.is_sorted() {
                    let what = format!("offsets that ascend from 0 to {all}, the number of values");
                    return Err(invalid(cell, &what));
                }
                Ok(Self::Offsets(offsets))
            }
            (Some(shape), Some(_)) => {
                let what = format!("one flat array of values with offsets, got shape {shape:?}");
                Err(invalid(cell, &what))
            }
            (Some(shape), None) => {
                Err(invalid(cell, &format!("values of shape [n, k], got {shape:?}")))
            }
        }
    }

    fn calls(&self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Equal { calls, .. } => Some(*calls),
            Self::Offsets(offsets) => Some(offsets.len() - 1),
        }
    }

    /// The range of a call's values in the array of all values.
    fn values(&self, call: usize) -> std::ops::Range<usize> {
        match self {
            Self::None => 0..0,
            Self::Equal { values, .. } => call * values..(call + 1) * values,
            Self::Offsets(offsets) => offsets[call] as usize..offsets[call + 1] as usize,
        }
    }
}

/// Returns the number of calls that an array has rows for, or `None` for a cell without tables.
fn count_rows(cell: &Cell, rows: Option<&Integers>) -> PyResult<Option<usize>> {
    let tables = cell.tables.len();
    match rows.map(|(_, shape)| shape.as_slice()) {
        None if tables == 0 => Ok(None),
        Some(&[calls]) if tables == 1 || calls == 0 => Ok(Some(calls)),
        Some(&[calls, width]) if width == tables => Ok(Some(calls)),
        shape => {
            let got = shape.map_or("None".into(), |shape| format!("shape {shape:?}"));
            let expected = match tables {
                0 => "no rows".into(),
                1 => "rows of shape [n]".into(),
                _ => format!("rows of shape [n, {tables}]"),
            };
            Err(invalid(cell, &format!("{expected}, got {got}")))
        }
    }
}

/// Returns true for a number that the session reads as an earlier call of the same arrays.
fn is_number(value: i64) -> bool {
    u32::try_from(value).is_ok()
}

#[cold]
fn invalid(cell: &Cell, expected: &str) -> PyErr {
    CallError::new_err(format!("add of {}: expected {expected}", cell.name))
}

/// Converts the error of one call.
#[cold]
pub(super) fn call_error(cell: &Cell, values: &[Handle], error: SessionError) -> PyErr {
    let place = match &error {
        SessionError::NoValue { value } => values.iter().position(|other| other == value),
        _ => None,
    };
    // All values from the last port on belong to it.
    let place = place.map(|at| {
        operands::place(cell, cell.tables.len() + at.min(cell.ports.len().saturating_sub(1)))
    });
    errors::session(error, place)
}
