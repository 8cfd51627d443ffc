//! Runs a trace of operations, read from bytes, on a tree and on slow models of it; panics where they differ.
//!
//! The models: the recursive reference, for reductions; clones taken at checkpoints, for rolling back; and what has to
//! hold in any tree, for everything.

use crate::reference::Reference;
use pqtree::{Kind, PqTree};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

pub(crate) fn run(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let Some(first) = bytes.next() else { return };
    let leaves = 1 + u32::from(first) % 24;
    let mut tree = PqTree::new(leaves);
    // `None` after an operation that the reference does not know.
    let mut model = Some(Reference::new(leaves));
    let mut open = Vec::new();
    let hash = RandomState::new();
    while let Some(operation) = bytes.next() {
        match operation % 16 {
            0..=8 => {
                let set = take_set(&mut bytes, tree.len());
                reduce(&mut tree, &mut model, &set, &hash);
            }
            9 => {
                let text = tree.to_string();
                open.push((tree.checkpoint(), text, tree.clone(), model.clone()));
            }
            10 => {
                if let Some((checkpoint, text, clone, old)) = open.pop() {
                    tree.rollback(checkpoint);
                    assert_eq!(tree.to_string(), text, "rolled back");
                    assert_eq!(tree, clone);
                    assert_eq!(hash.hash_one(&tree), hash.hash_one(&clone));
                    model = old;
                }
            }
            11 => {
                if let Some((checkpoint, ..)) = open.pop() {
                    tree.commit(checkpoint);
                }
            }
            12 => {
                let other = take_set(&mut bytes, tree.len());
                let mut constrained = PqTree::new(tree.len());
                constrained.reduce(&other).expect("a single set");
                let before = tree.to_string();
                let can = tree.can_reduce(&other).is_ok();
                assert_eq!(tree.intersect(&constrained).is_ok(), can);
                assert!(can || tree.to_string() == before);
                model =
                    model.and_then(|model| if can { model.reduce(&other) } else { Some(model) });
            }
            13 if tree.len() < 40 => {
                let node = bytes.next().unwrap_or(0) as usize % tree.pre_order().count();
                let node = tree.pre_order().nth(node).expect("below the count");
                tree.insert_under(node);
                model = None;
            }
            14 if tree.len() > 1 => {
                let leaf = u32::from(bytes.next().unwrap_or(0)) % tree.len();
                tree.remove(leaf).expect("in range");
                model = None;
            }
            15 if tree.len() < 40 => {
                let leaf = u32::from(bytes.next().unwrap_or(0)) % tree.len();
                tree.replace(leaf, &PqTree::new(3)).expect("in range");
                model = None;
            }
            _ => {}
        }
        check(&tree);
        if let Some(model) = &model {
            assert_eq!(tree.canonical().to_string(), model.text());
        }
    }
}

fn take_set(bytes: &mut impl Iterator<Item = u8>, leaves: u32) -> Vec<u32> {
    let count = u32::from(bytes.next().unwrap_or(0)) % (leaves + 1);
    let mut seen = HashSet::new();
    let mut leaf = || u32::from(bytes.next().unwrap_or(0)) % leaves;
    (0..count).map(|_| leaf()).filter(|&leaf| seen.insert(leaf)).collect()
}

fn reduce(tree: &mut PqTree, model: &mut Option<Reference>, set: &[u32], hash: &RandomState) {
    let (text, before) = (tree.to_string(), hash.hash_one(&*tree));
    let expected = tree.can_reduce(set);
    let implied = tree.is_consecutive(set).expect("a set");
    assert_eq!(tree.to_string(), text, "looking changes nothing");
    match tree.reduce(set) {
        Ok(reduced) => {
            assert_eq!(expected, Ok(()));
            assert_eq!(reduced.changed, !implied);
            assert_eq!(reduced.changed, tree.to_string() != text);
            assert_eq!(reduced.changed, tree.changed().next().is_some());
            assert_eq!(tree.is_consecutive(set), Ok(true));
            check_home(tree, reduced.home, set);
            if let Some(old) = model.take() {
                *model = Some(old.reduce(set).expect("the tree could"));
            }
        }
        Err(error) => {
            assert_eq!(expected, Err(error));
            assert_eq!((tree.to_string(), hash.hash_one(&*tree)), (text, before), "refused");
            check_proof(tree, set);
            assert!(model.as_ref().is_none_or(|model| model.reduce(set).is_none()));
        }
    }
}

/// All of the set is below its home, and all of the home's leaves, or of a Q-node a run of its children, are in the set.
fn check_home(tree: &PqTree, home: Option<pqtree::NodeId>, set: &[u32]) {
    let Some(home) = home else {
        return assert!(set.is_empty());
    };
    let inside = |node| tree.leaves_of(node).all(|leaf| set.contains(&leaf));
    if inside(home) {
        return assert_eq!(tree.leaves_of(home).count(), set.len());
    }
    assert_eq!(tree.kind(home), Kind::Q);
    let run = tree.children(home).filter(|&child| inside(child));
    assert_eq!(run.map(|child| tree.leaves_of(child).count()).sum::<usize>(), set.len());
}

/// The leaves that a conflict names prove it on their own.
pub(crate) fn check_proof(tree: &mut PqTree, set: &[u32]) {
    let conflict = tree.conflict(set).expect("a set").expect("it was refused");
    let (inside, outside) = (conflict.inside(), conflict.outside());
    assert!(inside.iter().all(|leaf| set.contains(leaf)), "{conflict:?} of {set:?} in {tree}");
    assert!(outside.iter().all(|leaf| !set.contains(leaf)), "{conflict:?} of {set:?} in {tree}");
    let mut part = tree.project(&[inside.clone(), outside].concat()).expect("different leaves");
    let kept: Vec<u32> = (0..inside.len() as u32).collect();
    assert!(part.can_reduce(&kept).is_err(), "{conflict:?} of {set:?} in {tree}");
}

/// What has to hold in any tree.
fn check(tree: &PqTree) {
    let mut frontier = vec![0; tree.len() as usize];
    tree.write_frontier(&mut frontier);
    assert!(frontier.iter().copied().eq(tree.frontier()));
    assert!(tree.contains_order(&frontier));
    let nodes: Vec<_> = tree.pre_order().collect();
    assert_eq!(nodes.len(), tree.post_order().count());
    assert_eq!(nodes.first().copied(), tree.root());
    let (p_nodes, q_nodes) = tree.count_nodes();
    assert_eq!(nodes.len(), p_nodes + q_nodes + tree.len() as usize);
    for node in nodes {
        assert!(tree.contains(node) && node.index() < tree.node_bound());
        let children: Vec<_> = tree.children(node).collect();
        assert_eq!(children.len(), tree.degree(node) as usize);
        let fewest = match tree.kind(node) {
            Kind::Leaf => 0,
            Kind::P => 2,
            Kind::Q => 3,
        };
        assert!(children.len() >= fewest);
        assert!(children.iter().all(|&child| tree.parent(child) == Some(node)));
    }
}
