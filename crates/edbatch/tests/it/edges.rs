//! Very small, very large and unusual inputs: they run, or the error says exactly why not.

use edbatch::models::*;
use edbatch::{Engine, EngineOptions, Rows, Statistics, interpret};
use edbatch_datasets::{Lattice, TreeBuilder, WordArc};
use edbatch_runtime::Precision;

use crate::fn_model::random;
use crate::small::{TAGGER, TREES, chain, nmt, sentence, source, tagger};

#[test]
fn trees_of_one_leaf_and_of_5000_levels() {
    let trees = [chain(1, 0), chain(5000, 0), chain(2, 0)];
    check(TreeLstm::new(TREES).unwrap(), &trees, [1, 9999, 3]);
    check(TreeGru::new(TREES).unwrap(), &trees, [1, 9999, 3]);
    let sizes = MvRnnSizes { vocabulary: 9, hidden: 4, classes: 3 };
    check(MvRnn::new(sizes).unwrap(), &trees, [1, 9999, 3]);
}

#[test]
fn a_node_with_three_children_is_not_a_binary_tree() {
    let mut tree = TreeBuilder::new();
    (0..3).for_each(|leaf| _ = tree.push(0, Some(leaf), 0));
    tree.push(0, None, 3);
    let error = engine(TreeLstm::new(TREES).unwrap()).run(&[tree.finish()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "input 0: node 3 of a tree (in post-order): expected two children or a token, got 3 \
         children and no token"
    );
}

#[test]
fn sentences_of_0_1_and_10000_words() {
    let lengths = [0, 10_000, 1];
    let inputs =
        lengths.map(|length| sentence((0..length).map(|i| i as u32 % 9).collect::<Vec<_>>()));
    check(tagger(2), &inputs, lengths);
    // The empty sentence alone is a graph without nodes, and so is an empty mini-batch.
    let mut engine = engine(tagger(2));
    assert_eq!(engine.run(&inputs[..1]).unwrap(), [Rows::new()]);
    assert_eq!(engine.run(&[]).unwrap(), []);
}

#[test]
fn words_of_1_and_1000_characters() {
    let long = Word::Spelled((0..1000).map(|i| i % 9).collect());
    let words = [vec![Word::Spelled(vec![2])], vec![Word::Known(3), long], vec![Word::Known(0)]];
    let sizes = CharTaggerSizes { tagger: TAGGER, chars: 9, char_embed: 2, char_hidden: 2 };
    check(BiLstmTaggerChar::new(sizes).unwrap(), &words.map(sentence), [1, 2, 1]);
    let wrong = CharTaggerSizes { char_hidden: 3, ..sizes };
    assert!(BiLstmTaggerChar::new(wrong).is_err(), "words of 4 elements from 2 × 3");
}

#[test]
fn lattices_with_a_word_across_the_whole_sentence() {
    let lattices = [lattice(0, &[]), lattice(1, &[]), lattice(30, &[(0, 29), (3, 4)])];
    let sizes = LatticeSizes { chars: 9, words: 9, embed: 4, hidden: 4, classes: 3 };
    check(LatticeLstm::new(sizes).unwrap(), &lattices, [0, 1, 30]);
    check(LatticeGru::new(sizes).unwrap(), &lattices, [0, 1, 30]);
    let mut engine = engine(LatticeGru::new(sizes).unwrap());
    assert_eq!(
        engine.run(&[lattice(3, &[(1, 3)])]).unwrap_err().to_string(),
        "input 0: a word from character 1 to 3 of a lattice of 3 characters: expected start < \
         end < 3"
    );
}

#[test]
fn translations_stop_at_different_steps() {
    let sources = [(0, 7), (5, 1), (3, 40), (1, 0)].map(|(words, steps)| source(words, steps));
    let outputs = check(nmt(), &sources, [7, 1, 40, 0]);
    // The other sentences of the mini-batch do not change the result.
    let mut engine = engine(nmt());
    let alone: Vec<Rows> =
        sources.chunks(1).flat_map(|source| engine.run(source).unwrap()).collect();
    assert_eq!(outputs, alone);
    // Without a fixed number of steps, an empty sentence takes at most ten.
    let empty = SourceSentence { words: vec![], stop: Stop::AtEnd };
    assert!((1..=10).contains(&engine.run(&[empty]).unwrap()[0].len()));
}

#[test]
fn batches_are_independent_of_sentences_and_memory_of_steps() {
    let run = |sentences: usize, steps: usize| {
        let mut engine = engine(nmt());
        engine.run(&vec![source(12, steps); sentences]).unwrap();
        *engine.statistics()
    };
    let (one, many, longer) = (run(1, 20), run(16, 20), run(16, 400));
    assert_eq!(one.batches, 13 + 2 * 20);
    assert_eq!(many.batches, one.batches);
    assert_eq!(longer.batches, 13 + 2 * 400);
    assert_eq!(longer.peak_bytes(), many.peak_bytes());
}

#[test]
fn exceeding_the_memory_limit_is_an_error_before_allocation() {
    let limited = |bytes: u64| {
        let model = TreeLstm::new(TREES).unwrap();
        let (parameters, options) =
            (random(model.network(), 11), EngineOptions::new().memory_limit(bytes));
        Engine::with_options(model, parameters, options).unwrap()
    };
    let mut roomy = limited(100_000);
    roomy.run(&[chain(300, 0)]).unwrap();
    let needed = roomy.statistics().peak_bytes();
    let mut exact = limited(needed);
    exact.run(&[chain(300, 0)]).unwrap();
    let mut tight = limited(needed - 1);
    let error = tight.run(&[chain(300, 0)]).unwrap_err();
    assert!(matches!(error, edbatch::RunError::Memory { limit, .. } if limit == needed - 1));
    assert!(error.to_string().contains("make mini-batches smaller"), "{error}");
    assert_eq!(*tight.statistics(), Statistics::default(), "failed mini-batches are not counted");
    // Smaller inputs still run afterwards.
    assert_eq!(tight.run(&[chain(3, 0)]).unwrap(), roomy.run(&[chain(3, 0)]).unwrap());
}

#[test]
fn new_inputs_join_running_inputs() {
    let lengths = [(5, 7), (1, 0), (3, 30), (8, 2), (0, 11), (2, 1), (4, 4)];
    let sources = lengths.map(|(words, steps)| source(words, steps));
    let mut engine = engine(nmt());
    let expected = engine.run(&sources).unwrap();
    for width in 1..=8 {
        let mut outputs = vec![Rows::new(); sources.len()];
        let before = *engine.statistics();
        engine
            .stream(width, sources.clone(), |number, rows| {
                outputs[number] = std::mem::take(rows.unwrap());
            })
            .unwrap();
        assert_eq!(outputs, expected, "{width} at once");
        let after = engine.statistics();
        assert_eq!(after.instances - before.instances, 7);
        // No node is computed twice, whatever the number of running inputs.
        assert_eq!(after.nodes - before.nodes, 23 + 7 + 2 * 55);
    }
    let mut wrong = vec![source(1, 1); 3];
    wrong[2].words[0] = 99;
    let mut failed = Vec::new();
    engine.stream(2, wrong, |number, rows| failed.extend(rows.err().map(|_| number))).unwrap();
    assert_eq!(failed, [2]);
}

#[test]
fn a_decoder_has_a_graph_for_every_step() {
    let mut engine = engine(nmt());
    let graphs = engine.graphs(&[source(3, 2), source(1, 4)]).unwrap();
    let nodes: Vec<usize> = graphs.iter().map(edbatch_graph::Dag::nodes).collect();
    assert_eq!(nodes, [4 + 2 + 2 * 2, 2 * 2, 2, 2, 0]);
}

fn engine<M: Model>(model: M) -> Engine<M> {
    let parameters = random(model.network(), 11);
    Engine::new(model, parameters).unwrap()
}

/// Runs all inputs in one mini-batch. Checks the numbers of rows, and the rows against the
/// interpreter.
fn check<M: Model + Clone, const N: usize>(
    model: M,
    inputs: &[M::Input; N],
    rows: [usize; N],
) -> Vec<Rows> {
    let parameters = random(model.network(), 11);
    let outputs = engine(model.clone()).run(inputs).unwrap();
    let expected = interpret(&model, &parameters, inputs, Precision::F32).unwrap().outputs;
    assert_eq!(outputs.iter().map(Rows::len).collect::<Vec<_>>(), rows);
    for (got, expected) in outputs.iter().zip(&expected) {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
            assert!((got - expected).abs() <= 1e-4, "{got}, expected {expected}");
        }
    }
    outputs
}

fn lattice(length: u32, words: &[(u32, u32)]) -> Lattice<u32> {
    let words = words.iter().map(|&(start, end)| WordArc { start, end, word: start % 9 });
    let chars = (0..length).map(|i| i % 9).collect();
    Lattice { chars, words: words.collect(), ..Lattice::default() }
}
