//! The table of workloads: every model with the sets that it runs on.
//!
//! To add a model, add a line to [`FAMILIES`] and the function that it names.

use edbatch::models::{
    BiLstmTagger, BiLstmTaggerChar, CharTaggerSizes, IndexedTree, LatticeGru, LatticeLstm,
    LatticeSizes, LstmNmt, Model, MvRnn, MvRnnSizes, NmtSizes, SourceSentence, TaggerSizes,
    TreeGru, TreeLstm, TreeLstm2Type, TreeSizes,
};
use edbatch_datasets::Lattice;
use edbatch_graph::CellError;

use crate::Failure;
use crate::measure::sets::{self, Set, SetError, Source, lattices, sentences};
use crate::measure::workload::{On, Workload};

/// A model's name, and a function that combines it with a set.
pub type Entry = (&'static str, fn(&Source) -> Result<Family, SetError>);

/// All models; a model that runs on two sets is listed twice.
pub const FAMILIES: [Entry; 12] = [
    ("tree_lstm", tree_lstm),
    ("tree_lstm_2type", tree_lstm_2type),
    ("tree_gru", tree_gru),
    ("mv_rnn", mv_rnn),
    ("bilstm_tagger", bilstm_tagger),
    ("bilstm_tagger_char", bilstm_tagger_char),
    ("lstm_nmt", |source| Ok(lstm_nmt(sentences::translations(source)?))),
    ("lstm_nmt", |source| Ok(lstm_nmt(sentences::short_translations(source)?))),
    ("lattice_lstm", |source| Ok(lattice_lstm(lattices::newswire(source)?))),
    ("lattice_lstm", |source| Ok(lattice_lstm(lattices::weibo(source)?))),
    ("lattice_gru", |source| Ok(lattice_gru(lattices::newswire(source)?))),
    ("lattice_gru", |source| Ok(lattice_gru(lattices::weibo(source)?))),
];

/// A model and a set: a workload of any size.
pub struct Family {
    /// The model's name in records.
    pub model: &'static str,
    /// The set's name in records.
    pub input: &'static str,
    /// Maximum size of hidden vectors.
    pub largest: usize,
    at: Box<OfSize>,
}

/// Makes a workload with hidden vectors of a size.
type OfSize = dyn Fn(usize) -> Result<Box<dyn Workload>, Failure>;

impl Family {
    /// Returns the workload with hidden vectors and embeddings of a size.
    pub fn at(&self, hidden: usize) -> Result<Box<dyn Workload>, Failure> {
        (self.at)(hidden)
    }
}

/// Combines a model and a set. `declare` makes the model for the set and a hidden size.
fn family<M>(
    model: &'static str,
    set: Set<M::Input>,
    declare: impl Fn(&Set<M::Input>, usize) -> Result<M, CellError> + 'static,
) -> Family
where
    M: Model<Input: Clone + Send + Sync> + Clone + Send + Sync + 'static,
{
    let input = set.name;
    let at = move |hidden| -> Result<Box<dyn Workload>, Failure> {
        Ok(Box::new(On::new(declare(&set, hidden)?, &set)))
    };
    Family { model, input, largest: usize::MAX, at: Box::new(at) }
}

fn tree_lstm(source: &Source) -> Result<Family, SetError> {
    let set = sets::trees(source)?;
    Ok(family("tree_lstm", set, |set, hidden| TreeLstm::new(tree_sizes(set, hidden))))
}

fn tree_lstm_2type(source: &Source) -> Result<Family, SetError> {
    let set = sets::trees(source)?.map(|index, tree| IndexedTree { index, tree: tree.clone() });
    Ok(family("tree_lstm_2type", set, |set, hidden| TreeLstm2Type::new(tree_sizes(set, hidden))))
}

fn tree_gru(source: &Source) -> Result<Family, SetError> {
    let set = sets::trees(source)?;
    Ok(family("tree_gru", set, |set, hidden| TreeGru::new(tree_sizes(set, hidden))))
}

fn tree_sizes<I>(set: &Set<I>, hidden: usize) -> TreeSizes {
    TreeSizes { vocabulary: set.vocabularies[0], embed: hidden, hidden, classes: set.labels }
}

/// Limits `hidden`: with 512 rows for each token's matrix, the matrices for SST would take 9 GB.
fn mv_rnn(source: &Source) -> Result<Family, SetError> {
    let family = family("mv_rnn", sets::trees(source)?, |set, hidden| {
        MvRnn::new(MvRnnSizes { vocabulary: set.vocabularies[0], hidden, classes: set.labels })
    });
    Ok(Family { largest: 256, ..family })
}

fn bilstm_tagger(source: &Source) -> Result<Family, SetError> {
    Ok(family("bilstm_tagger", sentences::sentences(source)?, |set, hidden| {
        BiLstmTagger::new(tagger_sizes(set, hidden))
    }))
}

fn bilstm_tagger_char(source: &Source) -> Result<Family, SetError> {
    Ok(family("bilstm_tagger_char", sentences::spelled_sentences(source)?, |set, hidden| {
        BiLstmTaggerChar::new(CharTaggerSizes {
            tagger: tagger_sizes(set, hidden),
            chars: set.vocabularies[1],
            char_embed: hidden / 2,
            char_hidden: hidden / 2,
        })
    }))
}

fn tagger_sizes<I>(set: &Set<I>, hidden: usize) -> TaggerSizes {
    TaggerSizes {
        vocabulary: set.vocabularies[0],
        embed: hidden,
        hidden,
        layers: 2,
        mlp: hidden,
        tags: set.labels,
    }
}

fn lstm_nmt(set: Set<SourceSentence>) -> Family {
    family("lstm_nmt", set, |set, hidden| {
        let (source, target) = (set.vocabularies[0], set.vocabularies[1]);
        LstmNmt::new(NmtSizes { source, target, embed: hidden, hidden })
    })
}

fn lattice_lstm(set: Set<Lattice<u32>>) -> Family {
    family("lattice_lstm", set, |set, hidden| LatticeLstm::new(lattice_sizes(set, hidden)))
}

fn lattice_gru(set: Set<Lattice<u32>>) -> Family {
    family("lattice_gru", set, |set, hidden| LatticeGru::new(lattice_sizes(set, hidden)))
}

fn lattice_sizes<I>(set: &Set<I>, hidden: usize) -> LatticeSizes {
    LatticeSizes {
        chars: set.vocabularies[0],
        words: set.vocabularies[1],
        embed: hidden,
        hidden,
        classes: set.labels,
    }
}
