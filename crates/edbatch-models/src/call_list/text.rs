//! Writes a call list as a line of JSON.

use edbatch_graph::{Arity, Dag, NodeId, Source, Value};

use super::{CallList, CallListError};
use crate::json_text::{self, quoted};

pub(super) fn write(list: &CallList) -> Result<String, CallListError> {
    if list.carried > 0 {
        return Err(CallListError::Carried { carried: list.carried });
    }
    if !list.slots.is_empty() {
        let slots = list.slots.iter().map(|slots| slots.count).sum();
        return Err(CallListError::Slots { slots });
    }
    if let Some(&element) = list.given.iter().find(|element| !element.is_finite()) {
        return Err(CallListError::NotFinite { element });
    }
    let (graph, network) = (&list.graph, list.network());
    let initial = network.initial_values().len();
    let given = &graph.given()[initial..];
    let number = |value: Value| match value.source() {
        Source::Node(node) => (given.len() + node.index()).to_string(),
        Source::Given(index) => match index.checked_sub(initial) {
            Some(given) => given.to_string(),
            None => format!("-{}", index + 1),
        },
    };
    let mut members = Vec::new();
    let mut elements = list.given.as_slice();
    let rows = given.iter().map(|&record| {
        let record = network.fields(record);
        let width = record.fields.iter().map(|field| field.shape.elements()).sum();
        let (row, rest) = elements.split_at(width);
        elements = rest;
        // Debug writes the shortest text that reads back to the same bits, and exponents.
        let row = json_text::list(row.iter().map(|element| format!("{element:?}")));
        format!("[{}, {row}]", quoted(&record.name))
    });
    if !given.is_empty() {
        members.push(format!("\"give\": {}", json_text::list(rows)));
    }
    let calls = (0..graph.nodes()).map(NodeId::new).map(|node| {
        let cell = &network[graph.kind(node)];
        let rows = graph.rows(node).iter().map(u32::to_string);
        let mut values = graph.values(node).map(number);
        let values = cell.ports().iter().map(|port| match port.arity {
            Arity::One => values.next().expect("a value for each port"),
            Arity::Many => json_text::list(values.by_ref()),
        });
        json_text::list([quoted(cell.name())].into_iter().chain(rows).chain(values))
    });
    members.push(format!("\"calls\": {}", json_text::list(calls)));
    if !list.emitted.is_empty() {
        let emitted = list.emitted.iter().map(|&value| number(value));
        members.push(format!("\"emit\": {}", json_text::list(emitted)));
    }
    if let Some(targets) = &list.targets {
        let target = |target: &Option<u32>| target.map_or("null".into(), |class| class.to_string());
        let targets = json_text::list(targets.iter().map(target));
        members.push(format!("\"targets\": {targets}"));
    }
    Ok(format!("{{{}}}", members.join(", ")))
}
