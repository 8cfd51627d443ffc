//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;

use edbatch_datasets::{Error as InputError, Position};
use edbatch_models::JsonFault;

use crate::{ConfigError, FolderError, VocabularyError};

#[test]
fn messages_are_complete_without_a_source() {
    let input = || InputError::Format {
        at: Position { file: "t".into(), line: 1, column: 2 },
        expected: "a word".into(),
        got: "none".into(),
    };
    let fault = JsonFault { line: 1, column: 2, expected: "a".into(), got: "b".into() };
    let cases: [(Box<dyn Error>, &str); 7] = [
        (
            Box::new(FolderError::Config { file: "c".into(), error: ConfigError("e".into()) }),
            "c: e",
        ),
        (Box::new(FolderError::Network { file: "n".into(), fault }), "n:1:2: expected a, got b"),
        (Box::new(FolderError::Input(input())), "t:1:2: expected a word, got none"),
        (Box::new(VocabularyError::from(input())), "t:1:2: expected a word, got none"),
        (
            Box::new(VocabularyError::NoLabels { files: vec!["a".into(), "b".into()] }),
            "a, b: expected labels, got none",
        ),
        (
            Box::new(VocabularyError::NotTwoFiles { files: 1 }),
            "expected two files, line by line source and target, got 1",
        ),
        (
            Box::new(VocabularyError::Mixed { arcs: "a".into(), named: "b".into() }),
            "expected only arc files or no arc files, got a and b",
        ),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none(), "{message}");
    }
}
