//! Every model against the outputs of an independent float64 program.
//!
//! Each model has a folder of expected outputs: three inputs in `goldens-small/` next to this file,
//! and more in `$EDBATCH_SHARED/goldens/` if that variable is set. Outputs must agree within 1e-4,
//! with any mini-batch size, with any policy, and with the interpreter. On the CPU, all mini-batch
//! sizes and policies must give the same bits.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use edbatch::{Engine, EngineOptions, Rows, RunOptions, interpret};
use edbatch_datasets::{Lattice, Sentence, Tree, Vocabulary};
use edbatch_datasets::{read_binary_trees, read_lattices, read_plain, read_sentences};
use edbatch_graph::{Dag, Graph, Network};
use edbatch_layout::{CellStyle, Program};
use edbatch_models::*;
use edbatch_policy::{
    Agenda, Beam, Critical, Depth, Encoding, LearningConfig, Policy, Sufficient, TrainingSet, learn,
};
use edbatch_runtime::Parameters;
#[cfg(feature = "cuda")]
use edbatch_runtime::kernels::Level;
use edbatch_testing::shared;
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use serde_json::Value;

#[test]
fn tree_lstm() {
    for golden in Golden::all("tree_lstm") {
        golden.check(TreeLstm::new(golden.tree_sizes()).unwrap(), &golden.trees());
    }
}

#[test]
fn tree_lstm_2type() {
    for golden in Golden::all("tree_lstm_2type") {
        let trees = golden.trees().into_iter().zip(0..);
        let inputs: Vec<_> = trees.map(|(tree, index)| IndexedTree { index, tree }).collect();
        golden.check(TreeLstm2Type::new(golden.tree_sizes()).unwrap(), &inputs);
    }
}

#[test]
fn tree_gru() {
    for golden in Golden::all("tree_gru") {
        golden.check(TreeGru::new(golden.tree_sizes()).unwrap(), &golden.trees());
    }
}

#[test]
fn mv_rnn() {
    for golden in Golden::all("mv_rnn") {
        let TreeSizes { vocabulary, hidden, classes, .. } = golden.tree_sizes();
        let model = MvRnn::new(MvRnnSizes { vocabulary, hidden, classes }).unwrap();
        golden.check(model, &golden.trees());
    }
}

#[test]
fn bilstm_tagger() {
    for golden in Golden::all("bilstm_tagger") {
        let words = golden.vocabulary("vocab.txt");
        let sentences = golden.sentences();
        let inputs: Vec<_> = sentences.iter().map(|s| s.map(|word| words.id(word))).collect();
        let outputs = golden.check(BiLstmTagger::new(golden.tagger_sizes()).unwrap(), &inputs);
        golden.check_names("tags", &outputs, &golden.lines("tags.txt"), None);
    }
}

#[test]
fn bilstm_tagger_char() {
    for golden in Golden::all("bilstm_tagger_char") {
        let (words, chars) = (golden.vocabulary("vocab.txt"), golden.vocabulary("chars.txt"));
        let spell = |word: &String| match words.contains(word) {
            true => Word::Known(words.id(word)),
            false => Word::Spelled(word.chars().map(|char| chars.id(&char.to_string())).collect()),
        };
        let inputs: Vec<_> = golden.sentences().iter().map(|s| s.map(spell)).collect();
        let sizes = CharTaggerSizes {
            tagger: golden.tagger_sizes(),
            chars: chars.len(),
            char_embed: golden.size("char_embed"),
            char_hidden: golden.size("char_hidden"),
        };
        let outputs = golden.check(BiLstmTaggerChar::new(sizes).unwrap(), &inputs);
        golden.check_names("tags", &outputs, &golden.lines("tags.txt"), None);
    }
}

