//! Networks as text: `network.json`, version 1.
//!
//! Records, parameters and cells are referred to by name; tables, ports, fields and operations of a
//! cell by number. Shapes of operations are inferred, not stored. [`Network::add_cell`] checks
//! the cells.

#[cfg(test)]
mod broken;
mod items;
mod operation;
mod reader;
#[cfg(test)]
mod tests;
mod text;
mod writer;

use edbatch_graph::Network;
use serde::Deserialize;

use crate::JsonFault;
use crate::json_fault::{check_strings, without_mark};
use items::File;
use reader::Reader;

pub use writer::{UnwritableNetwork, network_to_json};

/// The version that is written and read.
const VERSION: u64 = 1;

/// The maximum number of bytes of a text that [`network_from_json`] reads.
pub const MAX_BYTES: usize = 64 << 20;

/// The maximum number of cells.
const MAX_CELLS: usize = 1 << 10;

/// The maximum number of operations of a cell. The time to compile a cell grows with the square of
/// its operations.
const MAX_OPERATIONS: usize = 1 << 11;

/// The maximum number of operations of all cells.
const MAX_ALL_OPERATIONS: usize = 1 << 14;

/// The maximum number of operands of all operations.
const MAX_ALL_OPERANDS: usize = 1 << 20;

/// The maximum number of records, of their fields, of parameters, of initial values, and of tables
/// and ports of all cells.
const MAX_ITEMS: usize = 1 << 16;

/// Reads a network from the text of a `network.json`.
///
/// ```
/// use edbatch_models::{network_from_json, network_to_json};
///
/// let text = r#"{"edbatch_network": 1,
///  "records": [
///   {"name": "state", "fields": [{"name": "h", "shape": [4]}]}],
///  "parameters": [
///   {"name": "w", "shape": [4, 4]}],
///  "initial_values": [],
///  "cells": [
///   {"name": "step", "record": "state",
///    "tables": [],
///    "ports": [{"name": "previous", "record": "state"}],
///    "operations": [
///     {"op": "input", "port": 0, "field": 0},
///     {"op": "parameter", "name": "w"},
///     {"op": "matmul", "operands": [1, 0]},
///     {"op": "tanh", "operands": [2]}],
///    "outputs": [3]}]}
/// "#;
/// let network = network_from_json(text)?;
/// assert_eq!(network.kind_names(), ["step"]);
/// assert_eq!(network_to_json(&network)?, text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the text is not a valid network of version 1, or exceeds a limit. The error says where, and
/// what was expected. `docs/networks-as-data/network-json.md` has the format and the limits.
pub fn network_from_json(text: &str) -> Result<Network, JsonFault> {
    if text.len() > MAX_BYTES {
        let (expected, got) = (format!("at most {MAX_BYTES} bytes"), format!("{}", text.len()));
        return Err(JsonFault::new(text, 0, expected, got));
    }
    let text = without_mark(text);
    check_strings(text)?;
    let file: File<'_> = serde_json::from_str(text).map_err(|error| {
        version_fault(text).unwrap_or_else(|| JsonFault::of(text, 0, &error, SYNTAX))
    })?;
    if file.edbatch_network != VERSION {
        return Err(wrong_version(text, file.edbatch_network));
    }
    let mut reader = Reader::new(text);
    file.records.0.iter().try_for_each(|raw| reader.record(raw))?;
    file.parameters.0.iter().try_for_each(|raw| reader.parameter(raw))?;
    file.initial_values.0.iter().try_for_each(|raw| reader.initial_value(raw))?;
    file.cells.0.iter().try_for_each(|raw| reader.cell(raw))?;
    Ok(reader.network)
}

const SYNTAX: &str = "{\"edbatch_network\": 1, \"records\": […], \"parameters\": […], \
                      \"initial_values\": […], \"cells\": […]}";

/// The error for a file of another version, even if it has other members.
fn version_fault(text: &str) -> Option<JsonFault> {
    #[derive(Deserialize)]
    struct Version {
        edbatch_network: u64,
    }
    let Version { edbatch_network } = serde_json::from_str(text).ok()?;
    (edbatch_network != VERSION).then(|| wrong_version(text, edbatch_network))
}

fn wrong_version(text: &str, version: u64) -> JsonFault {
    let expected = format!("\"edbatch_network\": {VERSION}, the version that this program reads");
    JsonFault::new(text, 0, expected, version.to_string())
}
