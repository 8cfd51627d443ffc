//! Broken call lists: each error names the cell and its table or port, or the record.

use super::tests::network;
use super::*;

#[test]
fn errors_name_the_cell_the_port_or_the_record() {
    for (line, named) in [
        (r#"{"calls": [["leaf", "4"]]}"#, "cell leaf"),
        (r#"{"calls": [["leaf", null]]}"#, "cell leaf"),
        (r#"{"calls": [["leaf", 4294967296]]}"#, "cell leaf"),
        (r#"{"calls": [["leaf", 99999999999999999999]]}"#, "cell leaf"),
        (r#"{"calls": [["leaf", -99999999999999999999]]}"#, "cell leaf"),
        (r#"{"calls": [["leaf", 9223372036854775808]]}"#, "cell leaf"),
        (r#"{"calls": [["sum", -1, [-1], 3]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", -1, [-1, "a"]]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", -1, [-1, [-1]]]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", [-1], [-1]]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", 7, [-1]]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", -1, [7]]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", -1, [2147483648]]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", -1, [4294967295]]]}"#, "of cell sum"),
        (r#"{"calls": [["sum", -3, [-1]]]}"#, "of cell sum"),
        (r#"{"calls": [["leaf", 1]], "emit": [-2]}"#, "emit"),
        (r#"{"calls": [["leaf", 1]], "emit": ["0"]}"#, "emit"),
        (r#"{"calls": [["leaf", 1]], "emit": 0}"#, "emit"),
        (r#"{"calls": [["leaf", 1]], "emit": [4294967296]}"#, "emit"),
        (r#"{"calls": [["leaf", 1]], "emit": [0], "targets": [-1]}"#, "target"),
        (r#"{"calls": [["leaf", 1]], "emit": [0], "targets": [1.5]}"#, "target"),
        (r#"{"calls": [["leaf", 1]], "emit": [0], "targets": [4294967296]}"#, "target"),
        (r#"{"calls": [["leaf", 1]], "emit": [0], "targets": ["x"]}"#, "target"),
        (r#"{"calls": [["leaf", 1]], "emit": [0], "targets": []}"#, "targets"),
        (r#"{"give": [["pair", [0, 0, 0]]], "calls": [], "emit": [0], "targets": [0]}"#, "targets"),
        (r#"{"give": [["pair", [0, 0, 0], 1]], "calls": []}"#, "pair"),
        (r#"{"give": [["pair", [0, 1e39, 0]]], "calls": []}"#, "pair"),
        (r#"{"give": [["pair", [0, "1", 0]]], "calls": []}"#, "pair"),
        (r#"{"give": [["pair", [0, [1], 0]]], "calls": []}"#, "pair"),
        (r#"{"give": [["pair", 0]], "calls": []}"#, "pair"),
    ] {
        let error = CallList::from_json(&network(), line).unwrap_err().to_string();
        assert!(error.starts_with("1:") && error.contains(named), "{line}: {error}");
        let (place, _) = error.split_once(": ").unwrap();
        let column: usize = place[2..].parse().unwrap();
        assert!((11..=line.chars().count()).contains(&column), "{line}: {error}");
    }
}
