//! The calls of an input as arrays, read into a call list.

use edbatch::graph::{Kind, RecordId, Value};
use edbatch::models::CallList;
use edbatch::runtime::try_memory;

use crate::objects::{Running, Template};
use crate::pointers::Array;
use crate::status::{Code, Failure};
use crate::structs::edbatch_calls;

/// More floats than this are given only after a trial allocation, since a call list cannot report a
/// failed one.
const SMALL: usize = 1 << 14;

#[cold]
fn invalid(message: String) -> Failure {
    Failure::new(Code::Call, message)
}

/// Returns the offsets of calls. Fails unless they ascend from 0 to the number of operands.
pub(crate) fn offsets(
    array: &Array<u32>,
    calls: usize,
    operand_count: usize,
) -> Result<&[u32], Failure> {
    let offsets = match calls {
        0 => &[0],
        // No array is so long that this overflows into a valid length.
        _ => array.slice("offsets", calls.saturating_add(1))?,
    };
    if let Some(index) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        let index = index + 1;
        return Err(invalid(format!("offset {index} is smaller than the one before it")));
    }
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    match (first, last as usize) == (0, operand_count) {
        true => Ok(offsets),
        false => Err(invalid(format!(
            "expected offsets from 0 to {operand_count}, the number of operands, got {first} to \
             {last}"
        ))),
    }
}

impl Running {
    /// Reads an input into an empty list. Returns the number of floats of its outputs.
    pub(crate) fn read_input(
        &mut self,
        template: &Template,
        input: &edbatch_calls,
        list: &mut CallList,
    ) -> Result<usize, Failure> {
        let cells = input.cells.slice("cells", input.calls)?;
        let operands = input.operands.slice("operands", input.operand_count)?;
        let offsets = offsets(&input.offsets, input.calls, input.operand_count)?;
        let emit = input.emit.slice("emit", input.emits)?;
        let records = input.give_records.slice("give_records", input.gives)?;
        let elements = input.give_elements.slice("give_elements", input.give_floats)?;
        self.made.clear();
        let reserved = self.made.try_reserve(records.len() + cells.len());
        reserved.map_err(|_| Failure::memory("the values of an input"))?;
        self.give(template, list, records, elements)?;
        list.reserve(cells.len(), operands.len(), operands.len())?;
        for (call, (&cell, ends)) in cells.iter().zip(offsets.windows(2)).enumerate() {
            self.call(template, list, call, cell, &operands[ends[0] as usize..ends[1] as usize])?;
        }
        let mut floats = 0;
        for &number in emit {
            let value = self.value(template, number);
            let value = value.ok_or_else(|| invalid(format!("emit: {}", self.no_value(number))))?;
            list.emit(value)?;
            let record = list.graph().record_of(value).expect("it was just emitted");
            floats += template.width(record.0).expect("a record of the network");
        }
        Ok(floats)
    }

    fn give(
        &mut self,
        template: &Template,
        list: &mut CallList,
        records: &[u16],
        mut elements: &[f32],
    ) -> Result<(), Failure> {
        if elements.len() > SMALL {
            try_memory(size_of_val(elements), "given values")?;
        }
        let mut needed = 0usize;
        for (index, &record) in records.iter().enumerate() {
            let width = template.width(record).ok_or_else(|| {
                invalid(format!("given value {index}: record {record} does not exist"))
            })?;
            needed = needed.saturating_add(width);
        }
        if needed != elements.len() {
            let got = elements.len();
            return Err(invalid(format!("expected {needed} floats of given values, got {got}")));
        }
        for &record in records {
            let (value, rest) = elements.split_at(template.width(record).expect("checked above"));
            elements = rest;
            self.made.push(list.give(RecordId(record), value)?);
        }
        Ok(())
    }

    fn call(
        &mut self,
        template: &Template,
        list: &mut CallList,
        call: usize,
        cell: Kind,
        operands: &[i32],
    ) -> Result<(), Failure> {
        let cells = template.network().cells();
        let Some(declared) = cells.get(cell.index()) else {
            let (cell, cells) = (cell.0, cells.len());
            let reason = format!("cell {cell} does not exist: the network has {cells} cells");
            return Err(invalid(format!("call {call}: {reason}")));
        };
        let place = || format!("call {call}: call of {}", declared.name());
        let (rows, values) = operands.split_at(declared.tables().len().min(operands.len()));
        if let Some(row) = rows.iter().find(|&&row| row < 0) {
            let reason = format!("row {row} does not exist: rows begin at 0");
            return Err(invalid(format!("{}: {reason}", place())));
        }
        self.rows.clear();
        self.values.clear();
        let reserved = self.rows.try_reserve(rows.len());
        let reserved = reserved.and_then(|()| self.values.try_reserve(values.len()));
        reserved.map_err(|_| Failure::memory("the operands of a call"))?;
        self.rows.extend(rows.iter().map(|&row| row as u32));
        for &number in values {
            let value = self.value(template, number);
            let missing = || invalid(format!("{}: {}", place(), self.no_value(number)));
            let value = value.ok_or_else(missing)?;
            self.values.push(value);
        }
        let value = list.call(cell, &self.rows, &self.values).map_err(|error| {
            let Failure { code, message } = error.into();
            Failure::new(code, format!("call {call}: {message}"))
        })?;
        self.made.push(value);
        Ok(())
    }

    /// Returns the value with a number, if it exists.
    fn value(&self, template: &Template, number: i32) -> Option<Value> {
        match usize::try_from(number) {
            Ok(number) => self.made.get(number).copied(),
            Err(_) => template.network().initial_value((-1 - i64::from(number)) as usize),
        }
    }

    #[cold]
    fn no_value(&self, number: i32) -> String {
        let made = self.made.len();
        format!(
            "value {number} does not exist: expected a number below {made}, or that of an initial \
             value"
        )
    }
}
