//! `--word-dropout`: words that are replaced by `<unk>`, drawn again in each epoch.

use edbatch::models::{Folder, Lexicon, SourceSentence, Word, ZooInput};
use edbatch_datasets::Sentence;

use crate::failure::Failure;

/// Rejects word dropout for a model without words.
pub(super) fn check(folder: &Folder, rate: f64) -> Result<(), Failure> {
    match folder.lexicon() {
        Lexicon::CallLists(_) if rate > 0.0 => {
            let message = "--word-dropout needs a model with words: call lists have rows of tables";
            Err(Failure::Usage(message.into()))
        }
        _ => Ok(()),
    }
}

/// Replaces words of an example by `<unk>`. The choice depends on the arguments alone.
pub(super) fn drop_words(
    input: &mut ZooInput,
    lexicon: &Lexicon,
    rate: f64,
    (seed, epoch, example): (u64, u64, usize),
) {
    const UNKNOWN: u32 = 0;
    let of_example = mix(mix(mix(seed) ^ epoch) ^ example as u64);
    let mut position = 0;
    let mut is_dropped = || {
        position += 1;
        // The high 53 bits, as a number from 0 to below 1.
        let uniform = (mix(of_example ^ position) >> 11) as f64 / (1_u64 << 53) as f64;
        uniform < rate
    };
    let mut drop = |&word: &u32| if is_dropped() { UNKNOWN } else { word };
    match input {
        ZooInput::Tree(tree) => tree.tree = tree.tree.map(|label| *label, drop),
        ZooInput::Sentence(Sentence { words, .. })
        | ZooInput::Source(SourceSentence { words, .. }) => {
            words.iter_mut().for_each(|word| *word = drop(word));
        }
        ZooInput::Lattice(lattice) => {
            lattice.chars.iter_mut().for_each(|char| *char = drop(char));
            lattice.words.iter_mut().for_each(|arc| arc.word = drop(&arc.word));
        }
        ZooInput::Spelled(sentence) => {
            let Lexicon::Spelled { words, chars, .. } = lexicon else { return };
            for word in &mut sentence.words {
                let dropped = is_dropped();
                // An unknown word is spelled.
                if let Word::Known(id) = *word
                    && dropped
                    && let Some(text) = words.token(id)
                {
                    let id = |c: char| chars.id(c.encode_utf8(&mut [0; 4]));
                    *word = Word::Spelled(text.chars().map(id).collect());
                }
            }
        }
        ZooInput::CallList(_) => {}
    }
}

/// Mixes the bits of a number: the finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use edbatch_datasets::Vocabulary;

    use super::*;

    #[test]
    fn the_share_of_dropped_words_is_the_rate() {
        let lexicon = Lexicon::Tagged { words: Vocabulary::new(), tags: vec![] };
        let words = vec![1; 10_000];
        let dropped = |rate, place| {
            let sentence = Sentence { words: words.clone(), tags: vec![None; words.len()] };
            let mut input = ZooInput::Sentence(sentence);
            drop_words(&mut input, &lexicon, rate, place);
            let ZooInput::Sentence(sentence) = input else { unreachable!() };
            sentence.words
        };
        let count = |words: &[u32]| words.iter().filter(|&&word| word == 0).count();
        assert_eq!(count(&dropped(0.0, (1, 2, 3))), 0);
        let first = dropped(0.2, (1, 2, 3));
        // Four standard deviations of a binomial distribution.
        assert!(count(&first).abs_diff(2_000) < 160, "{}", count(&first));
        assert_eq!(first, dropped(0.2, (1, 2, 3)));
        for other in [(2, 2, 3), (1, 3, 3), (1, 2, 4), (2, 1, 3)] {
            assert_ne!(first, dropped(0.2, other));
        }
    }

    #[test]
    fn dropped_words_of_a_spelling_model_are_spelled() {
        let [words, chars] = [&["ab"][..], &["<pad>", "a", "b"]].map(Vocabulary::from_tokens);
        let lexicon = Lexicon::Spelled { words, chars, tags: vec![] };
        let sentence = Sentence { words: vec![Word::Known(1); 40], tags: vec![None; 40] };
        let mut input = ZooInput::Spelled(sentence);
        drop_words(&mut input, &lexicon, 0.5, (1, 1, 1));
        let ZooInput::Spelled(sentence) = input else { unreachable!() };
        let spelled = sentence.words.iter().filter(|&word| *word == Word::Spelled(vec![2, 3]));
        let count = spelled.count();
        assert!((5..35).contains(&count), "{count}");
    }
}
