//! Products of a parameter and a vector: stacked, and summed in place.

use edbatch_graph::{Op, ParameterId, Shape};

use super::regions::Regions;
use super::{Compiler, Var};
use crate::cell_plan::{Base, CellStep, Mode, Place};

/// Products, each with the parameter that is its left factor.
pub(super) type Products = Vec<(Var, ParameterId)>;

impl Compiler<'_> {
    /// Finds sums all of whose terms are products that nothing else reads.
    pub(super) fn find_sums(&mut self) {
        for var in self.vars() {
            let Some(terms) = self.terms(var) else {
                continue;
            };
            let within = self.users[var.index()].iter().any(|&user| self.terms(user).is_some());
            if terms.len() < 2 || within {
                continue;
            }
            let mut inner = self.operands(var)[0];
            while self.op(inner) == Op::Add {
                self.partial_sums.insert(inner, var);
                inner = self.operands(inner)[0];
            }
            for (index, term) in terms.into_iter().enumerate() {
                self.term_of.insert(term, (var, index));
            }
            self.terms_run.insert(var, 0);
        }
    }

    /// The products whose left-to-right sum this variable is, if it is one and nothing reads the
    /// parts.
    pub(super) fn terms(&self, var: Var) -> Option<Vec<Var>> {
        if self.weight(var).is_some() {
            return Some(vec![var]);
        }
        let (Op::Add, &[left, right]) = (self.op(var), self.operands(var)) else {
            return None;
        };
        let private =
            |v: Var| self.users[v.index()].len() == 1 && !self.cell.outputs().contains(&v);
        if self.shape(left) != self.shape(right) || !private(left) || !private(right) {
            return None;
        }
        self.weight(right)?;
        let mut terms = self.terms(left)?;
        terms.push(right);
        Some(terms)
    }

    /// The parameter, if the variable is a parameter times a vector.
    pub(super) fn weight(&self, var: Var) -> Option<ParameterId> {
        let (Op::MatMul, &[left, right]) = (self.op(var), self.operands(var)) else {
            return None;
        };
        match (self.op(left), self.shape(right)) {
            (Op::Parameter(id), Shape::Vector(_)) => Some(id),
            _ => None,
        }
    }

    /// Runs every product that can, those that read the same vector together.
    pub(super) fn run_all_products(&mut self) {
        let mut groups: Vec<(Place, u32, Products)> = Vec::new();
        for var in self.vars() {
            let Some(weight) = self.weight(var) else {
                continue;
            };
            if self.is_ready(var) || !self.all_ready(var) {
                continue;
            }
            let x = self.operands(var)[1];
            let (place, width) = (self.at(x), self.width(x));
            match groups.iter_mut().find(|(p, w, _)| (*p, *w) == (place, width)) {
                Some((_, _, group)) => group.push((var, weight)),
                None => groups.push((place, width, vec![(var, weight)])),
            }
        }
        if self.shared == Regions::Shared {
            let stacks: Vec<Products> = groups.iter().map(|(_, _, group)| group.clone()).collect();
            self.place_stacks(&stacks);
        }
        for (_, _, group) in groups {
            let may_run = |&(var, _): &(Var, ParameterId)| match self.term_of.get(&var) {
                // The first two terms commute, bit by bit; later ones wait for their turn. So does the
                // second if the first can be hoisted with what it follows from.
                Some(&(sum, index)) => match (index, self.terms_run[&sum]) {
                    (1, 0) => !self.waits_for_a_row(sum),
                    (0 | 1, _) => true,
                    (index, run) => run == index,
                },
                None => true,
            };
            let group: Vec<_> = group.into_iter().filter(may_run).collect();
            if !group.is_empty() {
                self.run_products(group);
            }
        }
    }

    /// Whether the first term of a sum cannot run yet, and follows from rows of tables alone.
    fn waits_for_a_row(&self, sum: Var) -> bool {
        let first = |(term, place): (&Var, &(Var, usize))| (*place == (sum, 0)).then_some(*term);
        let first = self.term_of.iter().find_map(first).expect("a sum has a first term");
        !self.all_ready(first) && self.from_rows[first.index()]
    }

    /// Products of several weights and one vector, stacked where their results lie side by side.
    pub(super) fn run_products(&mut self, group: Products) {
        let x = self.operands(group[0].0)[1];
        let (x, width) = (self.at(x), self.width(x));
        let targets: Vec<Var> = group.iter().map(|&(var, _)| self.target(var)).collect();
        self.place_side_by_side(&targets);
        let written: Vec<Base> = targets.iter().map(|&target| self.at(target).base).collect();
        let x = self.apart(x, width, &written);
        let mut results = Vec::with_capacity(group.len());
        for ((var, weight), target) in group.into_iter().zip(targets) {
            let run = self.terms_run.get(&target).copied().unwrap_or(0);
            let mode = if run == 0 { Mode::Set } else { Mode::Add };
            results.push((self.at(target), self.width(var), weight, mode));
            self.ready[var.index()] = true;
            if let Some(run) = self.terms_run.get_mut(&target) {
                *run += 1;
                let terms = self.term_of.values().filter(|(sum, _)| *sum == target).count();
                if *run == terms {
                    self.ready[target.index()] = true;
                    for (partial, _) in self.partial_sums.iter().filter(|(_, sum)| **sum == target)
                    {
                        self.ready[partial.index()] = true;
                    }
                }
            }
        }
        results.sort_by_key(|&(place, ..)| place);
        let first = self.steps.len();
        for (out, rows, weight, mode) in results {
            if let Some(CellStep::Product { weights, rows: n, out: o, mode: m, .. }) =
                self.steps[first..].last_mut()
                && (*m, o.base, o.offset + *n) == (mode, out.base, out.offset)
            {
                weights.push(weight);
                *n += rows;
            } else {
                let weights = vec![weight];
                self.steps.push(CellStep::Product { weights, rows, width, x, out, mode });
            }
        }
    }

    /// Where the result of a product goes: its own variable, or the sum that it is a term of.
    pub(super) fn target(&self, product: Var) -> Var {
        self.term_of.get(&product).map_or(product, |&(sum, _)| sum)
    }

    /// One region for all that have no place yet.
    pub(super) fn place_side_by_side(&mut self, vars: &[Var]) {
        let free = vars.iter().copied().filter(|var| self.place[var.index()].is_none());
        let mut free: Vec<Var> = free.collect();
        free.sort_unstable();
        free.dedup();
        self.place_in_order(&free);
    }
}
