//! A slow PQ-tree that is easy to verify: a recursive value that each reduction takes apart and
//! rebuilds.

use std::collections::BTreeSet;

#[derive(Clone, Debug)]
pub(crate) enum Reference {
    Leaf(u32),
    P(Vec<Reference>),
    Q(Vec<Reference>),
}

use Reference::{Leaf, P, Q};

impl Reference {
    pub(crate) fn new(leaves: u32) -> Self {
        group((0..leaves).map(Leaf).collect()).expect("at least one leaf")
    }

    /// Returns the tree with `set` consecutive, or `None` if it does not exist.
    pub(crate) fn reduce(&self, set: &[u32]) -> Option<Self> {
        let set: BTreeSet<u32> = set.iter().copied().collect();
        if set.len() < 2 { Some(self.clone()) } else { self.gather(&set) }
    }

    /// Returns the text of the canonical form: children of P-nodes by smallest leaf, Q-nodes with
    /// the smaller end first.
    pub(crate) fn text(&self) -> String {
        self.text_and_smallest().0
    }

    fn text_and_smallest(&self) -> (String, u32) {
        let (open, mut parts, close) = match self {
            Leaf(leaf) => return (leaf.to_string(), *leaf),
            P(children) => {
                ('(', children.iter().map(Self::text_and_smallest).collect::<Vec<_>>(), ')')
            }
            Q(children) => {
                ('[', children.iter().map(Self::text_and_smallest).collect::<Vec<_>>(), ']')
            }
        };
        let smallest = parts.iter().map(|part| part.1).min().expect("children");
        if open == '(' {
            parts.sort_by_key(|part| part.1);
        } else if parts[0].1 > parts[parts.len() - 1].1 {
            parts.reverse();
        }
        let texts: Vec<String> = parts.into_iter().map(|part| part.0).collect();
        (format!("{open}{}{close}", texts.join(" ")), smallest)
    }

    /// The leaves from left to right.
    pub(crate) fn leaves(&self) -> Vec<u32> {
        match self {
            Leaf(leaf) => vec![*leaf],
            P(children) | Q(children) => children.iter().flat_map(Self::leaves).collect(),
        }
    }

    fn state(&self, set: &BTreeSet<u32>) -> State {
        let leaves = self.leaves();
        match leaves.iter().filter(|leaf| set.contains(leaf)).count() {
            0 => State::Empty,
            count if count == leaves.len() => State::Full,
            _ => State::Partial,
        }
    }

    /// Makes the set consecutive below a node that has all of it.
    fn gather(&self, set: &BTreeSet<u32>) -> Option<Self> {
        if self.state(set) == State::Full {
            return Some(self.clone());
        }
        let (P(children) | Q(children)) = self else {
            unreachable!("a leaf that holds the whole set is full")
        };
        let holds_all = |child: &Self| set.iter().all(|leaf| child.leaves().contains(leaf));
        if let Some(place) = children.iter().position(holds_all) {
            let mut children = children.clone();
            children[place] = children[place].gather(set)?;
            return Some(if matches!(self, P(_)) { P(children) } else { Q(children) });
        }
        if let P(children) = self {
            let [mut empty, partial, full] = sort(children, set);
            let mut line = Vec::new();
            match partial.as_slice() {
                [] => return Some(P([empty, group(full).into_iter().collect()].concat())),
                [one] => {
                    line.extend(one.line(set)?);
                    line.extend(group(full));
                }
                [one, two] => {
                    line.extend(one.line(set)?);
                    line.extend(group(full));
                    line.extend(two.line(set)?.into_iter().rev());
                }
                _ => return None,
            }
            empty.push(in_line(line));
            return group(empty);
        }
        // Empty children, a partial one, full ones, a partial one, empty ones.
        let states: Vec<State> = children.iter().map(|child| child.state(set)).collect();
        let first = states.iter().position(|&state| state != State::Empty)?;
        let last = states.iter().rposition(|&state| state != State::Empty)?;
        let mut line = Vec::new();
        for (place, child) in children.iter().enumerate() {
            match states[place] {
                State::Partial if place == first => line.extend(child.line(set)?),
                State::Partial if place == last => line.extend(child.line(set)?.into_iter().rev()),
                State::Partial => return None,
                State::Empty if first < place && place < last => return None,
                _ => line.push(child.clone()),
            }
        }
        Some(in_line(line))
    }

    /// Returns the parts of this node in a line, with the set on the right.
    fn line(&self, set: &BTreeSet<u32>) -> Option<Vec<Self>> {
        if self.state(set) != State::Partial {
            return Some(vec![self.clone()]);
        }
        let mut line = Vec::new();
        match self {
            Leaf(_) => unreachable!("a leaf is not partial"),
            P(children) => {
                let [empty, partial, full] = sort(children, set);
                line.extend(group(empty));
                match partial.as_slice() {
                    [] => {}
                    [one] => line.extend(one.line(set)?),
                    _ => return None,
                }
                line.extend(group(full));
            }
            Q(children) => {
                let mut children = children.clone();
                let rank = |child: &Self| child.state(set) as u32;
                if rank(&children[0]) > rank(&children[children.len() - 1]) {
                    children.reverse();
                }
                let ranks: Vec<u32> = children.iter().map(rank).collect();
                if !ranks.is_sorted()
                    || ranks.iter().filter(|&&rank| rank == State::Partial as u32).count() > 1
                {
                    return None;
                }
                for child in children {
                    line.extend(child.line(set)?);
                }
            }
        }
        Some(line)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Empty,
    Partial,
    Full,
}

/// Returns the empty, the partial and the full ones of some nodes.
fn sort(nodes: &[Reference], set: &BTreeSet<u32>) -> [Vec<Reference>; 3] {
    [State::Empty, State::Partial, State::Full]
        .map(|state| nodes.iter().filter(|node| node.state(set) == state).cloned().collect())
}

fn group(mut nodes: Vec<Reference>) -> Option<Reference> {
    if nodes.len() < 2 { nodes.pop() } else { Some(P(nodes)) }
}

fn in_line(nodes: Vec<Reference>) -> Reference {
    if nodes.len() == 2 { P(nodes) } else { Q(nodes) }
}
