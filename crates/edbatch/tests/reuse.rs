//! Kept plans and orders of nodes change what is decided, and no bit of a result.

use edbatch::{Engine, Order, Rows};
use edbatch_datasets::{Lattice, Tree, WordArc, generate};
use edbatch_models::*;
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const WORDS: u32 = 50;

fn engine<M: Model>(model: M) -> Engine<M> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let parameters = Parameters::random(model.network(), &mut rng);
    Engine::new(model, parameters).unwrap()
}

/// A tree of a shape, with random words: equal shapes give equal topologies.
fn tree(shape: u64, words: &mut Xoshiro256PlusPlus) -> Tree<u32> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(shape);
    let tree = generate::binary_trees(&mut rng, 1).remove(0);
    tree.map(|_| 0, |_| words.random_range(0..WORDS))
}

fn tree_lstm() -> TreeLstm {
    let sizes = TreeSizes { vocabulary: WORDS as usize, embed: 8, hidden: 12, classes: 3 };
    TreeLstm::new(sizes).unwrap()
}

#[test]
fn equal_topologies_reuse_a_plan() {
    let mut words = Xoshiro256PlusPlus::seed_from_u64(4);
    let mini_batches: Vec<Vec<Tree<u32>>> = (0..40)
        .map(|turn| (0..6).map(|shape| tree(shape + 10 * (turn % 4), &mut words)).collect())
        .collect();
    let mut plain = engine(tree_lstm());
    let expected: Vec<Vec<Rows>> =
        mini_batches.iter().map(|inputs| plain.run(inputs).unwrap()).collect();
    assert_eq!(plain.statistics().plans_reused, 0, "there is no cache unless it is asked for");
    for order in [Order::Scheduled, Order::Consumers, Order::PqTree] {
        // Room for all four topologies; for some; for none.
        for (bytes, least, most) in [(1 << 20, 36, 36), (30_000, 0, 35), (100, 0, 0)] {
            let mut kept = engine(tree_lstm()).with_order(order).with_plan_cache(bytes);
            for (inputs, expected) in mini_batches.iter().zip(&expected) {
                assert_eq!(&kept.run(inputs).unwrap(), expected);
            }
            let statistics = kept.statistics();
            assert_eq!(statistics.graphs, 40);
            let reused = statistics.plans_reused;
            assert!((least..=most).contains(&reused), "{bytes} bytes: {reused}");
            assert_eq!(statistics.batches, plain.statistics().batches);
        }
    }
}

#[test]
fn the_steps_of_a_decoder_share_a_plan() {
    let sizes = NmtSizes { source: 9, target: 11, embed: 4, hidden: 4 };
    let sources = [5, 5, 5]
        .map(|steps| SourceSentence { words: vec![1, 4, 8], stop: Stop::After(20 + steps) });
    let mut plain = engine(LstmNmt::new(sizes).unwrap());
    let expected = plain.run(&sources).unwrap();
    let mut kept = engine(LstmNmt::new(sizes).unwrap()).with_plan_cache(1 << 16);
    assert_eq!(kept.run(&sources).unwrap(), expected);
    // The first graph encodes as well; the last has no step to carry on.
    assert_eq!((kept.statistics().graphs, kept.statistics().plans_reused), (26, 23));
}

#[test]
fn a_new_policy_forgets_plans() {
    let mut words = Xoshiro256PlusPlus::seed_from_u64(4);
    let inputs: Vec<_> = (0..6).map(|shape| tree(shape, &mut words)).collect();
    let mut engine = engine(tree_lstm()).with_plan_cache(1 << 20);
    let expected = engine.run(&inputs).unwrap();
    let batches = engine.statistics().batches;
    let mut engine = engine.with_policy(Box::new(edbatch_policy::Depth::new()));
    assert_eq!(engine.run(&inputs).unwrap(), expected);
    assert_eq!(engine.statistics().plans_reused, 0);
    assert!(engine.statistics().batches > 2 * batches, "by depth there are more");
}

/// What is read through lists, by order of the nodes.
fn gathered<M: Model>(model: impl Fn() -> M, inputs: &[M::Input]) -> [u64; 3] {
    let mut first: Option<Vec<Rows>> = None;
    [Order::Scheduled, Order::Consumers, Order::PqTree].map(|order| {
        let mut engine = engine(model()).with_order(order).with_counts();
        let outputs = engine.run(inputs).unwrap();
        assert_eq!(&outputs, first.get_or_insert_with(|| outputs.clone()), "{order:?}");
        engine.statistics().counts.unwrap().gathered_bytes
    })
}

#[test]
fn an_order_for_consumers_gathers_less() {
    let mut words = Xoshiro256PlusPlus::seed_from_u64(4);
    let trees: Vec<_> = (0..20).map(|shape| tree(shape, &mut words)).collect();
    let [scheduled, consumers, pq_tree] = gathered(tree_lstm, &trees);
    assert!(consumers <= scheduled && pq_tree <= scheduled, "{scheduled} {consumers} {pq_tree}");

    let lattice = |length: u32| Lattice {
        chars: (0..length).map(|i| i % 9).collect(),
        words: (1..length / 3).map(|i| WordArc { start: i, end: i + 2, word: i % 9 }).collect(),
        tags: vec![],
    };
    let lattices: Vec<_> = [12, 3, 0, 9, 20, 7, 15, 1].map(lattice).into();
    let sizes = LatticeSizes { chars: 9, words: 9, embed: 4, hidden: 4, classes: 3 };
    let [scheduled, consumers, pq_tree] = gathered(|| LatticeLstm::new(sizes).unwrap(), &lattices);
    assert!(consumers <= scheduled && pq_tree <= scheduled, "{scheduled} {consumers} {pq_tree}");
}
