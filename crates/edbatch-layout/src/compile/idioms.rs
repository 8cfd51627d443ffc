//! Finds operations that need no step of their own, because another operation's step includes them.
//!
//! A sum of products needs no addition: the second product accumulates into the place of the first.
//! The result is bit-identical, because each dot product is summed separately and then added. A
//! concatenation that only matrix products read, as their right factor, is not materialised: these
//! products read its pieces. A matrix product also adds the bias of its rows, and a product of a
//! parameter and a vector begins from its bias.

use edbatch_graph::{Binary, Op, Shape, Var};

use super::equations::{Equations, elements};

/// The role of a variable in another operation's step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Idiom {
    /// The variable has no such role.
    None,
    /// A product that is term `index` of a sum of products.
    Term { sum: Var, index: usize },
    /// A sum of `terms` products.
    Sum { terms: usize },
    /// An addition inside a sum of products.
    PartialSum { sum: Var },
    /// A concatenation that is read in pieces.
    Pieces,
    /// A product that adds element `i` of `bias` to its row `i`.
    Biased { sum: Var, bias: Var },
    /// The sum of a product and its bias.
    BiasedSum,
    /// The transpose of a matrix A that is only multiplied by vectors. Such a product `Aᵀ x` runs
    /// as `xᵀ A`, so the transpose is not materialised.
    Swapped,
}

/// The idiom of each variable.
pub(super) struct Idioms(Vec<Idiom>);

impl Idioms {
    /// No idioms: every operation is a step of its own.
    pub(super) fn none(equations: &Equations<'_>) -> Self {
        Self(vec![Idiom::None; equations.len()])
    }

    pub(super) fn find(equations: &Equations<'_>) -> Self {
        let mut idioms = Self::none(equations);
        idioms.find_sums(equations);
        idioms.find_pieces(equations);
        idioms.find_biases(equations);
        idioms.find_starts(equations);
        idioms.find_transposes(equations);
        idioms
    }

    pub(super) fn of(&self, var: Var) -> Idiom {
        self.0[var.index()]
    }

    /// Finds sums whose terms are all products that no other operation reads.
    fn find_sums(&mut self, equations: &Equations<'_>) {
        for sum in equations.vars() {
            let Some(terms) = terms(equations, sum) else { continue };
            let mut readers = equations.readers(sum).iter();
            let is_partial = readers.any(|&reader| terms_exist(equations, reader));
            if terms.len() < 2 || is_partial {
                continue;
            }
            let mut inner = equations.operands(sum)[0];
            while equations.op(inner) == Op::Binary(Binary::Add) {
                self.0[inner.index()] = Idiom::PartialSum { sum };
                inner = equations.operands(inner)[0];
            }
            self.0[sum.index()] = Idiom::Sum { terms: terms.len() };
            for (index, term) in terms.into_iter().enumerate() {
                self.0[term.index()] = Idiom::Term { sum, index };
            }
        }
    }

    /// Finds concatenations that only matrix products read, as their right factor.
    fn find_pieces(&mut self, equations: &Equations<'_>) {
        for var in equations.vars() {
            let as_right_factor = |&reader: &Var| {
                equations.op(reader) == Op::MatMul
                    && equations.weight(reader).is_none()
                    && equations.operands(reader)[0] != var
            };
            if equations.op(var) == Op::Concat
                && !equations.is_returned(var)
                && equations.readers(var).iter().all(as_right_factor)
            {
                self.0[var.index()] = Idiom::Pieces;
            }
        }
    }

    /// Finds sums of a matrix product and a vector with an element for each row, its bias. No other
    /// operation may read the product.
    fn find_biases(&mut self, equations: &Equations<'_>) {
        for sum in equations.vars() {
            let (Op::Binary(Binary::Add), &[a, b]) = (equations.op(sum), equations.operands(sum))
            else {
                continue;
            };
            for (product, bias) in [(a, b), (b, a)] {
                let (rows, columns) = equations.shape(product).rows_and_columns();
                if equations.op(product) == Op::MatMul
                    && equations.is_private(product)
                    && columns > 1
                    && equations.shape(bias) == Shape::Vector(rows as u32)
                {
                    self.0[product.index()] = Idiom::Biased { sum, bias };
                    self.0[sum.index()] = Idiom::BiasedSum;
                }
            }
        }
    }

    /// Finds sums of a parameter (the bias) and a product of a parameter and a vector. Leaves out
    /// sums that an element-wise operation reads, because its step adds the bias, and sums whose
    /// vector has several products, because these run as one step without a common bias.
    fn find_starts(&mut self, equations: &Equations<'_>) {
        let vector = |product: Var| {
            equations.weight(product).map(|_| elements(equations, equations.operands(product)[1]))
        };
        for sum in equations.vars() {
            let (Op::Binary(Binary::Add), &[a, b]) = (equations.op(sum), equations.operands(sum))
            else {
                continue;
            };
            let is_fused = |&reader: &Var| equations.op(reader).is_elementwise();
            if equations.readers(sum).iter().any(is_fused) {
                continue;
            }
            for (product, bias) in [(a, b), (b, a)] {
                let of_vector = equations.vars().filter(|&var| vector(var) == vector(product));
                if equations.weight(product).is_some()
                    && equations.is_private(product)
                    && equations.parameter(bias).is_some()
                    && equations.shape(bias) == equations.shape(product)
                    && of_vector.count() == 1
                {
                    self.0[product.index()] = Idiom::Biased { sum, bias };
                    self.0[sum.index()] = Idiom::BiasedSum;
                }
            }
        }
    }

    /// Finds transposes that only products with vectors read, as their left factor.
    fn find_transposes(&mut self, equations: &Equations<'_>) {
        for var in equations.vars() {
            let multiplies_a_vector = |&reader: &Var| {
                let is_vector = matches!(equations.shape(reader), Shape::Vector(_));
                equations.op(reader) == Op::MatMul && is_vector
            };
            if equations.op(var) == Op::Transpose
                && !equations.is_given(var)
                && !equations.is_returned(var)
                && equations.readers(var).iter().all(multiplies_a_vector)
            {
                self.0[var.index()] = Idiom::Swapped;
            }
        }
    }
}

fn terms_exist(equations: &Equations<'_>, var: Var) -> bool {
    terms(equations, var).is_some()
}

/// Returns the products whose left-to-right sum is this variable. `None` if it is not a sum of
/// products, or if another operation reads one of them.
fn terms(equations: &Equations<'_>, var: Var) -> Option<Vec<Var>> {
    if equations.weight(var).is_some() {
        return Some(vec![var]);
    }
    let (Op::Binary(Binary::Add), &[left, right]) = (equations.op(var), equations.operands(var))
    else {
        return None;
    };
    let same_shape = equations.shape(left) == equations.shape(right);
    if !same_shape || !equations.is_private(left) || !equations.is_private(right) {
        return None;
    }
    equations.weight(right)?;
    let mut terms = terms(equations, left)?;
    terms.push(right);
    Some(terms)
}
