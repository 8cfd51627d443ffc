//! Dropout: a cell is stored without it, and with masks for training.

use std::collections::HashMap;

use crate::cell::Declared;
use crate::network::Declarations;
use crate::{Binary, Cell, Instruction, Network, Op, ParameterId, Shape, Table, Var};

impl Declared {
    /// Returns true if the equations have dropout.
    pub(crate) fn has_dropout(&self) -> bool {
        self.instructions.iter().any(|instruction| is_dropout(instruction.op))
    }

    /// Returns the equations of inference: readers of a dropout read its operand instead.
    pub(crate) fn without_dropout(&self) -> Self {
        self.rewritten(|_, instruction, to| match is_dropout(instruction.op) {
            true => instruction.operands[0],
            false => push(to, instruction),
        })
    }

    /// Rewrites each operation. `rewrite` gets a variable and its operation with new operands,
    /// appends operations, and returns the variable to be read instead.
    fn rewritten(
        &self,
        mut rewrite: impl FnMut(Var, Instruction, &mut Vec<Instruction>) -> Var,
    ) -> Self {
        let (mut instructions, mut new) = (Vec::new(), Vec::<Var>::new());
        for (var, Instruction { op, operands, shape }) in (0..).map(Var).zip(&self.instructions) {
            let operands = operands.iter().map(|operand| new[operand.index()]).collect();
            let instruction = Instruction { op: *op, operands, shape: *shape };
            new.push(rewrite(var, instruction, &mut instructions));
        }
        let outputs = self.outputs.iter().map(|var| new[var.index()]).collect();
        Self { instructions, outputs }
    }
}

/// Appends an operation, and returns its variable.
fn push(to: &mut Vec<Instruction>, instruction: Instruction) -> Var {
    to.push(instruction);
    Var(to.len() as u32 - 1)
}

fn is_dropout(op: Op) -> bool {
    matches!(op, Op::Dropout(_))
}

/// Returns true for a rate of dropout.
pub(crate) fn is_rate(rate: f32) -> bool {
    (0.0..1.0).contains(&rate)
}

/// Describes the expected rate of dropout.
pub(crate) fn expected_rate(got: f32) -> String {
    format!("a rate from 0 to below 1, got {got}")
}

/// A network in which dropout multiplies by masks, for training. Its cells, records, initial values
/// and first parameters have the same numbers as in the original network.
#[derive(Clone, PartialEq, Debug)]
pub struct MaskedNetwork {
    /// The network. A cell with dropout has a further table for each dropout, in the order of
    /// declaration. A call names a row of a mask for each of these tables.
    pub network: Network,
    /// The parameters with masks: the last parameters of the network.
    pub masks: Vec<Mask>,
}

/// A table of masks, with [`ROWS`](Self::ROWS) rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mask {
    /// The probability that an element is 0. All other elements are 1 ÷ (1 − rate).
    pub rate: f32,
    /// The number of elements of a row.
    pub width: u32,
}

impl Mask {
    /// The number of rows of a table.
    pub const ROWS: u32 = 4096;
}

impl Network {
    /// Returns true if a cell has dropout.
    #[must_use]
    pub fn has_dropout(&self) -> bool {
        self.cells.iter().any(|cell| cell.declared.is_some())
    }

