//! The gradient of each operation: ḡ is the gradient of the result y, and each operand gets a term.

use super::pair::{Pair, Scored};
use super::{Derivation, Sum};
use crate::{CellError, Instruction, Op, Reduction, Shape, Slope, Var};

impl Derivation<'_> {
    /// Adds a term to the gradient of each operand of a variable whose gradient is `g`.
    pub(super) fn differentiate(&mut self, var: Var, g: Var) -> Result<(), CellError> {
        let Instruction { op, operands, shape } = self.cell.instruction(var);
        let mut operand = operands.iter().copied();
        let mut next = || operand.next().expect("operations have all their operands");
        match *op {
            Op::Input { port, field } | Op::Reduce { port, field, by: Reduction::Sum } => {
                self.contributions.entry((port, field)).or_default().push(g);
            }
            Op::Reduce { port, field, by: Reduction::Mean } => {
                let shared = self.push(Op::Share { port }, &[g]);
                self.contributions.entry((port, field)).or_default().push(shared);
            }
            Op::Lookup { table } => {
                self.rows.insert(table, g);
            }
            Op::Parameter(parameter) => self.sums.push(Sum::Elements { parameter, from: g }),
            Op::Constant(_) => {}
            Op::MatMul => self.product(next(), next(), g),
            Op::Add => operands.iter().for_each(|&operand| self.term(operand, g)),
            Op::Sub => {
                self.term(next(), g);
                self.term_of(next(), Op::Neg, &[g]);
            }
            Op::Mul => {
                let (a, b) = (next(), next());
                for (operand, other) in [(a, b), (b, a)] {
                    if self.needs[operand.index()] {
                        let other = self.value(other);
                        self.term_of(operand, Op::Mul, &[g, other]);
                    }
                }
            }
            Op::Div => {
                let (a, b) = (next(), next());
                let b_value = self.value(b);
                let quotient = self.push(Op::Div, &[g, b_value]);
                self.term(a, quotient);
                if self.needs[b.index()] {
                    let y = self.value(var);
                    let product = self.push(Op::Mul, &[quotient, y]);
                    self.term_of(b, Op::Neg, &[product]);
                }
            }
            Op::Neg => self.term_of(next(), Op::Neg, &[g]),
            Op::Scale(factor) => self.term_of(next(), Op::Scale(factor), &[g]),
            Op::Sigmoid => self.slope(next(), Slope::Sigmoid, var, g),
            Op::Tanh => self.slope(next(), Slope::Tanh, var, g),
            Op::Relu => self.slope(next(), Slope::Relu, var, g),
            Op::Exp => {
                let y = self.value(var);
                self.term_of(next(), Op::Mul, &[g, y]);
            }
            Op::Log => {
                let a = next();
                let value = self.value(a);
                self.term_of(a, Op::Div, &[g, value]);
            }
            Op::Sqrt => {
                let y = self.value(var);
                let twice = self.push(Op::Scale(2.0), &[y]);
                self.term_of(next(), Op::Div, &[g, twice]);
            }
            Op::Erf => {
                let a = next();
                let x = self.value(a);
                let square = self.push(Op::Mul, &[x, x]);
                let negative = self.push(Op::Neg, &[square]);
                let exp = self.push(Op::Exp, &[negative]);
                let slope = self.push(Op::Scale(std::f32::consts::FRAC_2_SQRT_PI), &[exp]);
                self.term_of(a, Op::Mul, &[g, slope]);
            }
            Op::Maximum | Op::Minimum => {
                let (a, b) = (next(), next());
                for (operand, other) in [(a, b), (b, a)] {
                    if self.needs[operand.index()] {
                        let (larger, smaller) = match op {
                            Op::Maximum => (self.value(operand), self.value(other)),
                            _ => (self.value(other), self.value(operand)),
                        };
                        let share = self.push(Op::Larger, &[larger, smaller]);
                        self.term_of(operand, Op::Mul, &[g, share]);
                    }
                }
            }
            Op::Softmax => {
                let y = self.value(var);
                let product = self.push(Op::Mul, &[g, y]);
                let sum = self.push(Op::Fold(per_row(*shape)), &[product]);
                let share = self.push(Op::Mul, &[y, sum]);
                self.term_of(next(), Op::Sub, &[product, share]);
            }
            Op::LogSoftmax => {
                let y = self.value(var);
                let softmax = self.push(Op::Exp, &[y]);
                let sum = self.push(Op::Fold(per_row(*shape)), &[g]);
                let share = self.push(Op::Mul, &[softmax, sum]);
                self.term_of(next(), Op::Sub, &[g, share]);
            }
            Op::LayerNorm(epsilon) => {
                let a = next();
                let x = self.value(a);
                let mean = self.row_mean(x);
                let centred = self.push(Op::Sub, &[x, mean]);
                let centre = self.row_mean(g);
                let g = self.push(Op::Sub, &[g, centre]);
                self.norm(a, centred, epsilon, g);
            }
            Op::RmsNorm(epsilon) => {
                let a = next();
                let x = self.value(a);
                self.norm(a, x, epsilon, g);
            }
            Op::Dot => {
                let (a, b) = (next(), next());
                for (operand, other) in [(a, b), (b, a)] {
                    if self.needs[operand.index()] {
                        let other = self.value(other);
                        self.term_of(operand, Op::Mul, &[other, g]);
                    }
                }
            }
            Op::Reshape(_) => {
                let a = next();
                self.term_of(a, Op::Reshape(self.cell.instruction(a).shape), &[g]);
            }
            Op::Select { table } => {
                let a = next();
                let shape = self.cell.instruction(a).shape;
                let rows = Shape::Vector(shape.rows_and_columns().0 as u32);
                let one_hot = self.push_source(Op::OneHot { table }, rows);
                let is_vector = matches!(shape, Shape::Vector(_));
                self.term_of(a, if is_vector { Op::Mul } else { Op::Outer }, &[one_hot, g]);
            }
            Op::Concat => {
                let mut start = 0;
                for &operand in operands {
                    let rows = super::rows(self.cell.instruction(operand).shape);
                    self.term_of(operand, Op::Slice { start, rows }, &[g]);
                    start += rows;
                }
            }
            Op::Slice { start, .. } => {
                let operand = next();
                if self.needs[operand.index()] {
                    self.terms[operand.index()].slices.push((start, g));
                }
            }
            Op::Transpose => self.term_of(next(), Op::Transpose, &[g]),
            Op::Dropout(_) => unreachable!("cells are stored without dropout"),
            Op::Reduce { port, field, by: Reduction::Max } => {
                let y = self.value(var);
                let ties = self.push(Op::Ties { port, field }, &[y]);
                let g = self.push(Op::Div, &[g, ties]);
                self.pairs.push(Pair::Max { field, y, g });
            }
            Op::Reduce { field, by: Reduction::LogSumExp, .. } => {
                let y = self.value(var);
                self.pairs.push(Pair::LogSumExp { field, y, g });
            }
            Op::Attention { port, keys, values, heads } => {
                let query = next();
                let q = self.value(query);
                let back = self.push(Op::AttentionBack { port, keys, values, heads }, &[q, g]);
                let width = self.shape(q).elements() as u32;
                let mut slice = |start, rows| self.push(Op::Slice { start, rows }, &[back]);
                let (l, d) = (slice(width, heads), slice(width + heads, heads));
                self.term_of(query, Op::Slice { start: 0, rows: width }, &[back]);
                if self.ports[usize::from(port)] {
                    let scores = Scored::Keys { query: q, keys };
                    self.pairs.push(Pair::Weighted { scores, values, heads, g, l, d });
                }
            }
            Op::SoftmaxSum { port, scores, values } => {
                let y = self.value(var);
                let heads = self.last_port[usize::from(scores)].elements() as u32;
                let by_heads = Shape::Matrix(heads, shape.elements() as u32 / heads);
                let of_g = self.push(Op::Reshape(by_heads), &[g]);
                let of_y = self.push(Op::Reshape(by_heads), &[y]);
                let d = self.push(Op::Dot, &[of_g, of_y]);
                let op = Op::Reduce { port, field: scores, by: Reduction::LogSumExp };
                let l = self.push_source(op, Shape::Vector(heads));
                let scores = Scored::Field(scores);
                self.pairs.push(Pair::Weighted { scores, values, heads, g, l, d });
            }
            Op::Larger
            | Op::Ties { .. }
            | Op::AttentionBack { .. }
            | Op::OneHot { .. }
            | Op::Slope(_)
            | Op::Fold(_)
            | Op::Share { .. }
            | Op::Outer => {
                let expected = "an operation that is not only in adjoint cells";
                return Err(CellError::new(self.cell.name(), &op.to_string(), &[*shape], expected));
            }
        }
        Ok(())
    }

    /// Adds a term to a variable's gradient, summed where the variable was broadcast.
    fn term(&mut self, operand: Var, term: Var) {
        if !self.needs[operand.index()] {
            return;
        }
        let shape = self.cell.instruction(operand).shape;
        let is_broadcast = self.shape(term) != shape;
        let term = if is_broadcast { self.push(Op::Fold(shape), &[term]) } else { term };
        self.terms[operand.index()].whole.push(term);
    }

    /// Adds the result of an operation to a variable's gradient, if that is needed.
    fn term_of(&mut self, operand: Var, op: Op, operands: &[Var]) {
        if self.needs[operand.index()] {
            let term = self.push(op, operands);
            self.term(operand, term);
        }
    }

    fn slope(&mut self, operand: Var, slope: Slope, result: Var, g: Var) {
        let y = self.value(result);
        self.term_of(operand, Op::Slope(slope), &[g, y]);
    }

    /// Differentiates y = x / r with r = √(mean x² + ε), by rows: x̄ = (ḡ - y · mean(ḡ ∘ y)) / r.
    fn norm(&mut self, operand: Var, x: Var, epsilon: f32, g: Var) {
        if !self.needs[operand.index()] {
            return;
        }
        let square = self.push(Op::Mul, &[x, x]);
        let variance = self.row_mean(square);
        let epsilon = self.push_source(Op::Constant(epsilon), self.shape(variance));
        let sum = self.push(Op::Add, &[variance, epsilon]);
        let r = self.push(Op::Sqrt, &[sum]);
        let y = self.push(Op::Div, &[x, r]);
        let product = self.push(Op::Mul, &[g, y]);
        let mean = self.row_mean(product);
        let share = self.push(Op::Mul, &[y, mean]);
        let difference = self.push(Op::Sub, &[g, share]);
        self.term_of(operand, Op::Div, &[difference, r]);
    }

    /// Returns the mean of a vector, or of each row of a matrix.
    fn row_mean(&mut self, x: Var) -> Var {
        let shape = self.shape(x);
        let fold = per_row(shape);
        let sum = self.push(Op::Fold(fold), &[x]);
        self.push(Op::Scale((fold.elements() as f64 / shape.elements() as f64) as f32), &[sum])
    }

    /// Differentiates y = a · b.
    fn product(&mut self, a: Var, b: Var, g: Var) {
        let left = self.cell.instruction(a);
        let is_vector = matches!(self.cell.instruction(b).shape, Shape::Vector(_));
        let parameter = |var: Var| match self.cell.instruction(var).op {
            Op::Parameter(id) => Some(id),
            _ => None,
        };
        let transposed = match left.op {
            Op::Transpose if is_vector => parameter(left.operands[0]),
            _ => None,
        };
        if let Some(parameter) = parameter(a) {
            if self.needs[a.index()] {
                let x = self.value(b);
                let (delta, x, pairs) = match self.shape(x) {
                    Shape::Vector(_) => (g, x, 1),
                    Shape::Matrix(_, columns) => {
                        let delta = self.push(Op::Transpose, &[g]);
                        (delta, self.transpose(b), columns)
                    }
                };
                self.sums.push(Sum::Products { parameter, delta, x, pairs });
            }
        } else if let Some(parameter) = transposed {
            if self.needs[a.index()] {
                let delta = self.value(b);
                self.sums.push(Sum::Products { parameter, delta, x: g, pairs: 1 });
            }
        } else if self.needs[a.index()] && is_vector {
            let b = self.value(b);
            self.term_of(a, Op::Outer, &[g, b]);
        } else if self.needs[a.index()] {
            let b = self.transpose(b);
            self.term_of(a, Op::MatMul, &[g, b]);
        }
        if self.needs[b.index()] {
            let a = self.transpose(a);
            self.term_of(b, Op::MatMul, &[a, g]);
        }
    }

    /// Returns the adjoint's variable with the transpose of a forward variable.
    fn transpose(&mut self, var: Var) -> Var {
        let Instruction { op, operands, .. } = self.cell.instruction(var);
        if *op == Op::Transpose {
            return self.value(operands[0]);
        }
        if let Some(&known) = self.transposed.get(&var) {
            return known;
        }
        let value = self.value(var);
        let transposed = self.push(Op::Transpose, &[value]);
        self.transposed.insert(var, transposed);
        transposed
    }
}

/// Returns the shape of one number for a vector, or for each row of a matrix.
fn per_row(shape: Shape) -> Shape {
    match shape {
        Shape::Vector(_) => Shape::Vector(1),
        Shape::Matrix(rows, _) => Shape::Vector(rows),
    }
}
