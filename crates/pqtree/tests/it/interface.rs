//! Promises of the interface apart from orders: types, errors, texts, memory, features.

use pqtree::{
    CircularTree, Conflict, Labeled, LeafError, NodeId, OrdersError, ParseError, PqTree,
    ReduceError,
};

fn tree(text: &str) -> PqTree {
    text.parse().unwrap()
}

#[test]
fn a_million_leaves_fit_in_24_megabytes() {
    assert!(PqTree::new(1_000_000).bytes() <= 24_000_000);
}

#[test]
fn too_many_leaves_are_an_error() {
    let max = u64::from(PqTree::MAX_LEAVES);
    let too_many = |leaves| LeafError::TooMany { leaves };
    assert_eq!(PqTree::try_new(4_000_000_000).unwrap_err(), too_many(4_000_000_000));
    assert_eq!(CircularTree::try_new(1 << 30).unwrap_err(), too_many(1 << 30));
    let mut four = PqTree::new(4);
    assert_eq!(four.reserve(max as u32), Err(too_many(max + 4)));
    let error = four.replace_set(&[1, 2], max as u32).unwrap_err();
    assert_eq!(error, ReduceError::Leaf(too_many(max + 2)));
    assert_eq!(four.to_string(), "(0 1 2 3)");
    let text = "4000000000 leaves are too many: a tree has at most 536870912";
    assert_eq!(too_many(4_000_000_000).to_string(), text);
}

#[test]
#[should_panic(expected = "4000000000 leaves are too many")]
fn new_panics_on_too_many_leaves() {
    let _ = PqTree::new(4_000_000_000);
}

#[test]
fn debug_shows_the_text() {
    assert_eq!(format!("{:?}", tree("(0 [1 2 3])")), "PqTree((0 [1 2 3]))");
    assert_eq!(format!("{:?}", PqTree::default()), "PqTree(())");
    let labeled = Labeled::with_tree(tree("(0 [1 2 3])"), vec!['a', 'b', 'c', 'd']).unwrap();
    assert_eq!(format!("{labeled:?}"), "Labeled(('a' ['b' 'c' 'd']))");
    assert_eq!(format!("{:?}", tree("(0 1)").orders_count_exact()), "OrderCount(2)");
}

/// Stored texts must stay readable: they do not change within version 1.
#[test]
fn text_and_serde_forms_are_stable() {
    let path = |leaves: u32| {
        let mut path = PqTree::new(leaves);
        (2..leaves).for_each(|leaf| assert!(path.reduce(&[leaf - 1, leaf]).is_ok()));
        path
    };
    for (leaves, text) in
        [(0, "()"), (1, "0"), (2, "(0 1)"), (3, "(0 (1 2))"), (5, "(0 [1 2 3 4])")]
    {
        let canonical = path(leaves).canonical();
        assert_eq!(canonical.to_string(), text);
        let json = serde_json::to_string(&canonical).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<PqTree>(&json).unwrap().to_string(), text);
    }
}

/// A path that grows by one leaf at a time merges a node at each step.
#[test]
fn merged_nodes_do_not_accumulate_across_transactions() {
    let mut tree = PqTree::new(1000);
    for leaf in 1..1000 {
        let start = tree.checkpoint();
        tree.reduce(&[leaf - 1, leaf]).unwrap();
        tree.commit(start);
    }
    assert_eq!(tree.count_nodes(), (0, 1));
    assert!(tree.node_bound() < 1100, "{}", tree.node_bound());
}

#[test]
fn the_documented_pictures_are_correct() {
    let mut five = PqTree::new(5);
    let steps: [(&[u32], &str, u128); 3] = [
        (&[0, 1], "(2 3 4 (0 1))", 48),
        (&[1, 2], "(3 4 [0 1 2])", 12),
        (&[2, 3, 4], "[0 1 2 (3 4)]", 4),
    ];
    for (set, picture, count) in steps {
        five.reduce(set).unwrap();
        assert_eq!((five.clone(), five.orders_count()), (tree(picture), Some(count)));
    }
    assert!(five.reduce(&[0, 2]).is_err());
}

#[test]
fn invalid_sets_are_typed_errors() {
    let mut four = PqTree::new(4);
    let out = ReduceError::Leaf(LeafError::OutOfRange { leaf: 4, leaves: 4 });
    let twice = ReduceError::Leaf(LeafError::Repeated { leaf: 1 });
    assert_eq!(four.reduce(&[1, 4]), Err(out));
    assert_eq!(four.reduce(&[4]), Err(out));
    assert_eq!(four.reduce(&[1, 1]), Err(twice));
    assert_eq!(four.can_reduce(&[1, 2, 3, 1]), Err(twice));
    assert_eq!(four.reduce(&[1, 2, 3, 0, 1]), Err(twice));
    assert_eq!(four.to_string(), "(0 1 2 3)");
    assert_eq!(four.project(&[1, 1]), Err(LeafError::Repeated { leaf: 1 }));
    assert_eq!(four.remove(9), Err(LeafError::OutOfRange { leaf: 9, leaves: 4 }));
    assert_eq!(twice.to_string(), "leaf 1 is repeated: name each leaf once");
    // The refused sets leave no marks.
    assert!(four.reduce(&[1, 2]).unwrap().changed);
}

