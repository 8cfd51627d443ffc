//! Writes a call list as a line of JSON.

use std::fmt::Write;

use edbatch_graph::{Arity, Dag, NodeId, Source, Value};

use super::{CallList, CallListError};

const WRITING: &str = "writing to memory succeeds";

pub(super) fn write(list: &CallList) -> Result<String, CallListError> {
    if list.carried > 0 {
        return Err(CallListError::Carried { carried: list.carried });
    }
    if let Some(&element) = list.given.iter().find(|element| !element.is_finite()) {
        return Err(CallListError::NotFinite { element });
    }
    let (graph, network) = (&list.graph, list.network());
    let initial = network.initial_values().len();
    let given = &graph.given()[initial..];
    let number = |value: Value| match value.source() {
        Source::Node(node) => (given.len() + node.index()) as i64,
        Source::Given(index) => match index.checked_sub(initial) {
            Some(given) => given as i64,
            None => -1 - index as i64,
        },
    };
    let mut out = String::from("{");
    let mut elements = list.given.as_slice();
    for (index, &record) in given.iter().enumerate() {
        let record = network.fields(record);
        out.push_str(if index == 0 { "\"give\": [[" } else { ", [" });
        write!(out, "{}, [", quoted(&record.name)).expect(WRITING);
        let width = record.fields.iter().map(|field| field.shape.elements()).sum();
        let (row, rest) = elements.split_at(width);
        elements = rest;
        // Debug writes the shortest text that reads back to the same bits, and exponents.
        list_of(&mut out, row.iter().map(|element| format!("{element:?}")));
        out.push_str("]]");
    }
    out.push_str(if given.is_empty() { "\"calls\": [" } else { "], \"calls\": [" });
    for node in (0..graph.nodes()).map(NodeId::new) {
        let cell = &network[graph.kind(node)];
        write!(out, "{}[{}", if node.0 == 0 { "" } else { ", " }, quoted(cell.name()))
            .expect(WRITING);
        graph.rows(node).iter().for_each(|row| write!(out, ", {row}").expect(WRITING));
        let mut values = graph.values(node).map(number);
        for port in cell.ports() {
            match port.arity {
                Arity::One => {
                    let value = values.next().expect("a value for each port");
                    write!(out, ", {value}").expect(WRITING);
                }
                Arity::Many => {
                    out.push_str(", [");
                    list_of(&mut out, values.by_ref().map(|value| value.to_string()));
                    out.push(']');
                }
            }
        }
        out.push(']');
    }
    out.push(']');
    if !list.emitted.is_empty() {
        out.push_str(", \"emit\": [");
        list_of(&mut out, list.emitted.iter().map(|&value| number(value).to_string()));
        out.push(']');
    }
    if let Some(targets) = &list.targets {
        out.push_str(", \"targets\": [");
        let target = |target: &Option<u32>| target.map_or("null".into(), |class| class.to_string());
        list_of(&mut out, targets.iter().map(target));
        out.push(']');
    }
    out.push('}');
    Ok(out)
}

fn list_of(out: &mut String, items: impl Iterator<Item = String>) {
    for (index, item) in items.enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        out.push_str(&item);
    }
}

fn quoted(name: &str) -> String {
    serde_json::to_string(name).expect("text becomes JSON")
}
