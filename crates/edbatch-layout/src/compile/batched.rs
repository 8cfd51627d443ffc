//! Compiles cells whose operations run in batches, one kernel for each.
//!
//! A product of a parameter and a vector reads the vector in place. The products of a batch that
//! read one vector become a single product if their results and their weights are contiguous. An
//! element-wise batch needs its results, and the operands that the cell computes, contiguous in the
//! order of the batch. Explicit steps copy those that are not. Arguments and returned variables are
//! accessed in place.
//!
//! The same batches run in two layouts. Without a planner, results are stored batch by batch and
//! parameters in the order of their declaration. With the paper's Alg. 2, one order is found for
//! all operands of all batches, including parameters.
//!
//! *Source*: section 3 of the paper. *Cost*: one call of [`aligned::plan`].

use edbatch_graph::Var;

use super::Compiled;
use super::emit::emit;
use super::equations::{Equations, elements};
use super::idioms::Idioms;
use super::place::{SEARCH, place_blocks};
use super::stack::{Group, Stack};
use crate::aligned::{self, Fate, Layout, OperandId};
use crate::cell_plan::Weight;
use crate::inner_problem::InnerProblem;

/// Compiles with results stored batch by batch, and parameters in the order of their declaration.
pub(super) fn in_order(equations: &Equations<'_>, batches: &[Vec<Var>]) -> Compiled {
    let groups = groups(equations, batches, Weights::Declared);
    let free =
        |batch: &Vec<Var>| batch.iter().copied().filter(|&var| equations.is_free(var)).collect();
    let blocks: Vec<Vec<Var>> = batches.iter().map(free).collect();
    let places = place_blocks(equations, &groups, &blocks);
    emit(equations, &Idioms::none(equations), &groups, places)
}

/// Compiles with variables in the order of Alg. 2.
pub(super) fn aligned(equations: &Equations<'_>, batches: &[Vec<Var>]) -> Compiled {
    let groups = groups(equations, batches, Weights::Planned);
    let inner = problem(equations, batches, &groups);
    let layout = aligned::plan(&inner.problem, SEARCH);
    let places = place_blocks(equations, &groups, &blocks(equations, &inner, &layout));
    emit(equations, &Idioms::none(equations), &groups, places)
}

/// The order in which the weights of stacked products are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// The order of their declaration.
    Declared,
    /// The order of the results of their products.
    Planned,
}

/// Makes groups of the batches. Products are grouped by their vectors; each operation that is
/// neither a product of a parameter nor element-wise is a group of its own.
fn groups(equations: &Equations<'_>, batches: &[Vec<Var>], weights: Weights) -> Vec<Group> {
    let is_made = |var: &Var| equations.op(*var).is_source() && !equations.is_given(*var);
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

/// Returns true if a product can join a stack: it reads the stack's vector, and its weight is
/// stored directly after the stack's weights.
fn joins(equations: &Equations<'_>, stack: &Stack, var: Var, weights: Weights) -> bool {
    let last = stack.products[stack.products.len() - 1];
    let vector = |var: Var| elements(equations, equations.operands(var)[1]);
    let follows = || match (equations.weight(last), equations.weight(var)) {
        (Some(Weight::AsIs(last)), Some(Weight::AsIs(weight))) => weight.0 == last.0 + 1,
        _ => false,
    };
    vector(last) == vector(var) && (weights == Weights::Planned || follows())
}

/// Formulates the layout problem for Alg. 2. An operand of an element-wise batch weighs the number
/// of bytes that a call would copy, if a layout may choose the places of all its variables. Other
/// operands weigh 1, because parameters are laid out once at load, and arguments of the cell and
/// vectors of products are read in place.
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
            // Products with contiguous results become one product.
            let several = stacks.iter().filter(|stack| stack.products.len() > 1);
            several.for_each(|stack| inner.want_neighbours(&stack.products));
        }
    }
    inner
}

/// Returns the runs of results that a layout makes contiguous and that a batch uses as a whole.
fn blocks(equations: &Equations<'_>, inner: &InnerProblem<'_>, layout: &Layout) -> Vec<Vec<Var>> {
    let place_of = layout.places();
    // For each place: true if its variable is in the same block as the next.
    let mut joined = vec![false; place_of.len()];
    for (id, operand) in inner.problem.operands() {
        let vars: Vec<Var> =
            operand.positions.iter().map(|&variable| inner.vars[variable as usize]).collect();
        let places = operand.positions.iter().map(|&variable| place_of[variable as usize]);
        let (Some(first), Some(last)) = (places.clone().min(), places.max()) else { continue };
        let is_own = vars.iter().all(|&var| equations.is_free(var));
        if layout.fate(id) == Fate::InPlace && is_own && is_used(equations, inner, id) {
            joined[first as usize..last as usize].fill(true);
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

/// Returns true if a contiguous operand saves steps: an operand or result of an element-wise batch,
/// the results of products, or a stack of products.
fn is_used(equations: &Equations<'_>, inner: &InnerProblem<'_>, id: OperandId) -> bool {
    let Some(positions) = inner.positions.get(id.batch as usize) else { return true };
    let op = equations.op(positions[0]);
    let is_result = id.operand as usize == equations.operands(positions[0]).len();
    op.is_elementwise() || (is_result && equations.weight(positions[0]).is_some())
}