#[test]
fn conflicts_name_their_proof() {
    let check = |text: &str, set: &[u32], expected: Conflict| {
        let mut tree = tree(text);
        assert_eq!(tree.reduce(set), Err(ReduceError::Conflict), "{text}");
        assert_eq!(tree.conflict(set), Ok(Some(expected)), "{text}");
    };
    check("[0 1 2]", &[0, 2], Conflict::Separated { inside: [0, 2], outside: 1 });
    check("([0 1 2] 3)", &[1, 3], Conflict::Enclosed { inside: 1, outside: [0, 2], beyond: 3 });
    let (inside, outside) = ([0, 2], [1, 3]);
    check("(((0 1) (2 3) 4) 5 6)", &[0, 2, 5], Conflict::TwoSplits { inside, outside, beyond: 5 });
    let (inside, outside) = ([0, 2, 4], [1, 3, 5]);
    check("((0 1) (2 3) (4 5))", &[0, 2, 4], Conflict::ThreeSplits { inside, outside });
}

#[test]
fn invalid_leaves_are_errors_not_refusals() {
    let mut four = PqTree::new(4);
    let twice = LeafError::Repeated { leaf: 3 };
    let error = four.reduce_greedy([[0, 1], [3, 3], [1, 2]]).unwrap_err();
    assert_eq!((error.index, error.error), (1, ReduceError::Leaf(twice)));
    // No set was reduced, so none is lost.
    assert_eq!(four.to_string(), "(0 1 2 3)");
    assert_eq!(four.is_consecutive(&[3, 3]), Err(twice));
    assert_eq!(four.is_consecutive(&[0, 1, 2, 2, 3]), Err(LeafError::Repeated { leaf: 2 }));
    let error = four.minimal_conflict(&[[0, 1], [1, 1]]).unwrap_err();
    assert!(error.index == 1 && error.error != ReduceError::Conflict);
    let out = LeafError::OutOfRange { leaf: 4, leaves: 4 };
    assert_eq!((four.is_consecutive(&[4]), four.conflict(&[0, 4])), (Err(out), Err(out)));
    // The invalid sets leave no marks.
    assert!(four.reduce(&[0, 1]).unwrap().changed);
}

#[test]
#[should_panic(expected = "not open")]
fn a_closed_checkpoint_panics() {
    let mut four = PqTree::new(4);
    let outer = four.checkpoint();
    let inner = four.checkpoint();
    four.rollback(outer);
    four.commit(inner);
}

#[test]
#[should_panic(expected = "not open")]
fn copies_have_no_open_checkpoint() {
    let mut four = PqTree::new(4);
    let start = four.checkpoint();
    four.clone().rollback(start);
}

#[test]
#[should_panic(expected = "not open")]
fn a_checkpoint_of_another_tree_panics() {
    let (mut four, mut five) = (PqTree::new(4), PqTree::new(5));
    let (of_four, of_five) = (four.checkpoint(), five.checkpoint());
    five.reduce(&[0, 1]).unwrap();
    four.commit(of_four);
    let _of_four_again = four.checkpoint();
    four.rollback(of_five);
}

