//! Kept plans change what is decided, and no bit of a result.

use edbatch::{Engine, EngineOptions, Rows};
use edbatch_datasets::{Tree, generate};
use edbatch_models::*;
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

const WORDS: u32 = 50;

fn engine<M: Model>(model: M, plan_cache: usize) -> Engine<M> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let parameters = Parameters::random(model.network(), &mut rng);
    let options = EngineOptions::new().plan_cache(plan_cache);
    Engine::with_options(model, parameters, options).unwrap()
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
    let mut plain = engine(tree_lstm(), 0);
    let expected: Vec<Vec<Rows>> =
        mini_batches.iter().map(|inputs| plain.run(inputs).unwrap()).collect();
    assert_eq!(plain.statistics().plans_reused, 0, "there is no cache unless it is asked for");
    // Capacity for all four topologies; for some; for none.
    for (bytes, least, most) in [(1 << 20, 36, 36), (30_000, 0, 35), (100, 0, 0)] {
        let mut kept = engine(tree_lstm(), bytes);
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

#[test]
fn the_steps_of_a_decoder_share_a_plan() {
    let sizes = NmtSizes { source: 9, target: 11, embed: 4, hidden: 4 };
    let sources = [5, 5, 5]
        .map(|steps| SourceSentence { words: vec![1, 4, 8], stop: Stop::After(20 + steps) });
    let mut plain = engine(LstmNmt::new(sizes).unwrap(), 0);
    let expected = plain.run(&sources).unwrap();
    let mut kept = engine(LstmNmt::new(sizes).unwrap(), 1 << 16);
    assert_eq!(kept.run(&sources).unwrap(), expected);
    // The first graph encodes as well; the last has no step to carry on.
    assert_eq!((kept.statistics().graphs, kept.statistics().plans_reused), (26, 23));
}

#[test]
fn a_new_policy_forgets_plans() {
    let mut words = Xoshiro256PlusPlus::seed_from_u64(4);
    let inputs: Vec<_> = (0..6).map(|shape| tree(shape, &mut words)).collect();
    let mut engine = engine(tree_lstm(), 1 << 20);
    let expected = engine.run(&inputs).unwrap();
    let batches = engine.statistics().batches;
    engine.set_policy(Box::new(edbatch_policy::Depth::new()));
    assert_eq!(engine.run(&inputs).unwrap(), expected);
    assert_eq!(engine.statistics().plans_reused, 0);
    assert!(engine.statistics().batches > 2 * batches, "by depth there are more");
}
