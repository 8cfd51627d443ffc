//! The fixtures are the output of the generators, byte by byte, and the readers accept them.

use std::collections::BTreeMap;
use std::path::Path;

use edbatch_datasets::fixtures;
use edbatch_testing::generate;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

#[test]
fn fixtures_equal_the_generators_output() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(fixtures::SEED);
    let generated = generate::files(&mut rng, fixtures::COUNT);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for (name, contents) in &generated {
        let kept =
            std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            &kept == contents,
            "{name} differs: cargo run -p edbatch-testing --features generate --example generate \
             -- datasets/fixtures"
        );
    }
    let kept = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(kept, generated.len(), "the folder contains no other files");
}

#[test]
fn fixtures_are_read() {
    let counts = BTreeMap::from([
        ("binary", fixtures::binary_trees().len()),
        ("nary", fixtures::nary_trees().len()),
        ("sentences", fixtures::sentences().len()),
        ("pairs", fixtures::pairs().len()),
        ("newswire", fixtures::newswire().len()),
        ("weibo", fixtures::weibo().len()),
    ]);
    assert!(counts.values().all(|&count| count == fixtures::COUNT), "{counts:?}");
}

#[test]
fn vocabularies_contain_every_token() {
    use fixtures::text;
    let known = |words: &str, token: &str| fixtures::vocabulary(words).contains(token);
    assert!(
        fixtures::binary_trees()
            .iter()
            .all(|tree| tree.tokens().all(|t| known(text::BINARY_VOCABULARY, t)))
    );
    assert!(
        fixtures::sentences()
            .iter()
            .all(|s| s.words.iter().all(|w| known(text::SENTENCE_VOCABULARY, w)))
    );
    assert!(
        fixtures::pairs()
            .iter()
            .all(|pair| { pair.target.iter().all(|w| known(text::TARGET_VOCABULARY, w)) })
    );
    let newswire = fixtures::newswire();
    assert!(newswire.iter().all(|l| l.chars.iter().all(|c| known(text::NEWSWIRE_CHARACTERS, c))));
    assert!(
        newswire
            .iter()
            .all(|l| { l.words.iter().all(|arc| known(text::NEWSWIRE_WORDS, &arc.word)) })
    );
}
