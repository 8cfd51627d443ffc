//! Components: parts of a problem that share no variable and no batch, and are laid out separately.
//!
//! A layout of the problem is a concatenation of the components' layouts, because only variables of
//! an operand's own component decide whether it is contiguous and aligned.
//!
//! *Cost*: O(positions · α).

use super::problem::{Form, OperandId, Problem};

/// A part of a problem, with its own numbering of variables and batches from 0.
#[derive(Debug)]
pub(super) struct Component {
    /// For each variable, its number in the problem, ascending.
    pub(super) variables: Vec<u32>,
    /// The operands that the search accepts or copies, batch by batch.
    pub(super) elements: Vec<Element>,
    /// The number of batches.
    pub(super) batches: u32,
    /// For each variable, the batches with an operand that contains it.
    pub(super) readers: Vec<Vec<u32>>,
}

/// An operand with distinct variables. Equal operands of a batch are one element.
#[derive(Debug)]
pub(super) struct Element {
    /// The batch, in the component's numbering.
    pub(super) batch: u32,
    /// The variable of each position, in the component's numbering.
    pub(super) positions: Vec<u32>,
    /// The total weight of the equal operands.
    pub(super) weight: u64,
    /// The ids, in the problem, of the equal operands that this element stands for.
    pub(super) occurrences: Vec<OperandId>,
}

/// Returns the components that have elements, sorted by their smallest variables.
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
        // The root of each set is its smallest variable, so it comes first.
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

/// Returns the elements of all batches.
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

    /// Returns the total number of positions of all elements.
    pub(super) fn positions(&self) -> u32 {
        self.elements.iter().map(|element| element.positions.len() as u32).sum()
    }

    /// Returns the total weight of all elements.
    pub(super) fn weight(&self) -> u64 {
        self.elements.iter().map(|element| element.weight).sum()
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
