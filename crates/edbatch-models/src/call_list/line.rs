//! Reads a call list from a line of JSON.
//!
//! Visitors of serde append to flat arrays, without a tree of values. The calls are made when the
//! whole line has been read: the numbers of values begin with the given values, and the member
//! `give` may follow the calls.

mod graph;
mod visitors;

use std::cmp::Ordering;
use std::sync::Arc;

use edbatch_graph::{CallError, Kind, Network, RecordId, Value};
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

use super::CallList;
use crate::json_fault::{JsonFault, check_strings};

/// The length in bytes from which a line is checked for long strings before it is parsed.
const LONG: usize = 1 << 20;

const SYNTAX: &str = "{\"calls\": [[\"cell\", row, value, [value, …]], …], \"emit\": [value, …]}";

/// The names of a network, to read its call lists.
#[derive(Debug)]
pub(super) struct LineReader {
    /// Cloned for each line: clones share the signatures of the cells.
    pub(super) empty: CallList,
    kinds: Names<Kind>,
    records: Names<RecordId>,
}

/// Names in the order of [`by_length`], for binary search: networks have few cells.
type Names<I> = Vec<(String, I)>;

/// Compares lengths first: names of different lengths are told apart without reading them.
fn by_length(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// The contents of a line, not yet checked against the network.
struct Line<'r> {
    reader: &'r LineReader,
    seen: [bool; 4],
    given: Vec<(RecordId, usize)>,
    elements: Vec<f32>,
    /// The calls: the cell and the number of values.
    calls: Vec<(Kind, u32)>,
    rows: Vec<u32>,
    values: Vec<i32>,
    emitted: Vec<i32>,
    targets: Option<Vec<Option<u32>>>,
}

impl LineReader {
    pub(super) fn new(network: Arc<Network>) -> Self {
        let cells = network.cells().iter().enumerate();
        let kinds = cells.map(|(kind, cell)| (cell.name().to_string(), Kind::new(kind)));
        let records = network.records().iter().zip(0..);
        let records = records.map(|(record, id)| (record.name.clone(), RecordId(id)));
        let (mut kinds, mut records): (Names<_>, Names<_>) = (kinds.collect(), records.collect());
        kinds.sort_unstable_by(|a, b| by_length(&a.0, &b.0));
        records.sort_unstable_by(|a, b| by_length(&a.0, &b.0));
        Self { empty: CallList::new(network), kinds, records }
    }

    pub(super) fn read(&self, text: &str) -> Result<CallList, JsonFault> {
        if text.len() >= LONG {
            check_strings(text)?;
        }
        if graph::is_graph(text) {
            return self.read_graph(text);
        }
        // A call has about 16 bytes. Longer lines grow.
        let calls = (text.len() / 16).min(1 << 10);
        let mut line = Line {
            reader: self,
            seen: [false; 4],
            given: Vec::new(),
            elements: Vec::new(),
            calls: Vec::with_capacity(calls),
            rows: Vec::with_capacity(calls),
            values: Vec::with_capacity(calls),
            emitted: Vec::new(),
            targets: None,
        };
        let mut json = serde_json::Deserializer::from_str(text);
        let parsed = json.deserialize_map(&mut line).and_then(|()| json.end());
        parsed.map_err(|error| JsonFault::of(text, 0, &error, SYNTAX))?;
        line.list(text)
    }

    fn network(&self) -> &Network {
        self.empty.network()
    }
}

impl Line<'_> {
    /// Makes the calls of the line.
    fn list(self, text: &str) -> Result<CallList, JsonFault> {
        let at = |part: fn(RawLine<'_>, usize) -> Option<&RawValue>, index| {
            let raw = serde_json::from_str(text).ok().and_then(|raw| part(raw, index));
            raw.map_or(0, |raw| raw.get().as_ptr() as usize - text.as_ptr() as usize)
        };
        let mut list = self.reader.empty.clone();
        list.reserve(self.calls.len(), self.rows.len(), self.values.len()).map_err(|error| {
            JsonFault::new(text, 0, "a list that fits into memory", error.to_string())
        })?;
        let mut elements = self.elements.as_slice();
        // The values by their number: the given ones, then the results of the calls.
        let mut made = Vec::with_capacity(self.given.len() + self.calls.len());
        for (index, &(record, count)) in self.given.iter().enumerate() {
            let (row, rest) = elements.split_at(count);
            elements = rest;
            made.push(list.give(record, row).map_err(|error| {
                let byte = at(|line, index| line.give?.get(index).copied(), index);
                JsonFault::new(text, byte, "a given value that fits its record", error.to_string())
            })?);
        }
        let network = self.reader.network();
        let value = |number: i32, made: &[Value]| match usize::try_from(number) {
            Err(_) => network.initial_value(number.unsigned_abs() as usize - 1),
            Ok(number) => made.get(number).copied(),
        };
        let misnumbered = |byte, number: i32, made: usize, of: &str| {
            let initial = network.initial_values().len();
            let expected = match initial {
                0 => format!("the number of an earlier value, below {made}"),
                _ => format!(
                    "the number of an earlier value, below {made}, or of an initial value, from \
                     -1 to -{initial}"
                ),
            };
            JsonFault::new(text, byte, expected, number.to_string()).within(of)
        };
        let place = |index| at(|line, index| line.calls?.get(index).copied(), index);
        let (mut rows, mut values) = (self.rows.as_slice(), self.values.as_slice());
        let mut arguments: Vec<Value> = Vec::new();
        for (index, &(kind, count)) in self.calls.iter().enumerate() {
            let (now, rest) = values.split_at(count as usize);
            values = rest;
            arguments.clear();
            for (argument, &number) in now.iter().enumerate() {
                let misnumbered = || {
                    let ports = network[kind].ports();
                    let port = &ports[argument.min(ports.len() - 1)].name;
                    let of = format!("{port} of cell {}", network[kind].name());
                    misnumbered(place(index), number, made.len(), &of)
                };
                arguments.push(value(number, &made).ok_or_else(misnumbered)?);
            }
            let (now, rest) = rows.split_at(network[kind].tables().len());
            rows = rest;
            made.push(list.call(kind, now, &arguments).map_err(|error: CallError| {
                JsonFault::new(text, place(index), "a call that fits its cell", error.to_string())
            })?);
        }
        let emit = |index| at(|line, index| line.emit?.get(index).copied(), index);
        for (index, &number) in self.emitted.iter().enumerate() {
            let misnumbered = || misnumbered(emit(index), number, made.len(), "emit");
            let emitted = value(number, &made).ok_or_else(misnumbered)?;
            list.emit(emitted).expect("a value of this list");
        }
        list.set_targets(self.targets).map_err(|error| {
            let byte = at(|line, _| line.targets, 0);
            JsonFault::new(text, byte, "targets that fit the emitted values", error.to_string())
        })?;
        Ok(list)
    }
}

/// The items of a line as slices, for the places of errors. Other members are ignored.
#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(borrow)]
    give: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    calls: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    emit: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    targets: Option<&'a RawValue>,
}
