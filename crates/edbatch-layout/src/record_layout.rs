//! How a record lies in memory: all fields of one node in one row.

use edbatch_graph::{Network, Record};

/// Rows begin at multiples of this many elements: a cache line of 64 bytes.
pub const LINE: usize = 16;

/// One row per node: its fields one after the other, padded to whole cache lines.
///
/// A row per node, and not an array per field, lets one list of rows serve every field that a
/// consumer reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordLayout {
    /// Where each field begins within the row, in elements.
    pub offsets: Vec<u32>,
    /// Elements of each field.
    pub widths: Vec<u32>,
    /// Elements from one row to the next.
    pub stride: u32,
}

impl RecordLayout {
    /// The layout of a record. Fields begin at cache lines where they fill them.
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

    /// The layouts of all of a network's records, by the records' ids.
    #[must_use]
    pub fn all(network: &Network) -> Vec<Self> {
        network.records().iter().map(Self::new).collect()
    }
}

/// The least multiple of [`LINE`] that is not below `elements`.
#[must_use]
pub fn next_line(elements: usize) -> usize {
    elements.next_multiple_of(LINE)
}
