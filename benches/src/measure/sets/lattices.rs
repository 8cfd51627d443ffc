//! Sets of lattices: characters and dictionary words.

use std::sync::Arc;

use edbatch_datasets::{Lattice, Vocabulary, read_arcs, read_lattices};
use edbatch_testing::generate::{self, Style};

use crate::measure::sets::{Set, SetError, Source, file, generated};

/// Dense lattices: newswire, from the authors of ED-Batch.
pub fn newswire(source: &Source) -> Result<Set<Lattice<u32>>, SetError> {
    let Source::Folder(dir) = source else {
        return Ok(spelled(
            generated("generated/newswire", |rng, n| generate::lattices(rng, n, Style::Newswire)),
            18,
        ));
    };
    let [train, dev, test] = ["train", "dev", "test"].map(|part| {
        Ok::<_, SetError>(read_arcs(file(dir, &format!("newswire/{part}.arcs.txt"))?)?)
    });
    let (train, test) = (train?, test?);
    // All three files share one numbering.
    let (mut chars, mut words) = (0, 0);
    for lattice in train.iter().chain(&dev?).chain(&test) {
        chars = lattice.chars.iter().fold(chars, |max, &char| max.max(char + 1));
        words = lattice.words.iter().fold(words, |max, arc| max.max(arc.word + 1));
    }
    let vocabularies = vec![chars as usize, words as usize];
    let (train, test) = (Arc::new(train), Arc::new(test));
    Ok(Set { name: "newswire/test", train, test, vocabularies, labels: 18 })
}

/// Sparse lattices: Weibo NER with the words of a dictionary.
pub fn weibo(source: &Source) -> Result<Set<Lattice<u32>>, SetError> {
    let lattices = match source {
        Source::Generated => {
            generated("generated/weibo", |rng, n| generate::lattices(rng, n, Style::Weibo))
        }
        Source::Folder(dir) => (
            "weibo/test",
            read_lattices(file(dir, "weibo/train.jsonl")?)?,
            read_lattices(file(dir, "weibo/test.jsonl")?)?,
        ),
    };
    Ok(spelled(lattices, 17))
}

/// Numbers the characters and words of lattices.
fn spelled(
    (name, train, test): (&'static str, Vec<Lattice>, Vec<Lattice>),
    labels: usize,
) -> Set<Lattice<u32>> {
    let chars = Vocabulary::from_tokens(test.iter().flat_map(|lattice| &lattice.chars));
    let arcs = test.iter().flat_map(|lattice| &lattice.words);
    let words = Vocabulary::from_tokens(arcs.map(|arc| &arc.word));
    let number = |lattices: Vec<Lattice>| {
        let map = |l: &Lattice| l.map(|char| chars.id(char), |word| words.id(word));
        Arc::new(lattices.iter().map(map).collect())
    };
    let (train, test) = (number(train), number(test));
    Set { name, train, test, vocabularies: vec![chars.len(), words.len()], labels }
}
