//! Gradients of the reference against PyTorch's autograd, and of whole networks against central
//! differences.
//!
//! The folders in `gradients/` next to this file have weights, examples, and the loss and gradients
//! that PyTorch computed in float64.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::models::{
    LatticeGru, LatticeLstm, LatticeSizes, LstmNmt, Model, ModelConfig, ModelName, MvRnn,
    MvRnnSizes, NmtSizes, SourceSentence, Stop, TreeGru, TreeLstm, TreeSizes, Zoo, ZooInput,
    build_vocabularies, inputs,
};
use edbatch::{Engine, Loss, LossGradients, TrainError, Trainer, interpret_gradients, load};
use edbatch_graph::{Graph, Network, ParameterId, Shape, training_network};
use edbatch_runtime::{Parameters, ReferenceTensor};
use edbatch_testing::networks::{Random, random_graph, random_network, with_second_lookups};
use edbatch_testing::shared;
use rand::SeedableRng;

use crate::differences::{Objective, check};
use crate::small::{forced, translator};

#[test]
fn gradients_equal_those_of_pytorch() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gradients");
    let mut folders: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert_eq!(folders.len(), 9);
    for dir in folders {
        let loaded = load(&dir).unwrap();
        let examples = loaded.folder.examples(&loaded.folder.input(), None).unwrap();
        let examples: Vec<_> = examples.collect::<Result<_, _>>().unwrap();
        let pairs = examples.iter().map(|(input, targets)| (input, targets.as_slice()));
        let reference = interpret_gradients(&loaded.model, &loaded.parameters, pairs).unwrap();
        compare(&dir, loaded.model.network(), &reference);
        let network = loaded.model.network().clone();
        let mut trainer = Trainer::new(loaded.model, loaded.parameters).unwrap();
        let (inputs, targets): (Vec<_>, Vec<_>) = examples.into_iter().unzip();
        let weight = 1.0 / inputs.len() as f32;
        let Loss { loss, terms } = trainer.accumulate(&inputs, &targets, weight).unwrap();
        let gradients = trainer.gradients().unwrap().to_dense(&network);
        let double = |values: &Vec<f32>| values.iter().map(|&g| f64::from(g)).collect();
        let parameters = gradients.iter().map(double).collect();
        let got = LossGradients { loss, terms, parameters, ..reference };
        compare(&dir, &network, &got);
    }
}

