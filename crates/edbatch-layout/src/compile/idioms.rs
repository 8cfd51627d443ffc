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
        idioms.find_factors(equations);
        idioms.find_biases(equations);
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

    /// Finds concatenations that only matrix products read, as their right factor, and transposes
    /// that only products with vectors read, as their left factor.
    fn find_factors(&mut self, equations: &Equations<'_>) {
        for var in equations.vars().filter(|&var| !equations.is_returned(var)) {
            let as_right_factor = |&reader: &Var| {
                equations.op(reader) == Op::MatMul
                    && equations.weight(reader).is_none()
                    && equations.operands(reader)[0] != var
            };
            let multiplies_a_vector = |&reader: &Var| {
                let is_vector = matches!(equations.shape(reader), Shape::Vector(_));
                equations.op(reader) == Op::MatMul && is_vector
            };
            let mut readers = equations.readers(var).iter();
            self.0[var.index()] = match equations.op(var) {
                Op::Concat if readers.all(as_right_factor) => Idiom::Pieces,
                Op::Transpose if !equations.is_given(var) && readers.all(multiplies_a_vector) => {
                    Idiom::Swapped
                }
                _ => continue,
            };
        }
    }

    /// Finds sums of a product and its bias. No other operation may read the product.
    fn find_biases(&mut self, equations: &Equations<'_>) {
        for sum in equations.vars() {
            let (Op::Binary(Binary::Add), &[a, b]) = (equations.op(sum), equations.operands(sum))
            else {
                continue;
            };
            for (product, bias) in [(a, b), (b, a)] {
                if equations.is_private(product)
                    && (adds_bias(equations, product, bias)
                        || begins(equations, sum, product, bias))
                {
                    self.0[product.index()] = Idiom::Biased { sum, bias };
                    self.0[sum.index()] = Idiom::BiasedSum;
                }
            }
        }
    }
}

/// Returns true for a matrix product and a vector with an element for each of its rows.
fn adds_bias(equations: &Equations<'_>, product: Var, bias: Var) -> bool {
    let (rows, columns) = equations.shape(product).rows_and_columns();
    equations.op(product) == Op::MatMul
        && columns > 1
        && equations.shape(bias) == Shape::Vector(rows as u32)
}

/// Returns true for a sum of a product of a parameter and a vector, and a parameter (the bias).
/// Leaves out sums that an element-wise operation reads, because its step adds the bias, and sums
/// whose vector has several products, because these run as one step without a common bias.
fn begins(equations: &Equations<'_>, sum: Var, product: Var, bias: Var) -> bool {
    let vector = |product: Var| {
        equations.weight(product).map(|_| elements(equations, equations.operands(product)[1]))
    };
    let of_vector = || equations.vars().filter(|&var| vector(var) == vector(product));
    equations.weight(product).is_some()
        && equations.parameter(bias).is_some()
        && equations.shape(bias) == equations.shape(product)
        && !equations.readers(sum).iter().any(|&reader| equations.op(reader).is_elementwise())
        && of_vector().count() == 1
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
