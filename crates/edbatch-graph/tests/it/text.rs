//! The text format: round trips, and errors with line numbers.

use edbatch_graph::{Dag, NodeId, PlainDag, parse_text, write_text};
use proptest::prelude::*;

use crate::dags::{graphs, plain_dags};

/// Compares the error message of a text.
fn check(text: &str, expected: &str) {
    let message = parse_text(text).map_or_else(|error| error.to_string(), |_| "no error".into());
    assert_eq!(message, expected, "of {text:?}");
}

#[test]
fn errors_have_line_numbers() {
    check("", "line 1: expected the number of nodes, got an empty file");
    check("x\n", "line 1: expected the number of nodes, got x");
    check("\n1\n", "line 1: expected the number of nodes, got the end of the line");
    check("-1\n", "line 1: expected the number of nodes, got -1");
    check("+1\n0 0\n", "line 1: expected the number of nodes, got +1");
    check("1 2\n0 0\n", "line 1: expected the end of the line, got 2");
    check("1\n", "line 2: expected 1 nodes, got 0 before the end of the file");
    check("2\n\n0 0\n", "line 4: expected 2 nodes, got 1 before the end of the file");
    check("1\n0\n", "line 2: expected the number of inputs, got the end of the line");
    check("2\n0 0\n0 1\n", "line 3: expected an input's id, got the end of the line");
    check("1\n0 0 0\n", "line 2: expected the end of the line, got 0");
    check(
        "1\n0 0\n\n0 0\n",
        "line 4: expected the end of the file after 1 nodes, got another line",
    );
    check(
        "2\n0 1 1\n0 0\n",
        "line 2: node 0 reads node 1, which does not precede it: expected no cycles or forward \
         references",
    );
    check("2\r\n0 0\r\n0 1 7\r\n", "line 3: node 1 reads node 7, but there are only 2 nodes");
    check("1\n0 \u{1b}[31m\n", "line 2: expected the number of inputs, got \\u{1b}[31m");
    let long = "9".repeat(100);
    check(
        &format!("{long}\n"),
        &format!("line 1: expected the number of nodes, got {}…", &long[..40]),
    );
}

#[test]
fn huge_numbers_allocate_no_memory() {
    let huge = u64::MAX;
    check(
        &format!("{huge}\n0 0\n"),
        &format!("line 3: expected {huge} nodes, got 1 before the end of the file"),
    );
    check(
        &format!("2\n0 0\n0 {huge} 0\n"),
        "line 3: expected an input's id, got the end of the line",
    );
    check(
        &format!("2\n0 0\n0 1 {huge}\n"),
        &format!("line 3: node 1 reads node {huge}, but there are only 2 nodes"),
    );
}

#[test]
fn the_error_for_too_many_types_has_a_line_number() {
    let mut text = String::from("65538\n\n");
    for node in 0..65_538u64 {
        text.push_str(&format!("{} 0\n", node.saturating_sub(1) + (1 << 40)));
    }
    check(&text, "line 65540: 65537 different kinds, expected at most 65536");
}

/// Returns true if the arguments are equal, and the names of kinds are the original numbers.
fn is_same(dag: &impl Dag, read: &PlainDag) -> bool {
    dag.nodes() == read.nodes()
        && (0..dag.nodes()).map(NodeId::new).all(|node| {
            read.kind_names()[read.kind(node).index()] == dag.kind(node).0.to_string()
                && read.arguments(node).eq(dag.arguments(node))
        })
}

proptest! {
    #[test]
    fn written_graphs_are_read_unchanged(dag in plain_dags(), graph in graphs()) {
        let read = parse_text(&write_text(&dag)).unwrap();
        prop_assert!(is_same(&dag, &read));
        // A text with dense kinds is canonical.
        let text = write_text(&read);
        prop_assert_eq!(write_text(&parse_text(&text).unwrap()), text);
        prop_assert!(is_same(&graph, &parse_text(&write_text(&graph)).unwrap()));
    }

    #[test]
    fn any_text_is_a_graph_or_an_error_with_a_valid_line(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = parse_text(&text) {
            prop_assert!((1..=text.lines().count() + 1).contains(&error.line));
        }
    }

    #[test]
    fn the_error_of_a_wrong_byte_has_its_line_or_a_later_one(
        dag in plain_dags(),
        place in any::<prop::sample::Index>(),
        byte in prop::sample::select(b"0 9\n-x\xff".to_vec()),
    ) {
        let mut bytes = write_text(&dag).into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let line = 1 + bytes[..place].iter().filter(|&&byte| byte == b'\n').count();
        let text = String::from_utf8_lossy(&bytes);
        if let Err(error) = parse_text(&text) {
            prop_assert!(error.line >= line, "{error} but line {line} was changed");
            prop_assert!(error.line <= text.lines().count() + 1);
        }
    }

    #[test]
    fn a_missing_line_is_an_error(dag in plain_dags(), missing in any::<prop::sample::Index>()) {
        let text = write_text(&dag);
        let mut lines: Vec<&str> = text.lines().collect();
        prop_assume!(lines.len() > 1);
        lines.remove(1 + missing.index(lines.len() - 1));
        prop_assert!(parse_text(&lines.join("\n")).is_err());
    }
}
