//! The model that a configuration names.

use std::sync::Arc;

use edbatch_datasets::Vocabulary;
use edbatch_graph::{CellError, Network, Op};
use edbatch_models::{Build, BuildError, Model, arg_max};

use crate::bilstm_tagger::Tagger;
use crate::bilstm_tagger_char::CharTagger;
use crate::lattice::LatticeKinds;
use crate::lstm_nmt::Translator;
use crate::tree::TreeKinds;
use crate::{
    BiLstmTagger, BiLstmTaggerChar, CharTaggerSizes, ConfigError, END, LatticeGru, LatticeLstm,
    LatticeSizes, Lexicon, LstmNmt, ModelConfig, ModelName, MvRnn, MvRnnSizes, NmtSizes,
    SourceSentence, Stop, TaggerSizes, TreeGru, TreeLstm, TreeLstm2Type, TreeSizes, ZooInput,
};

/// Any model of the zoo, for programs that choose the model at run time.
#[derive(Clone, Debug)]
pub struct Zoo {
    network: Arc<Network>,
    wiring: Wiring,
}

/// The kinds of a model, which wire its inputs.
#[derive(Clone, Debug)]
enum Wiring {
    Tree(TreeKinds<1, 1>),
    Tree2Type(TreeKinds<1, 2>),
    MvRnn(TreeKinds<2, 1>),
    Tagger(Tagger),
    CharTagger(CharTagger),
    Translator(Translator),
    Lattice(LatticeKinds),
}

macro_rules! wired {
    ($($model:ident: $wiring:ident),*) => {
        $(impl From<$model> for Zoo {
            fn from($model { network, kinds }: $model) -> Self {
                Self { network, wiring: Wiring::$wiring(kinds) }
            }
        })*
    };
}
wired!(
    TreeLstm: Tree,
    TreeLstm2Type: Tree2Type,
    TreeGru: Tree,
    MvRnn: MvRnn,
    BiLstmTagger: Tagger,
    BiLstmTaggerChar: CharTagger,
    LstmNmt: Translator,
    LatticeLstm: Lattice,
    LatticeGru: Lattice
);

impl Zoo {
    /// Returns true for a model that awaits computed values: its inputs have no call lists.
    #[must_use]
    pub fn awaits(&self) -> bool {
        matches!(self.wiring, Wiring::Translator(_))
    }

    /// Declares the model that the configuration names, with vocabularies of the lexicon's sizes.
    ///
    /// # Errors
    /// If a size is missing or invalid, or the lexicon is of another family.
    pub fn new(config: &ModelConfig, lexicon: &Lexicon) -> Result<Self, ConfigError> {
        use Lexicon::{Lattices, Spelled, Tagged, Translation, Trees};
        let &ModelConfig { model, hidden, embed, .. } = config;
        let classes = || config.size("classes", config.classes);
        let tree = |words: &Vocabulary| {
            let (vocabulary, classes) = (words.len(), classes()?);
            Ok::<_, ConfigError>(TreeSizes { vocabulary, embed, hidden, classes })
        };
        let lattice = |chars: &Vocabulary, words: &Vocabulary| {
            let (chars, words, classes) = (chars.len(), words.len(), classes()?);
            Ok::<_, ConfigError>(LatticeSizes { chars, words, embed, hidden, classes })
        };
        let zoo = match (model, lexicon) {
            (ModelName::TreeLstm, Trees { words, .. }) => {
                TreeLstm::new(tree(words)?).map(Self::from)
            }
            (ModelName::TreeLstm2Type, Trees { words, .. }) => {
                TreeLstm2Type::new(tree(words)?).map(Self::from)
            }
            (ModelName::TreeGru, Trees { words, .. }) => {
                let sizes = tree(words)?;
                config.expect("embed", embed, "\"hidden\"", hidden)?;
                TreeGru::new(sizes).map(Self::from)
            }
            (ModelName::MvRnn, Trees { words, .. }) => {
                let TreeSizes { vocabulary, classes, .. } = tree(words)?;
                MvRnn::new(MvRnnSizes { vocabulary, hidden, classes }).map(Self::from)
            }
            (ModelName::BiLstmTagger, Tagged { words, tags }) => {
                BiLstmTagger::new(tagger(config, words.len(), tags)?).map(Self::from)
            }
            (ModelName::BiLstmTaggerChar, Spelled { words, chars, tags }) => {
                let tagger = tagger(config, words.len(), tags)?;
                let char_embed = config.size("char_embed", config.char_embed)?;
                let char_hidden = config.size("char_hidden", config.char_hidden)?;
                config.expect("embed", embed, "2 × \"char_hidden\"", 2 * char_hidden)?;
                let sizes = CharTaggerSizes { tagger, chars: chars.len(), char_embed, char_hidden };
                BiLstmTaggerChar::new(sizes).map(Self::from)
            }
            (ModelName::LstmNmt, Translation { source, target }) => {
                let (source, target) = (source.len(), target.len());
                LstmNmt::new(NmtSizes { source, target, embed, hidden }).map(Self::from)
            }
            (ModelName::LatticeLstm, Lattices { chars, words, .. }) => {
                LatticeLstm::new(lattice(chars, words)?).map(Self::from)
            }
            (ModelName::LatticeGru, Lattices { chars, words, .. }) => {
                LatticeGru::new(lattice(chars, words)?).map(Self::from)
            }
            _ => {
                let family = model.family();
                return Err(ConfigError(format!("{model}: expected a lexicon for {family:?}")));
            }
        };
        let mut zoo = zoo.map_err(|error: CellError| ConfigError(error.to_string()))?;
        let embed = config.dropout.unwrap_or(0.0);
        let output = config.dropout_output.unwrap_or(embed);
        if embed > 0.0 || output > 0.0 {
            zoo.network =
                Arc::new(zoo.network.with_dropout(|cell, operation| match operation.op {
                    Op::Lookup { .. } => embed,
                    Op::Input { .. } if cell.name() == "output" => output,
                    _ => 0.0,
                }));
        }
        Ok(zoo)
    }
}