/// Compares a loss and its gradients with those in a folder.
pub(crate) fn compare(dir: &Path, network: &Network, got: &LossGradients) {
    let text = fs::read_to_string(dir.join("loss.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let loss = expected["loss"].as_f64().unwrap();
    assert!((got.loss - loss).abs() <= 1e-6 * loss, "{dir:?}: {loss}, got {}", got.loss);
    assert_eq!(got.terms, expected["terms"].as_u64().unwrap(), "{dir:?}");
    assert_eq!(got.instances, expected["instances"].as_u64().unwrap(), "{dir:?}");

    let bytes = fs::read(dir.join("gradients.safetensors")).unwrap();
    let expected = Parameters::from_safetensors(network, &bytes).unwrap();
    for (index, parameter) in network.parameters().iter().enumerate() {
        let expected = expected.get(ParameterId(index as u32));
        let greatest = expected.iter().fold(1e-5f64, |max, &g| max.max(f64::from(g).abs()));
        for (element, (&expected, &got)) in expected.iter().zip(&got.parameters[index]).enumerate()
        {
            assert!(
                (f64::from(expected) - got).abs() <= 1e-5 * greatest,
                "{dir:?}: {}[{element}]: expected {expected}, got {got}",
                parameter.name
            );
        }
    }
}

/// Values that are the maximum together share its gradient, as in PyTorch's `amax`.
#[test]
fn equal_values_share_the_gradient_of_their_maximum() {
    let mut network = Network::new();
    let one = network.record("one", [("x", Shape::Vector(2))]).unwrap();
    let kind = network.cell("max", one, |cell| cell.many("values", one).max::<1>().into()).unwrap();
    let training = training_network(&network, |_| true, |_| true).unwrap();
    let mut graph = Graph::new(Arc::new(network));
    let values = [graph.give(one), graph.give(one), graph.give(one)];
    let max = graph.call(kind, &[], &values).unwrap();
    let tensor = |x: [f64; 2]| vec![ReferenceTensor::from_shape_vec((2, 1), x.to_vec()).unwrap()];
    let given = [[1.0, 5.0], [3.0, 5.0], [3.0, 2.0]].map(tensor);
    let outputs = [(max, tensor([1.0, 4.0]))];
    let found =
        edbatch_runtime::interpret_gradients(&training, &graph, &[], &given, &outputs).given;
    let expected = [[0.0, 2.0], [0.5, 2.0], [0.5, 0.0]].map(tensor);
    assert_eq!(found, expected);
}

#[test]
fn gradients_of_random_networks_equal_central_differences() {
    let (mut checked, mut kinks, mut seed) = (0, 0, 0);
    while checked < 200 {
        seed += 1;
        let mut rng = Random::seed_from_u64(seed);
        let (network, initial) = random_network(&mut rng);
        let network = with_second_lookups(&network, &mut Random::seed_from_u64(seed));
        let training = training_network(&network, |_| true, |_| true).unwrap();
        let graph = random_graph(&Arc::new(network), initial, &mut rng);
        let objective = Objective::new(training, graph, &mut rng);
        match check(&objective, 1e-6, &mut rng) {
            true => checked += 1,
            false => kinks += 1,
        }
    }
    println!("{checked} networks checked, {kinks} near a kink");
    assert!(kinks < 200, "{kinks} networks near a kink");
}

/// Real inputs at a real size, along directions of length 1.
#[test]
fn gradients_of_nine_models_on_real_inputs_equal_central_differences() {
    use ModelName::*;
    const TREES: &[&str] = &["sst/test.txt.gz"];
    const SENTENCES: &[&str] = &["wikigold/wikigold.txt.gz"];
    const LATTICES: &[&str] = &["newswire/test.arcs.txt.gz"];
    let sets = [
        (TreeLstm, TREES),
        (TreeLstm2Type, TREES),
        (TreeGru, TREES),
        (MvRnn, TREES),
        (BiLstmTagger, SENTENCES),
        (BiLstmTaggerChar, SENTENCES),
        (LatticeLstm, LATTICES),
        (LatticeGru, LATTICES),
        (LstmNmt, &["iwslt15/tst2013.en.gz", "iwslt15/tst2013.vi.gz"]),
    ];
    let mut rng = Random::seed_from_u64(7);
    for (name, files) in sets {
        let paths = files.iter().map(|file| shared(Path::new("datasets").join(file)));
        let Some(paths) = paths.collect::<Option<Vec<PathBuf>>>() else { return };
        let gathered = build_vocabularies(name.family(), &paths, None).unwrap();
        // Each word of MV-RNN has a matrix.
        let hidden = if name == MvRnn { 32 } else { 128 };
        let config = ModelConfig::new(name, hidden, None, gathered.outputs);
        let lexicon = Arc::new(gathered.lexicon);
        let model = Zoo::new(&config, &lexicon).unwrap();
        let mut inputs: Vec<ZooInput> =
            inputs(&lexicon, &paths[0]).unwrap().take(2).map(Result::unwrap).collect();
        for input in &mut inputs {
            if let ZooInput::Source(source) = input {
                source.stop = Stop::Forced([5, 9, 7].into());
            }
        }
        let parameters = Parameters::random(model.network(), &mut rng);
        let network = model.network().clone();
        let graph = Engine::new(model, parameters).unwrap().graphs(&inputs).unwrap().remove(0);
        let training = training_network(&network, |_| true, |_| false).unwrap();
        let objective = Objective::new(training, graph, &mut rng);
        let mut point = objective.random_point(&mut rng);
        point.scale(0.1);
        let mut direction = objective.random_point(&mut rng);
        let elements = direction.parameters.iter().map(Vec::len).sum::<usize>();
        direction.scale((3.0 / elements as f64).sqrt());
        let expected = objective.difference(&point, &direction, 2e-3).expect("no kink");
        let got = objective.derivative(&point, &direction);
        let error = (expected - got).abs() / expected.abs().max(1e-3);
        assert!(error <= 1e-6, "{name:?}: expected {expected}, got {got}");
    }
}

#[test]
fn forward_calls_save_what_is_expensive_to_compute_again() {
    // By cell: the saved elements, as a multiple of H.
    type Saved = (Arc<Network>, Vec<(&'static str, usize)>);
    const H: usize = 8;
    let tree = TreeSizes { vocabulary: 9, embed: 5, hidden: H, classes: 3 };
    let lattice = LatticeSizes { chars: 9, words: 9, embed: 5, hidden: H, classes: 3 };
    let nmt = NmtSizes { source: 9, target: 9, embed: 5, hidden: H };
    let mv_rnn = MvRnnSizes { vocabulary: 9, hidden: H, classes: 3 };
    let networks: [Saved; 6] = [
        (
            TreeLstm::new(tree).unwrap().network().clone(),
            vec![("leaf", 3), ("node", 5), ("output", 0)],
        ),
        (
            TreeGru::new(TreeSizes { embed: H, ..tree }).unwrap().network().clone(),
            vec![("node", 6)],
        ),
        (MvRnn::new(mv_rnn).unwrap().network().clone(), vec![("node", 2)]),
        (LstmNmt::new(nmt).unwrap().network().clone(), vec![("encoder", 4), ("decoder", 4)]),
        (LatticeLstm::new(lattice).unwrap().network().clone(), vec![("char", 6), ("word", 6)]),
        (LatticeGru::new(lattice).unwrap().network().clone(), vec![("char", 4), ("word", 4)]),
    ];
    for (network, cells) in networks {
        let training = training_network(&network, |_| true, |_| false).unwrap();
        for (name, multiple) in cells {
            let cell = network.cells().iter().position(|cell| cell.name() == name).unwrap();
            let cell = &training.network.cells()[cell];
            let elements = |record| -> usize {
                training.network.fields(record).fields.iter().map(|f| f.shape.elements()).sum()
            };
            let saved = elements(cell.row()) - elements(cell.record());
            assert_eq!(saved, multiple * H, "{}", cell.display(&training.network));
        }
    }
}

#[test]
fn frozen_parameters_and_their_cells_have_no_gradients() {
    let sizes = TreeSizes { vocabulary: 9, embed: 5, hidden: 4, classes: 3 };
    let network = TreeLstm::new(sizes).unwrap().network().clone();
    let is_out = |id: ParameterId| network.parameter(id).name.starts_with("out.");
    let training = training_network(&network, is_out, |_| false).unwrap();
    let has_adjoint: Vec<bool> = training.adjoints.iter().map(Option::is_some).collect();
    assert_eq!(network.kind_names(), ["leaf", "node", "output"]);
    assert_eq!(has_adjoint, [false, false, true]);
    let output = training.adjoints[2].as_ref().unwrap();
    assert_eq!(output.contributions, [[None, None]]);
}

fn failure(examples: &[(SourceSentence, Vec<Option<u32>>)]) -> TrainError {
    let (model, parameters) = translator();
    let pairs = examples.iter().map(|(input, targets)| (input, targets.as_slice()));
    interpret_gradients(&model, &parameters, pairs).unwrap_err()
}

#[test]
fn invalid_examples_are_errors_that_name_the_input() {
    let good = (forced([5, 6]), vec![Some(5), None, Some(2)]);
    let text = |bad| failure(&[good.clone(), bad]).to_string();
    assert_eq!(
        text((forced([5]), vec![Some(5)])),
        "input 1: expected a target or none for each of 2 emitted rows, got 1"
    );
    assert_eq!(
        text((forced([5]), vec![Some(5), Some(9)])),
        "input 1, row 1: expected a target below 9, got 9"
    );
    assert_eq!(
        text((SourceSentence { words: vec![4], stop: Stop::AtEnd }, vec![])),
        "input 1 awaits a computed value, which has no gradient: train translators with \
         Stop::Forced"
    );
    assert!(text((forced([99]), vec![None, None])).starts_with("input 1: call of decoder:"));
}

#[test]
fn translations_along_given_words_emit_a_row_for_each_word_and_the_end() {
    let (model, parameters) = translator();
    let mut engine = Engine::new(model, parameters).unwrap();
    let greedy = SourceSentence { words: vec![4, 5], stop: Stop::After(4) };
    let rows = engine.run(std::slice::from_ref(&greedy)).unwrap().remove(0);
    let words: Vec<u32> = rows.iter().map(edbatch::models::arg_max).collect();
    // Along its own translation, a translator computes the same scores.
    let stop = Stop::Forced(words[..3].into());
    let graphs = engine.statistics().graphs;
    let forced = engine.run(&[SourceSentence { stop, ..greedy }]).unwrap().remove(0);
    assert_eq!(forced, rows);
    assert_eq!(engine.statistics().graphs - graphs, 1, "nothing is awaited");
}