#[test]
fn lstm_nmt() {
    for golden in Golden::all("lstm_nmt") {
        let (source, target) =
            (golden.vocabulary("src_vocab.txt"), golden.vocabulary("tgt_vocab.txt"));
        let sizes = NmtSizes {
            source: source.len(),
            target: target.len(),
            embed: golden.size("embed"),
            hidden: golden.size("hidden"),
        };
        let sentences = read_plain(golden.input()).unwrap();
        let inputs: Vec<_> = sentences
            .iter()
            .map(|words| SourceSentence {
                words: words.iter().map(|word| source.id(word)).collect(),
                stop: Stop::AtEnd,
            })
            .collect();
        let model = LstmNmt::new(sizes).unwrap();
        let outputs = golden.check(model, &inputs);
        golden.check_names("tokens", &outputs, target.tokens(), Some(END));
    }
}

#[test]
fn lattice_lstm() {
    for golden in Golden::all("lattice_lstm") {
        let (sizes, inputs) = golden.lattices();
        golden.check(LatticeLstm::new(sizes).unwrap(), &inputs);
    }
}

#[test]
fn lattice_gru() {
    for golden in Golden::all("lattice_gru") {
        let (sizes, inputs) = golden.lattices();
        golden.check(LatticeGru::new(sizes).unwrap(), &inputs);
    }
}

/// A model's folder of goldens, which are inputs with expected outputs.
struct Golden {
    folder: PathBuf,
    config: Value,
    expected: Vec<Value>,
}

impl Golden {
    /// Reads the small goldens of a model, and the large ones if they are available.
    fn all(model: &str) -> Vec<Self> {
        let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens-small");
        let mut goldens = vec![Self::read(&small.join(model))];
        goldens.extend(shared(Path::new("goldens").join(model)).as_deref().map(Self::read));
        goldens
    }

    fn read(folder: &Path) -> Self {
        let config = fs::read_to_string(folder.join("config.json")).unwrap();
        let expected = fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        let expected: Vec<Value> =
            expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(expected.len() >= 3, "{}: expected at least 3 instances", folder.display());
        let config = serde_json::from_str(&config).unwrap();
        Self { folder: folder.to_owned(), config, expected }
    }

    fn size(&self, key: &str) -> usize {
        self.config[key].as_u64().unwrap_or_else(|| panic!("{key} in config.json")) as usize
    }

    fn input(&self) -> PathBuf {
        self.folder.join(self.config["input"].as_str().unwrap())
    }

    fn vocabulary(&self, file: &str) -> Vocabulary {
        Vocabulary::read(self.folder.join(file)).unwrap()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        text.lines().map(String::from).collect()
    }

    fn tree_sizes(&self) -> TreeSizes {
        TreeSizes {
            vocabulary: self.vocabulary("vocab.txt").len(),
            embed: self.size("embed"),
            hidden: self.size("hidden"),
            classes: self.size("classes"),
        }
    }

    fn trees(&self) -> Vec<Tree<u32>> {
        let words = self.vocabulary("vocab.txt");
        let trees = read_binary_trees(self.input()).unwrap();
        trees.iter().map(|tree| tree.map(|_| 0, |token| words.id(token))).collect()
    }

    fn tagger_sizes(&self) -> TaggerSizes {
        TaggerSizes {
            vocabulary: self.vocabulary("vocab.txt").len(),
            embed: self.size("embed"),
            hidden: self.size("hidden"),
            layers: self.size("layers"),
            mlp: self.size("mlp"),
            tags: self.size("tags"),
        }
    }

    fn sentences(&self) -> Vec<Sentence> {
        read_sentences(self.input()).unwrap()
    }

    fn lattices(&self) -> (LatticeSizes, Vec<Lattice<u32>>) {
        let (chars, words) = (self.vocabulary("chars.txt"), self.vocabulary("words.txt"));
        let sizes = LatticeSizes {
            chars: chars.len(),
            words: words.len(),
            embed: self.size("embed"),
            hidden: self.size("hidden"),
            classes: self.size("classes"),
        };
        let lattices = read_lattices(self.input()).unwrap();
        (sizes, lattices.iter().map(|l| l.map(|c| chars.id(c), |w| words.id(w))).collect())
    }