    /// Returns the network with dropout of further variables. `rate` returns the rate for each
    /// vector that an operation reads, or 0 for none.
    ///
    /// ```
    /// use edbatch_graph::{Network, Op, Shape};
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("h", Shape::Vector(4))])?;
    /// let leaf = network.cell("leaf", state, |cell| {
    ///     vec![cell.lookup("token", "embed", &[9, 4]).tanh()]
    /// })?;
    /// let dropped = network.with_dropout(|_, operation| match operation.op {
    ///     Op::Lookup { .. } => 0.5,
    ///     _ => 0.0,
    /// });
    /// assert!(dropped[leaf].display(&dropped).to_string().contains("v1 = dropout 0.5 v0 : [4]"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If a rate is not from 0 to below 1.
    #[must_use]
    pub fn with_dropout(&self, mut rate: impl FnMut(&Cell, &Instruction) -> f32) -> Self {
        let mut network = self.clone();
        for (cell, of) in network.cells.iter_mut().zip(&self.cells) {
            let parts = of.to_parts();
            let declared = Declared { instructions: parts.instructions, outputs: parts.outputs };
            let is_read = |var| {
                declared.instructions.iter().any(|instruction| instruction.operands.contains(&var))
            };
            let declared = declared.rewritten(|var, instruction, to| {
                let shape = instruction.shape;
                let new = push(to, instruction);
                if !matches!(shape, Shape::Vector(_)) || !is_read(var) {
                    return new;
                }
                let rate = rate(of, &declared.instructions[var.index()]);
                assert!(is_rate(rate), "{}", expected_rate(rate));
                if rate == 0.0 {
                    return new;
                }
                push(to, Instruction { op: Op::Dropout(rate), operands: vec![new], shape })
            });
            cell.declared = declared.has_dropout().then(|| Box::new(declared));
        }
        network
    }

    /// Returns the network with a lookup of a mask for each dropout. Cells that drop vectors of the
    /// same width at the same rate share a table.
    ///
    /// ```
    /// use edbatch_graph::{Network, Shape};
    ///
    /// let mut network = Network::new();
    /// let state = network.record("state", [("h", Shape::Vector(4))])?;
    /// let leaf = network.cell("leaf", state, |cell| {
    ///     vec![cell.lookup("token", "embed", &[9, 4]).dropout(0.5)]
    /// })?;
    /// assert_eq!(network[leaf].instructions().len(), 1);
    /// let masked = network.masked();
    /// assert_eq!(
    ///     masked.network[leaf].display(&masked.network).to_string(),
    ///     "leaf:\n  \
    ///        v0 = embed[token] : [4]\n  \
    ///        v1 = dropout 0.5 of 4[dropout 0] : [4]\n  \
    ///        v2 = mul v0 v1 : [4]\n  \
    ///        return v2\n"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn masked(&self) -> MaskedNetwork {
        let (mut network, mut masks) = (self.clone(), Vec::new());
        let mut parameters: HashMap<(u32, u32), ParameterId> = HashMap::new();
        for cell in &mut network.cells {
            let Some(declared) = cell.declared.take() else { continue };
            let tables = &mut cell.tables;
            let mut dropouts = 0;
            let with_masks = declared.rewritten(|_, instruction, to| {
                let Op::Dropout(rate) = instruction.op else { return push(to, instruction) };
                let Shape::Vector(width) = instruction.shape else {
                    unreachable!("dropout is of vectors")
                };
                let parameter = *parameters.entry((rate.to_bits(), width)).or_insert_with(|| {
                    masks.push(Mask { rate, width });
                    network.declarations.mask(rate, width)
                });
                let table = tables.len() as u16;
                let (name, rows) = (format!("dropout {dropouts}"), Mask::ROWS);
                tables.push(Table { name, parameter: Some(parameter), rows });
                dropouts += 1;
                let Instruction { operands, shape, .. } = instruction;
                let lookup = Instruction { op: Op::Lookup { table }, operands: vec![], shape };
                let operands = vec![operands[0], push(to, lookup)];
                push(to, Instruction { op: Op::Binary(Binary::Mul), operands, shape })
            });
            (cell.instructions, cell.outputs) = (with_masks.instructions, with_masks.outputs);
        }
        MaskedNetwork { network, masks }
    }
}

impl Declarations {
    /// Declares a table of masks.
    fn mask(&mut self, rate: f32, width: u32) -> ParameterId {
        let mut name = format!("dropout {rate} of {width}");
        while self.parameter_ids.contains_key(&name) {
            name.push('\'');
        }
        let dims = [Mask::ROWS as usize, width as usize];
        self.parameter(&name, &dims).expect("a new name and a small table")
    }
}
