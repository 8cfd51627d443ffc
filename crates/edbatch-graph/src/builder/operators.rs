//! Arithmetic operators on [`Tensor`]s.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::Tensor;
use crate::{Binary, Op};

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl<'c> $trait for Tensor<'c> {
            type Output = Tensor<'c>;

            fn $method(self, other: Self) -> Self {
                self.cell.apply(Binary::$trait, &[self, other])
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

impl<'c> Neg for Tensor<'c> {
    type Output = Tensor<'c>;

    fn neg(self) -> Self {
        self.cell.apply(Op::Neg, &[self])
    }
}
