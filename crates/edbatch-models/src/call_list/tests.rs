//! Lines of call lists: errors with their places, and limits.

use std::sync::Arc;

use edbatch_graph::{Network, Shape};

use super::*;

/// Records of one and of two fields, an initial value, and cells with every kind of operand.
pub(super) fn network() -> Arc<Network> {
    let mut network = Network::new();
    let state = network.record("state", [("h", Shape::Vector(2))]).unwrap();
    let pair = [("v", Shape::Vector(1)), ("m", Shape::Matrix(1, 2))];
    let pair = network.record("pair", pair).unwrap();
    network.initial(state, &["h0"]).unwrap();
    network.cell("leaf", state, |cell| vec![cell.lookup("token", "embed", &[9, 2])]).unwrap();
    let sum = network.cell("sum", state, |cell| {
        let [x] = cell.one("first", state);
        let [sum] = cell.many("rest", state).sum();
        vec![x + sum]
    });
    sum.unwrap();
    let halves = network.cell("halves", state, |cell| {
        let [v, m] = cell.one("pair", pair);
        vec![m.transpose().matmul(v)]
    });
    halves.unwrap();
    Arc::new(network)
}

fn check(line: &str, expected: &str) {
    let got = match CallList::from_json(&network(), line) {
        Ok(list) => format!("{}emit {:?}", list.graph(), list.emitted().len()),
        Err(error) => error.to_string(),
    };
    assert_eq!(got, expected, "{line}");
}

#[test]
fn lines_are_read_and_written() {
    let give = r#""give": [["pair", [0.1, -0.0, 1e-45]], ["state", [1.0, 3.4028235e38]]]"#;
    let calls = r#""calls": [["leaf", 4], ["halves", 0], ["sum", -1, [1, 2, 3]]]"#;
    let emit = r#""emit": [4, 4, -1, 1], "targets": [1, null, 0, null]"#;
    let text = &*format!("{{{give}, {calls}, {emit}}}");
    let network = network();
    let list = CallList::from_json(&network, text).unwrap();
    assert_eq!(
        list.graph().to_string(),
        "n0 = leaf(#4)\nn1 = halves(g1)\nn2 = sum(g0, g2, n0, n1)\n"
    );
    assert_eq!(list.given()[1].to_bits(), (-0.0_f32).to_bits());
    assert_eq!(list.to_json().unwrap(), text);
    assert_eq!(CallList::from_json(&network, &list.to_json().unwrap()).unwrap(), list);
    // Members in another order, with white space.
    let other = r#" { "emit" : [2], "calls":[ [ "sum" ,0,[ 1 ] ] ],"give":[["state",[ 1 , 2.50 ]],
        ["state",[ 1, 1000000000000000000000000000e-27 ]]]} "#;
    let list = CallList::from_json(&network, other).unwrap();
    assert_eq!(
        list.to_json().unwrap(),
        "{\"give\": [[\"state\", [1.0, 2.5]], [\"state\", [1.0, 1.0]]], \"calls\": [[\"sum\", 0, \
         [1]]], \"emit\": [2]}"
    );
    check(r#"{"calls": []}"#, "emit 0");
}