#[test]
fn a_failed_attempt_restores_the_tree() {
    let mut four = PqTree::new(4);
    let failed: Result<(), ReduceError> = four.attempt(|tree| {
        tree.reduce(&[0, 1])?;
        // Dropped; the attempt closes it.
        let _ = tree.checkpoint();
        tree.reduce(&[1, 2])?;
        tree.reduce(&[0, 2]).map(|_| ())
    });
    assert_eq!(failed, Err(ReduceError::Conflict));
    assert_eq!(four.to_string(), "(0 1 2 3)");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        four.attempt(|tree| -> Result<(), ReduceError> {
            tree.reduce(&[0, 1])?;
            panic!("midway")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(four.to_string(), "(0 1 2 3)");
    let bytes = four.bytes();
    let kept: Result<_, ReduceError> = four.attempt(|tree| {
        let _ = tree.checkpoint();
        tree.reduce(&[0, 1])
    });
    assert!(kept.unwrap().changed);
    assert_eq!(four.canonical().to_string(), "((0 1) 2 3)");
    // No attempt leaves a growing log.
    for _ in 0..100 {
        assert!(four.reduce(&[1, 0]).is_ok() && four.reduce(&[0, 1]).is_ok());
    }
    assert!(four.bytes() < bytes + 1000);
}

/// Returns a tree with all slots in use, and nodes not in it: a removed one and one never made.
fn gone() -> (PqTree, [NodeId; 2]) {
    let mut tree = tree("([0 1 2] (3 4))");
    let gone = tree.parent(NodeId::of_leaf(3)).unwrap();
    tree.reduce(&[2, 3]).unwrap();
    assert!(!tree.contains(gone) && tree.contains(tree.root().unwrap()));
    (tree, [gone, NodeId::of_leaf(4000)])
}

#[test]
fn removed_nodes_panic_in_every_method() {
    type Method = fn(&mut PqTree, NodeId);
    let methods: [(&str, Method); 8] = [
        ("kind", |tree, node| _ = tree.kind(node)),
        ("as_leaf", |tree, node| _ = tree.as_leaf(node)),
        ("parent", |tree, node| _ = tree.parent(node)),
        ("siblings", |tree, node| _ = tree.siblings(node)),
        ("degree", |tree, node| _ = tree.degree(node)),
        ("children", |tree, node| _ = tree.children(node)),
        ("leaves_of", |tree, node| _ = tree.leaves_of(node)),
        ("insert_under", |tree, node| _ = tree.insert_under(node)),
    ];
    for (name, method) in methods {
        for which in 0..2 {
            let (mut tree, nodes) = gone();
            let run = std::panic::AssertUnwindSafe(|| method(&mut tree, nodes[which]));
            let panic = std::panic::catch_unwind(run).expect_err(name);
            let message = panic.downcast::<String>().expect("a message");
            assert!(message.starts_with("there is no node"), "{name}: {message}");
        }
    }
}

#[test]
fn texts_are_parsed_back() {
    for text in ["()", "0", "(0 1)", "[0 1 2]", "(0 [1 2 (3 4)])"] {
        assert_eq!(tree(text).to_string(), text);
    }
    assert_eq!(tree(" ( (0) [2 1] () ) ").to_string(), "(0 (2 1))");
    let error = |text: &str| text.parse::<PqTree>().unwrap_err();
    assert_eq!(error("(0 x)"), ParseError::Unexpected { found: 'x', at: 3 });
    assert_eq!(error("(0 1]"), ParseError::Unmatched { at: 4 });
    assert_eq!(error("(0 1"), ParseError::NotOneTree);
    assert_eq!(error("(0 1) 2"), ParseError::NotOneTree);
    assert_eq!(error(""), ParseError::NotOneTree);
    assert_eq!(error("(0 2)"), ParseError::Leaf { leaf: 2, leaves: 2 });
    assert_eq!(error("(0 0)"), ParseError::Leaf { leaf: 0, leaves: 2 });
}

#[test]
fn empty_trees_and_single_leaves_work() {
    let mut none = PqTree::new(0);
    assert_eq!((none.root(), none.orders_count(), none.frontier().count()), (None, Some(1), 0));
    assert!(none.contains_order(&[]) && none.reduce(&[]).is_ok() && none.is_empty());
    assert_eq!(none.orders().collect::<Vec<_>>(), [[0; 0]]);
    assert_eq!(none.insert(), Ok(0));
    assert_eq!((none.to_string().as_str(), none.orders_count()), ("0", Some(1)));
    assert_eq!(none.insert(), Ok(1));
    assert_eq!(none.to_string(), "(0 1)");
    none.remove(0).unwrap();
    none.remove(0).unwrap();
    assert_eq!(none.to_string(), "()");
}

#[test]
fn counts_of_2_to_the_128_are_none() {
    assert_eq!(PqTree::new(34).orders_count(), Some((1..=34).product()));
    assert_eq!(PqTree::new(35).orders_count(), None);
    let mut last = PqTree::new(40).nth_order(u128::MAX).unwrap();
    last.sort_unstable();
    assert!(last.into_iter().eq(0..40));
}

#[test]
fn common_intervals_without_orders_are_an_error() {
    assert_eq!(PqTree::from_orders::<Vec<u32>>(&[]), Err(OrdersError::NoOrder));
    assert_eq!(
        PqTree::from_orders(&[vec![0, 1], vec![1, 1]]),
        Err(OrdersError::NoPermutation { index: 1 })
    );
    assert_eq!(PqTree::from_orders(&[vec![0, 2]]), Err(OrdersError::NoPermutation { index: 0 }));
    assert_eq!(PqTree::from_orders(&[[1, 0, 2]]).unwrap().to_string(), "[1 0 2]");
}

#[test]
fn rand_samples_admissible_orders() {
    use rand::SeedableRng;
    let mut rng = rand::rngs::StdRng::seed_from_u64(1);
    let tree = tree("(0 [1 2 3] (4 5 6))");
    assert!((0..100).all(|_| tree.contains_order(&tree.sample(&mut rng))));
}
