//! Components: the parts of a problem that share no variable and no batch.
//!
//! A layout of the problem is a concatenation of the components' layouts, because only the
//! variables of a candidate's own component decide if it can be used in place.
//!
//! *Cost*: O(positions · α), expected.

use std::collections::HashMap;

use super::problem::{AlignedBatch, Form, Problem};

/// A component of a problem. It numbers its variables and its batches from 0.
#[derive(Default, Debug)]
pub(super) struct Component {
    /// For each variable, its number in the problem, ascending.
    pub(super) variables: Vec<u32>,
    /// The candidates, batch by batch. The search accepts or copies each of them.
    pub(super) candidates: Vec<Candidate>,
    /// The number of batches.
    pub(super) batches: u32,
    /// For each variable, the batches with a candidate that contains it.
    pub(super) users: Vec<Vec<u32>>,
}

/// An operand with distinct variables, or several equal operands of one batch.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The batch, in the component's numbering.
    pub(super) batch: u32,
    /// The variable of each position, in the component's numbering.
    pub(super) positions: Vec<u32>,
    /// The total weight of the equal operands.
    pub(super) weight: u64,
}

/// Returns the components that have candidates, sorted by their smallest variables.
pub(super) fn components(problem: &Problem) -> Vec<Component> {
    let batches = (0..).zip(&problem.batches);
    let candidates: Vec<Candidate> = batches.flat_map(|(i, batch)| candidates(i, batch)).collect();
    let mut union = Union::new(problem.variables);
    for batch in candidates.chunk_by(|a, b| a.batch == b.batch) {
        let variables = batch.iter().flat_map(|candidate| &candidate.positions);
        variables.for_each(|&variable| union.join(batch[0].positions[0], variable));
    }
    let mut component_of = vec![usize::MAX; problem.variables as usize];
    let mut within = vec![0; problem.variables as usize];
    let mut components: Vec<Component> = Vec::new();
    for variable in 0..problem.variables {
        // The root is the smallest variable of its component, so it comes first.
        let root = union.root(variable);
        if root == variable {
            component_of[variable as usize] = components.len();
            components.push(Component::default());
        }
        let component = component_of[root as usize];
        component_of[variable as usize] = component;
        within[variable as usize] = components[component].variables.len() as u32;
        components[component].variables.push(variable);
    }
    let mut last_batch = vec![None; components.len()];
    for mut candidate in candidates {
        let index = component_of[candidate.positions[0] as usize];
        let component = &mut components[index];
        if last_batch[index] != Some(candidate.batch) {
            last_batch[index] = Some(candidate.batch);
            component.batches += 1;
        }
        candidate.batch = component.batches - 1;
        candidate.positions.iter_mut().for_each(|variable| *variable = within[*variable as usize]);
        component.candidates.push(candidate);
    }
    components.retain(|component| !component.candidates.is_empty());
    components.iter_mut().for_each(Component::find_users);
    components
}

/// Returns the candidates of a batch. `number` is the batch's number in the problem.
fn candidates(number: u32, batch: &AlignedBatch) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut index_of = HashMap::new();
    for operand in batch.operands.iter().filter(|operand| operand.form() == Form::Distinct) {
        let positions = &operand.positions;
        let index = *index_of.entry(positions).or_insert_with(|| {
            candidates.push(Candidate { batch: number, positions: positions.clone(), weight: 0 });
            candidates.len() - 1
        });
        candidates[index].weight += operand.weight;
    }
    candidates
}

impl Component {
    fn find_users(&mut self) {
        self.users = vec![Vec::new(); self.variables.len()];
        for candidate in &self.candidates {
            for &variable in &candidate.positions {
                let users = &mut self.users[variable as usize];
                if users.last() != Some(&candidate.batch) {
                    users.push(candidate.batch);
                }
            }
        }
    }

    /// Returns the variables of a candidate, one per position.
    pub(super) fn positions_of(&self, candidate: u32) -> &[u32] {
        &self.candidates[candidate as usize].positions
    }

    /// Returns the total number of positions of all candidates.
    pub(super) fn positions(&self) -> u32 {
        self.candidates.iter().map(|candidate| candidate.positions.len() as u32).sum()
    }

    /// Returns the total weight of all candidates.
    pub(super) fn weight(&self) -> u64 {
        self.candidates.iter().map(|candidate| candidate.weight).sum()
    }
}

/// Disjoint sets of variables; the root of a set is its smallest variable.
struct Union(Vec<u32>);

impl Union {
    fn new(variables: u32) -> Self {
        Self((0..variables).collect())
    }

    fn root(&mut self, mut variable: u32) -> u32 {
        while self.0[variable as usize] != variable {
            let above = self.0[variable as usize];
            self.0[variable as usize] = self.0[above as usize];
            variable = above;
        }
        variable
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}
