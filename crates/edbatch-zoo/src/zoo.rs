//! The model that a configuration names.

use std::sync::Arc;

use edbatch_graph::{CellError, Dag, Network, Op};
use edbatch_models::{Build, BuildError, CallLists, Model, arg_max};

use crate::{
    BiLstmTagger, BiLstmTaggerChar, CharTaggerSizes, ConfigError, END, LatticeGru, LatticeLstm,
    LatticeSizes, Lexicon, LstmNmt, ModelConfig, ModelName, MvRnn, MvRnnSizes, NmtSizes,
    SourceSentence, Stop, TaggerSizes, TreeGru, TreeLstm, TreeLstm2Type, TreeSizes, ZooInput,
};

/// Any model of the zoo, or any network, for programs that choose the model at run time.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each variant contains the model of its name")]
pub enum Zoo {
    TreeLstm(TreeLstm),
    TreeLstm2Type(TreeLstm2Type),
    TreeGru(TreeGru),
    MvRnn(MvRnn),
    BiLstmTagger(BiLstmTagger),
    BiLstmTaggerChar(BiLstmTaggerChar),
    LstmNmt(LstmNmt),
    LatticeLstm(LatticeLstm),
    LatticeGru(LatticeGru),
    CallLists(CallLists),
}

impl Zoo {
    /// Returns true for a model that awaits computed values: its inputs have no call lists.
    #[must_use]
    pub fn awaits(&self) -> bool {
        matches!(self, Self::LstmNmt(_))
    }

    /// Declares the model that the configuration names, with vocabularies of the lexicon's sizes.
    ///
    /// # Errors
    /// If a size is missing or invalid, or the lexicon is of another family.
    pub fn new(config: &ModelConfig, lexicon: &Lexicon) -> Result<Self, ConfigError> {
        let &ModelConfig { model, hidden, embed, .. } = config;
        let zoo = match lexicon {
            Lexicon::Trees { words, .. } => {
                let classes = config.size("classes", config.classes)?;
                let vocabulary = words.len();
                let sizes = TreeSizes { vocabulary, embed, hidden, classes };
                match model {
                    ModelName::TreeLstm => TreeLstm::new(sizes).map(Self::TreeLstm),
                    ModelName::TreeLstm2Type => TreeLstm2Type::new(sizes).map(Self::TreeLstm2Type),
                    ModelName::TreeGru => {
                        config.expect("embed", embed, "\"hidden\"", hidden)?;
                        TreeGru::new(sizes).map(Self::TreeGru)
                    }
                    ModelName::MvRnn => {
                        let sizes = MvRnnSizes { vocabulary, hidden, classes };
                        MvRnn::new(sizes).map(Self::MvRnn)
                    }
                    _ => return Err(other_family(model)),
                }
            }
            Lexicon::Tagged { words, tags } if model == ModelName::BiLstmTagger => {
                BiLstmTagger::new(tagger(config, words.len(), tags)?).map(Self::BiLstmTagger)
            }
            Lexicon::Spelled { words, chars, tags } if model == ModelName::BiLstmTaggerChar => {
                let tagger = tagger(config, words.len(), tags)?;
                let char_embed = config.size("char_embed", config.char_embed)?;
                let char_hidden = config.size("char_hidden", config.char_hidden)?;
                config.expect("embed", embed, "2 × \"char_hidden\"", 2 * char_hidden)?;
                let sizes = CharTaggerSizes { tagger, chars: chars.len(), char_embed, char_hidden };
                BiLstmTaggerChar::new(sizes).map(Self::BiLstmTaggerChar)
            }
            Lexicon::Translation { source, target } if model == ModelName::LstmNmt => {
                let (source, target) = (source.len(), target.len());
                LstmNmt::new(NmtSizes { source, target, embed, hidden }).map(Self::LstmNmt)
            }
            Lexicon::Lattices { chars, words, .. } => {
                let (chars, words) = (chars.len(), words.len());
                let classes = config.size("classes", config.classes)?;
                let sizes = LatticeSizes { chars, words, embed, hidden, classes };
                match model {
                    ModelName::LatticeLstm => LatticeLstm::new(sizes).map(Self::LatticeLstm),
                    ModelName::LatticeGru => LatticeGru::new(sizes).map(Self::LatticeGru),
                    _ => return Err(other_family(model)),
                }
            }
            _ => return Err(other_family(model)),
        };
        let mut zoo = zoo.map_err(|error: CellError| ConfigError(error.to_string()))?;
        let embed = config.dropout.unwrap_or(0.0);
        let output = config.dropout_output.unwrap_or(embed);
        if embed > 0.0 || output > 0.0 {
            let network = zoo.network_mut();
            *network = Arc::new(network.with_dropout(|cell, operation| match operation.op {
                Op::Lookup { .. } => embed,
                Op::Input { .. } if cell.name() == "output" => output,
                _ => 0.0,
            }));
        }
        Ok(zoo)
    }

