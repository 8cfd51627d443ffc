//! Cells whose operations run in batches, a kernel for each.
//!
//! A product of a parameter and a vector reads the vector where it lies; those of a batch that read
//! one vector and write side by side are one product, if their weights lie side by side too. What
//! an element-wise batch reads and writes of the cell's own results has to lie side by side, in the
//! order of the batch; what does not is copied by explicit steps.
//!
//! Two layouts serve the same batches: results as they come, batch by batch, and parameters as they
//! are declared, which is what a system without a planner has; and the order that the paper's
//! Alg. 2 finds for all operands of all batches, the parameters among them.
//!
//! *Source*: section 3 of the paper. *Cost*: that of [`aligned::plan`].

use edbatch_graph::{Op, Var};

use super::Compiled;
use super::emit::emit;
use super::equations::Equations;
use super::idioms::Idioms;
use super::place::{SEARCH, place_blocks};
use super::stack::{Group, Stack, elements};
use crate::aligned::{self, Fate, Layout, OperandId};
use crate::inner_problem::InnerProblem;

/// Results batch by batch, parameters as they are declared.
pub(super) fn in_order(equations: &Equations<'_>, batches: &[Vec<Var>]) -> Compiled {
    let groups = groups(equations, batches, Weights::Declared);
    let free =
        |batch: &Vec<Var>| batch.iter().copied().filter(|&var| equations.is_free(var)).collect();
    let blocks: Vec<Vec<Var>> = batches.iter().map(free).collect();
    let places = place_blocks(equations, &groups, &blocks);
    emit(equations, &Idioms::none(equations), &groups, places)
}

/// In the order of Alg. 2.
pub(super) fn aligned(equations: &Equations<'_>, batches: &[Vec<Var>]) -> Compiled {
    let groups = groups(equations, batches, Weights::Planned);
    let inner = problem(equations, batches, &groups);
    let layout = aligned::plan(&inner.problem, SEARCH);
    let places = place_blocks(equations, &groups, &blocks(equations, &inner, &layout));
    emit(equations, &Idioms::none(equations), &groups, places)
}

/// How the weights of products lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// One after the other as they are declared.
    Declared,
    /// As the results of their products do.
    Planned,
}

/// The groups of batches: products by their vectors, and one by one what is neither a product of a
/// parameter nor element-wise.
fn groups(equations: &Equations<'_>, batches: &[Vec<Var>], weights: Weights) -> Vec<Group> {
    let is_made = |var: &Var| matches!(equations.op(*var), Op::Reduce { .. } | Op::Constant(_));
    let mut groups: Vec<Group> = equations.vars().filter(is_made).map(Group::Other).collect();
    for batch in batches {
        if equations.op(batch[0]).is_elementwise() {
            for &var in batch {
                let narrow = equations
                    .operands(var)
                    .iter()
                    .filter(|&&operand| equations.width(operand) != equations.width(var));
                for &operand in narrow {
                    let expand = Group::Expand(operand, equations.shape(var));
                    if !groups.contains(&expand) {
                        groups.push(expand);
                    }
                }
            }
            groups.push(Group::Batch(batch.clone()));
            continue;
        }
        let mut stacks: Vec<Stack> = Vec::new();
        for &var in batch {
            if equations.weight(var).is_none() {
                groups.push(Group::Other(var));
                continue;
            }
            match stacks.iter_mut().find(|stack| joins(equations, stack, var, weights)) {
                Some(stack) => stack.products.push(var),
                None => stacks.push(Stack { products: vec![var], waiting: vec![] }),
            }
        }
        if !stacks.is_empty() {
            groups.push(Group::Stacks(stacks));
        }
    }
    groups
}

/// Whether a product can be one with those of a stack: it reads the same vector, and its weight
/// follows theirs.
fn joins(equations: &Equations<'_>, stack: &Stack, var: Var, weights: Weights) -> bool {
    let last = stack.products[stack.products.len() - 1];
    let vector = |var: Var| elements(equations, equations.operands(var)[1]);
    let follows = || match (equations.weight(last), equations.weight(var)) {
        (Some(last), Some(weight)) => weight.0 == last.0 + 1,
        _ => false,
    };
    vector(last) == vector(var) && (weights == Weights::Planned || follows())
}

/// What Alg. 2 is to lay out. An operand weighs what a call would copy of it: the elements, where
/// an element-wise batch reads or writes results of the cell; else next to nothing, as parameters
/// are laid out when they are loaded, and what a cell is given and what a product reads are read
/// where they lie.
fn problem<'a>(
    equations: &Equations<'_>,
    batches: &'a [Vec<Var>],
    groups: &[Group],
) -> InnerProblem<'a> {
    let weight = |operation: Var, vars: &[Var]| {
        let elementwise = equations.op(operation).is_elementwise();
        let copied = elementwise && vars.iter().all(|&var| equations.is_free(var));
        let elements: u32 = vars.iter().map(|&var| equations.width(var)).sum();
        if copied { 4 * u64::from(elements) } else { 1 }
    };
    let mut inner = InnerProblem::new(equations.cell, batches, weight);
    for group in groups {
        if let Group::Stacks(stacks) = group {
            // Side by side, they are one product.
            let several = stacks.iter().filter(|stack| stack.products.len() > 1);
            several.for_each(|stack| inner.want_neighbours(&stack.products));
        }
    }
    inner
}

/// The results that a layout puts side by side because a batch uses them so.
fn blocks(equations: &Equations<'_>, inner: &InnerProblem<'_>, layout: &Layout) -> Vec<Vec<Var>> {
    let mut place_of = vec![0; layout.order.len()];
    for (place, &variable) in layout.order.iter().enumerate() {
        place_of[variable as usize] = place;
    }
    // For each place, whether its variable belongs with the next.
    let mut joined = vec![false; place_of.len()];
    for (id, operand) in inner.problem.operands() {
        let vars: Vec<Var> =
            operand.positions.iter().map(|&variable| inner.vars[variable as usize]).collect();
        let places = operand.positions.iter().map(|&variable| place_of[variable as usize]);
        let (Some(first), Some(last)) = (places.clone().min(), places.max()) else { continue };
        let is_own = vars.iter().all(|&var| equations.is_free(var));
        if layout.fate(id) == Fate::InPlace && is_own && is_used(equations, inner, id) {
            joined[first..last].fill(true);
        }
    }
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    for (&variable, joined) in layout.order.iter().zip(joined) {
        block.push(inner.vars[variable as usize]);
        if !joined {
            if block.len() > 1 {
                blocks.push(std::mem::take(&mut block));
            }
            block.clear();
        }
    }
    blocks
}

/// Whether a kernel gains if an operand lies side by side: that of an element-wise batch, the
/// results of products, and those that want to be neighbours.
fn is_used(equations: &Equations<'_>, inner: &InnerProblem<'_>, id: OperandId) -> bool {
    let Some(positions) = inner.positions.get(id.batch as usize) else { return true };
    let op = equations.op(positions[0]);
    let is_result = id.operand as usize == equations.operands(positions[0]).len();
    op.is_elementwise() || (is_result && equations.weight(positions[0]).is_some())
}
