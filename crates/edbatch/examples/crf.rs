//! A linear-chain CRF (Lafferty, McCallum and Pereira, ICML 2001): the log-probability of tags.
//! Index ports choose the scores along the tags' path; the partition function is a log-sum-exp.
//!
//! `cargo run --release -p edbatch --example crf`:
//!
//! ```text
//! log-probability of the first sentence's tags: -21.742
//! ```

use std::sync::Arc;

use edbatch::datasets::{Vocabulary, fixtures};
use edbatch::graph::{CellError, Kind, Network, Shape};
use edbatch::models::{Build, BuildError, Model};
use edbatch::{Engine, runtime::Parameters};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

pub(crate) struct Crf {
    pub(crate) network: Arc<Network>,
    tags: usize,
    first: Kind,
    from: Kind,
    step: Kind,
    gold: Kind,
    likelihood: Kind,
}

impl Crf {
    pub(crate) fn new(words: usize, tags: usize) -> Result<Self, CellError> {
        let mut network = Network::new();
        let scores = network.record("scores", [("a", Shape::Vector(tags as u32))])?;
        let number = network.record("number", [("x", Shape::Vector(1))])?;
        let (word, pair) = ([words, tags], [tags, tags]);
        let first = network.cell("first", scores, |cell| {
            vec![cell.lookup("w", "word", &word) + cell.lookup("t", "transition", &pair)]
        })?;
        // The scores of all tags after a tag, if the path up to that tag has these scores.
        let from = network.cell("from", scores, |cell| {
            let [before] = cell.one("all", scores);
            vec![before.select(cell.index("tag", tags)) + cell.lookup("t", "transition", &pair)]
        })?;
        let step = network.cell("step", scores, |cell| {
            let [before] = cell.many("from", scores).log_sum_exp();
            vec![cell.lookup("w", "word", &word) + before]
        })?;
        let gold = network.cell("gold", number, |cell| {
            let scores = cell.lookup("w", "word", &word) + cell.lookup("t", "transition", &pair);
            vec![scores.select(cell.index("tag", tags))]
        })?;
        let likelihood = network.cell("likelihood", number, |cell| {
            let ([all], [gold]) = (cell.one("all", scores), cell.many("gold", number).sum());
            // The log-sum-exp of all tags is the difference of any score and its log-softmax.
            vec![gold - (all - all.log_softmax()).slice(0, 1)]
        })?;
        Ok(Self { network: Arc::new(network), tags, first, from, step, gold, likelihood })
    }
}

impl Model for Crf {
    /// The words and the tags of a sentence.
    type Input = (Vec<u32>, Vec<u32>);

    fn network(&self) -> &Arc<Network> {
        &self.network
    }

    async fn build(&self, build: &Build<'_>, input: &Self::Input) -> Result<(), BuildError> {
        // First the scores of all tags, then the score of each word. A sentence begins after tag 0.
        let (mut values, mut before) = (Vec::new(), 0);
        for (&word, &tag) in input.0.iter().zip(&input.1) {
            if let Some(&all) = values.first() {
                let from = |tag| build.call(self.from, &[tag, tag], &[all]);
                let of_tags = (0..self.tags as u32).map(from).collect::<Result<Vec<_>, _>>()?;
                values[0] = build.call(self.step, &[word], &of_tags)?;
            } else {
                values.push(build.call(self.first, &[word, before], &[])?);
            }
            values.push(build.call(self.gold, &[word, before, tag], &[])?);
            before = tag;
        }
        build.emit(build.call(self.likelihood, &[], &values)?);
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words = fixtures::vocabulary(fixtures::text::SENTENCE_VOCABULARY);
    let mut tags = Vocabulary::new();
    let mut sentences: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
    for sentence in fixtures::sentences() {
        let of_words = sentence.words.iter().map(|word| words.id(word));
        let of_tags = sentence.tags.iter().map(|tag| tags.insert(tag.as_deref().unwrap_or("O")));
        sentences.push((of_words.collect(), of_tags.collect()));
    }
    let model = Crf::new(words.len(), tags.len())?;
    let parameters = Parameters::random(&model.network, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let outputs = Engine::new(model, parameters)?.run(&sentences)?;
    println!("log-probability of the first sentence's tags: {:.3}", outputs[0].row(0)[0]);
    Ok(())
}
