//! What a node reads.

use std::{slice, vec};

use crate::{NodeId, Source, Value};

/// So many are few.
const FEW: usize = 4;

/// The arguments of a node in their order: an iterator over them.
///
/// Made from a slice, or collected from any iterator. How many a node has is hard to predict, and a
/// mispredicted end of a loop costs more than the loop; so the first few are an array, which
/// [`few`](Self::few) hands out as it is.
///
/// ```
/// use edbatch_graph::{Arguments, NodeId};
///
/// let nodes = [NodeId(3), NodeId(3), NodeId(5)];
/// let arguments = Arguments::from(&nodes[..]);
/// assert!(arguments.clone().eq(nodes));
/// assert!(nodes.into_iter().collect::<Arguments<'_>>().eq(nodes));
/// let Ok((few, count)) = arguments.few() else { panic!("three are few") };
/// assert_eq!(few[..count], nodes);
/// ```
#[derive(Clone, Debug)]
pub struct Arguments<'a> {
    few: [NodeId; FEW],
    /// Those of the few that are arguments, and have not been returned yet.
    next: usize,
    count: usize,
    /// All of them, if they are not few.
    many: Many<'a>,
}

#[derive(Clone, Debug)]
enum Many<'a> {
    No,
    Nodes(slice::Iter<'a, NodeId>),
    Values(slice::Iter<'a, Value>),
    Collected(vec::IntoIter<NodeId>),
}

impl<'a> Arguments<'a> {
    /// The arguments and how many they are, if they are few and none has been returned yet; what
    /// stands behind them in the array may be anything.
    ///
    /// # Errors
    /// If they are many: returns them.
    #[inline]
    pub fn few(self) -> Result<([NodeId; FEW], usize), Self> {
        match self {
            Self { few, next: 0, count, many: Many::No } => Ok((few, count)),
            many => Err(many),
        }
    }

    #[inline]
    fn of_few(few: [NodeId; FEW], count: usize) -> Self {
        Self { few, next: 0, count, many: Many::No }
    }

    #[inline]
    fn of_many(many: Many<'a>) -> Self {
        Self { few: [NodeId(0); FEW], next: 0, count: 0, many }
    }

    /// The nodes `start..end` of a list: copied with those that follow, whatever they are.
    #[inline]
    pub(crate) fn of_nodes(list: &'a [NodeId], start: usize, end: usize) -> Self {
        match list.get(start..start + FEW) {
            Some(few) if end - start <= FEW => {
                Self::of_few(few.try_into().expect("they are as many"), end - start)
            }
            _ => Self::from(&list[start..end]),
        }
    }

    /// The nodes among the values `start..end` of a list.
    #[inline]
    pub(crate) fn of_values(list: &'a [Value], start: usize, end: usize) -> Self {
        if let Some(few) = list.get(start..start + FEW)
            && end - start <= FEW
        {
            let few: &[Value; FEW] = few.try_into().expect("they are as many");
            // The bit that marks a given value is mostly in none of the words.
            let all = Value(few.iter().fold(0, |all, value| all | value.0));
            if matches!(all.source(), Source::Node(_)) {
                return Self::of_few(few.map(|value| NodeId(value.0)), end - start);
            }
            let (mut nodes, mut count) = ([NodeId(0); FEW], 0);
            for (place, value) in few.iter().enumerate() {
                nodes[count % FEW] = NodeId(value.0);
                let is_node = matches!(value.source(), Source::Node(_));
                count += usize::from(is_node & (place < end - start));
            }
            return Self::of_few(nodes, count);
        }
        Self::of_many(Many::Values(list[start..end].iter()))
    }
}

impl<'a> From<&'a [NodeId]> for Arguments<'a> {
    #[inline]
    fn from(nodes: &'a [NodeId]) -> Self {
        if nodes.len() > FEW {
            return Self::of_many(Many::Nodes(nodes.iter()));
        }
        let mut few = [NodeId(0); FEW];
        few[..nodes.len()].copy_from_slice(nodes);
        Self::of_few(few, nodes.len())
    }
}

impl FromIterator<NodeId> for Arguments<'_> {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut nodes = nodes.into_iter().fuse();
        let (mut few, mut count) = ([NodeId(0); FEW], 0);
        for (place, node) in few.iter_mut().zip(&mut nodes) {
            *place = node;
            count += 1;
        }
        match nodes.next() {
            None => Self::of_few(few, count),
            Some(another) => {
                let all: Vec<NodeId> = few.into_iter().chain([another]).chain(nodes).collect();
                Self::of_many(Many::Collected(all.into_iter()))
            }
        }
    }
}

impl Iterator for Arguments<'_> {
    type Item = NodeId;

    #[inline]
    fn next(&mut self) -> Option<NodeId> {
        match &mut self.many {
            Many::No if self.next < self.count => {
                self.next += 1;
                Some(self.few[self.next - 1])
            }
            Many::No => None,
            Many::Nodes(nodes) => nodes.next().copied(),
            Many::Values(values) => values.find_map(node),
            Many::Collected(nodes) => nodes.next(),
        }
    }
}

#[inline]
fn node(value: &Value) -> Option<NodeId> {
    match value.source() {
        Source::Node(node) => Some(node),
        Source::Given(_) => None,
    }
}
