//! Gradients of what is read of all values at a port: reductions and attention.

use super::super::Derivation;
use super::super::pair::{Pair, Scored};
use crate::{AdjointOp, Binary, Op, Reduction, Shape, Var};

impl Derivation<'_> {
    /// Differentiates the reduction of a field at a port.
    pub(super) fn reduction(&mut self, at: (u16, u16), by: Reduction, result: Var, g: Var) {
        let (port, field) = at;
        match by {
            Reduction::Sum => self.contributions.entry(at).or_default().push(g),
            Reduction::Mean => {
                let shared = self.push(AdjointOp::Share { port }, &[g]);
                self.contributions.entry(at).or_default().push(shared);
            }
            Reduction::Max => {
                let y = self.value(result);
                let ties = self.push(AdjointOp::Ties { port, field }, &[y]);
                let g = self.push(Binary::Div, &[g, ties]);
                self.pairs.push(Pair::Max { field, y, g });
            }
            Reduction::LogSumExp => {
                let y = self.value(result);
                self.pairs.push(Pair::LogSumExp { field, y, g });
            }
        }
    }

    /// Differentiates attention. `op` computes the gradient of the query.
    pub(super) fn attention(&mut self, op: AdjointOp, query: Var, g: Var) {
        let AdjointOp::AttentionBack { port, keys, values, heads } = op else {
            unreachable!("the gradient of attention")
        };
        let q = self.value(query);
        let back = self.push(op, &[q, g]);
        let width = self.shape(q).elements() as u32;
        let mut slice = |start, rows| self.push(Op::Slice { start, rows }, &[back]);
        let (l, d) = (slice(width, heads), slice(width + heads, heads));
        self.term_of(query, Op::Slice { start: 0, rows: width }, &[back]);
        if self.ports[usize::from(port)] {
            let scores = Scored::Keys { query: q, keys };
            self.pairs.push(Pair::Weighted { scores, values, heads, g, l, d });
        }
    }

    /// Differentiates a weighted sum whose scores are a field.
    pub(super) fn softmax_sum(&mut self, port: u16, scores: u16, values: u16, y: Var, g: Var) {
        let elements = self.cell.instruction(y).shape.elements() as u32;
        let y = self.value(y);
        let heads = self.last_port[usize::from(scores)].elements() as u32;
        let by_heads = Shape::Matrix(heads, elements / heads);
        let of_g = self.push(Op::Reshape(by_heads), &[g]);
        let of_y = self.push(Op::Reshape(by_heads), &[y]);
        let d = self.push(Op::Dot, &[of_g, of_y]);
        let op = Op::Reduce { port, field: scores, by: Reduction::LogSumExp };
        let l = self.push_source(op, Shape::Vector(heads));
        let scores = Scored::Field(scores);
        self.pairs.push(Pair::Weighted { scores, values, heads, g, l, d });
    }
}
