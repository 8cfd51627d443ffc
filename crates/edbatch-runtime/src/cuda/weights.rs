//! Parameters as a device has them: stacks of products packed, everything else as it is.

use std::collections::BTreeMap;

use edbatch_graph::ParameterId;
use edbatch_layout::{Base, CellStep, PhaseTable, Program};

use crate::Parameters;
use crate::kernels::OutOfMemory;

/// Where each parameter begins, in floats: it follows from the program alone.
///
/// A stack of N weights' rows by K columns is packed `[⌈K / 4⌉][N][4]`, so that threads side by
/// side, which have columns of the product side by side, read fours side by side; tails of K are
/// zero.
#[derive(Debug, Default)]
pub(crate) struct WeightLayout {
    stacks: BTreeMap<Vec<ParameterId>, Stack>,
    plain: BTreeMap<ParameterId, usize>,
    floats: usize,
}

#[derive(Clone, Copy, Debug)]
struct Stack {
    start: usize,
    outputs: usize,
    depth: usize,
}

impl WeightLayout {
    /// Places all that the phases of a program read.
    pub(crate) fn new(program: &Program, table: &PhaseTable) -> Self {
        let mut layout = Self::default();
        for entry in table.entries() {
            let cell = program.part(entry.cell, entry.part).expect("it has phases");
            let tables = program.network()[entry.cell].tables();
            for step in &cell.steps[entry.phase.steps.clone()] {
                if let CellStep::Product { weights, rows, width, .. } = step {
                    layout.stack(weights, *rows as usize, *width as usize);
                }
                for (place, _) in step.reads() {
                    let id = match place.base {
                        Base::Parameter(id) => id,
                        Base::Table(table) => tables[usize::from(table)].parameter,
                        _ => continue,
                    };
                    layout.plain(id, program.network().parameter(id).elements());
                }
            }
        }
        layout
    }

    fn stack(&mut self, weights: &[ParameterId], outputs: usize, depth: usize) {
        if !self.stacks.contains_key(weights) {
            let start = self.take(depth.next_multiple_of(4) * outputs);
            self.stacks.insert(weights.to_vec(), Stack { start, outputs, depth });
        }
    }

    fn plain(&mut self, id: ParameterId, elements: usize) {
        if !self.plain.contains_key(&id) {
            let start = self.take(elements);
            self.plain.insert(id, start);
        }
    }

    /// The next floats, from a multiple of 16 bytes on.
    fn take(&mut self, floats: usize) -> usize {
        let start = self.floats;
        self.floats += floats.next_multiple_of(4);
        start
    }

    /// Where a stack begins.
    pub(crate) fn of_stack(&self, weights: &[ParameterId]) -> usize {
        self.stacks[weights].start
    }

    /// Where a parameter that is read as it is begins.
    pub(crate) fn of_plain(&self, id: ParameterId) -> usize {
        self.plain[&id]
    }

    /// The bits of all floats, for the values of the parameters.
    ///
    /// # Errors
    /// If the system does not give the memory.
    pub(crate) fn packed(&self, parameters: &Parameters) -> Result<Vec<u32>, OutOfMemory> {
        let mut words = Vec::new();
        let reserved = words.try_reserve_exact(self.floats);
        reserved.map_err(|_| OutOfMemory { bytes: 4 * self.floats as u64 })?;
        words.resize(self.floats, 0.0_f32.to_bits());
        for (weights, &Stack { start, outputs, depth }) in &self.stacks {
            let rows = weights.iter().flat_map(|&id| parameters.get(id).chunks_exact(depth));
            for (n, row) in rows.enumerate() {
                for (k, &weight) in row.iter().enumerate() {
                    words[start + (k / 4 * outputs + n) * 4 + k % 4] = weight.to_bits();
                }
            }
        }
        for (&id, &start) in &self.plain {
            let values = parameters.get(id);
            for (word, value) in words[start..].iter_mut().zip(values.iter()) {
                *word = value.to_bits();
            }
        }
        Ok(words)
    }
}
