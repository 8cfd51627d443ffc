//! Chooses a place for every variable of a cell.
//!
//! Returned results are computed in the output row, and operands of a concatenation inside the
//! concatenation. Ready products that read the same vector form a *stack*. The products of a stack
//! are one step if their results are contiguous, and if either all overwrite their results or all
//! accumulate. Stacks can share results: in a TreeLSTM, the stacks of both children add to i, o and
//! u, but each child has its own forget gate. Only some orders keep the results of every stack
//! together, such as `f_l i o u f_r`; [`aligned::plan`] finds one that does so for all stacks, or
//! for most.
//!
//! *Source*: section 3.2 of the paper. *Cost*: one call of [`aligned::plan`] for each group of
//! stacks.

use std::collections::HashMap;

use edbatch_graph::{Op, Shape, Var};

use super::equations::Equations;
use super::idioms::{Idiom, Idioms};
use super::stack::{Group, Stack};
use crate::aligned::{self, AlignedBatch, Problem, Search};
use crate::cell_plan::{Base, Place};

/// The search effort. A cell has few stacks, and compiling it should take well under a millisecond.
pub(super) const SEARCH: Search = Search { seed: 0, restarts: 4, tests: 64 };

/// The choice of results that share a region of scratch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Regions {
    /// No results share a region; operands of concatenations are copied.
    Declared,
    /// Only the operands of a concatenation share a region.
    Apart,
    /// Like `Apart`, and products that read one vector share a region, in the order of their
    /// declaration.
    ByVector,
    /// Like `Apart`, and products that read one vector or accumulate into each other's results
    /// share a region, in an order that keeps each stack of products together.
    Shared,
}

/// The place of a returned product, or sum of products, that reads a returned vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Returned {
    /// The output. The vector is copied to scratch before the product reads it.
    InPlace,
    /// Scratch. It is copied to the output.
    Copied,
}

/// The places of variables, and the regions of scratch that they need.
pub(super) struct Places {
    place: Vec<Option<Place>>,
    /// The places of broadcast copies, by variable and by shape of the copy.
    expanded: HashMap<(Var, Shape), Place>,
    pub(super) regions: Vec<u32>,
}

/// Places all variables of the groups.
pub(super) fn place(
    equations: &Equations<'_>,
    idioms: &Idioms,
    groups: &[Group],
    regions: Regions,
    returned: Returned,
) -> Places {
    let place = vec![None; equations.len()];
    let mut places = Places { place, expanded: HashMap::new(), regions: Vec::new() };
    places.place_arguments(equations);
    let is_copied = |var| returned == Returned::Copied && multiplies_output(equations, idioms, var);
    places.place_outputs(equations, is_copied);
    if regions != Regions::Declared {
        places.place_concatenations(equations, idioms);
    }
    for group in groups {
        match group {
            Group::Stacks(stacks) => {
                if regions == Regions::Shared {
                    places.place_shared(equations, idioms, stacks);
                }
                for stack in stacks {
                    let targets = stack.products.iter().map(|&var| target(idioms, var)).collect();
                    let unplaced = places.unplaced(targets);
                    match regions {
                        Regions::Apart | Regions::Declared => {
                            unplaced.iter().for_each(|&var| places.place_result(equations, var));
                        }
                        _ => places.place_in_order(equations, &unplaced),
                    }
                }
            }
            Group::Elementwise(run) => {
                run.iter()
                    .filter(|&&var| is_read_later(equations, var, run))
                    .for_each(|&var| places.place_result(equations, var));
            }
            other => places.place_plain(equations, idioms, other),
        }
    }
    places
}

/// Places all variables; the variables of each block are contiguous, in their order.
pub(super) fn place_blocks(
    equations: &Equations<'_>,
    groups: &[Group],
    blocks: &[Vec<Var>],
) -> Places {
    let place = vec![None; equations.len()];
    let mut places = Places { place, expanded: HashMap::new(), regions: Vec::new() };
    let idioms = Idioms::none(equations);
    places.place_arguments(equations);
    blocks.iter().for_each(|block| places.place_in_order(equations, block));
    places.place_outputs(equations, |_| false);
    groups.iter().for_each(|group| places.place_plain(equations, &idioms, group));
    places
}

/// Returns the variable that a product writes: its own, or the sum that it is a term of.
pub(super) fn target(idioms: &Idioms, product: Var) -> Var {
    match idioms.of(product) {
        Idiom::Term { sum, .. } | Idiom::Biased { sum, .. } => sum,
        _ => product,
    }
}

