//! Lines of call lists: errors with their places, and limits.

use std::sync::Arc;

use edbatch_graph::{Graph, Network, Shape};

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

/// Lines, each above its error.
const FAULTS: &str = include_str!("faults.txt");

#[test]
fn faults_have_a_place_and_an_expectation() {
    for case in FAULTS.lines().collect::<Vec<_>>().chunks(2) {
        check(case[0], case[1]);
    }
    let error = CallList::from_json(&network(), "").unwrap_err().to_string();
    assert!(error.ends_with("got the end of the text (EOF while parsing a value)"), "{error}");
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

#[test]
fn slots_take_the_place_of_given_rows() {
    let (network, state) = (network(), RecordId(0));
    let mut list = CallList::new(network.clone());
    let first = list.give(state, &[1.0, 2.0]).unwrap();
    let slots = list.add_slots(state, 2).unwrap();
    assert!(list.add_slots(state, 0).unwrap().is_empty());
    let more = list.add_slots(state, 1).unwrap();
    let last = list.give(state, &[9.0, 9.5]).unwrap();
    let pair = list.add_slots(RecordId(1), 1).unwrap();
    let halves = list.call(Kind(2), &[], &pair).unwrap();
    let sum = list.call(Kind(1), &[], &[halves, first, slots[0], slots[1], more[0], last]).unwrap();
    list.emit(sum).unwrap();
    let entry = |record, first, count| Slots { record: RecordId(record), first, count };
    assert_eq!(list.slots(), [entry(0, 2, 3), entry(1, 6, 1)]);

    let (graph, mailbox) = (Graph::new(network.clone()).into(), Mailbox::default().into());
    let build = Build::new(&graph, &mailbox);
    let error = list.append_to(&build, &[]).unwrap_err();
    let reason = CallErrorReason::Slots { rows: 3, record: "state".into() };
    assert_eq!(error.reason, reason);
    assert_eq!(graph.borrow().nodes(), 0);
    let rows: [&[f32]; 2] = [&[3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[0.1, 0.2, 0.3]];
    list.append_with_rows(&build, rows.into_iter()).unwrap();
    let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.5, 0.1, 0.2, 0.3];
    assert_eq!(mailbox.borrow().given, expected);
    assert_eq!(graph.borrow().to_string(), list.graph().to_string());

    assert_eq!(list.to_json(), Err(CallListError::Slots { slots: 4 }));
    let mut fewer = CallList::new(network);
    fewer.add_slots(state, 2).unwrap();
    let mut given = fewer.clone();
    fewer.clear();
    assert_eq!(fewer.slots(), []);
    assert_ne!(fewer, given);
    assert_eq!(given.add_slots(state, Graph::MAX_ENTRIES), Err(crate::GiveError::TooMany));
    assert_eq!(given.slots(), [entry(0, 1, 2)]);
    assert!(given.add_slots(RecordId(9), 1).is_err());
}
