//! The order of results within a region: so that results of one stack lie side by side.
//!
//! Products that read one vector are one step if their results are contiguous and all replace, or all are added to, what
//! is there. Where several stacks share results, as the two children's of a TreeLSTM share those of i, o and u but not the
//! forget gates', not every order keeps each stack together: `f_l i o u f_r` does. Each stack asks for its results to be
//! consecutive; the planner finds an order that serves all of them, or most.
//!
//! *Source*: section 3.2 of the paper. *Cost*: that of [`aligned::plan`], nearly linear where all can be served.

use super::products::Products;
use super::{Compiler, Var};
use crate::aligned::{self, Batch, Problem, Search};

/// Effort for stacks that no order serves all: a cell has few, and compiling it should take well under a millisecond.
const SEARCH: Search = Search { seed: 0, restarts: 4, tests: 64 };

/// Which results share a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Regions {
    /// Those of products that read one vector, in the order of their declaration.
    ByVector,
    /// Those of products that read one vector or add to each other's results, in an order that keeps stacks together.
    Shared,
}

impl Compiler<'_> {
    /// Places the results of stacks that are about to run, one after the other.
    pub(super) fn place_stacks(&mut self, stacks: &[Products]) {
        let mut regions: Vec<Vec<Var>> = Vec::new();
        let mut together: Vec<Vec<u32>> = Vec::new();
        let mut written: Vec<Var> = Vec::new();
        for stack in stacks {
            let targets = stack.iter().map(|&(var, _)| self.target(var));
            let mut targets: Vec<Var> = targets.filter(|var| self.is_unplaced(*var)).collect();
            targets.sort_unstable();
            targets.dedup();
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
        let order = self.order_of(together);
        for mut region in regions {
            region.sort_unstable_by_key(|var| order[var.index()]);
            region.dedup();
            self.place_in_order(&region);
        }
    }

    /// For each variable its place in an order in which sets of variables are consecutive, as many as can be.
    fn order_of(&self, together: Vec<Vec<u32>>) -> Vec<u32> {
        let batches = together.into_iter().filter(|set| set.len() > 1);
        let batches = batches.map(|set| Batch::uniform([set], 1)).collect();
        let variables = self.cell.instructions().len() as u32;
        let layout = aligned::plan(&Problem { variables, batches }, SEARCH);
        let mut place = vec![0; layout.order.len()];
        for (index, &variable) in (0..).zip(&layout.order) {
            place[variable as usize] = index;
        }
        place
    }

    fn is_unplaced(&self, var: Var) -> bool {
        self.place[var.index()].is_none()
    }

    /// One region for all that have no place yet, in this order.
    pub(super) fn place_in_order(&mut self, vars: &[Var]) {
        if vars.is_empty() {
            return;
        }
        let mut place = self.allot(vars.iter().map(|&var| self.width(var)).sum());
        for &var in vars {
            self.place[var.index()] = Some(place);
            place.offset += self.width(var);
        }
    }
}