/// Returns true if a variable is a product with a returned vector, or a sum with such a term.
fn multiplies_output(equations: &Equations<'_>, idioms: &Idioms, var: Var) -> bool {
    equations.vars().any(|product| {
        target(idioms, product) == var
            && equations.weight(product).is_some()
            && equations.is_returned(equations.operands(product)[1])
    })
}

/// Returns true if a variable of a run of element-wise operations is read outside the run.
pub(super) fn is_read_later(equations: &Equations<'_>, var: Var, run: &[Var]) -> bool {
    equations.is_returned(var) || equations.readers(var).iter().any(|reader| !run.contains(reader))
}

impl Places {
    pub(super) fn of(&self, var: Var) -> Place {
        self.place[var.index()].expect("a computed variable has a place")
    }

    #[cfg(test)]
    pub(super) fn find(&self, var: Var) -> Option<Place> {
        self.place[var.index()]
    }

    /// Returns the place of an element-wise operation's operand, or of its broadcast copy if it has
    /// fewer elements than the result.
    pub(super) fn of_operand(&self, equations: &Equations<'_>, operand: Var, reader: Var) -> Place {
        let shape = equations.shape(reader);
        let is_narrow = equations.width(operand) != equations.width(reader);
        let expanded = self.expanded.get(&(operand, shape)).filter(|_| is_narrow);
        expanded.copied().unwrap_or_else(|| self.of(operand))
    }

    pub(super) fn of_expanded(&self, var: Var, shape: Shape) -> Place {
        self.expanded[&(var, shape)]
    }

    /// Allocates a region.
    pub(super) fn allocate(&mut self, width: u32) -> Place {
        self.regions.push(width);
        let region = u16::try_from(self.regions.len() - 1).expect("bounded by the program");
        Place { base: Base::Scratch(region), offset: 0 }
    }

    fn place_arguments(&mut self, equations: &Equations<'_>) {
        for var in equations.vars() {
            self.place[var.index()] = match equations.op(var) {
                Op::Input { port, field } => {
                    let offset = equations.field_offset(port, field);
                    Some(Place { base: Base::Port(port), offset })
                }
                Op::Lookup { table } => Some(Place { base: Base::Table(table), offset: 0 }),
                _ => equations
                    .parameter(var)
                    .map(|weight| Place { base: Base::Parameter(weight), offset: 0 }),
            };
        }
    }

    /// Places returned results in the output row. Slices and arguments have places elsewhere, and
    /// are copied to the output row at the end.
    fn place_outputs(&mut self, equations: &Equations<'_>, is_copied: impl Fn(Var) -> bool) {
        for (&var, &offset) in equations.cell.outputs().iter().zip(&equations.output().offsets) {
            let is_own = equations.is_result(var) && !is_copied(var);
            if is_own && self.place[var.index()].is_none() {
                self.place[var.index()] = Some(Place { base: Base::Output, offset });
            }
        }
    }

    /// Places operands of concatenations inside the concatenations, outer ones first.
    fn place_concatenations(&mut self, equations: &Equations<'_>, idioms: &Idioms) {
        for var in equations.vars().rev() {
            if equations.op(var) != Op::Concat || idioms.of(var) == Idiom::Pieces {
                continue;
            }
            self.place_result(equations, var);
            let mut place = self.of(var);
            for &part in equations.operands(var) {
                if equations.is_result(part) && self.place[part.index()].is_none() {
                    self.place[part.index()] = Some(place);
                }
                place.offset += equations.width(part);
            }
        }
    }

    /// Places a result, unless it has a place.
    fn place_result(&mut self, equations: &Equations<'_>, var: Var) {
        if self.place[var.index()].is_none() {
            self.place[var.index()] = Some(self.allocate(equations.width(var)));
        }
    }

    fn place_other(&mut self, equations: &Equations<'_>, idioms: &Idioms, var: Var) {
        if let Some((whole, first)) = equations.viewed(var) {
            let mut place = self.of(whole);
            place.offset += first;
            self.place[var.index()] = Some(place);
        } else if !matches!(idioms.of(var), Idiom::Pieces | Idiom::Swapped) {
            self.place_result(equations, target(idioms, var));
        }
    }

