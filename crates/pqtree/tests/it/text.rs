//! Printed trees can be parsed again, and any invalid text is an error.

use edbatch_testing::cases;
use pqtree::{CircularTree, Labeled, LabeledParseError, ParseError, PqTree};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Parses a text in each way. If it is a tree, prints it and parses it again.
fn read(text: &str) {
    if let Ok(tree) = text.parse::<PqTree>() {
        assert_eq!(tree.to_string().parse(), Ok(tree));
    }
    if let Ok(tree) = text.parse::<CircularTree>() {
        assert_eq!(tree.to_string().parse(), Ok(tree));
    }
    if let Ok(tree) = text.parse::<Labeled<String>>() {
        assert_eq!(tree.to_string().parse(), Ok(tree));
    }
    _ = text.parse::<Labeled<i8>>();
    _ = serde_json::from_str::<PqTree>(text);
    _ = serde_json::from_str::<CircularTree>(text);
    _ = serde_json::from_str::<Labeled<String>>(text);
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(cases(2000)))]

    #[test]
    fn any_text_is_a_tree_or_an_error(text in any::<String>()) {
        read(&text);
    }

    #[test]
    fn brackets_and_quotes_are_a_tree_or_an_error(
        text in r#"[0-3 ()\[\]{}"\\aé]{0,24}"#,
    ) {
        read(&text);
    }

    #[test]
    fn trees_with_a_character_changed_are_a_tree_or_an_error(
        at in 0usize..90,
        by in r#"[0-9 ()\[\]{}"\\é]{0,2}"#,
    ) {
        for text in [
            "(0 [1 2 3 (4 5)] 6)",
            "{7 (0 [1 2 3 (4 5)] 6)}",
            r#"(ant [bee "cat fish" "say \"hi\""] "\\")"#,
            r#"{"tree": "(0 [1 2 3])", "labels": ["a", "b c", "", "\""]}"#,
        ] {
            let characters: Vec<char> = text.chars().collect();
            let at = at % characters.len();
            let before = characters[..at].iter().copied();
            let changed = before.chain(by.chars()).chain(characters[at + 1..].iter().copied());
            read(&changed.collect::<String>());
        }
    }

    #[test]
    fn any_label_survives_printing_and_parsing(
        labels in proptest::collection::btree_set(any::<String>(), 0..12),
        sets in proptest::collection::vec((0usize..12, 2usize..6), 0..6),
    ) {
        let labels: Vec<String> = BTreeSet::into_iter(labels).collect();
        let mut tree = Labeled::new(labels.clone()).unwrap();
        for (begin, count) in sets {
            let begin = begin.min(labels.len());
            let end = (begin + count).min(labels.len());
            tree.reduce(&labels[begin..end]).unwrap();
        }
        let text = tree.to_string();
        let read: Labeled<String> = text.parse().unwrap();
        prop_assert_eq!(&read, &tree);
        prop_assert_eq!(read.to_string(), text);
        let json = serde_json::to_string(&tree).unwrap();
        let read: Labeled<String> = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(read.to_string(), tree.to_string());
        prop_assert_eq!(read, tree);
    }
}

/// Stored texts must stay readable: they do not change within version 1.
#[test]
fn texts_of_labels_and_circles_are_stable() {
    let text = r#"(ant [bee "cat fish" "say \"hi\"" "\\"] "")"#;
    let tree: Labeled<String> = text.parse().unwrap();
    assert_eq!(tree.to_string(), text);
    let json = serde_json::to_string(&tree).unwrap();
    let labels = r#"["ant","bee","cat fish","say \"hi\"","\\",""]"#;
    assert_eq!(json, format!(r#"{{"tree":"(0 [1 2 3 4] 5)","labels":{labels}}}"#));
    assert_eq!(format!("{:?}", Labeled::new(["a b", "c"]).unwrap()), r#"Labeled(("a b" "c"))"#);
    for text in ["{}", "{0}", "{1 0}", "{2 (0 1)}", "{4 (0 [1 2 3])}"] {
        let circle: CircularTree = text.parse().unwrap();
        assert_eq!(circle.to_string(), text);
        assert_eq!(serde_json::to_string(&circle).unwrap(), format!("{text:?}"));
        assert_eq!(serde_json::from_str::<CircularTree>(&format!("{text:?}")).unwrap(), circle);
    }
}

#[test]
fn errors_name_the_position() {
    let circle = |text: &str| text.parse::<CircularTree>().unwrap_err();
    assert_eq!(circle("(0 1)"), ParseError::NotOneTree);
    assert_eq!(circle("{3 (0 1)}"), ParseError::Hinge { elements: 3 });
    assert_eq!(circle("{(0 1)}"), ParseError::Hinge { elements: 3 });
    assert_eq!(circle(" { 2 (0 x)}"), ParseError::Unexpected { found: 'x', at: 8 });
    let labels = |text: &str| text.parse::<Labeled<u8>>().unwrap_err();
    assert_eq!(labels("(1 1)"), LabeledParseError::Repeated { index: 1 });
    assert_eq!(labels("(1 \"2"), LabeledParseError::Text(ParseError::Unclosed { at: 3 }));
    assert_eq!(labels("(1 2]"), LabeledParseError::Text(ParseError::Unmatched { at: 4 }));
    let error = labels("(1 256)");
    assert!(matches!(error, LabeledParseError::Label { index: 1, .. }), "{error}");
    assert_eq!(error.to_string(), "label 1: number too large to fit in target type");
    for json in [
        r#"{"tree":"(0 1)","labels":["a"]}"#,
        r#"{"tree":"(0 1)","labels":["a","a"]}"#,
        r#"{"tree":"(0 2)","labels":["a","b"]}"#,
        r#"{"tree":"(0 1)"}"#,
    ] {
        assert!(serde_json::from_str::<Labeled<String>>(json).is_err(), "{json}");
    }
}
