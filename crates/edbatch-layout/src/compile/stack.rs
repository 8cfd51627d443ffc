//! Which operations run together, and in which order.
//!
//! Operations run in stages, until none is left:
//!
//! 1. everything that is neither a product of a parameter and a vector nor element-wise and can
//!    run, runs;
//! 2. every product of a parameter and a vector that can run, runs, but for terms of a sum whose
//!    turn has not come; those that read the same vector are stacked into one;
//! 3. the element-wise operations on which a later product still waits run, those of one width
//!    together; when nothing waits any more, all the rest does.
//!
//! *Source*: section 3 of the paper, whose batches of operations inside a cell these groups are.
//! *Cost*: O(operations²).

mod elementwise;

use std::collections::HashSet;

use edbatch_graph::{Op, Shape, Var};

use super::equations::Equations;
use super::idioms::{Idiom, Idioms};

/// Operations that run together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Group {
    /// Products of parameters and vectors, a stack for each vector.
    Stacks(Vec<Stack>),
    /// Element-wise operations of one width, each after its operands.
    Elementwise(Vec<Var>),
    /// Element-wise operations of one name and one width, none of which reads another's result.
    Batch(Vec<Var>),
    /// A tensor of fewer elements, repeated to a shape that an element-wise operation wants.
    Expand(Var, Shape),
    /// Any other operation.
    Other(Var),
}

/// Products of parameters and one vector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Stack {
    pub(super) products: Vec<Var>,
    /// Those that could run but are added to a sum later, in its order.
    pub(super) waiting: Vec<Var>,
}

/// A group for each operation, in the order of their declaration.
pub(super) fn one_by_one(equations: &Equations<'_>) -> Vec<Group> {
    let idioms = Idioms::none(equations);
    let mut order = Order::new(equations, &idioms);
    for var in equations.vars() {
        if order.is_ready(var) {
            continue;
        }
        if equations.op(var).is_elementwise() {
            order.expand_operands(var);
            order.run(Group::Elementwise(vec![var]));
        } else if equations.weight(var).is_some() {
            order.run(Group::Stacks(vec![Stack { products: vec![var], waiting: vec![] }]));
        } else {
            order.run(Group::Other(var));
        }
    }
    order.groups
}

/// As few groups as the stages give.
pub(super) fn stack(equations: &Equations<'_>, idioms: &Idioms) -> Vec<Group> {
    let mut order = Order::new(equations, idioms);
    while !order.ready.iter().all(|&ready| ready) {
        let before = order.groups.len();
        order.run_others();
        order.run_products();
        order.run_elementwise();
        assert!(before != order.groups.len(), "operands precede their users");
    }
    order.groups
}

/// What has run, and in which groups.
struct Order<'a> {
    equations: &'a Equations<'a>,
    idioms: &'a Idioms,
    groups: Vec<Group>,
    /// Whether a variable can be read.
    ready: Vec<bool>,
    /// For each sum of products, how many of its terms have run.
    terms_run: Vec<usize>,
    expanded: HashSet<(Var, Shape)>,
    /// For each variable: whether it follows from rows of tables and parameters alone.
    from_rows: Vec<bool>,
}

impl<'a> Order<'a> {
    fn new(equations: &'a Equations<'a>, idioms: &'a Idioms) -> Self {
        let mut from_rows: Vec<bool> = Vec::with_capacity(equations.len());
        for var in equations.vars() {
            let mut operands = equations.operands(var).iter();
            let is_value = matches!(equations.op(var), Op::Input { .. } | Op::Reduce { .. });
            from_rows.push(!is_value && operands.all(|operand| from_rows[operand.index()]));
        }
        Self {
            equations,
            idioms,
            groups: Vec::new(),
            ready: equations.vars().map(|var| is_given(equations.op(var))).collect(),
            terms_run: vec![0; equations.len()],
            expanded: HashSet::new(),
            from_rows,
        }
    }

    fn is_ready(&self, var: Var) -> bool {
        self.ready[var.index()]
    }

    fn all_ready(&self, var: Var) -> bool {
        self.equations.operands(var).iter().all(|&operand| self.is_ready(operand))
    }

    /// Appends a group whose operands can be read.
    fn run(&mut self, group: Group) {
        match &group {
            Group::Stacks(stacks) => {
                stacks.iter().flat_map(|stack| &stack.products).for_each(|&var| self.add(var));
            }
            Group::Elementwise(vars) | Group::Batch(vars) => {
                vars.iter().for_each(|var| self.ready[var.index()] = true)
            }
            Group::Expand(var, shape) => {
                self.expanded.insert((*var, *shape));
            }
            Group::Other(var) => {
                self.ready[var.index()] = true;
                if let Idiom::Biased { sum, .. } = self.idioms.of(*var) {
                    self.ready[sum.index()] = true;
                }
            }
        }
        self.groups.push(group);
    }

    /// Notes that a product has run, and perhaps the sum that it is a term of.
    fn add(&mut self, product: Var) {
        self.ready[product.index()] = true;
        let Idiom::Term { sum, .. } = self.idioms.of(product) else { return };
        self.terms_run[sum.index()] += 1;
        if self.idioms.of(sum) == (Idiom::Sum { terms: self.terms_run[sum.index()] }) {
            for var in self.equations.vars() {
                if var == sum || self.idioms.of(var) == (Idiom::PartialSum { sum }) {
                    self.ready[var.index()] = true;
                }
            }
        }
    }

    fn run_others(&mut self) {
        for var in self.equations.vars() {
            if self.is_ready(var) {
                continue;
            }
            if self.equations.op(var).is_elementwise() {
                if self.idioms.of(var) != Idiom::BiasedSum {
                    self.expand_operands(var);
                }
            } else if self.equations.weight(var).is_none()
                && self.all_ready(var)
                && self.bias_is_ready(var)
            {
                self.run(Group::Other(var));
            }
        }
    }

