//! A stack of LSTM layers, each with a learned initial state.

use edbatch_graph::{CellError, Kind, Network, RecordId, Value};
use edbatch_models::{Build, BuildError};

use crate::cells::lstm;

/// A stack of LSTMs, bottom layer first.
#[derive(Clone, Debug)]
pub(crate) struct Stack(Vec<Layer>);

/// An LSTM of a stack, and its initial state.
#[derive(Clone, Copy, Debug)]
struct Layer {
    cell: Kind,
    start: Value,
}

/// The source of the bottom layer's inputs: rows of a table, or values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reads<'a> {
    /// The name of the table, its number of rows and its row length.
    Table(&'a str, [usize; 2]),
    /// A record of one vector.
    Record(RecordId),
}

/// One input of the bottom layer: a row of the table or a value, as declared by [`Reads`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Row(u32),
    Value(Value),
}

impl Stack {
    /// Declares `layers` cells named `{name}.{k}` with parameters of the same prefix.
    pub(crate) fn new(
        network: &mut Network,
        name: &str,
        layers: usize,
        state: RecordId,
        reads: Reads<'_>,
    ) -> Result<Self, CellError> {
        let layer = |k| {
            let name = format!("{name}.{k}");
            let cell = network.cell(&name, state, |cell| {
                let x = match (k, reads) {
                    (0, Reads::Table(table, dims)) => cell.lookup("token", table, &dims),
                    (0, Reads::Record(record)) => {
                        let [x] = cell.one("token", record);
                        x
                    }
                    _ => {
                        let [h, _] = cell.one("below", state);
                        h
                    }
                };
                lstm(cell, &name, x, cell.one("previous", state))
            })?;
            let start = network.initial(state, &[&format!("{name}.h0"), &format!("{name}.c0")])?;
            Ok(Layer { cell, start })
        };
        Ok(Self((0..layers).map(layer).collect::<Result<_, CellError>>()?))
    }

    /// Calls every layer for each step. Returns the states of the top layer, one for each step.
    pub(crate) fn build(
        &self,
        build: &Build<'_>,
        steps: impl Iterator<Item = Step>,
    ) -> Result<Vec<Value>, BuildError> {
        let Some((bottom, above)) = self.0.split_first() else {
            return Err(BuildError::Input("a stack of no layers: expected at least one".into()));
        };
        let mut state = bottom.start;
        let mut states = Vec::with_capacity(steps.size_hint().0);
        for step in steps {
            state = match step {
                Step::Row(row) => build.call(bottom.cell, &[row], &[state])?,
                Step::Value(x) => build.call(bottom.cell, &[], &[x, state])?,
            };
            states.push(state);
        }
        for layer in above {
            let mut state = layer.start;
            for below in &mut states {
                state = build.call(layer.cell, &[], &[*below, state])?;
                *below = state;
            }
        }
        Ok(states)
    }
}
