//! Nodes sorted by batch: a counting sort.

use std::mem;

use edbatch_graph::NodeId;

/// The nodes of all batches, batch after batch, each in ascending order. Reusable memory.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    /// By batch: how many nodes it has; then, where its next one goes.
    places: Vec<u32>,
    nodes: Vec<NodeId>,
}

impl Buckets {
    /// Sorts so many nodes by their batches.
    pub(crate) fn sort(&mut self, count: usize, batches: u32, batch_of: impl Fn(usize) -> u32) {
        self.places.clear();
        // A batch mostly has a node at least: the largest graph is the last to allocate.
        self.places.reserve(count);
        self.places.resize(batches as usize, 0);
        self.nodes.resize(count, NodeId(0));
        // As slices: a write might alias a Vec's pointer, which is then reloaded each time.
        let (places, nodes) = (self.places.as_mut_slice(), self.nodes.as_mut_slice());
        (0..count).for_each(|node| places[batch_of(node) as usize] += 1);
        let mut start = 0;
        for place in &mut *places {
            start += mem::replace(place, start);
        }
        for node in 0..count {
            let place = &mut places[batch_of(node) as usize];
            nodes[*place as usize] = NodeId::new(node);
            *place += 1;
        }
    }

    /// The nodes of each batch.
    pub(crate) fn batches(&self) -> impl Iterator<Item = &[NodeId]> {
        let mut start = 0;
        // What was the place of a batch's first node is that behind its last now.
        self.places.iter().map(move |&end| {
            let end = end as usize;
            &self.nodes[mem::replace(&mut start, end)..end]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_sorted_stably_and_batches_may_be_empty() {
        let batch_of = [2, 0, 2, 4, 0, 2];
        let mut buckets = Buckets::default();
        buckets.sort(batch_of.len(), 5, |node| batch_of[node]);
        let got: Vec<Vec<u32>> =
            buckets.batches().map(|nodes| nodes.iter().map(|node| node.0).collect()).collect();
        assert_eq!(got, [vec![1, 4], vec![], vec![0, 2, 5], vec![], vec![3]]);
    }
}
