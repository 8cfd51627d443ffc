//! Sets of sentences: tagged, with unknown words spelled, or with translations.

use std::collections::HashMap;
use std::sync::Arc;

use edbatch::models::{SourceSentence, Stop, Word};
use edbatch_datasets::{Pair, Sentence, Vocabulary, read_pairs, read_sentences};
use edbatch_testing::generate;

use crate::measure::sets::{Set, SetError, Source, file, generated};

/// Tagged sentences: WikiGold for measuring, WikiNER for learning.
pub fn sentences(source: &Source) -> Result<Set<Sentence<u32>>, SetError> {
    let (name, train, test) = read(source)?;
    let words = Vocabulary::from_tokens(test.iter().flat_map(|sentence| &sentence.words));
    let number = |sentences: Vec<Sentence>| {
        Arc::new(sentences.iter().map(|s| s.map(|word| words.id(word))).collect())
    };
    let (train, test) = (number(train), number(test));
    Ok(Set { name, train, test, vocabularies: vec![words.len()], labels: 9 })
}

/// The sentences of [`sentences`], but words with at most `MAX_RARE` occurrences in the part for
/// learning are spelled.
pub fn spelled_sentences(source: &Source) -> Result<Set<Sentence<Word>>, SetError> {
    let (name, train, test) = read(source)?;
    let mut occurrences: HashMap<&str, usize> = HashMap::new();
    for word in train.iter().flat_map(|sentence| &sentence.words) {
        *occurrences.entry(word).or_default() += 1;
    }
    let words = train.iter().flat_map(|sentence| &sentence.words);
    let words = Vocabulary::from_tokens(words.filter(|word| occurrences[word.as_str()] > MAX_RARE));
    let mut chars = Vocabulary::from_tokens(["<pad>"]);
    let mut part = |sentences: &[Sentence]| {
        let mut char = |char: char| chars.insert(char.encode_utf8(&mut [0; 4]));
        let mut word = |word: &String| match words.contains(word) {
            true => Word::Known(words.id(word)),
            false => Word::Spelled(word.chars().map(&mut char).collect()),
        };
        Arc::new(sentences.iter().map(|sentence| sentence.map(&mut word)).collect())
    };
    let (train, test) = (part(&train), part(&test));
    Ok(Set { name, train, test, vocabularies: vec![words.len(), chars.len()], labels: 9 })
}

/// Maximum occurrences of a word that is spelled.
const MAX_RARE: usize = 5;

type Parts<I> = (&'static str, Vec<I>, Vec<I>);

fn read(source: &Source) -> Result<Parts<Sentence>, SetError> {
    Ok(match source {
        Source::Generated => generated("generated/sentences", generate::tagged_sentences),
        Source::Folder(dir) => (
            "wikigold",
            read_sentences(file(dir, "wikiner/train.txt")?)?,
            read_sentences(file(dir, "wikigold/wikigold.txt")?)?,
        ),
    })
}

/// Sentences to translate, each into as many words as its reference has: IWSLT 2015, tst2013 for
/// measuring and tst2012 for learning.
pub fn translations(source: &Source) -> Result<Set<SourceSentence>, SetError> {
    let Source::Folder(dir) = source else {
        let (name, train, test) = generated("generated/pairs", generate::pairs);
        let special = ["<s>", "</s>"].map(String::from);
        let sources = special.iter().chain(test.iter().flat_map(|pair| &pair.source));
        let targets = special.iter().chain(test.iter().flat_map(|pair| &pair.target));
        let vocabularies = [Vocabulary::from_tokens(sources), Vocabulary::from_tokens(targets)];
        return Ok(numbered(name, &train, &test, &vocabularies));
    };
    let pairs = |part: &str| -> Result<Vec<Pair>, SetError> {
        let [en, vi] = ["en", "vi"].map(|side| file(dir, &format!("iwslt15/{part}.{side}")));
        Ok(read_pairs(en?, vi?)?)
    };
    let vocabularies = [
        Vocabulary::read(file(dir, "iwslt15/vocab.en")?)?,
        Vocabulary::read(file(dir, "iwslt15/vocab.vi")?)?,
    ];
    Ok(numbered("iwslt15/tst2013", &pairs("tst2012")?, &pairs("tst2013")?, &vocabularies))
}

/// The sentences of [`translations`] with the first 256 words of each vocabulary, as the authors
/// of ED-Batch measure. All other words are unknown.
pub fn short_translations(source: &Source) -> Result<Set<SourceSentence>, SetError> {
    const WORDS: usize = 256;
    let set = translations(source)?;
    let cut = |part: &Vec<SourceSentence>| {
        let known = |&word: &u32| if (word as usize) < WORDS { word } else { 0 };
        let sentence = |sentence: &SourceSentence| SourceSentence {
            words: sentence.words.iter().map(known).collect(),
            stop: sentence.stop.clone(),
        };
        Arc::new(part.iter().map(sentence).collect())
    };
    let name = match source {
        Source::Folder(_) => "iwslt15/tst2013, 256 words",
        Source::Generated => "generated/pairs, 256 words",
    };
    let vocabularies = set.vocabularies.iter().map(|&words| words.min(WORDS)).collect();
    Ok(Set { name, train: cut(&set.train), test: cut(&set.test), vocabularies, labels: 0 })
}

fn numbered(
    name: &'static str,
    train: &[Pair],
    test: &[Pair],
    [sources, targets]: &[Vocabulary; 2],
) -> Set<SourceSentence> {
    let part = |pairs: &[Pair]| {
        let sentence = |pair: &Pair| SourceSentence {
            words: pair.source.iter().map(|word| sources.id(word)).collect(),
            stop: Stop::After(pair.target.len()),
        };
        Arc::new(pairs.iter().map(sentence).collect())
    };
    let vocabularies = vec![sources.len(), targets.len()];
    Set { name, train: part(train), test: part(test), vocabularies, labels: 0 }
}
