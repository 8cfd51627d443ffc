//! The structs of the header, with its names and layouts.
#![allow(non_camel_case_types, reason = "the names of the header")]

use edbatch::graph::Kind;

use crate::pointers::{Array, Text};

/// The defaults of an engine, or what a caller changed of them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct edbatch_options {
    /// The size of the struct in the caller's program.
    pub size: usize,
    /// Number of threads.
    pub threads: u32,
    /// `EDBATCH_F32`, `EDBATCH_BF16` or `EDBATCH_TF32`.
    pub precision: u32,
    /// The device, or NULL for the CPU.
    pub device: Text,
    /// Bytes of weights and values of one run; 0: no limit.
    pub memory_limit: u64,
    /// Bytes for products of table rows.
    pub fold_tables: u64,
}

impl edbatch_options {
    /// The options that `edbatch_options_init` sets.
    pub(crate) const DEFAULT: Self = Self {
        size: size_of::<Self>(),
        threads: 1,
        precision: 0,
        device: Text::NULL,
        memory_limit: 0,
        fold_tables: 0,
    };
}

/// The calls of one input, as arrays.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct edbatch_calls {
    /// Number of calls.
    pub calls: usize,
    /// The cell of each call.
    pub cells: Array<Kind>,
    /// The operands of all calls.
    pub operands: Array<i32>,
    /// Number of operands.
    pub operand_count: usize,
    /// The start of each call's operands, and the end of the last one's.
    pub offsets: Array<u32>,
    /// Number of values to return.
    pub emits: usize,
    /// The values to return.
    pub emit: Array<i32>,
    /// Number of given values.
    pub gives: usize,
    /// The record of each given value.
    pub give_records: Array<u16>,
    /// The elements of all given values.
    pub give_elements: Array<f32>,
    /// Number of these elements.
    pub give_floats: usize,
}

/// Counts of a session.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct edbatch_session_statistics {
    /// The size of the struct in the caller's program.
    pub size: usize,
    /// Values that are stored now.
    pub stored: u64,
    /// Calls and given values since the last run.
    pub pending: u64,
    /// Bytes of stored values.
    pub stored_bytes: u64,
    /// Bytes held for values.
    pub held_bytes: u64,
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Calls that were computed.
    pub calls: u64,
    /// Runs that computed something.
    pub runs: u64,
    /// Batches of all runs.
    pub batches: u64,
}

impl From<edbatch::SessionStatistics> for edbatch_session_statistics {
    fn from(from: edbatch::SessionStatistics) -> Self {
        Self {
            size: size_of::<Self>(),
            stored: from.stored,
            pending: from.pending,
            stored_bytes: from.stored_bytes,
            held_bytes: from.held_bytes,
            weight_bytes: from.weight_bytes,
            calls: from.calls,
            runs: from.runs,
            batches: from.batches,
        }
    }
}
