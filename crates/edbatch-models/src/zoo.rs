//! Any model of the zoo, by its configuration.

use std::sync::Arc;

use edbatch_graph::{CellError, Network};

use crate::{
    BiLstmTagger, Build, BuildError, Config, ConfigError, LatticeLstm, LatticeSizes, Lexicon,
    Model, ModelName, TaggerSizes, TreeLstm, TreeSizes, ZooInput, arg_max,
};

/// One of the models, for whoever learns only from a file which it is.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each holds the model of its name")]
pub enum Zoo {
    TreeLstm(TreeLstm),
    BiLstmTagger(BiLstmTagger),
    LatticeLstm(LatticeLstm),
}

impl Zoo {
    /// Declares the model that a configuration asks for, with a row for every word of the lexicon.
    ///
    /// # Errors
    /// If a size is missing or impossible, or the lexicon is of another family.
    pub fn new(config: &Config, lexicon: &Lexicon) -> Result<Self, ConfigError> {
        let cell = |error: CellError| ConfigError(error.to_string());
        let classes = || config.size("classes", config.classes);
        let &Config { hidden, embed, .. } = config;
        match (config.model, lexicon) {
            (ModelName::TreeLstm, Lexicon::Trees { words }) => {
                let sizes =
                    TreeSizes { vocabulary: words.len(), embed, hidden, classes: classes()? };
                TreeLstm::new(sizes).map(Self::TreeLstm).map_err(cell)
            }
            (ModelName::BiLstmTagger, Lexicon::Tagged { words, tags }) => {
                let sizes = tagger_sizes(config, words.len(), tags)?;
                BiLstmTagger::new(sizes).map(Self::BiLstmTagger).map_err(cell)
            }
            (ModelName::LatticeLstm, Lexicon::Lattices { chars, words }) => {
                let (chars, words) = (chars.len(), words.len());
                let sizes = LatticeSizes { chars, words, embed, hidden, classes: classes()? };
                LatticeLstm::new(sizes).map(Self::LatticeLstm).map_err(cell)
            }
            (model, _) => {
                Err(ConfigError(format!("{model}: expected a lexicon for {:?}", model.family())))
            }
        }
    }
}

fn tagger_sizes(
    config: &Config,
    vocabulary: usize,
    names: &[String],
) -> Result<TaggerSizes, ConfigError> {
    let &Config { hidden, embed, .. } = config;
    let tags = config.size("tags", config.tags)?;
    if tags != names.len() {
        let got = names.len();
        return Err(ConfigError(format!("\"tags\" is {tags}, but tags.txt has {got} lines")));
    }
    let layers = config.size("layers", config.layers)?;
    let mlp = config.size("mlp", config.mlp)?;
    Ok(TaggerSizes { vocabulary, embed, hidden, layers, mlp, tags })
}

impl Model for Zoo {
    type Input = ZooInput;

    fn network(&self) -> &Arc<Network> {
        match self {
            Self::TreeLstm(model) => model.network(),
            Self::BiLstmTagger(model) => model.network(),
            Self::LatticeLstm(model) => model.network(),
        }
    }

    async fn build(&self, build: &Build<'_>, input: &ZooInput) -> Result<(), BuildError> {
        match (self, input) {
            (Self::TreeLstm(model), ZooInput::Tree(tree)) => model.build(build, tree).await,
            (Self::BiLstmTagger(model), ZooInput::Sentence(sentence)) => {
                model.build(build, sentence).await
            }
            (Self::LatticeLstm(model), ZooInput::Lattice(lattice)) => {
                model.build(build, lattice).await
            }
            _ => Err(BuildError::Input("an input of another kind than the model reads".into())),
        }
    }
}

/// What scores mean, where they have names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named<'a> {
    /// What the names are: `tags`.
    pub what: &'static str,
    /// A name per row, of the greatest score; ties go to the lowest.
    pub names: Vec<&'a str>,
}

impl Lexicon {
    /// The names of the greatest scores of each row, if this family's outputs have names.
    pub fn decode<'a, 'r>(&'a self, rows: impl Iterator<Item = &'r [f32]>) -> Option<Named<'a>> {
        match self {
            Self::Trees { .. } | Self::Lattices { .. } => None,
            Self::Tagged { tags, .. } => {
                let names = rows.map(|row| tags[arg_max(row) as usize].as_str()).collect();
                Some(Named { what: "tags", names })
            }
        }
    }
}
