//! A million random reductions. `changed` names exactly the nodes whose children differ from
//! before, each once. Queries and refusals leave the list unchanged.

#[path = "../dev/families.rs"]
#[allow(dead_code)]
mod families;

use families::Random;
use pqtree::{Kind, NodeId, PqTree};

const REDUCTIONS: usize = if cfg!(miri) { 500 } else { 1_000_000 };

/// For each inner node, its kind and its children in order. Reused to avoid allocation.
#[derive(Default)]
struct Lists {
    /// For each inner node, by index minus the leaves: its kind and the end of its children.
    nodes: Vec<(Kind, usize, usize)>,
    children: Vec<NodeId>,
}

impl Lists {
    fn read(&mut self, tree: &PqTree) {
        let leaves = tree.len() as usize;
        self.nodes.clear();
        self.nodes.resize(tree.node_bound() - leaves, (Kind::Leaf, 0, 0));
        self.children.clear();
        for node in tree.pre_order().filter(|node| node.index() >= leaves) {
            let begin = self.children.len();
            self.children.extend(tree.children(node));
            self.nodes[node.index() - leaves] = (tree.kind(node), begin, self.children.len());
        }
    }

    /// Returns the kind and the children of an inner node. The kind is `Leaf` for a missing node.
    fn list(&self, at: usize) -> (Kind, &[NodeId]) {
        let &(kind, begin, end) = self.nodes.get(at).unwrap_or(&(Kind::Leaf, 0, 0));
        (kind, &self.children[begin..end])
    }
}

fn set(random: &mut Random, tree: &PqTree) -> Vec<u32> {
    let leaves = tree.len() as usize;
    let most = if random.below(2) == 0 { 3 } else { leaves - 2 };
    let size = 2 + random.below(most);
    let mut order: Vec<u32> = if random.below(8) < 5 {
        tree.sample_with(|count| random.below(count as usize) as u32)
    } else {
        (0..leaves as u32).collect()
    };
    if random.below(4) == 0 {
        random.shuffle(&mut order);
    }
    let begin = random.below(leaves - size + 1);
    order[begin..begin + size].to_vec()
}

#[test]
fn changed_is_exact_on_a_million_reductions() {
    let mut random = Random::new(20);
    let (mut before, mut after) = (Lists::default(), Lists::default());
    let (mut done, mut altered, mut refused) = (0, 0, 0);
    while done < REDUCTIONS {
        let leaves = 8 + random.below(12) as u32;
        let mut tree = PqTree::new(leaves);
        for _ in 0..40 {
            let set = set(&mut random, &tree);
            before.read(&tree);
            let mut last: Vec<NodeId> = tree.changed().collect();
            last.sort_unstable();
            let reduced = tree.reduce(&set);
            let mut found: Vec<NodeId> = tree.changed().collect();
            found.sort_unstable();
            after.read(&tree);
            done += 1;
            let slots = 0..after.nodes.len();
            let is_altered =
                |&at: &usize| after.nodes[at].0 != Kind::Leaf && after.list(at) != before.list(at);
            let indices = found.iter().map(|node| node.index() - leaves as usize);
            let is_exact = slots.filter(is_altered).eq(indices);
            match reduced {
                Ok(reduced) => {
                    assert!(is_exact, "{tree} after {set:?}: {found:?}");
                    assert_eq!(reduced.changed, !found.is_empty());
                    altered += usize::from(reduced.changed);
                }
                Err(_) => {
                    assert_eq!(found, last, "a refusal leaves the list");
                    assert_eq!((&before.nodes, &before.children), (&after.nodes, &after.children));
                    refused += 1;
                }
            }
        }
    }
    println!("{done} reductions, {altered} of them altered the tree, {refused} were refused");
    assert!(altered > REDUCTIONS / 10 && refused > REDUCTIONS / 10);
}
