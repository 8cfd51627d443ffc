//! Parts of a problem that have no variable and no batch in common: each is laid out on its own.
//!
//! A layout of the whole is the layouts of the parts, one after the other: what makes one operand
//! contiguous and aligned concerns the variables of its own part alone. So every search is as small
//! as the part that it searches.
//!
//! *Cost*: O(positions), nearly.

use super::problem::{Form, OperandId, Problem};

/// A part of a problem, with variables and batches numbered from 0.
#[derive(Debug)]
pub(super) struct Component {
    /// The problem's name of each variable, ascending.
    pub(super) variables: Vec<u32>,
    /// What is accepted or given up, batch after batch.
    pub(super) elements: Vec<Element>,
    /// How many batches there are.
    pub(super) batches: u32,
    /// For each variable, the batches that read it.
    pub(super) readers: Vec<Vec<u32>>,
}

/// An operand with distinct variables. The same operand, given several times in a batch, is one
/// element.
#[derive(Debug)]
pub(super) struct Element {
    /// The batch, as the component numbers it.
    pub(super) batch: u32,
    /// The variable of each position, as the component numbers it.
    pub(super) positions: Vec<u32>,
    /// Of all its occurrences.
    pub(super) weight: u64,
    /// What the problem calls it, each time that it occurs.
    pub(super) occurrences: Vec<OperandId>,
}

/// The components of a problem that ask something of the order, by their least variables.
pub(super) fn components(problem: &Problem) -> Vec<Component> {
    let elements = elements(problem);
    let mut union = Union::new(problem.variables);
    for batch in elements.chunk_by(|a, b| a.batch == b.batch) {
        let variables = batch.iter().flat_map(|element| &element.positions);
        variables.for_each(|&variable| union.join(batch[0].positions[0], variable));
    }
    let mut component_of = vec![usize::MAX; problem.variables as usize];
    let mut within = vec![0; problem.variables as usize];
    let mut components: Vec<Component> = Vec::new();
    for variable in 0..problem.variables {
        // The root of each set is its least variable, so that it comes first.
        let root = union.root(variable);
        if root == variable {
            component_of[variable as usize] = components.len();
            components.push(Component::empty());
        }
        let component = component_of[root as usize];
        component_of[variable as usize] = component;
        within[variable as usize] = components[component].variables.len() as u32;
        components[component].variables.push(variable);
    }
    let mut last_batch = vec![None; components.len()];
    for mut element in elements {
        let index = component_of[element.positions[0] as usize];
        let component = &mut components[index];
        if last_batch[index] != Some(element.batch) {
            last_batch[index] = Some(element.batch);
            component.batches += 1;
        }
        element.batch = component.batches - 1;
        element.positions.iter_mut().for_each(|variable| *variable = within[*variable as usize]);
        component.elements.push(element);
    }
    components.retain(|component| !component.elements.is_empty());
    components.iter_mut().for_each(Component::find_readers);
    components
}

/// The distinct operands with distinct variables of all batches.
fn elements(problem: &Problem) -> Vec<Element> {
    let mut elements: Vec<Element> = Vec::new();
    for (batch, operands) in (0..).zip(problem.batches.iter().map(|batch| &batch.operands)) {
        let mut named: Vec<u32> = (0..operands.len() as u32)
            .filter(|&operand| operands[operand as usize].form() == Form::Distinct)
            .collect();
        let positions = |operand: u32| &operands[operand as usize].positions;
        named.sort_by(|&a, &b| positions(a).cmp(positions(b)));
        let first = elements.len();
        for same in named.chunk_by(|&a, &b| positions(a) == positions(b)) {
            elements.push(Element {
                batch,
                positions: positions(same[0]).clone(),
                weight: same.iter().map(|&operand| operands[operand as usize].weight).sum(),
                occurrences: same.iter().map(|&operand| OperandId { batch, operand }).collect(),
            });
        }
        elements[first..].sort_by_key(|element| element.occurrences[0]);
    }
    elements
}

impl Component {
    fn empty() -> Self {
        Self { variables: Vec::new(), elements: Vec::new(), batches: 0, readers: Vec::new() }
    }

    fn find_readers(&mut self) {
        self.readers = vec![Vec::new(); self.variables.len()];
        for element in &self.elements {
            for &variable in &element.positions {
                let readers = &mut self.readers[variable as usize];
                if readers.last() != Some(&element.batch) {
                    readers.push(element.batch);
                }
            }
        }
    }

    /// The positions of all elements.
    pub(super) fn positions(&self) -> u32 {
        self.elements.iter().map(|element| element.positions.len() as u32).sum()
    }

    /// The weight of all elements.
    pub(super) fn weight(&self) -> u64 {
        self.elements.iter().map(|element| element.weight).sum()
    }
}

/// Disjoint sets of variables; the root of a set is its least variable.
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