fn tagger(
    config: &ModelConfig,
    vocabulary: usize,
    names: &[String],
) -> Result<TaggerSizes, ConfigError> {
    let &ModelConfig { hidden, embed, .. } = config;
    let tags = config.size("tags", config.tags)?;
    config.expect("tags", tags, "the number of lines of tags.txt", names.len())?;
    let layers = config.size("layers", config.layers)?;
    let mlp = config.size("mlp", config.mlp)?;
    Ok(TaggerSizes { vocabulary, embed, hidden, layers, mlp, tags })
}

impl Model for Zoo {
    type Input = ZooInput;

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    fn work(&self, input: &ZooInput) -> usize {
        input.work()
    }

    fn bytes(&self, input: &ZooInput) -> usize {
        match (&self.wiring, input) {
            (Wiring::MvRnn(kinds), ZooInput::Tree(input)) => {
                kinds.bytes(&self.network, &input.tree)
            }
            _ => 0,
        }
    }

    async fn build(&self, build: &Build<'_>, input: &ZooInput) -> Result<(), BuildError> {
        use ZooInput::{Lattice, Sentence, Source, Spelled, Tree};
        match (&self.wiring, input) {
            (Wiring::Tree(kinds), Tree(input)) => kinds.build(build, &input.tree).await,
            (Wiring::Tree2Type(kinds), Tree(input)) => kinds.build(build, input).await,
            (Wiring::MvRnn(kinds), Tree(input)) => kinds.build(build, &input.tree).await,
            (Wiring::Tagger(kinds), Sentence(input)) => kinds.build(build, input).await,
            (Wiring::CharTagger(kinds), Spelled(input)) => kinds.build(build, input).await,
            // An empty source has no translation, unless a file of targets has one. The model would
            // decode from its initial state.
            (Wiring::Translator(_), Source(SourceSentence { words, stop }))
                if words.is_empty() && !matches!(stop, Stop::Forced(_)) =>
            {
                Ok(())
            }
            (Wiring::Translator(kinds), Source(input)) => kinds.build(build, input).await,
            (Wiring::Lattice(kinds), Lattice(input)) => kinds.build(build, input).await,
            _ => Err(wrong_input()),
        }
    }
}

pub(crate) fn wrong_input() -> BuildError {
    BuildError::Input("wrong kind of input for this model".into())
}

/// The outputs of one input as names: the tags of a sentence, or the words of a translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedOutputs<'a> {
    /// The name of the list in JSON: `tags` or `tokens`.
    pub key: &'static str,
    /// For each row, the name of the largest score; of equal ones, the first. Without [`END`].
    pub names: Vec<&'a str>,
}

impl Lexicon {
    /// Returns the name of the largest score in each row, or `None` for trees, lattices and call
    /// lists.
    pub fn decode<'r>(&self, rows: impl Iterator<Item = &'r [f32]>) -> Option<NamedOutputs<'_>> {
        self.names(rows.map(arg_max))
    }

    /// Returns the names of the largest scores with these indices, or `None` for trees, lattices
    /// and call lists.
    pub fn names(&self, ids: impl Iterator<Item = u32>) -> Option<NamedOutputs<'_>> {
        let (key, names): (_, Vec<&str>) = match self {
            Self::Trees { .. } | Self::Lattices { .. } | Self::CallLists(_) => return None,
            Self::Tagged { tags, .. } | Self::Spelled { tags, .. } => {
                ("tags", ids.map(|id| tags[id as usize].as_str()).collect())
            }
            Self::Translation { target, .. } => {
                let words = ids.filter(|&id| id != END);
                ("tokens", words.map(|id| target.tokens()[id as usize].as_str()).collect())
            }
        };
        Some(NamedOutputs { key, names })
    }
}
