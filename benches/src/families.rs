//! The table of workloads: every model, on every set that suits it.
//!
//! To add a model, add a line to [`FAMILIES`] and the function that it names.

use edbatch_datasets::Lattice;
use edbatch_graph::CellError;
use edbatch_models::{
    BiLstmTagger, BiLstmTaggerChar, CharTaggerSizes, IndexedTree, LatticeGru, LatticeLstm,
    LatticeSizes, LstmNmt, Model, MvRnn, MvRnnSizes, NmtSizes, SourceSentence, TaggerSizes,
    TreeGru, TreeLstm, TreeLstm2Type, TreeSizes,
};

use crate::sets::{self, Set, SetError, Source};
use crate::workload::{Failure, On, Workload};

/// A model's name, and how it meets a set of its inputs.
pub type Entry = (&'static str, fn(&Source) -> Result<Family, SetError>);

/// All models; one that runs on two sets is here twice.
pub const FAMILIES: [Entry; 12] = [
    ("tree_lstm", tree_lstm),
    ("tree_lstm_2type", tree_lstm_2type),
    ("tree_gru", tree_gru),
    ("mv_rnn", mv_rnn),
    ("bilstm_tagger", bilstm_tagger),
    ("bilstm_tagger_char", bilstm_tagger_char),
    ("lstm_nmt", |source| Ok(lstm_nmt(sets::translations(source)?))),
    ("lstm_nmt", |source| Ok(lstm_nmt(sets::short_translations(source)?))),
    ("lattice_lstm", |source| Ok(lattice_lstm(sets::newswire(source)?))),
    ("lattice_lstm", |source| Ok(lattice_lstm(sets::weibo(source)?))),
    ("lattice_gru", |source| Ok(lattice_gru(sets::newswire(source)?))),
    ("lattice_gru", |source| Ok(lattice_gru(sets::weibo(source)?))),
];

/// A model and a set, of which a hidden size makes a workload.
pub struct Family {
    /// What tables and records call the model.
    pub model: &'static str,
    /// What they call the set.
    pub input: &'static str,
    /// The largest hidden vectors that the model is measured with.
    pub largest: usize,
    at: Box<OfSize>,
}

/// Makes a workload with hidden vectors of a size.
type OfSize = dyn Fn(usize) -> Result<Box<dyn Workload>, Failure>;

impl Family {
    /// The workload with hidden vectors of this size; embeddings are as large.
    ///
    /// # Errors
    /// If the model cannot be that large.
    pub fn at(&self, hidden: usize) -> Result<Box<dyn Workload>, Failure> {
        (self.at)(hidden)
    }
}

/// A model on a set. `declare` makes the model for the set and a hidden size.
fn family<M>(
    model: &'static str,
    set: Set<M::Input>,
    declare: impl Fn(&Set<M::Input>, usize) -> Result<M, CellError> + 'static,
) -> Family
where
    M: Model<Input: Clone + Sync> + Clone + Send + Sync + 'static,
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

/// Every token has a matrix: at 512 those of SST alone would take 9 GB.
fn mv_rnn(source: &Source) -> Result<Family, SetError> {
    let family = family("mv_rnn", sets::trees(source)?, |set, hidden| {
        MvRnn::new(MvRnnSizes { vocabulary: set.vocabularies[0], hidden, classes: set.labels })
    });
    Ok(Family { largest: 256, ..family })
}

fn bilstm_tagger(source: &Source) -> Result<Family, SetError> {
    Ok(family("bilstm_tagger", sets::sentences(source)?, |set, hidden| {
        BiLstmTagger::new(tagger_sizes(set, hidden))
    }))
}

fn bilstm_tagger_char(source: &Source) -> Result<Family, SetError> {
    Ok(family("bilstm_tagger_char", sets::spelled_sentences(source)?, |set, hidden| {
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
