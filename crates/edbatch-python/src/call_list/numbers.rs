//! The values of a call list by number.
//!
//! Values are plain ints, because objects of ours would cost more than the calls. They count on
//! across awaits, so a value from before an await is below the first number of its round.

use edbatch::graph::Value;
use pyo3::prelude::*;

use crate::cell::Cell;
use crate::errors::CallError;
use crate::network::Network;

/// The values by number.
pub(crate) struct Numbers {
    pub(crate) network: Py<Network>,
    /// The values from number `first` on.
    pub(super) made: Vec<Value>,
    pub(super) first: i64,
}

impl Numbers {
    /// Appends a value. Returns its number.
    pub(super) fn push(&mut self, value: Value) -> i64 {
        self.made.push(value);
        self.end() - 1
    }

    /// The number of the next value.
    pub(super) fn end(&self) -> i64 {
        self.first + self.made.len() as i64
    }

    /// Ends all values. Numbers count on.
    pub(super) fn clear(&mut self) {
        self.first = self.end();
        self.made.clear();
    }

    /// Returns the value with a number, or `None` if it does not exist or was not carried.
    #[inline]
    fn get(&self, number: i64) -> Option<Value> {
        match number {
            0.. => self.made.get(usize::try_from(number - self.first).ok()?).copied(),
            _ => {
                let index = usize::try_from(-1 - number).ok()?;
                self.network.get().with(|network| network.initial_value(index))
            }
        }
    }

    /// Returns the value with a number that is an operand.
    #[inline]
    pub(crate) fn value(&self, number: i64, place: impl Fn() -> String) -> PyResult<Value> {
        self.get(number).ok_or_else(|| self.no_value(number, &place()))
    }

    #[cold]
    fn no_value(&self, number: i64, place: &str) -> PyErr {
        let initial = self.network.get().with(|network| network.initial_values().len());
        let end = self.end();
        let reason = if number >= end {
            let last = match end - self.first {
                0 => "there is none yet".to_string(),
                _ => format!("the last one is {}", end - 1),
            };
            format!("value {number} does not exist: {last}. Values belong to one input")
        } else if number >= 0 {
            format!(
                "value {number} was made before an await or `clear`, and was not carried: pass it \
                 after the awaited value, `answer, v = await b.fetch(…, v)`, and use the value \
                 that comes back"
            )
        } else {
            format!("value {number} does not exist: the network has {initial} initial values")
        };
        CallError::new_err(format!("{place}: {reason}"))
    }

    #[cold]
    pub(super) fn check_network(&self, cell: &Cell) -> PyResult<()> {
        cell.kind_in(self.network.get()).map(drop)
    }
}
