//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;

use edbatch_graph::{CallError, CallErrorReason, NodeId, RecordId, Source};

use crate::{BuildError, CallListError, GiveError, UnwritableNetwork};

#[test]
fn messages_are_complete_without_a_source() {
    let call = CallError { cell: "leaf".into(), reason: CallErrorReason::OtherNetwork };
    let give = GiveError::Elements { record: "r".into(), expected: 3, got: 2 };
    let cases: [(Box<dyn Error>, &str); 11] = [
        (
            Box::new(GiveError::NoRecord { record: RecordId(4), records: 3 }),
            "record 4 does not exist: the network has 3 records",
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
            Box::new(CallListError::Slots { slots: 3 }),
            "expected a list without slots to write, got 3: give their elements by `give`",
        ),
        (
            Box::new(BuildError::from(call)),
            "call of leaf: expected calls of the same network, got calls of another one",
        ),
        (Box::new(BuildError::from(give)), "a given value of record r: expected 3 elements, got 2"),
        (Box::new(BuildError::Input("no word".into())), "no word"),
        (Box::new(UnwritableNetwork("too large".into())), "too large"),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none(), "{message}");
    }
}
