//! `edbatch init`: creates a model of any size with random weights.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use edbatch::models::{
    Folder, Lexicon, Model, ModelConfig, ModelName, Vocabularies, Zoo, build_vocabularies,
};
use edbatch_datasets::AtomicFolder;
use edbatch_graph::Network;
use edbatch_runtime::Parameters;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::failure::Failure;
use crate::train::folder::Lock;
use crate::{at_least_one, if_exists, memory, probability, same_file};

/// Creates a model folder: vocabularies, random weights and configuration.
///
/// Words are numbered by their first occurrence in the inputs, after `<unk>`; classes and tags come
/// from the labels: class numbers, if all are numbers (-1 means no class), else names in
/// classes.txt, in the order of their first occurrence. For bilstm_tagger_char, words that occur at
/// most five times are read by character. Weights are uniform in ±1/√columns. The first input
/// becomes the folder's default input, the second one of lstm_nmt its default targets. The same
/// arguments give the same files, byte by byte.
#[derive(Args)]
#[command(after_help = "\
Example:
  edbatch init tree_lstm model --hidden 64 --input train.txt.gz --seed 7
  edbatch infer model --input test.txt.gz --output logits.jsonl")]
pub(crate) struct Init {
    /// tree_lstm, tree_lstm_2type, tree_gru, mv_rnn, bilstm_tagger, bilstm_tagger_char, lstm_nmt,
    /// lattice_lstm or lattice_gru.
    model: ModelName,
    /// Folder to create. Files of an older model are replaced, including its weights; a checkpoint
    /// is removed.
    dir: PathBuf,
    /// Elements of a hidden vector.
    #[arg(long, value_name = "H", value_parser = at_least_one)]
    hidden: usize,
    /// Elements of an embedding. By default the same as --hidden.
    #[arg(long, value_name = "E", value_parser = at_least_one)]
    embed: Option<usize>,
    /// Files of inputs, plain or .gz. lstm_nmt needs two line-aligned files, source and target.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    input: Vec<PathBuf>,
    /// Probability with which training sets elements of embeddings, and of states that outputs
    /// read, to 0.
    #[arg(long, value_name = "P", value_parser = probability::<f32>)]
    dropout: Option<f32>,
    /// The same probability for states that outputs read. By default the value of --dropout.
    #[arg(long, value_name = "P", value_parser = probability::<f32>)]
    dropout_output: Option<f32>,
    /// Reads words that occur fewer than N times as `<unk>`, so that `<unk>` is trained.
    /// bilstm_tagger_char reads such words by character instead; there, N is 6 by default.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    min_count: Option<usize>,
    /// Seed of the weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Memory limit. By default the available memory.
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
}

impl Init {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        for input in &self.input {
            let files = Folder::files(&self.dir).map(|path| ("the model's", path));
            same_file::distinct(files, [("--input", input.as_path())])?;
        }
        let _lock = if self.dir.exists() { Some(Lock::new(&self.dir)?) } else { None };
        let counted = build_vocabularies(self.model.family(), &self.input, self.min_count)
            .map_err(Failure::new)?;
        let mut config = ModelConfig::new(self.model, self.hidden, self.embed, counted.outputs);
        (config.dropout, config.dropout_output) = (self.dropout, self.dropout_output);
        config.check().map_err(Failure::new)?;
        config.input = default_input(&self.input[0])?;
        if self.model == ModelName::LstmNmt {
            config.target = Some(default_input(&self.input[1])?);
        }
        let model = Zoo::new(&config, &counted.lexicon).map_err(Failure::new)?;
        // Three copies: the weights, their bytes, and the file contents.
        memory::check(&format!("this {}", self.model), 3 * bytes(model.network()), self.memory)?;
        self.write(&config, &counted.lexicon, model.network())
            .map_err(|error| Failure::writing(&self.dir, &error))?;
        eprintln!("edbatch: {}", summary(&counted));
        Ok(())
    }

    /// Writes to a temporary folder and then moves the files, so that a failure leaves nothing.
    fn write(
        &self,
        config: &ModelConfig,
        lexicon: &Lexicon,
        network: &Network,
    ) -> std::io::Result<()> {
        let dir = std::path::absolute(&self.dir)?;
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent)?;
        }
        let folder = AtomicFolder::create(&dir)?;
        Folder::write(config, lexicon, folder.partial())?;
        let parameters =
            Parameters::random(network, &mut Xoshiro256PlusPlus::seed_from_u64(self.seed));
        let weights = parameters.to_safetensors(network).map_err(std::io::Error::other)?;
        fs::write(folder.partial().join(Folder::WEIGHTS), weights)?;
        // Other files of an older model would not fit the new one.
        for name in [Folder::CLASSES, Folder::CHECKPOINT] {
            if_exists(fs::remove_file(dir.join(name)))?;
        }
        folder.finish()
    }
}

/// Returns the sizes of the vocabularies and the number of outputs, for example
/// `3 classes, 25 words`, and the labels and tokens that are left out. Special tokens such as
/// `<unk>` do not count.
fn summary(counted: &Vocabularies) -> String {
    let mut text = sizes(counted);
    if counted.unlabelled > 0 {
        text += &format!("; {} labels are -1, which means no class", counted.unlabelled);
    }
    if let [token, ..] = counted.unwritable.as_slice() {
        let tokens = counted.unwritable.len();
        text += &format!(
            "; {tokens} words or characters are <unk>, because they are empty or have line ends, \
             such as {token:?}"
        );
    }
    text
}

fn sizes(counted: &Vocabularies) -> String {
    let outputs = counted.outputs;
    let classes = |named: &Option<Vec<String>>| match named {
        Some(_) => format!("{outputs} classes, named in {}", Folder::CLASSES),
        None => format!("{outputs} classes"),
    };
    match &counted.lexicon {
        Lexicon::Trees { words, classes: named } => {
            format!("{}, {} words", classes(named), words.len() - 1)
        }
        Lexicon::Tagged { words, .. } => format!("{outputs} tags, {} words", words.len() - 1),
        Lexicon::Spelled { words, chars, .. } => {
            let (words, chars) = (words.len() - 1, chars.len() - 2);
            format!("{outputs} tags, {words} words, {chars} characters")
        }
        Lexicon::Translation { source, target } => {
            format!("{} source words, {} target words", source.len() - 3, target.len() - 3)
        }
        Lexicon::Lattices { chars, words, classes: named } => {
            let (chars, words) = (chars.len() - 1, words.len() - 1);
            format!("{}, {chars} characters, {words} words", classes(named))
        }
        Lexicon::CallLists(_) => unreachable!("no family has call lists"),
    }
}

/// Returns the absolute path of a file.
fn default_input(file: &Path) -> Result<String, Failure> {
    let absolute = fs::canonicalize(file).map_err(|error| Failure::at(file, error))?;
    let not_text = || Failure::at(file, "expected a file name in UTF-8");
    absolute.to_str().map(String::from).ok_or_else(not_text)
}

/// Returns the size of a network's weights in bytes.
fn bytes(network: &Network) -> u128 {
    let elements = |dims: &[usize]| dims.iter().map(|&dim| dim as u128).product::<u128>();
    network.parameters().iter().map(|parameter| 4 * elements(&parameter.dims)).sum()
}