    /// Compares the outputs of every configuration with the expected ones, and returns them.
    fn check<M>(&self, model: M, inputs: &[M::Input]) -> Vec<Rows>
    where
        M: Model + Clone,
    {
        let weights = fs::read(self.folder.join("weights.safetensors")).unwrap();
        let parameters = Parameters::from_safetensors(model.network(), &weights).unwrap();
        for size in SIZES {
            let of = |inputs| interpret(&model, &parameters, inputs).unwrap().outputs;
            let outputs: Vec<Rows> = inputs.chunks(size).flat_map(of).collect();
            self.compare(&outputs, &format!("interpreted, {size}"));
        }
        let mut plain = Engine::new(model.clone(), parameters.clone()).unwrap();
        let graph = plain.graphs(inputs).unwrap().remove(0);
        let mut first: Option<Vec<Rows>> = None;
        for (index, (name, policy)) in policies(&graph).into_iter().enumerate() {
            let (model, threads) = (model.clone(), 1 + index % 3);
            let options = EngineOptions::new().threads(threads);
            let mut engine = Engine::with_options(model, parameters.clone(), options).unwrap();
            policy.into_iter().for_each(|policy| engine.set_policy(policy));
            for size in SIZES {
                let outputs = run(&mut engine, inputs, size);
                let what = format!("{name}, mini-batches of {size}");
                self.compare(&outputs, &what);
                let first = first.get_or_insert_with(|| outputs.clone());
                assert!(bits(&outputs).eq(bits(first)), "{what}: different bits");
            }
        }
        let first = first.expect("there are policies");
        let half = some_tables(model.network());
        for (tables, threads) in [(u64::MAX, 1), (u64::MAX, 2), (half, 3)] {
            let options = EngineOptions::new().fold_tables(tables).threads(threads);
            let mut engine =
                Engine::with_options(model.clone(), parameters.clone(), options).unwrap();
            for size in SIZES {
                let same = bits(&run(&mut engine, inputs, size)).eq(bits(&first));
                assert!(same, "folded, mini-batches of {size}: different bits");
                check_indices(&mut engine, inputs, size, &first);
            }
            let mut streamed = vec![Rows::new(); inputs.len()];
            let done = |number: usize, rows: Result<&mut Rows, _>| {
                streamed[number].clone_from(rows.unwrap());
            };
            engine.stream(3, inputs, done).unwrap();
            assert!(bits(&streamed).eq(bits(&first)), "streamed: other bits");
        }
        #[cfg(feature = "cuda")]
        self.check_on_devices(&model, &parameters, inputs, &first);
        first
    }

    /// Checks that emulated devices compute the same bits as the CPU, in any order of their
    /// threads, blocks and jobs.
    #[cfg(feature = "cuda")]
    fn check_on_devices<M: Model + Clone>(
        &self,
        model: &M,
        parameters: &Parameters,
        inputs: &[M::Input],
        expected: &[Rows],
    ) {
        // A compile takes seconds.
        let small = self.folder.iter().any(|part| part == "goldens-small");
        let (hoisted, planned) = (CellStyle::Hoisted, CellStyle::Planned);
        let ways = [(hoisted, 0), (hoisted, u64::MAX), (planned, 0)];
        for (style, folded) in ways.into_iter().take(1 + 2 * usize::from(small)) {
            let program = Program::new(model.network().clone(), style).unwrap();
            let program = Arc::new(program.fold_tables(folded));
            if Level::detect() == Level::Portable {
                return edbatch_testing::skip("this level of the CPU rounds products");
            }
            for driver in emulated::DRIVERS {
                let backend = emulated::backend(program.clone(), parameters, driver);
                let Some(backend) = backend else { return };
                let (model, program) = (model.clone(), program.clone());
                let options = EngineOptions::new();
                let engine = Engine::with_backend(model, parameters, program, backend, options);
                let mut engine = engine.unwrap();
                for size in SIZES {
                    let outputs = run(&mut engine, inputs, size);
                    let what = format!("{driver:?}, {style:?}, mini-batches of {size}");
                    self.compare(&outputs, &what);
                    assert!(bits(&outputs).eq(bits(expected)), "{what}: different bits");
                }
                check_indices(&mut engine, inputs, SIZES[2], expected);
            }
        }
    }

