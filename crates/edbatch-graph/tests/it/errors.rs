//! The texts of errors, and that no source repeats a part of them.

use std::error::Error;

use edbatch_graph::{
    CallError, CallErrorReason, DagError, NodeId, ScheduleError, TextError, TextErrorKind,
    Violation,
};

#[test]
fn messages_are_complete_without_a_source() {
    let call = |reason| Box::new(CallError { cell: "leaf".into(), reason });
    let cases: [(Box<dyn Error>, &str); 8] = [
        (
            call(CallErrorReason::Rows { expected: 1, got: 2 }),
            "call of leaf: expected 1 row of tables, got 2",
        ),
        (
            call(CallErrorReason::OtherNetwork),
            "call of leaf: expected calls of the same network, got calls of another one",
        ),
        (
            call(CallErrorReason::Memory { nodes: 7 }),
            "call of leaf: out of memory: the graph has 7 nodes and cannot grow; make mini-batches \
             smaller",
        ),
        (
            call(CallErrorReason::Full),
            "call of leaf: the graph is full: it has 2^28 - 1 nodes, rows or arguments; make \
             mini-batches smaller",
        ),
        (
            call(CallErrorReason::Slots { rows: 1, record: "word".into() }),
            "call of leaf: slots: 1 row of record word is missing: run the list by `packed` or \
             `forward` of a layer, which take them, or give the values by `give`",
        ),
        (
            Box::new(DagError::NotEarlier { node: NodeId(1), argument: NodeId(2) }),
            "node 1 reads node 2, which does not precede it: arguments must come first",
        ),
        (
            Box::new(ScheduleError { batch: 2, node: NodeId(1), what: Violation::Never }),
            "batch 2, node n1: never runs",
        ),
        (
            Box::new(TextError { line: 1, kind: TextErrorKind::Empty }),
            "line 1: expected the number of nodes, got an empty file",
        ),
    ];
    for (error, message) in cases {
        assert_eq!(error.to_string(), message);
        assert!(error.source().is_none(), "{message}");
    }
}
