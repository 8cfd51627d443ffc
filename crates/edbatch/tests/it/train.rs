//! Training: what is learned, bits of updated parameters, sums of several trainers, and errors.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use edbatch::models::{
    Folder, FolderModel, Model, ModelConfig, ModelName, Targets, Zoo, build_vocabularies,
};
use edbatch::{Engine, Loaded, Optimizer, TrainError, Trainer, TrainerOptions};
use edbatch_datasets::fixtures;
use edbatch_graph::{Kind, Network, Shape};
use edbatch_policy::{AnyPolicy, Frontier, Policy};
use edbatch_runtime::kernels::Level;
use edbatch_runtime::{Backend, Cpu, Gradients, Precision};
use edbatch_testing::policies;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::fn_model::{chain_model, random};
use crate::small::{changed, examples, sentence, tagger};

fn trainer(loaded: &Loaded, options: TrainerOptions) -> Trainer<FolderModel> {
    let parameters = loaded.parameters.for_network(loaded.model.network()).unwrap();
    Trainer::with_options(loaded.model.clone(), parameters, options).unwrap()
}

fn hash(slices: &[impl AsRef<[f32]>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let elements = slices.iter().flat_map(AsRef::as_ref);
    elements.for_each(|element| element.to_bits().hash(&mut hasher));
    hasher.finish()
}

/// Files with eight examples of a model, without contradictions.
fn eight(name: ModelName, dir: &Path) -> Vec<std::path::PathBuf> {
    use fixtures::text::*;
    let files: Vec<(&str, String)> = match name {
        ModelName::BiLstmTagger | ModelName::BiLstmTaggerChar => {
            vec![("tagged.txt", SENTENCES.into())]
        }
        ModelName::LstmNmt => vec![("source.txt", SOURCES.into()), ("target.txt", TARGETS.into())],
        ModelName::LatticeLstm | ModelName::LatticeGru => {
            let line = |line: &str| {
                let mut lattice: serde_json::Value = serde_json::from_str(line).unwrap();
                let class = |it: &serde_json::Value| {
                    let character = it.as_str().unwrap().chars().next().unwrap();
                    character as u32 % 4
                };
                let chars = lattice["chars"].as_array().unwrap();
                lattice["labels"] = chars.iter().map(class).collect::<Vec<_>>().into();
                format!("{lattice}\n")
            };
            vec![("lattices.jsonl", WEIBO.lines().map(line).collect())]
        }
        _ => vec![("trees.txt", BINARY_TREES.into())],
    };
    let write = |(name, text): (&str, String)| {
        fs::write(dir.join(name), text).unwrap();
        dir.join(name)
    };
    files.into_iter().map(write).collect()
}

/// The targets of the trees in the fixture. Equal subtrees get the label of the first one.
fn labels_of_trees() -> Vec<Targets> {
    let mut subtrees: HashMap<(Option<String>, Vec<u32>), u32> = HashMap::new();
    let mut labels: Vec<u32> = Vec::new();
    let trees = fixtures::binary_trees();
    let of_tree = trees.iter().map(|tree| {
        let mut numbers: Vec<u32> = Vec::new();
        let label = |node: usize| {
            let below = tree.children(node).iter().map(|&child| numbers[child as usize]).collect();
            let next = labels.len() as u32;
            let number = *subtrees.entry((tree.token(node).cloned(), below)).or_insert(next);
            if number == next {
                labels.push(tree.label(node).parse().unwrap());
            }
            numbers.push(number);
            Some(labels[number as usize])
        };
        (0..tree.len()).map(label).collect()
    });
    of_tree.collect()
}

/// Eight examples of each model, with Adam: a loss of at most 0.01 for each target.
#[test]
fn nine_models_learn_eight_examples_by_heart() {
    for name in ModelName::ALL {
        let dir = tempfile::tempdir().unwrap();
        let files = eight(name, dir.path());
        let gathered = build_vocabularies(name.family(), &files, None).unwrap();
        // Each word of MV-RNN has a matrix.
        let hidden = if name == ModelName::MvRnn { 16 } else { 48 };
        let mut config = ModelConfig::new(name, hidden, None, gathered.outputs);
        config.input = files[0].to_str().unwrap().into();
        config.target = files.get(1).map(|file| file.to_str().unwrap().into());
        Folder::write(&config, &gathered.lexicon, dir.path()).unwrap();
        let folder = Folder::read(dir.path()).unwrap();
        let examples = folder.examples(&files[0], None).unwrap();
        let (inputs, mut targets): (Vec<_>, Vec<_>) = examples.map(Result::unwrap).unzip();
        if files[0].ends_with("trees.txt") {
            targets = labels_of_trees();
        }
        assert_eq!((inputs.len(), targets.len()), (8, 8));
        let model = folder.model().unwrap();
        let parameters = random(model.network(), 1);
        let options = TrainerOptions::new().optimizer(Optimizer::adam(1e-2)).clip_norm(5.0);
        let mut trainer = Trainer::with_options(model, parameters, options).unwrap();
        let mut per_term = f64::INFINITY;
        let learned = (1..=300).find(|_| {
            let report = trainer.train(&inputs, &targets).unwrap();
            per_term = report.loss * inputs.len() as f64 / report.terms as f64;
            per_term <= 0.01
        });
        println!("{name:?}: {learned:?} updates, {per_term}");
        assert!(learned.is_some(), "{name:?}: a loss of {per_term} for each target");
    }
}

/// Runs some of the ready nodes of any kind.
struct AtRandom(Xoshiro256PlusPlus);

impl Policy for AtRandom {
    fn start(&mut self, _: &Frontier) {}

    fn next(&mut self, frontier: &Frontier) -> Kind {
        let kinds = (0..frontier.kinds()).map(Kind::new);
        let ready: Vec<Kind> = kinds.filter(|&kind| !frontier.ready(kind).is_empty()).collect();
        *ready.choose(&mut self.0).expect("a kind is ready")
    }

    fn count(&self, frontier: &Frontier, kind: Kind) -> usize {
        self.0.clone().random_range(1..=frontier.ready(kind).len())
    }

    fn fork(&self) -> AnyPolicy {
        Box::new(Self(self.0.clone()))
    }
}

/// Gradients, and parameters after three updates, have the same bits under all policies and
/// schedules, numbers of threads, parts and memory limits.
#[test]
fn bits_of_gradients_and_updated_parameters_depend_on_the_examples_alone() {
    for name in ModelName::ALL {
        let (loaded, (mut inputs, mut targets)) = examples(name);
        while inputs.len() < 70 {
            inputs.extend_from_within(..);
            targets.extend_from_within(..);
        }
        let updated = |options: TrainerOptions, batch: usize| {
            let mut trainer = trainer(&loaded, options.optimizer(Optimizer::adam_w(0.01)));
            let weight = 1.0 / inputs.len() as f32;
            // Old gradients are forgotten.
            trainer.accumulate(&inputs[..1], &targets[..1], weight).unwrap();
            trainer.clear_gradients();
            let mut first = None;
            for _ in 0..3 {
                let parts = inputs.chunks(batch).zip(targets.chunks(batch));
                let losses = parts.map(|(inputs, targets)| {
                    trainer.accumulate(inputs, targets, weight).unwrap().loss
                });
                let loss: f64 = losses.sum();
                let gradients = trainer.gradients().unwrap().to_dense(loaded.model.network());
                first.get_or_insert((hash(&gradients), loss));
                trainer.update().unwrap();
            }
            let (gradients, loss) = first.expect("three updates");
            ([gradients, hash(&trainer.parameters().unwrap().slices())], loss, trainer.bytes())
        };
        let (expected, loss, bytes) = updated(TrainerOptions::new(), inputs.len());
        assert_ne!(expected[1], hash(&loaded.parameters.slices()));
        let check = |what: &str, options, batch| {
            let (got, sum, _) = updated(options, batch);
            assert_eq!(got, expected, "{name:?}: {what}, parts of {batch}");
            assert!((sum - loss).abs() <= 1e-12 * loss, "{name:?}: {what}: {sum}, not {loss}");
        };
        let at_random = |seed| AtRandom(Xoshiro256PlusPlus::seed_from_u64(seed));
        let random: [(&str, AnyPolicy); 2] = [
            ("a random schedule", Box::new(at_random(1))),
            ("another random schedule", Box::new(at_random(2))),
        ];
        for (what, policy) in policies().into_iter().chain(random) {
            check(what, TrainerOptions::new().policy(policy), 64);
        }
        for threads in [1, 2, 3] {
            for batch in [1, 3, 64, inputs.len()] {
                check(&format!("{threads} threads"), TrainerOptions::new().threads(threads), batch);
            }
        }
        // Limits that cut the mini-batch into parts.
        for share in [2, 5] {
            let limit = (bytes.weights + bytes.arena / share) as u64;
            check("a memory limit", TrainerOptions::new().memory_limit(limit), inputs.len());
        }
    }
}

/// A trainer holds each weight four times with SGD: the parameter, two packed copies and its
/// gradient. Adam has two moments more.
#[test]
fn trainers_hold_each_weight_four_or_six_times() {
    for name in [ModelName::TreeLstm, ModelName::BiLstmTagger, ModelName::LatticeLstm] {
        let (loaded, (inputs, targets)) = examples(name);
        let config = loaded.folder.config().unwrap();
        // A multiple of the width of packed panels.
        let config = ModelConfig { hidden: 128, embed: 128, mlp: Some(128), ..config.clone() };
        let model = Zoo::new(&config, loaded.folder.lexicon()).unwrap();
        let parameters = random(model.network(), 1);
        for (optimizer, times) in [(Optimizer::sgd(0.1), 4), (Optimizer::adam(0.1), 6)] {
            let options = TrainerOptions::new().optimizer(optimizer);
            let (model, parameters) = (model.clone(), parameters.clone());
            let bytes = parameters.bytes();
            let mut trainer = Trainer::with_options(model, parameters, options).unwrap();
            for _ in 0..2 {
                trainer.train(&inputs, &targets).unwrap();
            }
            let held = trainer.bytes().weights;
            println!("{name}: {:.2} times", held as f64 / bytes as f64);
            assert!(held <= times * bytes, "{name}: {held} bytes for weights of {bytes}");
        }
    }
}

/// Two trainers with half of the examples each, as in two processes.
#[test]
fn trainers_that_exchange_sums_equal_one() {
    for name in ModelName::ALL {
        let (loaded, (inputs, targets)) = examples(name);
        let options = || TrainerOptions::new().optimizer(Optimizer::sgd(0.5)).clip_norm(3.0);
        let new = || trainer(&loaded, options());
        let (mut one, mut none, mut two) = (new(), new(), [new(), new()]);
        let (weight, middle) = (1.0 / inputs.len() as f32, inputs.len() / 2);
        let halves = [0..middle, middle..inputs.len()];
        for _ in 0..3 {
            one.train(&inputs, &targets).unwrap();
            // A sum that changes nothing.
            none.accumulate(&inputs, &targets, weight).unwrap();
            let gradients = none.gradients().unwrap();
            none.set_gradients(gradients).unwrap();
            none.update().unwrap();
            let mut sum = Gradients::default();
            for (trainer, half) in two.iter_mut().zip(halves.clone()) {
                trainer.accumulate(&inputs[half.clone()], &targets[half], weight).unwrap();
                let gradients = trainer.gradients().unwrap();
                match sum.parameters.is_empty() {
                    true => sum = gradients,
                    false => sum.add(&gradients),
                }
            }
            for trainer in &mut two {
                trainer.set_gradients(sum.clone()).unwrap();
                trainer.update().unwrap();
            }
        }
        let [first, second] = two.each_mut().map(|trainer| trainer.parameters().unwrap());
        assert!(
            first == second && one.parameters().unwrap() == none.parameters().unwrap(),
            "{name:?}"
        );
        let all = one.parameters().unwrap();
        for (all, of_two) in all.slices().iter().zip(first.slices()) {
            let greatest = all.iter().fold(0.0f32, |max, x| max.max(x.abs()));
            let near = all.iter().zip(of_two).all(|(a, b)| (a - b).abs() <= 1e-6 * greatest);
            assert!(near, "{name:?}");
        }
    }
}

/// Forks and snapshots: a fork of the backend sees updates, a snapshot of the parameters does not.
#[test]
fn forks_share_updates_and_snapshots_do_not() {
    let (loaded, (inputs, targets)) = examples(ModelName::TreeLstm);
    let network = loaded.model.network();
    let parameters = loaded.parameters.for_network(network).unwrap();
    let options = TrainerOptions::new;
    let program = Trainer::<FolderModel>::program(network, &options()).unwrap();
    let cpu = Cpu::new(program.clone(), &parameters, Level::detect(), Precision::F32).unwrap();
    let fork = cpu.fork();
    let with = |backend| {
        let (model, parameters) = (loaded.model.clone(), parameters.clone());
        Trainer::with_backend(model, parameters, program.clone(), backend, options()).unwrap()
    };
    let (mut trainer, mut of_fork) = (with(Box::new(cpu)), with(fork));
    let before = of_fork.forward(&inputs).unwrap();
    let report = trainer.train(&inputs, &targets).unwrap();
    let snapshot = trainer.parameters().unwrap();
    let after = of_fork.forward(&inputs).unwrap();
    assert!(before != after);
    let mut engine = Engine::new(loaded.model.clone(), snapshot.clone()).unwrap();
    assert!(engine.run(&inputs).unwrap() == after);
    let bits = hash(&snapshot.slices());
    let second = trainer.train(&inputs, &targets).unwrap();
    assert!(second.loss < report.loss && report.gradient_norm > 0.0);
    assert_eq!((report.terms, trainer.updates()), (second.terms, 2));
    assert!(
        hash(&snapshot.slices()) == bits && hash(&trainer.parameters().unwrap().slices()) != bits
    );
    assert!(hash(&loaded.parameters.slices()) == hash(&parameters.slices()));
    let parts = report.times;
    assert!([parts.forward, parts.back, parts.sums, parts.update].iter().all(|t| !t.is_zero()));
    assert!(trainer.times().forward >= parts.forward + second.times.forward);
}

/// A loss that is not finite leaves parameters, moments and the number of updates as they are. So
/// does an input that does not fit.
#[test]
fn steps_that_fail_change_nothing() {
    let model = tagger(1);
    // The last word's embedding.
    let embed = model.network().parameters().iter().position(|it| it.dims == [9, 4]).unwrap();
    let parameters = changed(model.network(), &random(model.network(), 3), |values| {
        values[embed][8 * 4 + 2] = f32::NAN;
    });
    let mut trainer = Trainer::new(model, parameters).unwrap();
    let good = ([sentence([1, 2])], [vec![Some(1), Some(2)]]);
    trainer.train(&good.0, &good.1).unwrap();
    let before = trainer.state().unwrap();
    let inputs = [sentence([1, 2]), sentence([1, 8])];
    let error = trainer.train(&inputs, &[vec![Some(0); 2], vec![Some(0); 2]]).unwrap_err();
    assert!(matches!(error, TrainError::NotFiniteLoss { input: 1, .. }), "{error}");
    let error = trainer.train(&inputs, &[vec![Some(0); 2], vec![Some(3); 2]]).unwrap_err();
    assert!(matches!(error, TrainError::Target { input: 1, target: 3, .. }), "{error}");
    assert!(trainer.state().unwrap() == before && trainer.updates() == 1);
    // The failed steps have left no gradients.
    trainer.train(&good.0, &good.1).unwrap();
    let state = trainer.state().unwrap();
    trainer.set_state(&before).unwrap();
    trainer.train(&good.0, &good.1).unwrap();
    assert!(trainer.state().unwrap() == state);
    // Nothing to learn from: no gradient, and Adam goes on by its moments.
    let report = trainer.train(&[], &[]).unwrap();
    assert_eq!((report.loss, report.terms, report.gradient_norm), (0.0, 0, 0.0));
}

/// A model with a transposed parameter, an initial value, a table that is also a factor, and a
/// parameter that is read element by element.
pub(crate) fn many_copies() -> impl Model<Input = Vec<u32>> + Clone {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(6))]).unwrap();
    let start = network.initial(state, &["start"]).unwrap();
    let step = network.cell("step", state, |cell| {
        let x = cell.lookup("word", "embed", &[6, 6]);
        let [h] = cell.one("state", state);
        let [w, u, embed] = ["w", "u", "embed"].map(|name| cell.parameter(name, &[6, 6]));
        let products = w.matmul(x) + w.transpose().matmul(h) + embed.matmul(u.matmul(h));
        vec![(products + u.transpose().matmul(x * cell.parameter("b", &[6]))).tanh()]
    });
    chain_model(network, step.unwrap(), start)
}

/// The parameters that the steps read are those that `parameters` returns, also after updates.
#[test]
fn all_copies_of_a_parameter_are_updated() {
    let model = many_copies();
    let parameters = random(model.network(), 9);
    let inputs = [vec![1, 2, 5], vec![3], vec![0, 0, 4, 1]];
    let targets = [vec![Some(1)], vec![Some(5)], vec![Some(0)]];
    let mut trainer = Trainer::new(model.clone(), parameters).unwrap();
    for _ in 0..3 {
        trainer.train(&inputs, &targets).unwrap();
        let snapshot = trainer.parameters().unwrap();
        let mut engine = Engine::new(model.clone(), snapshot.clone()).unwrap();
        assert!(trainer.forward(&inputs).unwrap() == engine.run(&inputs).unwrap());
        // The backward pass reads transposes, which only a new trainer packs again.
        let mut fresh = Trainer::new(model.clone(), snapshot).unwrap();
        let gradients = [&mut trainer, &mut fresh].map(|trainer| {
            trainer.accumulate(&inputs, &targets, 1.0).unwrap();
            trainer.gradients().unwrap()
        });
        assert!(gradients[0] == gradients[1]);
        trainer.clear_gradients();
    }
}