#[test]
fn faults_have_a_place_and_an_expectation() {
    let syntax = "{\"calls\": [[\"cell\", row, value, [value, …]], …], \"emit\": [value, …]}";
    let eof = "the end of the text (EOF while parsing";
    check("", &format!("1:1: expected {syntax}, got {eof} a value)"));
    check("{", &format!("1:2: expected {syntax}, got {eof} an object)"));
    check("[]", &format!("1:1: expected {syntax}, got sequence"));
    check("{}", "1:2: expected the member `calls`, got an object without it");
    check(
        r#"{"calls": [], "x": 1}"#,
        "1:17: expected one of `give`, `calls`, `emit`, `targets`, got the unknown member `x`",
    );
    check(
        r#"{"calls": [], "calls": []}"#,
        "1:21: expected the member `calls` once, got it a second time",
    );
    check(r#"{"calls": 1}"#, "1:11: expected a list of calls, got integer `1`");
    check(
        r#"{"calls": [1]}"#,
        "1:12: expected a call, [\"cell\", row, value, [value, …]], got integer `1`",
    );
    check(r#"{"calls": [[]]}"#, "1:13: expected the name of a cell, got an empty call");
    check(r#"{"calls": [["lead"]]}"#, "1:18: expected a cell of the network, got \"lead\"");
    let row = "a row of table token of cell leaf";
    check(r#"{"calls": [["leaf"]]}"#, &format!("1:19: expected {row}, got the end of the call"));
    check(r#"{"calls": [["leaf", -1]]}"#, &format!("1:22: expected {row}, got integer `-1`"));
    check(
        r#"{"calls": [["leaf", 1.5]]}"#,
        &format!("1:23: expected {row}, got floating point `1.5`"),
    );
    check(
        r#"{"calls": [["leaf", 9]]}"#,
        "1:12: expected a call that fits its cell, got call of leaf: token: row 9 does not exist: \
         the table has 9",
    );
    check(
        r#"{"calls": [["leaf", 4, 1]]}"#,
        "1:25: expected the end of the call of cell leaf, got another item",
    );
    check(
        r#"{"calls": [["sum", -1]]}"#,
        "1:22: expected a value for rest of cell sum, got the end of the call",
    );
    check(
        r#"{"calls": [["sum", -1, -1]]}"#,
        "1:25: expected a list of values for rest of cell sum, got integer `-1`",
    );
    check(
        r#"{"calls": [["sum", -1, []]]}"#,
        "1:12: expected a call that fits its cell, got call of sum: rest: expected at least one \
         value, got none",
    );
    let number = "the number of an earlier value, below";
    check(
        r#"{"calls": [["leaf", 0], ["sum", 0, [1]]]}"#,
        &format!(
            "1:25: expected {number} 1, or of an initial value, from -1 to -1, got 1 (rest of cell sum)"
        ),
    );
    check(
        r#"{"calls": [["sum", -2, [-1]]]}"#,
        &format!(
            "1:12: expected {number} 0, or of an initial value, from -1 to -1, got -2 (first of cell sum)"
        ),
    );
    check(
        r#"{"calls": [["sum", -2147483648, [-1]]]}"#,
        &format!(
            "1:12: expected {number} 0, or of an initial value, from -1 to -1, got -2147483648 (first of cell sum)"
        ),
    );
    check(
        r#"{"give": [["pair", [0, 0, 0]]], "calls": [["sum", 0, [-1]]]}"#,
        "1:43: expected a call that fits its cell, got call of sum: first: expected a value of \
         record state, got one of pair",
    );
    check(
        r#"{"give": [["pair", [0, 0]]], "calls": []}"#,
        "1:11: expected a given value that fits its record, got a given value of record pair: \
         expected 3 elements, got 2",
    );
    check(
        r#"{"give": [["x", []]], "calls": []}"#,
        "1:14: expected a record of the network, got \"x\"",
    );
    check(
        r#"{"give": [["state"]], "calls": []}"#,
        "1:19: expected the elements of a state, got the end of the given value",
    );
    for (element, got) in [
        ("3.5e38", "a number in the range of 32-bit floats, got 3.5e38"),
        ("\"1\"", "a number, got \"1\""),
        ("[1]", "a number, got [1]"),
        ("null", "a number, got null"),
    ] {
        let line = format!("{{\"give\": [[\"state\", [0, {element}]]], \"calls\": []}}");
        let error = CallList::from_json(&network(), &line).unwrap_err().to_string();
        let expected = format!("expected {got} (element 1 of a state)");
        assert!(error.ends_with(&expected), "{error}");
    }
    check(
        r#"{"calls": [["leaf", 0]], "emit": [0, 1]}"#,
        &format!("1:38: expected {number} 1, or of an initial value, from -1 to -1, got 1 (emit)"),
    );
    let targets = "targets that fit the emitted values, got targets:";
    check(
        r#"{"calls": [["leaf", 0]], "emit": [0], "targets": [1, 1]}"#,
        &format!("1:50: expected {targets} expected one for each of 1 emitted values, got 2"),
    );
    check(
        r#"{"calls": [["leaf", 0]], "emit": [0], "targets": [2]}"#,
        &format!("1:50: expected {targets} expected a class below 2 for emitted value 0, got 2"),
    );
    check(r#"{"calls": []} x"#, "1:15: expected valid JSON, got \"x\" (trailing characters)");
}

#[test]
fn limits_of_a_line() {
    let read = |line: String| {
        let list = CallList::from_json(&network(), &line);
        list.map(|list| list.graph().nodes()).map_err(|error| error.expected)
    };
    let calls = |count| format!("{{\"calls\":[{}]}}", vec!["[\"leaf\",0]"; count].join(","));
    assert_eq!(read(calls(1 << 20)), Ok(1 << 20));
    assert_eq!(read(calls((1 << 20) + 1)), Err("at most 1048576 calls".into()));
    let operands = |count: usize| {
        let values = vec!["-1"; count - 1].join(",");
        format!("{{\"calls\":[[\"sum\",-1,[{values}]]]}}")
    };
    assert_eq!(read(operands(1 << 24)), Ok(1));
    assert_eq!(read(operands((1 << 24) + 1)), Err("at most 16777216 operands".into()));
    let emitted = |count| format!("{{\"calls\":[],\"emit\":[{}]}}", vec!["-1"; count].join(","));
    assert_eq!(read(emitted(1 << 22)), Ok(0));
    assert_eq!(read(emitted((1 << 22) + 1)), Err("at most 4194304 emitted values".into()));
    let given = |element: &str| format!("{{\"give\":[[\"state\",[0,{element}]]],\"calls\":[]}}");
    assert_eq!(read(given("3.4028235e38")), Ok(0));
    assert_eq!(read(given("3.4028236e38")), Err("a number in the range of 32-bit floats".into()));
    // Long names are found before they are copied.
    let long = format!("{{\"calls\":[[\"{}\"]]}}", "x".repeat(1 << 20));
    assert_eq!(read(long), Err("a name of at most 256 bytes".into()));
    let nested = format!("{{\"calls\":{}", "[".repeat(1 << 20));
    assert!(read(nested).is_err());
}

#[test]
fn lists_are_checked_while_they_are_made() {
    let network = network();
    let [state, pair] = [RecordId(0), RecordId(1)];
    let mut list = CallList::new(network.clone());
    let carried = list.carried(state).unwrap();
    let given = list.give(state, &[1.0, 2.0]).unwrap();
    let sum = list.call(Kind(1), &[], &[carried, given]).unwrap();
    list.emit(sum).unwrap();
    let error = list.carried(state).unwrap_err().to_string();
    assert_eq!(error, "expected carried values before given ones, got one after them");
    let error = list.give(pair, &[1.0]).unwrap_err().to_string();
    assert_eq!(error, "a given value of record pair: expected 3 elements, got 1");
    assert!(list.carried(RecordId(2)).is_err());
    let foreign = CallList::new(network.clone()).give(state, &[0.0, 0.0]).unwrap();
    assert!(list.emit(foreign).is_err());
    let error = list.to_json().unwrap_err().to_string();
    assert_eq!(error, "expected a list without carried values to write, got 1");
    let error = list.set_targets(Some(vec![])).unwrap_err().to_string();
    assert_eq!(error, "targets: expected one for each of 1 emitted values, got 0");

    list.clear();
    assert_eq!(list, CallList::new(network));
    assert!(list.emit(sum).is_err(), "values of a cleared list are stale");
    list.give(state, &[1.0, f32::NAN]).unwrap();
    let error = list.to_json().unwrap_err().to_string();
    assert_eq!(error, "expected finite elements to write, got NaN");
}
