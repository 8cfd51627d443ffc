//! Errors of sessions.

use edbatch_graph::CallError;
use edbatch_models::GiveError;
use edbatch_runtime::BackendError;

use super::Handle;
use crate::RunError;

/// Why a session rejects a request. The session is then as it was.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A call does not fit its cell, or there are too many pending calls.
    #[error("{0}")]
    Call(CallError),
    /// A given value does not fit its record, or there are too many.
    #[error("{0}")]
    Give(GiveError),
    /// Like [`Call`](Self::Call), for one of [several calls](super::Session::calls).
    #[error("call {call}: {error}")]
    CallOf {
        /// The index of the call.
        call: usize,
        /// The reason.
        error: CallError,
    },
    /// A number in [several calls](super::Session::calls) is not the number of a table's row.
    #[error("call {call}: call of {cell}: row {row} does not exist{}", first_row(*row))]
    NoRow {
        /// The index of the call.
        call: usize,
        /// The cell's name.
        cell: String,
        /// The number.
        row: i64,
    },
    /// The session has no such value.
    #[error("{}", no_value(*value))]
    NoValue {
        /// The handle.
        value: Handle,
    },
    /// An initial value cannot be released.
    #[error("value {value} is an initial value of the network, which cannot be released")]
    Initial {
        /// Its handle.
        value: Handle,
    },
    /// A value occurs twice among the values to release.
    #[error("value {value} occurs twice among the values to release")]
    Twice {
        /// Its handle.
        value: Handle,
    },
    /// A value cannot be fetched before it is computed.
    #[error("value {value} is pending: run the session before fetching it")]
    Pending {
        /// Its handle.
        value: Handle,
    },
    /// A number in [several calls](super::Session::calls) is not the number of an earlier one.
    #[error(
        "call {call}: value {number} is not an earlier call: expected a number below {call}, or \
         the handle of a value"
    )]
    Earlier {
        /// The index of the call.
        call: usize,
        /// The number.
        number: u32,
    },
    /// The arrays of [several calls](super::Session::calls) do not fit each other.
    #[error("{0}")]
    Arrays(ArraysError),
    /// The pending values need too much memory, or the backend failed.
    #[error("{_0}{}", advice(_0))]
    Run(RunError),
}

/// Returns what else a user can do, after the advice to make mini-batches smaller.
fn advice(error: &RunError) -> &'static str {
    match error {
        RunError::Memory { weights, limit, .. } if weights < limit => ", or release values",
        RunError::Backend(BackendError::Memory { .. }) => ", or release values",
        _ => "",
    }
}

/// Why the arrays of [`SessionCalls`](super::SessionCalls) do not fit each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArraysError {
    /// There must be one offset more than there are calls.
    #[error("expected {expected} offsets, one more than there are calls, got {got}")]
    Offsets {
        /// The expected number.
        expected: usize,
        /// The number of offsets.
        got: usize,
    },
    /// The offsets must ascend from 0 to the number of operands.
    #[error("expected offsets from 0 to {operands}, the number of operands, got {first} to {last}")]
    Ends {
        /// The number of operands.
        operands: usize,
        /// The first offset.
        first: u32,
        /// The last one.
        last: u32,
    },
    /// An offset is smaller than the one before it.
    #[error("offset {index} is smaller than the one before it")]
    Descending {
        /// The index of the offset.
        index: usize,
    },
}

fn first_row(row: i64) -> &'static str {
    if row < 0 { ": rows begin at 0" } else { "" }
}

fn no_value(value: Handle) -> String {
    match value.to_bits() {
        ..0 => format!("value {value} does not exist: the network has fewer initial values"),
        _ => format!(
            "value {value} does not exist: it was never made, was released or discarded, or it \
             belongs to another session"
        ),
    }
}

impl From<RunError> for SessionError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<BackendError> for SessionError {
    fn from(error: BackendError) -> Self {
        Self::Run(error.into())
    }
}
