//! Further operations on the recursive reference, as simple as possible.

use crate::reference::Reference::{self, Leaf, P, Q};
use std::collections::BTreeSet;

/// The reference of a tree, or `None` for the tree without leaves.
pub(crate) type Model = Option<Reference>;

impl Reference {
    /// Replaces each leaf by a tree, or removes it.
    pub(crate) fn map(&self, by: &mut impl FnMut(u32) -> Model) -> Model {
        match self {
            Leaf(leaf) => by(*leaf),
            P(children) => proper(P(children.iter().filter_map(|child| child.map(by)).collect())),
            Q(children) => proper(Q(children.iter().filter_map(|child| child.map(by)).collect())),
        }
    }

    /// Replaces the leaves of a consecutive set by a tree, or removes them.
    pub(crate) fn put(&self, set: &BTreeSet<u32>, by: Model) -> Model {
        let mut by = Some(by);
        self.map_sets(set, &mut |_| by.take().flatten())
    }

    /// Replaces the first part of the set by the result of `replace`, and removes the rest of it.
    fn map_sets(&self, set: &BTreeSet<u32>, replace: &mut impl FnMut(&Self) -> Model) -> Model {
        let leaves = self.leaves();
        if leaves.iter().all(|leaf| set.contains(leaf)) {
            return replace(self);
        }
        let children = match self {
            Leaf(_) => return Some(self.clone()),
            P(children) | Q(children) => children,
        };
        let children = children.iter().filter_map(|child| child.map_sets(set, replace)).collect();
        proper(if matches!(self, P(_)) { P(children) } else { Q(children) })
    }

    /// Adds a leaf at the node whose leaves are `below`.
    pub(crate) fn insert_under(&self, below: &BTreeSet<u32>, new: u32) -> Self {
        let here = self.leaves().into_iter().collect::<BTreeSet<_>>() == *below;
        match self {
            P(children) if here => P([children.clone(), vec![Leaf(new)]].concat()),
            _ if here => P(vec![self.clone(), Leaf(new)]),
            Leaf(_) => self.clone(),
            P(children) => P(children.iter().map(|it| it.insert_under(below, new)).collect()),
            Q(children) => Q(children.iter().map(|it| it.insert_under(below, new)).collect()),
        }
    }

    /// Returns sets by which a new tree can be reduced to make this one.
    pub(crate) fn restrictions(&self) -> Vec<Vec<u32>> {
        match self {
            Leaf(_) => vec![],
            P(children) => {
                let below = children.iter().flat_map(Self::restrictions);
                below.chain([self.leaves()]).collect()
            }
            Q(children) => {
                let below = children.iter().flat_map(Self::restrictions);
                let pair = |two: &[Self]| [two[0].leaves(), two[1].leaves()].concat();
                below.chain(children.windows(2).map(pair)).collect()
            }
        }
    }

    /// Returns true if the tree admits an order of its leaves.
    pub(crate) fn admits(&self, order: &[u32]) -> bool {
        let mut sorted = order.to_vec();
        let mut leaves = self.leaves();
        sorted.sort_unstable();
        leaves.sort_unstable();
        sorted == leaves && self.fits(order)
    }

    fn fits(&self, order: &[u32]) -> bool {
        let place = |leaf: u32| order.iter().position(|&other| other == leaf).expect("a leaf");
        let first = |node: &Self| node.leaves().into_iter().map(place).min().expect("leaves");
        let last = |node: &Self| node.leaves().into_iter().map(place).max().expect("leaves");
        let together = last(self) - first(self) + 1 == self.leaves().len();
        together
            && match self {
                Leaf(_) => true,
                P(children) => children.iter().all(|child| child.fits(order)),
                Q(children) => {
                    let firsts: Vec<usize> = children.iter().map(first).collect();
                    (firsts.is_sorted() || firsts.is_sorted_by(|a, b| a > b))
                        && children.iter().all(|child| child.fits(order))
                }
            }
    }

    /// Returns the number of orders, or `None` from 2^128 on.
    pub(crate) fn count(&self) -> Option<u128> {
        let (here, children) = match self {
            Leaf(_) => return Some(1),
            P(children) => {
                ((1..=children.len() as u128).try_fold(1u128, u128::checked_mul), children)
            }
            Q(children) => (Some(2), children),
        };
        children.iter().try_fold(here?, |product, child| product.checked_mul(child.count()?))
    }

    /// Returns the smallest superset that is consecutive in every order, sorted.
    pub(crate) fn superset(&self, set: &BTreeSet<u32>) -> BTreeSet<u32> {
        let has_some = |child: &&Self| child.leaves().iter().any(|leaf| set.contains(leaf));
        match self {
            Leaf(_) => self.leaves().into_iter().collect(),
            P(children) | Q(children) => {
                let with: Vec<&Self> = children.iter().filter(has_some).collect();
                if let [one] = with.as_slice() {
                    return one.superset(set);
                }
                if matches!(self, P(_)) {
                    return self.leaves().into_iter().collect();
                }
                let first = children.iter().position(|child| has_some(&child)).expect("some");
                let last = children.iter().rposition(|child| has_some(&child)).expect("some");
                children[first..=last].iter().flat_map(Self::leaves).collect()
            }
        }
    }

    /// Returns the tree of the common intervals of some orders, by reducing each of these
    /// intervals.
    pub(crate) fn of_orders(orders: &[Vec<u32>]) -> Self {
        let leaves = orders[0].len();
        let mut tree = Self::new(leaves as u32);
        for begin in 0..leaves {
            for end in begin + 2..=leaves {
                let set: BTreeSet<u32> = orders[0][begin..end].iter().copied().collect();
                let is_together = |order: &Vec<u32>| {
                    let mut places = (0..leaves).filter(|&at| set.contains(&order[at]));
                    let first = places.next().expect("an interval has at least two leaves");
                    places.next_back().expect("an interval has at least two leaves") - first + 1
                        == set.len()
                };
                if orders.iter().all(is_together) {
                    tree =
                        tree.reduce(&orders[0][begin..end]).expect("all orders keep it together");
                }
            }
        }
        tree
    }
}

/// Removes nodes without children, replaces nodes with one child by it, and turns a Q-node with two
/// children into a P-node.
fn proper(node: Reference) -> Model {
    match node {
        P(mut children) | Q(mut children) if children.len() < 2 => children.pop(),
        Q(children) if children.len() == 2 => Some(P(children)),
        node => Some(node),
    }
}

/// All leaves under one P-node.
pub(crate) fn universal(leaves: impl IntoIterator<Item = u32>) -> Model {
    proper(P(leaves.into_iter().map(Leaf).collect()))
}

/// The text of the canonical form.
pub(crate) fn text(model: &Model) -> String {
    model.as_ref().map_or_else(|| "()".to_string(), Reference::text)
}
