//! Gradients that differ from value to value at a port: of maxima, log-sum-exps and attention.
//!
//! A *pair cell* is called for each pair of an adjoint call and a value at the call's last port. It
//! reads the value and the adjoint's row, and computes the whole gradient of the value's fields.

use std::collections::BTreeMap;

use super::{Additions, Fields};
use crate::{
    AdjointOp, Arity, Binary, CellError, Function, Instruction, Kind, Op, PairAdjoint, Port,
    RecordId, Shape, Var,
};

/// A gradient of values at a port, which reads items of type `T`: variables of the adjoint cell, or
/// fields of the adjoint's record. `g` is the gradient of the result y.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pair<T> {
    /// `g` where the field equals y, else 0. `g` is divided by the number of such values.
    Max { field: u16, y: T, g: T },
    /// `g ∘ exp(field - y)`
    LogSumExp { field: u16, y: T, g: T },
    /// With p = exp(score - l) for each head, where l is the log-sum-exp of the scores and d is
    /// `g · y`: `p g` for the values, and p (g · value - d) for the scores.
    Weighted { scores: Scored<T>, values: u16, heads: u32, g: T, l: T, d: T },
}

/// The scores of a weighted sum.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scored<T> {
    /// A field.
    Field(u16),
    /// The inner products of a query and a field.
    Keys { query: T, keys: u16 },
}

impl<T: Copy> Pair<T> {
    pub(super) fn map<U>(&self, mut f: impl FnMut(T) -> U) -> Pair<U> {
        match *self {
            Self::Max { field, y, g } => Pair::Max { field, y: f(y), g: f(g) },
            Self::LogSumExp { field, y, g } => Pair::LogSumExp { field, y: f(y), g: f(g) },
            Self::Weighted { scores, values, heads, g, l, d } => {
                let scores = match scores {
                    Scored::Field(field) => Scored::Field(field),
                    Scored::Keys { query, keys } => Scored::Keys { query: f(query), keys },
                };
                Pair::Weighted { scores, values, heads, g: f(g), l: f(l), d: f(d) }
            }
        }
    }
}

/// Derives the pair cell of an adjoint, and adds it to the network. The pair cell takes over the
/// adjoint's own contributions to the fields whose gradients it computes.
pub(super) fn derive(
    add: &mut Additions<'_>,
    adjoint: Kind,
    pairs: &[Pair<u16>],
    contributions: &mut [Option<u16>],
) -> Result<PairAdjoint, CellError> {
    let value = add.cell.ports()[add.cell.ports().len() - 1].record;
    let row = add.network.cells[adjoint.index()].record;
    let mut cell =
        PairCell { add, records: [value, row], instructions: Vec::new(), terms: BTreeMap::new() };
    for pair in pairs {
        cell.differentiate(pair);
    }
    let mut returned = Fields::default();
    let mut of_fields = vec![None; contributions.len()];
    for (field, terms) in std::mem::take(&mut cell.terms) {
        let own = contributions[usize::from(field)].take().map(|own| cell.input(ROW, own));
        let sum =
            own.into_iter().chain(terms).reduce(|sum, term| cell.push(Binary::Add, &[sum, term]));
        let name = cell.add.network.fields(value).fields[usize::from(field)].name.clone();
        of_fields[usize::from(field)] = Some(returned.push(name, sum.expect("it has a term")));
    }
    let PairCell { add, instructions, .. } = cell;
    let port = |name: &str, record| Port { name: name.into(), record, arity: Arity::One };
    let ports = vec![port("value", value), port("adjoint", row)];
    let cell = add.cell("adjoint of a value", Vec::new(), ports, instructions, returned)?;
    Ok(PairAdjoint { cell, contributions: of_fields })
}

/// The ports of a pair cell.
const VALUE: u16 = 0;
const ROW: u16 = 1;

/// A pair cell that is being derived.
struct PairCell<'a, 'n> {
    add: &'a mut Additions<'n>,
    /// The records at the ports.
    records: [RecordId; 2],
    instructions: Vec<Instruction>,
    /// By field of the value's record, the terms of its gradient.
    terms: BTreeMap<u16, Vec<Var>>,
}

