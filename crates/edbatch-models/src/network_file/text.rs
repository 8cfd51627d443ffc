//! The text of a file: parses its parts, and makes errors with the line and the column.

use std::collections::HashMap;

use edbatch_graph::{CellError, Shape};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::items::{Dims, Items, Name};
use crate::JsonFault;

/// The text of a file.
#[derive(Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a str);

impl Text<'_> {
    /// Parses an item of the file that has a name. `what` describes it, in error messages.
    pub(super) fn item<'r, T: Deserialize<'r>>(
        &self,
        raw: &'r RawValue,
        syntax: &str,
        what: &str,
    ) -> Result<T, JsonFault> {
        #[derive(Deserialize)]
        struct Named {
            name: Name,
        }
        self.parse(raw, syntax).map_err(|fault| match serde_json::from_str(raw.get()) {
            Ok(Named { name: Name(name) }) => fault.within(&format!("{what} {name}")),
            Err(_) => fault.within(what),
        })
    }

    /// Parses a part of the file.
    pub(super) fn parse<'r, T: Deserialize<'r>>(
        &self,
        raw: &'r RawValue,
        syntax: &str,
    ) -> Result<T, JsonFault> {
        serde_json::from_str(raw.get())
            .map_err(|error| JsonFault::of(self.0, self.start(raw), &error, syntax))
    }

    fn start(&self, raw: &RawValue) -> usize {
        raw.get().as_ptr() as usize - self.0.as_ptr() as usize
    }

    /// An error at an item.
    pub(super) fn fault(
        &self,
        raw: &RawValue,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> JsonFault {
        JsonFault::new(self.0, self.start(raw), expected, got)
    }

    /// The error of a declaration.
    pub(super) fn invalid(&self, raw: &RawValue, error: &CellError) -> JsonFault {
        let CellError { cell, at, shapes, expected, got, .. } = error;
        let shapes: Vec<String> = shapes.iter().map(Shape::to_string).collect();
        let of = if shapes.is_empty() { "" } else { " of " };
        let place = if cell.is_empty() { String::new() } else { format!("cell {cell}: ") };
        let place = format!("{place}{at}{of}{}", shapes.join(" and "));
        match got {
            Some(got) => self.fault(raw, &**expected, &**got).within(&place),
            None => JsonFault { got: place, ..self.fault(raw, &**expected, "") },
        }
    }

    /// Counts items. The sum may be at most `max`.
    pub(super) fn count(
        &self,
        raw: &RawValue,
        count: usize,
        max: usize,
        what: &str,
    ) -> Result<(), JsonFault> {
        if count <= max {
            return Ok(());
        }
        let expected = format!("at most {max} {what}");
        Err(self.fault(raw, expected, count.to_string()))
    }

    pub(super) fn shape(
        &self,
        raw: &RawValue,
        Items(dims): &Dims,
        of: &str,
    ) -> Result<Shape, JsonFault> {
        Shape::new(dims).ok_or_else(|| {
            let expected = "a shape [n] or [rows, columns] of at least one element and fewer than \
                            2^31";
            self.fault(raw, expected, format!("{dims:?}")).within(of)
        })
    }

    pub(super) fn named<I: Copy>(
        &self,
        known: &HashMap<String, I>,
        Name(name): &Name,
        what: &str,
        raw: &RawValue,
        of: &str,
    ) -> Result<I, JsonFault> {
        known.get(name).copied().ok_or_else(|| {
            let expected = format!("the name of a {what} of this file");
            self.fault(raw, expected, format!("{name:?}")).within(of)
        })
    }
}
