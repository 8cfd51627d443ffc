//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;

use edbatch_datasets::{Error as InputError, Position};
use edbatch_graph::{CallError, CallErrorReason, NodeId, RecordId, Source};

use crate::{
    BuildError, CallListError, ConfigError, FolderError, GiveError, JsonFault, UnwritableNetwork,
    VocabularyError,
};

#[test]
fn messages_are_complete_without_a_source() {
    let input = || InputError::Format {
        at: Position { file: "t".into(), line: 1, column: 2 },
        expected: "a word".into(),
        got: "none".into(),
    };
    let call = CallError { cell: "leaf".into(), reason: CallErrorReason::OtherNetwork };
    let give = GiveError::Elements { record: "r".into(), expected: 3, got: 2 };
    let fault = JsonFault { line: 1, column: 2, expected: "a".into(), got: "b".into() };
    let cases: [(Box<dyn Error>, &str); 17] = [
        (
            Box::new(GiveError::NoRecord { record: RecordId(4), records: 3 }),
            "RecordId(4) does not exist: the network has 3 records",
        ),
        (
            Box::new(GiveError::TooMany),
            "the mini-batch has 268435455 given values, and no more can be numbered: make \
             mini-batches smaller",
        ),
        (
            Box::new(CallListError::from(give.clone())),
            "a given value of record r: expected 3 elements, got 2",
        ),
        (
            Box::new(CallListError::NotInList { value: Source::Node(NodeId(7)) }),
            "emit: expected a value of this list, got Node(NodeId(7))",
        ),
        (
            Box::new(CallListError::Target { index: 1, target: 2, classes: 0 }),
            "targets: expected null for emitted value 1, which is not one vector, got 2",
        ),
        (
            Box::new(CallListError::Target { index: 1, target: 2, classes: 2 }),
            "targets: expected a class below 2 for emitted value 1, got 2",
        ),
        (
            Box::new(BuildError::from(call)),
            "call of leaf: expected calls of the same network, got calls of another one",
        ),
        (Box::new(BuildError::from(give)), "a given value of record r: expected 3 elements, got 2"),
        (Box::new(BuildError::Input("no word".into())), "no word"),
        (Box::new(UnwritableNetwork("too large".into())), "too large"),
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
