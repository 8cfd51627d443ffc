//! Preparing the next mini-batch while one runs changes no result, and ends as it should.

use edbatch::{Engine, Rows, RunError};
use edbatch_datasets::{Sentence, Tree, generate};
use edbatch_models::*;
use edbatch_runtime::Parameters;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

fn parameters<M: Model>(model: &M) -> Parameters {
    Parameters::random(model.network(), &mut Xoshiro256PlusPlus::seed_from_u64(3))
}

/// All outputs, mini-batch by mini-batch.
fn overlapped<M: Model<Input: Sync> + Sync>(
    engine: &mut Engine<M>,
    mini_batches: &[Vec<M::Input>],
) -> Result<Vec<Vec<Rows>>, RunError> {
    let mut all = Vec::new();
    engine.run_overlapped(mini_batches, |number, outputs| {
        assert_eq!(number, all.len());
        all.push(outputs.clone());
    })?;
    Ok(all)
}

fn same<M: Model<Input: Sync> + Sync + Clone>(model: M, mini_batches: &[Vec<M::Input>]) {
    let parameters = parameters(&model);
    let mut plain = Engine::new(model.clone(), parameters.clone()).unwrap();
    let expected: Vec<Vec<Rows>> =
        mini_batches.iter().map(|inputs| plain.run(inputs).unwrap()).collect();
    let new = || Engine::new(model.clone(), parameters.clone()).unwrap();
    for mut engine in [new(), new().with_plan_cache(1 << 20), new().with_counts()] {
        for _ in 0..2 {
            assert_eq!(overlapped(&mut engine, mini_batches).unwrap(), expected);
        }
        let (once, twice) = (plain.statistics(), engine.statistics());
        assert_eq!(
            [2 * once.instances, 2 * once.graphs, 2 * once.nodes, 2 * once.batches],
            [twice.instances, twice.graphs, twice.nodes, twice.batches]
        );
        assert_eq!(once.arena_bytes.min(twice.arena_bytes), once.arena_bytes);
        // The engine is as good as new.
        assert_eq!(engine.run(&mini_batches[0]).unwrap(), expected[0]);
    }
    let mut interpreted = Engine::interpreted(model, parameters);
    let outputs = overlapped(&mut interpreted, mini_batches).unwrap();
    assert_eq!(outputs.len(), expected.len());
}

fn trees(count: usize) -> Vec<Tree<u32>> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let trees = generate::binary_trees(&mut rng, count);
    trees.iter().map(|tree| tree.map(|_| 0, |_| rng.random_range(0..90))).collect()
}

fn tree_lstm() -> TreeLstm {
    TreeLstm::new(TreeSizes { vocabulary: 90, embed: 8, hidden: 12, classes: 3 }).unwrap()
}

#[test]
fn results_are_those_of_one_thread() {
    let mini_batches: Vec<Vec<Tree<u32>>> = trees(40).chunks(7).map(<[_]>::to_vec).collect();
    same(tree_lstm(), &mini_batches);
    let sizes = TaggerSizes { vocabulary: 9, embed: 4, hidden: 4, layers: 2, mlp: 4, tags: 3 };
    let sentences = |lengths: &[usize]| -> Vec<Sentence<u32>> {
        let sentence = |&n: &usize| Sentence { words: vec![n as u32; n], tags: vec![None; n] };
        lengths.iter().map(sentence).collect()
    };
    // Empty mini-batches and sentences among them.
    let mini_batches = [&[3, 1][..], &[], &[0], &[5, 0, 2], &[8]].map(sentences);
    same(BiLstmTagger::new(sizes).unwrap(), &mini_batches);
}

#[test]
fn what_awaits_values_is_run_without_overlap() {
    let sizes = NmtSizes { source: 9, target: 11, embed: 4, hidden: 4 };
    let source = |steps| SourceSentence { words: vec![1, 4], stop: Stop::After(steps) };
    // Those that decode nothing await nothing; the third mini-batch does.
    let mini_batches = [vec![0], vec![0, 0], vec![3, 0, 2], vec![0], vec![1]]
        .map(|steps: Vec<usize>| steps.into_iter().map(source).collect::<Vec<SourceSentence>>());
    same(LstmNmt::new(sizes).unwrap(), &mini_batches);
}

#[test]
fn a_failure_comes_after_what_could_be_run() {
    let model = tree_lstm();
    let mut engine = Engine::new(model.clone(), parameters(&model)).unwrap();
    let mut mini_batches: Vec<Vec<Tree<u32>>> = trees(24).chunks(4).map(<[_]>::to_vec).collect();
    mini_batches[3][2] = mini_batches[3][2].map(|_| 0, |_| 90);
    let mut heard = 0;
    let result = engine.run_overlapped(&mini_batches, |number, _| heard = number + 1);
    let Err(RunError::Build { instance: 2, error }) = result else { panic!("{result:?}") };
    assert!(error.to_string().contains("90"), "{error}");
    assert_eq!(heard, 3);
    // What cannot be run stops the other thread as well.
    let mut limited = Engine::new(model.clone(), parameters(&model)).unwrap().with_memory_limit(1);
    let result = overlapped(&mut limited, &mini_batches);
    assert!(matches!(result, Err(RunError::Memory { .. })), "{result:?}");
}

#[test]
#[should_panic(expected = "the iterator failed")]
fn a_panic_on_the_other_thread_is_handed_on() {
    let model = tree_lstm();
    let mut engine = Engine::new(model.clone(), parameters(&model)).unwrap();
    let trees = trees(6);
    let mini_batches =
        (0..3).map(|i| if i < 2 { &trees[i..] } else { panic!("the iterator failed") });
    let _ = engine.run_overlapped(mini_batches, |_, _| {});
}
