//! Threads change no bit of a result: tiles of large batches, columns of small ones, hoisted rows.

use edbatch::{Engine, Rows};
use edbatch_datasets::generate;
use edbatch_models::*;
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

fn same<M: Model<Input: Sync> + Clone + Send>(model: M, inputs: &[M::Input]) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let parameters = Parameters::random(model.network(), &mut rng);
    let run = |threads: usize| -> Vec<Rows> {
        let mut engine = Engine::on_threads(model.clone(), parameters.clone(), threads).unwrap();
        let first = engine.run(inputs).unwrap();
        assert_eq!(engine.run(inputs).unwrap(), first, "{threads} threads, again");
        let mut another = engine.another();
        let other = std::thread::scope(|scope| {
            // Two engines at once on the same weights.
            let other = scope.spawn(|| another.run(inputs).unwrap());
            assert_eq!(engine.run(inputs).unwrap(), first);
            other.join().unwrap()
        });
        assert_eq!(other, first, "{threads} threads, another engine");
        first
    };
    let expected = run(1);
    for threads in [2, 3, 5] {
        assert!(run(threads) == expected, "{threads} threads");
    }
}

#[test]
fn trees_of_all_sizes() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let trees = generate::binary_trees(&mut rng, 24);
    let mut word = || rng.random_range(0..90);
    let trees: Vec<_> = trees.iter().map(|tree| tree.map(|_| 0, |_| word())).collect();
    let sizes = TreeSizes { vocabulary: 90, embed: 40, hidden: 72, classes: 5 };
    same(TreeLstm::new(sizes).unwrap(), &trees);
    same(MvRnn::new(MvRnnSizes { vocabulary: 90, hidden: 20, classes: 5 }).unwrap(), &trees);
}

/// An output layer so wide that its columns are shared even for a single row.
#[test]
fn decoders_of_few_rows() {
    let sizes = NmtSizes { source: 50, target: 6000, embed: 24, hidden: 64 };
    let sources = [(3, 5), (9, 2), (1, 8)].map(|(words, steps)| SourceSentence {
        words: (0..words).map(|i| i * 7 % 50).collect(),
        stop: Stop::After(steps),
    });
    same(LstmNmt::new(sizes).unwrap(), &sources);
    same(LstmNmt::new(sizes).unwrap(), &sources[..1]);
}
