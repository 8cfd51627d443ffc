//! The memory layout of records: all fields of a node in one row.

use edbatch_graph::{Network, Record};

/// The number of elements in a cache line of 64 bytes. Rows begin at multiples of it.
pub const LINE: usize = 16;

/// The layout of a node's row: its fields, padded to whole cache lines.
///
/// With a row per node instead of an array per field, one list of rows addresses all fields that a
/// consumer reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordLayout {
    /// The offset of each field in the row, in elements.
    pub offsets: Vec<u32>,
    /// The number of elements of each field.
    pub widths: Vec<u32>,
    /// The distance from one row to the next, in elements.
    pub stride: u32,
}

impl RecordLayout {
    /// Lays out a record. Fields of at least a cache line begin at a cache line.
    #[must_use]
    pub fn new(record: &Record) -> Self {
        let (mut offsets, mut widths, mut end) = (Vec::new(), Vec::new(), 0);
        for field in &record.fields {
            let width = field.shape.elements();
            if width >= LINE {
                end = next_line(end);
            }
            offsets.push(end as u32);
            widths.push(width as u32);
            end += width;
        }
        Self { offsets, widths, stride: next_line(end) as u32 }
    }

    /// Lays out all records of a network, indexed by their ids.
    #[must_use]
    pub fn all(network: &Network) -> Vec<Self> {
        network.records().iter().map(Self::new).collect()
    }
}

/// Rounds up to a multiple of [`LINE`].
#[must_use]
pub fn next_line(elements: usize) -> usize {
    elements.next_multiple_of(LINE)
}
