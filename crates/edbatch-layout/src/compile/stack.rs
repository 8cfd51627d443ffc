//! Groups operations that run together, and orders the groups.
//!
//! Operations run in stages until all have run. A stage runs
//!
//! 1. every ready operation that is neither a product of a parameter and a vector nor element-wise;
//! 2. every ready product of a parameter and a vector, except terms of a sum that must follow an
//!    earlier term; products that read the same vector are stacked into one;
//! 3. the element-wise operations that a later operation of another sort waits for, grouped by
//!    width; or all of them if no other operation waits.
//!
//! *Source*: section 3 of the paper, "batches inside a cell". *Cost*: O(operations²).

mod elementwise;

use std::collections::HashSet;

use edbatch_graph::{Op, Shape, Var};

use super::equations::{Equations, elements};
use super::idioms::{Idiom, Idioms};

/// Operations that run together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Group {
    /// Products of parameters and vectors, one stack for each vector.
    Stacks(Vec<Stack>),
    /// Element-wise operations of one width, each after its operands.
    Elementwise(Vec<Var>),
    /// Independent element-wise operations with the same name and width.
    Batch(Vec<Var>),
    /// A tensor that is broadcast to the shape of an element-wise operation.
    Expand(Var, Shape),
    /// Any other operation.
    Other(Var),
}

/// Products of parameters and one vector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Stack {
    pub(super) products: Vec<Var>,
    /// Products that are ready, but must be added to a sum after an earlier term.
    pub(super) waiting: Vec<Var>,
}

/// Makes a group of each operation, in the order of their declaration.
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

/// Groups operations in stages.
pub(super) fn stack(equations: &Equations<'_>, idioms: &Idioms) -> Vec<Group> {
    let mut order = Order::new(equations, idioms);
    while !order.ready.iter().all(|&ready| ready) {
        let before = order.groups.len();
        order.run_others();
        order.run_products();
        order.run_elementwise();
        assert!(before != order.groups.len(), "operands precede their readers");
    }
    order.groups
}

/// The groups so far, and the operations that have run.
struct Order<'a> {
    equations: &'a Equations<'a>,
    idioms: &'a Idioms,
    groups: Vec<Group>,
    /// For each variable: true if it can be read.
    ready: Vec<bool>,
    /// For each sum of products, the number of its terms that have run.
    terms_run: Vec<usize>,
    expanded: HashSet<(Var, Shape)>,
    /// For each variable: true if it depends on rows of tables and parameters alone.
    from_rows: Vec<bool>,
}

impl<'a> Order<'a> {
    fn new(equations: &'a Equations<'a>, idioms: &'a Idioms) -> Self {
        let mut from_rows: Vec<bool> = Vec::with_capacity(equations.len());
        for var in equations.vars() {
            let mut operands = equations.operands(var).iter();
            let op = equations.op(var);
            let reads_others = op.port().is_some() || matches!(op, Op::Select { .. });
            from_rows.push(!reads_others && operands.all(|operand| from_rows[operand.index()]));
        }
        Self {
            equations,
            idioms,
            groups: Vec::new(),
            ready: equations.vars().map(|var| equations.is_given(var)).collect(),
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
                stacks
                    .iter()
                    .flat_map(|stack| &stack.products)
                    .for_each(|&var| self.mark_product(var));
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

    /// Marks a product as run, and its sum if this was the last term.
    fn mark_product(&mut self, product: Var) {
        self.ready[product.index()] = true;
        let sum = match self.idioms.of(product) {
            Idiom::Term { sum, .. } => sum,
            Idiom::Biased { sum, .. } => return self.ready[sum.index()] = true,
            _ => return,
        };
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

    /// Runs every product that is ready and may run. Products that read the same vector form a
    /// stack.
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
        // The terms that may run depend on the terms of earlier stacks.
        let mut run: Vec<Stack> = Vec::new();
        for (_, Stack { waiting, .. }) in stacks {
            let (products, waiting): (Vec<Var>, Vec<Var>) =
                waiting.into_iter().partition(|&var| self.may_run(var));
            products.iter().for_each(|&var| self.mark_product(var));
            run.push(Stack { products, waiting });
        }
        if run.iter().any(|stack| !stack.products.is_empty()) {
            self.groups.push(Group::Stacks(run));
        }
    }

    /// Returns true unless the product is a term of a sum and must wait for an earlier term.
    fn may_run(&self, product: Var) -> bool {
        let Idiom::Term { sum, index } = self.idioms.of(product) else { return true };
        match (index, self.terms_run[sum.index()]) {
            // The first two terms commute bit by bit; later ones keep their order. The second term
            // also waits for a first term that can be hoisted.
            (1, 0) => !self.waits_for_a_row(sum),
            (0 | 1, _) => true,
            (index, run) => run == index,
        }
    }

    /// Returns true if the first term of a sum is not ready and depends on rows of tables alone.
    fn waits_for_a_row(&self, sum: Var) -> bool {
        let is_first = |&var: &Var| self.idioms.of(var) == Idiom::Term { sum, index: 0 };
        let first = self.equations.vars().find(is_first).expect("a sum has a first term");
        !self.all_ready(first) && self.from_rows[first.index()]
    }
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
        // A term with another reader is computed separately.
        check("x h -> p = w1 x, q = u1 h, i = p + q, c = tanh i | c p", "(p) (q); fused i c");
    }

    #[test]
    fn the_third_term_of_a_sum_waits_for_the_second() {
        check(
            "x h -> p = w1 x, q = u1 h, r = w2 x, s = p + q, i = s + r | i",
            "(p waiting r) (q); (r)",
        );
    }

    #[test]
    fn the_second_term_waits_for_a_first_that_depends_on_a_table_row() {
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
    fn a_matrix_product_adds_its_bias() {
        check("A:x B:y -> P = A B, Q = P + x | Q", "run P");
    }

    #[test]
    fn attention_is_a_group_between_its_query_and_its_readers() {
        check(
            "x many:k:v -> q = w1 x, y = attend q many, z = softmax many, s = y + z | s",
            "run z; (q); fused v3; run y; fused s",
        );
    }

    #[test]
    fn each_operation_is_a_group_without_a_planner() {
        let cell = CellText::parse("x h -> p = w1 x, q = u1 h, i = p + q, c = tanh i | c");
        let groups = one_by_one(&cell.equations());
        assert_eq!(cell.groups(&groups), "(p); (q); fused i; fused c");
    }
}
