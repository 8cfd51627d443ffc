//! Dropout: masks, their bits under all options of speed, and inference without them.

use edbatch::models::{
    Build, IndexedTree, Lexicon, Model, ModelConfig, ModelName, Targets, Zoo, ZooInput,
};
use edbatch::{Engine, Optimizer, Trainer, TrainerOptions};
use edbatch_datasets::fixtures;
use edbatch_graph::{Network, Shape};
use edbatch_runtime::{Parameters, Rows};
use edbatch_testing::policies;

use crate::fn_model::{FnModel, random, word_model};

const WIDTH: usize = 50;
const RATE: f32 = 0.25;

/// Emits the embedding of each word, with dropout.
fn embed() -> impl Model<Input = Vec<u32>> {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(WIDTH as u32))]).unwrap();
    let embed = network
        .cell("embed", state, |cell| vec![cell.lookup("word", "table", &[9, WIDTH]).dropout(RATE)]);
    word_model(network, embed.unwrap())
}

/// The table of [`embed`]: ones.
fn ones(network: &Network) -> Parameters {
    Parameters::from_values(network, vec![vec![1.0; 9 * WIDTH]]).unwrap()
}

fn new_trainer(options: TrainerOptions) -> Trainer<impl Model<Input = Vec<u32>>> {
    let model = embed();
    let ones = ones(model.network());
    Trainer::with_options(model, ones, options).unwrap()
}

fn elements(rows: &[Rows]) -> Vec<f32> {
    rows.iter().flat_map(|rows| rows.iter().flatten().copied()).collect()
}

#[test]
fn masks_have_the_mean_and_variance_of_the_rate() {
    let inputs: Vec<Vec<u32>> = vec![vec![3; 20]; 50];
    let mut trainer = new_trainer(TrainerOptions::new());
    let dropped = elements(&trainer.forward(&inputs).unwrap());
    assert!(dropped.iter().all(|&it| it == 0.0 || it == 1.0 / (1.0 - RATE)));
    let count = dropped.len() as f64;
    let mean = dropped.iter().map(|&it| f64::from(it)).sum::<f64>() / count;
    let variance = dropped.iter().map(|&it| (f64::from(it) - mean).powi(2)).sum::<f64>() / count;
    // The variance of a mask is p ÷ (1 − p), and the standard deviation of the mean of 50,000
    // elements 0.0026.
    assert!((mean - 1.0).abs() < 0.013, "{mean}");
    assert!((variance - 1.0 / 3.0).abs() < 0.013, "{variance}");
}

/// Returns the elements of all calls of a cell for each of its dropouts of a vector of ones: their
/// rates and widths.
fn dropped(dropouts: [(f32, u32); 2]) -> [Vec<f32>; 2] {
    let mut network = Network::new();
    let fields = ["a", "b"].into_iter().zip(dropouts.map(|(_, width)| Shape::Vector(width)));
    let both = network.record("both", fields).unwrap();
    let cell = network.cell("cell", both, |cell| {
        let one = |(rate, width)| cell.constant(1.0, Shape::Vector(width)).dropout(rate);
        dropouts.map(one).into()
    });
    let cell = cell.unwrap();
    let none = Parameters::from_values(&network, vec![]).unwrap();
    let model = FnModel::new(network, move |build: &Build<'_>, (): &()| {
        build.emit(build.call(cell, &[], &[])?);
        Ok(())
    });
    let mut trainer = Trainer::new(model, none).unwrap();
    let rows = trainer.forward(&[(); 400]).unwrap();
    let mut fields = [vec![], vec![]];
    for row in rows.iter().flat_map(|rows| rows.iter()) {
        let (a, b) = row.split_at(dropouts[0].1 as usize);
        fields[0].extend_from_slice(a);
        fields[1].extend_from_slice(b);
    }
    fields
}

