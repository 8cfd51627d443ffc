//! Products that are not of a parameter and a vector: their right factor in pieces, their bias added.

use edbatch_graph::{Op, Shape};

use super::{Compiler, Var};
use crate::cell_plan::{CellStep, Place};

impl Compiler<'_> {
    /// Finds concatenations that nothing reads but such products, as their right factor.
    pub(super) fn find_pieces(&mut self) {
        for var in self.vars() {
            let as_right = |&user: &Var| {
                self.op(user) == Op::MatMul
                    && self.weight(user).is_none()
                    && self.operands(user)[0] != var
            };
            if self.op(var) == Op::Concat
                && !self.cell.outputs().contains(&var)
                && self.users[var.index()].iter().all(as_right)
            {
                self.in_pieces.insert(var);
            }
        }
    }

    /// Finds sums of a matrix that is a product, which nothing else reads, and an element for each of its rows.
    pub(super) fn find_biases(&mut self) {
        for sum in self.vars() {
            let (Op::Add, &[a, b]) = (self.op(sum), self.operands(sum)) else {
                continue;
            };
            for (product, bias) in [(a, b), (b, a)] {
                let (rows, columns) = self.shape(product).rows_and_columns();
                let private = self.users[product.index()].len() == 1
                    && !self.cell.outputs().contains(&product);
                if self.op(product) == Op::MatMul
                    && private
                    && columns > 1
                    && self.shape(bias) == Shape::Vector(rows as u32)
                {
                    self.biased.insert(product, (sum, bias));
                }
            }
        }
    }

    /// Whether the sum runs with its product.
    pub(super) fn is_biased(&self, sum: Var) -> bool {
        self.operands(sum).iter().any(|operand| self.biased.contains_key(operand))
    }

    /// Whether the bias, if the product has one, can be read.
    pub(super) fn bias_is_ready(&self, product: Var) -> bool {
        self.biased.get(&product).is_none_or(|&(_, bias)| self.is_ready(bias))
    }

    pub(super) fn run_matrix_product(&mut self, product: Var) {
        let &[left, right] = self.operands(product) else {
            unreachable!("a product has two operands")
        };
        let (result, bias) = match self.biased.get(&product) {
            Some(&(sum, bias)) => (sum, Some(bias)),
            None => (product, None),
        };
        let (m, k) = self.shape(left).rows_and_columns();
        let n = self.shape(right).rows_and_columns().1;
        let out = self.place_result(result);
        let mut read = |var: Var| self.apart(self.at(var), self.width(var), &[out.base]);
        let left = read(left);
        let bias = bias.map(&mut read);
        let pieces = if self.in_pieces.contains(&right) { self.operands(right) } else { &[right] };
        let right: Vec<(Place, u32)> = pieces
            .iter()
            .map(|&piece| {
                let rows = self.shape(piece).rows_and_columns().0 as u32;
                (self.apart(self.at(piece), self.width(piece), &[out.base]), rows)
            })
            .collect();
        let (m, k, n) = (m as u32, k as u32, n as u32);
        self.steps.push(CellStep::MatMul { left, right, bias, m, k, n, out });
        self.ready[product.index()] = true;
        self.ready[result.index()] = true;
    }
}
