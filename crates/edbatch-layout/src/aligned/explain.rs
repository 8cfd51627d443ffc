//! Why an operand is copied, and against whom.

use std::fmt;

use super::accepted::{Accepted, Refusal};
use super::component::{Component, components};
use super::layout::{Fate, Layout};
use super::problem::{Form, OperandId, Problem};

/// Why an operand is copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// What cannot be.
    pub cause: Cause,
    /// The operands used in place that exclude it, together; none of them could be left out.
    pub against: Vec<OperandId>,
}

/// What keeps an operand from being used in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cause {
    /// It has a variable in several positions, but not in all: that is no range of memory.
    Repeats(u32),
    /// Its variables cannot be neighbours.
    Apart,
    /// Its variables can be neighbours; but some of them have to lie together, as the same
    /// positions of another operand do, and cannot.
    Nested,
    /// Its variables can be neighbours, but not in the order of its batch.
    Turned,
}

/// Explains a copy; `None` for an operand that is not copied.
///
/// *Cost*: of an operand that is excluded by k others, k times a test per operand of its part of
/// the problem.
#[must_use]
pub fn why_copied(problem: &Problem, layout: &Layout, id: OperandId) -> Option<Why> {
    if layout.fate(id) != Fate::Copied {
        return None;
    }
    if let Form::Repeats(variable) = problem.operand(id).form() {
        return Some(Why { cause: Cause::Repeats(variable), against: Vec::new() });
    }
    components(problem).iter().find_map(|component| {
        let is_it = |element: &super::component::Element| element.occurrences.contains(&id);
        let copied = component.elements.iter().position(is_it)?;
        exclusion(component, layout, copied as u32)
    })
}

/// A smallest set of elements used in place that exclude `copied`: smallest in that none can be
/// left out.
fn exclusion(component: &Component, layout: &Layout, copied: u32) -> Option<Why> {
    let in_place = |&element: &u32| {
        let element = &component.elements[element as usize];
        layout.fate(element.occurrences[0]) == Fate::InPlace
    };
    let mut others: Vec<u32> = (0..component.elements.len() as u32).filter(in_place).collect();
    let mut against: Vec<u32> = Vec::new();
    loop {
        if let Some(refusal) = refusal(component, &against, copied) {
            let name = |element: u32| component.elements[element as usize].occurrences[0];
            let mut against: Vec<OperandId> = against.into_iter().map(name).collect();
            against.sort_unstable();
            return Some(Why { cause: refusal.into(), against });
        }
        // The first element that, joined to those before it, excludes the copied one is needed;
        // those after it are not.
        let mut accepted = Accepted::none(component);
        for &element in against.iter().chain([&copied]) {
            let addition = accepted.add(&[element]).expect("just tested");
            accepted.keep(addition);
        }
        let refused = others.iter().position(|&element| match accepted.add(&[element]) {
            Ok(addition) => {
                accepted.keep(addition);
                false
            }
            Err(_) => true,
        })?;
        against.push(others[refused]);
        others.truncate(refused);
    }
}

/// Why `element` cannot be joined to `accepted`, if it cannot.
fn refusal(component: &Component, accepted: &[u32], element: u32) -> Option<Refusal> {
    let mut state = Accepted::none(component);
    let addition = state.add(accepted).expect("what is in place can be accepted");
    state.keep(addition);
    match state.add(&[element]) {
        Ok(addition) => {
            state.keep(addition);
            None
        }
        Err(refusal) => Some(refusal),
    }
}

impl From<Refusal> for Cause {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Apart => Self::Apart,
            Refusal::Nested => Self::Nested,
            Refusal::Turned => Self::Turned,
        }
    }
}

/// `cannot lie in the order of its batch, because of batch 0, operand 1`
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Repeats(variable) => write!(f, "has variable {variable} in several positions")?,
            Cause::Apart => f.write_str("cannot be contiguous")?,
            Cause::Nested => {
                f.write_str("cannot have the positions together that its batch wants so")?
            }
            Cause::Turned => f.write_str("cannot lie in the order of its batch")?,
        }
        for (index, id) in self.against.iter().enumerate() {
            write!(f, "{}{id}", if index == 0 { ", because of " } else { "; " })?;
        }
        Ok(())
    }
}