#[test]
fn dropouts_of_one_width_keep_their_own_rates() {
    let rates = [0.5, 0.1];
    let fields = dropped(rates.map(|rate| (rate, 50)));
    for (rate, field) in rates.into_iter().zip(fields) {
        assert!(field.iter().all(|&it| it == 0.0 || it == 1.0 / (1.0 - rate)), "{rate}");
        let dropped = field.iter().filter(|&&it| it == 0.0).count() as f32 / field.len() as f32;
        // Five standard deviations of 20,000 elements.
        assert!((dropped - rate).abs() < 0.018, "{rate}: {dropped}");
    }
}

#[test]
fn masks_depend_on_seed_step_position_and_call() {
    fn forward(
        trainer: &mut Trainer<impl Model<Input = Vec<u32>>>,
        inputs: &[Vec<u32>],
    ) -> Vec<f32> {
        elements(&trainer.forward(inputs).unwrap())
    }
    let mut trainer = new_trainer(TrainerOptions::new().seed(1));
    let all = forward(&mut trainer, &[vec![3, 3], vec![3, 3]]);
    assert_eq!(all, forward(&mut trainer, &[vec![3, 3], vec![3, 3]]), "the same step");
    let calls: Vec<&[f32]> = all.chunks(WIDTH).collect();
    for (one, other) in [(0, 1), (0, 2), (1, 3)] {
        assert_ne!(calls[one], calls[other], "calls {one} and {other}");
    }
    // Masks of the second input depend on nothing of the first one.
    let other = forward(&mut trainer, &[vec![4, 4, 4], vec![3, 3]]);
    assert_eq!(all[2 * WIDTH..], other[3 * WIDTH..]);
    // Inputs are numbered on, until the update.
    let no_gradients = [Rows::new(), Rows::new()].map(|mut rows| {
        (0..2).for_each(|_| rows.push(&[]));
        rows
    });
    trainer.forward(&[vec![3, 3], vec![3, 3]]).unwrap();
    trainer.backward(&no_gradients).unwrap();
    assert_ne!(all[..2 * WIDTH], forward(&mut trainer, &[vec![3, 3]])[..]);
    trainer.update().unwrap();
    assert_ne!(all[..2 * WIDTH], forward(&mut trainer, &[vec![3, 3]])[..], "the next step");
    trainer.set_updates(0);
    assert_eq!(all[..2 * WIDTH], forward(&mut trainer, &[vec![3, 3]])[..], "the first step again");
    let mut trainer = new_trainer(TrainerOptions::new().seed(2));
    assert_ne!(all[..2 * WIDTH], forward(&mut trainer, &[vec![3, 3]])[..], "another seed");
}

#[test]
fn gradients_pass_masks_and_inference_has_none() {
    let model = embed();
    let ones = ones(model.network());
    let mut engine = Engine::new(model, ones).unwrap();
    let inputs = [vec![3_u32]];
    assert!(elements(&engine.run(&inputs).unwrap()).iter().all(|&it| it == 1.0));
    let mut trainer = new_trainer(TrainerOptions::new().without_dropout());
    assert!(elements(&trainer.forward(&inputs).unwrap()).iter().all(|&it| it == 1.0));
    let mut trainer = new_trainer(TrainerOptions::new());
    let masks = elements(&trainer.forward(&inputs).unwrap());
    let mut gradient = Rows::new();
    gradient.push(&[2.0; WIDTH]);
    trainer.backward(&[gradient]).unwrap();
    let network = trainer.model().network().clone();
    let gradients = trainer.gradients().unwrap().to_dense(&network);
    let expected: Vec<f32> = masks.iter().map(|mask| 2.0 * mask).collect();
    assert_eq!(gradients[0][3 * WIDTH..4 * WIDTH], expected);
    assert_eq!(gradients.len(), 1, "masks have no gradients");
}