    /// Places the variables of a group that have no place yet, each in its own region.
    fn place_plain(&mut self, equations: &Equations<'_>, idioms: &Idioms, group: &Group) {
        match group {
            Group::Stacks(stacks) => {
                let products = stacks.iter().flat_map(|stack| &stack.products);
                products.for_each(|&var| self.place_result(equations, var));
            }
            Group::Elementwise(vars) | Group::Batch(vars) => {
                vars.iter().for_each(|&var| self.place_result(equations, var));
            }
            &Group::Expand(var, shape) => {
                let place = self.allocate(shape.elements() as u32);
                self.expanded.insert((var, shape), place);
            }
            &Group::Other(var) => self.place_other(equations, idioms, var),
        }
    }

    /// Returns the variables that have no place yet, in the order of their declaration.
    fn unplaced(&self, mut vars: Vec<Var>) -> Vec<Var> {
        vars.retain(|var| self.place[var.index()].is_none());
        vars.sort_unstable();
        vars.dedup();
        vars
    }

    /// Places several results in one region, in this order.
    fn place_in_order(&mut self, equations: &Equations<'_>, vars: &[Var]) {
        if vars.is_empty() {
            return;
        }
        let mut place = self.allocate(vars.iter().map(|&var| equations.width(var)).sum());
        for &var in vars {
            self.place[var.index()] = Some(place);
            place.offset += equations.width(var);
        }
    }

    /// Places the results of stacks, also of products that wait for an earlier term of their sum.
    /// Stacks that share results share a region.
    fn place_shared(&mut self, equations: &Equations<'_>, idioms: &Idioms, stacks: &[Stack]) {
        let mut regions: Vec<Vec<Var>> = Vec::new();
        let mut together: Vec<Vec<u32>> = Vec::new();
        let mut written: Vec<Var> = Vec::new();
        for Stack { products, waiting } in stacks {
            let targets = products.iter().chain(waiting).map(|&var| target(idioms, var));
            let mut targets = self.unplaced(targets.collect());
            if targets.is_empty() {
                continue;
            }
            let (add, set): (Vec<Var>, Vec<Var>) =
                targets.iter().partition(|&target| written.contains(target));
            together.extend([add, set].map(|vars| vars.iter().map(|var| var.0).collect()));
            written.extend(&targets);
            let shares = |region: &mut Vec<Var>| region.iter().any(|var| targets.contains(var));
            for region in regions.extract_if(.., shares).collect::<Vec<_>>() {
                targets.extend(region);
            }
            regions.push(targets);
        }
        let order = order_of(equations.len(), together);
        for mut region in regions {
            region.sort_unstable_by_key(|var| order[var.index()]);
            region.dedup();
            self.place_in_order(equations, &region);
        }
    }
}

/// Returns each variable's index in an order that makes the variables of each set consecutive: for
/// all sets if possible, else for most.
fn order_of(variables: usize, together: Vec<Vec<u32>>) -> Vec<u32> {
    let batches = together.into_iter().filter(|set| set.len() > 1);
    let batches = batches.map(|set| AlignedBatch::uniform([set], 1)).collect();
    aligned::plan(&Problem { variables: variables as u32, batches }, SEARCH).places()
}

#[cfg(test)]
mod tests {
    use super::super::notation::{CellText, regions};
    use super::super::stack::stack;
    use super::*;

    fn check(cell: &str, style: Regions, expected: &str) {
        let cell = CellText::parse(cell);
        let equations = cell.equations();
        let idioms = Idioms::find(&equations);
        let groups = stack(&equations, &idioms);
        let places = place(&equations, &idioms, &groups, style, Returned::InPlace);
        assert_eq!(regions(&cell, &places), expected);
    }

    #[test]
    fn the_stacks_of_both_children_are_contiguous() {
        let node = "l r -> g = wf l, i = wi l + ui r, o = wo l + uo r, e = uf r, \
                    c = sigmoid g * sigmoid e * sigmoid i * sigmoid o | c";
        check(node, Regions::ByVector, "s0: g i o; s1: e; out: c");
        check(node, Regions::Shared, "s0: g o i e; out: c");
    }

    #[test]
    fn operands_of_a_concatenation_are_computed_in_place() {
        check(
            "x y -> p = tanh x, q = tanh y, z = [p q], r = w1 z' | r",
            Regions::Shared,
            "s0: p v6 z q; out: r",
        );
        check("x -> p = tanh x, z = [p p], r = v1 z | r", Regions::Shared, "s0: p z; out: r");
    }

    #[test]
    fn returned_results_are_computed_in_the_output() {
        check("x:c -> h = tanh (w1 x), d = h * c | h d", Regions::Shared, "s0: v3; out: h d");
    }
}
