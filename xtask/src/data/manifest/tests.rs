//! The manifest is well formed and matches the full data sets, where available.

use std::collections::HashSet;

use super::{Fetch, File, State, manifest};

#[test]
fn the_manifest_is_well_formed() {
    let manifest = manifest();
    let mut paths = HashSet::new();
    for set in &manifest.sets {
        assert!(!set.files.is_empty() && set.source.starts_with("https://"), "{}", set.name);
        let by_hand = matches!(set.fetch, Fetch::Manual { .. });
        for file in &set.files {
            assert!(
                file.path.starts_with(&format!("{}/", set.name)),
                "{} is in the folder of its set",
                file.path
            );
            assert!(paths.insert(&file.path), "{} is listed twice", file.path);
            assert!(
                file.sha256.len() == 64 && file.sha256.chars().all(|c| c.is_ascii_hexdigit()),
                "{}",
                file.path
            );
            assert_eq!(file.member.is_none(), by_hand, "the member name of {}", file.path);
        }
    }
}

#[test]
fn the_full_sets_match_the_manifest() {
    let Some(datasets) = edbatch_testing::shared("datasets") else { return };
    for file in manifest().sets.iter().flat_map(|set| &set.files) {
        match file.check(&datasets) {
            State::Matches => {}
            State::Missing => edbatch_testing::skip(&format!("there is no {}", file.path)),
            state => panic!("{}: {state:?}", file.path),
        }
    }
}

#[test]
fn plain_and_compressed_files_are_compared() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_string();
    let file = File { path: "abc".to_string(), member: None, bytes: 3, sha256 };
    assert!(matches!(file.check(folder), State::Missing));

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, b"abc").unwrap();
    std::fs::write(folder.join("abc.gz"), gzip.finish().unwrap()).unwrap();
    assert!(matches!(file.check(folder), State::Matches));

    std::fs::write(folder.join("abc"), "abd").unwrap();
    assert!(matches!(file.check(folder), State::Differs { bytes: 3, .. }));
    std::fs::write(folder.join("abc.gz"), "no gzip").unwrap();
    assert!(matches!(file.check_at(&folder.join("abc.gz")), State::Unreadable(_)));
}