/// Trees with labels, and a TreeLSTM with dropout.
pub(crate) fn trees(dropout: f32) -> (Zoo, Parameters, Vec<ZooInput>, Vec<Targets>) {
    let mut words = edbatch_datasets::Vocabulary::new();
    let trees = fixtures::binary_trees();
    for token in trees.iter().flat_map(|tree| tree.tokens()) {
        words.insert(token);
    }
    let targets = trees
        .iter()
        .map(|tree| (0..tree.len()).map(|node| Some(tree.label(node).parse().unwrap())).collect());
    let targets: Vec<Targets> = targets.collect();
    let lexicon = Lexicon::Trees { words, classes: None };
    let mut config = ModelConfig::new(ModelName::TreeLstm, 12, None, 5);
    config.dropout = Some(dropout);
    let zoo = Zoo::new(&config, &lexicon).unwrap();
    let parameters = random(zoo.network(), 5);
    let Lexicon::Trees { words, .. } = &lexicon else { unreachable!() };
    let inputs = trees.iter().map(|tree| {
        let tree = tree.map(|_| 0, |token| words.id(token));
        ZooInput::Tree(IndexedTree { index: 0, tree })
    });
    (zoo, parameters, inputs.collect(), targets)
}

/// The weights after three updates: with whole mini-batches, or in several calls of `accumulate`.
fn trained(options: TrainerOptions, chunk: usize) -> Vec<Vec<u32>> {
    let (model, parameters, inputs, targets) = trees(0.5);
    let mut trainer = Trainer::with_options(model, parameters, options.seed(7)).unwrap();
    for _ in 0..3 {
        for (inputs, targets) in inputs.chunks(chunk).zip(targets.chunks(chunk)) {
            trainer.accumulate(inputs, targets, 0.125).unwrap();
        }
        trainer.update().unwrap();
    }
    let bits = |slice: &[f32]| slice.iter().map(|element| element.to_bits()).collect();
    trainer.parameters().unwrap().slices().into_iter().map(bits).collect()
}

#[test]
fn weights_have_the_same_bits_under_all_options_of_speed() {
    let options = || TrainerOptions::new().optimizer(Optimizer::adam(1e-2));
    let expected = trained(options(), 8);
    for (name, policy) in policies() {
        assert_eq!(trained(options().policy(policy), 8), expected, "{name}");
    }
    for threads in [2, 3] {
        assert_eq!(trained(options().threads(threads), 8), expected, "{threads} threads");
    }
    for chunk in [1, 3] {
        assert_eq!(trained(options(), chunk), expected, "{chunk} inputs at a time");
    }
    // A limit that cuts the mini-batch into parts.
    let (model, parameters, inputs, targets) = trees(0.5);
    let mut trainer = Trainer::with_options(model, parameters, options()).unwrap();
    trainer.train(&inputs, &targets).unwrap();
    let bytes = trainer.bytes();
    let limit = (bytes.weights + bytes.arena / 2) as u64;
    assert_eq!(trained(options().memory_limit(limit), 8), expected, "a memory limit");
    // Dropout changes the weights.
    let (model, parameters, inputs, targets) = trees(0.0);
    let mut trainer = Trainer::with_options(model, parameters, options()).unwrap();
    trainer.train(&inputs, &targets).unwrap();
    let (model, parameters, ..) = trees(0.5);
    let mut other = Trainer::with_options(model, parameters, options()).unwrap();
    other.train(&inputs, &targets).unwrap();
    assert_ne!(trainer.parameters().unwrap(), other.parameters().unwrap());
}

#[test]
fn a_state_goes_on_with_the_same_masks() {
    let (model, parameters, inputs, targets) = trees(0.5);
    let options = || TrainerOptions::new().seed(3);
    let mut one = Trainer::with_options(model.clone(), parameters.clone(), options()).unwrap();
    one.train(&inputs, &targets).unwrap();
    let state = one.state().unwrap();
    let mut other = Trainer::with_options(model, parameters, options()).unwrap();
    other.set_state(&state).unwrap();
    for trainer in [&mut one, &mut other] {
        trainer.train(&inputs, &targets).unwrap();
    }
    assert!(one.parameters().unwrap() == other.parameters().unwrap());
    assert_eq!(state, {
        other.set_state(&state).unwrap();
        other.state().unwrap()
    });
}