    fn compare(&self, outputs: &[Rows], what: &str) {
        assert_eq!(outputs.len(), self.expected.len(), "{what}: instances");
        for (instance, (rows, expected)) in outputs.iter().zip(&self.expected).enumerate() {
            let expected = expected["logits"].as_array().unwrap();
            assert_eq!(rows.len(), expected.len(), "{what}: rows of instance {instance}");
            for (index, (row, expected)) in rows.iter().zip(expected).enumerate() {
                let expected: Vec<f64> =
                    expected.as_array().unwrap().iter().map(|e| e.as_f64().unwrap()).collect();
                assert_eq!(row.len(), expected.len(), "{what}: row {index} of {instance}");
                let far = |(&got, want): (&f32, &f64)| (f64::from(got) - want).abs() > 1e-4;
                let near = !row.iter().zip(&expected).any(far) && row.iter().all(|e| !e.is_nan());
                assert!(near, "{what}: row {index} of {instance}: {row:?}, expected {expected:?}");
            }
        }
    }

    /// Checks the name of the largest score of each row, except where this score is at `end`.
    fn check_names(&self, key: &str, outputs: &[Rows], names: &[String], end: Option<u32>) {
        for (rows, expected) in outputs.iter().zip(&self.expected) {
            let ids = rows.iter().map(arg_max).filter(|&id| Some(id) != end);
            let got: Vec<&str> = ids.map(|id| names[id as usize].as_str()).collect();
            assert_eq!(expected[key], Value::from(got));
        }
    }
}

const SIZES: [usize; 3] = [1, 3, 64];

/// Returns a number of bytes for folded tables that is enough for some of a network's tables, if it
/// has several.
fn some_tables(network: &Arc<Network>) -> u64 {
    let program = Program::new(network.clone(), CellStyle::default()).unwrap();
    2 * program.fold_tables(u64::MAX).folded_elements() as u64
}

#[cfg(feature = "cuda")]
#[path = "support/emulated.rs"]
mod emulated;

fn run<M: Model>(engine: &mut Engine<M>, inputs: &[M::Input], size: usize) -> Vec<Rows> {
    inputs.chunks(size).flat_map(|mini_batch| engine.run(mini_batch).unwrap()).collect()
}

/// Checks the argmax of each row, computed without copying the scores.
fn check_indices<M: Model>(
    engine: &mut Engine<M>,
    inputs: &[M::Input],
    size: usize,
    expected: &[Rows],
) {
    let chunks = inputs.chunks(size);
    let options = RunOptions::new();
    let got = chunks.flat_map(|chunk| engine.run_each_arg_max(chunk, &options).unwrap());
    let got: Result<Vec<_>, _> = got.collect();
    assert_eq!(got, Ok(indices(expected)), "mini-batches of {size}");
}

fn indices(outputs: &[Rows]) -> Vec<Vec<u32>> {
    outputs.iter().map(|rows| rows.iter().map(arg_max).collect()).collect()
}

fn bits(outputs: &[Rows]) -> impl Iterator<Item = u32> {
    outputs.iter().flat_map(Rows::iter).flatten().map(|element| element.to_bits())
}

/// Returns every policy. `None` is the engine's default.
fn policies(graph: &Graph) -> [(&'static str, Option<Box<dyn Policy + Send>>); 7] {
    let graphs = std::slice::from_ref(graph);
    let config = LearningConfig::new(20);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let set = TrainingSet::new(graphs, &[]).unwrap();
    let learned = learn(&set, Encoding::Sort, &config, &mut rng, |_| ());
    [
        ("default", None),
        ("depth", Some(Box::new(Depth::new()))),
        ("agenda", Some(Box::new(Agenda::new()))),
        ("sufficient", Some(Box::new(Sufficient::new()))),
        ("critical", Some(Box::new(Critical::new()))),
        ("beam", Some(Box::new(Beam::new(3)))),
        ("fsm", Some(Box::new(learned.fsm(Encoding::Sort, graph.kinds())))),
    ]
}