    fn network_mut(&mut self) -> &mut Arc<Network> {
        match self {
            Self::TreeLstm(model) => &mut model.network,
            Self::TreeLstm2Type(model) => &mut model.network,
            Self::TreeGru(model) => &mut model.network,
            Self::MvRnn(model) => &mut model.network,
            Self::BiLstmTagger(model) => &mut model.network,
            Self::BiLstmTaggerChar(model) => &mut model.network,
            Self::LstmNmt(model) => &mut model.network,
            Self::LatticeLstm(model) => &mut model.network,
            Self::LatticeGru(model) => &mut model.network,
            Self::CallLists(_) => unreachable!("no configuration is of call lists"),
        }
    }
}

fn other_family(model: ModelName) -> ConfigError {
    ConfigError(format!("{model}: expected a lexicon for {:?}", model.family()))
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
        match self {
            Self::TreeLstm(model) => model.network(),
            Self::TreeLstm2Type(model) => model.network(),
            Self::TreeGru(model) => model.network(),
            Self::MvRnn(model) => model.network(),
            Self::BiLstmTagger(model) => model.network(),
            Self::BiLstmTaggerChar(model) => model.network(),
            Self::LstmNmt(model) => model.network(),
            Self::LatticeLstm(model) => model.network(),
            Self::LatticeGru(model) => model.network(),
            Self::CallLists(model) => model.network(),
        }
    }

    fn work(&self, input: &ZooInput) -> usize {
        match input {
            ZooInput::Tree(input) => input.tree.len(),
            ZooInput::Sentence(input) => input.len(),
            ZooInput::Spelled(input) => input.len(),
            ZooInput::Source(input) => input.words.len(),
            ZooInput::Lattice(input) => input.len() + input.words.len(),
            ZooInput::CallList(list) => list.graph().nodes(),
        }
    }

    fn bytes(&self, input: &ZooInput) -> usize {
        match (self, input) {
            (Self::MvRnn(model), ZooInput::Tree(input)) => model.bytes(&input.tree),
            _ => 0,
        }
    }

    async fn build(&self, build: &Build<'_>, input: &ZooInput) -> Result<(), BuildError> {
        use ZooInput::{CallList, Lattice, Sentence, Source, Spelled, Tree};
        match (self, input) {
            (Self::TreeLstm(model), Tree(input)) => model.build(build, &input.tree).await,
            (Self::TreeLstm2Type(model), Tree(input)) => model.build(build, input).await,
            (Self::TreeGru(model), Tree(input)) => model.build(build, &input.tree).await,
            (Self::MvRnn(model), Tree(input)) => model.build(build, &input.tree).await,
            (Self::BiLstmTagger(model), Sentence(input)) => model.build(build, input).await,
            (Self::BiLstmTaggerChar(model), Spelled(input)) => model.build(build, input).await,
            // An empty source has no translation, unless a file of targets has one. The model would
            // decode from its initial state.
            (Self::LstmNmt(_), Source(SourceSentence { words, stop }))
                if words.is_empty() && !matches!(stop, Stop::Forced(_)) =>
            {
                Ok(())
            }
            (Self::LstmNmt(model), Source(input)) => model.build(build, input).await,
            (Self::LatticeLstm(model), Lattice(input)) => model.build(build, input).await,
            (Self::LatticeGru(model), Lattice(input)) => model.build(build, input).await,
            (Self::CallLists(model), CallList(input)) => model.build(build, input).await,
            _ => Err(BuildError::Input("wrong kind of input for this model".into())),
        }
    }
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
