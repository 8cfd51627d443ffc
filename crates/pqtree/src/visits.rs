//! Counts the nodes that a reduction visits, in tests of its documented cost.

use core::sync::atomic::{AtomicU64, Ordering};

/// A counter of visited nodes.
#[derive(Debug, Default)]
pub(crate) struct Visits(AtomicU64);

impl Visits {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Clone for Visits {
    fn clone(&self) -> Self {
        Self::default()
    }
}

mod tests {
    use crate::circular::CircularTree;
    use crate::tree::PqTree;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    /// Returns the number of nodes visited to reduce a set, and true if the set was refused.
    fn reduce(tree: &mut PqTree, set: &[u32]) -> (u64, bool) {
        tree.nodes.visits.take();
        let refused = tree.reduce(set).is_err();
        (tree.nodes.visits.take(), refused)
    }

    /// Tries to reduce the tree by each set, and expects a refusal. Returns the largest number of
    /// nodes visited for one set, and the total for all sets.
    fn refuse(tree: &mut PqTree, sets: impl Iterator<Item = Vec<u32>>) -> (u64, u64) {
        sets.fold((0, 0), |(most, all), set| {
            let (visits, refused) = reduce(tree, &set);
            assert!(refused, "{set:?}");
            (most.max(visits), all + visits)
        })
    }

    fn path(leaves: u32) -> PqTree {
        let mut tree = PqTree::new(leaves);
        (1..leaves).for_each(|leaf| assert!(!reduce(&mut tree, &[leaf - 1, leaf]).1));
        tree
    }

    /// `depth` nested Q-nodes, each `[leaf, inner Q-node, leaf]`.
    fn nested(depth: u32) -> PqTree {
        let begin: String = (0..depth).map(|level| format!("[{} ", 2 * level)).collect();
        let end: String = (0..depth).rev().map(|level| format!(" {}]", 2 * level + 1)).collect();
        format!("{begin}{}{end}", 2 * depth).parse().expect("a tree")
    }

    /// Bounds the average, because the first climb from a leaf may have to find its parent.
    #[test]
    fn refusing_pairs_on_a_path_visits_few_nodes_at_any_length() {
        for leaves in [10, 1000, 30_000] {
            let pairs = (0..leaves - 2).map(|leaf| [leaf, leaf + 2].to_vec());
            let (_, all) = refuse(&mut path(leaves), pairs);
            assert!(all <= 16 * u64::from(leaves), "{all}");
        }
    }

    #[test]
    fn refusing_pairs_in_nested_nodes_visits_the_same_number_of_nodes_at_any_depth() {
        let count = |depth: u32| {
            let pairs = (0..depth - 2).map(|level| [2 * level, 2 * level + 5].to_vec());
            let far = (0..depth - 1).map(|level| [2 * level, 2 * depth].to_vec());
            refuse(&mut nested(depth), pairs.chain(far)).0
        };
        let shallow = count(10);
        assert!(shallow < 40, "{shallow}");
        assert_eq!([count(100), count(1000)], [shallow; 2]);
    }

    /// Many long branches from one node. A refusal must not climb all of them.
    #[test]
    fn a_refusal_climbs_few_branches() {
        let (branches, length) = (100, 200);
        let mut text = String::from("(");
        for branch in 0..branches {
            let first = branch * length;
            (first..first + length - 1).for_each(|leaf| text += &format!("({leaf} "));
            text += &format!("{}", first + length - 1);
            text.extend((1..length).map(|_| ')'));
            text.push(' ');
        }
        let mut tree: PqTree = (text + ")").parse().expect("a tree");
        // The deepest leaf of each branch. Three paths must climb to the root.
        let set: Vec<u32> = (1..=branches).map(|branch| branch * length - 1).collect();
        let (visits, refused) = reduce(&mut tree, &set);
        assert!(refused);
        let most = u64::from(8 * (branches + 5 * length));
        assert!(visits <= most, "{visits} > {most}");
    }

    /// A set with the element at which the circle is cut costs as little as other sets.
    #[test]
    fn circular_sets_with_the_last_element_visit_few_nodes_at_any_size() {
        let count = |elements: u32| {
            let mut tree = CircularTree::new(elements);
            let last = elements - 1;
            tree.tree().nodes.visits.take();
            assert_eq!(tree.reduce(&[last, 0]), Ok(true));
            assert_eq!(tree.reduce(&[1, last]), Ok(true));
            assert_eq!(tree.is_consecutive(&[1, 0, last]), Ok(true));
            assert!(tree.reduce(&[last, 2]).is_err() && tree.can_reduce(&[2, last]).is_err());
            assert!(tree.conflict(&[2, last]).is_ok_and(|conflict| conflict.is_some()));
            tree.tree().nodes.visits.take()
        };
        assert_eq!(count(20_000), count(20));
    }

    #[test]
    fn a_proof_visits_few_children_of_long_nodes() {
        let count = |leaves: u32| {
            let mut tree = path(leaves);
            tree.nodes.visits.take();
            let conflicts = (0..leaves - 3).map(|leaf| tree.conflict(&[leaf, leaf + 3]));
            assert!(conflicts.into_iter().all(|conflict| conflict.is_ok_and(|it| it.is_some())));
            tree.nodes.visits.take() / u64::from(leaves - 3)
        };
        assert_eq!(count(10_000), count(1000));
    }
}