impl PairCell<'_, '_> {
    fn differentiate(&mut self, pair: &Pair<u16>) {
        match *pair {
            Pair::Max { field, y, g } => {
                let (x, y, g) = (self.input(VALUE, field), self.input(ROW, y), self.input(ROW, g));
                // No value is larger than the maximum, so this is 1/2 or 0.
                let half = self.push(AdjointOp::Larger, &[x, y]);
                let is_max = self.push(Op::Scale(2.0), &[half]);
                self.term(field, Binary::Mul, &[g, is_max]);
            }
            Pair::LogSumExp { field, y, g } => {
                let (x, y, g) = (self.input(VALUE, field), self.input(ROW, y), self.input(ROW, g));
                let difference = self.push(Binary::Sub, &[x, y]);
                let share = self.push(Function::Exp, &[difference]);
                self.term(field, Binary::Mul, &[g, share]);
            }
            Pair::Weighted { scores, values, heads, g, l, d } => {
                let g = self.input(ROW, g);
                let (l, d) = (self.input(ROW, l), self.input(ROW, d));
                let keys = match scores {
                    Scored::Field(_) => None,
                    Scored::Keys { query, keys } => {
                        let (query, keys) = (self.input(ROW, query), self.input(VALUE, keys));
                        Some((self.by_heads(query, heads), self.by_heads(keys, heads)))
                    }
                };
                let score = match (scores, keys) {
                    (Scored::Field(field), _) => self.input(VALUE, field),
                    (_, Some((query, keys))) => self.push(Op::Dot, &[query, keys]),
                    (Scored::Keys { .. }, None) => unreachable!("read above"),
                };
                let difference = self.push(Binary::Sub, &[score, l]);
                let p = self.push(Function::Exp, &[difference]);
                let (x, shape) = (self.input(VALUE, values), self.shape(g));
                let (x, g) = (self.by_heads(x, heads), self.by_heads(g, heads));
                let of_value = self.push(Binary::Mul, &[g, p]);
                self.term(values, Op::Reshape(shape), &[of_value]);
                let product = self.push(Op::Dot, &[g, x]);
                let difference = self.push(Binary::Sub, &[product, d]);
                match (scores, keys) {
                    (Scored::Keys { keys: field, .. }, Some((query, _))) => {
                        let of_score = self.push(Binary::Mul, &[p, difference]);
                        let of_keys = self.push(Binary::Mul, &[query, of_score]);
                        let shape = Shape::Vector(self.shape(query).elements() as u32);
                        self.term(field, Op::Reshape(shape), &[of_keys]);
                    }
                    (Scored::Field(field) | Scored::Keys { keys: field, .. }, _) => {
                        self.term(field, Binary::Mul, &[p, difference]);
                    }
                }
            }
        }
    }

    /// Returns a vector as a matrix with a row for each head.
    fn by_heads(&mut self, vector: Var, heads: u32) -> Var {
        let shape = Shape::Matrix(heads, self.shape(vector).elements() as u32 / heads);
        self.push(Op::Reshape(shape), &[vector])
    }

    fn term(&mut self, field: u16, op: impl Into<Op>, operands: &[Var]) {
        let term = self.push(op, operands);
        self.terms.entry(field).or_default().push(term);
    }

    /// Returns a field of the value, or of the adjoint's row.
    fn input(&mut self, port: u16, field: u16) -> Var {
        let record = self.records[usize::from(port)];
        let shape = self.add.network.fields(record).fields[usize::from(field)].shape;
        let op = Op::Input { port, field };
        self.instructions.push(Instruction { op, operands: Vec::new(), shape });
        Var((self.instructions.len() - 1) as u32)
    }

    fn push(&mut self, op: impl Into<Op>, operands: &[Var]) -> Var {
        let op = op.into();
        let shapes: Vec<Shape> = operands.iter().map(|&operand| self.shape(operand)).collect();
        let shape = op.infer(&shapes).expect("derived from a valid operation");
        self.instructions.push(Instruction { op, operands: operands.into(), shape });
        Var((self.instructions.len() - 1) as u32)
    }

    fn shape(&self, var: Var) -> Shape {
        self.instructions[var.index()].shape
    }
}