    fn bias_is_ready(&self, product: Var) -> bool {
        match self.idioms.of(product) {
            Idiom::Biased { bias, .. } => self.is_ready(bias),
            _ => true,
        }
    }

    /// Runs every product that can, those that read the same vector together.
    fn run_products(&mut self) {
        let mut stacks: Vec<(_, Stack)> = Vec::new();
        for var in self.equations.vars() {
            if self.equations.weight(var).is_none() || self.is_ready(var) || !self.all_ready(var) {
                continue;
            }
            let x = elements(self.equations, self.equations.operands(var)[1]);
            match stacks.iter_mut().find(|(other, _)| *other == x) {
                Some((_, stack)) => stack.waiting.push(var),
                None => stacks.push((x, Stack { products: vec![], waiting: vec![var] })),
            }
        }
        // Which terms may run depends on those that run before, stack by stack.
        let mut run: Vec<Stack> = Vec::new();
        for (_, Stack { waiting, .. }) in stacks {
            let (products, waiting): (Vec<Var>, Vec<Var>) =
                waiting.into_iter().partition(|&var| self.may_run(var));
            products.iter().for_each(|&var| self.add(var));
            run.push(Stack { products, waiting });
        }
        if run.iter().any(|stack| !stack.products.is_empty()) {
            self.groups.push(Group::Stacks(run));
        }
    }

    /// Whether it is the product's turn in its sum.
    fn may_run(&self, product: Var) -> bool {
        let Idiom::Term { sum, index } = self.idioms.of(product) else { return true };
        match (index, self.terms_run[sum.index()]) {
            // The first two terms commute, bit by bit; later ones wait for their turn. So does the
            // second if the first can be hoisted with what it follows from.
            (1, 0) => !self.waits_for_a_row(sum),
            (0 | 1, _) => true,
            (index, run) => run == index,
        }
    }

    /// Whether the first term of a sum cannot run yet, and follows from rows of tables alone.
    fn waits_for_a_row(&self, sum: Var) -> bool {
        let is_first = |&var: &Var| self.idioms.of(var) == Idiom::Term { sum, index: 0 };
        let first = self.equations.vars().find(is_first).expect("a sum has a first term");
        !self.all_ready(first) && self.from_rows[first.index()]
    }
}

/// The elements of a vector, as a range of a variable: where two variables are the same elements,
/// so are the ranges.
pub(super) fn elements(equations: &Equations<'_>, mut var: Var) -> (Var, u32, u32) {
    let (width, mut first) = (equations.width(var), 0);
    while let Op::Slice { start, .. } = equations.op(var) {
        var = equations.operands(var)[0];
        first += start * equations.shape(var).rows_and_columns().1 as u32;
    }
    if is_given(equations.op(var)) {
        let is_same = |other: &Var| equations.op(*other) == equations.op(var);
        var = equations.vars().find(is_same).expect("it is the same as itself");
    }
    (var, first, width)
}

/// Whether a variable can be read before anything runs.
fn is_given(op: Op) -> bool {
    matches!(op, Op::Input { .. } | Op::Lookup { .. } | Op::Parameter(_))
}

#[cfg(test)]
mod tests {
    use super::super::notation::CellText;
    use super::*;

    fn check(cell: &str, expected: &str) {
        let cell = CellText::parse(cell);
        let equations = cell.equations();
        let groups = stack(&equations, &Idioms::find(&equations));
        assert_eq!(cell.groups(&groups), expected);
    }

    #[test]
    fn products_of_one_vector_are_stacked() {
        check("x -> i = w1 x, f = w2 x, a = tanh i, c = f * a | c", "(i f); fused a c");
        check("x y -> i = w1 x, f = w2 y, a = tanh i, c = f * a | c", "(i) (f); fused a c");
    }

    #[test]
    fn a_sum_of_products_needs_no_addition() {
        check("x h -> p = w1 x, q = u1 h, i = p + q, c = tanh i | c", "(p) (q); fused c");
        // A term that is read elsewhere is a result of its own.
        check("x h -> p = w1 x, q = u1 h, i = p + q, c = tanh i | c p", "(p) (q); fused i c");
    }

    #[test]
    fn the_third_term_of_a_sum_waits_for_its_turn() {
        check(
            "x h -> p = w1 x, q = u1 h, r = w2 x, s = p + q, i = s + r | i",
            "(p waiting r) (q); (r)",
        );
    }

    #[test]
    fn the_second_term_waits_for_a_first_that_follows_from_a_row() {
        check("table h -> e = tanh t, p = w1 e, q = u1 h, i = p + q | i", "fused e; (p) (q)");
        check("x h -> e = tanh x, p = w1 e, q = u1 h, i = p + q | i", "(q); fused e; (p)");
    }

    #[test]
    fn element_wise_operations_run_late_unless_a_product_waits() {
        check(
            "x h -> r = tanh x, z = sigmoid x, a = r * h, n = u1 a, c = z * n | c",
            "fused r a; (n); fused z c",
        );
    }

    #[test]
    fn a_bias_is_added_by_its_product_of_matrices() {
        check("A:x B:y -> P = A B, Q = P + x | Q", "run P");
    }

    #[test]
    fn without_a_planner_each_operation_is_a_group() {
        let cell = CellText::parse("x h -> p = w1 x, q = u1 h, i = p + q, c = tanh i | c");
        let groups = one_by_one(&cell.equations());
        assert_eq!(cell.groups(&groups), "(p); (q); fused i; fused c");
    }
}
